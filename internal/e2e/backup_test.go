package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestBackups shows snapshots, what lists them and what brings them back.
func TestBackups(t *testing.T) {
	t.Parallel()
	d := start(t)
	at := func(name string) string { return filepath.Join(d.Root, name) }
	backups := func(t *testing.T, path string) []any {
		t.Helper()
		r := must(t, d.call("list_backups", M{"path": path}), "done")
		list, _ := r["result"].(M)["backups"].([]any)
		return list
	}
	rollback := func(t *testing.T, path string, id any) M {
		t.Helper()
		return must(t, d.approve(must(t, d.call("rollback_file", M{"path": path, "backup_id": id}), "review")), "done")
	}

	t.Run("C42 every spelling of the usual place is the usual place, and any directory is another, for all that take one", func(t *testing.T) {
		write(t, at("c42/f"), "one\n")
		for _, place := range []any{nil, "", "default"} {
			for name, args := range map[string]M{
				"backup_file": {"path": "c42/f"},
				"edit_file":   {"path": "c42/f", "old_string": "one", "new_string": "two"},
			} {
				if place != nil {
					args["backup_root"] = place
				}
				r := must(t, d.call(name, args), "done")
				if text(r, "decision", "reason") != "low_impact_scoped_change" {
					t.Errorf("%s, %v: got %v", name, place, r["decision"])
				}
				must(t, d.undo(r), "done")
			}
		}
		before := digest(t, d.Root)
		for _, place := range []string{"./default", "default/", "c42", "elsewhere/deep", filepath.Join(d.Root, "abs"), "Default"} {
			for name, args := range map[string]M{
				"backup_file": {"path": "c42/f"},
				"edit_file":   {"path": "c42/f", "old_string": "one", "new_string": "two"},
				"write_file":  {"path": "c42/f", "content": "all new\n"},
			} {
				args["backup_root"] = place
				held := must(t, d.call(name, args), "review")
				all := append([]string{text(held, "decision", "reason")}, words(object(held["decision"])["also"])...)
				if !slices.Contains(all, "custom_backup_root") {
					t.Errorf("%s, %v: got %v", name, place, all)
				}
				d.cancel(held)
			}
		}
		if digest(t, d.Root) != before {
			t.Error("holding them changed something")
		}
	})

	t.Run("C42 (part) backups go to the usual place unless a person lets them go elsewhere", func(t *testing.T) {
		write(t, at("c42.txt"), "one\n")
		before := digest(t, d.Root)
		r := must(t, d.call("backup_file", M{"path": "c42.txt", "backup_root": "default"}), "done")
		if text(r, "decision", "reason") != "low_impact_scoped_change" || digest(t, d.Root) != before {
			t.Fatalf("the usual place by its name: got %v", r["decision"])
		}
		held := must(t, d.call("backup_file", M{"path": "c42.txt", "backup_root": "kept/here"}), "review")
		if text(held, "decision", "reason") != "custom_backup_root" {
			t.Fatalf("got %v, want custom_backup_root", held["decision"])
		}
		r = must(t, d.approve(held), "done")
		if got := read(t, at(text(r, "result", "backup_path"))); got != "one\n" {
			t.Fatalf("got %q at %s", got, text(r, "result", "backup_path"))
		}
		must(t, d.undo(r), "done")
		if digest(t, d.Root) != before {
			t.Fatal("the undo left something behind")
		}
		if r := d.call("backup_file", M{"path": "c42.txt", "backup_root": "../outside"}); code(r) != "outside_workspace" {
			t.Fatalf("outside: got %v", r["error"])
		}
	})

	t.Run("C93 undo of a backup removes that snapshot only", func(t *testing.T) {
		write(t, at("c93.txt"), "first\n")
		one := must(t, d.call("backup_file", M{"path": "c93.txt", "label": "one"}), "done")
		write(t, at("c93.txt"), "second\n")
		two := must(t, d.call("backup_file", M{"path": "c93.txt", "label": "two"}), "done")
		if l := backups(t, "c93.txt"); len(l) != 2 || text(l[0].(M), "label") != "two" || text(l[1].(M), "label") != "one" {
			t.Fatalf("got %v", l)
		}
		u := must(t, d.undo(one), "done")
		l := backups(t, "c93.txt")
		if len(l) != 1 || l[0].(M)["backup_id"] != two["result"].(M)["backup_id"] {
			t.Fatalf("after the undo: got %v", l)
		}
		write(t, at("c93.txt"), "third\n")
		rollback(t, "c93.txt", two["result"].(M)["backup_id"])
		if got := read(t, at("c93.txt")); got != "second\n" {
			t.Fatalf("got %q", got)
		}
		must(t, d.undo(u), "done") // a redo of the first snapshot
		rollback(t, "c93.txt", one["result"].(M)["backup_id"])
		if got := read(t, at("c93.txt")); got != "first\n" {
			t.Fatalf("got %q", got)
		}
	})

	t.Run("C29 (part) a rollback waits for a person even when it changes nothing", func(t *testing.T) {
		write(t, at("c29.txt"), "same\n")
		b := must(t, d.call("backup_file", M{"path": "c29.txt"}), "done")
		held := must(t, d.call("rollback_file", M{"path": "c29.txt", "backup_id": b["result"].(M)["backup_id"]}), "review")
		if text(held, "decision", "reason") != "destructive_operation" {
			t.Fatalf("got %v", held["decision"])
		}
		if r := must(t, d.call("rollback_file", M{"path": "c29.txt", "backup_id": "bk_none"}), "failed"); code(r) != "not_found" {
			t.Fatalf("an id that is none: %v", r["error"])
		}
	})

	t.Run("last names the snapshot that was shown, not a later one", func(t *testing.T) {
		write(t, at("last.txt"), "v1\n")
		must(t, d.call("backup_file", M{"path": "last.txt"}), "done")
		write(t, at("last.txt"), "v2\n")
		held := must(t, d.call("rollback_file", M{"path": "last.txt", "last": true}), "review")
		must(t, d.call("backup_file", M{"path": "last.txt"}), "done")
		r := must(t, d.approve(held), "done")
		if got := read(t, at("last.txt")); got != "v1\n" {
			t.Fatalf("got %q, want the snapshot of the card", got)
		}
		must(t, d.undo(r), "done")
		if got := read(t, at("last.txt")); got != "v2\n" {
			t.Fatalf("after undo: got %q", got)
		}
	})

	t.Run("D25 (part) a rollback keeps and restores the mode", func(t *testing.T) {
		for _, mode := range []uint32{0o755, 0o4755, 0o2755} {
			write(t, at("run.sh"), "echo 1\n")
			if err := syscall.Chmod(at("run.sh"), mode); err != nil {
				t.Fatal(err)
			}
			before := digest(t, d.Root)
			b := must(t, d.call("backup_file", M{"path": "run.sh"}), "done")
			must(t, d.call("edit_file", M{"path": "run.sh", "old_string": "1", "new_string": "2"}), "done")
			rollback(t, "run.sh", b["result"].(M)["backup_id"])
			if digest(t, d.Root) != before {
				t.Fatalf("mode %o: got %v", mode, stat(t, at("run.sh")).Mode())
			}
		}
	})

	t.Run("D32 (part) names of 243 and 255 bytes are backed up and rolled back", func(t *testing.T) {
		for _, n := range []int{243, 255} {
			name := strings.Repeat("n", n)
			write(t, at(name), "a\n")
			b := must(t, d.call("backup_file", M{"path": name}), "done")
			c := must(t, d.approve(must(t, d.call("backup_file", M{"path": name, "backup_root": "baks"}), "review")), "done")
			if got := filepath.Base(text(c, "result", "backup_path")); len(got) > 230 {
				t.Errorf("the backup's name grew to %d bytes", len(got))
			}
			must(t, d.call("edit_file", M{"path": name, "old_string": "a", "new_string": "b"}), "done")
			must(t, d.approve(must(t, d.call("delete_file", M{"path": name}), "review")), "done")
			rollback(t, name, b["result"].(M)["backup_id"])
			if got := read(t, at(name)); got != "a\n" {
				t.Fatalf("%d bytes: got %q", n, got)
			}
		}
	})

	t.Run("D67 (part) a sparse file stays sparse in a copy, a backup, quarantine and back", func(t *testing.T) {
		f, err := os.Create(at("sparse"))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(96 << 20); err != nil {
			t.Fatal(err)
		}
		f.WriteAt([]byte(strings.Repeat("x", 4096)), 48<<20)
		f.Close()
		small := func(path string) {
			t.Helper()
			if st := stat(t, path).Sys().(*syscall.Stat_t); st.Blocks*512 > 1<<20 {
				t.Errorf("%s takes %d bytes on disk", filepath.Base(path), st.Blocks*512)
			}
		}
		must(t, d.approve(must(t, d.call("copy_file", M{"source": "sparse", "destination": "sparse2"}), "review")), "done")
		small(at("sparse2"))
		b := must(t, d.call("backup_file", M{"path": "sparse"}), "done")
		del := must(t, d.approve(must(t, d.call("delete_file", M{"path": "sparse"}), "review")), "done")
		if del["result"].(M)["freed_bytes"] != float64(0) || text(del, "result", "undo_until") == "" {
			t.Errorf("the reply of a delete says %v", del["result"])
		}
		rollback(t, "sparse", b["result"].(M)["backup_id"])
		small(at("sparse"))
		if a, b := must(t, d.call("file_info", M{"path": "sparse"}), "done"), must(t, d.call("file_info", M{"path": "sparse2"}), "done"); text(a, "result", "hash") != text(b, "result", "hash") {
			t.Error("the bytes differ")
		}
	})

	t.Run("an edit names what it keeps, and one that turns its backup off is not listed but can be undone", func(t *testing.T) {
		write(t, at("pre.txt"), "a\n")
		e := must(t, d.call("edit_file", M{"path": "pre.txt", "old_string": "a", "new_string": "b"}), "done")
		if l := backups(t, "pre.txt"); len(l) != 1 || l[0].(M)["backup_id"] != e["result"].(M)["backup_id"] || text(l[0].(M), "kind") != "pre_image" {
			t.Fatalf("got %v, want %v", l, e["result"])
		}
		off := must(t, d.approve(must(t, d.call("edit_file", M{"path": "pre.txt", "old_string": "b", "new_string": "c", "backup": false}), "review")), "done")
		if l := backups(t, "pre.txt"); len(l) != 1 || off["result"].(M)["backup_id"] != nil {
			t.Fatalf("got %v and %v", l, off["result"])
		}
		must(t, d.undo(off), "done")
		if got := read(t, at("pre.txt")); got != "b\n" {
			t.Fatalf("got %q", got)
		}
	})
}

