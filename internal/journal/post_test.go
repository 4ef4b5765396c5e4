package journal

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"holdpoint/op"
)

// TestCommitLater: what is read or written after a posted commit finds it done, whoever
// wrote it; it is written by itself when nothing follows; and closing takes it along.
func TestCommitLater(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir() + "/state"
	j, err := Open(dir, Options{CreatedOK: true})
	if err != nil {
		t.Fatal(err)
	}
	begin := func(id op.ID) {
		t.Helper()
		if err := j.Begin(ctx, Operation{ID: id, Root: "r", Op: op.EditFile, Token: "tk_a", RequestID: string(id), CallDigest: "d"}); err != nil {
			t.Fatal(err)
		}
	}
	state := func(id op.ID) OpState {
		t.Helper()
		o, err := j.Operation(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return o.State
	}
	begin("op_1")
	j.CommitLater("op_1", []byte(`{"status":"done"}`))
	if got := state("op_1"); got != Committed {
		t.Errorf("read at once: %s", got)
	}
	begin("op_2")
	j.CommitLater("op_2", []byte(`{}`))
	if err := j.Begin(ctx, Operation{ID: "op_3", Root: "r", Op: op.Undo, Token: "tk_a", Undoes: "op_2"}); err != nil {
		t.Errorf("an undo right after: %v", err)
	}
	if r, known, err := j.Receipt(ctx, "tk_a", "op_1"); err != nil || !known || string(r.Reply) != `{"status":"done"}` {
		t.Errorf("receipt %s, %v, %v", r.Reply, known, err)
	}
	begin("op_4")
	j.CommitLater("op_4", []byte(`{}`))
	for end := time.Now().Add(5 * time.Second); j.w.posted.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it was never written by itself")
		}
	}
	j.CommitLater("op_4", []byte(`{"other":1}`)) // it has ended: nothing happens
	j.CommitLater("op_none", nil)
	if got := state("op_4"); got != Committed {
		t.Errorf("committed twice: %s", got)
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 40 {
				id := op.ID(fmt.Sprintf("op_w%d_%d", w, i))
				begin(id)
				j.CommitLater(id, []byte(`{}`))
				if i%3 == 0 && state(id) != Committed {
					t.Errorf("%s is not committed", id)
				}
			}
		})
	}
	wg.Wait()
	begin("op_5")
	j.CommitLater("op_5", []byte(`{}`))
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if j, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if got := state("op_5"); got != Committed {
		t.Errorf("after closing: %s", got)
	}
	if open, err := j.Unsettled(ctx); err != nil || len(open) != 1 || open[0].ID != "op_3" {
		t.Errorf("unsettled: %v, %v", open, err)
	}
}
