//go:build linux

package shellexec

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// session starts a program on a terminal; it is ended with the test.
func session(t *testing.T, s Spec) *Running {
	t.Helper()
	s.Terminal, s.Spill, s.Name = &Size{24, 80}, t.TempDir(), "run_t"
	ctx, cancel := context.WithCancel(context.Background())
	r, err := Start(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); r.Wait() })
	return r
}

// shows waits until the terminal has shown a text.
func shows(t *testing.T, r *Running, want string) {
	t.Helper()
	end := time.After(time.Minute)
	for {
		more, over := r.Output.Changed()
		b := make([]byte, 64<<10)
		_, n, _ := r.Output.Read("stdout", 0, b)
		if strings.Contains(string(b[:n]), want) {
			return
		}
		if over {
			t.Fatalf("it ended without showing %q: %q", want, b[:n])
		}
		select {
		case <-more:
		case <-end:
			t.Fatalf("%q did not show: %q", want, b[:n])
		}
	}
}

func keys(t *testing.T, r *Running, text string) {
	t.Helper()
	if err := r.Type([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

func TestTerminal(t *testing.T) {
	for _, confined := range []bool{true, false} {
		t.Run(fmt.Sprintf("a shell on a terminal, confined %v", confined), func(t *testing.T) {
			s := shell(t, "stty size; test -t 0 && test -t 1 && echo ter''minal; read x; echo got:$x; trap 'stty size' WINCH; echo rea''dy; read y; read z; exit 3")
			s.Confined = confined
			r := session(t, s)
			shows(t, r, "24 80\r\n")
			shows(t, r, "terminal\r\n")
			keys(t, r, "hello\n")
			shows(t, r, "got:hello\r\n")
			shows(t, r, "ready\r\n")
			if err := r.Resize(Size{30, 100}); err != nil {
				t.Fatal(err)
			}
			keys(t, r, "\n")
			shows(t, r, "30 100\r\n")
			_ = r.Type([]byte("\n\n")) // where the signal ended the first read, the shell has ended by now
			got := r.Wait()
			if got.Termination != Exited || got.Exit == nil || *got.Exit != 3 {
				t.Errorf("got %+v", got)
			}
			if b, err := os.ReadFile(filepath.Join(s.Root, "..", "nothing")); err == nil {
				t.Error(b)
			}
			if got.Stdout.File == "" || got.Stderr.Total != 0 {
				t.Errorf("the transcript: %+v", got.Stdout)
			}
			if err := r.Type([]byte("x")); err == nil {
				t.Error("an ended session takes keys")
			}
		})
	}
	t.Run("keys of control and the end of input work", func(t *testing.T) {
		s := shell(t, "trap 'echo interrupted' INT; echo ready; read x; cat; echo end")
		r := session(t, s)
		shows(t, r, "ready")
		keys(t, r, "\x03")
		shows(t, r, "interrupted")
		keys(t, r, "a line\n\x04")
		shows(t, r, "end\r\n")
		if got := r.Wait(); got.Termination != Exited {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("the idle deadline ends it, and what is typed or granted puts it off", func(t *testing.T) {
		s := shell(t, "echo up; while read x; do echo got:$x; done")
		s.Idle = 400 * time.Millisecond
		granted := 0
		s.Busy = func() bool { granted++; return granted < 2 }
		begin := time.Now()
		r := session(t, s)
		shows(t, r, "up")
		time.Sleep(250 * time.Millisecond)
		keys(t, r, "a\n")
		shows(t, r, "got:a")
		got := r.Wait()
		if took := time.Since(begin); got.Termination != TimedOut || !got.Idle || took < 900*time.Millisecond || took > 5*time.Second || granted != 2 {
			t.Errorf("%s idle %v after %v, asked %d times", got.Termination, got.Idle, took, granted)
		}
	})
	t.Run("who reads nothing of what is typed holds nobody up", func(t *testing.T) {
		r := session(t, shell(t, "stty raw -echo; echo up; sleep 66.5"))
		shows(t, r, "up")
		begin := time.Now()
		var err error
		for i := 0; i < 64 && err == nil; i++ {
			err = r.Type([]byte(strings.Repeat("x", 4096)))
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
		t.Logf("after %v: %v", time.Since(begin), err)
	})
}

// TestEditor edits one file with vi, confined and not, and wants the same bytes of both.
func TestEditor(t *testing.T) {
	editor := ""
	for _, name := range []string{"vi", "vim", "nvi", "busybox"} {
		if p, err := exec.LookPath(name); err == nil {
			editor = p
			break
		}
	}
	if editor == "" {
		t.Skip("there is no vi here")
	}
	if strings.HasSuffix(editor, "busybox") {
		editor += " vi"
	}
	var made []string
	for _, confined := range []bool{true, false} {
		s := shell(t, "VIMINIT='set viminfo=' TERM=vt100 exec "+editor+" file")
		s.Confined = confined
		if err := os.WriteFile(s.Root+"/file", []byte("one\ntwo\nthree\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		r := session(t, s)
		shows(t, r, "three")
		for _, k := range []string{"dd", "A and a half\x1b", "Gonew line\x1b", ":wq\r"} {
			time.Sleep(100 * time.Millisecond) // an escape alone is told from a key by the time after it
			keys(t, r, k)
		}
		select {
		case <-r.Done():
		case <-time.After(5 * time.Second):
			b := make([]byte, 4096)
			_, n, _ := r.Output.Read("stdout", 0, b)
			t.Fatalf("confined %v: it does not end: %q", confined, b[max(0, n-300):n])
		}
		b, err := os.ReadFile(s.Root + "/file")
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, string(b))
	}
	if want := "two and a half\nthree\nnew line\n"; made[0] != want || made[1] != want {
		t.Errorf("confined %q, else %q, want %q", made[0], made[1], want)
	}
}
