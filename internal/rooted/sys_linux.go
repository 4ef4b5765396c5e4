package rooted

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

const none = -1 // no handle

// strict keeps the kernel's walk below the directory it starts from: no "..", no links of
// any kind, no mount points.
const strict = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS

// opener opens one name below a held directory without leaving the mount.
type opener struct {
	openat2 bool
	mount   uint64 // id of the root's mount; what lies on another is refused
}

// retry repeats a call that a signal interrupted.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// open opens name, never a link's target. A relative path of several names is taken only
// where the kernel walks it itself. EXDEV means a mount point, ELOOP or ENOTDIR a link.
func (o opener) open(dir int, name string, flags int) (fd int, err error) {
	flags |= unix.O_NOFOLLOW | unix.O_CLOEXEC
	if o.openat2 {
		how := unix.OpenHow{Flags: uint64(flags), Resolve: strict}
		for range maxBusy {
			err = retry(func() error { fd, err = unix.Openat2(dir, name, &how); return err })
			if err != unix.EAGAIN {
				break
			}
		}
		if err != nil {
			return none, err
		}
		return fd, nil
	}
	if name == ".." || strings.Contains(name, "/") {
		return none, unix.EXDEV // here nothing but the name itself keeps it below dir
	}
	err = retry(func() error { fd, err = unix.Openat(dir, name, flags, 0); return err })
	if err != nil {
		return none, err
	}
	_, mount, err := lookAt(fd, "")
	if err == nil && mount != o.mount {
		err = unix.EXDEV
	}
	if err != nil {
		closeFD(fd)
		return none, err
	}
	return fd, nil
}

func closeFD(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd) // nothing of ours is ever unwritten at this point
	}
}

func dup(fd int) (int, error) {
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
}

// lookAt tells what stands at a name in a held directory, not following a link; with an
// empty name what the handle itself is.
func lookAt(dir int, name string) (i Info, mount uint64, err error) {
	i, s, err := inspect(dir, name)
	return i, s.mount, err
}

// inspect is lookAt, and tells the imprint of the bytes as well. The mount is 0 where the
// kernel tells it of handles only.
func inspect(dir int, name string) (i Info, s imprint, err error) {
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	var st unix.Statx_t
	const mask = unix.STATX_BASIC_STATS | unix.STATX_BTIME | unix.STATX_MNT_ID | unix.STATX_MNT_ID_UNIQUE
	if err = retry(func() error { return unix.Statx(dir, name, flags, mask, &st) }); err != nil {
		return i, s, err
	}
	i = Info{
		Kind: kindOf(st.Mode), Size: int64(st.Size), Mode: uint32(st.Mode) & 0o7777, UID: st.Uid, GID: st.Gid, Links: uint64(st.Nlink),
		Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino, Mtime: stamp(st.Mtime), Ctime: stamp(st.Ctime),
		Frozen: st.Attributes&(unix.STATX_ATTR_IMMUTABLE|unix.STATX_ATTR_APPEND) != 0,
	}
	s = imprint{i.Dev, i.Ino, st.Mnt_id, i.Size, nano(st.Mtime), nano(st.Ctime), nano(st.Btime)}
	if st.Mask&(unix.STATX_MNT_ID|unix.STATX_MNT_ID_UNIQUE) == 0 {
		if s.mount = 0; name == "" {
			s.mount, err = mountFromProc(dir)
		}
	}
	if err == nil && i.Kind == op.Symlink {
		i.Target, err = linkText(dir, name)
	}
	return i, s, err
}

func nano(t unix.StatxTimestamp) int64 { return t.Sec*int64(time.Second) + int64(t.Nsec) }

func stamp(t unix.StatxTimestamp) time.Time { return time.Unix(t.Sec, int64(t.Nsec)) }

func kindOf(mode uint16) op.Kind {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return op.File
	case unix.S_IFDIR:
		return op.Directory
	case unix.S_IFLNK:
		return op.Symlink
	case unix.S_IFIFO:
		return op.Fifo
	case unix.S_IFSOCK:
		return op.Socket
	case unix.S_IFCHR, unix.S_IFBLK:
		return op.Device
	}
	return op.Unknown
}

// linkText reads a link by name, or by its own handle when name is empty.
func linkText(dir int, name string) (string, error) {
	b := make([]byte, maxPath+1)
	n, err := unix.Readlinkat(dir, name, b)
	if err != nil {
		return "", err
	}
	return string(b[:n]), nil
}

// mountFromProc finds the mount id where statx does not tell it (before Linux 5.8).
func mountFromProc(fd int) (uint64, error) {
	b, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strconv.ParseUint(strings.TrimSpace(v), 10, 64)
		}
	}
	return 0, unix.ENOSYS
}

// reopen opens what a path handle stands for, for reading. It must be known to be a
// regular file or a directory: opening a device acts on it.
func reopen(fd, flags int) (out int, err error) {
	name := "/proc/self/fd/" + strconv.Itoa(fd)
	flags |= unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	err = retry(func() error { out, err = unix.Open(name, flags, 0); return err })
	if err != nil {
		return none, err
	}
	return out, nil
}

// rename moves or exchanges names between held directories; flags must not be 0, which
// would replace what stands at the destination.
func rename(fromDir int, from string, toDir int, to string, flags uint) error {
	err := retry(func() error { return unix.Renameat2(fromDir, from, toDir, to, flags) })
	if err == unix.EACCES && flags == unix.RENAME_NOREPLACE && unix.Geteuid() != 0 {
		return renameShut(fromDir, from, toDir, to)
	}
	return err
}

// syncDir makes the names in a held directory durable.
func syncDir(dir int) error {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	return syncFD(fd)
}

// syncFD treats file systems without the call as having nothing to sync.
func syncFD(fd int) error {
	err := retry(func() error { return unix.Fsync(fd) })
	if err == unix.EINVAL || err == unix.EROFS {
		return nil
	}
	return err
}
