package trusted

import (
	"os"
	"path/filepath"
	"testing"

	"holdpoint/op"
)

func entry(roots ...string) []Policy {
	return []Policy{{ID: "p", WorkflowIDs: []string{"w"}, Operations: []op.Name{op.DeleteFile, op.BatchFileOps}, Roots: roots}}
}

func TestFor(t *testing.T) {
	t.Run("C110 a root covers itself and what lies below, by path component", func(t *testing.T) {
		for _, c := range []struct {
			root, dir string
			path      op.Path
			want      bool
		}{
			{"/srv/a", "/srv/a", "x", true},
			{"/srv/a", "/srv/a", ".", true},
			{"/srv/a/", "/srv/a", "x/y", true},
			{"/srv//a/.", "/srv/a", "x", true},
			{"/srv/a", "/srv/ab", "x", false},
			{"/srv/a", "/srv", "ab", false},
			{"/srv/a", "/srv", "ab/x", false},
			{"/srv/a", "/srv", "a", true},
			{"/srv/a", "/srv", "a/x", true},
			{"/srv/a", "/srv", "a x", false},
			{"/srv/a", "/srv", "A/x", false},
			{"/srv/a", "/srv", ".", false},
			{"/srv/a/b", "/srv/a", "b/c", true},
			{"/srv/a/b", "/srv/a", "c", false},
			{"/srv/a", "/srv", "a/../b", false},
			{"/srv/a", "/srv/a", "../b", false},
			{"/srv/a", "/srv/a", "/etc/passwd", false},
			{"/srv/a", "/srv/a", "", false},
			{"/srv/a", "", "srv/a/x", false},
			{"/srv/a", "srv/a", "x", false},
			{"/srv/a", "/", "srv/a/x", true},
		} {
			if got := covers(newSet(entry(c.root), nil), "", c.dir, c.path); got != c.want {
				t.Errorf("root %q, workspace %q, path %q: covered %v, want %v", c.root, c.dir, c.path, got, c.want)
			}
		}
	})
	t.Run("C110 a root named through a link is canonicalised", func(t *testing.T) {
		base := realTemp(t)
		must(t, os.MkdirAll(filepath.Join(base, "real/build"), 0o755))
		must(t, os.Symlink("real", filepath.Join(base, "alias")))
		must(t, os.Symlink(filepath.Join(base, "alias/../real/./build"), filepath.Join(base, "deep")))
		must(t, os.Symlink("loop", filepath.Join(base, "loop")))
		ws := filepath.Join(base, "real")
		for root, want := range map[string]bool{"alias": true, "alias/build": true, "deep": true, "alias/other": false, "loop": false, "loop/build": false} {
			if got := covers(newSet(entry(filepath.Join(base, root)), []string{ws}), "", ws, "build/x.o"); got != want {
				t.Errorf("%s: covered %v, want %v", root, got, want)
			}
		}
	})
	t.Run("a link made inside a workspace widens nothing", func(t *testing.T) {
		ws := realTemp(t)
		must(t, os.Mkdir(filepath.Join(ws, "src"), 0o755))
		must(t, os.Symlink(".", filepath.Join(ws, "build")))
		set := newSet(entry(filepath.Join(ws, "build")), []string{ws})
		if covers(set, "", ws, "src") || covers(set, "", ws, "src/x") {
			t.Error("the link in the workspace was followed to a wider place")
		}
		// The same case goes wrong without the guard, so that the guard is what matters.
		if !covers(newSet(entry(filepath.Join(ws, "build")), nil), "", ws, "src") {
			t.Error("the case does not show the danger")
		}
	})
	t.Run("C111 a root named by key matches only that workspace", func(t *testing.T) {
		const key, other = "0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdee"
		set := newSet(entry(ClientRoot+key), nil)
		for _, c := range []struct {
			key  string
			want bool
		}{{key, true}, {other, false}, {"", false}, {key[:31], false}, {key + "0", false}} {
			if got := covers(set, c.key, "/srv/a", "x"); got != c.want {
				t.Errorf("key %q: covered %v, want %v", c.key, got, c.want)
			}
		}
		if !covers(set, key, "", "x") {
			t.Error("a workspace without a directory here is not matched by its key")
		}
		if covers(set, key, "/srv/a", "../x") {
			t.Error("a key covers what lies outside its workspace")
		}
	})
	t.Run("every target must be covered", func(t *testing.T) {
		set := newSet(entry("/srv/a/build", "/srv/a/tmp"), nil)
		if !covers(set, "", "/srv/a", "build/x", "tmp/y") {
			t.Error("two roots of one entry do not join")
		}
		if covers(set, "", "/srv/a", "build/x", "src/y") || covers(set, "", "/srv/a") {
			t.Error("covered although one target is not, or there is none")
		}
		for role, want := range map[op.TargetRole]bool{op.RoleTarget: false, op.RoleSource: false, op.RoleDestination: false, "": false, op.RoleParent: true} {
			targets := []op.Target{{Path: "build/x", Role: op.RoleTarget}, {Path: "src", Role: role}}
			if got := set.For("w", "", "/srv/a", op.DeleteFile, targets, nil)[0].CoversAllTargets; got != want {
				t.Errorf("role %q outside: covered %v, want %v", role, got, want)
			}
		}
	})
	t.Run("a batch is covered only when each destructive part is named", func(t *testing.T) {
		set := newSet(entry("/srv/a"), nil)
		targets := []op.Target{{Path: "x", Role: op.RoleTarget}}
		for _, c := range []struct {
			parts []op.Name
			want  bool
		}{{nil, true}, {[]op.Name{op.DeleteFile}, true}, {[]op.Name{op.DeleteFile, op.MoveFile}, false}, {[]op.Name{op.RollbackFile}, false}} {
			if got := set.For("w", "", "/srv/a", op.BatchFileOps, targets, c.parts)[0].CoversAllTargets; got != c.want {
				t.Errorf("%v: covered %v, want %v", c.parts, got, c.want)
			}
			if set.For("w", "", "/srv/b", op.BatchFileOps, targets, c.parts)[0].CoversAllTargets {
				t.Errorf("%v: covered in another place", c.parts)
			}
		}
	})
	t.Run("only entries that name the workflow are given", func(t *testing.T) {
		policies := append(entry("/srv/a"), Policy{ID: "q", WorkflowIDs: []string{""}, Operations: []op.Name{op.DeleteFile}, Roots: []string{"/srv/a"}})
		set := newSet(policies, nil)
		targets := []op.Target{{Path: "x", Role: op.RoleTarget}}
		for workflow, want := range map[string]int{"w": 1, "W": 0, "": 0, "w2": 0} {
			if got := set.For(workflow, "", "/srv/a", op.DeleteFile, targets, nil); len(got) != want {
				t.Errorf("workflow %q: %d entries, want %d", workflow, len(got), want)
			}
		}
		if got := new(Set).For("w", "k", "/srv/a", op.DeleteFile, targets, nil); len(got) != 0 {
			t.Errorf("the zero set grants %v", got)
		}
	})
}

func realTemp(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
