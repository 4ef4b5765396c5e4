package e2e

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// faultsHere says whether this machine's tracer can make calls fail.
const faultsHere = true

// deny turns the call that a thread enters into none; giveBack then puts its outcome in
// place. shorten leaves the call and makes it ask for less.
func deny(tid int) error {
	return registers(tid, func(r *unix.PtraceRegs) { r.Orig_rax = ^uint64(0) })
}

func giveBack(tid, give int) error {
	return registers(tid, func(r *unix.PtraceRegs) { r.Rax = uint64(give) })
}

func shorten(tid int) error {
	return registers(tid, func(r *unix.PtraceRegs) { r.Rdx = (r.Rdx + 1) / 2 })
}

func registers(tid int, change func(*unix.PtraceRegs)) error {
	var r unix.PtraceRegs
	defer runtime.KeepAlive(&r)
	if err := ptrace(unix.PTRACE_GETREGS, tid, 0, uintptr(unsafe.Pointer(&r))); err != nil {
		return err
	}
	change(&r)
	return ptrace(unix.PTRACE_SETREGS, tid, 0, uintptr(unsafe.Pointer(&r)))
}
