package flow

import (
	"os"
	"path/filepath"
	"testing"

	"holdpoint/internal/journal"
	"holdpoint/op"
	"holdpoint/shellexec"
)

// TestMain lets the test binary be the helper that a confined program starts in.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == shellexec.HelperArg {
		os.Exit(shellexec.Helper())
	}
	os.Exit(m.Run())
}

// TestMovedRoot takes the root's directory away between the answer and the execution, which
// a client cannot time: the answer itself is refused while the directory is away. What was
// released must not be written into the directory that went, nor into one that took its name.
func TestMovedRoot(t *testing.T) {
	o := OpenNew(t, Config{ReviewAuth: "token"})
	e, root := o.Engine, o.Root
	if _, _, err := e.CreateToken(t.Context(), TokenSpec{Name: "p", Role: op.Reviewer}); err != nil {
		t.Fatal(err)
	}
	agent, person := op.Caller{Token: "tk_a", Name: "a", Role: op.Agent}, op.Caller{Token: "tk_p", Name: "p", Role: op.Reviewer}
	away := root + ".away"
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name     string
		unbound  bool // the root is away when the call is held, and back for the answer
		impostor bool // another directory has the name when it runs
		op       op.Name
		args     op.Object
	}{
		{"a delete", false, false, op.DeleteFile, op.Object{"path": "f"}},
		{"a delete, and another directory took the name", false, true, op.DeleteFile, op.Object{"path": "f"}},
		{"an overwrite that was held because the root was away", true, false, op.WriteFile, op.Object{"path": "f", "content": "new"}},
		{"a batch item by item", false, true, op.BatchFileOps, op.Object{"atomic": false, "operations": []any{op.Object{"op": "delete_file", "args": op.Object{"path": "f"}}, op.Object{"op": "write_file", "args": op.Object{"path": "g", "content": "x"}}}}},
		{"a program", false, true, op.WorkspaceShell, op.Object{"script": "echo x > made"}},
	} {
		t.Run("U34 (part), C18 (part) "+c.name+" is stale and writes nowhere when the root moved after the answer", func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(root, "f"), []byte("one\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if c.unbound {
				move(root, away)
			}
			held := e.Call(t.Context(), agent, op.Request{Op: c.op, Args: c.args}, nil)
			if held.Status != op.Held {
				t.Fatalf("got %v %v", held.Status, held.Error)
			}
			if got := held.Decision.Reason == op.ReasonUnbound; got != c.unbound {
				t.Fatalf("the reason is %s", held.Decision.Reason)
			}
			row, err := e.queue.Row(t.Context(), held.Approval.ID)
			if err != nil {
				t.Fatal(err)
			}
			answer := journal.Answer{Answer: "approve", ShownDigest: row.ShownDigest}
			if c.unbound {
				if _, err := e.Answer(t.Context(), person, row.ID, answer); op.AsError(err) == nil || op.AsError(err).Code != op.NotReady {
					t.Errorf("an approval while the root is away: %v", err)
				}
				move(away, root)
			}
			if row, err = e.queue.Answer(t.Context(), person, row.ID, answer); err != nil || row.State != journal.Approved {
				t.Fatalf("got %v %v", row.State, err)
			}
			move(root, away)
			if c.impostor {
				os.Mkdir(root, 0o755)
				os.WriteFile(filepath.Join(root, "f"), []byte("one\n"), 0o644)
			}
			row, err = e.release(t.Context(), row)
			if err != nil || row.State != journal.FailedEnd {
				t.Errorf("the row is %s, %v", row.State, err)
			}
			reply := e.replyOf(row)
			if reply.EffectsExecuted || reply.Error == nil || reply.Error.Code != op.Stale {
				t.Errorf("got %v", reply.Error)
			}
			dirs := []string{away}
			if c.impostor {
				dirs = append(dirs, root)
			}
			for _, dir := range dirs {
				names, _ := os.ReadDir(dir)
				b, _ := os.ReadFile(filepath.Join(dir, "f"))
				if string(b) != "one\n" || len(names) != 1 {
					t.Errorf("%s holds %v, f %q", dir, names, b)
				}
			}
			if c.impostor {
				os.RemoveAll(root)
			}
			move(away, root)
		})
	}
}

// TestNoEntry closes the journal under an engine: what stands for a store that takes nothing.
func TestNoEntry(t *testing.T) {
	o := OpenNew(t, Config{})
	e, j, root := o.Engine, o.Journal, o.Root
	agent := op.Caller{Token: "tk_a", Name: "a", Role: op.Agent}
	put := func(path string) op.Reply {
		return e.Call(t.Context(), agent, op.Request{Op: op.WriteFile, Args: op.Object{"path": path, "content": "x"}}, nil)
	}
	t.Run("I105 where the ledger takes no entry the call is denied and nothing is changed", func(t *testing.T) {
		if r := put("before"); r.Status != op.Done {
			t.Fatalf("got %v %v", r.Status, r.Error)
		}
		o, err := j.Operations(t.Context(), journal.Filter{})
		if err != nil || len(o) != 1 || o[0].State != journal.Committed {
			t.Fatalf("an entry is finished afterwards: %v %v", o, err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		r := put("after")
		if _, err := os.Lstat(filepath.Join(root, "after")); r.Status == op.Done || r.EffectsExecuted || err == nil {
			t.Errorf("got %v %v, the file: %v", r.Status, r.Error, err)
		}
		names, _ := os.ReadDir(root)
		if len(names) != 1 {
			t.Errorf("the root holds %v", names)
		}
	})
}
