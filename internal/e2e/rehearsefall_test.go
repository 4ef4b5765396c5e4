//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"golang.org/x/sys/unix"
)

// beWithout is the life of the test binary as something that takes system calls away from
// the program which it becomes: "without fsopen,userns -- PROGRAM ARG...".
func beWithout() bool {
	if len(os.Args) < 5 || os.Args[1] != "without" {
		return false
	}
	var deny []seccomp.SyscallGroup
	if strings.Contains(os.Args[2], "fsopen") {
		deny = append(deny, seccomp.SyscallGroup{Names: []string{"fsopen"}, Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)})
	}
	if strings.Contains(os.Args[2], "userns") {
		deny = append(deny, seccomp.SyscallGroup{NamesWithCondtions: []seccomp.NameWithConditions{{Name: "clone",
			Conditions: []seccomp.Condition{{Argument: 0, Operation: seccomp.BitsSet, Value: unix.CLONE_NEWUSER}}}}, Action: seccomp.ActionErrno | seccomp.Action(unix.EPERM)})
	}
	err := seccomp.LoadFilter(seccomp.Filter{NoNewPrivs: true, Flag: seccomp.FilterFlagTSync, Policy: seccomp.Policy{DefaultAction: seccomp.ActionAllow, Syscalls: deny}})
	if err == nil {
		err = syscall.Exec(os.Args[4], os.Args[4:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
	return true
}

func without(t *testing.T, what string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{self, "without", what, "--"}
}

// TestRehearseFallbacks forces each way down from the overlay.
func TestRehearseFallbacks(t *testing.T) {
	t.Parallel()
	on := func(t *testing.T, base string, wrap ...string) *daemon {
		root, state := filepath.Join(base, "ws"), filepath.Join(base, "state")
		if err := os.MkdirAll(root, 0o755); err != nil {
			t.Fatal(err)
		}
		fillView(t, root)
		return underOn(t, root, state, wrap...)
	}
	unsupported := func(t *testing.T, d *daemon, why string) {
		t.Helper()
		r := d.call("workspace_shell", M{"script": "touch ran", "rehearse": true})
		if text(r, "error", "code") != "rehearsal_unsupported" || !strings.Contains(text(r, "error", "message"), why) || d.has("ran") {
			t.Errorf("got %v", r)
		}
	}
	t.Run("on btrfs an overlay is had", func(t *testing.T) { throughView(t, on(t, newDisk(t, "btrfs").mount), "overlay") })
	t.Run("no overlay, blocks can be shared: a copy that shares them", func(t *testing.T) {
		throughView(t, on(t, newDisk(t, "xfs").mount, without(t, "fsopen")...), "reflink")
	})
	t.Run("no overlay, no sharing: a copy of a small root, and rehearsal_unsupported for a large one", func(t *testing.T) {
		d := on(t, small(t, "64m"), without(t, "fsopen")...)
		throughView(t, d, "copy")
		for i := range 2001 {
			write(t, filepath.Join(d.Root, "many", fmt.Sprint(i)), "")
		}
		unsupported(t, d, "it holds too much to be copied")
	})
	t.Run("no namespaces: rehearsal_unsupported, and the same command runs for real", func(t *testing.T) {
		base := shortDir(t)
		wrap := append(without(t, "userns"), "/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/env", "HOME=/nonexistent")
		os.MkdirAll(filepath.Join(base, "ws"), 0o755)
		os.MkdirAll(filepath.Join(base, "state"), 0o700)
		os.Chmod(filepath.Dir(binary), 0o755)
		for p := base; p != "/" && p != os.TempDir(); p = filepath.Dir(p) {
			os.Chmod(p, 0o755)
		}
		for _, p := range []string{"ws", "state"} {
			os.Chown(filepath.Join(base, p), 65534, 65534)
		}
		d := on(t, base, wrap...)
		unsupported(t, d, "cannot be had")
		r := d.approve(d.call("workspace_shell", M{"script": "touch ran"}))
		if text(r, "status") != "done" || !d.has("ran") || text(r, "result", "confinement", "level") != "partial" {
			t.Errorf("got %v", r)
		}
	})
}
