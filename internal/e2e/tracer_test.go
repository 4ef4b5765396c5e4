package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The tracer is this test binary, started once more. strace counts when=N for each thread
// apart, so that of a program whose work wanders between threads it never reaches some
// calls; the tracer counts over all threads, and so reaches each.

// tracerEnv carries a tracer's orders: "PID", "PID SYSCALL N" to kill the process as it
// enters its Nth call of that name, "PID SYSCALL N FAULT" to let that call fail instead, or "PID faults" to
// count what can fail.
const tracerEnv = "HOLDPOINT_E2E_TRACER"

// traced are the calls that are counted, by the name that a kill asks for.
var traced = map[string]string{
	"openat2": "openat2", "write": "write", "pwrite64": "pwrite64", "fsync": "fsync", "fdatasync": "fdatasync", "mkdirat": "mkdirat",
	"rename": "rename*", "renameat": "rename*", "renameat2": "rename*", "link": "link*", "linkat": "link*", "unlink": "unlink*", "unlinkat": "unlink*",
}

// tracedKinds are the names that a kill asks for, in the order of the table.
var tracedKinds = []string{"openat2", "write", "pwrite64", "fsync", "fdatasync", "rename*", "link*", "unlink*", "mkdirat"}

// walWrites counts, among pwrite64, the writes to the database's log. Each page that a
// transaction changed takes two of them, and how many pages it changes depends on how full
// they are, so that the same request makes more or fewer.
const walWrites, walName = "pwrite64 to the log", "journal.db-wal"

// counted is a tracer's report: calls by kind from its start to the end of the process.
type counted struct {
	Calls  map[string]int
	Killed bool   // by the tracer itself
	Failed string // the call that was made to fail, as it was: its name and what its descriptor or first path is
}

// tracing is a tracer at work on a daemon.
type tracing struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

// trace starts a tracer on a process and returns when all its threads are held.
func trace(t testing.TB, pid int, kind string, n int) *tracing {
	t.Helper()
	orders := strconv.Itoa(pid)
	if kind != "" {
		orders += fmt.Sprintf(" %s %d", kind, n)
	}
	return startTracer(t, orders)
}

func startTracer(t testing.TB, orders string) *tracing {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tr := &tracing{cmd: exec.Command(self)}
	tr.cmd.Env, tr.cmd.Stderr = append(os.Environ(), tracerEnv+"="+orders), os.Stderr
	out, err := tr.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tr.out = bufio.NewReader(out)
	if line, err := tr.out.ReadString('\n'); line != "ready\n" {
		t.Fatalf("the tracer did not start: %q %v", line, err)
	}
	return tr
}

// wait gives the report, once the traced process is dead.
func (tr *tracing) wait(t testing.TB) counted {
	t.Helper()
	var c counted
	if err := json.NewDecoder(tr.out).Decode(&c); err != nil {
		t.Fatalf("the tracer's report: %v", err)
	}
	if err := tr.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return c
}

