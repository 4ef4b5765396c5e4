package flow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"holdpoint/fileops"
	"holdpoint/internal/journal"
	"holdpoint/internal/rooted"
	"holdpoint/op"
	"holdpoint/preflight"
	"holdpoint/undo"
)

// MaxGroup is how many operations one undo may name.
const MaxGroup = 5000

// GroupPlan is what an undo of several operations would do, path by path.
type GroupPlan struct {
	Undo    int         `json:"undo"`     // parts that are taken back as they are
	Merge   int         `json:"merge"`    // parts that others changed elsewhere
	Refused int         `json:"refused"`  // parts that cannot be taken back
	NotOurs int         `json:"not_ours"` // paths that others changed in that time, which are left alone
	Units   []GroupUnit `json:"units"`
}

// GroupUnit is one part.
type GroupUnit struct {
	Operations []op.ID   `json:"operations"`
	Paths      []string  `json:"paths"`
	Outcome    string    `json:"outcome"` // undo, merge, refused
	Why        *op.Error `json:"why,omitempty"`
	Diff       string    `json:"diff,omitempty"`
}

// texts lends the text engine to package undo.
type texts struct{}

func (texts) Merge(base, ours, theirs []byte) ([]byte, bool) {
	return fileops.Merge(base, ours, theirs)
}
func (texts) After(p op.Path, before, diff []byte, want op.Digest) ([]byte, bool) {
	return fileops.After(p, before, diff, want)
}

// lookBackMany is look for an undo of several operations as one. With merge, what others
// changed elsewhere in the same files stays; with keep_going, parts that cannot be taken
// back are left out. Without them such a part ends the whole, and nothing is changed.
func (e *Engine) lookBackMany(ctx context.Context, c *call, a *op.UndoArgs) error {
	ops, err := e.meantMany(ctx, c, a.Operations)
	if err != nil {
		return err
	}
	units, err := e.ways(ctx, c, ops, a.Force)
	if err != nil {
		return err
	}
	c.group = e.groupPlan(ctx, c, ops, units)
	apply := units[:0:0]
	var kept []error
	for _, u := range units {
		if err := left(u, a.Merge || c.req.DryRun); err != nil {
			kept = append(kept, err)
			continue
		}
		apply = append(apply, u)
	}
	if !c.req.DryRun && (len(kept) > 0 && !a.KeepGoing || len(apply) == 0) {
		return refusal(kept, len(units))
	}
	return e.planBack(c, apply)
}

// tangled reports steps that stand on one another: the tree that each leaves is not the one
// that is there now, and only going back in order tells what must be there.
func tangled(steps []op.Step) bool {
	var seen op.Touched
	for _, s := range inTree(steps) {
		if s.Do == op.MakeDir || s.Do == op.RemoveDir {
			continue
		}
		for _, p := range []op.Path{s.Path, s.To} {
			if p == "" {
				continue
			}
			if one := (op.Step{Path: p}); seen.By(one) {
				return true
			} else {
				seen.Add(one)
			}
		}
	}
	return false
}

// lookBackTangled is look for the undo of one operation whose steps stand on one another.
func (e *Engine) lookBackTangled(ctx context.Context, c *call, o journal.Operation, force bool) error {
	units, err := e.ways(ctx, c, []journal.Operation{o}, force)
	if err != nil {
		return err
	}
	for _, u := range units {
		if err := left(u, false); err != nil {
			c.close()
			return e.spent(ctx, c, err)
		}
	}
	if err := e.planBack(c, units); err != nil {
		return err
	}
	delete(c.plan.Result, "plan")
	c.plan.Title, c.undoes = "Undo "+string(o.Op), &o
	return nil
}

// left gives why a part is not taken back; nil when it is.
func left(u undo.Unit, merge bool) error {
	if u.Outcome == undo.Merged && !merge {
		return op.Fail(op.UndoConflict, "others changed it too, elsewhere in the file").At(u.Paths[0]).Do("send merge: true to keep their changes")
	}
	return u.Why
}

func refusal(kept []error, of int) error {
	why := *op.AsError(kept[0])
	why.Message = fmt.Sprintf("%d of %d parts cannot be taken back, the first: %s", len(kept), of, why.Message)
	why.Hint = "rehearse it to see the plan; merge: true keeps what others changed elsewhere, keep_going: true leaves those parts out; nothing was changed"
	return &why
}

