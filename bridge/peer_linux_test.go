package bridge

import (
	"os"
	"os/exec"
	"testing"
)

func TestCameFrom(t *testing.T) {
	child := exec.Command("/bin/sh", "-c", "read x & exec sleep 60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { child.Process.Kill(); child.Wait() }()
	gone := exec.Command("/bin/true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what          string
		pid, ancestor int
		want          bool
	}{
		{"a child", child.Process.Pid, os.Getpid(), true},
		{"a child of a child", child.Process.Pid, os.Getppid(), true},
		{"a parent", os.Getppid(), os.Getpid(), false},
		{"itself", os.Getpid(), os.Getpid(), false},
		{"the first process", 1, os.Getpid(), false},
		{"one of another namespace", 0, os.Getpid(), false},
		{"one that has ended", gone.Process.Pid, os.Getpid(), true},
	} {
		if got := cameFrom(c.pid, c.ancestor); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
