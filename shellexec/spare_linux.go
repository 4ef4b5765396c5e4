package shellexec

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// spareKept is how long a helper stands ready after the run that it was started behind.
const spareKept = time.Minute

// Spares keeps, for each kind of namespaces that was asked for lately, one helper that is
// already there: in its namespaces, with nothing put up, no order and nobody's program. It
// takes the start of this binary out of the time that a program takes to start. A spare
// ends with this daemon, by the end of its socket, and when it is not used for a minute.
// The zero value is ready; nil keeps none.
type Spares struct {
	mu     sync.Mutex // guards kept, coming and closed
	kept   map[uintptr]*spare
	coming map[uintptr]chan struct{} // closed when the one that is being started is there, or never will be
	closed bool
	busy   sync.WaitGroup // those that are being started, and those that are reaped
}

type spare struct {
	cmd    *exec.Cmd
	orders *os.File // the daemon's end of the one socket it listens on
	drop   *time.Timer
}

// launch starts the helper, or gives all that it would have been started with to one that
// stands ready in the same kind of namespaces.
// One that shall run in a group is never started with its order in hand: it joins first.
func (p *process) launch(s *Spares, g *group) error {
	ready := s.take(p.cmd.SysProcAttr.Cloneflags)
	if ready == nil && g != nil {
		var err error
		if ready, err = summon(p.cmd.SysProcAttr); err != nil {
			return err
		}
	}
	if ready != nil {
		var err error
		if g != nil {
			err = g.join(ready.cmd.Process.Pid)
		}
		if err == nil && stateOf(ready.cmd.Process.Pid) == 'Z' {
			err = unix.ESRCH // its threads may still hold the socket, but none will read
		}
		if err == nil {
			err = ready.hand(p.cmd)
		}
		ready.orders.Close()
		if err == nil {
			p.cmd = ready.cmd
			return nil
		}
		ready.cmd.Process.Kill() // it was gone, or would not listen
		ready.cmd.Wait()
		if g != nil {
			return err
		}
	}
	return p.cmd.Start()
}

// hand passes the streams and files of a command that was not started.
func (s *spare) hand(c *exec.Cmd) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	fds := make([]int, 0, 3+len(c.ExtraFiles))
	for _, stream := range []any{c.Stdin, c.Stdout, c.Stderr} {
		f, ok := stream.(*os.File)
		if !ok {
			f = null
		}
		fds = append(fds, int(f.Fd())) // which makes it one that waits, as programs expect
	}
	for _, f := range c.ExtraFiles {
		fds = append(fds, int(f.Fd()))
	}
	return unix.Sendmsg(raw(s.orders), []byte{byte(len(fds))}, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
}

// raw gives the number of the daemon's own end and leaves the file as it is.
func raw(f *os.File) int {
	n := -1
	if c, err := f.SyscallConn(); err == nil {
		c.Control(func(fd uintptr) { n = int(fd) })
	}
	return n
}

func (s *Spares) take(kind uintptr) *spare {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if soon := s.coming[kind]; s.kept[kind] == nil && soon != nil { // begun before one that would be started now
		s.mu.Unlock()
		<-soon
		s.mu.Lock()
	}
	ready := s.kept[kind]
	if ready != nil {
		delete(s.kept, kind)
		ready.drop.Stop()
	}
	return ready
}

// refill starts a helper of the same kind behind a run. That it cannot be had is no
// failure of anything: the next run starts its own.
func (s *Spares) refill(attr *syscall.SysProcAttr) {
	if s == nil {
		return
	}
	s.mu.Lock()
	full := s.closed || s.kept[attr.Cloneflags] != nil || s.coming[attr.Cloneflags] != nil
	soon := make(chan struct{})
	if !full {
		s.busy.Add(1)
		if s.coming == nil {
			s.coming = map[uintptr]chan struct{}{}
		}
		s.coming[attr.Cloneflags] = soon
	}
	s.mu.Unlock()
	if full {
		return
	}
	go func() {
		defer s.busy.Done()
		ready, err := summon(attr)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.coming, attr.Cloneflags)
		defer close(soon)
		if err != nil {
			return
		}
		if s.closed || s.kept[attr.Cloneflags] != nil {
			s.end(ready)
			return
		}
		if s.kept == nil {
			s.kept = map[uintptr]*spare{}
		}
		ready.drop = time.AfterFunc(spareKept, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.kept[attr.Cloneflags] == ready {
				delete(s.kept, attr.Cloneflags)
				s.end(ready)
			}
		})
		s.kept[attr.Cloneflags] = ready
	}()
}

