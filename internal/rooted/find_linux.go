package rooted

import (
	"context"
	"errors"
	"slices"

	"holdpoint/op"
)

// find judges one step, and when acting opens what taking it back needs.
func (t *settling) find(ctx context.Context, a *act) (outcome, error) {
	if t.acting {
		var err error
		if a.from, err = t.h.place(a.step.Path); err != nil && !errors.Is(err, op.Stale) {
			return unhappened, err
		}
		if a.step.Do == op.Move {
			if a.to, err = t.h.place(a.step.To); err != nil && !errors.Is(err, op.Stale) {
				return unhappened, err
			}
		}
	}
	switch a.step.Do {
	case op.Swap:
		return t.findSwap(ctx, a)
	case op.Place:
		return t.findPlace(ctx, a)
	case op.Take:
		return t.findTake(ctx, a)
	case op.Move:
		return t.findMove(ctx, a)
	case op.MakeDir:
		return t.findMakeDir(a)
	}
	return t.findRemoveDir(a)
}

func (t *settling) isOurs(n *Node, step op.Step) bool {
	if n != nil && n.copied { // looked for where later steps took ours, and copied since
		return true
	}
	return n != nil && step.Inode != 0 && (n.Info.Ino == step.Inode || t.remade[n.Path] && n.Info.Kind == op.Directory)
}

// hasHash compares content only; a thing without one, or a hash that was not recorded,
// is compared by kind.
func hasHash(ctx context.Context, n *Node, want op.State) (bool, error) {
	if n == nil || n.Info.Kind != want.Kind {
		return false, nil
	}
	if want.Hash == "" {
		return true, nil
	}
	s, err := n.State(ctx)
	if errors.Is(err, op.Stale) {
		return false, nil
	}
	return s.Hash == want.Hash, err
}

func (t *settling) findSwap(ctx context.Context, a *act) (outcome, error) {
	in, far, err := t.putAway(ctx, a)
	if err != nil || !far && t.isOurs(in, a.step) {
		closeNodes(in)
		return unhappened, err
	}
	target, err := t.ours(a, a.step.Path)
	defer closeNodes(in, target)
	if err != nil {
		return unhappened, err
	}
	if in == nil {
		return t.withoutSlot(ctx, a, target)
	}
	pinned, err := hasHash(ctx, in, a.step.Before)
	if err != nil {
		return unhappened, err
	}
	if !pinned {
		return t.foreignSwap(a, target)
	}
	return t.ownAt(ctx, a, target)
}

// withoutSlot judges by the target alone, the store having lost its part.
func (t *settling) withoutSlot(ctx context.Context, a *act, target *Node) (outcome, error) {
	if before, err := hasHash(ctx, target, a.step.Before); before || err != nil {
		return unhappened, err
	}
	if _, err := t.h.s.Inode(a.step.Slot + keptSuffix + "0"); err == nil {
		return unhappened, nil // it was settled before, and put aside
	}
	if !t.isOurs(target, a.step) {
		return unhappened, nil // what was staged never got to the disk, and others changed the file since
	}
	t.conflict(a.step.Path, "the store no longer holds the earlier version")
	return overtaken, nil
}

// ownAt judges a step whose staged thing left its slot, by where it stands now.
func (t *settling) ownAt(ctx context.Context, a *act, target *Node) (outcome, error) {
	if !t.isOurs(target, a.step) && t.removedLater(a, t.spots(a.index, a.step.Path)) {
		return neutral, nil
	}
	if !t.isOurs(target, a.step) {
		t.conflict(a.step.Path, "it was changed by others since; theirs stays")
		return overtaken, nil
	}
	whole, err := hasHash(ctx, target, a.step.After)
	switch {
	case err != nil:
		return unhappened, err
	case whole:
		return happened, t.claim(a, target)
	case target.Info.Kind == op.File && target.Info.Size == 0 && a.step.After.Size > 0:
		t.conflict(a.step.Path, "it stood empty after a crash, and the earlier version was put back")
		a.torn = true
		return intruded, t.claim(a, target)
	case target.Info.Kind == op.Directory && !t.acting:
		return happened, nil // later steps may work below it
	}
	t.conflict(a.step.Path, "it was written by others since; theirs stays")
	return overtaken, nil
}

// claim holds our thing for the way back.
func (t *settling) claim(a *act, n *Node) (err error) {
	a.ours, err = dup(n.self)
	a.oursInfo, a.done = n.Info, err == nil
	return err
}

// foreignSwap puts back a version of others that an exchange brought out just before the
// crash. Where ours does not stand at the path any more, nobody can tell which of the two
// is newer, and both stay.
func (t *settling) foreignSwap(a *act, target *Node) (outcome, error) {
	if !t.acting {
		return intruded, nil
	}
	if !t.isOurs(target, a.step) {
		kept, err := t.h.s.keep(a.step.Slot)
		t.conflict(a.step.Path, "others changed it while the change was made; another version of theirs is kept in the store as "+kept)
		return unhappened, err
	}
	t.conflict(a.step.Path, "others changed it at the last moment; theirs was put back")
	return intruded, t.claim(a, target)
}

