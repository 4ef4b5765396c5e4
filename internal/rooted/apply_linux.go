package rooted

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// Apply does the steps in order and checks after each that what came out is what was
// held. When it returns without error all steps stand and are durable, so that a crash
// after it loses nothing. On failure it takes back what it did, last first, and nothing
// of it stands; only where a foreign change makes that impossible the answer is
// unknown_outcome, and Settle finds out later. Staged things stay in their slots then.
func (h *Held) Apply(ctx context.Context) (Report, error) {
	h.applied = true
	err := h.flushed()
	if err == nil {
		err = h.forward(ctx)
	}
	if err == nil {
		err = h.confirm(ctx)
	}
	if err != nil {
		err = h.backward(context.WithoutCancel(ctx), err)
		return h.report, err
	}
	for _, a := range h.acts {
		h.report.Weak = h.report.Weak || a.isWeak()
		h.s.forget(a.step.Slot) // from now on the slot is a pre-image, or empty
	}
	h.settled()
	// All stands and is on disk. Should this fail, the next start moves on what is left.
	h.report.Near = h.stow(ctx)
	return h.report, nil
}

func (h *Held) forward(ctx context.Context) error {
	for _, piece := range h.pieces() {
		err := h.doAll(ctx, piece)
		if err == nil && h.inPieces {
			err = h.ended(piece)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (h *Held) doAll(ctx context.Context, piece []*act) error {
	for _, a := range piece {
		if err := ctx.Err(); err != nil {
			return op.Fail(op.Cancelled, "cancelled before the change was made").At(a.step.Path).Because(err)
		}
		if a.rested {
			if err := h.wake(ctx, a); err != nil {
				return fail(err, a.step.Path)
			}
		}
		if a.later {
			err := h.prepare(ctx, a)
			if err == nil {
				err = a.flush.wait()
			}
			if err != nil {
				return fail(err, a.step.Path)
			}
		}
		h.guard("before " + string(a.step.Do))
		err := h.do(ctx, a)
		if err == nil {
			err = h.stillLeads(a.from, a.step.Path)
		}
		if err == nil && a.step.Do == op.Move {
			err = h.stillLeads(a.to, a.step.To)
		}
		if err != nil {
			return fail(err, a.step.Path)
		}
		h.guard("after " + string(a.step.Do))
	}
	return nil
}

// stillLeads reports whether the path still leads to the directory that was acted in: a
// change that lands in a directory that was renamed meanwhile could not be found again by
// its record.
func (h *Held) stillLeads(at place, p op.Path) error {
	if at.dir < 0 {
		return nil
	}
	now, err := h.place(p)
	if err != nil {
		return err
	}
	closeFD(now.dir)
	if !now.info.same(at.info) {
		return stale(p, "the directory it lies in was replaced at the last moment")
	}
	return nil
}

func (h *Held) do(ctx context.Context, a *act) error {
	switch a.step.Do {
	case op.Swap:
		return h.swap(ctx, a)
	case op.Place:
		return h.putIn(a)
	case op.Take:
		return h.take(ctx, a)
	case op.Move:
		return h.move(ctx, a)
	case op.MakeDir:
		return h.makeDir(a)
	default:
		return h.removeDir(a)
	}
}

// swap exchanges the target with what is staged, and looks at what came out.
func (h *Held) swap(ctx context.Context, a *act) error {
	err := rename(a.from.dir, a.from.name, h.s.fd, a.step.Slot, unix.RENAME_EXCHANGE)
	if err == unix.ENOENT {
		return stale(a.step.Path, "it is no longer there")
	}
	if err != nil {
		return renameError(err, a.step.Path)
	}
	a.done, h.last = true, time.Now()
	h.guard("swapped")
	return h.cameOut(ctx, a, place{dir: h.s.fd, name: a.step.Slot})
}

func (h *Held) putIn(a *act) error {
	err := rename(h.s.fd, a.step.Slot, a.from.dir, a.from.name, unix.RENAME_NOREPLACE)
	if err == unix.EEXIST {
		return stale(a.step.Path, "something came to stand where nothing was")
	}
	if err != nil {
		return renameError(err, a.step.Path)
	}
	a.done = true
	return nil
}

func (h *Held) take(ctx context.Context, a *act) error {
	err := rename(a.from.dir, a.from.name, h.s.fd, a.step.Slot, unix.RENAME_NOREPLACE)
	if err == unix.ENOENT {
		return stale(a.step.Path, "it is no longer there")
	}
	if err != nil {
		return renameError(err, a.step.Path)
	}
	a.done, h.last = true, time.Now()
	h.guard("taken")
	return h.cameOut(ctx, a, place{dir: h.s.fd, name: a.step.Slot})
}

func (h *Held) move(ctx context.Context, a *act) error {
	err := rename(a.from.dir, a.from.name, a.to.dir, a.to.name, unix.RENAME_NOREPLACE)
	switch err {
	case nil:
	case unix.ENOENT:
		return stale(a.step.Path, "it is no longer there")
	case unix.EEXIST:
		return stale(a.step.To, "something came to stand where nothing was")
	case unix.EINVAL:
		return op.Fail(op.IntoItself, "a directory cannot be moved below itself").At(a.step.Path)
	default:
		return renameError(err, a.step.Path)
	}
	a.done = true
	h.guard("moved")
	return h.cameOut(ctx, a, a.to)
}

// renameError knows that a rename's EXDEV comes from borders inside one mount.
func renameError(err error, p op.Path) error {
	if err == unix.EXDEV {
		return op.Fail(op.CrossDevice, "a border inside the file system lies between the path and the store").At(p).Because(err)
	}
	return fail(err, p)
}

// cameOut checks that what now stands at a place is what was held: the same thing, with
// the same owner, mode and names, and, where no lease vouches for them, the same bytes.
func (h *Held) cameOut(ctx context.Context, a *act, at place) error {
	p := a.step.Path
	now, _, err := lookAt(at.dir, at.name)
	if a.came = now; err != nil {
		a.came = a.info // so that the way back takes it for what was held
	}
	switch {
	case err != nil && err != unix.ENOENT:
		return fail(err, p)
	case err != nil || !now.same(a.info):
		return stale(p, "another file came to stand there at the last moment")
	case now.Kind != op.Symlink && (now.Mode != a.info.Mode || now.UID != a.info.UID || now.GID != a.info.GID):
		return stale(p, "its mode or owner changed at the last moment")
	case now.Kind == op.File && now.Links > a.info.Links && !h.o.BreakLinks && a.step.Do == op.Swap:
		return stale(p, "it got another name at the last moment")
	case now.Kind == op.File && !a.leased:
		return h.compare(ctx, a)
	case now.Kind == op.Directory && a.step.Before.Hash != "":
		n := h.node(a)
		n.hides = nil
		m, _, err := n.manifest(ctx, a.seen)
		if err != nil {
			return err
		}
		if m.Digest != a.step.Before.Hash {
			e := stale(p, "something below the directory changed at the last moment")
			e.CurrentHash = m.Digest
			return e
		}
	}
	return nil
}

// confirm makes the names durable, reads meanwhile what was put in, and asks the leases
// last, when a writer that raced the rename has had time to show.
func (h *Held) confirm(ctx context.Context) error {
	h.guard("before confirm")
	names := h.s.begin(h.syncNames)
	var reread error
	for _, a := range h.acts {
		switch {
		case reread != nil:
		case h.inPieces:
			reread = h.standsRead(ctx, a)
		default:
			reread = h.reread(ctx, a)
		}
	}
	if err := names.wait(); err != nil {
		return err
	}
	if reread != nil {
		return reread
	}
	if h.inPieces {
		return nil // each piece was asked
	}
	if err := h.carry(ctx); err != nil {
		return err
	}
	return h.leasesStand(h.acts)
}

func (h *Held) leasesStand(acts []*act) error {
	if !h.last.IsZero() && slices.ContainsFunc(acts, func(a *act) bool { return a.leased }) {
		pause(settleTime - time.Since(h.last))
	}
	h.guard("before lease check")
	for _, a := range acts {
		if a.leased && !leaseStands(a.file) {
			return stale(a.step.Path, "another program opened the file for writing at the last moment")
		}
	}
	return nil
}

// syncNames syncs each directory that a step changed, once, and all at the same time: a
// filesystem with one journal then commits them together.
func (h *Held) syncNames() error {
	if h.s.relaxed {
		return nil
	}
	if h.inPieces {
		return fail(retry(func() error { return unix.Syncfs(h.s.fd) }), "")
	}
	type dir struct {
		fd int
		id inode
		p  op.Path
	}
	var dirs []dir
	seen := map[inode]bool{}
	add := func(fd int, i Info, p op.Path) {
		if id := (inode{i.Dev, i.Ino}); fd >= 0 && !seen[id] {
			seen[id] = true
			dirs = append(dirs, dir{fd, id, p})
		}
	}
	for _, a := range h.acts {
		if !a.done {
			continue
		}
		add(a.from.dir, a.from.info, a.step.Path)
		add(a.to.dir, a.to.info, a.step.To)
		for _, at := range a.followed {
			add(at.dir, at.info, a.step.Path)
		}
		if a.step.Slot != "" {
			add(h.s.fd, h.s.self, a.step.Path)
		}
	}
	if h.far != nil && len(dirs) > 0 { // the near folder may be new
		c := h.far.copies
		for fd, p := range map[int]op.Path{c.top: nearTop, c.base: "."} {
			i, _, err := lookAt(fd, "")
			if err != nil {
				return fail(err, p)
			}
			add(fd, i, p)
		}
	}
	var g errgroup.Group
	g.SetLimit(16)
	for _, d := range dirs {
		g.Go(func() error {
			err := h.s.names.flush(d.id, func() error {
				err := syncDir(d.fd)
				if err == unix.EACCES { // a directory that may be changed but not listed
					err = unix.Syncfs(h.s.fd)
				}
				return err
			})
			return fail(err, d.p)
		})
	}
	return g.Wait()
}

// reread compares what was put in with what was meant. Another file at the name, or a
// newer time on ours, is a later write by somebody else, which is theirs to make.
func (h *Held) reread(ctx context.Context, a *act) error {
	if a.step.Do != op.Swap && a.step.Do != op.Place || a.step.After.Hash == "" {
		return nil
	}
	now, _, err := lookAt(a.from.dir, a.from.name)
	if err != nil || !now.same(a.oursInfo) {
		return nil
	}
	n := &Node{Path: a.step.Path, Info: now, in: h.r.in, known: &h.r.known, parent: none, self: a.ours}
	is, _, err := n.state(ctx, a.seen)
	if errors.Is(err, op.Stale) {
		return nil // it is being written at this moment
	}
	if err != nil {
		return err
	}
	if is.Hash == a.step.After.Hash {
		if a.fresh && a.untouched && now.Mtime.Equal(a.oursInfo.Mtime) && now.Size == a.oursInfo.Size {
			a.stands = &now
		}
		return nil
	}
	if now, _, err := lookAt(a.ours, ""); err == nil && now.Kind != op.Directory && now.Mtime.Equal(a.oursInfo.Mtime) && now.Size == a.oursInfo.Size {
		return op.Fail(op.IOError, "the file does not read back as it was written").At(a.step.Path)
	}
	return nil
}