// meantMany finds the operations, each once, newest first.
func (e *Engine) meantMany(ctx context.Context, c *call, ids []string) ([]journal.Operation, error) {
	if len(ids) > MaxGroup {
		return nil, op.Fail(op.TooLarge, fmt.Sprintf("more than %d operations in one undo", MaxGroup)).In("args.operations").Do("take back the newest first")
	}
	seen := map[op.ID]bool{}
	var out []journal.Operation
	for i, text := range ids {
		id := op.ID(text)
		if rest, ok := strings.CutPrefix(text, "un_"); ok {
			id = op.ID("op_" + rest)
		}
		if seen[id] {
			continue
		}
		seen[id] = true
		o, err := e.jrn.Operation(ctx, id)
		if errors.Is(err, op.NotFound) {
			err = op.Fail(op.UndoUnknown, "no such operation to undo").Do("list your operations with log")
		}
		if err == nil {
			err = e.keeper.Usable(o, c.by, c.ws.Key)
		}
		if err != nil {
			why := *op.AsError(err)
			why.Field = fmt.Sprintf("args.operations[%d]", i)
			return nil, &why
		}
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b journal.Operation) int { return cmp.Compare(b.Seq, a.Seq) })
	return out, nil
}

// ways looks at all paths of the operations and works out the way back of each part.
func (e *Engine) ways(ctx context.Context, c *call, ops []journal.Operation, force bool) ([]undo.Unit, error) {
	seen, err := e.seeAll(ctx, c, ops)
	if err != nil {
		return nil, err
	}
	g := &undo.Group{Store: c.ws.Store, Texts: texts{}, NewSlot: e.slot, Force: force, Now: func(p op.Path) (op.State, *rooted.Node, error) {
		if v, ok := seen[p]; ok {
			return v.State, v.Node, nil
		}
		// A path inside a directory that was moved since: the directory is pinned as a whole.
		n, err := c.ws.Root.Look(ctx, p, false)
		if err != nil {
			return op.State{}, nil, err
		}
		c.also = append(c.also, n.Close)
		s, err := n.State(ctx)
		s.Meta = n.Meta()
		seen[p] = undo.Version{State: s, Node: n}
		return s, n, err
	}}
	units, done, err := g.Plan(ctx, ops)
	c.also = append(c.also, done)
	if err != nil {
		c.close()
		return nil, err
	}
	return units, nil
}

// seeAll looks at each path of the operations once: at directories that come, go or move
// with all below them, at those that were only made on the way by themselves.
func (e *Engine) seeAll(ctx context.Context, c *call, ops []journal.Operation) (map[op.Path]undo.Version, error) {
	whole, plain := map[op.Path]bool{}, map[op.Path]bool{}
	var deep, shallow []op.Subject
	add := func(p op.Path, s op.Step) {
		if p == "" || whole[p] {
			return
		}
		sub := op.Subject{Arg: "operations", Asked: op.Escape(string(p)), Role: op.RoleTarget}
		switch {
		case s.Do == op.MakeDir || s.Do == op.RemoveDir:
			if !plain[p] {
				plain[p], sub.Role = true, op.RoleParent
				shallow = append(shallow, sub)
			}
		default:
			whole[p] = true
			deep = append(deep, sub)
		}
	}
	for _, o := range ops {
		for _, s := range o.Steps {
			add(s.Path, s)
			add(s.To, s)
		}
	}
	shallow = slices.DeleteFunc(shallow, func(s op.Subject) bool { p, _ := op.Unescape(s.Asked); return whole[op.Path(p)] })
	seen := map[op.Path]undo.Version{}
	deep, shallow = e.inReach(ctx, c, ops, deep, seen), e.inReach(ctx, c, ops, shallow, seen)
	c.facts.Available = true
	for _, part := range []struct {
		subjects []op.Subject
		depth    preflight.Depth
	}{{deep, preflight.Deep}, {shallow, preflight.Shallow}} {
		if len(part.subjects) == 0 {
			continue
		}
		sight, err := preflight.Look(ctx, c.ws.Root, c.ws, part.subjects, part.depth)
		if err != nil {
			c.close()
			return nil, err
		}
		if c.sight == nil {
			c.sight = sight
		} else {
			c.also = append(c.also, sight.Close)
		}
		c.facts.Available = c.facts.Available && sight.Available
		for i, n := range sight.Nodes {
			t := sight.Targets[i]
			seen[n.Path] = undo.Version{State: op.State{Kind: t.Kind, Hash: t.Hash, Size: t.Size, Mode: t.Mode, Target: n.Info.Target, Meta: n.Meta()}, Node: n}
		}
		c.facts.Targets = append(c.facts.Targets, sight.Targets[:len(sight.Nodes)]...)
	}
	return seen, nil
}

