package audit

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// A link or a pipe in the log's place is not followed and does not block.
const openFlags = unix.O_NOFOLLOW | unix.O_NONBLOCK

func supported() error { return nil }

// identity tells one file from another that took its name.
type identity struct {
	major, minor uint32
	inode        uint64
}

func identify(f *os.File) (identity, error) {
	var st unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_INO, &st); err != nil {
		return identity{}, systemError(err, "the audit log cannot be looked at")
	}
	return identity{st.Dev_major, st.Dev_minor, st.Ino}, nil
}

// look asks, without writing, whether a write to f would do what it should. It returns how
// much the file system says is free. Three system calls, a few microseconds.
func look(f *os.File, path string, file identity, size int64) (int64, error) {
	var vol unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &vol); err != nil {
		return 0, systemError(err, "the audit log's file system does not answer")
	}
	if vol.Flags&unix.ST_RDONLY != 0 {
		return 0, systemError(unix.EROFS, "the audit log is on a read-only file system")
	}
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_SIZE, &st)
	if err != nil {
		return 0, op.Fail(op.IOError, "the audit log is no longer where it was").Because(err)
	}
	switch {
	case (identity{st.Dev_major, st.Dev_minor, st.Ino}) != file:
		return 0, op.Fail(op.StateCorrupt, "another file stands in the audit log's place")
	case int64(st.Size) != size:
		return 0, op.Fail(op.StateCorrupt, "the audit log was written or cut by somebody else")
	case st.Attributes&unix.STATX_ATTR_IMMUTABLE != 0:
		return 0, op.Fail(op.IOError, "the audit log is marked immutable")
	}
	// A file system that gave up after an error of the disk says nothing above; ext4 refuses
	// even a write of nothing then, and such a write changes nothing where it is let pass.
	if _, err := unix.Write(int(f.Fd()), nil); err != nil {
		return 0, systemError(err, "the audit log cannot be written")
	}
	return int64(vol.Bavail) * vol.Bsize, nil
}

// allocate gives the file room behind its end without changing its size.
func allocate(f *os.File, from, length int64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err == nil && limit.Cur < uint64(from+length) {
		return unix.EFBIG
	}
	for {
		err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, from, length)
		if err != unix.EINTR {
			return err
		}
	}
}

// lock keeps a second process out for as long as f is open; it would fork the chain.
func lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return op.Fail(op.StateLocked, "another process writes to this audit log").
			Do("stop the other daemon, or give this one a state directory of its own")
	}
	return systemError(err, "the audit log cannot be locked")
}

// ownedByUs also refuses a file with a second name, through which it could be changed.
func ownedByUs(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid() && (info.IsDir() || st.Nlink == 1)
}

func codeOf(err error) op.Code {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
		return op.NoSpace
	case errors.Is(err, unix.EROFS):
		return op.ReadOnlyFilesystem
	case errors.Is(err, unix.ELOOP):
		return op.StateUnsafe
	case errors.Is(err, fs.ErrPermission):
		return op.PermissionDenied
	}
	return op.IOError
}
