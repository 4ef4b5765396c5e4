package shellexec

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// view mounts the root's copy-on-write view, attached nowhere yet. What the program writes
// goes to the upper directory; the root below is only read. The mount is volatile, so that
// copying a file up does not wait for the disk: who takes the change set over flushes it.
func (h *helper) view() (int, error) {
	lower, err := unix.Open(h.Root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, fmt.Errorf("the root cannot be opened: %w", err)
	}
	defer unix.Close(lower)
	var st unix.Stat_t
	if err := unix.Fstat(lower, &st); err != nil || st.Dev != h.RootDev || st.Ino != h.RootIno {
		return -1, errors.New("the workspace is no longer the directory that was looked at")
	}
	upper, err := here(fdUpper)
	if err != nil {
		return -1, err
	}
	defer unix.Close(upper)
	if h.Copied {
		return h.copied(upper)
	}
	work, err := here(fdWork)
	if err != nil {
		return -1, err
	}
	defer unix.Close(work)
	fd, err := overlay(lower, upper, work, !h.Plain)
	if err != nil {
		return -1, err
	}
	if h.lower, err = unix.FcntlInt(uintptr(lower), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return h.rootIs(fd)
}

// rootIs makes a mount the root from now on: its numbers are its own.
func (h *helper) rootIs(fd int) (int, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, err
	}
	h.RootDev, h.RootIno = st.Dev, st.Ino
	return fd, nil
}

// copied shows a copy of the root at its place.
func (h *helper) copied(upper int) (int, error) {
	fd, err := unix.OpenTree(upper, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("the copy's mount cannot be taken: %w", err)
	}
	return h.rootIs(fd)
}

// here opens the directory of an inherited handle anew: the handle came from the daemon's
// mounts, and only what lies on this process's own may be part of a view.
func here(inherited int) (int, error) {
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(inherited))
	if err != nil {
		return -1, fmt.Errorf("the place of the view is not known: %w", err)
	}
	fd, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, fmt.Errorf("the place of the view cannot be opened: %w", err)
	}
	var is, was unix.Stat_t
	if unix.Fstat(fd, &is) != nil || unix.Fstat(inherited, &was) != nil || is.Dev != was.Dev || is.Ino != was.Ino {
		unix.Close(fd)
		return -1, errors.New("the place of the view was moved")
	}
	return fd, nil
}

// overlay joins the directories by their handles, so that no name needs escaping. In a
// user namespace only attributes of the user's own kind can be set; without them such a
// mount works until a directory is removed, and then breaks.
func overlay(lower, upper, work int, user bool) (int, error) {
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("there is no overlay file system here: %w", err)
	}
	defer unix.Close(fs)
	for _, dir := range []struct {
		key string
		fd  int
	}{{"lowerdir", lower}, {"upperdir", upper}, {"workdir", work}} {
		if err := unix.FsconfigSetString(fs, dir.key, "/proc/self/fd/"+strconv.Itoa(dir.fd)); err != nil {
			return -1, told(fs, dir.key+" cannot be used", err)
		}
	}
	flags := []string{"volatile"}
	if user {
		flags = append(flags, "userxattr")
	}
	for _, f := range flags {
		if err := unix.FsconfigSetFlag(fs, f); err != nil {
			return -1, told(fs, f+" is not known", err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, told(fs, "the view cannot be made", err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return -1, told(fs, "the view cannot be mounted", err)
	}
	return fd, nil
}

// told adds what the kernel itself says of a mount that failed.
func told(fs int, what string, err error) error {
	b := make([]byte, 512)
	if n, bad := unix.Read(fs, b); bad == nil && n > 2 {
		return fmt.Errorf("%s: %w (%s)", what, err, b[2:n])
	}
	return fmt.Errorf("%s: %w", what, err)
}
