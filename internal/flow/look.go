package flow

import (
	"context"
	"errors"
	"slices"
	"strings"

	"holdpoint/fileops"
	"holdpoint/internal/journal"
	"holdpoint/op"
	"holdpoint/preflight"
	"holdpoint/undo"
)

// look sees what a call stands on and plans it. What could not be seen or planned is a
// missing fact; an error is a call that no approval could make succeed.
func (e *Engine) look(ctx context.Context, c *call) error {
	c.facts = op.Facts{WorkspaceBound: c.ws.Root.Check() == nil, ChangeBytes: -1}
	if err := c.ws.refresh(ctx); err != nil {
		return err
	}
	if c.spec.Class == op.Reverting {
		return e.lookBack(ctx, c)
	}
	if c.spec.Class == op.Batch {
		return e.lookBatch(ctx, c)
	}
	if c.spec.Class == op.Process {
		if err := e.lookProcess(ctx, c); err != nil {
			c.close()
			return err
		}
		return nil
	}
	switch c.req.Op {
	case op.SwitchProfile:
		return e.lookSwitch(ctx, c)
	case op.ListProfiles:
		c.sight = &preflight.Sight{Available: true}
		c.facts.Available, c.facts.Planned, c.facts.ChangeBytes = true, true, 0
		return nil
	}
	depth := preflight.Shallow
	if c.deep() {
		depth = preflight.Deep
	}
	subjects, err := fileops.Subjects(c.args)
	if err != nil {
		return err
	}
	if err := e.see(ctx, c, plainSubjects(subjects), depth); err != nil {
		return err
	}
	for i, s := range subjects {
		c.facts.Targets[i].Deletes = s.Deletes
	}
	if c.spec.Class == op.Read {
		c.facts.Planned, c.facts.ChangeBytes = true, 0
		return nil
	}
	scene := c.scene()
	scene.Aside = e.cfg.Aside
	if c.req.Op == op.RollbackFile {
		scene.Backup, err = e.backupOf(ctx, c, c.facts.Targets[0].Path)
	}
	var plan *fileops.Plan
	if err == nil {
		plan, err = fileops.NewPlan(ctx, scene)
	}
	if err != nil {
		c.close()
		return err
	}
	e.places(ctx, c, plan)
	c.planned(plan)
	return nil
}

func (e *Engine) see(ctx context.Context, c *call, subjects []op.Subject, depth preflight.Depth) error {
	var marks preflight.Marker
	if !c.plain {
		marks = c.ws
	}
	sight, err := preflight.Look(ctx, c.ws.Root, marks, subjects, depth)
	if err != nil {
		return err
	}
	c.sight, c.facts.Available, c.facts.Targets = sight, sight.Available, sight.Targets
	return nil
}

// planned takes the plan's facts over.
func (c *call) planned(p *fileops.Plan) {
	c.plan = p
	c.facts.Planned, c.facts.Mutates = true, len(p.Steps) > 0
	c.facts.ChangeBytes, c.facts.Overwrites, c.facts.Creates = p.ChangeBytes, p.Overwrites, p.Creates
	c.warnings = append(c.warnings, p.Warnings...)
	if p.NewContent != nil && !c.facts.Targets[0].Sensitive {
		c.facts.Targets[0].Sensitive = c.ws.Sensitive(c.facts.Targets[0].Path, added(c.facts.Targets[0], p))
	}
	for _, pl := range p.Contents {
		for i, t := range c.facts.Targets {
			if t.Path == pl.Path && c.ws.Sensitive(t.Path, pl.Head) {
				c.facts.Targets[i].Sensitive = true
			}
		}
	}
	if p.Diff.Text != "" && hidden(p.Diff.Text) {
		c.warnings = append(c.warnings, op.Warning{Code: "hidden_characters", Message: "the change holds characters that do not show"})
	}
}

func plainSubjects(list []fileops.PartSubject) []op.Subject {
	out := make([]op.Subject, 0, len(list))
	for _, s := range list {
		out = append(out, s.Subject)
	}
	return out
}

// added is what a change brings in: of a file that was looked through already only the
// diff, else all of it.
func added(t op.Target, p *fileops.Plan) []byte {
	if t.Exists && t.Kind == op.File && p.Diff.Text != "" && !p.Diff.Binary && !p.Diff.Escaped {
		return []byte(p.Diff.Text)
	}
	return p.NewContent
}

// hidden reports characters that do not show, other than line ends and tabs. A carriage
// return that ends no line is one: a terminal goes back on it, and git believes it.
func hidden(s string) bool {
	if strings.Count(s, "\r") > strings.Count(s, "\r\n") {
		return true
	}
	return strings.IndexFunc(s, func(r rune) bool { return r != '\n' && r != '\t' && r != '\r' && op.Invisible(r) }) >= 0
}

