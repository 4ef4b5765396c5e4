package rooted

import (
	"context"
	"errors"
	"slices"

	"holdpoint/op"
)

// putAway opens what a step's slot holds, for one who settles: in the near folder, else
// the copy of what the step put away.
func (t *settling) putAway(ctx context.Context, a *act) (n *Node, copied bool, err error) {
	n, err = t.open(spot{a.step.Slot, "."})
	if n == nil || err != nil || !n.copied {
		return n, false, err
	}
	is, err := hasHash(ctx, n, a.step.Before)
	if err != nil || !is {
		n.Close()
		return nil, false, err
	}
	return n, true, nil
}

// copyIn opens the copy that the store has of a slot, if it is of what the list put away
// under it and not what an undo is to bring back.
func (t *settling) copyIn(slot string) (*Node, error) {
	none := op.Fail(op.NotFound, "the slot is empty")
	if t.h.far == nil {
		return nil, none
	}
	for i := len(t.steps) - 1; i >= 0; i-- {
		s := t.steps[i]
		if s.Slot != slot || s.Do != op.Swap && s.Do != op.Take {
			continue
		}
		n, err := t.h.far.Node(slot)
		if err != nil {
			return nil, err
		}
		if is, err := hasHash(context.Background(), n, s.Before); err != nil || !is {
			n.Close()
			return nil, errors.Join(err, none)
		}
		n.copied = true
		return n, nil
	}
	return nil, none
}

// atHand brings back what was stowed already, for a list that is to be taken back.
func (t *settling) atHand(ctx context.Context) error {
	if t.h.far == nil {
		return nil
	}
	for i, s := range t.steps {
		if s.Do != op.Swap && s.Do != op.Take {
			continue
		}
		n, far, err := t.putAway(ctx, newAct(s, i, false))
		if err == nil && far {
			_, err = t.h.s.adopt(ctx, s.Slot, n)
		}
		closeNodes(n)
		if err != nil {
			return err
		}
	}
	return nil
}

// stow moves what a finished list put away on into the store of copies.
func (t *settling) stow(ctx context.Context) {
	if t.h.far == nil {
		return
	}
	for _, s := range t.steps {
		_, err := t.h.s.Inode(s.Slot)
		switch {
		case s.Do != op.Swap && s.Do != op.Take || err != nil:
			continue
		default:
			err = t.h.far.haul(ctx, t.h.s, s.Slot)
		}
		if err == nil {
			err = t.h.s.discard(s.Slot)
		}
		if err != nil {
			t.conflict(s.Path, "what stood there before still lies inside the root, in "+nearTop+": "+op.AsError(fail(err, "")).Message)
		}
	}
	for i, s := range t.steps {
		later := func(l op.Step) bool { return l.Slot == s.Slot }
		if s.Do == op.Place && !slices.ContainsFunc(t.steps[i+1:], later) {
			_ = t.h.far.Drop(s.Slot) // it stands in the tree; a copy left here is replaced when it comes back
		}
	}
}

// keptFar reports whether the store of copies has the slot of a step.
func (t *settling) keptFar(a *act) bool {
	if t.h.far == nil {
		return false
	}
	_, err := t.h.far.Inode(a.step.Slot)
	return err == nil
}
