package rooted

import (
	"context"
	"errors"
	"slices"

	"holdpoint/op"
)

// outcome of one recorded step, by whose inode stands where.
type outcome uint8

const (
	unhappened outcome = iota
	happened           // and can be taken back
	intruded           // happened to something else than was pinned: to be taken back
	overtaken          // happened, and others changed it since: theirs stays
	neutral            // a directory that was to go and stands, or what later steps made unknowable: no matter
)

// Settle finds out what became of recorded steps after a crash, and makes it all or
// nothing. All happened: done, and what others changed since stays theirs. Any did not:
// those that did are taken back, never the others rolled forward, which loses nothing
// that was promised, because Apply returns only when its names are durable. What came out
// of an exchange or a removal with other bytes than were recorded is a foreign version
// that got in at the last moment; it goes back to its name. A file of ours that stands
// torn at its path (empty, where bytes were staged) counts as not happened and is reported
// among the conflicts.
//
// Left names the slots that hold what was staged for nothing. Of a new operation the
// caller drops them; of an undo they are the pre-images of the operation that was to be
// undone, and stay. Settling twice changes nothing more.
func (r *Root) Settle(ctx context.Context, s *Store, steps []op.Step) (Settled, error) {
	if err := r.checkSteps(steps); err != nil {
		return Settled{}, err
	}
	unlock, err := r.locks.lock(ctx, claims(steps))
	if err != nil {
		return Settled{}, err
	}
	t := &settling{h: &Held{r: r, unlock: unlock}, steps: steps, works: map[op.Path][]int{}}
	for i, s := range steps {
		t.works[s.Path] = append(t.works[s.Path], i)
	}
	if err := t.h.use(s); err != nil {
		unlock()
		return Settled{}, err
	}
	t.h.inPieces = len(steps) > r.whole && t.h.far == nil
	defer t.h.Close()
	t.reshut()
	was, all, err := t.survey(ctx)
	if err != nil {
		return Settled{}, err
	}
	if all {
		if err := t.finish(was); err != nil {
			return Settled{Done: true, Conflicts: t.conflicts}, err
		}
		t.stow(ctx)
		return Settled{Done: true, Conflicts: t.conflicts}, nil
	}
	if err := t.takeBack(ctx); err != nil {
		return Settled{}, err
	}
	return Settled{Conflicts: t.conflicts, Left: t.left()}, nil
}

// settling borrows the handles and the ways back of Held.
type settling struct {
	h         *Held
	steps     []op.Step
	works     map[op.Path][]int // the steps on each path, in order
	acting    bool              // false: only looking, where later steps may have moved things on
	baseless  []bool            // steps that stand on one that did not happen
	conflicts []string
	remade    map[op.Path]bool // directories made again on the way back: they stand for those recorded
}

// survey judges each step and changes nothing. A step that stands on one that did not
// happen did not happen either, whatever stands at its path.
func (t *settling) survey(ctx context.Context) (was []outcome, all bool, err error) {
	was, all = make([]outcome, len(t.steps)), true
	t.baseless = make([]bool, len(t.steps))
	var absent op.Touched
	for i, s := range t.steps {
		if t.baseless[i] = absent.By(s); !t.baseless[i] {
			a := newAct(s, i, false)
			was[i], err = t.find(ctx, a)
			a.close()
			if err != nil {
				return nil, false, fail(err, s.Path)
			}
		}
		if was[i] == unhappened {
			absent.Add(s)
		}
		all = all && was[i] != unhappened && was[i] != intruded
	}
	return was, all, nil
}

// takeBack goes from the last step to the first, so that each one finds things where it
// left them.
func (t *settling) takeBack(ctx context.Context) error {
	t.acting, t.conflicts, t.remade = true, nil, map[op.Path]bool{}
	if err := t.atHand(ctx); err != nil {
		return fail(err, "")
	}
	for i := len(t.steps) - 1; i >= 0; i-- {
		a := newAct(t.steps[i], i, false)
		t.h.acts = append(t.h.acts, a) // Close gives its handles back
		if t.baseless[i] {
			continue
		}
		now, err := t.find(ctx, a)
		if err == nil && (now == happened || now == intruded) && a.done {
			err = t.undo(ctx, a)
		}
		if err != nil {
			return fail(err, a.step.Path)
		}
		if t.h.inPieces {
			a.rest()
		}
	}
	return t.h.syncNames()
}

