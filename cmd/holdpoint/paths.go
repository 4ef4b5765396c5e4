package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"holdpoint/op"
)

// DefaultState is the state directory when none is named; empty when there is no home.
func DefaultState(env func(string) string) string {
	if d := env("XDG_STATE_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "holdpoint")
	}
	if h := env("HOME"); filepath.IsAbs(h) {
		return filepath.Join(h, ".local", "state", "holdpoint")
	}
	return ""
}

// DefaultSocket is where daemon and clients meet when neither a socket nor a state
// directory is named: where the system's service for this user listens, if there is one.
func DefaultSocket(env func(string) string) string {
	if s := serviceSocket(); s != "" {
		if _, err := os.Lstat(s); err == nil {
			return s
		}
	}
	if d := env("XDG_RUNTIME_DIR"); filepath.IsAbs(d) {
		return filepath.Join(d, "holdpoint", "holdpoint.sock")
	}
	return filepath.Join("/tmp", "holdpoint-"+strconv.Itoa(os.Getuid()), "holdpoint.sock")
}

// serviceSocket is where holdpoint@USER.socket listens; empty where there are no names.
func serviceSocket() string {
	u, err := user.Current()
	if err != nil || u.Username == "" || strings.ContainsAny(u.Username, `/\`) {
		return ""
	}
	return filepath.Join("/run/holdpoint", u.Username, "holdpoint.sock")
}

// StatePath is the state directory by flag, environment, default.
func StatePath(flag string, env func(string) string) string {
	return first(flag, env("HOLDPOINT_STATE"), DefaultState(env))
}

// SocketPath is the one rule by which serve and the clients agree on a socket: the named
// one; else, when a state directory is named, one inside it, so that daemons with
// different states do not meet; else the default. named is false for the last two, whose
// directory must be checked before it is trusted.
func SocketPath(socket, state string, env func(string) string) (path string, named bool) {
	if s := first(socket, env("HOLDPOINT_SOCKET")); s != "" {
		return s, true
	}
	if s := first(state, env("HOLDPOINT_STATE")); s != "" {
		return filepath.Join(s, "holdpoint.sock"), false
	}
	return DefaultSocket(env), false
}

// maxSocketPath is the room in sockaddr_un less its final zero (unix(7)).
const maxSocketPath = 107

// CheckSocketLength refuses a path that the kernel would refuse without saying why.
func CheckSocketLength(path string) error {
	if len(path) <= maxSocketPath {
		return nil
	}
	return op.Fail(op.InvalidPath, fmt.Sprintf("the socket path has %d bytes and the kernel takes %d: %s", len(path), maxSocketPath, path)).
		Do("name a shorter one with --socket or HOLDPOINT_SOCKET")
}

// checkSocketDir refuses to hand a token or passphrase to a socket in a directory where
// another user could have put it (/tmp/holdpoint-UID can be made by anyone first).
func checkSocketDir(path string) error {
	dir := filepath.Dir(path)
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, err := ownerOf(info)
	if err != nil {
		return err
	}
	if !info.IsDir() || info.Mode().Perm()&0o022 != 0 || owner != 0 && owner != os.Getuid() {
		return op.Fail(op.StateUnsafe, "another user could stand behind the socket in "+dir).
			Do("look who made that directory; name the right socket with --socket or HOLDPOINT_SOCKET")
	}
	return nil
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// sameDir reports whether two names lead to one directory.
func sameDir(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && x.IsDir() && os.SameFile(x, y)
}

func notExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// first gives the first that is not empty.
func first[T ~string](words ...T) T {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}
