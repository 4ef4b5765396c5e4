package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMainJob(t *testing.T) {
	t.Parallel()
	d := start(t)
	file := filepath.Join(d.Root, "a.txt")
	write(t, file, "hello world\n")
	before := digest(t, d.Root)

	t.Run("C61 a small edit runs by itself and C88 comes back with an undo credential", func(t *testing.T) {
		r := must(t, d.call("edit_file", M{"path": "a.txt", "old_string": "world", "new_string": "there"}), "done")
		if text(r, "decision", "reason") != "low_impact_scoped_change" || read(t, file) != "hello there\n" {
			t.Fatalf("got %v and %q", r["decision"], read(t, file))
		}
		must(t, d.undo(r), "done")
		if digest(t, d.Root) != before {
			t.Fatal("the undo did not bring the tree back")
		}
		if got := d.undo(r); code(got) != "undo_consumed" {
			t.Fatalf("a second undo: got %v, want undo_consumed", got["error"])
		}
	})
	t.Run("C47 a delete waits, C29 whatever its size, and I43 goes to quarantine", func(t *testing.T) {
		held := must(t, d.call("delete_file", M{"path": "a.txt"}), "review")
		if text(held, "decision", "reason") != "destructive_operation" || digest(t, d.Root) != before {
			t.Fatalf("got %v", held)
		}
		done := must(t, d.approve(held), "done")
		if _, err := os.Lstat(file); !os.IsNotExist(err) {
			t.Fatalf("after approval: %v", err)
		}
		must(t, d.undo(done), "done")
		if digest(t, d.Root) != before {
			t.Fatal("the undo did not bring the file back")
		}
	})
}
