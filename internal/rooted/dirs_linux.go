package rooted

import (
	"strconv"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// removed keeps of a directory what is needed to make it again.
type removed struct {
	info  Info
	attrs map[string]string
}

// makeDir makes one directory, under the umask unless the step names a mode.
func (h *Held) makeDir(a *act) error {
	mode, exact := modeOf(a.step.After)
	err := makeDirAt(a.from, mode, exact)
	if err == unix.EEXIST {
		return stale(a.step.Path, "something came to stand where nothing was")
	}
	if err != nil {
		return fail(err, a.step.Path)
	}
	a.done = true
	// By its name first, which needs no descriptor: whatever fails from here on, the way
	// back knows what to remove.
	if a.oursInfo, _, err = lookAt(a.from.dir, a.from.name); err != nil {
		a.oursInfo, _, _ = lookAt(a.from.dir, a.from.name)
		return newDirError(err, a.step.Path)
	}
	if a.ours, err = h.r.in.open(a.from.dir, a.from.name, unix.O_PATH|unix.O_DIRECTORY); err != nil {
		return newDirError(err, a.step.Path)
	}
	now, _, err := lookAt(a.ours, "")
	if err != nil {
		return newDirError(err, a.step.Path)
	}
	if !now.same(a.oursInfo) {
		return newDirError(unix.ENOENT, a.step.Path)
	}
	return nil
}

// newDirError words what befell a directory between its making and the first look at it.
func newDirError(err error, p op.Path) error {
	switch err {
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV:
		return stale(p, "the directory was replaced as soon as it was made")
	}
	return fail(err, p)
}

// makeDirAt makes a directory that belongs to the owner of the one above where we are root.
func makeDirAt(at place, mode uint32, exact bool) error {
	above, _, err := lookAt(at.dir, "")
	if err != nil {
		return err
	}
	if err := retry(func() error { return unix.Mkdirat(at.dir, at.name, mode) }); err != nil {
		return err
	}
	if !exact && (unix.Geteuid() != 0 || above.UID == 0) {
		return nil
	}
	fd, err := unix.Openat(at.dir, at.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		err = ownAsDir(fd, above)
		if err == nil && exact {
			err = unix.Fchmod(fd, mode)
		}
		closeFD(fd)
	}
	if err != nil {
		_ = unix.Unlinkat(at.dir, at.name, unix.AT_REMOVEDIR) // nobody else knows of it
	}
	return err
}

// modeOf reads a recorded mode; without one it is what a plain mkdir asks for.
func modeOf(s op.State) (mode uint32, exact bool) {
	n, err := strconv.ParseUint(s.Mode, 8, 32)
	if s.Mode == "" || err != nil {
		return 0o777, false
	}
	return uint32(n) & 0o7777, true
}

// removeDir removes a directory if it is empty. If not, or if it is not there or is
// something else by now, it stays as it is and the report says so.
func (h *Held) removeDir(a *act) error {
	if a.from.dir < 0 {
		h.report.Kept = append(h.report.Kept, a.step.Path)
		return nil
	}
	a.gone = remember(a.from)
	err := retry(func() error { return unix.Unlinkat(a.from.dir, a.from.name, unix.AT_REMOVEDIR) })
	switch err {
	case nil:
		a.done = true
		return nil
	case unix.ENOENT, unix.ENOTEMPTY, unix.EEXIST, unix.ENOTDIR:
		h.report.Kept = append(h.report.Kept, a.step.Path)
		return nil
	}
	return fail(err, a.step.Path)
}

func remember(at place) (r removed) {
	r.info, _, _ = lookAt(at.dir, at.name)
	fd, err := unix.Openat(at.dir, at.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return r
	}
	defer closeFD(fd)
	r.attrs, _ = attributes(fd)
	return r
}

// remake makes a removed directory again, as it was.
func remake(at place, r removed) error {
	if err := unix.Mkdirat(at.dir, at.name, 0o700); err != nil {
		return err
	}
	fd, err := unix.Openat(at.dir, at.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	now, _, err := lookAt(fd, "")
	if err != nil {
		return err
	}
	if err := own(fd, now, r.info); err != nil {
		return err
	}
	have, _ := attributes(fd)
	for name := range have {
		if _, wanted := r.attrs[name]; !wanted {
			_ = unix.Fremovexattr(fd, name)
		}
	}
	for name, value := range r.attrs {
		if got, there := have[name]; !there || got != value {
			if err := unix.Fsetxattr(fd, name, []byte(value), 0); err != nil {
				return err
			}
		}
	}
	return unix.Fchmod(fd, r.info.Mode)
}