func stat(t testing.TB, path string) os.FileInfo {
	t.Helper()
	i, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// TestCopyTree shows the copy of a directory.
func TestCopyTree(t *testing.T) {
	t.Parallel()
	d := start(t)
	at := func(name string) string { return filepath.Join(d.Root, name) }
	tree := func(t *testing.T, dir string) {
		t.Helper()
		write(t, at(dir+"/a.txt"), "1\n")
		write(t, at(dir+"/sub/.hidden"), "h\n")
		if err := os.MkdirAll(at(dir+"/empty"), 0o711); err != nil {
			t.Fatal(err)
		}
		write(t, at(dir+"/run.sh"), "#!/bin/sh\n")
		os.Chmod(at(dir+"/run.sh"), 0o755)
		os.Symlink("a.txt", at(dir+"/link"))
	}

	t.Run("C55 (part) a directory is many targets, and its copy equals it", func(t *testing.T) {
		tree(t, "src")
		before := digest(t, d.Root)
		held := must(t, d.call("copy_file", M{"source": "src", "destination": "deep/dst", "recursive": true}), "review")
		if text(held, "decision", "reason") != "multiple_targets" {
			t.Fatalf("got %v", held["decision"])
		}
		if digest(t, d.Root) != before {
			t.Fatal("holding it changed something")
		}
		r := must(t, d.approve(held), "done")
		if got, want := digest(t, at("deep/dst")), digest(t, at("src")); got != want {
			t.Fatal("the copy differs from its source")
		}
		must(t, d.undo(r), "done")
		if digest(t, d.Root) != before {
			t.Fatal("the undo left something")
		}
		redo := d.call("copy_file", M{"source": "src", "destination": "dst"})
		if code(redo) != "not_a_file" {
			t.Fatalf("without recursive: got %v", redo["error"])
		}
	})

	t.Run("D64 a directory is never copied or moved into itself", func(t *testing.T) {
		tree(t, "d")
		before := digest(t, d.Root)
		for _, c := range []struct {
			op   string
			args M
		}{
			{"copy_file", M{"source": "d", "destination": "d/d", "recursive": true}},
			{"copy_file", M{"source": "d", "destination": "d/x/y", "recursive": true}},
			{"move_file", M{"source": "d", "destination": "d/x"}},
			{"copy_file", M{"source": ".", "destination": "d/all", "recursive": true}},
		} {
			if r := d.call(c.op, c.args); code(r) != "into_itself" && code(r) != "invalid_path" {
				t.Errorf("%s %v: got %v", c.op, c.args, r["error"])
			}
		}
		if digest(t, d.Root) != before {
			t.Fatal("something was created")
		}
	})

	t.Run("D72 (part) a link to its own directory is copied as a link", func(t *testing.T) {
		write(t, at("loop/f"), "f\n")
		os.Symlink(".", at("loop/loop"))
		must(t, d.approve(must(t, d.call("copy_file", M{"source": "loop", "destination": "loop2", "recursive": true}), "review")), "done")
		if l, err := os.Readlink(at("loop2/loop")); err != nil || l != "." {
			t.Fatalf("got %q, %v", l, err)
		}
		if digest(t, at("loop")) != digest(t, at("loop2")) {
			t.Fatal("the copy differs")
		}
	})

	t.Run("what a directory holds is judged where it lands", func(t *testing.T) {
		write(t, at("tpl/.github/workflows/ci.yml"), "on: push\n")
		held := must(t, d.call("copy_file", M{"source": "tpl", "destination": "app", "recursive": true}), "review")
		if text(held, "decision", "reason") != "protected_target" || held["decision"].(M)["mandatory"] != true {
			t.Fatalf("got %v", held["decision"])
		}
		if err := syscall.Mkfifo(at("tpl/pipe"), 0o644); err != nil {
			t.Fatal(err)
		}
		if r := d.call("copy_file", M{"source": "tpl", "destination": "app", "recursive": true}); code(r) != "special_file" {
			t.Fatalf("a pipe inside: got %v %v", r["status"], r["error"])
		}
		os.Remove(at("tpl/pipe"))
		write(t, at("tpl/new.txt"), "late\n")
		if r := d.approve(held); code(r) != "stale_precondition" {
			t.Fatalf("the source grew: got %v", r["error"])
		}
		if r := d.call("copy_file", M{"source": "tpl", "destination": "tpl", "recursive": true}); code(r) != "into_itself" {
			t.Fatalf("onto itself: got %v", r["error"])
		}
		if r := d.call("copy_file", M{"source": "tpl", "destination": "loop2", "recursive": true, "overwrite": true}); code(r) != "exists" {
			t.Fatalf("onto another: got %v", r["error"])
		}
	})
}

// TestRollbackReadsItsSnapshot: whatever else happened to a file, and however much, a rollback
// reads the one operation that keeps the snapshot. Had it read the others it would have met
// the damaged one.
func TestRollbackReadsItsSnapshot(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	f := filepath.Join(d.Root, "f")
	write(t, f, "v0\n")
	kept := must(t, d.call("backup_file", M{"path": "f"}), "done")
	var edits []M
	for _, v := range []string{"0", "1", "2"} {
		edits = append(edits, must(t, d.call("edit_file", M{"path": "f", "old_string": "v" + v, "new_string": "w" + v}), "done"))
		must(t, d.call("edit_file", M{"path": "f", "old_string": "w" + v, "new_string": "v" + string(v[0]+1)}), "done")
	}
	d.stop(syscall.SIGTERM)
	alter(t, d.State, "operations", "agent = 'x'", text(edits[1], "operation_id"))
	d.run()
	d.operator()
	if r := d.call("list_backups", M{"path": "f"}); code(r) != "state_corrupt" {
		t.Fatalf("the operation between is not damaged: %v", r)
	}
	for _, by := range []M{{"last": true}, {"backup_id": kept["result"].(M)["backup_id"]}} {
		t.Run("a rollback is not stopped by what is damaged in the file's history since the snapshot", func(t *testing.T) {
			by["path"] = "f"
			r := must(t, d.approve(must(t, d.call("rollback_file", by), "review")), "done")
			if got := read(t, f); got != "v0\n" {
				t.Errorf("got %q", got)
			}
			must(t, d.undo(r), "done")
			if got := read(t, f); got != "v3\n" {
				t.Errorf("after its undo: %q", got)
			}
		})
	}
}