// Warm has a helper ready for a run like this one that may come, without waiting for it.
func (s *Spares) Warm(run Spec) { s.refill(attributes(run, run.Confined)) }

// summon starts a helper that waits for its order.
func summon(attr *syscall.SysProcAttr) (*spare, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	mine, theirs := os.NewFile(uintptr(pair[0]), "orders"), os.NewFile(uintptr(pair[1]), "orders")
	defer theirs.Close()
	cmd := exec.Command("/proc/self/exe", HelperArg)
	cmd.Env, cmd.Dir, cmd.SysProcAttr = []string{}, "/", attr
	// The other numbers that will be needed are taken, so that nothing of its own gets them.
	null, err := os.Open(os.DevNull)
	if err != nil {
		mine.Close()
		return nil, err
	}
	defer null.Close()
	cmd.ExtraFiles = []*os.File{theirs}
	for range maxHanded {
		cmd.ExtraFiles = append(cmd.ExtraFiles, null)
	}
	if err := cmd.Start(); err != nil {
		mine.Close()
		return nil, err
	}
	// It says when it listens, so that what is kept is known to be alive.
	mine.SetReadDeadline(time.Now().Add(10 * time.Second))
	unix.SetsockoptTimeval(raw(mine), unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10})
	if n, err := mine.Read(make([]byte, 1)); n != 1 {
		mine.Close()
		cmd.Process.Kill()
		cmd.Wait()
		return nil, fmt.Errorf("a spare helper did not get ready: %w", err)
	}
	return &spare{cmd: cmd, orders: mine}, nil
}

// end lets a spare go. The caller holds the lock.
func (s *Spares) end(ready *spare) {
	ready.orders.Close()
	s.reap(ready)
}

func (s *Spares) reap(ready *spare) {
	s.busy.Add(1)
	go func() {
		defer s.busy.Done()
		ready.cmd.Wait()
	}()
}

// Close ends all that stand ready, and keeps no more.
func (s *Spares) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.closed = true
	for kind, ready := range s.kept {
		ready.drop.Stop()
		delete(s.kept, kind)
		s.end(ready)
	}
	s.mu.Unlock()
	s.busy.Wait()
}

// Ready reports how many stand ready.
func (s *Spares) Ready() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.kept)
}

// await is the wait of a spare helper: what comes over its one socket is put where a helper
// that is started for a run finds it. It reports false when none came, which is its end.
// A helper that was started for a run has no socket there.
func await() bool {
	var st unix.Stat_t
	if err := unix.Fstat(fdOrder, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return true
	}
	rehearseStart()
	if _, err := unix.Write(fdOrder, []byte{'r'}); err != nil {
		return false
	}
	b, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4*maxHanded))
	for {
		n, oobn, flags, _, err := unix.Recvmsg(fdOrder, b, rights, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n != 1 || flags&unix.MSG_CTRUNC != 0 {
			return false
		}
		rights = rights[:oobn]
		break
	}
	list, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(list) != 1 {
		return false
	}
	fds, err := unix.ParseUnixRights(&list[0])
	if err != nil || len(fds) != int(b[0]) || len(fds) < 3 {
		return false
	}
	return place(fds)
}

// rehearseStart goes once through what a start will go through, with nothing to start and
// nothing to end: what is done for the first time takes ten times as long.
func rehearseStart() {
	var o order
	json.Unmarshal([]byte(`{"Argv":["a"],"Env":["A=b"],"Root":"/","RootDev":1,"Confined":false}`), &o)
	json.Marshal(started{Levels: []Level{{Name: LevelUser, Detail: "d"}}})
	json.Marshal(ended{})
	syscall.ForkExec("/proc/self/fd/none", []string{"none"}, &syscall.ProcAttr{Dir: "/", Files: []uintptr{0, 1, 2}})
	others()
	sweep()
}

// maxHanded is more than any run needs.
const maxHanded = 16

// place moves what came to 0, 1, 2 and onwards. They are first moved out of the way, so
// that none is overwritten before it was moved.
func place(fds []int) bool {
	for i, fd := range fds {
		up, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 64)
		if err != nil {
			return false
		}
		unix.Close(fd)
		fds[i] = up
	}
	for fd := fdOrder; fd <= fdOrder+maxHanded; fd++ {
		unix.Close(fd) // the socket, and what kept the numbers free
	}
	for i, fd := range fds {
		flags := unix.O_CLOEXEC
		if i < 3 {
			flags = 0
		}
		if err := unix.Dup3(fd, i, flags); err != nil {
			return false
		}
		unix.Close(fd)
	}
	return true
}
