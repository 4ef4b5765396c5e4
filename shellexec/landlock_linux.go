package shellexec

import (
	"encoding/binary"
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Landlock by its three calls: a library would bind every thread of the process, and this
// must bind only the one from which the program is started.

func landlockABI() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// The groups of rights, by the version that brought them.
const (
	landlockRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	landlockV1   = 1<<13 - 1
	landlockNew  = unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

func landlockRights(abi int) uint64 {
	all := uint64(landlockV1)
	if abi >= 2 {
		all |= unix.LANDLOCK_ACCESS_FS_REFER // else no rename from one directory to another
	}
	if abi >= 3 {
		all |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= 5 {
		all |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return all
}

// rules makes the rules: everything may be read and run, only the root and the private
// places may be written, with renames between their directories.
func (h *helper) rules() (int, error) {
	abi := landlockABI()
	if abi < 1 {
		return -1, errors.New("the kernel has no Landlock")
	}
	all := landlockRights(abi)
	attr := unix.LandlockRulesetAttr{Handled_access_fs: all}
	if abi >= 4 && !h.Network && !h.Namespaces {
		// In a namespace the loopback is the process's own and stays open.
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if abi >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return -1, errno
	}
	fd := int(n)
	err := errors.Join(allow(fd, "/", landlockRead), allow(fd, h.Root, all))
	if h.Namespaces {
		for _, dir := range []string{"/tmp", "/var/tmp", "/run", "/dev/shm", "/dev/pts"} {
			err = errors.Join(err, allow(fd, dir, all))
		}

	}
	for _, d := range devices {
		err = errors.Join(err, allow(fd, "/dev/"+d, unix.LANDLOCK_ACCESS_FS_READ_FILE|unix.LANDLOCK_ACCESS_FS_WRITE_FILE|all&landlockNew))
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// allow adds one rule. A place that is not there needs none.
func allow(rules int, path string, access uint64) error {
	at, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(at)
	var rule [12]byte // packed: the rights, then the handle
	binary.NativeEndian.PutUint64(rule[:8], access)
	binary.NativeEndian.PutUint32(rule[8:], uint32(at))
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(rules), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// restrict binds this thread and what it starts, for good.
func restrict(rules int) error {
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(rules), 0, 0); errno != 0 {
		return errno
	}
	return nil
}
