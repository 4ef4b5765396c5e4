package undo

import (
	"context"
	"fmt"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// Revert gives the steps that take steps back, last first, after checking that what the
// store kept is still what the operation put there: a program that had the old file open
// may have written into it since. Where an independent copy was kept, that one is used.
func Revert(ctx context.Context, s *rooted.Store, steps []op.Step, newSlot func() string) ([]op.Step, error) {
	back := op.Inverse(steps)
	for i := range back {
		if err := ready(ctx, s, &back[i], newSlot); err != nil {
			return nil, err
		}
	}
	return back, nil
}

func ready(ctx context.Context, s *rooted.Store, step *op.Step, newSlot func() string) error {
	if step.Do != op.Swap && step.Do != op.Place {
		return nil
	}
	kept, err := s.Kept(ctx, step.Slot)
	if unread(err) {
		return err
	}
	if err != nil {
		return op.Fail(op.UndoConflict, "what was there before is no longer in the store").At(step.Path).Because(err)
	}
	if !kept.Equal(step.After) {
		if step.Copy == "" {
			return damaged(*step, kept)
		}
		if kept, err = s.State(ctx, step.Copy); unread(err) {
			return err
		} else if err != nil || !kept.Equal(step.After) {
			return damaged(*step, kept)
		}
		step.Slot, step.Copy = step.Copy, ""
	}
	step.Inode, err = s.Inode(step.Slot)
	return err
}

// unread tells a failure of the disk or the system from what others did to a kept version:
// it says nothing about that, and the next try may find it whole.
func unread(err error) bool {
	if err == nil {
		return false
	}
	switch op.AsError(err).Code {
	case op.IOError, op.NoSpace, op.ReadOnlyFilesystem, op.PermissionDenied, op.Cancelled:
		return true
	}
	return false
}

func damaged(step op.Step, kept op.State) error {
	return op.Fail(op.UndoConflict, fmt.Sprintf("another program wrote into the kept version after the change (kept %s, was %s)", kept.Hash, step.After.Hash)).
		At(step.Path).Do("show the operation for both versions")
}

// Forced gives the steps that bring back what stood before steps, whatever stands there
// now; what is replaced goes to the store, under the new operation's own credential.
// now gives the present state of a path.
func Forced(steps []op.Step, now func(op.Path) (op.State, error), newSlot func() string) ([]op.Step, error) {
	var out []op.Step
	for _, b := range op.Inverse(steps) {
		if !b.Do.InTree() {
			out = append(out, b)
			continue
		}
		at := b.Path
		if b.Do == op.Move {
			at = b.To
		}
		cur, err := now(b.Path)
		if err != nil {
			return nil, err
		}
		b.Before = cur
		switch b.Do {
		case op.Swap:
			switch cur.Kind {
			case op.Absent:
				b.Do = op.Place
			case op.File:
			default:
				out = append(out, op.Step{Do: op.Take, Path: at, Slot: newSlot(), Before: cur, After: op.State{Kind: op.Absent}})
				b.Do, b.Before = op.Place, op.State{Kind: op.Absent}
			}
		case op.Place:
			if cur.Kind != op.Absent {
				out = append(out, op.Step{Do: op.Take, Path: at, Slot: newSlot(), Before: cur, After: op.State{Kind: op.Absent}})
				b.Before = op.State{Kind: op.Absent}
			}
		case op.Take:
			if cur.Kind == op.Absent {
				continue
			}
			b.Slot = newSlot()
		case op.Move:
			if cur.Kind == op.Absent {
				return nil, op.Fail(op.UndoConflict, "what was moved is no longer there").At(b.Path)
			}
			b.After = cur
		case op.MakeDir:
			if cur.Kind == op.Directory {
				continue
			}
		case op.RemoveDir:
			if cur.Kind != op.Directory {
				continue
			}
		}
		out = append(out, b)
	}
	return out, nil
}

// Conflict words a drift that Hold found as what it means for an undo.
func Conflict(err error) error {
	e := *op.AsError(err)
	if e.Code == op.Stale {
		e.Code = op.UndoConflict
		e.Message = "changed since the operation: " + e.Message
		e.Hint = "nothing was changed; look at the difference, or force the undo, which keeps the later version under a new credential"
		e.Retry = "never"
	}
	return &e
}