// finish removes the directories that were to go, should the crash have come before that,
// as Apply would have: only while they are empty.
func (t *settling) finish(was []outcome) error {
	for i, s := range t.steps {
		a := newAct(s, i, false)
		if s.Do != op.RemoveDir || was[i] != neutral || !t.untouchedLater(a) {
			continue
		}
		var err error
		if a.from, err = t.h.place(s.Path); err == nil {
			t.h.acts = append(t.h.acts, a)
			err = t.h.removeDir(a)
		}
		if t.h.inPieces {
			a.rest()
		}
		if err != nil && !errors.Is(err, op.Stale) {
			return fail(err, s.Path)
		}
	}
	return t.h.syncNames()
}

func (t *settling) conflict(p op.Path, what string) {
	t.conflicts = append(t.conflicts, op.Escape(string(p))+": "+what)
}

func (t *settling) undo(ctx context.Context, a *act) error {
	a.fresh = true // should others have written into it: theirs gets a slot that nobody drops
	note, err := t.h.back(ctx, a)
	if note != "" {
		t.conflicts = append(t.conflicts, note)
	}
	if err == nil {
		t.remade[a.step.Path] = a.step.Do == op.RemoveDir || a.step.Do == op.Move && t.remade[a.step.To]
	}
	return err
}

// left lists the slots that hold what was staged, and the copies made for it.
func (t *settling) left() []string {
	var out []string
	for _, s := range t.steps {
		if s.Do != op.Swap && s.Do != op.Place {
			continue
		}
		if ino, err := t.h.s.Inode(s.Slot); err == nil && (s.Inode == 0 || ino == s.Inode) {
			out = append(out, s.Slot)
			if _, err := t.h.s.Inode(s.Copy); s.Copy != "" && err == nil {
				out = append(out, s.Copy)
			}
		}
	}
	return out
}

// spot is where a thing may stand: at a path, or in a slot and below it.
type spot struct {
	slot string
	path op.Path // in the workspace, or below what the slot holds; "." is the slot's own
}

// spots lists where what a step left at p may be by now, since later steps may have moved
// it, taken it away or exchanged it.
func (t *settling) spots(i int, p op.Path) []spot {
	out := []spot{{path: p}}
	if t.acting {
		return out
	}
	for i = t.nextOver(i, p); i < len(t.steps); i = t.nextOver(i, p) {
		s, below := t.steps[i], op.Path(".")
		if p != s.Path {
			below = p[len(s.Path)+1:]
		}
		switch {
		case s.Do == op.Move:
			p = s.To
			if below != "." {
				p = s.To.Join(string(below))
			}
			out = append(out, spot{path: p})
		case s.Do == op.Take || s.Do == op.Swap && below == ".":
			return append(out, spot{s.Slot, below})
		}
	}
	return out
}

// nextOver gives the first step after i that works on p or on a directory above it.
func (t *settling) nextOver(i int, p op.Path) int {
	next := len(t.steps)
	for ; ; p = p.Parent() {
		list := t.works[p]
		if k, _ := slices.BinarySearch(list, i+1); k < len(list) {
			next = min(next, list[k])
		}
		if p == "." {
			return next
		}
	}
}

// open opens what stands at a spot; a nil node means nothing.
func (t *settling) open(at spot) (n *Node, err error) {
	if at.slot == "" {
		pl, err := t.h.place(at.path)
		if errors.Is(err, op.Stale) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		defer closeFD(pl.dir)
		n, err = (&Node{Path: at.path.Parent(), in: t.h.r.in, self: pl.dir}).child(pl.name)
		return orNothing(n, err)
	}
	if n, err = t.h.s.Node(at.slot); errors.Is(err, op.NotFound) {
		n, err = t.copyIn(at.slot)
	}
	if err != nil {
		return orNothing(nil, err)
	}
	for _, name := range split(string(at.path)) {
		below, err := n.child(name)
		n.Close()
		if err != nil {
			return orNothing(nil, err)
		}
		n = below
	}
	return n, nil
}

// orNothing takes what is missing, or below what is no directory, for nothing.
func orNothing(n *Node, err error) (*Node, error) {
	if errors.Is(err, op.NotFound) || errors.Is(err, op.NotADirectory) {
		return nil, nil
	}
	return n, err
}

// ours looks for the step's own inode at all spots; else it gives what stands at the path.
func (t *settling) ours(a *act, p op.Path) (*Node, error) {
	var first *Node
	for i, at := range t.spots(a.index, p) {
		n, err := t.open(at)
		if err != nil {
			closeNodes(first)
			return nil, err
		}
		if t.isOurs(n, a.step) && i > 0 {
			closeNodes(first)
			return n, nil
		}
		if i == 0 {
			if first = n; t.isOurs(n, a.step) {
				return n, nil
			}
			continue
		}
		closeNodes(n)
	}
	return first, nil
}

func closeNodes(nodes ...*Node) {
	for _, n := range nodes {
		if n != nil {
			n.Close()
		}
	}
}
