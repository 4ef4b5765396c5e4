package shellexec

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/creack/pty"
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
	fdUpper // of a view
	fdWork
)

// Run starts a program and blocks until nothing of it is left. The context ends it early.
// An error is one of this daemon; what the program did is in the result.
func Run(ctx context.Context, s Spec) (Result, error) { return run(ctx, s, s.Confined || s.Probe) }

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
	r, err := start(ctx, s, namespaces)
	if err != nil {
		return Result{}, err
	}
	return r.Wait(), nil
}

// Running is one run that was begun. Its owner calls Wait.
type Running struct {
	Output *Live

	p       *process
	touched *atomic.Int64 // when something was last typed or printed
	up      chan struct{} // closed when the program runs, or never will
	done    chan struct{}
	result  Result // readable once done is closed
}

// Start begins a run and gives it while it runs. The context ends it early.
func Start(ctx context.Context, s Spec) (*Running, error) {
	return start(ctx, s, s.Confined || s.Probe)
}

// Up blocks until the program runs or is known never to.
func (r *Running) Up() { <-r.up }

// Done closes when nothing of the run is left.
func (r *Running) Done() <-chan struct{} { return r.done }

// Wait blocks until nothing of the run is left.
func (r *Running) Wait() Result {
	<-r.done
	return r.result
}

// Number is that of the helper process, as this daemon sees it.
func (r *Running) Number() int {
	if r.p == nil || r.p.cmd.Process == nil {
		return 0
	}
	return r.p.cmd.Process.Pid
}

// typing is how long a terminal may take to accept what is typed.
const typing = 2 * time.Second

// Type gives the session's terminal what somebody types. It fails when there is no
// terminal, when the session has ended, or when the program reads nothing of it.
func (r *Running) Type(b []byte) error {
	select {
	case <-r.done:
		return op.Fail(op.NotFound, "the session has ended")
	default:
	}
	if r.p == nil || !r.p.terminal {
		return op.Fail(op.BadRequest, "this program runs on no terminal, so nothing can be typed")
	}
	r.touched.Store(time.Now().UnixNano())
	r.p.out.SetWriteDeadline(time.Now().Add(typing))
	if n, err := r.p.out.Write(b); err != nil {
		return op.Fail(op.NotReady, fmt.Sprintf("the session took %d of %d bytes", n, len(b))).Because(err)
	}
	return nil
}

// Resize tells the session's terminal its size.
func (r *Running) Resize(size Size) error {
	select {
	case <-r.done:
		return op.Fail(op.NotFound, "the session has ended")
	default:
	}
	if r.p == nil || !r.p.terminal {
		return op.Fail(op.BadRequest, "this program runs on no terminal")
	}
	if err := setSize(r.p.out, size); err != nil {
		return op.Fail(op.IOError, "the terminal cannot be resized").Because(err)
	}
	return nil
}

func start(ctx context.Context, s Spec, namespaces bool) (*Running, error) {
	begin := time.Now()
	if namespaces && !s.Probe && len(s.Needs) > 0 && !has(s.Needs, LevelUser) && (s.View == nil || !s.View.Plain) {
		namespaces = false // the probe found that there are none
	}
	r := &Running{touched: &atomic.Int64{}, up: make(chan struct{}), done: make(chan struct{})}
	grouped(&s)
	p, err := prepare(s, namespaces)
	if err != nil {
		s.group.drop()
		return nil, op.Fail(op.SpawnFailed, "the process could not be prepared").Because(err)
	}
	out, errs := newCollector(s.Spill, s.Name+".stdout", live(s, "stdout")), newCollector(s.Spill, s.Name+".stderr", live(s, "stderr"))
	r.p, r.Output = p, &Live{streams: map[string]*collector{"stdout": out, "stderr": errs}}
	out.always = p.terminal
	out.grown = func() {
		r.touched.Store(time.Now().UnixNano())
		r.Output.grown()
	}
	errs.grown = out.grown
	if err := p.launch(s.Spares, s.group); err != nil {
		p.close()
		s.group.drop()
		r.result.Termination, r.result.Failure = SpawnFailed, err.Error()
		if has(s.Needs, LevelUser) {
			r.result.Termination = NoSandbox
		}
		r.Output.end()
		close(r.up)
		close(r.done)
		return r, nil
	}
	p.started()
	r.touched.Store(begin.UnixNano())
	go func() {
		defer close(r.done)
		attr := p.cmd.SysProcAttr
		r.follow(ctx, s, out, errs)
		defer s.Spares.refill(attr) // behind the answer, not in its way
		r.result.Took = time.Since(begin)
		r.Output.end()
	}()
	return r, nil
}

