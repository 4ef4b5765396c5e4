package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// terminal is a program on a terminal of its own; what it draws is collected.
type terminal struct {
	t    testing.TB
	file *os.File
	cmd  *exec.Cmd
	mu   sync.Mutex // guards out
	out  []byte
}

func (d *daemon) terminal(args ...string) *terminal {
	d.t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env = append(d.environ(), "TERM=xterm-256color")
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 30, Cols: 110})
	if err != nil {
		d.t.Fatal(err)
	}
	v := &terminal{t: d.t, file: f, cmd: cmd}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 8192)
		for {
			n, err := f.Read(b)
			v.mu.Lock()
			v.out = append(v.out, b[:n]...)
			v.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	d.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		f.Close()
		<-done
	})
	return v
}

func (v *terminal) text() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return ansi.Strip(string(v.out))
}

// shows waits until the screen has a text. A program draws only what differs from the
// screen before, so the size is changed by a column to have all of it drawn.
func (v *terminal) shows(want string) {
	v.t.Helper()
	for end, turn := time.Now().Add(60*time.Second), uint16(0); ; turn++ {
		for i := 0; i < 10; i++ {
			if strings.Contains(v.text(), want) {
				return
			}
			time.Sleep(30 * time.Millisecond)
		}
		if time.Now().After(end) {
			v.t.Fatalf("the terminal does not show %q:\n%s", want, v.text())
		}
		v.mu.Lock()
		v.out = nil
		v.mu.Unlock()
		if err := pty.Setsize(v.file, &pty.Winsize{Rows: 30, Cols: 110 + turn%2}); err != nil {
			v.t.Fatal(err)
		}
	}
}

// press forgets what was drawn, and types.
func (v *terminal) press(keys string) {
	v.t.Helper()
	v.mu.Lock()
	v.out = nil
	v.mu.Unlock()
	if _, err := v.file.WriteString(keys); err != nil {
		v.t.Fatal(err)
	}
}

// A daemon that asks for a passphrase ends on the signal that a service manager sends, and
// leaves the terminal as it was.
func TestPromptEnds(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	d := &daemon{t: t, Root: root, State: state, Socket: filepath.Join(state, "holdpoint.sock"), env: []string{"HOLDPOINT_REVIEW_PASSPHRASE="}}
	v := d.terminal("serve", "--root", root, "--state", state)
	before, err := unix.IoctlGetTermios(int(v.file.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	v.shows("Choose the reviewer's passphrase")
	if raw, err := unix.IoctlGetTermios(int(v.file.Fd()), unix.TCGETS); err != nil || raw.Lflag&unix.ECHO != 0 {
		t.Fatalf("%v: what is typed would show", err)
	}
	if err := v.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- v.cmd.Wait() }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("it still asks")
	}
	if after, err := unix.IoctlGetTermios(int(v.file.Fd()), unix.TCGETS); err != nil || after.Lflag != before.Lflag {
		t.Errorf("%v: the terminal is left as %v, it was %v", err, after, before)
	}
	if there(filepath.Join(state, "holdpoint.sock")) {
		t.Error("it listens")
	}
}

// TestScreen drives the terminal review on a terminal.
func TestScreen(t *testing.T) {
	d := start(t)
	write(t, filepath.Join(d.Root, "one.txt"), "first line\n")
	write(t, filepath.Join(d.Root, "two\u202e\u200b.txt"), "x\n")
	_, one := d.http("POST", "/v1/call", d.Agent, M{"op": "delete_file", "args": M{"path": "one.txt"}, "intent": "tidy \x1b[2J\u202e up"})
	two := must(t, d.call("delete_file", M{"path": "two\u202e\u200b.txt"}), "review")
	ran, tool := filepath.Join(filepath.Dir(d.State), "ran"), filepath.Join(filepath.Dir(d.State), "tool.sh")
	write(t, tool, "#!/bin/sh\ncat \"$1\" > "+ran+"\n")
	if err := os.Chmod(tool, 0o755); err != nil {
		t.Fatal(err)
	}
	d.env = append(d.env, "HOLDPOINT_DIFFTOOL="+tool)
	v := d.terminal("review")
	t.Run("I87 (part), I91 (part) list, card and diff; no single key approves what destroys", func(t *testing.T) {
		v.shows("Waiting for a person: 2")
		v.shows("one.txt")
		v.press("\r")
		v.shows("they asked")
		v.shows("-first line")
		v.press("t")
		for end := time.Now().Add(time.Minute); !there(ran) && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		}
		v.shows("-first line")
		if !there(ran) || read(t, ran) != "first line\n" {
			t.Error("the diff tool was not opened on the card")
		}
		v.press("a")
		v.shows("Type yes and Enter")
		v.press("\r")
		v.shows("takes the word yes")
		if !there(filepath.Join(d.Root, "one.txt")) {
			t.Fatal("two keys deleted the file")
		}
		v.press("a")
		v.shows("Type yes and Enter")
		v.press("yes\r")
		v.shows("Approved and done: Delete 1 file")
		if there(filepath.Join(d.Root, "one.txt")) || d.state(text(one, "approval", "id")) != "executed" {
			t.Error("it did not run")
		}
	})
	t.Run("S65 (part), S66 (part) hostile names and intents are spelled out on the screen", func(t *testing.T) {
		v.press("\r")
		v.shows(`two\u{202E}\u{200B}.txt`)
		noHidden(t, "the terminal", strings.ReplaceAll(v.text(), "\r", ""))
	})
	t.Run("X36 (part) reject with words", func(t *testing.T) {
		v.press("r")
		v.shows("Words for the agent")
		v.press("not this one\r")
		v.shows("Rejected: Delete 1 file")
		_, row := d.http("GET", "/v1/approvals/"+text(two, "approval", "id"), d.Agent, nil)
		if text(row, "state") != "rejected" || text(row, "note") != "not this one" {
			t.Errorf("got %v", row)
		}
	})
	t.Run("a new card appears by itself", func(t *testing.T) {
		write(t, filepath.Join(d.Root, "late.txt"), "x\n")
		v.press("")
		must(t, d.call("delete_file", M{"path": "late.txt"}), "review")
		v.shows("late.txt")
	})
	t.Run("undo from the history", func(t *testing.T) {
		v.press("h")
		v.shows("newest first")
		v.shows("delete_file")
		v.press("\r")
		v.shows("one.txt")
		v.press("u")
		v.shows("Put it back as it was?")
		v.press("yes\r")
		v.shows("Undone: op_")
		if read(t, filepath.Join(d.Root, "one.txt")) != "first line\n" {
			t.Error("it is not back")
		}
	})
	t.Run("q leaves, and the terminal is as before", func(t *testing.T) {
		v.press("q")
		for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			v.mu.Lock()
			out := string(v.out)
			v.mu.Unlock()
			if strings.Contains(out, "\x1b[?1049l") {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("the other screen was not left: %q", out)
			}
		}
	})
}