// inReach leaves out the paths that only going back brings in reach again, as what lay below
// a directory where a file stands now. They are absent until then, and judged by name.
func (e *Engine) inReach(ctx context.Context, c *call, ops []journal.Operation, list []op.Subject, seen map[op.Path]undo.Version) []op.Subject {
	var depends map[op.Path]bool
	return slices.DeleteFunc(list, func(s op.Subject) bool {
		text, _ := op.Unescape(s.Asked)
		p := op.Path(text)
		n, err := c.ws.Root.Look(ctx, p, false)
		if err == nil {
			n.Close()
		}
		if !errors.Is(err, op.NotADirectory) && (err != nil || n.Path == p) {
			return false
		}
		if depends == nil {
			depends = map[op.Path]bool{}
			var back []op.Step
			for _, o := range ops {
				back = append(back, op.Inverse(inTree(o.Steps))...)
			}
			for i, stands := range standing(back) {
				if stands {
					depends[back[i].Path], depends[back[i].To] = true, true
				}
			}
		}
		if !depends[p] {
			return false // the look says what is wrong
		}
		seen[p] = undo.Version{State: op.State{Kind: op.Absent}}
		c.facts.Targets = append(c.facts.Targets, preflight.Place(ctx, c.ws, p, false, nil))
		return true
	})
}

// planBack makes one plan of the parts that are taken back.
func (e *Engine) planBack(c *call, units []undo.Unit) error {
	plan := fileops.NewRevert(nil)
	var ids []op.ID
	var diff strings.Builder
	for _, u := range units {
		ids = append(ids, u.Operations...)
		diff.WriteString(unitDiff(u))
	}
	for _, b := range undo.Order(units) {
		if b.Content == nil {
			plan.Back(b.Step)
			continue
		}
		if err := plan.BackWith(b.Step, b.Content, b.Like, b.Mode); err != nil {
			return err
		}
	}
	plan.Title = fmt.Sprintf("Undo %d operations", len(ids))
	plan.Diff.Text = diff.String()
	plan.Result["plan"] = c.group
	if c.req.DryRun {
		plan.Result["diff"] = plan.Diff.Text
	}
	c.undoes = &journal.Operation{ID: journal.Joined(ids), Op: op.Undo}
	c.planned(plan)
	c.facts.Mutates, c.facts.ChangeBytes = true, 0
	return nil
}

// maxShown bounds the diff of a rehearsal, in bytes for each part.
const maxShown = 256 << 10

// unitDiff shows what one part changes in files that are not large.
func unitDiff(u undo.Unit) string {
	var b strings.Builder
	for _, ch := range u.Changes {
		if ch.Now.State.Kind == op.Directory || ch.Old.State.Kind == op.Directory {
			continue
		}
		now, err1 := ch.Now.Read()
		old, err2 := ch.Old.Read()
		if err1 != nil || err2 != nil {
			fmt.Fprintf(&b, "%s is too large to show\n", op.Visible(op.Escape(string(ch.Path)), false))
			continue
		}
		b.WriteString(fileops.Unified(ch.Path, now, old, ch.Now.State.Kind == op.File, ch.Old.State.Kind == op.File).Text)
		if b.Len() > maxShown {
			return b.String()[:maxShown] + "\n... the rest of this part is not shown\n"
		}
	}
	return b.String()
}

// groupPlan words the parts for whoever is asked.
func (e *Engine) groupPlan(ctx context.Context, c *call, ops []journal.Operation, units []undo.Unit) *GroupPlan {
	g := &GroupPlan{Units: []GroupUnit{}}
	mine := map[op.Path]bool{}
	for _, u := range units {
		v := GroupUnit{Operations: u.Operations, Paths: []string{}, Outcome: u.Outcome}
		for _, p := range u.Paths {
			mine[p] = true
			v.Paths = append(v.Paths, op.Escape(string(p)))
		}
		switch u.Outcome {
		case undo.Clean:
			g.Undo++
		case undo.Merged:
			g.Merge++
		default:
			g.Refused++
			v.Why = op.AsError(u.Why)
		}
		if c.req.DryRun {
			v.Diff = unitDiff(u)
		}
		g.Units = append(g.Units, v)
	}
	g.NotOurs = e.notOurs(ctx, c, ops, mine)
	return g
}

// notOurs counts the paths that other operations changed since the oldest of these.
func (e *Engine) notOurs(ctx context.Context, c *call, ops []journal.Operation, mine map[op.Path]bool) (n int) {
	if len(ops) == 0 {
		return 0
	}
	ours := map[op.ID]bool{}
	for _, o := range ops {
		ours[o.ID] = true
	}
	others, err := e.jrn.ChangedSince(ctx, c.ws.Key, ops[len(ops)-1].Seq, ours)
	if err != nil {
		return 0
	}
	for p := range others {
		if !mine[p] {
			n++
		}
	}
	return n
}
