package shellexec

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// HelperArg is the one argument by which this binary is started again as the helper that
// puts the confinement up. main must hand over to Helper before it does anything else.
const HelperArg = "confine"

// grace is how long a process has between the polite signal and the end.
const grace = 700 * time.Millisecond

// The helper's descriptors.
const (
	fdOrder = 3 + iota
	fdControl
	fdStatus
	fdProgram
)

// Run starts a program and blocks until nothing of it is left. The context ends it early.
// An error is one of this daemon; what the program did is in the result.
func Run(ctx context.Context, s Spec) (Result, error) {
	begin := time.Now()
	r, err := run(ctx, s, s.Confined || s.Probe)
	r.Took = time.Since(begin)
	return r, err
}

// Probe puts the confinement of a root up once, without starting anything, and says what
// this machine gives.
func Probe(ctx context.Context, s Spec) ([]Level, error) {
	s.Probe, s.Confined, s.Needs, s.Timeout = true, true, nil, 10*time.Second
	r, err := run(ctx, s, true)
	if err != nil || r.Termination == SpawnFailed {
		why := r.Failure
		if err != nil {
			why = err.Error()
		}
		r, err = run(ctx, s, false)
		for i, l := range r.Levels {
			if l.Name == LevelUser {
				r.Levels[i].Detail = why
			}
		}
	}
	return r.Levels, err
}

func run(ctx context.Context, s Spec, namespaces bool) (Result, error) {
	if namespaces && !s.Probe && len(s.Needs) > 0 && !has(s.Needs, LevelUser) {
		namespaces = false // the probe found that there are none
	}
	var r Result
	p, err := prepare(s, namespaces)
	if err != nil {
		return r, op.Fail(op.SpawnFailed, "the process could not be prepared").Because(err)
	}
	defer p.close()
	if err := p.cmd.Start(); err != nil {
		r.Termination, r.Failure = SpawnFailed, err.Error()
		if has(s.Needs, LevelUser) {
			r.Termination = NoSandbox
		}
		return r, nil
	}
	p.started()
	out, errs := newCollector(s.Spill, s.Name+".stdout", live(s, "stdout")), newCollector(s.Spill, s.Name+".stderr", live(s, "stderr"))
	var readers sync.WaitGroup
	readers.Go(func() { out.drain(p.out) })
	readers.Go(func() { errs.drain(p.errs) })

	said := make(chan answer, 1)
	go func() { said <- listen(p.status) }()
	gone := make(chan struct{})
	go func() { p.cmd.Wait(); close(gone) }()
	why := p.watch(ctx, s.Timeout, gone)
	<-gone
	// Nothing that could write is left in the namespace; outside of one a survivor may hold
	// the pipes, and is not waited for.
	late := time.Now().Add(time.Second)
	p.out.SetReadDeadline(late)
	p.errs.SetReadDeadline(late)
	p.status.SetReadDeadline(late)
	readers.Wait()
	a := <-said
	r.Stdout, r.Stderr, r.Levels = out.end(), errs.end(), a.began.Levels
	a.fill(&r, why)
	return r, nil
}

func has(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

func live(s Spec, name string) func([]byte) {
	if s.Live == nil {
		return nil
	}
	return func(b []byte) { s.Live(name, b) }
}

// process is the helper with the daemon's ends of its pipes.
type process struct {
	cmd                        *exec.Cmd
	out, errs, status, control *os.File
	theirs                     []*os.File
}

func prepare(s Spec, namespaces bool) (*process, error) {
	p := &process{cmd: exec.Command("/proc/self/exe", HelperArg)}
	ok := false
	defer func() {
		if !ok {
			p.close()
		}
	}()
	pipe := func(mine **os.File, write bool) (*os.File, error) {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		if write {
			*mine = w
			p.theirs = append(p.theirs, r)
			return r, nil
		}
		*mine = r
		p.theirs = append(p.theirs, w)
		return w, nil
	}
	body, err := json.Marshal(order{Argv: s.Argv, Env: s.Env, Root: s.Root, Dir: s.Dir, Home: os.Getenv("HOME"), RootDev: s.RootDev, RootIno: s.RootIno, Confined: s.Confined,
		Namespaces: namespaces, Network: s.Network, Probe: s.Probe, Processes: s.Processes, Needs: s.Needs, Hide: s.Hide, ReadOnly: s.ReadOnly, Runtimes: runtimes()})
	if err != nil {
		return nil, err
	}
	told, err := memory("order", body)
	if err != nil {
		return nil, err
	}
	p.theirs = append(p.theirs, told)
	out, err := pipe(&p.out, false)
	if err != nil {
		return nil, err
	}
	errs, err := pipe(&p.errs, false)
	if err != nil {
		return nil, err
	}
	status, err := pipe(&p.status, false)
	if err != nil {
		return nil, err
	}
	control, err := pipe(&p.control, true)
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout, p.cmd.Stderr = out, errs
	if len(s.Stdin) > 0 { // else /dev/null
		in, err := memory("stdin", s.Stdin)
		if err != nil {
			return nil, err
		}
		p.theirs, p.cmd.Stdin = append(p.theirs, in), in
	}
	p.cmd.ExtraFiles = []*os.File{told, control, status}
	if s.Program != nil {
		p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, s.Program)
	}
	p.cmd.Env, p.cmd.Dir = []string{}, "/"
	p.cmd.SysProcAttr = attributes(s, namespaces)
	ok = true
	return p, nil
}