// lookBack is look for an undo: the operation's own steps, reversed.
func (e *Engine) lookBack(ctx context.Context, c *call) error {
	a := c.args.(*op.UndoArgs)
	if a.Operations != nil {
		if a.Credential != nil || a.OperationID != "" {
			return op.Fail(op.BadRequest, "give a credential, an operation id, or several as operations").In("args.operations")
		}
		return e.lookBackMany(ctx, c, a)
	}
	if a.Merge || a.KeepGoing {
		a.Operations = append(a.Operations, a.OperationID)
		if a.OperationID == "" {
			return op.Fail(op.BadRequest, "merge and keep_going go with operation ids").In("args.operations")
		}
		return e.lookBackMany(ctx, c, a)
	}
	o, err := e.meant(ctx, c, a)
	if err != nil {
		return err
	}
	c.undoes = &o
	c.warnings = append(c.warnings, escapedOf(o)...)
	if err := e.keeper.Usable(o, c.by, c.ws.Key); err != nil {
		return err
	}
	if (a.Force || o.Op == op.Undo) && tangled(o.Steps) {
		return e.lookBackTangled(ctx, c, o, a.Force)
	}
	subjects, hidden := e.reachable(ctx, c, o.Steps)
	now, err := e.seeBack(ctx, c, subjects)
	if err != nil {
		return err
	}
	for _, p := range hidden {
		c.facts.Targets = append(c.facts.Targets, preflight.Place(ctx, c.ws, p, false, nil))
	}
	steps, err := e.revert(ctx, c, o, a.Force, now)
	if err != nil {
		c.close()
		return e.spent(ctx, c, err)
	}
	plan := fileops.NewRevert(steps)
	plan.Title = "Undo " + string(o.Op)
	c.planned(plan)
	c.facts.Mutates, c.facts.ChangeBytes = true, 0
	return nil
}

// seeBack sees what an undo changes, as much at once as a change may hold open, and gives how
// each path is now.
func (e *Engine) seeBack(ctx context.Context, c *call, subjects []op.Subject) (map[op.Path]op.State, error) {
	now := map[op.Path]op.State{}
	c.sight = &preflight.Sight{Available: true}
	for from := 0; from < len(subjects); from += seenAtOnce {
		sight, err := preflight.Look(ctx, c.ws.Root, c.ws, subjects[from:min(from+seenAtOnce, len(subjects))], preflight.Deep)
		if err != nil {
			return nil, err
		}
		for i, n := range sight.Nodes {
			t := sight.Targets[i]
			now[n.Path] = op.State{Kind: t.Kind, Hash: t.Hash, Size: t.Size, Mode: t.Mode, Target: n.Info.Target, Meta: n.Meta()}
		}
		c.facts.Targets = append(c.facts.Targets, sight.Targets...)
		c.sight.Available = c.sight.Available && sight.Available
		sight.Close()
	}
	c.facts.Available = c.sight.Available
	return now, nil
}

// spent words a conflict for whoever asked second: the tree is not what the operation left
// because somebody else is taking the operation back, or has.
func (e *Engine) spent(ctx context.Context, c *call, err error) error {
	if c.undoes == nil || op.AsError(err).Code != op.UndoConflict {
		return err
	}
	o, gone := e.jrn.Operation(ctx, c.undoes.ID)
	if gone != nil {
		return err
	}
	if used := e.keeper.Usable(o, c.by, c.ws.Key); errors.Is(used, op.UndoConsumed) {
		return used
	}
	return err
}

// inItsRoot gives an undo that names no root that of its operation. Where there is none
// that the caller may use, any of theirs will do: the answer is that it is unknown.
func (e *Engine) inItsRoot(ctx context.Context, by op.Caller, req op.Request) op.Request {
	if req.Op == op.RollbackFile {
		return e.lastBackup(ctx, by, req)
	}
	if req.Op != op.Undo || req.Root != "" || e.onlyRoot() {
		return req
	}
	id, _ := req.Args["operation_id"].(string)
	if list, ok := req.Args["operations"].([]any); ok && len(list) > 0 {
		id, _ = list[0].(string)
	}
	if c, ok := req.Args["credential"].(op.Object); ok {
		id, _ = c["operation_id"].(string)
	}
	o, err := e.jrn.Operation(ctx, op.ID(strings.Replace(id, "un_", "op_", 1)))
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, w := range e.roots {
		if mayUse(by, w) && (req.Root == "" || err == nil && w.Key == o.Root) {
			req.Root = w.Key
		}
	}
	return req
}

// onlyRoot reports whether there is one root, which every call means that names none.
func (e *Engine) onlyRoot() bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return len(e.roots) == 1
}