func (t *settling) findPlace(ctx context.Context, a *act) (outcome, error) {
	in, copied, err := t.putAway(ctx, a)
	if err != nil || in != nil && !copied {
		closeNodes(in)
		return unhappened, err
	}
	closeNodes(in)
	target, err := t.ours(a, a.step.Path)
	if err != nil {
		return unhappened, err
	}
	defer closeNodes(target)
	if target == nil && t.keptFar(a) {
		return unhappened, nil // somebody cleared the near folder
	}
	return t.ownAt(ctx, a, target)
}

func (t *settling) findTake(ctx context.Context, a *act) (outcome, error) {
	in, far, err := t.putAway(ctx, a)
	if err != nil {
		return unhappened, err
	}
	defer closeNodes(in)
	if far {
		return happened, nil // when it has to come back, it is at hand by then
	}
	if in == nil {
		target, err := t.open(spot{path: a.step.Path})
		defer closeNodes(target)
		if err != nil || target != nil {
			return unhappened, err
		}
		t.conflict(a.step.Path, "it is neither there nor in the store")
		return overtaken, nil
	}
	pinned, err := hasHash(ctx, in, a.step.Before)
	if err != nil {
		return unhappened, err
	}
	a.done = true
	if pinned && (a.step.Inode == 0 || t.isOurs(in, a.step)) {
		return happened, nil
	}
	t.conflict(a.step.Path, "others changed it at the last moment; theirs was put back")
	return intruded, nil
}

// findMove needs no hash where the inode was recorded: what others wrote at the
// destination since is theirs and lies where they wrote it.
func (t *settling) findMove(ctx context.Context, a *act) (outcome, error) {
	from, err := t.open(spot{path: a.step.Path})
	if err != nil {
		return unhappened, err
	}
	defer closeNodes(from)
	if t.isOurs(from, a.step) {
		if slices.Contains(t.spots(a.index, a.step.To)[1:], spot{path: a.step.Path}) {
			return neutral, nil // moved and moved back, or never moved: it is the same
		}
		return unhappened, nil
	}
	to, err := t.ours(a, a.step.To)
	if err != nil {
		return unhappened, err
	}
	defer closeNodes(to)
	if a.step.Inode == 0 {
		return t.moveByHash(ctx, a, from, to)
	}
	if !t.isOurs(to, a.step) && t.removedLater(a, t.spots(a.index, a.step.To)) {
		return neutral, nil
	}
	if !t.isOurs(to, a.step) {
		t.conflict(a.step.To, "it was changed by others since; theirs stays")
		return overtaken, nil
	}
	if to.Info.Kind == op.File && t.untouchedLater(a) {
		if moved, err := hasHash(ctx, to, a.step.Before); err != nil || !moved {
			t.conflict(a.step.To, "it was written by others since")
		}
	}
	a.came, a.done = to.Info, true
	return happened, nil
}

// moveByHash judges a move that stood on earlier steps, whose inode nobody knew when it
// was recorded.
func (t *settling) moveByHash(ctx context.Context, a *act, from, to *Node) (outcome, error) {
	moved, err := hasHash(ctx, to, a.step.Before)
	if err != nil {
		return unhappened, err
	}
	if moved {
		a.came, a.done = to.Info, true
		return happened, nil
	}
	stayed, err := hasHash(ctx, from, a.step.Before)
	if err != nil || stayed {
		return unhappened, err
	}
	if to == nil && !t.acting && !t.untouchedLater(a) {
		return happened, nil // a later step put it elsewhere
	}
	t.conflict(a.step.To, "it was changed by others since; theirs stays")
	return overtaken, nil
}

// untouchedLater reports whether no later step works at or below where a left its thing.
func (t *settling) untouchedLater(a *act) bool {
	for _, s := range t.steps[a.index+1:] {
		if standsOn(s, []op.Step{a.step}) {
			return false
		}
	}
	return true
}

func (t *settling) findMakeDir(a *act) (outcome, error) {
	spots, kind := t.spots(a.index, a.step.Path), op.Unknown
	for i, at := range spots {
		n, err := t.open(at)
		defer closeNodes(n)
		if err != nil {
			return unhappened, err
		}
		if n != nil && n.Info.Kind == op.Directory {
			a.oursInfo, a.done = n.Info, true
			return happened, nil
		}
		if n != nil && i == 0 {
			kind = n.Info.Kind
		}
	}
	if t.removedLater(a, spots) {
		return neutral, nil // made and removed, or never made: it is the same
	}
	if kind != op.Unknown && t.untouchedLater(a) {
		t.conflict(a.step.Path, "a "+string(kind)+" stands there since")
		return overtaken, nil
	}
	return unhappened, nil
}

// removedLater reports whether a later step removes the directory that a left at a spot,
// so that its absence says nothing.
func (t *settling) removedLater(a *act, spots []spot) bool {
	return !t.acting && slices.ContainsFunc(t.steps[a.index+1:], func(s op.Step) bool {
		return s.Do == op.RemoveDir && slices.Contains(spots, spot{path: s.Path})
	})
}

func (t *settling) findRemoveDir(a *act) (outcome, error) {
	n, err := t.open(spot{path: a.step.Path})
	defer closeNodes(n)
	if err != nil || n != nil {
		return neutral, err
	}
	a.done = a.from.dir >= 0
	return happened, nil
}
