package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"holdpoint/op"
)

func begun(t *testing.T, j *Journal, o Operation) op.ID {
	t.Helper()
	if err := j.Begin(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return o.ID
}

func done(t *testing.T, j *Journal, o Operation) op.ID {
	t.Helper()
	begun(t, j, o)
	if err := j.Commit(t.Context(), o.ID, []byte(`{"status":"done"}`), o.Undoes); err != nil {
		t.Fatal(err)
	}
	return o.ID
}

func TestOperationLife(t *testing.T) {
	j := fresh(t)
	ctx := t.Context()
	open := begun(t, j, sample(j, "r1"))
	first := done(t, j, sample(j, "r2"))
	gone := begun(t, j, sample(j, "r3"))
	if err := j.Abort(ctx, gone, "stale"); err != nil {
		t.Fatal(err)
	}
	if list, err := j.Unsettled(ctx); err != nil || len(list) != 1 || list[0].ID != open || list[0].Seq != 1 {
		t.Fatalf("%v %v", list, err)
	}
	for id, state := range map[op.ID]OpState{open: Intent, first: Committed, gone: Aborted} {
		if o, err := j.Operation(ctx, id); err != nil || o.State != state {
			t.Errorf("%s is %s, want %s: %v", id, o.State, state, err)
		}
	}
	for _, err := range []error{j.Commit(ctx, first, nil, ""), j.Abort(ctx, first, ""), j.Commit(ctx, gone, nil, ""), j.Fail(ctx, gone, "", nil)} {
		if err := want(err, op.Internal); err != nil {
			t.Errorf("an ended operation ended again: %v", err)
		}
	}
	if err := want(j.Commit(ctx, "op_none", nil, ""), op.NotFound); err != nil {
		t.Error(err)
	}
	if err := errors.Join(j.NoteLate(ctx, first, []string{"a"}), j.NoteLate(ctx, first, []string{"b"})); err != nil {
		t.Fatal(err)
	}
	if o, _ := j.Operation(ctx, first); !reflect.DeepEqual(o.Late, []string{"a", "b"}) {
		t.Errorf("late %v", o.Late)
	}
	big := sample(j, "")
	big.Diff = bytes.Repeat([]byte("+line\n"), MaxDiff)
	begun(t, j, big)
	if o, err := j.Operation(ctx, big.ID); err != nil || len(o.Diff) > MaxDiff+100 || !strings.Contains(string(o.Diff[len(o.Diff)-60:]), "diff cut here") {
		t.Errorf("a long diff: %d bytes, %v", len(o.Diff), err)
	}
	ended, stop := context.WithCancel(ctx)
	stop()
	if err := want(j.Begin(ended, sample(j, "r9")), op.Cancelled); err != nil {
		t.Error(err)
	}
	if _, known, err := j.Receipt(ctx, "tk_1", "r9"); known || err != nil {
		t.Error("a caller that had gone away left something", err)
	}
}

func TestUndoClaims(t *testing.T) {
	j := fresh(t)
	ctx := t.Context()
	undoOf := func(id op.ID) Operation {
		u := sample(j, "")
		u.Op, u.Undoes = op.Undo, id
		return u
	}
	t.Run("of twenty undos one begins", func(t *testing.T) {
		target := done(t, j, sample(j, ""))
		all := make([]Operation, 20)
		for i := range all {
			all[i] = undoOf(target)
		}
		if got := tally(20, func(i int) error { return j.Begin(ctx, all[i]) }); got[""] != 1 || got[op.UndoConsumed] != 19 {
			t.Fatalf("got %v", got)
		}
	})
	t.Run("an aborted undo gives the claim back", func(t *testing.T) {
		target := done(t, j, sample(j, ""))
		u := undoOf(target)
		begun(t, j, u)
		if o, _ := j.Operation(ctx, target); o.UndoneBy != u.ID || o.State != Committed {
			t.Fatalf("%+v", o)
		}
		if err := j.Abort(ctx, u.ID, "conflict"); err != nil {
			t.Fatal(err)
		}
		again := done(t, j, undoOf(target))
		if o, _ := j.Operation(ctx, target); o.UndoneBy != again || o.State != Undone {
			t.Fatalf("%+v", o)
		}
		if err := want(j.Begin(ctx, undoOf(target)), op.UndoConsumed); err != nil {
			t.Fatal(err)
		}
		done(t, j, undoOf(again)) // redo
		if err := want(j.Begin(ctx, undoOf(target)), op.UndoConsumed); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("commit checks too", func(t *testing.T) {
		target := done(t, j, sample(j, ""))
		done(t, j, undoOf(target))
		stray := begun(t, j, sample(j, ""))
		if err := want(j.Commit(ctx, stray, nil, target), op.UndoConsumed); err != nil {
			t.Fatal(err)
		}
		if o, _ := j.Operation(ctx, stray); o.State != Intent {
			t.Fatalf("the refused commit left %s", o.State)
		}
		fine := done(t, j, sample(j, ""))
		if err := j.Commit(ctx, stray, nil, fine); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("what cannot be taken back", func(t *testing.T) {
		running, aborted, dropped := begun(t, j, sample(j, "")), begun(t, j, sample(j, "")), done(t, j, sample(j, ""))
		if err := errors.Join(j.Abort(ctx, aborted, ""), j.Dropped(ctx, dropped)); err != nil {
			t.Fatal(err)
		}
		for id, code := range map[op.ID]op.Code{running: op.BusyWriter, aborted: op.UndoUnknown, dropped: op.UndoExpired, "op_none": op.NotFound} {
			u := undoOf(id)
			if err := want(j.Begin(ctx, u), code); err != nil {
				t.Error(err)
			}
			if _, err := j.Operation(ctx, u.ID); !errors.Is(err, op.NotFound) {
				t.Errorf("the refused undo stayed: %v", err)
			}
		}
	})
}

func TestRequestIDs(t *testing.T) {
	j := fresh(t)
	ctx := t.Context()
	t.Run("I108 a second effect under one key is an error", func(t *testing.T) {
		got := tally(32, func(i int) error { return j.Begin(ctx, sample(j, "same")) })
		if got[""] != 1 || got[op.RequestIDReused] != 31 {
			t.Fatalf("got %v", got)
		}
		if list, _ := j.Operations(ctx, Filter{}); len(list) != 1 {
			t.Fatalf("%d rows", len(list))
		}
		other := sample(j, "same")
		other.Token = "tk_2"
		begun(t, j, other) // another token has keys of its own
		if err := want(j.PutReceipt(ctx, Receipt{Token: "tk_1", RequestID: "same", CallDigest: "blake3:other"}), op.RequestIDReused); err != nil {
			t.Error(err)
		}
		if err := want(j.AddApproval(ctx, held(j, "same")), op.RequestIDReused); err != nil {
			t.Error(err)
		}
	})
	t.Run("keys do not run together", func(t *testing.T) {
		if receiptName("a", "b:c") == receiptName("a:b", "c") || receiptName("1", "1:x") == receiptName("11", ":x") {
			t.Error("two keys, one name")
		}
	})
	receipt := func(id string) (Receipt, bool) {
		r, known, err := j.Receipt(ctx, "tk_1", id)
		if err != nil {
			t.Fatal(err)
		}
		return r, known
	}
	t.Run("an abort frees the key", func(t *testing.T) {
		o := sample(j, "freed")
		begun(t, j, o)
		if r, known := receipt("freed"); !known || r.Operation != o.ID || r.Reply != nil {
			t.Fatalf("%+v %v", r, known)
		}
		if err := j.Abort(ctx, o.ID, ""); err != nil {
			t.Fatal(err)
		}
		if _, known := receipt("freed"); known {
			t.Fatal("the key is still taken")
		}
		again := done(t, j, sample(j, "freed"))
		if r, _ := receipt("freed"); r.Operation != again || string(r.Reply) != `{"status":"done"}` || r.CallDigest != "blake3:cc" {
			t.Fatalf("%+v", r)
		}
	})
	t.Run("a held call hands its key to its own operation only", func(t *testing.T) {
		a := held(j, "held")
		added(t, j, a)
		if r, known := receipt("held"); !known || r.Approval != a.ID || r.Operation != "" || r.Reply != nil {
			t.Fatalf("%+v %v", r, known)
		}
		stranger := sample(j, "held")
		if err := want(j.Begin(ctx, stranger), op.RequestIDReused); err != nil {
			t.Fatal(err)
		}
		stranger.ApprovalID = "ap_other"
		if err := want(j.Begin(ctx, stranger), op.RequestIDReused); err != nil {
			t.Fatal(err)
		}
		own := sample(j, "held")
		own.ApprovalID = a.ID
		begun(t, j, own)
		if err := j.Abort(ctx, own.ID, "stale"); err != nil {
			t.Fatal(err)
		}
		own.ID = j.NewID("op_")
		done(t, j, own)
		if r, _ := receipt("held"); r.Operation != own.ID || r.Approval != a.ID || string(r.Reply) != `{"status":"done"}` {
			t.Fatalf("%+v", r)
		}
		if _, err := j.Answer(ctx, a.ID, Answer{Answer: "approve"}, time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(j.Claim(ctx, a.ID), j.Finish(ctx, a.ID, Executed, own.ID, []byte("final"))); err != nil {
			t.Fatal(err)
		}
		if r, _ := receipt("held"); string(r.Reply) != "final" {
			t.Fatalf("%+v", r)
		}
	})
	t.Run("plain receipts", func(t *testing.T) {
		r := Receipt{Token: "tk_1", RequestID: "plain", CallDigest: "blake3:1", Reply: []byte("reply")}
		if err := errors.Join(j.PutReceipt(ctx, r), j.PutReceipt(ctx, r), j.PutReceipt(ctx, Receipt{Reply: []byte("no key")})); err != nil {
			t.Fatal(err)
		}
		if got, known := receipt("plain"); !known || !reflect.DeepEqual(got, r) {
			t.Fatalf("%+v", got)
		}
		if n, err := j.Forget(ctx, time.Now().Add(time.Hour)); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if _, known := receipt("plain"); known {
			t.Fatal("it stayed")
		}
		if _, known := receipt("held"); !known {
			t.Fatal("the receipt of an approval went")
		}
	})
}

func TestHistory(t *testing.T) {
	j := fresh(t)
	ctx := t.Context()
	var ids []op.ID
	for i := range 10 {
		o := sample(j, "")
		o.Steps = []op.Step{{Do: op.Move, Path: op.Path(fmt.Sprintf("d%d/f", i)), To: op.Path(fmt.Sprintf("e/f%d", i))}}
		o.Session, o.Created, o.Expires = fmt.Sprint("s", i%2), time.Unix(int64(1000+i), 0), time.Unix(int64(2000+i), 0)
		ids = append(ids, done(t, j, o))
	}
	for name, c := range map[string]struct {
		f    Filter
		want []int
	}{
		"all, newest first":      {Filter{Limit: 3}, []int{9, 8, 7}},
		"the next page":          {Filter{Limit: 2, Before: 8}, []int{6, 5}},
		"by session":             {Filter{Session: "s1", Limit: 2}, []int{9, 7}},
		"since":                  {Filter{Since: time.Unix(1008, 0)}, []int{9, 8}},
		"a path":                 {Filter{Path: "d3/f"}, []int{3}},
		"a directory":            {Filter{Path: "d3"}, []int{3}},
		"not a prefix of a name": {Filter{Path: "d3/"}, nil},
		"a destination":          {Filter{Path: "e/f4"}, []int{4}},
		"below a destination":    {Filter{Path: "e", Limit: 2}, []int{9, 8}},
		"another root":           {Filter{Root: "root2"}, nil},
		"all fields":             {Filter{Root: "root1", Token: "tk_1", Agent: "agent", Session: "s0", Path: "e", State: Committed, Limit: 1}, []int{8}},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := j.Operations(ctx, c.f)
			if err != nil || len(list) != len(c.want) {
				t.Fatalf("%d rows, %v", len(list), err)
			}
			for i, o := range list {
				if o.ID != ids[c.want[i]] {
					t.Errorf("row %d is operation %d", i, o.Seq-1)
				}
			}
		})
	}
	due := func() (out []op.ID) {
		list, err := j.Expired(ctx, time.Unix(2001, 0))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list {
			out = append(out, o.ID)
		}
		return out
	}
	if got := due(); !reflect.DeepEqual(got, ids[:2]) {
		t.Fatalf("expired %v", got)
	}
	if err := j.Dropped(ctx, ids[0]); err != nil {
		t.Fatal(err)
	}
	if got := due(); !reflect.DeepEqual(got, ids[1:2]) {
		t.Fatalf("expired %v", got)
	}
}
