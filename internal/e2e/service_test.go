package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// manager stands for systemd: it owns the socket, hears what the daemon says, and starts
// it with both.
type manager struct {
	t      *testing.T
	heard  chan string
	notify *net.UnixConn
	at     string // of notify
	socket *net.UnixListener
}

func newManager(t *testing.T, socket string) *manager {
	m := &manager{t: t, heard: make(chan string, 1000), at: filepath.Join(shortDir(t), "notify")}
	var err error
	if m.notify, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.at, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		t.Fatal(err)
	}
	if m.socket, err = net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := m.notify.Read(b)
			if err != nil {
				close(m.heard)
				return
			}
			m.heard <- string(b[:n])
		}
	}()
	t.Cleanup(func() { m.notify.Close(); m.socket.Close() })
	return m
}

// wants waits until the daemon says all of words in one message.
func (m *manager) wants(words ...string) {
	m.t.Helper()
	late := time.After(60 * time.Second)
next:
	for {
		select {
		case got := <-m.heard:
			for _, w := range words {
				if !strings.Contains(got, w) {
					continue next
				}
			}
			return
		case <-late:
			m.t.Fatalf("the daemon did not say %q", words)
		}
	}
}

// serve starts the daemon as a service; LISTEN_PID is its own number, as the manager sets it.
func (m *manager) serve(d *daemon) {
	m.t.Helper()
	f, err := m.socket.File()
	if err != nil {
		m.t.Fatal(err)
	}
	defer f.Close()
	d.Log = &logBuffer{}
	bin := binary
	if d.bin != "" {
		bin = d.bin
	}
	argv := append([]string{"-c", `LISTEN_PID=$$ exec "$0" "$@"`, bin, "serve", "--root", d.Root}, d.args...)
	d.cmd = exec.Command("sh", argv...)
	d.cmd.Env = append(d.environ(), "LISTEN_FDS=1", "NOTIFY_SOCKET="+m.at, "WATCHDOG_USEC=300000")
	d.cmd.ExtraFiles = []*os.File{f}
	d.cmd.Stdout, d.cmd.Stderr = d.Log, d.Log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := d.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.wants("READY=1", "STATUS=serving 1 root")
	d.Agent, d.reviewerToken = strings.TrimSpace(read(m.t, filepath.Join(d.State, "tokens", "agent"))), ""
}

