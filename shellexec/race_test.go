//go:build linux

package shellexec

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// rounds of a race; HOLDPOINT_RACE_ROUNDS raises it.
func rounds(t *testing.T) int {
	n := 40
	if v := os.Getenv("HOLDPOINT_RACE_ROUNDS"); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// TestEndRace ends programs at about the moment at which they end by themselves.
func TestEndRace(t *testing.T) {
	t.Parallel()
	stranger := exec.Command("/bin/sleep", "72.5")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { stranger.Process.Kill(); stranger.Wait() }()
	t.Run("S91 a stop or a deadline that races the end hits nobody else, and the end is told once", func(t *testing.T) {
		n := rounds(t)
		ends := map[string]int{}
		var usual time.Duration
		for i := range 4 {
			r := mustRun(t, shell(t, ":"))
			if i == 0 || r.Took < usual {
				usual = r.Took
			}
		}
		for i := range n {
			s := shell(t, ":")
			s.Confined = i%2 == 0
			ctx, cancel := context.WithCancel(context.Background())
			// From well before the end to just behind it.
			at := usual/2 + time.Duration(i)*usual/time.Duration(n)
			if i%3 == 0 {
				s.Timeout = at
			} else {
				time.AfterFunc(at, cancel)
			}
			r, err := Run(ctx, s)
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			ends[r.Termination]++
			switch r.Termination {
			case Exited:
				if r.Exit == nil {
					t.Errorf("round %d: exited without a code", i)
				}
			case Cancelled, TimedOut, Signalled, SpawnFailed:
				if r.Exit != nil {
					t.Errorf("round %d: %s with a code", i, r.Termination)
				}
			default:
				t.Errorf("round %d: %+v", i, r)
			}
		}
		t.Logf("%d rounds: %v", n, ends)
		if err := stranger.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("the stranger is gone: %v", err)
		}
	})
	t.Run("S91 (part) a number that was reaped and given to a stranger is not signalled", func(t *testing.T) {
		// A process that left the tree stands for one that got the number of one of ours.
		out, err := exec.Command("/bin/sh", "-c", "setsid sh -c 'sleep 73.5 >/dev/null 2>&1 & echo $!' | cat").Output()
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Kill(pid, syscall.SIGKILL)
		signal(pid, unix.SIGKILL)
		time.Sleep(50 * time.Millisecond)
		if s := stateOf(pid); s == 0 || s == 'Z' {
			t.Error("the stranger was hit")
		}
		child := exec.Command("/bin/sleep", "74.5")
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		signal(child.Process.Pid, unix.SIGKILL)
		if err := child.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("one of ours is not hit, so this proves nothing: %v", err)
		}
		signal(child.Process.Pid, unix.SIGKILL) // reaped: nobody's
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err != nil {
			t.Error("the stranger was hit")
		}
	})
}
