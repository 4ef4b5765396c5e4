package rooted

import (
	"context"
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
	neutral            // a directory that stays because it is not empty: no failure
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
	t := &settling{h: &Held{r: r, s: s, unlock: unlock}}
	defer t.h.Close()
	for i, step := range steps {
		t.h.acts = append(t.h.acts, newAct(step, i, false))
	}
	all := true
	was, notes := make([]outcome, len(steps)), make([][]string, len(steps))
	for i, a := range t.h.acts {
		t.later = steps[i+1:]
		if was[i], err = t.find(ctx, a); err != nil {
			return Settled{}, fail(err, a.step.Path)
		}
		notes[i], t.conflicts = t.conflicts, nil
		if a.step.After.Kind == op.Directory && underLater(steps, i) {
			notes[i] = nil // what differs below it is the work of the later steps
		}
		all = all && was[i] != unhappened && was[i] != intruded
	}
	if all {
		return Settled{Done: true, Conflicts: slices.Concat(notes...)}, nil
	}
	t.later = nil
	for i := len(steps) - 1; i >= 0; i-- {
		if underLater(steps, i) {
			// Its turn has come: what came after it is taken back, so that everything is
			// again where the step left it.
			t.h.acts[i].close()
			t.h.acts[i] = newAct(steps[i], i, false)
			sofar := t.conflicts
			t.conflicts = nil
			if was[i], err = t.find(ctx, t.h.acts[i]); err != nil {
				return Settled{}, fail(err, steps[i].Path)
			}
			notes[i], t.conflicts = t.conflicts, sofar
		}
		if err := t.undo(ctx, t.h.acts[i], was[i]); err != nil {
			return Settled{}, fail(err, steps[i].Path)
		}
	}
	t.conflicts = append(slices.Concat(notes...), t.conflicts...)
	if err := t.h.syncNames(); err != nil {
		return Settled{}, err
	}
	return Settled{Conflicts: t.conflicts, Left: t.left()}, nil
}

// settling borrows the handles and the ways back of Held.
type settling struct {
	h         *Held
	conflicts []string
	later     []op.Step // taken to have happened, where a step is looked for
}

// underLater reports whether a later step changes a path of step i.
func underLater(steps []op.Step, i int) bool {
	return slices.ContainsFunc(steps[i+1:], func(s op.Step) bool { return standsOn(s, steps[i:i+1]) })
}

// place is where the later steps have put the directory that p lies in.
func (t *settling) place(p op.Path) (place, error) {
	for _, s := range t.later {
		if s.Do == op.Move && p.Within(s.Path) {
			p = s.To + p[len(s.Path):]
		}
	}
	return t.h.place(p)
}

func (t *settling) conflict(p op.Path, what string) {
	t.conflicts = append(t.conflicts, op.Escape(string(p))+": "+what)
}

// undo takes a step back that happened; what others did since stays.
func (t *settling) undo(ctx context.Context, a *act, was outcome) error {
	if was != happened && was != intruded || !a.done {
		return nil
	}
	a.fresh = true // should others have written into it: theirs gets a slot that nobody drops
	note, err := t.h.back(ctx, a)
	if note != "" {
		t.conflicts = append(t.conflicts, note)
	}
	return err
}

// left lists the slots that hold what was staged, and the copies made for it.
func (t *settling) left() []string {
	var out []string
	for _, a := range t.h.acts {
		if a.step.Do != op.Swap && a.step.Do != op.Place {
			continue
		}
		if ino, err := t.h.s.Inode(a.step.Slot); err == nil && (a.step.Inode == 0 || ino == a.step.Inode) {
			out = append(out, a.step.Slot)
			if _, err := t.h.s.Inode(a.step.Copy); a.step.Copy != "" && err == nil {
				out = append(out, a.step.Copy)
			}
		}
	}
	return out
}
