package e2e

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// faultable are the calls that can be made to fail, by the name that a fault asks for.
var faultable = map[string]string{
	"openat2": "openat2", "openat": "openat", "write": "write", "pwrite64": "pwrite64", "fsync": "fsync", "fdatasync": "fdatasync",
	"mkdir": "mkdir*", "mkdirat": "mkdir*", "rename": "rename*", "renameat": "rename*", "renameat2": "rename*", "link": "link*", "linkat": "link*",
	"symlinkat": "symlinkat", "unlink": "unlink*", "unlinkat": "unlink*", "ftruncate": "ftruncate", "fallocate": "fallocate",
	"fchmod": "fchmod*", "fchmodat": "fchmod*", "fchown": "fchown*", "fchownat": "fchown*", "fsetxattr": "setxattr*", "setxattr": "setxattr*", "lsetxattr": "setxattr*",
	"utimensat": "utimensat", "copy_file_range": "copy_file_range", "getdents64": "getdents64", "pread64": "pread64", "read": "read",
	"statx": "stat*", "newfstatat": "stat*", "fstat": "stat*",
}

// short is the fault of a write that takes half of its bytes; all others are error numbers.
const short = "short"

var faultNumbers = map[string]unix.Errno{"ENOSPC": unix.ENOSPC, "EDQUOT": unix.EDQUOT, "EIO": unix.EIO, "EROFS": unix.EROFS, "EMFILE": unix.EMFILE}

// faultsOf lists what each call can fail with.
var faultsOf = map[string][]string{
	"openat2": {"EMFILE", "EIO", "ENOSPC", "EROFS", "EDQUOT"}, "openat": {"EMFILE", "EIO", "ENOSPC", "EROFS", "EDQUOT"},
	"write": {"ENOSPC", short, "EIO", "EDQUOT"}, "pwrite64": {"ENOSPC", short, "EIO", "EDQUOT"},
	"fsync": {"EIO", "ENOSPC", "EDQUOT"}, "fdatasync": {"EIO", "ENOSPC", "EDQUOT"},
	"mkdir*": {"ENOSPC", "EROFS", "EIO", "EDQUOT"}, "rename*": {"ENOSPC", "EROFS", "EIO", "EDQUOT"}, "link*": {"ENOSPC", "EROFS", "EIO", "EDQUOT"},
	"symlinkat": {"ENOSPC", "EROFS", "EIO", "EDQUOT"}, "unlink*": {"EIO", "EROFS"}, "ftruncate": {"EIO", "ENOSPC", "EROFS"}, "fallocate": {"ENOSPC", "EIO", "EDQUOT"},
	"fchmod*": {"EIO", "EROFS"}, "fchown*": {"EIO", "EROFS", "EDQUOT"}, "setxattr*": {"ENOSPC", "EDQUOT", "EROFS", "EIO"}, "utimensat": {"EIO", "EROFS"},
	"copy_file_range": {"ENOSPC", "EIO", "EDQUOT"}, "getdents64": {"EIO"}, "pread64": {"EIO"}, "read": {"EIO"}, "stat*": {"EIO"},
}

// faultKinds are the names in the order of the table.
var faultKinds = []string{"openat2", "openat", "write", "pwrite64", "fsync", "fdatasync", "mkdir*", "rename*", "link*", "symlinkat", "unlink*", "ftruncate", "fallocate",
	"fchmod*", "fchown*", "setxattr*", "utimensat", "copy_file_range", "getdents64", "pread64", "read", "stat*"}

// strike makes the call that a thread enters fail.
func (p *tracer) strike(tid int, name string, args [6]uint64) error {
	of := name
	switch p.names[name] {
	case "write", "pwrite64", "fsync", "fdatasync", "ftruncate", "getdents64", "pread64", "read":
		to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", p.pid, args[0]))
		of += " " + to
	}
	p.report.Failed = of
	if p.fault == short {
		return shorten(tid)
	}
	number, known := faultNumbers[p.fault]
	if !known {
		return fmt.Errorf("no fault is called %s", p.fault)
	}
	if p.struck == nil {
		p.struck = map[int]int{}
	}
	p.struck[tid] = -int(number)
	return deny(tid)
}

// garble is the fault of a disk that stores something else than it was given: the first
// write into the store has one bit turned over on its way, and says that all is well.
const garble = "garble"

type garbling struct {
	tid  int
	at   uintptr
	was  []byte
	over bool // the caller's own bytes are as they were
}

func (p *tracer) garble(tid int, name string, enters bool, args [6]uint64) error {
	if g := p.garbled; g != nil {
		if g.over || g.tid != tid || enters {
			return nil
		}
		g.over = true
		_, err := unix.PtracePokeData(tid, g.at, g.was)
		return err
	}
	to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", p.pid, args[0]))
	if !enters || name != "write" && name != "pwrite64" || !strings.Contains(to, "/store/") || args[2] == 0 {
		return nil
	}
	g := &garbling{tid: tid, at: uintptr(args[1]), was: make([]byte, 1)}
	if _, err := unix.PtracePeekData(tid, g.at, g.was); err != nil {
		return err
	}
	p.garbled, p.report.Failed = g, name+" "+to
	_, err := unix.PtracePokeData(tid, g.at, []byte{g.was[0] ^ 1})
	return err
}
