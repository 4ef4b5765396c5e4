package shellexec

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A name that is not there cannot be covered by a mount, and a stand-in for it would show to
// everybody who looks into the root. So each call that makes a name is put before this
// process, which looks where it leads and refuses those names. It is a guard against what
// programs do, not against one that rewrites the words of its call while they are looked at:
// what comes about by that is found by comparing afterwards, as for all other names.

// How the kernel hands a call over and is answered (seccomp_unotify, section 2).
const (
	notifReceive  = 0xc0502100
	notifSend     = 0xc0182101
	notifValid    = 0x40082102
	notifContinue = 1
)

type notif struct {
	id         uint64
	pid, flags uint32
	nr         int32
	arch       uint32
	at         uint64
	args       [6]uint64
}

type verdict struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// holdNames has the calls of this thread, and of what it starts, put before a goroutine.
func (h *helper) holdNames() error {
	if len(h.Names) == 0 && h.Network && !h.View && !h.Probe {
		return nil
	}
	// As it shows from here: of a view of the root the numbers are others than the root's.
	if err := unix.Stat(h.Root, &h.top); err != nil {
		return err
	}
	code := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}} // the number
	ask := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF}
	let := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	if runtime.GOARCH == "amd64" { // numbers of its second kind of calls begin here
		code = append(code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, Jf: 1, K: 0x40000000},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)})
	}
	if !h.Network {
		code = append(code, asksAddresses(ask, let)...)
	}
	opens := uint32(unix.O_CREAT)
	if len(h.Foreign) > 0 { // what only writes is looked at as well
		opens |= unix.O_WRONLY | unix.O_RDWR | unix.O_TRUNC
	}
	for nr, c := range creating {
		if len(h.Names) == 0 && !h.View {
			break
		}
		if c.flags < 0 {
			code = append(code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: uint32(nr)}, ask)
			continue
		}
		code = append(code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 4, K: uint32(nr)},
			unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: uint32(16 + 8*c.flags)},
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jf: 1, K: opens}, ask, let)
	}
	code = append(code, let)
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(code)
	if errno != 0 {
		return errno
	}
	go h.judgeNames(int(fd))
	return nil
}

// judgeNames answers until nobody is left who could ask.
func (h *helper) judgeNames(listener int) {
	for {
		var n notif
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), notifReceive, uintptr(unsafe.Pointer(&n)))
		if errno == unix.EINTR || errno == unix.ENOENT { // it ended before it was looked at
			continue
		}
		if errno != 0 {
			return
		}
		h.inspect(&n)
		v := verdict{id: n.id, flags: notifContinue}
		if h.makesHeld(&n) {
			v.flags, v.errno = 0, -int32(unix.EACCES)
		}
		unix.Syscall(unix.SYS_IOCTL, uintptr(listener), notifSend, uintptr(unsafe.Pointer(&v)))
	}
}

// makesHeld reports whether a call would make one of the names. What cannot be read counts
// as if it would.
func (h *helper) makesHeld(n *notif) bool {
	c, known := creating[uintptr(n.nr)]
	if _, reaches := addressed[uintptr(n.nr)]; reaches {
		return false
	}
	if !known {
		return true
	}
	for _, at := range c.paths {
		dir := fmt.Sprintf("/proc/%d/cwd", n.pid)
		if at.dir >= 0 && int32(n.args[at.dir]) != unix.AT_FDCWD {
			dir = fmt.Sprintf("/proc/%d/fd/%d", n.pid, int32(n.args[at.dir]))
		}
		name, ok := textOf(n.pid, n.args[at.path])
		if !ok || h.leadsToHeld(dir, name, c.follows) {
			return true
		}
	}
	return false
}

// leadsToHeld follows a name to the place where something would be made.
func (h *helper) leadsToHeld(dir, name string, follows bool) bool {
	for range 40 {
		name = strings.TrimRight(name, "/")
		if name == "" {
			return false
		}
		full := name
		if !filepath.IsAbs(name) {
			full = dir + "/" + name
		}
		// Not cleaned: what lies before a .. may be a link.
		cut := strings.LastIndexByte(full, '/')
		parent, last := full[:cut+1], full[cut+1:]
		if h.holds(last) {
			var st unix.Stat_t
			if unix.Stat(parent, &st) == nil && st.Dev == h.top.Dev && st.Ino == h.top.Ino {
				return unix.Lstat(full, &st) != nil // what is there is held by its mount
			}
		}
		if !follows {
			return false
		}
		to, err := os.Readlink(full)
		if err != nil {
			return false
		}
		dir, name = parent, to
	}
	return false // more links than the kernel follows
}

func (h *helper) holds(name string) bool {
	for _, n := range h.Names {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// textOf reads a word of a process that waits for its call, page by page: it may end short
// of one that is not there.
func textOf(pid uint32, at uint64) (string, bool) {
	b := make([]byte, 0, 256)
	for len(b) < unix.PathMax {
		from := at + uint64(len(b))
		piece := make([]byte, min(4096-int(from%4096), 256))
		n, err := unix.ProcessVMReadv(int(pid), []unix.Iovec{{Base: &piece[0], Len: uint64(len(piece))}}, []unix.RemoteIovec{{Base: uintptr(from), Len: len(piece)}}, 0)
		if err == unix.EFAULT {
			return "", true // the call fails by itself
		}
		if err != nil || n < 1 {
			return "", false
		}
		for i, c := range piece[:n] {
			if c == 0 {
				return string(append(b, piece[:i]...)), true
			}
		}
		b = append(b, piece[:n]...)
	}
	return "", true // longer than a name can be
}

// making is where a call that makes names has them.
type making struct {
	paths   []pathAt
	flags   int  // the argument whose O_CREAT decides; -1 where it always makes one
	follows bool // it goes through a link to make what that names
}

type pathAt struct{ dir, path int } // dir -1: from the working directory