// follow sees a run to its end.
func (r *Running) follow(ctx context.Context, s Spec, out, errs *collector) {
	p := r.p
	defer p.close()
	var readers sync.WaitGroup
	readers.Go(func() { out.drain(lasting(p.out)) })
	if p.errs != nil {
		readers.Go(func() { errs.drain(lasting(p.errs)) })
	}
	said := make(chan answer, 1)
	gone := make(chan struct{})
	end := sync.OnceFunc(func() { close(gone) })
	go func() {
		a := listen(lasting(p.status), r.up)
		said <- a
		// Where the helper found nothing left it has nothing to do but to exit, and how long
		// the machine takes over that is nobody's wait.
		if a.over != nil && a.over.Left == 0 && len(a.over.Survivors) == 0 {
			end()
		}
	}()
	waited := make(chan struct{})
	go func() { p.cmd.Wait(); close(waited); end() }()
	why := p.watch(ctx, s, r.touched, gone)
	<-gone
	// Nothing that could write is left in the namespace; outside of one a survivor may hold
	// the pipes, and is not waited for.
	late := time.Now().Add(time.Second)
	p.out.SetReadDeadline(late)
	if p.errs != nil {
		p.errs.SetReadDeadline(late)
	}
	p.status.SetReadDeadline(late)
	readers.Wait()
	a := <-said
	r.result.Stdout, r.result.Stderr, r.result.Levels = out.end(), errs.end(), a.began.Levels
	if r.result.Idle = why == idledOut; r.result.Idle {
		why = TimedOut
	}
	a.fill(&r.result, why)
	r.result.Limit = reached(s, &r.result)
	if s.group != nil {
		go func() { <-waited; s.group.drop() }()
	}
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
	out, errs, status, control *os.File // errs is nil on a terminal
	theirs                     []*os.File
	terminal                   bool
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
	body, err := json.Marshal(order{Argv: s.Argv, Env: s.Env, Root: s.Root, Dir: s.Dir, Home: os.Getenv("HOME"), RootDev: s.RootDev, RootIno: s.RootIno, DirDev: s.DirDev, DirIno: s.DirIno, Confined: s.Confined,
		Namespaces: namespaces, Network: s.Network, Probe: s.Probe, View: s.View != nil, Plain: s.View != nil && s.View.Plain, Copied: s.View != nil && s.View.Copied, Terminal: s.Terminal != nil, Processes: s.Processes, Needs: s.Needs, Hide: s.Hide, ReadOnly: s.ReadOnly, Names: s.Names, Foreign: s.Foreign, Runtimes: runtimes(),
		Memory: s.Memory, CPU: s.CPU, Grouped: s.group != nil, GroupWanted: s.Cgroup != "", GroupFault: s.groupFault})
	if err != nil {
		return nil, err
	}
	told, err := memory("order", body)
	if err != nil {
		return nil, err
	}
	p.theirs = append(p.theirs, told)
	if err := p.streams(s, pipe); err != nil {
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
	p.cmd.ExtraFiles = []*os.File{told, control, status}
	if s.Program != nil {
		p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, s.Program)
	}
	if s.View != nil {
		if s.Program == nil { // nothing is started; the numbers stay what they are
			p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, s.View.Upper)
		}
		p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, s.View.Upper, s.View.Work)
	}
	p.cmd.Env, p.cmd.Dir = []string{}, "/"
	p.cmd.SysProcAttr = attributes(s, namespaces)
	ok = true
	return p, nil
}

// streams gives the program its input and outputs: a terminal, or nothing to read and two
// pipes to write.
func (p *process) streams(s Spec, pipe func(mine **os.File, write bool) (*os.File, error)) error {
	if s.Terminal != nil {
		mine, theirs, err := pty.Open()
		if err != nil {
			return fmt.Errorf("there is no terminal to be had: %w", err)
		}
		p.theirs, p.terminal = append(p.theirs, theirs), true
		p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirs, theirs, theirs
		if p.out, err = waitable(mine); err != nil {
			return err
		}
		return setSize(p.out, *s.Terminal)
	}
	out, err := pipe(&p.out, false)
	if err != nil {
		return err
	}
	errs, err := pipe(&p.errs, false)
	if err != nil {
		return err
	}
	p.cmd.Stdout, p.cmd.Stderr = out, errs
	if len(s.Stdin) > 0 { // else /dev/null
		in, err := memory("stdin", s.Stdin)
		if err != nil {
			return err
		}
		p.theirs, p.cmd.Stdin = append(p.theirs, in), in
	}
	return nil
}

