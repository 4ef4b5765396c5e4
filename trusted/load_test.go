//go:build linux

package trusted

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"holdpoint/op"
)

func write(t *testing.T, file, text string, mode os.FileMode) string {
	t.Helper()
	must(t, os.WriteFile(file, []byte(text), 0o600))
	must(t, os.Chmod(file, mode))
	return file
}

func env(workspaces ...string) LoadEnv { return LoadEnv{Workspaces: workspaces, UID: os.Getuid()} }

func refused(t *testing.T, file string, e LoadEnv, code op.Code, want string) {
	t.Helper()
	set, err := Load(file, e)
	if !errors.Is(err, code) || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got %v, %v; want %s with %q", filepath.Base(file), set, err, code, want)
	}
	live, err := Watch(t.Context(), file, e, nil)
	if !errors.Is(err, code) {
		t.Errorf("%s: a daemon would start: %v, %v", filepath.Base(file), live, err)
	}
}

func TestLoad(t *testing.T) {
	t.Run("C114 a file that is missing, unreadable, invalid or open to others stops the start", func(t *testing.T) {
		dir := realTemp(t)
		name := func(s string) string { return filepath.Join(dir, s) }
		refused(t, name("missing"), env(), op.PolicyInvalid, "no such file")
		refused(t, write(t, name("invalid"), strings.Replace(good, "move_file", "workspace_shell", 1), 0o644), env(), op.PolicyInvalid, "line 13: policies[1].operations[0]")
		refused(t, write(t, name("long"), good+strings.Repeat(" ", maxFile), 0o644), env(), op.PolicyInvalid, "longer than")
		for _, mode := range []os.FileMode{0o664, 0o646, 0o666, 0o620, 0o602, 0o777} {
			refused(t, write(t, name("open"), good, mode), env(), op.PolicyUnsafePermissions, "written by group or others")
		}
		for _, mode := range []os.FileMode{0o644, 0o600, 0o400, 0o755, 0o444} {
			set, err := Load(write(t, name("kept"), good, mode), env())
			if err != nil || len(set.Policies()) != 2 {
				t.Errorf("mode %04o: %v", mode, err)
			}
			must(t, os.Remove(name("kept")))
		}
	})
	t.Run("C114 what is no plain file of the daemon's user or root is never read", func(t *testing.T) {
		dir := realTemp(t)
		name := func(s string) string { return filepath.Join(dir, s) }
		write(t, name("real"), good, 0o644)
		must(t, os.Symlink("real", name("link")))
		refused(t, name("link"), env(), op.PolicyUnsafePermissions, "is a link")
		must(t, os.Symlink("nowhere", name("dangling")))
		refused(t, name("dangling"), env(), op.PolicyUnsafePermissions, "is a link")
		must(t, syscall.Mkfifo(name("fifo"), 0o600))
		refused(t, name("fifo"), env(), op.PolicyUnsafePermissions, "no regular file")
		refused(t, dir, env(), op.PolicyUnsafePermissions, "no regular file")
		must(t, os.Link(name("real"), name("second")))
		refused(t, name("real"), env(), op.PolicyUnsafePermissions, "second name")
		must(t, os.Remove(name("second")))
		if uid := os.Geteuid(); uid != 0 {
			refused(t, name("real"), LoadEnv{UID: uid + 1}, op.PolicyUnsafePermissions, fmt.Sprint("belongs to user ", uid))
			t.Log("as root only: a policy that is given to another user")
			return
		}
		must(t, os.Chown(name("real"), 4321, -1))
		refused(t, name("real"), env(), op.PolicyUnsafePermissions, "belongs to user 4321")
		if _, err := Load(name("real"), LoadEnv{UID: 4321}); err != nil {
			t.Errorf("the daemon's own file: %v", err)
		}
		must(t, os.Chown(name("real"), 0, -1))
		if _, err := Load(name("real"), LoadEnv{UID: 4321}); err != nil {
			t.Errorf("root's file: %v", err)
		}
	})
	t.Run("C114 a directory above that everybody may write is refused", func(t *testing.T) {
		dir := realTemp(t)
		must(t, os.MkdirAll(filepath.Join(dir, "a/b"), 0o755))
		file := write(t, filepath.Join(dir, "a/b/policy.json"), good, 0o644)
		must(t, os.Chmod(filepath.Join(dir, "a"), 0o777))
		refused(t, file, env(), op.PolicyUnsafePermissions, "a directory above")
		must(t, os.Chmod(filepath.Join(dir, "a"), 0o777|os.ModeSticky))
		if _, err := Load(file, env()); err != nil {
			t.Errorf("sticky, as a temporary directory is: %v", err)
		}
	})
	t.Run("S103 a file inside a workspace, and a link to one, are refused", func(t *testing.T) {
		dir := realTemp(t)
		ws := filepath.Join(dir, "ws")
		must(t, os.MkdirAll(filepath.Join(ws, "sub"), 0o755))
		inside := write(t, filepath.Join(ws, "sub/policy.json"), good, 0o644)
		refused(t, inside, env(ws), op.PolicyUnsafePermissions, "inside a workspace")
		must(t, os.Symlink(inside, filepath.Join(dir, "link.json")))
		refused(t, filepath.Join(dir, "link.json"), env(ws), op.PolicyUnsafePermissions, "link")
		must(t, os.Symlink("ws/sub", filepath.Join(dir, "door")))
		refused(t, filepath.Join(dir, "door/policy.json"), env(ws), op.PolicyUnsafePermissions, "inside a workspace")
		refused(t, filepath.Join(ws, "../ws/sub/policy.json"), env(ws), op.PolicyUnsafePermissions, "inside a workspace")
		// Named through a link to the workspace, the workspace is still the same directory.
		must(t, os.Symlink("ws", filepath.Join(dir, "alias")))
		refused(t, inside, env(filepath.Join(dir, "alias")), op.PolicyUnsafePermissions, "inside a workspace")
		if _, err := Load(inside, env(filepath.Join(dir, "ws2"), ws+"x")); err != nil {
			t.Errorf("beside the workspaces: %v", err)
		}
	})
	t.Run("S103 a root registered around the file later is refused", func(t *testing.T) {
		dir := realTemp(t)
		ws := filepath.Join(dir, "ws")
		must(t, os.Mkdir(ws, 0o755))
		live, err := Watch(t.Context(), write(t, filepath.Join(dir, "policy.json"), good, 0o644), env(ws), nil)
		must(t, err)
		defer live.Close()
		if err := live.SetWorkspaces([]string{ws, dir}); !errors.Is(err, op.PolicyUnsafePermissions) {
			t.Errorf("registering a root around the policy file: %v", err)
		}
		if live.Status().State != StateOK || len(live.Current().Policies()) != 2 {
			t.Errorf("the refused root changed something: %+v", live.Status())
		}
		must(t, live.SetWorkspaces([]string{ws}))
	})
}