// TestService is what a service manager sees, and an upgrade in place: a new program on
// the state and the socket of the old one.
func TestService(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	d := &daemon{t: t, Root: root, State: state, Socket: filepath.Join(state, "holdpoint.sock")}
	t.Cleanup(func() { d.stop(syscall.SIGTERM) })
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	m := newManager(t, d.Socket)
	for _, name := range []string{"a", "b", "c", "d"} {
		write(t, filepath.Join(root, name), name+"\n")
	}
	m.serve(d)
	t.Run("a watchdog hears from a daemon whose journal answers", func(t *testing.T) {
		m.t = t
		m.wants("WATCHDOG=1")
		m.wants("WATCHDOG=1")
	})
	t.Run("SIGHUP is a reload that begins and ends", func(t *testing.T) {
		m.t = t
		d.cmd.Process.Signal(syscall.SIGHUP)
		m.wants("RELOADING=1", "MONOTONIC_USEC=")
		m.wants("READY=1")
	})
	t.Run("an upgrade in place loses no pending card, no answer, and nobody who connects", func(t *testing.T) {
		m.t = t
		held := func(path string) M { return must(t, d.call("delete_file", M{"path": path}), "review") }
		a, b, c, e := held("a"), held("b"), held("c"), held("d")
		must(t, d.approve(a), "done")
		d.answer(b, "reject", "not that one")
		// One more answer is on its way while the daemon is told to stop.
		reviewer := d.reviewer()
		_, row := d.http("GET", "/v1/approvals/"+text(c, "approval", "id"), reviewer, nil)
		var racing sync.WaitGroup
		var acknowledged M
		racing.Go(func() {
			_, out, err := d.tryHTTP("POST", "/v1/approvals/"+text(c, "approval", "id")+"/answer", reviewer, M{"answer": "approve", "shown_digest": text(row, "card", "shown_digest")})
			if err == nil {
				acknowledged = out
			}
		})
		syscall.Kill(d.cmd.Process.Pid, syscall.SIGTERM)
		m.wants("STOPPING=1")
		d.cmd.Wait()

		// Nobody serves: whoever connects now waits in the manager's socket.
		waited := make(chan int, 1)
		racing.Go(func() {
			code, _, _ := d.tryHTTP("GET", "/v1/status", d.Agent, nil)
			waited <- code
		})
		d.bin = filepath.Join(shortDir(t), "holdpoint")
		write(t, d.bin, read(t, binary))
		os.Chmod(d.bin, 0o755)
		m.serve(d)
		racing.Wait()
		if got := <-waited; got != 200 {
			t.Errorf("who connected between the two was answered %d", got)
		}
		state := func(held M) (string, string) {
			_, r := d.http("GET", "/v1/approvals/"+text(held, "approval", "id"), d.reviewer(), nil)
			return text(r, "state"), text(r, "note")
		}
		if s, _ := state(a); s != "executed" || exists(filepath.Join(root, "a")) {
			t.Errorf("the approved one is %s", s)
		}
		if s, note := state(b); s != "rejected" || note != "not that one" || !exists(filepath.Join(root, "b")) {
			t.Errorf("the rejected one is %s, %q", s, note)
		}
		s, _ := state(c)
		switch done := text(acknowledged, "reply", "status") == "done"; {
		case done && s != "executed", exists(filepath.Join(root, "c")) == (s == "executed"), s == "executing":
			t.Errorf("the one in flight was answered %v and is %s", acknowledged, s)
		case s == "pending":
			must(t, d.approve(c), "done")
		}
		if s, _ := state(e); s != "pending" {
			t.Errorf("the one that waits is %s", s)
		}
		must(t, d.approve(e), "done")
		must(t, d.undo(must(t, d.call("write_file", M{"path": "new", "content": "x"}), "done")), "done")
	})
	t.Run("a socket that others may connect to is refused", func(t *testing.T) {
		d.stop(syscall.SIGTERM)
		f, err := m.socket.File()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		os.Chmod(d.Socket, 0o666)
		cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, binary, "serve", "--root", root)
		cmd.Env, cmd.ExtraFiles = append(d.environ(), "LISTEN_FDS=1"), []*os.File{f}
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "state_unsafe") {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// TestServiceWithoutReviewer: no passphrase is ever printed where a journal would keep it;
// the one that init sets is taken over while the daemon runs.
func TestServiceWithoutReviewer(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	home := filepath.Dir(root)
	d := &daemon{t: t, Root: root, State: state, Socket: filepath.Join(state, "holdpoint.sock"), env: []string{"HOLDPOINT_REVIEW_PASSPHRASE=", "HOME=" + home, "XDG_STATE_HOME="}}
	t.Cleanup(func() { d.stop(syscall.SIGTERM) })
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	m := newManager(t, d.Socket)
	write(t, filepath.Join(root, "f"), "f\n")
	m.serve(d)
	eventually(t, "the log says how to have a reviewer", func() bool { return strings.Contains(d.Log.String(), "holdpoint init reviewer") })
	if log := d.Log.String(); strings.Contains(log, "passphrase:") {
		t.Errorf("the log: %s", log)
	}
	if got := d.call("delete_file", M{"path": "f"}); code(got) != "no_reviewer" {
		t.Errorf("without a reviewer: %v", got)
	}
	cmd := exec.Command(binary, "init", "reviewer")
	cmd.Env = append(d.environ(), "HOLDPOINT_REVIEW_PASSPHRASE="+passphrase)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if got := d.call("delete_file", M{"path": "f"}); text(got, "status") == "review" {
			must(t, d.approve(got), "done")
			return
		} else if time.Now().After(end) {
			t.Fatalf("the reviewer was not taken over: %v\n%s", got, d.Log)
		}
	}
}
