package undo

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"holdpoint/internal/journal"
	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// way is the tree as it will be while one unit is taken back, and the steps that lead
// there. Steps on one path become one where nothing lies between them.
type way struct {
	g       *Group
	ctx     context.Context // of this one plan
	entries map[op.Path]*entry
	moves   []op.Step // done so far, last last
	backs   []Back
	open    []*rooted.Node // in the store
	seen    map[op.Path]bool
	order   []op.Path // paths in the order in which they were first met
	merged  bool
}

// entry is what stands at a path on the way.
type entry struct {
	Version
	at    int  // of the step in backs that brought it here; -1 when it stood here before
	since int  // moves done when it came
	soft  bool // a directory goes if it is empty: what lies below may still be there
	goes  int  // of the step by which it goes
	moved bool // it stood elsewhere before
	inner bool // it came inside a directory that was brought: what lies below is in the store
}

// takeBack adds the inverse of one operation.
func (w *way) takeBack(o journal.Operation) error {
	for i := len(o.Steps) - 1; i >= 0; i-- {
		if err := w.inverse(o, o.Steps[i]); err != nil {
			return err
		}
	}
	return nil
}

func (w *way) inverse(o journal.Operation, s op.Step) error {
	switch s.Do {
	case op.Keep, op.LetGo:
		w.add(Back{Step: s.Inverse()})
		return nil
	case op.MakeDir:
		w.add(Back{Step: s.Inverse()})
		w.entries[s.Path] = &entry{Version: Version{State: op.State{Kind: op.Absent}}, at: -1, soft: true, goes: len(w.backs) - 1, since: len(w.moves)}
		return nil
	case op.RemoveDir:
		e, err := w.look(s.Path)
		switch {
		case err != nil || e.State.Kind == op.Directory:
			return err
		case e.soft && e.since == len(w.moves):
			w.backs[e.goes].Step.Do = "" // it would only go to come again, and may not be empty
			w.entries[s.Path] = &entry{Version: Version{State: op.State{Kind: op.Directory}}, at: -1}
			return nil
		}
		w.add(Back{Step: s.Inverse()})
		w.entries[s.Path] = &entry{Version: Version{State: op.State{Kind: op.Directory}}, at: -1}
		return nil
	case op.Move:
		return w.moveBack(s)
	}
	w.meet(s.Path)
	e, err := w.look(s.Path)
	if err != nil {
		return err
	}
	switch s.Do {
	case op.Swap:
		return w.unswap(o, s, e)
	case op.Place:
		return w.unplace(s, e)
	}
	return w.untake(s, e)
}

// unswap brings back what a change of a file put away.
func (w *way) unswap(o journal.Operation, s op.Step, e *entry) error {
	old, slot, err := w.kept(s)
	if err != nil {
		return err
	}
	if e.State.Equal(s.After) || w.g.Force {
		return w.bring(s.Path, e, Version{State: s.Before, Node: old}, slot)
	}
	if e.State.Kind != op.File {
		return conflict(s.Path, "it was a file after the operation, now it is %s", e.State.Kind)
	}
	content, err := w.merge(o, s, e, old)
	if err != nil {
		return err
	}
	w.merged = true
	like := e.Node
	state := op.State{Kind: op.File, Hash: rooted.HashBytes(content), Size: int64(len(content)), Mode: e.State.Mode}
	if e.State.Mode == s.After.Mode {
		state.Mode = s.Before.Mode
	}
	return w.bring(s.Path, e, Version{State: state, Bytes: content, Node: like}, "")
}

// merge gives the file without what the operation did, and with what others did since.
func (w *way) merge(o journal.Operation, s op.Step, e *entry, old *rooted.Node) ([]byte, error) {
	overlap := func(why string) error { return conflict(s.Path, "others changed it since: %s", why) }
	theirs, err := old.Read(maxMerge)
	if err != nil {
		return nil, overlap("what was there before is too large to merge")
	}
	if e.State.Hash == s.After.Hash {
		return theirs, nil // only its mode is another
	}
	ours, err := e.read()
	if err != nil {
		return nil, overlap("it is too large to merge")
	}
	base, ok := w.g.Texts.After(s.Path, theirs, o.Diff, s.After.Hash)
	if !ok {
		return nil, overlap("what the operation left is not known any more, as of text that is not UTF-8 or a very large change")
	}
	out, ok := w.g.Texts.Merge(base, ours, theirs)
	if !ok {
		return nil, overlap("the same lines")
	}
	return nonNil(out), nil
}

func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// unplace takes away what an operation created.
func (w *way) unplace(s op.Step, e *entry) error {
	if e.State.Kind == op.Absent {
		return nil // somebody did it already
	}
	if !w.equal(s.Path, e.State, s.After) && !w.g.Force {
		return conflict(s.Path, "it was created, and others changed it since")
	}
	before := e.State
	if before.Kind == op.Directory && (before.Hash == "" || w.below(s.Path)) {
		before = s.After // as it will be when what changed below it is taken back
	}
	w.take(s.Path, e, before, s.Slot)
	return nil
}

