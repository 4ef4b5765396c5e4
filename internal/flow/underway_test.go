package flow

import (
	"testing"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

// TestUnderway: what an operation changes that had not ended when a program's look at the tree
// began is not taken for the program's, however long ago it began. What ended before is.
func TestUnderway(t *testing.T) {
	o := OpenNew(t, Config{ReviewAuth: "token"})
	w := o.workspaces()[0]
	begin := func(root, path string) op.ID {
		t.Helper()
		b := journal.Operation{ID: o.Journal.NewID("op_"), Root: root, Op: op.CopyFile, Token: "tk_a", CallDigest: "d",
			Steps: []op.Step{{Do: op.Place, Path: op.Path(path), Slot: "s", Before: op.State{Kind: op.Absent}, After: op.State{Kind: op.File, Hash: "blake3:aa"}}}}
		if err := o.Journal.Begin(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		return b.ID
	}
	commit := func(id op.ID) {
		t.Helper()
		if err := o.Journal.Commit(t.Context(), id, nil, ""); err != nil {
			t.Fatal(err)
		}
	}
	look := func() moment {
		t.Helper()
		m, err := o.underway(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	check := func(m moment, want map[op.Path]bool) {
		t.Helper()
		touched, err := o.othersSince(t.Context(), w, m)
		if err != nil {
			t.Fatal(err)
		}
		for p, is := range want {
			if touched.By(op.Step{Path: p}) != is {
				t.Errorf("%s: touched %v, want %v", p, !is, is)
			}
		}
	}
	t.Run("in a root where nothing happened before", func(t *testing.T) {
		m := look()
		commit(begin(w.Key, "first"))
		check(m, map[op.Path]bool{"first": true})
	})
	t.Run("what is open counts, and what ended does not", func(t *testing.T) {
		open := begin(w.Key, "open")
		commit(begin(w.Key, "ended"))
		begin("another", "open elsewhere")
		m := look()
		commit(open)
		commit(begin(w.Key, "after"))
		failed := begin(w.Key, "failed")
		if err := o.Journal.Abort(t.Context(), failed, "stale"); err != nil {
			t.Fatal(err)
		}
		check(m, map[op.Path]bool{"open": true, "ended": false, "after": true, "failed": false, "first": false, "open elsewhere": false})
	})
}
