package journal

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdpoint/op"
)

// TestGroup has one operation take several back.
func TestGroup(t *testing.T) {
	j := fresh(t)
	ctx := context.Background()
	begin := func(request string, undoes ...op.ID) Operation {
		t.Helper()
		o := sample(j, request)
		o.Undoes = Joined(undoes)
		if err := j.Begin(ctx, o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	commit := func(o Operation) {
		t.Helper()
		if err := j.Commit(ctx, o.ID, nil, o.Undoes); err != nil {
			t.Fatal(err)
		}
	}
	a, b, c := begin("r1"), begin("r2"), begin("r3")
	for _, o := range []Operation{a, b, c} {
		commit(o)
	}
	state := func(id op.ID) (OpState, op.ID) {
		t.Helper()
		o, err := j.Operation(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return o.State, o.UndoneBy
	}
	t.Run("all are claimed or none", func(t *testing.T) {
		first := begin("r4", a.ID, b.ID)
		second := sample(j, "r5")
		second.Undoes = Joined([]op.ID{c.ID, b.ID})
		if err := j.Begin(ctx, second); op.AsError(err).Code != op.UndoConsumed {
			t.Fatalf("got %v", err)
		}
		if _, by := state(c.ID); by != "" {
			t.Fatal("a claim that failed left one behind")
		}
		if err := j.Abort(ctx, first.ID, "stale"); err != nil {
			t.Fatal(err)
		}
		for _, o := range []Operation{a, b} {
			if s, by := state(o.ID); s != Committed || by != "" {
				t.Fatalf("after an abort: %s by %q", s, by)
			}
		}
	})
	t.Run("all end together", func(t *testing.T) {
		u := begin("r6", c.ID, a.ID)
		commit(u)
		for _, o := range []Operation{a, c} {
			if s, by := state(o.ID); s != Undone || by != u.ID {
				t.Fatalf("got %s by %q", s, by)
			}
		}
		if got, err := j.Operation(ctx, u.ID); err != nil || len(got.TakesBack()) != 2 {
			t.Fatalf("got %v %v", got.TakesBack(), err)
		}
	})
}

func TestForgetContent(t *testing.T) {
	j := fresh(t)
	ctx := context.Background()
	secret := strings.Repeat("a leaked secret 4711 ", 400)
	o := sample(j, "r1")
	o.Diff = []byte(secret)
	if err := j.Begin(ctx, o); err != nil {
		t.Fatal(err)
	}
	if err := j.ForgetContent(ctx, o.ID, nil); op.AsError(err).Code != op.BusyWriter {
		t.Fatalf("while it runs: got %v", err)
	}
	if err := j.Commit(ctx, o.ID, nil, ""); err != nil {
		t.Fatal(err)
	}
	found := func() bool {
		for _, name := range []string{dataName, dataName + "-wal"} {
			b, err := os.ReadFile(filepath.Join(j.Dir(), name))
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(b, []byte("leaked secret 4711")) {
				return true
			}
		}
		return false
	}
	if !found() {
		t.Fatal("nothing to forget: the test shows nothing")
	}
	if err := j.ForgetContent(ctx, o.ID, nil); err != nil {
		t.Fatal(err)
	}
	if err := j.Scrub(ctx); err != nil {
		t.Fatal(err)
	}
	if found() {
		t.Error("it is still in the files")
	}
	got, err := j.Operation(ctx, o.ID)
	if err != nil || !got.Forgotten() || len(got.Diff) > 0 {
		t.Errorf("got %v, forgotten %v, %d bytes", err, got.Forgotten(), len(got.Diff))
	}
	if bad, err := j.Check(ctx); err != nil || len(bad) > 0 {
		t.Errorf("check: %v %v", bad, err)
	}
	u := sample(j, "r2")
	u.Undoes = o.ID
	if err := j.Begin(ctx, u); op.AsError(err).Code != op.UndoExpired {
		t.Errorf("its undo: got %v", err)
	}
}