// untake brings back what an operation took away.
func (w *way) untake(s op.Step, e *entry) error {
	old, slot, err := w.kept(s)
	if err != nil {
		return err
	}
	switch {
	case e.State.Kind == op.Absent:
	case e.State.Equal(s.Before):
		return nil
	case !w.g.Force:
		return conflict(s.Path, "it was taken away, and a %s stands there now", e.State.Kind)
	}
	return w.bring(s.Path, e, Version{State: s.Before, Node: old}, slot)
}

func (w *way) moveBack(s op.Step) error {
	w.meet(s.Path)
	w.meet(s.To)
	e, err := w.look(s.To)
	if err != nil {
		return err
	}
	was, err := w.look(s.Path)
	if err != nil {
		return err
	}
	switch {
	case e.State.Kind != s.After.Kind:
		return conflict(s.To, "a %s was moved here, now it is %s", s.After.Kind, e.State.Kind)
	case was.State.Kind != op.Absent:
		return conflict(s.Path, "something else stands where it was moved from")
	}
	if !w.equal(s.To, e.State, s.After) {
		w.merged = true // it goes back as others made it
	}
	step := op.Step{Do: op.Move, Path: s.To, To: s.Path, Before: e.State, After: e.State}
	if e.State.Kind == op.Directory && w.below(s.To) {
		step.Before.Hash, step.After.Hash = "", ""
	}
	w.add(Back{Step: step})
	w.moves = append(w.moves, step)
	w.clear(s.Path)
	moved := map[op.Path]*entry{step.To: e} // it may be one that nobody had looked at alone
	for p, x := range w.entries {
		if p.Within(step.Path) {
			moved[step.To+p[len(step.Path):]] = x
			delete(w.entries, p)
		}
	}
	for p, x := range moved {
		x.moved = true
		w.entries[p] = x
	}
	w.entries[step.Path] = &entry{Version: Version{State: op.State{Kind: op.Absent}}, at: -1}
	return nil
}

// bring lets a version stand at a path, where e stands.
func (w *way) bring(p op.Path, e *entry, v Version, slot string) error {
	step := op.Step{Do: op.Swap, Path: p, Slot: slot, Before: e.State, After: v.State}
	back := Back{Content: v.Bytes}
	if slot != "" {
		inode, err := w.g.Store.Inode(slot)
		if err != nil {
			return err
		}
		step.Inode = inode
	}
	if v.Bytes != nil {
		back.Like, back.Mode = v.Node, v.State.Mode
	}
	w.clear(p)
	if last := w.movable(e); last != nil && last.Step.Do != op.Take {
		// The step that brought what stands here now brings this instead.
		step.Do, step.Before = last.Step.Do, last.Step.Before
		back.Step = step
		*last = back
		w.entries[p] = &entry{Version: v, at: e.at, since: e.since}
		return nil
	}
	switch {
	case e.State.Kind == op.Absent:
		step.Do = op.Place
	case e.State.Kind != op.File || v.State.Kind != op.File:
		w.add(Back{Step: op.Step{Do: op.Take, Path: p, Slot: w.g.NewSlot(), Before: e.State, After: op.State{Kind: op.Absent}}})
		step.Do, step.Before = op.Place, op.State{Kind: op.Absent}
	}
	back.Step = step
	w.add(back)
	w.entries[p] = &entry{Version: v, at: len(w.backs) - 1, since: len(w.moves)}
	return nil
}

// take lets nothing stand at a path, where e stands.
func (w *way) take(p op.Path, e *entry, before op.State, slot string) {
	gone := &entry{Version: Version{State: op.State{Kind: op.Absent}}, at: -1}
	last := w.movable(e)
	w.clear(p)
	switch {
	case last != nil && last.Step.Do == op.Place:
		last.Step.Do = "" // it would only come to go
		w.entries[p] = gone
		return
	case last != nil && last.Step.Do == op.Swap:
		*last = Back{Step: op.Step{Do: op.Take, Path: p, Slot: slot, Before: last.Step.Before, After: gone.State}}
		w.entries[p] = gone
		return
	}
	w.add(Back{Step: op.Step{Do: op.Take, Path: p, Slot: slot, Before: before, After: gone.State}})
	w.entries[p] = gone
}

// movable gives the step that brought e, if nothing was moved since. What happened inside
// a directory meanwhile needs it there.
func (w *way) movable(e *entry) *Back {
	if e.at < 0 || e.since != len(w.moves) || e.State.Kind == op.Directory {
		return nil
	}
	return &w.backs[e.at]
}

func (w *way) add(b Back) { w.backs = append(w.backs, b) }

func (w *way) meet(p op.Path) {
	if !w.seen[p] {
		w.seen[p] = true
		w.order = append(w.order, p)
	}
}

