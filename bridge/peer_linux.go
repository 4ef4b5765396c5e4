package bridge

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// descends reports whether the process that made a connection to a unix socket came from
// this one. A number of 0 is a process of another namespace, which none of ours can be.
func descends(conn net.Conn) bool {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	pid := -1
	if err := raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	}); err != nil || pid < 0 {
		return true
	}
	return cameFrom(pid, os.Getpid())
}

// cameFrom walks up the parents of a process. It is true as well when the walk breaks off,
// as when the process has ended.
func cameFrom(pid, ancestor int) bool {
	if pid == ancestor {
		return false // the daemon's own calls
	}
	for range 1 << 16 {
		if pid == 0 || pid == 1 {
			return pid == ancestor
		}
		up, err := parent(pid)
		if err != nil {
			return true
		}
		if up == ancestor {
			return true
		}
		pid = up
	}
	return true
}

func parent(pid int) (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, which may hold anything, ends at the last bracket; then state and parent.
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 2 {
		return 0, os.ErrInvalid
	}
	return strconv.Atoi(f[1])
}
