package rooted

import (
	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// writable is the owner's right to write.
const writable = 0o200

// renameShut moves a directory that its owner may not write, such as those of Go's modules. To
// anybody but root the system permits that only with the right to write it, because what
// leads upwards from it changes. The owner has that right for as long as the move takes; should
// a crash come in between, Settle takes it away again.
func renameShut(fromDir int, from string, toDir int, to string) error {
	// Not into a mount, whose directory would not be the one that is moved.
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(fromDir, from, &how)
	if err != nil {
		return unix.EACCES
	}
	defer closeFD(fd)
	i, _, err := lookAt(fd, "")
	if err != nil || int(i.UID) != unix.Geteuid() || i.Mode&^0o577 != 0 { // what else it has might not come back
		return unix.EACCES
	}
	if err := unix.Chmod(fdName(fd), i.Mode|writable); err != nil {
		return unix.EACCES
	}
	err = retry(func() error { return unix.Renameat2(fromDir, from, toDir, to, unix.RENAME_NOREPLACE) })
	_ = unix.Chmod(fdName(fd), i.Mode) // it is the user's own; who moved it compares the mode
	return err
}

// reshut ends what a crash may have left of renameShut.
func (t *settling) reshut() {
	for i, s := range t.steps {
		for _, state := range []op.State{s.Before, s.After} {
			if mode, exact := modeOf(state); state.Kind == op.Directory && exact && mode&writable == 0 {
				t.reshutStep(i, s, mode)
			}
		}
	}
}

// reshutStep looks wherever the directory of a step may stand. One that has the mode on record
// but for the right that was lent gets it back.
func (t *settling) reshutStep(i int, s op.Step, mode uint32) {
	spots := t.spots(i, s.Path)
	if s.Slot != "" {
		spots = append(spots, spot{s.Slot, "."})
	}
	if s.To != "" {
		spots = append(spots, spot{path: s.To})
	}
	for _, at := range spots {
		n, err := t.open(at)
		if n == nil || err != nil {
			continue // the survey will find out why
		}
		if n.Info.Kind == op.Directory && n.Info.Mode == mode|writable && int(n.Info.UID) == unix.Geteuid() {
			_ = unix.Chmod(fdName(n.self), mode)
		}
		n.Close()
	}
}