// look gives what stands at a path on the way: what was brought there, else what stands
// in the workspace at the name that it has there.
func (w *way) look(p op.Path) (*entry, error) {
	if e, ok := w.entries[p]; ok {
		return e, nil
	}
	if e, err := w.inside(p); e != nil || err != nil {
		return e, err
	}
	real := p
	for i := len(w.moves) - 1; i >= 0; i-- {
		m := w.moves[i]
		switch {
		case real.Within(m.To):
			real = m.Path + real[len(m.To):]
		case real.Within(m.Path):
			return &entry{Version: Version{State: op.State{Kind: op.Absent}}, at: -1}, nil
		}
	}
	state, node, err := w.g.Now(real)
	if err != nil {
		return nil, err
	}
	e := &entry{Version: Version{State: state, Node: node}, at: -1}
	w.entries[p] = e
	return e, nil
}

// below reports that something inside a directory will be another by then.
func (w *way) below(dir op.Path) bool {
	for p, e := range w.entries {
		if p != dir && p.Within(dir) && (e.at >= 0 || e.moved || e.State.Kind == op.Absent) {
			return true
		}
	}
	return false
}

// equal compares with what an operation left; a directory in which something is taken
// back before is compared when its turn comes.
func (w *way) equal(p op.Path, is, left op.State) bool {
	if is.Kind == op.Directory && left.Kind == op.Directory && w.below(p) {
		return true
	}
	return is.Equal(left)
}

// kept opens what a step put into the store, or its independent copy where another
// program wrote into it since.
func (w *way) kept(s op.Step) (*rooted.Node, string, error) {
	var failed error
	for _, slot := range []string{s.Slot, s.Copy} {
		if slot == "" {
			continue
		}
		n, err := w.g.Store.Node(slot)
		if err == nil {
			var st op.State
			if st, err = n.State(w.ctx); err == nil && st.Equal(s.Before) {
				w.open = append(w.open, n)
				return n, slot, nil
			}
			n.Close()
		}
		if unread(err) {
			failed = err
		}
	}
	if failed != nil {
		return nil, "", failed
	}
	return nil, "", conflict(s.Path, "what was there before is no longer in the store as it was")
}

func (v Version) read() ([]byte, error) {
	if v.Bytes != nil || v.State.Kind != op.File {
		return v.Bytes, nil
	}
	return v.Node.Read(maxMerge)
}

// Read gives the bytes of a file; too_large beyond what is merged.
func (v Version) Read() ([]byte, error) { return v.read() }

// clear forgets what stands below a path, of which something else becomes.
func (w *way) clear(dir op.Path) {
	for p := range w.entries {
		if p != dir && p.Within(dir) {
			delete(w.entries, p)
		}
	}
}

// inside looks below directories that were brought or taken on the way; nil where none
// was.
func (w *way) inside(p op.Path) (*entry, error) {
	for up := p; up != "."; {
		up = up.Parent()
		e, ok := w.entries[up]
		switch {
		case !ok:
		case e.State.Kind == op.Absent && !e.soft:
			return &entry{Version: Version{State: e.State}, at: -1}, nil
		case (e.at >= 0 || e.inner) && e.State.Kind == op.Directory:
			return w.child(e.Node, string(p[len(up)+1:]))
		case e.State.Kind == op.Directory && !e.soft:
			return nil, nil // it stands in the workspace, here or where it was moved from
		}
	}
	return nil, nil
}

// child looks at a path below a directory in the store.
func (w *way) child(n *rooted.Node, below string) (*entry, error) {
	absent := &entry{Version: Version{State: op.State{Kind: op.Absent}}, at: -1}
	for name := range strings.SplitSeq(below, "/") {
		if n.Info.Kind != op.Directory {
			return absent, nil
		}
		next, err := n.Child(name)
		if errors.Is(err, op.NotFound) {
			return absent, nil
		}
		if err != nil {
			return nil, err
		}
		w.open = append(w.open, next)
		n = next
	}
	state, err := n.State(w.ctx)
	return &entry{Version: Version{State: state, Node: n}, at: -1, inner: true}, err
}

// finish gives the steps without those that came to nothing, and what changes.
func (w *way) finish() ([]Back, []Change) {
	backs := slices.DeleteFunc(w.backs, func(b Back) bool {
		return b.Step.Do == "" || b.Step.Do == op.Swap && b.Step.Before.Equal(b.Step.After) && b.Step.Before.Mode == b.Step.After.Mode
	})
	for p, e := range w.entries { // also what only a move brought to its name
		if e.at >= 0 {
			w.meet(p)
		}
	}
	var changes []Change
	for _, p := range w.order {
		state, node, err := w.g.Now(p)
		if err != nil {
			continue
		}
		e, err := w.look(p)
		if err != nil {
			continue
		}
		changes = append(changes, Change{Path: p, Now: Version{State: state, Node: node}, Old: e.Version})
	}
	slices.SortFunc(changes, func(a, b Change) int { return cmp.Compare(a.Path, b.Path) })
	return backs, changes
}