// attributes asks for the namespaces. As root all ids of this namespace are kept, so that
// files of others look the same; as anybody else only the own one can be.
func attributes(s Spec, namespaces bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true}
	if !namespaces {
		return a
	}
	a.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC
	if !s.Network {
		a.Cloneflags |= unix.CLONE_NEWNET
	}
	if os.Geteuid() == 0 {
		a.UidMappings, a.GidMappings = ids("/proc/self/uid_map"), ids("/proc/self/gid_map")
		a.GidMappingsEnableSetgroups = true
		return a
	}
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	// An exec would drop what the new namespace gives; the helper drops it itself, later.
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		a.AmbientCaps = append(a.AmbientCaps, c)
	}
	return a
}

// memory is a file without a name that holds b, to be read from its beginning.
func memory(name string, b []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.Write(b); err != nil {
		f.Close()
		return nil, err
	}
	if _, err := f.Seek(0, 0); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// started closes the child's ends, so that the end of the child is the end of the pipes.
func (p *process) started() {
	for _, f := range p.theirs {
		f.Close()
	}
	p.theirs = nil
}

func (p *process) close() {
	p.started()
	for _, f := range []*os.File{p.out, p.errs, p.status, p.control} {
		if f != nil {
			f.Close()
		}
	}
}

// watch waits for the end, or brings it: a polite signal to all, then the hard one. It
// gives why it had to, or "".
func (p *process) watch(ctx context.Context, limit time.Duration, gone <-chan struct{}) string {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	why := TimedOut
	select {
	case <-gone:
		return ""
	case <-ctx.Done():
		why = Cancelled
	case <-timer.C:
	}
	p.control.Write([]byte{'t'})
	if until(gone, grace) {
		return why
	}
	// The helper sweeps what it has, whether or not there is a namespace around it.
	p.control.Write([]byte{'k'})
	if until(gone, grace/2) {
		return why
	}
	p.cmd.Process.Kill() // by handle; as the first of its namespace it takes all with it
	return why
}

func until(gone <-chan struct{}, d time.Duration) bool {
	select {
	case <-gone:
		return true
	case <-time.After(d):
		return false
	}
}

// answer is all that the helper said; ended may be missing.
type answer struct {
	began started
	over  *ended
	any   bool
}

func listen(status *os.File) answer {
	var a answer
	lines := bufio.NewScanner(status)
	lines.Buffer(nil, 1<<20)
	if lines.Scan() && json.Unmarshal(lines.Bytes(), &a.began) == nil {
		a.any = true
	}
	if lines.Scan() {
		var e ended
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			a.over = &e
		}
	}
	return a
}

func (a answer) fill(r *Result, why string) {
	if a.over != nil {
		r.Leftovers, r.Survivors, r.Signal = a.over.Left, a.over.Survivors, a.over.Signal
	}
	switch {
	case a.began.Missing != "":
		r.Termination, r.Failure = NoSandbox, a.began.Missing+": "+a.began.Failure
	case !a.any, a.began.Failure != "":
		r.Termination, r.Failure = SpawnFailed, a.began.Failure
		if !a.any {
			r.Failure = "the helper ended before it was ready"
		}
	case why != "":
		r.Termination = why
	case a.over == nil:
		r.Termination, r.Signal = Signalled, "SIGKILL"
	case a.over.Signal != "":
		r.Termination = Signalled
	default:
		r.Termination, r.Exit = Exited, &a.over.Exit
	}
}
