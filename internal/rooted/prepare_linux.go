package rooted

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// prepare opens and checks what one step begins with.
func (h *Held) prepare(ctx context.Context, a *act) (err error) {
	if a.from, err = h.place(a.step.Path); err != nil {
		if a.step.Do == op.RemoveDir && errors.Is(err, op.Stale) {
			a.from = place{dir: none} // it is gone with its parent, which is no failure
			return nil
		}
		return fail(err, a.step.Path)
	}
	switch a.step.Do {
	case op.Swap:
		return h.prepareSwap(ctx, a)
	case op.Place:
		if err := h.mustBeAbsent(a.from, a.step.Path); err != nil {
			return err
		}
		return h.staged(ctx, a)
	case op.Take:
		if err := h.standing(ctx, a, true); err != nil {
			return err
		}
		a.step.Inode = a.info.Ino
		return h.fits(ctx, a)
	case op.Move:
		if err := h.standing(ctx, a, false); err != nil {
			return err
		}
		a.step.Inode = a.info.Ino
		if a.to, err = h.place(a.step.To); err != nil {
			return fail(err, a.step.To)
		}
		return h.mustBeAbsent(a.to, a.step.To)
	case op.MakeDir:
		return h.mustBeAbsent(a.from, a.step.Path)
	}
	return nil // RemoveDir is asked of the kernel, which knows whether it is empty
}

func (h *Held) prepareSwap(ctx context.Context, a *act) error {
	if err := h.standing(ctx, a, true); err != nil {
		return err
	}
	if a.info.Links > 1 && !h.o.BreakLinks {
		return op.Fail(op.HardLinked, "other names share this file, and they would keep the old content").At(a.step.Path).
			Do("hard_links: \"break\" gives this name a file of its own")
	}
	if err := h.staged(ctx, a); err != nil {
		return err
	}
	a.step.Copy = ""  // in an undo it named the copy of what is put back
	if h.far != nil { // its copy is independent in any case
		return h.fits(ctx, a)
	}
	if a.leased {
		return nil
	}
	return h.copyPreimage(ctx, a)
}

// place opens the parent of p. That something else became of it is drift.
func (h *Held) place(p op.Path) (place, error) {
	dir, err := h.r.dirAt(p.Parent())
	switch err {
	case nil:
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP:
		return place{dir: none}, stale(p, "the directory it lies in is no longer what was looked at")
	default:
		return place{dir: none}, err
	}
	i, _, err := lookAt(dir, "")
	if err == nil && i.Dev != h.s.self.Dev {
		err = op.Fail(op.CrossDevice, "the directory is on another part of the file system than the store").At(p).Do("ask the operator to register it as a root of its own")
	}
	if err != nil {
		closeFD(dir)
		return place{dir: none}, err
	}
	return place{dir, p.Base(), i}, nil
}

func (h *Held) mustBeAbsent(at place, p op.Path) error {
	_, _, err := lookAt(at.dir, at.name)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return fail(err, p)
	}
	return stale(p, "something came to stand where nothing was")
}

// standing opens what stands at the step's path, leases it if it is a file and the step
// puts it away, and compares it with what was seen before.
func (h *Held) standing(ctx context.Context, a *act, lend bool) (err error) {
	p, want := a.step.Path, a.step.Before
	a.was, err = h.r.in.open(a.from.dir, a.from.name, unix.O_PATH)
	if err == unix.ENOENT {
		return stale(p, "it is no longer there")
	}
	if err != nil {
		return fail(err, p)
	}
	before := Moment()
	if a.info, _, err = lookAt(a.was, ""); err != nil {
		return fail(err, p)
	}
	a.sure = a.info.Ctime.Before(before)
	if a.info.Kind != want.Kind {
		return stale(p, "a "+string(a.info.Kind)+" stands there now, not a "+string(want.Kind))
	}
	if a.info.Frozen {
		return op.Fail(op.PermissionDenied, "it is immutable or append-only").At(p).Do("its owner has to clear that flag first")
	}
	if a.step.Do == op.Swap || a.step.Do == op.Take {
		if a.step.Before.Meta = h.node(a).Meta(); want.Meta != "" && want.Meta != a.step.Before.Meta {
			return stale(p, "its owner, its access list or its attributes changed")
		}
	}
	if want.Mode != "" && want.Kind != op.Symlink && want.Mode != a.info.ModeString() {
		return stale(p, "its mode changed from "+want.Mode+" to "+a.info.ModeString())
	}
	switch want.Kind {
	case op.File:
		return h.openFile(ctx, a, lend)
	case op.Symlink:
		if HashBytes([]byte(a.info.Target)) != want.Hash {
			return stale(p, "the link leads elsewhere now")
		}
	case op.Directory:
		if want.Hash == "" {
			return nil
		}
		m, seen, err := h.node(a).manifest(ctx, nil)
		if err != nil {
			return err
		}
		a.seen = seen
		if m.Digest != want.Hash {
			e := stale(p, "something below the directory changed")
			e.CurrentHash = m.Digest
			return e
		}
	}
	return nil
}

// node is what stands at the step's path, on the act's own handle.
func (h *Held) node(a *act) *Node {
	return &Node{Asked: a.step.Path, Path: a.step.Path, Info: a.info, in: h.r.in, hides: h.r.hides, known: &h.r.known, parent: none, self: a.was, name: a.from.name}
}