// waitable gives a terminal's own end as a file whose reads and writes end at a deadline.
func waitable(mine *os.File) (*os.File, error) {
	defer mine.Close()
	fd, err := unix.FcntlInt(mine.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "terminal"), nil
}

// setSize leaves the file as it is: asking it for its number would end its deadlines.
func setSize(f *os.File, size Size) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var bad error
	err = c.Control(func(fd uintptr) {
		bad = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
	})
	return errors.Join(err, bad)
}

// attributes asks for the namespaces. As root all ids of this namespace are kept, so that
// files of others look the same; as anybody else only the own one can be.
func attributes(s Spec, namespaces bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true}
	if !namespaces {
		return a
	}
	if s.View != nil && s.View.Plain {
		a.Cloneflags = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC
		if !s.Network {
			a.Cloneflags |= unix.CLONE_NEWNET
		}
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

// idledOut is a deadline of its own, told as a time-out.
const idledOut = "idle"

// watch waits for the end, or brings it: a polite signal to all, then the hard one. It
// gives why it had to, or "".
func (p *process) watch(ctx context.Context, s Spec, touched *atomic.Int64, gone <-chan struct{}) string {
	timer := time.NewTimer(s.Timeout)
	defer timer.Stop()
	var idle <-chan time.Time
	if s.Idle > 0 {
		idle = time.After(s.Idle)
	}
	why := ""
	for why == "" {
		select {
		case <-gone:
			return ""
		case <-ctx.Done():
			why = Cancelled
		case <-timer.C:
			why = TimedOut
		case <-idle:
			left := s.Idle - time.Since(time.Unix(0, touched.Load()))
			switch {
			case left > 0:
				idle = time.After(left)
			case s.Busy != nil && s.Busy():
				idle = time.After(s.Idle)
			default:
				why = idledOut
			}
		}
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

// pipeRest reads a pipe past its deadline: what lay in it then is not lost because this
// process was too busy to fetch it in time.
type pipeRest struct {
	f    *os.File
	left int // bytes that may still come so; who holds the pipe may write into it for ever
}

// lasting gives a pipe of which at its deadline no more is read than it can hold.
func lasting(f *os.File) *pipeRest { return &pipeRest{f, 1 << 20} }

func (r *pipeRest) Read(b []byte) (int, error) {
	n, err := r.f.Read(b)
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || r.left <= 0 {
		return n, err
	}
	c, bad := r.f.SyscallConn()
	if bad != nil {
		return 0, err
	}
	bad = c.Control(func(fd uintptr) { n, _ = unix.Read(int(fd), b[:min(len(b), r.left)]) }) // without waiting
	if bad != nil || n <= 0 {
		return 0, err
	}
	r.left -= n
	return n, nil
}

// answer is all that the helper said; ended may be missing.
type answer struct {
	began started
	over  *ended
	about bool // the program was about to begin
	any   bool // whether it did
}

// listen reads it, and tells through up when it is known whether the program runs.
func listen(status io.Reader, up chan<- struct{}) answer {
	var a answer
	lines := bufio.NewScanner(status)
	lines.Buffer(nil, 1<<20)
	for !a.any && lines.Scan() && json.Unmarshal(lines.Bytes(), &a.began) == nil {
		if a.any = !a.began.About; !a.any {
			a.about, a.began.About = true, false
		}
	}
	close(up)
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
		r.Leftovers, r.Survivors, r.Signal, r.Seen = a.over.Left, a.over.Survivors, a.over.Signal, a.over.Seen
	}
	switch {
	case a.began.Missing != "":
		r.Termination, r.Failure = NoSandbox, a.began.Missing+": "+a.began.Failure
	case a.began.Failure != "":
		r.Termination, r.Failure = SpawnFailed, a.began.Failure
	case !a.any && !a.about && why != "":
		r.Termination, r.Failure = SpawnFailed, "it was ended before the program began: "+why
	case !a.any && !a.about:
		r.Termination, r.Failure = SpawnFailed, "the helper ended before it was ready"
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
