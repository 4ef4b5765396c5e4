package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"

	"holdpoint/op"
)

// TestWithoutTheGate runs the write suite against a build whose judgement is taken out
// (the tag nogate): every call goes straight to its handler. What stands behind the gate
// must let nothing through by itself, whatever bridge it comes by. See internal/flow/gate.go.
func TestWithoutTheGate(t *testing.T) {
	t.Parallel()
	open := filepath.Join(t.TempDir(), "holdpoint-nogate")
	if out, err := exec.Command("go", "build", "-tags", "nogate", "-o", open, "../../cmd/holdpoint").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := func(t *testing.T, bin string) (before, after string, done int) {
		root, state := dirs(t)
		for _, f := range []string{"edit", "patch", "copy", "back", "delete", "move", "roll", "batch", "undo", "f"} {
			write(t, filepath.Join(root, f+".txt"), "one\n")
		}
		write(t, filepath.Join(root, "dir/inner"), "x\n")
		d := quickOn(t, root, state, "[profiles.other]\nvisible = true\n", nil) // by the true build: it makes the state and what can be taken back
		must(t, d.call("backup_file", M{"path": "roll.txt"}), "done")
		must(t, d.call("edit_file", M{"path": "roll.txt", "old_string": "one", "new_string": "two"}), "done")
		undoable := must(t, d.call("edit_file", M{"path": "undo.txt", "old_string": "one", "new_string": "two"}), "done")
		d.stop(15)
		d.bin = bin
		d.run()
		before = digest(t, root)
		say := func(path string, body M) {
			status, r := d.http("POST", path, d.Agent, body)
			if code(r) == "bad_request" || status == 404 {
				t.Errorf("%s %v is no call that could change anything: %d %v", path, body, status, r)
			}
			if text(r, "status") == "done" || r["effects_executed"] == true {
				done++
			}
		}
		for _, req := range writeSuite(t, undoable) {
			say("/v1/call", req)
		}
		say("/v1/undo", M{"credential": undoable["undo_credential"]})
		asAgent := *d
		asAgent.env = append(asAgent.env, "HOLDPOINT_TOKEN="+d.Agent)
		tools := asAgent.stdio("2025-11-25", nil)
		for i, req := range writeSuite(t, undoable) {
			if r := tools.call(text(req, "op"), object(req["args"])); text(r.Facts, "status") == "done" || r.Facts["effects_executed"] == true {
				done++
			} else if text(r.Facts, "error", "code") == "bad_request" {
				t.Errorf("MCP, call %d: %v", i, r.Facts)
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

// writeSuite is every operation of the table that is no read, and what some of them do
// besides when asked in another way.
func writeSuite(t *testing.T, undoable M) (suite []M) {
	t.Helper()
	calls := everyOperation(undoable)
	calls["request_profile_switch"] = M{"profile": "other"}
	for _, spec := range op.Operations() {
		if spec.Class == op.Read || !spec.Built {
			continue
		}
		args, known := calls[string(spec.Name)]
		if !known {
			t.Errorf("the operation %s of the table has no call in this suite", spec.Name)
		}
		suite = append(suite, M{"op": string(spec.Name), "args": args})
	}
	return append(suite,
		M{"op": "write_file", "args": M{"path": "f.txt", "content": "x", "append": true}},
		M{"op": "write_file", "args": M{"path": "f.txt", "content": "x", "overwrite": true}},
		M{"op": "delete_file", "args": M{"path": "dir", "recursive": true}},
		M{"op": "copy_file", "args": M{"source": "dir", "destination": "dir2", "recursive": true}},
		M{"op": "move_file", "args": M{"source": "dir", "destination": "dir3"}},
		M{"op": "workspace_shell", "args": M{"command": "touch", "args": []any{"made"}}},
		M{"op": "workspace_shell", "args": M{"script": "touch made", "rehearse": true}})
}
