package rooted

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// Bounds of what is copied for one call: a copy takes its time, and the change waits.
const (
	maxCopied      = 200_000 // entries
	maxCopiedBytes = 8 << 30
)

// fits refuses what would be too much to copy, before anything is touched.
func (h *Held) fits(ctx context.Context, a *act) error {
	if h.far == nil {
		return nil
	}
	count := func(p op.Path, i Info) error {
		h.copyEntries++
		if i.Kind == op.File {
			h.copyBytes += i.Size
		}
		if h.copyEntries > maxCopied || h.copyBytes > maxCopiedBytes {
			return op.Fail(op.TooLarge, "the store of this root holds copies, and this is too much to copy for one undo").At(a.step.Path).
				Do("delete a part at a time, or ask the operator for a store on the root's own filesystem")
		}
		if i.Frozen {
			return op.Fail(op.PermissionDenied, "it is immutable or append-only").At(p).Do("its owner has to clear that flag first")
		}
		return nil
	}
	if err := count(a.step.Path, a.info); err != nil {
		return err
	}
	if a.info.Kind == op.Directory {
		n := h.node(a)
		n.hides = nil
		if err := n.Tree(ctx, func(p op.Path, i Info, _ func() (*Node, error)) error { return count(p, i) }); err != nil {
			return err
		}
	}
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(h.far.fd, &st) }); err != nil {
		return fail(err, a.step.Path)
	}
	if st.Blocks > 0 && uint64(h.copyBytes) > st.Bavail*uint64(st.Bsize) {
		return op.Fail(op.NoSpace, "the store's filesystem has no room for a copy of what stands there").At(a.step.Path).Do("make room where the state directory lies")
	}
	return nil
}

// fetch brings what the store of copies keeps for a step at hand. What is staged, or what
// an earlier step will put away, is there already.
func (h *Held) fetch(ctx context.Context, a *act) error {
	if h.far == nil || a.step.Do != op.Swap && a.step.Do != op.Place {
		return nil
	}
	for _, e := range h.acts[:a.index] {
		if e.step.Slot == a.step.Slot {
			return nil
		}
	}
	if at, err := h.s.Inode(a.step.Slot); err == nil {
		if far, err := h.far.Inode(a.step.Slot); err == nil && far == a.step.Inode {
			a.step.Inode = at // left by a change that came to nothing; its bytes are compared
		}
		return nil
	}
	n, err := h.far.Node(a.step.Slot)
	if errors.Is(err, op.NotFound) {
		return nil // and it will be missed in time
	}
	if err != nil {
		return err
	}
	defer n.Close()
	i, err := h.s.adopt(ctx, a.step.Slot, n)
	if err != nil {
		return fail(err, a.step.Path)
	}
	a.fetched = true
	a.step.Inode = i.Ino
	is, err := h.s.State(ctx, a.step.Slot)
	if err != nil {
		return err
	}
	if a.step.After.Hash != "" && (is.Kind != a.step.After.Kind || is.Hash != a.step.After.Hash) {
		e := op.Fail(op.StateCorrupt, "what is in the store is not what was put there").At(a.step.Path)
		e.CurrentHash = is.Hash
		return e
	}
	h.s.markFresh(a.step.Slot, i)
	return nil
}

// dropFetched takes away what was brought for steps that do not stand.
func (h *Held) dropFetched() {
	for _, a := range h.acts {
		if a.fetched && !a.done {
			if ino, err := h.s.Inode(a.step.Slot); err == nil && ino == a.step.Inode {
				_ = h.s.discard(a.step.Slot)
			}
		}
	}
}

// carry copies what came out of the tree into the store of copies, while the leases still
// stand. A failure is the whole change's: it is taken back.
func (h *Held) carry(ctx context.Context) error {
	if h.far == nil {
		return nil
	}
	for _, a := range h.acts {
		if !a.done || a.step.Do != op.Swap && a.step.Do != op.Take {
			continue
		}
		n, err := h.s.Node(a.step.Slot)
		if errors.Is(err, op.NotFound) {
			continue // a later step put it back into the tree
		}
		if err == nil {
			h.guard("before carry")
			a.carried = true
			err = h.carryOne(ctx, a, n)
			n.Close()
		}
		if err != nil {
			return noCopy(fail(err, a.step.Path), a.step.Path)
		}
		h.guard("carried")
	}
	return fail(syncDir(h.far.fd), "")
}

func (h *Held) carryOne(ctx context.Context, a *act, n *Node) error {
	out := a.step.Slot + outSuffix
	if err := h.far.copyOut(ctx, out, n); err != nil {
		return err
	}
	is, err := h.far.State(ctx, out)
	if err == nil && a.step.Before.Hash != "" && is.Hash != a.step.Before.Hash {
		return stale(a.step.Path, "it was written at the last moment")
	}
	return err
}

// stow ends the work in the near folder when all steps stand: the copies take their
// slots, what went back into the tree leaves its slot, and only then what is at hand goes.
func (h *Held) stow(ctx context.Context) error {
	if h.far == nil {
		return nil
	}
	last := map[string]*act{} // of each slot
	for _, a := range h.acts {
		if a.done && a.step.Slot != "" {
			last[a.step.Slot] = a
		}
	}
	for slot, a := range last {
		var err error
		switch {
		case a.carried:
			err = h.far.exchangeFor(slot)
		case a.step.Do == op.Place:
			err = h.far.Drop(slot)
		}
		if err != nil {
			return fail(err, a.step.Path)
		}
	}
	if err := syncDir(h.far.fd); err != nil {
		return fail(err, "")
	}
	h.guard("stowed")
	for slot, a := range last {
		if a.carried {
			if err := h.s.discard(slot); err != nil {
				return err
			}
		}
	}
	return nil
}

// uncarry drops copies of a change that came to nothing, and takes what others wrote along
// to where it stays.
func (h *Held) uncarry(ctx context.Context) {
	if h.far == nil {
		return
	}
	for _, a := range h.acts {
		if a.carried {
			_ = h.far.Drop(a.step.Slot + outSuffix)
		}
	}
	slots, _ := h.s.Slots()
	for _, slot := range slots {
		for _, a := range h.acts {
			if KeptFor(slot) == a.step.Slot && a.step.Slot != "" && h.far.haul(ctx, h.s, slot) == nil {
				_ = h.s.discard(slot)
			}
		}
	}
}
