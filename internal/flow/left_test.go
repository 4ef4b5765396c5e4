package flow_test

import (
	"os"
	"path/filepath"
	"testing"

	"holdpoint/internal/flow"
	"holdpoint/op"
)

// After an orderly stop the next start believes that the store holds what it should, for as
// long as the store's folder is as the stop left it; else it looks at each thing in it.
func TestStoreAsLeft(t *testing.T) {
	ctx, base := t.Context(), t.TempDir()
	root, state := filepath.Join(base, "ws"), filepath.Join(base, "state")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	j, l := flow.OpenState(t, state)
	start := func() (*flow.Engine, *flow.Workspace) {
		t.Helper()
		e := flow.New(flow.Config{Version: "test"}, j, l, nil)
		w, err := e.AddRoot(ctx, flow.RootSpec{Dir: root})
		if err != nil {
			t.Fatal(err)
		}
		return e, w
	}
	e, w := start()
	token, _, err := e.CreateToken(ctx, flow.TokenSpec{Name: "a", Role: op.Agent})
	if err != nil {
		t.Fatal(err)
	}
	by := op.Caller{Token: token.ID, Name: "a", Role: op.Agent}
	if r := e.Call(ctx, by, op.Request{Op: op.WriteFile, Args: op.Object{"path": "f", "content": "x\n"}}, nil); r.Status != op.Done {
		t.Fatalf("got %+v", r)
	}
	if !w.Store.Features().FineTimes {
		t.Fatal("this file system gives two changes one time: nothing can be believed here")
	}
	store := storeOf(t, state)
	e.Close()

	plant := func(name string) string {
		t.Helper()
		at := filepath.Join(store, name)
		if err := os.WriteFile(at, []byte("stray"), 0o600); err != nil {
			t.Fatal(err)
		}
		return at
	}
	there := func(at string) bool { _, err := os.Lstat(at); return err == nil }

	before, err := os.Stat(store)
	if err != nil {
		t.Fatal(err)
	}
	hidden := plant("sl_hidden")
	if err := os.Chtimes(store, before.ModTime(), before.ModTime()); err != nil {
		t.Fatal(err)
	}
	e, _ = start()
	if !there(hidden) {
		t.Error("the start looked at each thing in a store that was as it was left")
	}
	e.Close()

	seen := plant("sl_seen")
	e, _ = start()
	if there(seen) || there(hidden) {
		t.Error("what was put into the store after the stop is still there")
	}
	e.Close()
}

// storeOf finds the folder of the only store below a state.
func storeOf(t *testing.T, state string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(state, "store", "*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("stores: %v %v", found, err)
	}
	return found[0]
}
