package flow

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"holdpoint/internal/journal"
	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// Elsewhere is what changed in a root since a moment and is not in a list of operations.
//
// It is put together from two sources: the operations of others, which are known exactly,
// and the time stamps of the tree, which the kernel sets at each change and no program sets
// back (ctime). It does not see a name that another program removed from a directory in
// which other names changed as well, nor a change that was made and taken back by hand.
type Elsewhere struct {
	Since    time.Time        `json:"since"`
	Total    int              `json:"total"`
	Changes  []ElsewhereEntry `json:"changes"`  // the first of them, by path
	Complete bool             `json:"complete"` // false: the tree was not looked through to its end
	Why      string           `json:"why,omitempty"`
}

// ElsewhereEntry is one path, or one directory whose paths are only counted.
type ElsewhereEntry struct {
	Path      string    `json:"path"`
	What      string    `json:"what"`
	Time      time.Time `json:"time"`
	Count     int       `json:"count,omitempty"` // of paths below, which git ignores or keeps
	Operation op.ID     `json:"operation_id,omitempty"`
	Agent     string    `json:"agent,omitempty"`
}

const (
	maxElsewhere  = 200             // entries told
	maxLookedAt   = 500_000         // names looked at
	elsewhereTime = 5 * time.Second // for all of it
)

// notOurs is one answer on its way.
type notOurs struct {
	ws    *Workspace
	since time.Time
	by    op.Caller
	ours  map[op.ID]bool

	last  map[op.Path]op.State // what the operations of the window left
	trees map[op.Path]op.State // the same of directories that came with all below them
	runs  map[op.Path]journal.Operation
	found map[op.Path]ElsewhereEntry
	same  map[op.Path]bool // of trees: whether they still are what was left
}

// Elsewhere lists what changed since a moment and belongs to none of the operations. An
// agent learns of the operations of others without whose they are.
func (e *Engine) Elsewhere(ctx context.Context, by op.Caller, root string, since time.Time, ours []op.ID) (Elsewhere, error) {
	out := Elsewhere{Since: since.UTC(), Changes: []ElsewhereEntry{}, Complete: true}
	w, err := e.workspace(by, root)
	if err != nil {
		return out, err
	}
	ops, err := e.jrn.Operations(ctx, journal.Filter{Root: w.Key, Since: since})
	if err != nil {
		return out, err
	}
	n := notOurs{ws: w, since: since, by: by, ours: map[op.ID]bool{}, last: map[op.Path]op.State{}, trees: map[op.Path]op.State{},
		runs: map[op.Path]journal.Operation{}, found: map[op.Path]ElsewhereEntry{}, same: map[op.Path]bool{}}
	for _, id := range ours {
		n.ours[id] = true
	}
	slices.Reverse(ops)
	for _, o := range ops {
		if o.State == journal.Committed || o.State == journal.Undone {
			n.operation(o)
		}
	}
	bounded, cancel := context.WithTimeout(ctx, elsewhereTime)
	defer cancel()
	if err := n.tree(bounded); err != nil {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		out.Complete, out.Why = false, whyPartial(err)
	}
	for _, f := range n.found {
		out.Changes = append(out.Changes, f)
	}
	slices.SortFunc(out.Changes, func(a, b ElsewhereEntry) int { return strings.Compare(a.Path, b.Path) })
	out.Total = len(out.Changes)
	out.Changes = out.Changes[:min(len(out.Changes), maxElsewhere)]
	return out, nil
}

func whyPartial(err error) string {
	switch {
	case errors.Is(err, errEnough):
		return "the tree holds too many names"
	case errors.Is(err, context.DeadlineExceeded):
		return "looking through the tree took too long"
	case errors.Is(err, op.CrossesMount):
		return "another file system is mounted in it"
	}
	return op.AsError(err).Message
}

// operation takes one operation of the window in, oldest first.
func (n *notOurs) operation(o journal.Operation) {
	mine := n.ours[o.ID] || o.Undoes != "" && !slices.ContainsFunc(o.TakesBack(), func(id op.ID) bool { return !n.ours[id] })
	if isProcess(o.Op) {
		var r op.Reply
		if json.Unmarshal(o.Reply, &r) == nil {
			for _, ef := range r.Effects {
				n.runs[ef.Path] = o
				delete(n.last, ef.Path)
				if !mine {
					n.other(ef.Path, o)
				}
			}
		}
		return
	}
	for _, s := range o.Steps {
		if !s.Do.InTree() {
			continue
		}
		if was, known := n.last[s.Path]; known && s.Do != op.MakeDir && s.Do != op.RemoveDir && !was.Equal(s.Before) {
			n.outside(s.Path, "changed by another program between operations", o.Created)
		}
		after := s.After
		if s.Do == op.Move {
			n.left(s.To, s.Before)
			after = op.State{Kind: op.Absent}
		}
		n.left(s.Path, after)
		if !mine && s.Do != op.MakeDir {
			n.other(s.Path, o)
			if s.To != "" {
				n.other(s.To, o)
			}
		}
	}
}

