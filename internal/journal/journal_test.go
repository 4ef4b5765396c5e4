package journal

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"holdpoint/op"
)

// fresh makes a new state, closed at the end of the test.
func fresh(t testing.TB) *Journal {
	t.Helper()
	j := open(t, filepath.Join(t.TempDir(), "state"))
	t.Cleanup(func() { j.Close() })
	return j
}

func open(t testing.TB, dir string) *Journal {
	t.Helper()
	j, err := Open(dir, Options{CreatedOK: true})
	if err != nil {
		t.Fatalf("open: %v (%v)", err, op.AsError(err).Err)
	}
	return j
}

// sample is an operation with something in every term.
func sample(j *Journal, requestID string) Operation {
	file := op.State{Kind: op.File, Hash: "blake3:aa", Size: 10, Mode: "0644"}
	return Operation{ID: j.NewID("op_"), Root: "root1", Op: op.EditFile, Token: "tk_1", Agent: "agent", Workflow: "wf", Session: "s1", Stage: "st", Execution: "ex",
		RequestID: requestID, CallDigest: "blake3:cc", Decision: op.Decision{Verdict: op.Auto, Reason: op.ReasonLowImpact, Also: []op.Reason{}, Tier: op.T2, Pinned: true},
		Steps: []op.Step{
			{Do: op.Swap, Path: "src/a.go", Slot: "slot1", Before: file, After: op.State{Kind: op.File, Hash: "blake3:bb", Size: 11, Mode: "0644"}, Inode: 7},
			{Do: op.Move, Path: "old\xff", To: "dir/new", Before: op.State{Kind: op.Symlink, Target: "to\xfe", Hash: "blake3:dd"}, Copy: "c\xfd"},
		},
		Intent: "change \x00 a", Created: time.Unix(1700000000, 123456789).UTC(), Expires: time.Unix(1800000000, 0).UTC(), Diff: []byte("--- a\n+++ b\n")}
}

// held is an approval with something in every term.
func held(j *Journal, requestID string) Approval {
	return Approval{ID: j.NewID("ap_"), Created: time.Unix(1700000000, 1).UTC(), Deadline: time.Now().Add(time.Hour).UTC().Round(0), OnTimeout: "reject", Token: "tk_1",
		Agent: "agent", Workflow: "wf", Session: "s1", Stage: "st", Execution: "ex", RequestID: requestID, Root: "root1", Op: op.DeleteFile,
		Request: []byte(`{"op":"delete_file"}`), CallDigest: "blake3:cc", Identity: "delete_file:a#blake3:ee",
		Pins: []op.Pin{{Path: "a\xff", Kind: op.File, Hash: "blake3:aa"}}, Card: []byte(`{"title":"Delete 1 file"}`), ShownDigest: "blake3:ff",
		Decision: op.Decision{Verdict: op.Review, Reason: op.ReasonDestructive, Also: []op.Reason{}, Tier: op.T4, Mandatory: true}, Intent: "clean up"}
}

// raw runs SQL on the writer's connection, past all methods.
func raw(t testing.TB, j *Journal, query string, args ...any) {
	t.Helper()
	if err := try(j, query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func try(j *Journal, query string, args ...any) error {
	j.w.turn.Lock()
	defer j.w.turn.Unlock()
	_, err := j.w.conn.ExecContext(context.Background(), query, args...)
	return err
}

// content is every file below a directory with its bytes.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		out[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func same(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}
