package shellexec

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	ossignal "os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Helper is the whole life of the helper process: the first process of its namespaces, or
// where there are none the one to which all that is left behind falls back. It gives the
// exit code. It trusts its order, which came through an inherited handle, and nothing else.
func Helper() int {
	// What is dropped below is dropped by this thread alone, and inherited by what it starts.
	runtime.LockOSThread()
	// What runs as the same user must not reach into this process, which keeps powers that
	// the started thread has given up.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return 2
	}
	// Nor end it by a signal: it has to tell how the program ended. They are caught, not
	// ignored, because an ignored one would stay so in the program.
	ossignal.Notify(make(chan os.Signal, 1))
	if !await() {
		return 0
	}
	for fd := fdOrder; fd <= fdWork; fd++ {
		unix.CloseOnExec(fd)
	}
	status := os.NewFile(fdStatus, "status")
	say := func(v any) {
		if b, err := json.Marshal(v); err == nil {
			status.Write(append(b, '\n'))
		}
	}
	var o order
	if err := json.NewDecoder(os.NewFile(fdOrder, "order")).Decode(&o); err != nil {
		fmt.Fprintln(os.Stderr, "confine is for holdpoint itself; it takes no orders from a command line")
		return 2
	}
	h := &helper{order: o}
	if !o.Namespaces {
		unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	}
	go h.obey(os.NewFile(fdControl, "control"))
	if err := h.confine(); err != nil {
		say(started{Levels: h.levels, Failure: err.Error()})
		return 1
	}
	for _, need := range o.Needs {
		if i := slices.IndexFunc(h.levels, func(l Level) bool { return l.Name == need }); i < 0 || !h.levels[i].On {
			why := "it was not asked for"
			if i >= 0 {
				why = h.levels[i].Detail
			}
			say(started{Levels: h.levels, Missing: need, Failure: why})
			return 1
		}
	}
	if o.Probe {
		say(started{Levels: h.levels})
		return 0
	}
	attr := &syscall.ProcAttr{Dir: o.Dir, Env: o.Env, Files: []uintptr{0, 1, 2}}
	if o.Terminal {
		attr.Sys = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	}
	// Should this process be killed between the two words, the program may have run.
	say(started{Levels: h.levels, About: true})
	pid, err := syscall.ForkExec("/proc/self/fd/"+strconv.Itoa(fdProgram), o.Argv, attr)
	if err != nil {
		say(started{Levels: h.levels, Failure: "the program cannot be started: " + err.Error()})
		return 1
	}
	say(started{Levels: h.levels})
	e := h.wait(pid)
	e.Left, e.Survivors = h.end()
	e.Seen = h.evidence.said()
	for fd := range 3 { // what is printed is over now, however long this process takes to go
		unix.Close(fd)
	}
	say(e)
	return 0
}

type helper struct {
	order
	levels []Level
	top    unix.Stat_t // the root, as it shows in here
	lower  int         // of a view: the root below

	evidence evidence
}

func (h *helper) level(name string, err error) {
	l := Level{Name: name, On: err == nil}
	if err != nil {
		l.Detail = err.Error()
	}
	h.levels = append(h.levels, l)
}

var (
	errNotAsked = errors.New("there are no namespaces here")
	errPlain    = errors.New("a view of a root with mounts in it allows none")
)

// confine puts up level after level. Only what leaves the process nowhere to stand is an
// error; all else is reported, and the caller knows what must not be missing.
func (h *helper) confine() error {
	if !h.Confined {
		return h.enter()
	}
	if h.Namespaces {
		if h.Plain {
			h.level(LevelUser, errPlain)
		} else {
			h.level(LevelUser, nil)
		}
		h.level(LevelPid, nil)
		h.level(LevelIPC, nil)
		if !h.Network {
			h.level(LevelNet, nil)
			loopback()
		}
		if err := h.mounts(); err != nil {
			h.level(LevelMounts, err)
		}
	} else {
		for _, name := range []string{LevelUser, LevelPid, LevelIPC, LevelNet, LevelMounts, LevelProc} {
			h.level(name, errNotAsked)
		}
	}
	h.level(LevelCount, limits(h.Namespaces, h.Processes))
	h.ceilings()
	if h.Namespaces && on(h.levels, LevelProc) {
		// The settings there ask for the number of the user, which root keeps.
		if err := unix.MountSetattr(unix.AT_FDCWD, "/proc", unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return fmt.Errorf("/proc cannot be made read-only: %w", err)
		}
	}
	if err := h.enter(); err != nil {
		return err
	}
	rules, err := h.rules()
	if err == nil {
		defer unix.Close(rules)
	}
	// From here on this thread only loses.
	if drop := h.drop(); drop != nil {
		return drop
	}
	if err == nil {
		err = restrict(rules)
	}
	h.level(LevelAccess, err)
	if h.Namespaces && !on(h.levels, LevelProc) {
		h.level(LevelNames, errors.New("it needs a /proc of its own"))
	} else {
		h.level(LevelNames, h.holdNames())
	}
	h.level(LevelSyscall, errors.Join(filter(h.Network), native()))
	return nil
}

