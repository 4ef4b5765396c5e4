package rooted

import (
	"context"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// backward takes back what was done, last first, and gives the error to answer: the cause,
// with what had to be left as others made it, or unknown_outcome where a step still stands.
func (h *Held) backward(ctx context.Context, cause error) error {
	h.guard("before back")
	h.report.Kept = nil
	var notes, stuck []string
	for i := len(h.acts) - 1; i >= 0; i-- {
		a := h.acts[i]
		if !a.done {
			continue
		}
		h.guard("back " + string(a.step.Do))
		note, err := "", h.stir(a)
		if err == nil {
			note, err = h.back(ctx, a)
		}
		if h.inPieces {
			a.rest()
		}
		if note != "" {
			notes = append(notes, note)
		}
		if err != nil {
			stuck = append(stuck, op.Escape(string(a.step.Path))+": "+op.AsError(fail(err, a.step.Path)).Message)
		}
	}
	if err := h.syncNames(); err != nil {
		stuck = append(stuck, "the directories could not be synced")
	}
	if len(stuck) > 0 {
		return op.Fail(op.UnknownOutcome, "the change failed and could not be taken back: "+strings.Join(stuck, "; ")).
			Do("a person should look at these paths; a restart tries again").Because(cause)
	}
	for _, a := range h.acts {
		a.done = false
	}
	h.dropCopies()
	h.uncarry(ctx)
	e := *op.AsError(cause)
	if len(notes) > 0 {
		e.Hint = strings.TrimSpace(e.Hint + " (" + strings.Join(notes, "; ") + ")")
	}
	return &e
}

// back takes one step back. A note says what stays as others made it since; an error that
// the step still stands.
func (h *Held) back(ctx context.Context, a *act) (note string, err error) {
	h.revive(&a.from, a.step.Path)
	h.revive(&a.to, a.step.To)
	switch a.step.Do {
	case op.Swap:
		return h.unswap(ctx, a)
	case op.Place:
		return h.unplace(ctx, a)
	case op.Take:
		return h.s.putBack(a.step.Slot, a.from, a.step.Path)
	case op.Move:
		return moveBack(a)
	case op.MakeDir:
		return unmake(a.from, a.oursInfo, a.step.Path)
	default:
		var err error
		if a.gone.info.Kind == op.Directory {
			err = remake(a.from, a.gone)
		} else { // after a crash only the record knows what it was
			mode, exact := modeOf(a.step.Before)
			err = makeDirAt(a.from, mode, exact)
		}
		if err == unix.EEXIST {
			err = nil
		}
		if err == nil {
			h.remade(a)
		}
		return "", err
	}
}

// remade tells the steps before a which directory stands now for the one that was removed,
// and has them act in it by its handle: at this moment its path may lead elsewhere.
func (h *Held) remade(a *act) {
	dir, err := h.r.in.open(a.from.dir, a.from.name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return
	}
	defer closeFD(dir)
	at, _, err := lookAt(dir, "")
	if err != nil {
		return
	}
	for _, e := range h.acts {
		if e.index >= a.index {
			continue
		}
		if e.came.same(a.gone.info) {
			e.came = at
		}
		if e.oursInfo.same(a.gone.info) {
			e.oursInfo = at
		}
		e.from.follows(a.gone.info, dir, at)
		e.to.follows(a.gone.info, dir, at)
	}
}

// follows puts a directory in place of the one that was removed.
func (at *place) follows(gone Info, dir int, now Info) {
	if at.dir < 0 || gone.Kind != op.Directory || !at.info.same(gone) {
		return
	}
	if fd, err := dup(dir); err == nil {
		closeFD(at.dir)
		at.dir, at.info = fd, now
	}
}

// revive opens a step's directory anew if it was removed after the step and made again since,
// by others: what the step took out of the old one goes back into the new one.
func (h *Held) revive(at *place, p op.Path) {
	if at.dir < 0 {
		return
	}
	if i, _, err := lookAt(at.dir, ""); err != nil || i.Links > 0 {
		return
	}
	if now, err := h.place(p); err == nil {
		closeFD(at.dir)
		*at = now
	}
}

func (h *Held) unswap(ctx context.Context, a *act) (string, error) {
	ours, err := h.s.swapBack(a.from, a.step.Slot, a.oursInfo)
	if err != nil && err != unix.ENOENT {
		return "", err
	}
	if ours || h.follow(a) {
		return h.keepIfWritten(ctx, a)
	}
	return h.letStand(ctx, a, err == unix.ENOENT)
}

// follow goes after a file of ours that others moved to another name before it could be
// taken back, and exchanges the slot with it there: what they moved away with it then
// stands where they wanted it, as if we had not been here. A change of theirs that cannot
// be followed, out of the root or over a link of its own, is left as it is.
func (h *Held) follow(a *act) bool {
	for range maxBusy {
		p, err := h.r.nameOf(a.ours)
		if err != nil || h.r.hides(p) || strings.HasSuffix(string(p), goneName) {
			return false
		}
		at, err := h.place(p)
		if err != nil {
			return false
		}
		ours := false
		if now, _, err := lookAt(at.dir, at.name); err == nil && now.same(a.oursInfo) {
			ours, _ = h.s.swapBack(at, a.step.Slot, a.oursInfo)
		}
		if ours {
			a.followed = append(a.followed, at)
			return true
		}
		closeFD(at.dir)
	}
	return false
}

// goneName is what the kernel adds to the last name of a thing that has that name no more. One
// that really ends so is not followed either.
const goneName = " (deleted)"

// letStand is for a file of ours that stays where others put it, or that they removed or
// replaced. What stood there before us may have no other name than the slot, unless they
// replaced ours: then what we had put away was theirs to replace. A slot that is the
// pre-image of another step, whose file we put in, gets a copy of that: its undo needs it.
func (h *Held) letStand(ctx context.Context, a *act, removed bool) (note string, err error) {
	now, _, err := lookAt(a.ours, "")
	if err != nil {
		return "", err
	}
	switch {
	case removed:
		note = "somebody removed " + op.Escape(string(a.step.Path)) + " meanwhile, its last version"
	case now.Links > 0:
		note = "somebody moved the new " + op.Escape(string(a.step.Path)) + " to another name before it was taken back, what stood there before"
	case a.lends:
		note = "somebody replaced " + op.Escape(string(a.step.Path)) + " meanwhile, the version before theirs"
	default:
		return "", nil
	}
	kept, err := h.s.keep(a.step.Slot)
	if err != nil {
		return "", err
	}
	return note + " is kept in the store as " + kept + h.refill(ctx, a), nil
}

// refill gives a slot that is the pre-image of another step a copy of the file that was put
// in from it and is out of reach: the undo of that step needs it.
func (h *Held) refill(ctx context.Context, a *act) (note string) {
	if !a.lends || a.oursInfo.Kind != op.File {
		return ""
	}
	ours := &Node{Path: a.step.Path, Info: a.oursInfo, in: h.s.in, parent: none, self: a.ours}
	if err := h.s.copyOut(ctx, a.step.Slot, ours); err != nil {
		return ", and what was to be put back is no longer in the store: " + op.AsError(fail(err, a.step.Path)).Message
	}
	return ""
}

// swapBack exchanges the slot and the target until what comes out is what was last put
// in, so that the newest version by others ends at the target. It reports whether what
// came out is mine, the thing whose place this was; the caller holds a handle on that.
// ENOENT: the target was removed meanwhile, and the slot holds what stood there before.
func (s *Store) swapBack(at place, slot string, mine Info) (bool, error) {
	var held []int // an inode number is good for comparison only while its file is held
	defer func() {
		for _, fd := range held {
			closeFD(fd)
		}
	}()
	open := func() (Info, error) {
		fd, err := s.in.open(s.fd, slot, unix.O_PATH)
		if err != nil {
			return Info{}, err
		}
		held = append(held, fd)
		i, _, err := lookAt(fd, "")
		return i, err
	}
	expect := mine
	for range 2 * maxBusy {
		puts, err := open()
		if err != nil {
			return false, err
		}
		if err := rename(at.dir, at.name, s.fd, slot, unix.RENAME_EXCHANGE); err != nil {
			return false, err
		}
		out, err := open()
		if err != nil {
			return false, err
		}
		// Mine may come out late, where somebody moves files to and fro: what others made
		// then all stands in the workspace, and only mine is out of it.
		if out.same(expect) || out.same(mine) {
			return out.same(mine), nil
		}
		expect = puts
	}
	return false, unix.EAGAIN
}

func (h *Held) unplace(ctx context.Context, a *act) (string, error) {
	err := rename(a.from.dir, a.from.name, h.s.fd, a.step.Slot, unix.RENAME_NOREPLACE)
	if err == unix.ENOENT {
		return op.Escape(string(a.step.Path)) + " was already removed by somebody else" + h.refill(ctx, a), nil
	}
	if err != nil {
		return "", err
	}
	now, _, err := lookAt(h.s.fd, a.step.Slot)
	if err != nil {
		return "", err
	}
	if !now.same(a.oursInfo) { // somebody replaced ours; theirs goes where it was
		note, err := h.s.putBack(a.step.Slot, a.from, a.step.Path)
		if err != nil {
			return "", err
		}
		return note + h.refill(ctx, a), nil
	}
	return h.keepIfWritten(ctx, a)
}

// putBack renames a slot to an absent path. If something newer stands there, that stays
// and the store keeps what was taken.
func (s *Store) putBack(slot string, at place, p op.Path) (string, error) {
	err := rename(s.fd, slot, at.dir, at.name, unix.RENAME_NOREPLACE)
	if err != unix.EEXIST && err != unix.ENOENT {
		return "", err
	}
	kept, err := s.keep(slot)
	return "something newer stands at " + op.Escape(string(p)) + ", the earlier version is kept in the store as " + kept, err
}

func moveBack(a *act) (string, error) {
	now, _, err := lookAt(a.to.dir, a.to.name)
	if err == unix.ENOENT || err == nil && !now.same(a.came) {
		return "what was moved to " + op.Escape(string(a.step.To)) + " was already replaced or removed by somebody else", nil
	}
	if err != nil {
		return "", err
	}
	return "", rename(a.to.dir, a.to.name, a.from.dir, a.from.name, unix.RENAME_NOREPLACE)
}

// unmake removes a directory that we made, if it still is that and empty.
func unmake(at place, made Info, p op.Path) (string, error) {
	now, _, err := lookAt(at.dir, at.name)
	if err == unix.ENOENT || err == nil && !now.same(made) {
		return "", nil
	}
	if err == nil {
		err = unix.Unlinkat(at.dir, at.name, unix.AT_REMOVEDIR)
	}
	switch err {
	case unix.ENOTEMPTY, unix.EEXIST:
		return "the new directory " + op.Escape(string(p)) + " stays, somebody put something into it", nil
	case unix.ENOENT:
		return "", nil
	}
	return "", err
}

// keepIfWritten looks whether somebody wrote into our file while it stood in the
// workspace. Those bytes are theirs: the file gets a slot of its own, which nobody drops
// with ours, unless the slot is an earlier step's pre-image and stays anyway.
func (h *Held) keepIfWritten(ctx context.Context, a *act) (string, error) {
	if a.oursInfo.Kind != op.File || a.step.After.Hash == "" || a.torn {
		return "", nil
	}
	fd, err := reopen(a.ours, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer closeFD(fd)
	leased := lease(fd)
	pause(settleTime)
	is, _, err := hashFD(ctx, fd, a.oursInfo.Size)
	if err != nil {
		return "", err
	}
	quiet := leased != unix.EAGAIN && (leased != nil || leaseStands(fd))
	if is == a.step.After.Hash && quiet {
		return "", nil
	}
	slot := a.step.Slot
	if a.fresh {
		if slot, err = h.s.keep(slot); err != nil {
			return "", err
		}
	}
	h.report.Late = append(h.report.Late, Late{Step: a.index, Path: a.step.Path, Was: a.step.After.Hash, Is: is, Slot: slot})
	return "somebody wrote into the new " + op.Escape(string(a.step.Path)) + " before it was taken back, that version is kept in the store as " + slot, nil
}

// keep moves what a slot holds to a name that no step knows, and gives that name.
func (s *Store) keep(slot string) (string, error) {
	s.forget(slot)
	for i := range 10 {
		name := slot + keptSuffix + strconv.Itoa(i)
		if err := rename(s.fd, slot, s.fd, name, unix.RENAME_NOREPLACE); err != unix.EEXIST {
			return name, err
		}
	}
	return "", unix.EEXIST
}
