//go:build unix

package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"holdpoint/op"

	"golang.org/x/sys/unix"
)

// safeDirectory refuses a state directory that others could have made, could enter or
// could exchange, before anything in it is looked at; it makes a missing one where it may.
func safeDirectory(dir string, create bool) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if !create {
			return op.Fail(op.NotFound, "there is no state directory "+op.Visible(dir, false)).Do("start the daemon once to make one")
		}
		return makeDirectory(dir)
	}
	if err != nil {
		return ioError("look at the state directory", err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return unsafePlace(dir, "is a symbolic link")
	}
	if !info.IsDir() {
		return unsafePlace(dir, "is not a directory")
	}
	if err := safeOwner(dir, info); err != nil {
		return err
	}
	return safeAncestors(dir)
}

// makeDirectory makes dir and its missing parents, all 0700, once what is above is safe.
func makeDirectory(dir string) error {
	parent := filepath.Dir(dir)
	if _, err := os.Stat(parent); errors.Is(err, fs.ErrNotExist) {
		if err := makeDirectory(parent); err != nil {
			return err
		}
	}
	if err := safeAncestors(dir); err != nil {
		return err
	}
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		err = os.Chmod(dir, 0o700) // a umask may have taken the owner's own bits
	}
	if err != nil {
		return ioError("make the state directory", err)
	}
	return nil
}

// safeAncestors refuses a place where somebody else can rename what stands on the way: a
// directory above that all may write, unless it is sticky.
func safeAncestors(dir string) error {
	at, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return ioError("look above the state directory", err)
	}
	for {
		info, err := os.Stat(at)
		if err != nil {
			return ioError("look above the state directory", err)
		}
		if info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
			return unsafePlace(at, "lies above the state and is writable by all")
		}
		if at == filepath.Dir(at) {
			return nil
		}
		at = filepath.Dir(at)
	}
}

// safeOwner refuses what another user owns or what group or others can reach.
func safeOwner(path string, info fs.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
		return unsafePlace(path, "belongs to another user")
	}
	if extra := info.Mode().Perm() & 0o077; extra != 0 {
		return unsafePlace(path, fmt.Sprintf("is open to others (mode %04o)", info.Mode().Perm()))
	}
	return nil
}

// A lock that is taken is tried again for a moment: a program that its last holder was
// just starting has the descriptor until its exec, and a killed holder until it is gone.
const (
	lockTries = 20
	lockPause = 15 * time.Millisecond
)

// lockFile takes the lock that one process at a time holds; the kernel gives it back
// when the process ends.
func lockFile(f *os.File) error {
	var err error
	for range lockTries {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
		time.Sleep(lockPause)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return op.Fail(op.StateLocked, "another process has the state "+op.Visible(filepath.Dir(f.Name()), false)+" open").Do("call the running daemon, or end it first")
	}
	if err != nil {
		return ioError("lock the state", err)
	}
	return nil
}