// enter goes to the working directory, which must lie in the root that was looked at.
func (h *helper) enter() error {
	var st unix.Stat_t
	if err := unix.Stat(h.Root, &st); err != nil || st.Dev != h.RootDev || st.Ino != h.RootIno {
		return errors.New("the workspace is no longer the directory that was looked at")
	}
	if h.Probe {
		return nil
	}
	if err := unix.Chdir(h.Dir); err != nil {
		return fmt.Errorf("the working directory cannot be entered: %w", err)
	}
	if err := unix.Stat(".", &st); err != nil || h.DirIno != 0 && !h.View && (st.Dev != h.DirDev || st.Ino != h.DirIno) {
		return errors.New("the working directory is no longer the directory that was looked at") // another one, a link, or a mount over it
	}
	here, err := unix.Getwd()
	if err != nil || here != h.Root && !strings.HasPrefix(here, strings.TrimSuffix(h.Root, "/")+"/") {
		return errors.New("the working directory leads out of the workspace")
	}
	return nil
}

// wait reaps until the program itself has ended.
func (h *helper) wait(pid int) ended {
	for {
		var ws syscall.WaitStatus
		got, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return ended{Signal: "unknown"}
		case got == pid && ws.Signaled():
			return ended{Signal: unix.SignalName(ws.Signal())}
		case got == pid && ws.Exited():
			return ended{Exit: ws.ExitStatus()}
		}
	}
}

// end ends what was left behind. In a namespace the kernel does it when this process
// exits; outside of one everything falls back to this process until nothing is left.
func (h *helper) end() (left int, survivors []string) {
	if h.Namespaces {
		return others(), nil
	}
	return sweep()
}

// obey waits for the daemon's word. The end of the pipe is the end of the daemon.
func (h *helper) obey(control *os.File) {
	b := make([]byte, 1)
	for {
		n, err := control.Read(b)
		if n == 1 && b[0] == 't' {
			if h.Namespaces {
				syscall.Kill(-1, syscall.SIGTERM)
			} else {
				for _, pid := range descendants(os.Getpid()) {
					signal(pid, unix.SIGTERM)
				}
			}
			continue
		}
		if err == nil && n == 1 && h.Namespaces {
			os.Exit(0)
		}
		sweepOrExit(h.Namespaces)
		if err != nil {
			os.Exit(1)
		}
	}
}

func sweepOrExit(namespaces bool) {
	if namespaces {
		os.Exit(0)
	}
	sweep()
}

// sweep ends all descendants, those that come to us when their parents end as well.
func sweep() (killed int, survivors []string) {
	seen := map[int]bool{}
	if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err == syscall.ECHILD {
		return 0, nil // whose parent has ended is a child of this process, so there is nobody
	}
	for until := time.Now().Add(1500 * time.Millisecond); time.Now().Before(until); time.Sleep(2 * time.Millisecond) {
		pids := descendants(os.Getpid())
		live := 0
		for _, pid := range pids {
			if stateOf(pid) != 'Z' {
				live++
				seen[pid] = true
				signal(pid, unix.SIGKILL)
			}
		}
		for { // what has ended is reaped, so that its number is nobody's
			got, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if got <= 0 || err != nil {
				break
			}
		}
		if live == 0 {
			return len(seen), nil
		}
	}
	for _, pid := range descendants(os.Getpid()) {
		survivors = append(survivors, fmt.Sprintf("%d %s", pid, nameOf(pid)))
	}
	return len(seen), survivors
}

// signal goes by handle, so that a number which was given away in between is not hit: a
// descendant stays a zombie until its own parent reaps it, and is looked at once more.
func signal(pid int, sig unix.Signal) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if slices.Contains(descendants(os.Getpid()), pid) {
		unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

// descendants lists all that came from pid, by the kernel's own lists of children.
func descendants(pid int) []int {
	var out []int
	next := []int{pid}
	for len(next) > 0 && len(out) < 1<<16 {
		p := next[0]
		next = next[1:]
		tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", p))
		for _, t := range tasks {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", p, t.Name()))
			for _, f := range strings.Fields(string(b)) {
				if n, err := strconv.Atoi(f); err == nil {
					out, next = append(out, n), append(next, n)
				}
			}
		}
	}
	return out
}

// others counts the live processes of this namespace besides this one.
func others() int {
	n := 0
	list, _ := os.ReadDir("/proc")
	for _, d := range list {
		if pid, err := strconv.Atoi(d.Name()); err == nil && pid != os.Getpid() && stateOf(pid) != 'Z' && stateOf(pid) != 0 {
			n++
		}
	}
	return n
}

func stateOf(pid int) byte {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if i := strings.LastIndexByte(string(b), ')'); err == nil && i >= 0 && i+2 < len(b) {
		return b[i+2]
	}
	return 0
}

func nameOf(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(b))
}

func on(levels []Level, name string) bool {
	return slices.ContainsFunc(levels, func(l Level) bool { return l.Name == name && l.On })
}