func (n *notOurs) left(p op.Path, s op.State) {
	delete(n.runs, p)
	if n.last[p] = s; s.Kind == op.Directory && s.Hash != "" {
		n.trees[p] = s
	} else {
		delete(n.trees, p)
	}
}

func (n *notOurs) other(p op.Path, o journal.Operation) {
	f := ElsewhereEntry{Path: op.Escape(string(p)), What: string(o.Op), Time: o.Created}
	if n.by.Role != op.Agent || o.Token == n.by.Token {
		f.Operation, f.Agent = o.ID, o.Agent
	} else {
		f.What = "changed by another agent"
	}
	n.found[p] = f
}

func (n *notOurs) outside(p op.Path, what string, at time.Time) {
	n.found[p] = ElsewhereEntry{Path: op.Escape(string(p)), What: what, Time: at.UTC()}
}

// tree looks for what the operations do not explain.
func (n *notOurs) tree(ctx context.Context) error {
	top, err := n.ws.Root.Look(ctx, ".", false)
	if err != nil {
		return err
	}
	defer top.Close()
	seen := 0
	dirs := map[op.Path]time.Time{}
	touched := map[op.Path]bool{} // directories in which a change is explained or found
	note := func(p op.Path) { touched[p.Parent()] = true }
	ignored := &sharedMarks{Workspace: n.ws, dirs: map[op.Path]dirMarks{}, heads: map[op.Path]bool{}}
	if !top.Info.Mtime.Before(n.since) {
		dirs["."] = top.Info.Mtime
	}
	err = top.Tree(ctx, func(p op.Path, info rooted.Info, node func() (*rooted.Node, error)) error {
		if p == storeName {
			return fs.SkipDir
		}
		if seen++; seen > maxLookedAt {
			return errEnough
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if info.Kind == op.Directory {
			if !info.Mtime.Before(n.since) {
				dirs[p] = info.Mtime
			}
			return nil
		}
		if info.Ctime.Before(n.since) {
			return nil
		}
		note(p)
		if n.explained(ctx, p, node) {
			return nil
		}
		if group := n.group(ctx, ignored, p); group != "" {
			f := n.found[group]
			f.Path, f.What, f.Count = op.Escape(string(group))+"/", "changed by another program, git ignores it", f.Count+1
			if group == ".git" {
				f.What = "changed by git or another program"
			}
			if info.Ctime.After(f.Time) {
				f.Time = info.Ctime.UTC()
			}
			n.found[group] = f
			return nil
		}
		n.outside(p, "changed by another program", info.Ctime)
		return nil
	})
	for p, s := range n.last {
		note(p)
		if s.Kind == op.File || s.Kind == op.Symlink {
			n.gone(ctx, p)
		}
	}
	for p := range n.runs {
		note(p)
	}
	for p, at := range dirs {
		_, made := n.last[p]
		if _, ran := n.runs[p]; !touched[p] && !made && !ran && !n.intact(ctx, p) && n.group(ctx, ignored, p.Join("x")) == "" {
			n.outside(p, "something in it was removed or renamed by another program", at)
		}
	}
	return err
}

// explained reports whether what stands at a path is what an operation of the window left.
func (n *notOurs) explained(ctx context.Context, p op.Path, node func() (*rooted.Node, error)) bool {
	if _, ran := n.runs[p]; ran {
		return true
	}
	left, known := n.last[p]
	if !known {
		return n.intact(ctx, p)
	}
	it, err := node()
	if err != nil {
		return false
	}
	defer it.Close()
	now, err := it.State(ctx)
	return err == nil && now.Equal(left)
}

// intact reports whether a path lies in a directory that an operation brought as a whole
// and that is still as it was then.
func (n *notOurs) intact(ctx context.Context, p op.Path) bool {
	for tree, left := range n.trees {
		if !p.Within(tree) {
			continue
		}
		same, looked := n.same[tree]
		if !looked {
			if it, err := n.ws.Root.Look(ctx, tree, false); err == nil {
				now, err := it.State(ctx)
				same = err == nil && now.Equal(left)
				it.Close()
			}
			n.same[tree] = same
		}
		if same {
			return true
		}
	}
	return false
}

// gone notes a path that an operation left and that is no longer there.
func (n *notOurs) gone(ctx context.Context, p op.Path) {
	it, err := n.ws.Root.Look(ctx, p, false)
	if err == nil {
		defer it.Close()
	}
	if errors.Is(err, op.NotFound) || errors.Is(err, op.NotADirectory) || err == nil && it.Info.Kind == op.Absent {
		n.outside(p, "removed by another program", time.Now())
	}
}

// group gives the directory under which a path is only counted: git's own, or the
// outermost one that git ignores.
func (n *notOurs) group(ctx context.Context, m *sharedMarks, p op.Path) op.Path {
	if p.Within(".git") {
		return ".git"
	}
	for i, c := range string(p) {
		if c == '/' && m.Ignored(ctx, p[:i], true) {
			return p[:i]
		}
	}
	return ""
}
