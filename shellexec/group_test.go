//go:build linux && !race

// Under the race detector no memory is left below such a limit: its own shadow is over it.

package shellexec

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// handedOver makes a control group for a test, of either kind; empty where this machine
// lets nobody make one.
func handedOver(t *testing.T) string {
	for _, base := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified"} {
		dir := fmt.Sprintf("%s/hptest%d", base, os.Getpid())
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { os.Remove(dir) })
		if g, err := newGroup(dir, "try", 1<<28, 100); err == nil {
			g.remove()
			return dir
		}
		os.Remove(dir)
	}
	return ""
}

func levelOf(r Result, name string) Level {
	for _, l := range r.Levels {
		if l.Name == name {
			return l
		}
	}
	return Level{}
}

func TestCeilings(t *testing.T) {
	const big = "dd if=/dev/zero of=/dev/null bs=400M count=1 2>&1 && echo fits"
	t.Run("memory of each process, by a limit of its own", func(t *testing.T) {
		s := shell(t, big)
		if got := all(mustRun(t, s).Stdout); !strings.Contains(got, "fits") {
			t.Fatalf("it does not fit without a limit either: %q", got)
		}
		s.Memory = 256 << 20
		r := mustRun(t, s)
		if l := levelOf(r, LevelMemory); strings.Contains(all(r.Stdout), "fits") || !l.On || !strings.HasPrefix(l.Detail, "of each process") {
			t.Errorf("got %q, %+v", all(r.Stdout), l)
		}
	})
	t.Run("processor time", func(t *testing.T) {
		s := shell(t, "while :; do :; done")
		s.CPU, s.Timeout = time.Second, 60*time.Second
		r := mustRun(t, s)
		if r.Termination != Signalled || r.Signal != "SIGXCPU" || r.Limit != LevelCPU || !levelOf(r, LevelCPU).On {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("memory of all processes together, in a control group, which goes with the run", func(t *testing.T) {
		dir := handedOver(t)
		if dir == "" {
			t.Skip("no control group can be made on this machine, so this cannot be shown here")
		}
		three := "for i in 1 2 3; do (head -c 150M /dev/zero | tail -c 150M | (sleep 1; wc -c)) & done; wait"
		s := shell(t, three)
		s.Name, s.Memory, s.Timeout = "run", 256<<20, 60*time.Second
		r := mustRun(t, s)
		if r.Limit != "" || strings.Count(all(r.Stdout), "157286400") != 3 {
			t.Fatalf("each by itself does not fit either: %q %q", all(r.Stdout), r.Limit)
		}
		s.Cgroup = dir
		r = mustRun(t, s)
		if l := levelOf(r, LevelMemory); r.Limit != LevelMemory || !l.On || l.Detail != "of all processes together" || strings.Count(all(r.Stdout), "157286400") == 3 {
			t.Errorf("got %q %q %+v", all(r.Stdout), r.Limit, l)
		}
		for end := time.Now().Add(5 * time.Second); there(dir, groupPrefix+"run"); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the group is left behind")
			}
		}
	})
	t.Run("a named group that cannot be had is a level that is missing", func(t *testing.T) {
		s := shell(t, "touch ran")
		s.Memory, s.Cgroup, s.Needs = 256<<20, "/proc", []string{LevelUser, LevelMemory}
		r := mustRun(t, s)
		if l := levelOf(r, LevelMemory); r.Termination != NoSandbox || l.On || there(s.Root, "ran") {
			t.Errorf("got %+v", r)
		}
	})
}
