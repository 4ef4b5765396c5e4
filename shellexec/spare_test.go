//go:build linux

package shellexec

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestSpare(t *testing.T) {
	spares := &Spares{}
	defer spares.Close()
	stands := func(n int) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); spares.Ready() < n; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("no helper stands ready")
			}
		}
	}
	for i, confined := range []bool{true, false} {
		s := shell(t, "yes 0123456789abcde | head -c 3000000; echo end >&2; read x; echo $x; exit 3")
		s.Confined, s.Spares, s.Stdin = confined, spares, []byte("in\n")
		for range 2 { // the second by a helper that stood ready
			r := mustRun(t, s)
			if r.Exit == nil || *r.Exit != 3 || r.Stdout.Total != 3000003 || all(r.Stderr) != "end\n" || !strings.HasSuffix(all(r.Stdout), "in\n") || r.Leftovers != 0 {
				t.Errorf("confined %v: %d bytes, %q, %+v", confined, r.Stdout.Total, all(r.Stderr), r.Failure)
			}
			stands(i + 1)
		}
	}
	t.Run("a session by a helper that stood ready is a terminal like any other", func(t *testing.T) {
		s := shell(t, "stty size; yes | head -c 300000; echo; echo over")
		s.Spares, s.Terminal = spares, &Size{30, 100}
		stands(2)
		r := mustRun(t, s)
		if got := all(r.Stdout); !strings.HasPrefix(got, "30 100\r\n") || !strings.HasSuffix(got, "over\r\n") || r.Stdout.Total < 300000 {
			t.Errorf("got %d bytes, %q", r.Stdout.Total, got[max(0, len(got)-40):])
		}
	})
	t.Run("one that is still coming is waited for, not started beside", func(t *testing.T) {
		coming := &Spares{}
		defer coming.Close()
		s := shell(t, "echo on")
		s.Spares = coming
		coming.Warm(s)
		coming.mu.Lock()
		n := len(coming.coming) + len(coming.kept)
		coming.mu.Unlock()
		if r := mustRun(t, s); n != 1 || all(r.Stdout) != "on\n" {
			t.Errorf("%d are coming, got %+v", n, r)
		}
	})
	t.Run("one that has ended is not waited for", func(t *testing.T) {
		stands(2)
		spares.mu.Lock()
		for _, one := range spares.kept {
			one.cmd.Process.Kill()
			for stateOf(one.cmd.Process.Pid) != 'Z' {
				time.Sleep(time.Millisecond)
			}
		}
		spares.mu.Unlock()
		s := shell(t, "echo on")
		s.Spares = spares
		if r := mustRun(t, s); all(r.Stdout) != "on\n" {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("they end with their keeper, and it keeps no more", func(t *testing.T) {
		stands(1)
		spares.mu.Lock()
		var pids []int
		for _, one := range spares.kept {
			pids = append(pids, one.cmd.Process.Pid)
		}
		spares.mu.Unlock()
		spares.Close()
		for _, pid := range pids {
			if p, err := os.FindProcess(pid); err == nil && p.Signal(syscall.Signal(0)) == nil {
				t.Errorf("%d is alive", pid)
			}
		}
		s := shell(t, "echo on")
		s.Spares = spares
		if r, err := Run(context.Background(), s); err != nil || all(r.Stdout) != "on\n" || spares.Ready() != 0 {
			t.Errorf("%v %+v", err, r)
		}
	})
}