// beTracer is the main function of a tracer; it answers false where none is asked for.
func beTracer() bool {
	orders := strings.Fields(os.Getenv(tracerEnv))
	if len(orders) == 0 {
		return false
	}
	runtime.LockOSThread() // a thread's tracees are its own
	pid, err := strconv.Atoi(orders[0])
	p := &tracer{pid: pid, names: traced, report: counted{Calls: map[string]int{}}}
	if err == nil && len(orders) >= 3 {
		p.kind = orders[1]
		p.n, err = strconv.Atoi(orders[2])
	}
	if err == nil && len(orders) == 4 {
		p.fault, p.names = orders[3], faultable
	}
	if err == nil && len(orders) == 2 && orders[1] == "faults" {
		p.counting, p.names = true, faultable
	}
	if err == nil {
		err = p.attach()
	}
	if err == nil {
		fmt.Println("ready")
		err = p.follow()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tracer:", err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(p.report)
	return true
}

type tracer struct {
	pid      int
	kind     string
	n        int
	names    map[string]string // traced or faultable
	counting bool              // of all that can fail
	fault    string            // may be empty: the call is the last
	struck   map[int]int       // threads within a call that fails, and the number it gives
	garbled  *garbling         // the write that puts something else on the disk
	report   counted
}

// attach takes hold of all threads, also of those that begin meanwhile.
func (p *tracer) attach() error {
	const options = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE
	held := map[int]bool{}
	for more := true; more; {
		more = false
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", p.pid))
		if err != nil || len(tasks) == 0 {
			return fmt.Errorf("no threads of %d: %v", p.pid, err)
		}
		for _, task := range tasks {
			tid, _ := strconv.Atoi(filepath.Base(task))
			if held[tid] {
				continue
			}
			held[tid], more = true, true
			// EPERM: a thread whose maker is held already comes along by itself.
			if err := ptrace(unix.PTRACE_SEIZE, tid, 0, options); err != nil && err != unix.EPERM && err != unix.ESRCH {
				return err
			} else if err == nil {
				if err := ptrace(unix.PTRACE_INTERRUPT, tid, 0, 0); err != nil && err != unix.ESRCH {
					return err
				}
			}
		}
	}
	// Each thread stops once and is let go up to its next call.
	for tid := range held {
		var st unix.WaitStatus
		if _, err := unix.Wait4(tid, &st, unix.WALL, nil); err == nil && st.Stopped() {
			p.resume(tid, 0)
		}
	}
	return nil
}

// follow lets the process run from call to call until it is gone.
func (p *tracer) follow() error {
	for {
		var st unix.WaitStatus
		tid, err := unix.Wait4(-1, &st, unix.WALL, nil)
		switch {
		case err == unix.ECHILD:
			return nil
		case err == unix.EINTR:
			continue
		case err != nil:
			return err
		case !st.Stopped():
			continue
		}
		sig := st.StopSignal()
		switch {
		case sig == unix.SIGTRAP|0x80:
			if err := p.atCall(tid); err != nil {
				return err
			}
			p.resume(tid, 0)
		case st>>16 != 0: // a clone, or the first stop of a new thread
			p.resume(tid, 0)
		default:
			p.resume(tid, int(sig))
		}
	}
}

func (p *tracer) resume(tid, sig int) { ptrace(unix.PTRACE_SYSCALL, tid, 0, uintptr(sig)) }

// atCall counts a call that begins, and kills the process instead if its turn has come:
// the call is not carried out then.
func (p *tracer) atCall(tid int) error {
	var info struct {
		op   uint8
		_    [3]uint8
		arch uint32
		ip   uint64
		sp   uint64
		nr   uint64
		args [6]uint64
		_    [8]uint64
	}
	_, _, e := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(tid), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	if e == unix.ESRCH {
		return nil
	} else if e != 0 {
		return e
	}
	if give, is := p.struck[tid]; is && info.op == unix.PTRACE_SYSCALL_INFO_EXIT {
		delete(p.struck, tid)
		return giveBack(tid, give)
	}
	if p.fault == garble {
		return p.garble(tid, callNames[info.nr], info.op == unix.PTRACE_SYSCALL_INFO_ENTRY, info.args)
	}
	kind := p.names[callNames[info.nr]]
	if info.op != unix.PTRACE_SYSCALL_INFO_ENTRY || kind == "" {
		return nil
	}
	if kind == "write" {
		// Threads of the Go runtime wake each other by writing to an eventfd, now and then.
		if to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", p.pid, info.args[0])); strings.Contains(to, "eventfd") {
			return nil
		}
	}
	if p.fault != "" || p.counting {
		// Only what goes to a file can be a disk's failure.
		switch kind {
		case "write", "read", "getdents64", "stat*":
			if to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", p.pid, info.args[0])); callNames[info.nr] != "newfstatat" && callNames[info.nr] != "statx" && !strings.HasPrefix(to, "/") {
				return nil
			}
		}
	}
	p.report.Calls[kind]++
	if kind == "pwrite64" {
		if to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", p.pid, info.args[0])); strings.HasSuffix(to, walName) {
			p.report.Calls[walWrites]++
		}
	}
	if kind == p.kind && p.report.Calls[kind] == p.n {
		if p.fault != "" {
			return p.strike(tid, callNames[info.nr], info.args)
		}
		p.report.Killed = true
		return unix.Kill(p.pid, unix.SIGKILL)
	}
	return nil
}

func ptrace(request, tid int, addr, data uintptr) error {
	_, _, e := unix.RawSyscall6(unix.SYS_PTRACE, uintptr(request), uintptr(tid), addr, data, 0, 0)
	if e != 0 {
		return e
	}
	return nil
}