// openFile leases before it hashes, so that what is compared is what the lease guards.
func (h *Held) openFile(ctx context.Context, a *act, lend bool) (err error) {
	if a.file, err = reopen(a.was, unix.O_RDONLY); err != nil {
		return fail(err, a.step.Path)
	}
	if lend && !h.o.NoLease {
		switch err := leaseWithin(ctx, a.file, h.o.WaitWriter); {
		case err == nil:
			a.leased = true
		case err == unix.EAGAIN:
			return noLease(err, a.step.Path)
		}
	}
	if lend && h.far != nil && !a.leased {
		return noLease(unix.ENOSYS, a.step.Path)
	}
	if err := h.compare(ctx, a); err != nil {
		return err
	}
	if !lend || h.s.relaxed {
		return nil
	}
	// Another program may have written it without a sync; what goes into the store has to
	// survive a crash. Apply waits for it, and flushes a long list as one.
	if h.inPieces || h.isSolid(a) {
		return nil
	}
	a.flush = h.s.begin(func() error { return syncData(a.file) })
	return nil
}

func (h *Held) compare(ctx context.Context, a *act) error {
	d, _, err := hashFD(ctx, a.file, a.info.Size)
	if err != nil {
		return fail(err, a.step.Path)
	}
	if d != a.step.Before.Hash {
		return changed(a.step.Path, d)
	}
	return nil
}

func changed(p op.Path, now op.Digest) error {
	e := stale(p, "the file's content changed")
	e.CurrentHash = now
	return e
}

// staged opens what the step puts in, and makes sure that it still is what was staged or,
// in an undo, what was put away: a late writer may have reached it there.
func (h *Held) staged(ctx context.Context, a *act) (err error) {
	if a.ours, err = h.s.in.open(h.s.fd, a.step.Slot, unix.O_PATH); err != nil && err != unix.ENOENT {
		return fail(err, a.step.Path)
	} else if err != nil {
		return op.Fail(op.StateCorrupt, "what was to be put in its place is not in the store").At(a.step.Path).Because(err)
	}
	if a.oursInfo, _, err = lookAt(a.ours, ""); err != nil {
		return fail(err, a.step.Path)
	}
	a.step.After.Meta = metaOf(a.ours, a.oursInfo)
	if a.step.Do == op.Place {
		// After a crash an empty slot means that the thing was placed: it must not mean that
		// it never got to the disk. With a swap the slot is never empty once it happened.
		if err := h.s.Flushed(a.step.Slot); err != nil {
			return fail(err, a.step.Path)
		}
	}
	if a.step.Inode != 0 && a.step.Inode != a.oursInfo.Ino {
		return op.Fail(op.StateCorrupt, "another thing is in the slot than was staged").At(a.step.Path)
	}
	a.step.Inode = a.oursInfo.Ino
	var untouched bool
	a.fresh, untouched = h.s.isFresh(a.step.Slot, a.oursInfo)
	a.lends = !a.fresh
	a.untouched = untouched
	if untouched || a.step.After.Hash == "" {
		return nil
	}
	n := &Node{Path: a.step.Path, Info: a.oursInfo, in: h.s.in, known: h.s.known, parent: none, self: a.ours}
	now, seen, err := n.state(ctx, nil)
	if err != nil {
		return err
	}
	if now.Kind != a.step.After.Kind || now.Hash != a.step.After.Hash {
		e := op.Fail(op.StateCorrupt, "what is in the store is not what was put there").At(a.step.Path).Do("see whether a late write is reported; both versions are kept")
		e.CurrentHash = now.Hash
		return e
	}
	if a.step.Do == op.Place {
		a.seen = seen
	}
	return nil
}

// copyPreimage makes the independent copy that stands in for a lease: who has the old file
// open could change it after it was put away, but not this. An undo and its redo find the
// copy of the other already there and take another name.
func (h *Held) copyPreimage(ctx context.Context, a *act) error {
	for _, suffix := range []string{copySuffix, copySuffix + "2"} {
		slot := a.step.Slot + suffix
		made, err := h.s.StageCopy(ctx, slot, h.node(a), Meta{Like: h.node(a)})
		state := made.State
		if errors.Is(err, op.Exists) {
			if state, err = h.s.State(ctx, slot); err == nil && state.Hash != a.step.Before.Hash {
				continue
			}
		} else {
			a.copied = err == nil
		}
		if err != nil {
			return noCopy(err, a.step.Path)
		}
		a.step.Copy = slot
		if state.Hash != a.step.Before.Hash {
			return changed(a.step.Path, state.Hash)
		}
		return nil
	}
	return noCopy(op.Fail(op.Exists, "the store holds other copies under its names"), a.step.Path)
}

func noCopy(err error, p op.Path) error {
	e := op.AsError(err)
	switch e.Code {
	case op.NoSpace, op.Stale, op.Cancelled, op.MetadataLoss, op.PermissionDenied, op.BusyWriter, op.NotAvailable:
		return e.At(p)
	}
	return op.Fail(op.BackupFailed, "no copy of the old content could be kept: "+e.Message).At(p).Because(err)
}
