package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"holdpoint/op"
)

// idleExit is how long a daemon that was started here outlives its last client.
const idleExit = 30 * time.Minute

// startDaemon starts a daemon for one directory, detached, and waits until it is ready.
// Of several that want the same one at once, one starts it.
func (a *app) startDaemon(ctx context.Context, dir string, p place) error {
	for _, d := range []string{p.state, filepath.Dir(p.socket)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return op.Fail(op.IOError, "the directory "+d+" cannot be made").Because(err)
		}
	}
	if err := checkSocketDir(p.socket); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(p.state, "start.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return op.Fail(op.IOError, "the daemon cannot be started").Because(err)
	}
	defer lock.Close()
	if err := waitLock(ctx, lock); err != nil {
		return err
	}
	if ready(ctx, p.socket) {
		return nil
	}
	ended, err := a.detach(dir, p)
	if err != nil {
		return err
	}
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		if ready(ctx, p.socket) {
			return nil
		}
		select {
		case <-ended:
			return op.Fail(op.NotReady, "the daemon did not start: "+lastLine(logName(p))).Do("its log is " + logName(p))
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return op.Fail(op.NotReady, "the daemon did not get ready in time").Do("its log is " + logName(p))
}

func waitLock(ctx context.Context, f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return nil
		}
		if err != syscall.EWOULDBLOCK && err != syscall.EINTR {
			return op.Fail(op.IOError, "the daemon cannot be started").Because(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// detach runs serve in a session of its own, so that neither the end of this process nor
// of its group ends it.
func (a *app) detach(dir string, p place) (ended <-chan struct{}, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, op.Fail(op.IOError, "this program does not know its own name").Because(err)
	}
	log, err := os.OpenFile(logName(p), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, op.Fail(op.IOError, "the daemon's log cannot be opened").Because(err)
	}
	defer log.Close()
	idle := first(a.Env("HOLDPOINT_IDLE_EXIT"), idleExit.String())
	cmd := exec.Command(self, "serve", "--root", dir, "--state", p.state, "--socket", p.socket, "--idle-exit", idle)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, op.Fail(op.IOError, "the daemon cannot be started").Because(err)
	}
	done := make(chan struct{})
	go func() {
		cmd.Wait()
		close(done)
	}()
	return done, nil
}

func ready(ctx context.Context, socket string) bool {
	if reach(ctx, socket, false) != nil {
		return false
	}
	c := socketClient(socket)
	defer c.close()
	got, err := c.send(ctx, http.MethodGet, "/readyz", nil)
	return err == nil && got.status == http.StatusOK
}

func lastLine(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return "no log"
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Size() > 4096 {
		f.Seek(-4096, io.SeekEnd)
	}
	b, _ := io.ReadAll(io.LimitReader(f, 4096))
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return fmt.Sprintf("%q", lines[len(lines)-1])
}
