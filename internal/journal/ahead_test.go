//go:build unix

package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"holdpoint/op"
)

// copied gives the state as it lies on the disk while the journal is open, but for its lock.
// Without the database's log it is what a power cut could leave.
func copied(t *testing.T, j *Journal, keepLog bool) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(to, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{keyName, markName, headName, dataName, aheadName, dataName + "-wal"} {
		b, err := os.ReadFile(filepath.Join(j.Dir(), name))
		if name == dataName+"-wal" && !keepLog {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// recorded begins n edits and one before them that opens the way into the log.
func recorded(t *testing.T, j *Journal, n int) []Operation {
	t.Helper()
	if err := j.Begin(t.Context(), sample(j, "")); err != nil {
		t.Fatal(err)
	}
	if _, err := j.w.conn.ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	var out []Operation
	for range n {
		o := edit(j)
		if err := j.Begin(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		j.CommitLater(o.ID, []byte("reply"))
		out = append(out, o)
	}
	return out
}

// TestAhead opens what a power cut could leave: all that was acknowledged is there, in its
// order, whole, and once.
func TestAhead(t *testing.T) {
	t.Parallel()
	j := fresh(t)
	told := recorded(t, j, 30)
	if j.w.ahead.count.Load() != 30 {
		t.Fatalf("%d of 30 edits went into the log of intents", j.w.ahead.count.Load())
	}
	j.catchUp()
	at := copied(t, j, false)
	for range 2 {
		again := open(t, at)
		list, err := again.Operations(t.Context(), Filter{})
		if err != nil || len(list) != 31 {
			t.Fatalf("%d operations, %v", len(list), err)
		}
		for i, o := range told {
			got := list[len(told)-1-i]
			if got.ID != o.ID || got.State != Intent || got.Steps[0] != o.Steps[0] || got.Intent != o.Intent || !got.Created.Equal(o.Created) {
				t.Errorf("edit %d came back as %+v", i, got)
			}
			whole, err := again.Operation(t.Context(), o.ID)
			basis, bad := again.Basis(t.Context(), o.ID)
			if err = errors.Join(err, bad); err != nil || !bytes.Equal(whole.Diff, o.Diff) || !bytes.Equal(basis, o.Basis) {
				t.Errorf("edit %d: %q %q %v", i, whole.Diff, basis, err)
			}
		}
		if lines, err := again.Outbox(t.Context()); err != nil || len(lines) != 30 {
			t.Errorf("%d audit lines, %v", len(lines), err)
		}
		if bad, err := again.Check(t.Context()); err != nil || len(bad) > 0 {
			t.Error(bad, err)
		}
		again.Close()
	}
}

// TestAheadGoesOn has nobody read or write in between: the commit of an edit whose intent
// lies in the database holds none up, and what does is flushed by itself.
func TestAheadGoesOn(t *testing.T) {
	t.Parallel()
	j := fresh(t)
	for i := range 20 {
		o := edit(j)
		o.RequestID = map[bool]string{true: "named"}[i == 0] // its intent goes through the database
		if err := j.Begin(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		j.CommitLater(o.ID, nil)
	}
	if n := j.w.ahead.count.Load(); n != 19 {
		t.Errorf("%d of 19 edits went ahead of the database", n)
	}
	time.Sleep(20 * postedWait) // nothing that was posted is left to flush for it
	o := sample(j, "")
	if err := errors.Join(j.Begin(t.Context(), o), j.Commit(t.Context(), o.ID, nil, "")); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		j.w.queueing.Lock()
		held := j.w.holdsUp()
		j.w.queueing.Unlock()
		if !held {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a commit that nobody flushed holds up all that follow")
		}
	}
	before := j.w.ahead.count.Load()
	if err := j.Begin(t.Context(), edit(j)); err != nil || j.w.ahead.count.Load() != before+1 {
		t.Errorf("%v, %d records after %d", err, j.w.ahead.count.Load(), before)
	}
}

// TestAheadTorn damages one record: those before it count, it and what follows do not.
func TestAheadTorn(t *testing.T) {
	t.Parallel()
	j := fresh(t)
	recorded(t, j, 10)
	size := j.w.ahead.at / 10
	at := copied(t, j, false)
	name := filepath.Join(at, aheadName)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[6*size+size/2] ^= 4
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := open(t, at).Operations(t.Context(), Filter{})
	if err != nil || len(list) != 7 {
		t.Errorf("%d operations, %v", len(list), err)
	}
}

// TestAheadBarrier: nothing that the database could lose is overtaken, nothing that it
// could refuse goes past it, and a full log begins anew only once the database has it all.
func TestAheadBarrier(t *testing.T) {
	t.Parallel()
	j := fresh(t)
	j.w.patience = time.Hour // the flush that comes by itself is another test's
	ctx := t.Context()
	begin := func(o Operation, want bool) {
		t.Helper()
		before := j.w.ahead.count.Load()
		if err := j.Begin(ctx, o); err != nil {
			t.Fatal(err)
		}
		if went := j.w.ahead.count.Load() > before; went != want {
			t.Errorf("went into the log of intents: %v", went)
		}
	}
	begin(edit(j), false) // what an earlier process wrote may not be flushed
	first := edit(j)
	begin(first, true)
	j.CommitLater(first.ID, nil)
	begin(edit(j), true)
	if err := j.PutReceipt(ctx, Receipt{Token: "tk_1", RequestID: "lazy", CallDigest: "c"}); err != nil {
		t.Fatal(err)
	}
	begin(edit(j), false) // its flush takes the receipt along
	begin(edit(j), true)
	named := edit(j)
	named.RequestID = "r"
	begin(named, false)
	undo := edit(j)
	undo.Undoes = first.ID
	begin(undo, false)
	moved := sample(j, "")
	begin(moved, false)
	begin(edit(j), true)
	j.CommitLater(moved.ID, nil) // of one that is not in the log
	j.catchUp()
	begin(edit(j), false)

	big := edit(j)
	big.Diff = bytes.Repeat([]byte("x"), 100<<10)
	var all []op.ID
	for range 40 {
		big.ID = j.NewID("op_")
		if err := j.Begin(ctx, big); err != nil {
			t.Fatal(err)
		}
		all = append(all, big.ID)
	}
	again := open(t, copied(t, j, true))
	for i, id := range all {
		if _, err := again.Operation(ctx, id); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// TestAheadForgets: what was forgotten is in no file of the state.
func TestAheadForgets(t *testing.T) {
	t.Parallel()
	j := fresh(t)
	o := recorded(t, j, 1)[0]
	o.ID, o.Diff = j.NewID("op_"), []byte("the word is swordfish\n")
	if err := j.Begin(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	j.CommitLater(o.ID, nil)
	find := func() (in []string) {
		for _, name := range []string{dataName, dataName + "-wal", aheadName} {
			if b, err := os.ReadFile(filepath.Join(j.Dir(), name)); err == nil && bytes.Contains(b, []byte("swordfish")) {
				in = append(in, name)
			}
		}
		return in
	}
	if in := find(); len(in) == 0 || in[len(in)-1] != aheadName {
		t.Fatal("the test finds nothing before either:", in)
	}
	if err := errors.Join(j.ForgetContent(t.Context(), o.ID, nil), j.Scrub(t.Context())); err != nil {
		t.Fatal(err)
	}
	if in := find(); len(in) > 0 {
		t.Error("still in", in)
	}
}
