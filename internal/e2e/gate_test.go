package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestWithoutTheGate runs the write suite against a build whose judgement is taken out
// (the tag nogate): every call goes straight to its handler. What stands behind the gate
// must let nothing through by itself. See internal/flow/gate.go.
func TestWithoutTheGate(t *testing.T) {
	t.Parallel()
	open := filepath.Join(t.TempDir(), "holdpoint-nogate")
	if out, err := exec.Command("go", "build", "-tags", "nogate", "-o", open, "../../cmd/holdpoint").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	suite := []M{
		{"op": "write_file", "args": M{"path": "new.txt", "content": "x"}},
		{"op": "write_file", "args": M{"path": "f.txt", "content": "x", "append": true}},
		{"op": "write_file", "args": M{"path": "f.txt", "content": "x"}},
		{"op": "edit_file", "args": M{"path": "f.txt", "old_string": "one", "new_string": "two"}},
		{"op": "copy_file", "args": M{"source": "f.txt", "destination": "g.txt"}},
		{"op": "create_directory", "args": M{"path": "d/e"}},
		{"op": "delete_file", "args": M{"path": "f.txt"}},
		{"op": "delete_file", "args": M{"path": "dir", "recursive": true}},
		{"op": "move_file", "args": M{"source": "f.txt", "destination": "h.txt"}},
		{"op": "backup_file", "args": M{"path": "f.txt"}},
		{"op": "patch_file", "args": M{"patch": "--- a/f.txt\n+++ b/f.txt\n@@ -1 +1 @@\n-one\n+two\n"}},
		{"op": "batch_file_ops", "args": M{"operations": []any{M{"op": "write_file", "args": M{"path": "b.txt", "content": "x"}}, M{"op": "delete_file", "args": M{"path": "f.txt"}}}}},
	}
	suite = append(suite, M{"op": "workspace_shell", "args": M{"command": "touch", "args": []any{"made"}}})
	run := func(t *testing.T, bin string) (before, after string, done int) {
		root, state := dirs(t)
		write(t, filepath.Join(root, "f.txt"), "one\n")
		write(t, filepath.Join(root, "dir/inner"), "x\n")
		d := startOn(t, root, state, nil, "--review-auth", "token") // by the true build: it makes the state
		d.stop(15)
		d.bin = bin
		d.run()
		before = digest(t, root)
		for _, req := range suite {
			_, r := d.http("POST", "/v1/call", d.Agent, req)
			if text(r, "status") == "done" || r["effects_executed"] == true {
				done++
			}
		}
		return before, digest(t, root), done
	}
	t.Run("U40 with the judgement taken out every write handler changes nothing", func(t *testing.T) {
		if before, after, done := run(t, open); before != after || done > 0 {
			t.Errorf("the tree changed: %v; %d calls say they are done", before != after, done)
		}
	})
	t.Run("the same calls with the gate in place do change the tree", func(t *testing.T) {
		if before, after, done := run(t, ""); before == after || done < 3 {
			t.Errorf("the tree changed: %v; %d calls are done: the suite proves nothing", before != after, done)
		}
	})
}