// meant finds the operation that an undo names by credential or id.
func (e *Engine) meant(ctx context.Context, c *call, a *op.UndoArgs) (journal.Operation, error) {
	id := op.ID(a.OperationID)
	switch {
	case a.Credential != nil && a.OperationID != "":
		return journal.Operation{}, op.Fail(op.BadRequest, "give a credential or an operation id, not both").In("args.operation_id")
	case a.Credential != nil:
		var err error
		if id, err = e.keeper.Read(a.Credential); err != nil {
			return journal.Operation{}, err
		}
	case strings.HasPrefix(a.OperationID, "un_"):
		id = "op_" + id[len("un_"):]
	case strings.HasPrefix(a.OperationID, "run_"):
		if id = e.operationOf(c, id); id == "" {
			return journal.Operation{}, op.Fail(op.UndoUnknown, "nothing of this run can be taken back: it changed nothing that was kept or that it made, or its operation is known by its own id only").In("args.operation_id").
				Do("rehearse the command: what it changes then is landed by a card of its own, and undone by one credential; or name what to keep by snapshot")
		}
	case a.OperationID == "":
		return journal.Operation{}, op.Fail(op.BadRequest, "an undo names a credential or an operation id").In("args.operation_id")
	}
	o, err := e.jrn.Operation(ctx, id)
	if op.AsError(err) != nil && op.AsError(err).Code == op.NotFound {
		return o, op.Fail(op.UndoUnknown, "no such operation to undo").Do("list your operations with log")
	}
	return o, err
}

// revert gives the steps back, and refuses when a path is not what the operation left.
func (e *Engine) revert(ctx context.Context, c *call, o journal.Operation, force bool, now map[op.Path]op.State) ([]op.Step, error) {
	steps, err := undo.Revert(ctx, c.ws.Store, o.Steps, e.slot)
	if err != nil {
		return nil, err
	}
	if force {
		return undo.Forced(o.Steps, func(p op.Path) (op.State, error) {
			if s, ok := now[p]; ok {
				return s, nil
			}
			return op.State{Kind: op.Absent}, nil
		}, e.slot)
	}
	var there []int
	stands := standing(steps)
	for i, s := range steps {
		if s.Do == op.RemoveDir || !s.Do.InTree() || stands[i] {
			continue // the last is compared when its turn comes
		}
		is, seen := now[s.Path]
		if s.Do == op.MakeDir && is.Kind == op.Directory {
			there = append(there, i) // it was not empty, and stayed
			continue
		}
		if seen && !is.Equal(s.Before) {
			return nil, conflict(s, is)
		}
		// What stands there now is what the step replaces, with its size and mode.
		if seen && s.Before.Kind == is.Kind {
			steps[i].Before = is
		}
	}
	for _, i := range slices.Backward(there) {
		steps = slices.Delete(steps, i, i+1)
	}
	return steps, nil
}

func conflict(s op.Step, is op.State) error {
	msg := "this path is no longer what the operation left: "
	switch {
	case s.Before.Kind != is.Kind:
		msg += "it was " + string(s.Before.Kind) + ", it is " + string(is.Kind)
	case s.Before.Hash != is.Hash:
		msg += "left " + string(s.Before.Hash) + ", is " + string(is.Hash)
	case s.Before.Mode == is.Mode:
		msg += "its owner, its access list or its attributes changed"
	default:
		msg += "left mode " + s.Before.Mode + ", is " + is.Mode
	}
	err := op.Fail(op.UndoConflict, msg).At(s.Path).Do("nothing was changed; force keeps the later version under a new credential")
	err.CurrentHash, err.Expected = is.Hash, s.Before.Hash
	return err
}

// reachable parts the paths of an operation into those that can be looked at and those
// that only taking back its later steps brings in reach again: where the operation put a
// file in the place of a directory, what was below that is under no path now.
func (e *Engine) reachable(ctx context.Context, c *call, steps []op.Step) (look []op.Subject, hidden []op.Path) {
	back := op.Inverse(inTree(steps))
	depends := map[op.Path]bool{}
	for i, stands := range standing(back) {
		if stands {
			depends[back[i].Path], depends[back[i].To] = true, true
		}
	}
	for _, s := range revertSubjects(steps) {
		text, _ := op.Unescape(s.Asked)
		if p := op.Path(text); depends[p] {
			n, err := c.ws.Root.Look(ctx, p, false)
			if err == nil {
				n.Close()
			}
			if errors.Is(err, op.NotADirectory) || err == nil && n.Path != p {
				hidden = append(hidden, p)
				continue
			}
		}
		look = append(look, s)
	}
	return look, hidden
}

// revertSubjects names the paths of an operation for looking at.
func revertSubjects(steps []op.Step) []op.Subject {
	var out []op.Subject
	for _, s := range steps {
		at := s.Path
		if s.Do == op.Move {
			at = s.To
		}
		out = append(out, op.Subject{Arg: "operation_id", Asked: op.Escape(string(at)), Role: op.RoleTarget})
		if s.Do == op.Move {
			out = append(out, op.Subject{Arg: "operation_id", Asked: op.Escape(string(s.Path)), Role: op.RoleTarget})
		}
	}
	return out
}

// slot names a place in the store; it never grows with the name of what it holds.
func (e *Engine) slot() string { return string(e.jrn.NewID("s")) }

var _ preflight.Marker = (*Workspace)(nil)
