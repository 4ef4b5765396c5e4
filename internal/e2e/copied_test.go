package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A root that is a mount of its own shares one with no place of the daemon's: its store
// holds copies.

// mountOn puts a filesystem of its own on a directory for the time of the test.
func mountOn(t *testing.T, dir string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	if err := syscall.Mount("none", dir, "tmpfs", 0, "mode=0755,size=64m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

func TestCopiedStore(t *testing.T) {
	t.Parallel()
	disk := newDisk(t, "ext4")
	os.Remove(filepath.Join(disk.mount, "lost+found"))
	state := shortDir(t)
	write(t, filepath.Join(disk.mount, "f.txt"), "old\n")
	write(t, filepath.Join(disk.mount, "d/sub/a.txt"), "one\n")
	write(t, filepath.Join(disk.mount, "d/b.bin"), strings.Repeat("b", 200_000))
	if err := os.Symlink("../elsewhere", filepath.Join(disk.mount, "d/link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setxattr(filepath.Join(disk.mount, "d/sub/a.txt"), "user.mark", []byte("kept"), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(filepath.Join(disk.mount, "f.txt"), 1234, 2345); err != nil {
		t.Fatal(err)
	}
	old := time.Unix(1_500_000_000, 0)
	if err := os.Chtimes(filepath.Join(disk.mount, "f.txt"), old, old); err != nil {
		t.Fatal(err)
	}
	start := digest(t, disk.mount)
	d := startOn(t, disk.mount, state, nil)
	t.Cleanup(func() { d.stop(syscall.SIGKILL) }) // before the disk goes
	warned := func(t *testing.T, r M) {
		t.Helper()
		b, _ := json.Marshal(r["warnings"])
		if !bytes.Contains(b, []byte("undo_by_copy")) {
			t.Errorf("the reply does not say that its undo is a copy: %s", b)
		}
	}
	entry := func() string {
		t.Helper()
		names, err := filepath.Glob(filepath.Join(disk.mount, ".holdpoint*"))
		beside, _ := filepath.Glob(filepath.Join(filepath.Dir(disk.mount), ".holdpoint*"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(append(names, beside...), " ")
	}
	t.Run("the store is named in status", func(t *testing.T) {
		code, out, _ := d.cli("status", "--json")
		if code != 0 || !strings.Contains(out, `"copied"`) {
			t.Errorf("status: %d %s", code, out)
		}
	})
	t.Run("D66 a delete of a directory whose copy fails half way leaves the directory and no entry; one that succeeds comes back over restarts, as an edit and a new file do", func(t *testing.T) {
		last := ""
		filepath.WalkDir(filepath.Join(disk.mount, "d"), func(p string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				last = p
			}
			return err
		})
		writer, err := os.OpenFile(last, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		kept := fmt.Sprint(names(t, d.store()))
		if r := d.yes("delete_file", M{"path": "d", "recursive": true}); code(r) != "busy_writer" || r["effects_executed"] != false || r["undo_credential"] != nil {
			t.Errorf("with %s open for writing: %v %v", last, r["status"], r["error"])
		}
		writer.Close()
		if now := fmt.Sprint(names(t, d.store())); now != kept || digest(t, disk.mount) != start {
			t.Fatalf("the tree changed, or the store holds %s and held %s", now, kept)
		}
		edit := must(t, d.call("edit_file", M{"path": "f.txt", "old_string": "old", "new_string": "new"}), "done")
		warned(t, edit)
		made := must(t, d.call("write_file", M{"path": "n/new.txt", "content": "made\n"}), "done")
		held := must(t, d.call("delete_file", M{"path": "d", "recursive": true}), "review")
		if s := text(d.card(held), "undo"); !strings.Contains(s, "copy") {
			t.Errorf("the card says of the undo: %q", s)
		}
		gone := must(t, d.approve(held), "done")
		warned(t, gone)
		if n, _ := gone["result"].(M)["freed_bytes"].(float64); n != 200_004 {
			t.Errorf("freed_bytes is %v", n)
		}
		if _, err := os.Lstat(filepath.Join(disk.mount, "d")); !os.IsNotExist(err) {
			t.Fatalf("d: %v", err)
		}
		if left := entry(); left != "" {
			t.Errorf("left in the root or beside it: %s", left)
		}
		d.stop(syscall.SIGKILL)
		d.run()
		back := must(t, d.undo(gone), "done")
		again := must(t, d.undo(back), "done") // gone again
		d.stop(syscall.SIGKILL)
		d.run()
		must(t, d.undo(again), "done")
		must(t, d.undo(made), "done")
		must(t, d.undo(edit), "done")
		if digest(t, disk.mount) != start {
			out, _ := exec.Command("ls", "-laR", disk.mount).Output()
			t.Errorf("the tree is not as it was:\n%s", out)
		}
		if i, err := os.Stat(filepath.Join(disk.mount, "f.txt")); err != nil || !i.ModTime().Equal(old) {
			t.Errorf("the time of f.txt: %v %v", i.ModTime(), err)
		}
		if left := entry(); left != "" {
			t.Errorf("left in the root or beside it: %s", left)
		}
	})
	t.Run("a backup and a rollback work on copies, and the later version of others is refused", func(t *testing.T) {
		b := must(t, d.call("backup_file", M{"path": "f.txt"}), "done")
		edit := must(t, d.call("edit_file", M{"path": "f.txt", "old_string": "old", "new_string": "new"}), "done")
		write(t, filepath.Join(disk.mount, "f.txt"), "theirs\n")
		if r := d.undo(edit); code(r) != "undo_conflict" {
			t.Errorf("undo over a later edit: %v", r)
		}
		if read(t, filepath.Join(disk.mount, "f.txt")) != "theirs\n" {
			t.Error("a later edit was overwritten")
		}
		r := d.call("rollback_file", M{"path": "f.txt", "backup_id": text(b, "result", "backup_id")})
		if text(r, "status") == "review" {
			r = d.approve(r)
		}
		must(t, r, "done")
		if read(t, filepath.Join(disk.mount, "f.txt")) != "old\n" {
			t.Error("the rollback did not bring the old version")
		}
		if c, out, _ := d.cli("verify"); c != 0 {
			t.Errorf("verify: %d %s", c, out)
		}
	})
}

// TestKillCopied interrupts calls on a store of copies as TestKill does on any other.
func TestKillCopied(t *testing.T) {
	t.Parallel()
	table := newKillTable(t)
	only := func(kind string, numbers []int, made int) []int {
		if os.Getenv("HOLDPOINT_KILL") == "all" {
			return numbers
		}
		switch kind {
		case "rename*", "unlink*", "mkdirat", "fsync":
			return numbers[:1]
		}
		return nil
	}
	for i, s := range []scene{
		{name: "D66 (part) a delete of a directory by copy is whole or absent after a kill at any call", short: "delete by copy", op: "delete_file",
			args: M{"path": "d", "recursive": true}, held: true, kept: 1, files: map[string]string{"d/a": "one\n", "d/sub/b": "two\n"}},
		{name: "D66 (part) an undo by copy is whole or absent after a kill at any call", short: "undo by copy", op: "edit_file",
			args: M{"path": "sub/f.txt", "old_string": "old", "new_string": "new"}, undo: true},
	} {
		s.mount, s.only = true, only
		t.Run(s.name, func(t *testing.T) {
			table.row(t, i, s)
		})
	}
	table.end(t)
}
