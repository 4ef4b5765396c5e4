package rooted

import (
	"context"
	"errors"
	"os"

	"holdpoint/op"
)

// find opens what it can and judges one step.
func (t *settling) find(ctx context.Context, a *act) (outcome, error) {
	var err error
	if a.from, err = t.place(a.step.Path); err != nil && !errors.Is(err, op.Stale) {
		return unhappened, err
	}
	if a.step.Do == op.Move {
		if a.to, err = t.place(a.step.To); err != nil && !errors.Is(err, op.Stale) {
			return unhappened, err
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

// at opens what stands at a place; a nil node means nothing.
func (t *settling) at(p place, name op.Path) (*Node, error) {
	if p.dir < 0 {
		return nil, nil
	}
	dir := &Node{Path: name.Parent(), in: t.h.r.in, parent: none, self: p.dir}
	n, err := dir.child(p.name)
	if errors.Is(err, op.NotFound) {
		return nil, nil
	}
	return n, err
}

func (t *settling) slot(slot string) (*Node, error) {
	n, err := t.h.s.Node(slot)
	if errors.Is(err, op.NotFound) {
		return nil, nil
	}
	return n, err
}

func isOurs(n *Node, step op.Step) bool {
	return n != nil && step.Inode != 0 && n.Info.Ino == step.Inode
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
	in, err := t.slot(a.step.Slot)
	if err != nil {
		return unhappened, err
	}
	target, err := t.at(a.from, a.step.Path)
	if err != nil {
		return unhappened, err
	}
	defer closeNodes(in, target)
	if isOurs(in, a.step) {
		return unhappened, nil
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
	t.conflict(a.step.Path, "the store no longer holds the earlier version")
	return overtaken, nil
}

// ownAt judges a step whose staged thing left its slot, by what stands at the path.
func (t *settling) ownAt(ctx context.Context, a *act, target *Node) (outcome, error) {
	if !isOurs(target, a.step) {
		t.conflict(a.step.Path, "it was changed by others since; theirs stays")
		return overtaken, nil
	}
	var err error
	if a.ours, err = dup(target.self); err != nil {
		return unhappened, err
	}
	a.oursInfo, a.done = target.Info, true
	whole, err := hasHash(ctx, target, a.step.After)
	switch {
	case err != nil:
		return unhappened, err
	case whole:
		return happened, nil
	case target.Info.Kind == op.File && target.Info.Size == 0 && a.step.After.Size > 0:
		t.conflict(a.step.Path, "it stood empty after a crash, and the earlier version was put back")
		a.torn = true
		return intruded, nil
	}
	a.done = false
	t.conflict(a.step.Path, "it was written by others since; theirs stays")
	return overtaken, nil
}

// foreignSwap puts back a version of others that an exchange brought out just before the
// crash. Where ours does not stand at the path any more, nobody can tell which of the two
// is newer, and both stay.
func (t *settling) foreignSwap(a *act, target *Node) (outcome, error) {
	if !isOurs(target, a.step) {
		kept, err := t.h.s.keep(a.step.Slot)
		t.conflict(a.step.Path, "others changed it while the change was made; another version of theirs is kept in the store as "+kept)
		return unhappened, err
	}
	var err error
	if a.ours, err = dup(target.self); err != nil {
		return unhappened, err
	}
	a.oursInfo, a.done = target.Info, true
	t.conflict(a.step.Path, "others changed it at the last moment; theirs was put back")
	return intruded, nil
}

func (t *settling) findPlace(ctx context.Context, a *act) (outcome, error) {
	in, err := t.slot(a.step.Slot)
	if err != nil || in != nil {
		closeNodes(in)
		return unhappened, err
	}
	target, err := t.at(a.from, a.step.Path)
	if err != nil {
		return unhappened, err
	}
	defer closeNodes(target)
	return t.ownAt(ctx, a, target)
}

func (t *settling) findTake(ctx context.Context, a *act) (outcome, error) {
	in, err := t.slot(a.step.Slot)
	if err != nil {
		return unhappened, err
	}
	defer closeNodes(in)
	if in == nil {
		target, err := t.at(a.from, a.step.Path)
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
	if pinned && (a.step.Inode == 0 || isOurs(in, a.step)) {
		return happened, nil
	}
	t.conflict(a.step.Path, "others changed it at the last moment; theirs was put back")
	return intruded, nil
}

// findMove needs no hash where the inode was recorded: what others wrote at the
// destination since is theirs and lies where they wrote it.
func (t *settling) findMove(ctx context.Context, a *act) (outcome, error) {
	from, err := t.at(a.from, a.step.Path)
	if err != nil {
		return unhappened, err
	}
	to, err := t.at(a.to, a.step.To)
	if err != nil {
		closeNodes(from)
		return unhappened, err
	}
	defer closeNodes(from, to)
	moved, err := hasHash(ctx, to, a.step.Before)
	if err != nil {
		return unhappened, err
	}
	if isOurs(to, a.step) || a.step.Inode == 0 && moved && from == nil {
		if !moved {
			t.conflict(a.step.To, "it was written by others since")
		}
		a.came, a.done = to.Info, true
		return happened, nil
	}
	stayed, err := hasHash(ctx, from, a.step.Before)
	if isOurs(from, a.step) || a.step.Inode == 0 && stayed || err != nil {
		return unhappened, err
	}
	t.conflict(a.step.To, "it was changed by others since; theirs stays")
	return overtaken, nil
}

func (t *settling) findMakeDir(a *act) (outcome, error) {
	n, err := t.at(a.from, a.step.Path)
	defer closeNodes(n)
	switch {
	case err != nil || n == nil:
		return unhappened, err
	case n.Info.Kind != op.Directory:
		t.conflict(a.step.Path, "a "+string(n.Info.Kind)+" stands there since")
		return overtaken, nil
	}
	a.oursInfo, a.done = n.Info, true
	return happened, nil
}

func (t *settling) findRemoveDir(a *act) (outcome, error) {
	n, err := t.at(a.from, a.step.Path)
	defer closeNodes(n)
	if err != nil || n != nil {
		return neutral, err
	}
	mode, _ := modeOf(a.step.Before)
	a.gone = removed{info: Info{Kind: op.Directory, Mode: mode, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}}
	a.done = a.from.dir >= 0
	return happened, nil
}

func closeNodes(nodes ...*Node) {
	for _, n := range nodes {
		if n != nil {
			n.Close()
		}
	}
}
