package shellexec

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// What a program meets in here and would not, or not so, outside: attempts at a network that
// is off, and in a view the calls that it cannot do. They are seen where calls are put before
// this process, and go on; nothing is refused by it. Not seen: a datagram that sendmsg sends
// without connecting, and what a program does by a kind of call that the filter does not know.

const maxEvidence = 32 // of each kind

type evidence struct {
	mu   sync.Mutex // guards seen
	seen Evidence
}

func (e *evidence) said() *Evidence {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.seen.Attempts == 0 && len(e.seen.Moved)+len(e.seen.Foreign) == 0 {
		return nil
	}
	seen := e.seen
	return &seen
}

func noted(list *[]string, s string) {
	if !has(*list, s) && len(*list) < maxEvidence {
		*list = append(*list, s)
	}
}

// addressed is where a call that reaches out has its address: the argument, and that of its
// length.
var addressed = map[uintptr][2]int{unix.SYS_CONNECT: {1, 2}, unix.SYS_SENDTO: {4, 5}}

// asksAddresses are the instructions that put calls with an address before this process.
func asksAddresses(ask, let unix.SockFilter) (code []unix.SockFilter) {
	for nr, at := range addressed {
		word := func(half int) unix.SockFilter {
			return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: uint32(16 + 8*at[0] + 4*half)}
		}
		// An address of zero, in both halves of the word, is none.
		code = append(code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 6, K: uint32(nr)},
			word(0), unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 2},
			word(1), unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1},
			ask, let)
	}
	return code
}

// reachesOut notes an attempt at the network. What a program says to itself is none, but
// asking a name server is, also where it would listen on this machine.
func (h *helper) reachesOut(n *notif) {
	at := addressed[uintptr(n.nr)]
	b := make([]byte, min(n.args[at[1]], 128))
	if len(b) < 4 {
		return
	}
	if k, err := unix.ProcessVMReadv(int(n.pid), []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}}, []unix.RemoteIovec{{Base: uintptr(n.args[at[0]]), Len: len(b)}}, 0); err != nil || k != len(b) {
		return
	}
	to := ""
	switch family := binary.NativeEndian.Uint16(b); {
	case family == unix.AF_UNSPEC, family == unix.AF_UNIX, family == unix.AF_NETLINK:
		return
	case family == unix.AF_INET && len(b) >= 8:
		to = address(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:]))
	case family == unix.AF_INET6 && len(b) >= 24:
		to = address(netip.AddrFrom16([16]byte(b[8:24])).Unmap(), binary.BigEndian.Uint16(b[2:]))
	default:
		to = fmt.Sprintf("an address of family %d", family)
	}
	if to == "" {
		return
	}
	h.evidence.mu.Lock()
	defer h.evidence.mu.Unlock()
	h.evidence.seen.Attempts++
	noted(&h.evidence.seen.To, to)
}

// address words one; empty for a place of this namespace's own.
func address(a netip.Addr, port uint16) string {
	s := netip.AddrPortFrom(a, port).String()
	switch own := a.IsLoopback() || a.IsUnspecified(); {
	case port == 53:
		return s + " (a name server)"
	case own:
		return ""
	}
	return s
}

// inView gives what a word of a call leads to, as a path of the root; empty where that is
// outside of it or not there.
func (h *helper) inView(n *notif, at pathAt, follow bool) (rel string, st unix.Stat_t) {
	name, ok := textOf(n.pid, n.args[at.path])
	if !ok || name == "" {
		return "", st
	}
	if !strings.HasPrefix(name, "/") {
		dir := fmt.Sprintf("/proc/%d/cwd", n.pid)
		if at.dir >= 0 && int32(n.args[at.dir]) != unix.AT_FDCWD {
			dir = fmt.Sprintf("/proc/%d/fd/%d", n.pid, int32(n.args[at.dir]))
		}
		name = dir + "/" + name
	}
	flags := unix.O_PATH | unix.O_CLOEXEC
	if !follow {
		flags |= unix.O_NOFOLLOW
	}
	fd, err := unix.Open(name, flags, 0)
	if err != nil {
		return "", st
	}
	defer unix.Close(fd)
	full, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil || unix.Fstat(fd, &st) != nil {
		return "", st
	}
	rel, in := strings.CutPrefix(full, strings.TrimSuffix(h.Root, "/")+"/")
	if !in {
		return "", st
	}
	return rel, st
}

// cannotMove notes the renaming of a directory that the root below has as well: in a view
// that fails. One that the program made itself has a number of its own.
func (h *helper) cannotMove(n *notif, from pathAt) {
	rel, st := h.inView(n, from, false)
	if rel == "" || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return
	}
	var low unix.Stat_t
	if unix.Fstatat(h.lower, rel, &low, unix.AT_SYMLINK_NOFOLLOW) != nil || low.Mode&unix.S_IFMT != unix.S_IFDIR || low.Ino != st.Ino {
		return
	}
	h.evidence.mu.Lock()
	defer h.evidence.mu.Unlock()
	noted(&h.evidence.seen.Moved, rel)
}

// cannotWrite notes a write to a file that the view cannot take up, because its owner has no
// number in it.
func (h *helper) cannotWrite(n *notif, at pathAt) {
	rel, _ := h.inView(n, at, true)
	if !has(h.Foreign, rel) {
		return
	}
	h.evidence.mu.Lock()
	defer h.evidence.mu.Unlock()
	noted(&h.evidence.seen.Foreign, rel)
}

// inspect looks at a call for what the program meets in here alone.
func (h *helper) inspect(n *notif) {
	if _, out := addressed[uintptr(n.nr)]; out {
		h.reachesOut(n)
		return
	}
	if !h.View || h.Copied {
		return
	}
	if from, moves := sources[uintptr(n.nr)]; moves {
		h.cannotMove(n, from)
		if len(h.Foreign) > 0 {
			h.cannotWrite(n, from)
		}
		return
	}
	if c := creating[uintptr(n.nr)]; c.follows && len(h.Foreign) > 0 {
		h.cannotWrite(n, c.paths[0])
	}
}
