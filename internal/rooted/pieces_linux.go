package rooted

import (
	"context"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// A list longer than this is carried out in pieces: each step is checked like any other, but
// its handles and its lease are given back until its turn comes, and again when its piece
// stands. What was hashed counts as long as nothing of the file's stat has changed since, and
// a time that was too new to tell is hashed again. What a lease is for, a writer that had the
// old file open, is asked at the end of each piece; afterwards only the store has a name for it.
const (
	heldWhole = 256
	pieceSize = 128
)

// pieces parts the acts: one piece where all of it is held.
func (h *Held) pieces() (out [][]*act) {
	if !h.inPieces {
		return [][]*act{h.acts}
	}
	size := min(pieceSize, max(1, h.r.whole/2))
	for from := 0; from < len(h.acts); from += size {
		out = append(out, h.acts[from:min(from+size, len(h.acts))])
	}
	return out
}

// rest gives back what an act holds, and remembers whether that was enough.
func (a *act) rest() {
	a.weak, a.lent = a.isWeak(), a.leased
	a.close()
	a.file, a.was, a.ours, a.from.dir, a.to.dir = none, none, none, none, none
	a.leased, a.flush, a.rested = false, nil, true
}

// isWeak reports a file that is put away without a lease.
func (a *act) isWeak() bool { return a.weak || a.file >= 0 && !a.leased && a.step.Do != op.Move }

// wake takes up again what rest gave back. What changed meanwhile is looked at as in Hold.
func (h *Held) wake(ctx context.Context, a *act) error {
	a.rested, a.weak = false, false
	for _, at := range []struct {
		p  *place
		to op.Path
	}{{&a.from, a.step.Path}, {&a.to, a.step.To}} {
		if at.to == "" || at.p.name == "" {
			continue
		}
		was := at.p.info
		now, err := h.place(at.to)
		if err != nil {
			return fail(err, at.to)
		}
		if *at.p = now; !now.info.same(was) {
			return stale(at.to, "the directory it lies in was replaced meanwhile")
		}
	}
	if a.step.Do == op.Swap || a.step.Do == op.Take || a.step.Do == op.Move {
		if err := h.stillStands(ctx, a); err != nil {
			return err
		}
	}
	if a.step.Do == op.Swap || a.step.Do == op.Place {
		return h.stillStaged(ctx, a)
	}
	return nil
}

// stillStands holds what stands at the path again.
func (h *Held) stillStands(ctx context.Context, a *act) (err error) {
	lend, was := a.step.Do != op.Move, a.info
	if a.was, err = h.r.in.open(a.from.dir, a.from.name, unix.O_PATH); err == nil {
		a.info, _, err = lookAt(a.was, "")
	}
	if err == nil && a.info.untouched(was) && a.sure && a.info.Kind == op.File {
		if a.file, err = reopen(a.was, unix.O_RDONLY); err != nil {
			return fail(err, a.step.Path)
		}
		a.leased = a.lent && lease(a.file) == nil
		now, _, err := lookAt(a.file, "") // as the lease found it
		if err == nil && now.untouched(was) && a.leased == a.lent {
			return nil
		}
	} else if err == nil && a.info.same(was) && a.info.Kind != op.File {
		return nil // what came out is compared, a directory by all that stands below it
	}
	if a.leased {
		unlease(a.file)
	}
	closeFD(a.file)
	closeFD(a.was)
	a.file, a.was, a.leased = none, none, false
	return h.standing(ctx, a, lend)
}

// stillStaged holds what is put in again.
func (h *Held) stillStaged(ctx context.Context, a *act) (err error) {
	was := a.oursInfo
	if a.ours, err = h.s.in.open(h.s.fd, a.step.Slot, unix.O_PATH); err == nil {
		a.oursInfo, _, err = lookAt(a.ours, "")
	}
	if err == nil && a.oursInfo.untouched(was) {
		return nil
	}
	closeFD(a.ours)
	a.ours = none
	return h.staged(ctx, a)
}

// ended asks the leases of a piece that stands, and gives the handles back.
func (h *Held) ended(piece []*act) error {
	if err := h.leasesStand(piece); err != nil {
		return err
	}
	for _, a := range piece {
		a.rest()
	}
	return nil
}

// stir opens what taking an act back needs. A directory that was moved away by others in
// these moments is not found again, which is told as a step that stands.
func (h *Held) stir(a *act) (err error) {
	if !a.rested {
		return nil
	}
	a.rested = false
	if a.from, err = h.place(a.step.Path); err != nil {
		return err
	}
	if a.step.To != "" {
		if a.to, err = h.place(a.step.To); err != nil {
			return err
		}
	}
	if a.step.Do != op.Swap && a.step.Do != op.Place {
		return nil
	}
	fd, err := h.r.in.open(a.from.dir, a.from.name, unix.O_PATH)
	if err == unix.ENOENT {
		return nil // somebody removed ours; the way back finds that too
	}
	if err != nil {
		return err
	}
	if now, _, err := lookAt(fd, ""); err == nil && now.same(a.oursInfo) {
		a.ours = fd
		return nil
	}
	closeFD(fd)
	return nil
}

// standsRead compares what an act put in with what was meant, on a handle of its own.
func (h *Held) standsRead(ctx context.Context, a *act) error {
	if a.step.Do != op.Swap && a.step.Do != op.Place {
		return nil
	}
	if err := h.stir(a); err != nil || a.ours < 0 {
		a.rest()
		return nil // others moved on, which is theirs to do
	}
	defer a.rest()
	return h.reread(ctx, a)
}
