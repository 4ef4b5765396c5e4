package journal

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"holdpoint/op"
)

func added(t *testing.T, j *Journal, a Approval) op.ID {
	t.Helper()
	if err := j.AddApproval(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	return a.ID
}

// tally runs n callers at once and counts the codes they get, "" for success.
func tally(n int, do func(i int) error) map[op.Code]int {
	out, mu, all := map[op.Code]int{}, sync.Mutex{}, sync.WaitGroup{}
	gate := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-gate
			var code op.Code
			if err := do(i); err != nil {
				code = op.AsError(err).Code
			}
			mu.Lock()
			out[code]++
			mu.Unlock()
		})
	}
	close(gate)
	all.Wait()
	return out
}

func TestAnswers(t *testing.T) {
	j := fresh(t)
	ctx := t.Context()
	now := time.Now()
	t.Run("I98 of racing answers one wins and the others see it", func(t *testing.T) {
		id := added(t, j, held(j, ""))
		seen := make([]Approval, 64)
		got := tally(64, func(i int) error {
			var err error
			seen[i], err = j.Answer(ctx, id, Answer{Answer: []string{"approve", "reject"}[i%2], By: fmt.Sprint(i)}, now)
			return err
		})
		if got[""] != 1 || got[op.AlreadyAnswered] != 63 {
			t.Fatalf("got %v", got)
		}
		kept, err := j.Approval(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range seen {
			if a.Answer == nil || a.Answer.By != kept.Answer.By || a.State != kept.State {
				t.Fatalf("caller %d saw %+v, recorded is %+v", i, a.Answer, kept.Answer)
			}
		}
		if kept.State != Approved && kept.State != Rejected || kept.Answer.At.IsZero() {
			t.Fatalf("%+v", kept)
		}
	})
	t.Run("I99 of a hundred claims one wins", func(t *testing.T) {
		id := added(t, j, held(j, ""))
		if err := want(j.Claim(ctx, id), op.NotReady); err != nil {
			t.Fatal(err)
		}
		if _, err := j.Answer(ctx, id, Answer{Answer: "approve"}, now); err != nil {
			t.Fatal(err)
		}
		if got := tally(100, func(int) error { return j.Claim(ctx, id) }); got[""] != 1 || got[op.ApprovalConsumed] != 99 {
			t.Fatalf("got %v", got)
		}
	})
	t.Run("cancel races claim", func(t *testing.T) {
		for range 20 {
			id := added(t, j, held(j, ""))
			if _, err := j.Answer(ctx, id, Answer{Answer: "approve"}, now); err != nil {
				t.Fatal(err)
			}
			got := tally(2, func(i int) error {
				if i == 0 {
					return j.Claim(ctx, id)
				}
				_, err := j.Cancel(ctx, id, "p")
				return err
			})
			a, err := j.Approval(ctx, id)
			if err != nil || got[""] != 1 || a.State == Executing && got[op.ApprovalConsumed] != 1 || a.State == Cancelled && got[op.Cancelled] != 1 {
				t.Fatalf("%v %v %v", a.State, got, err)
			}
		}
	})
	t.Run("I102 each lapse is returned once and the deadline holds without a sweeper", func(t *testing.T) {
		late, on, pause := held(j, ""), held(j, ""), held(j, "")
		late.Deadline, pause.Deadline, pause.OnTimeout = now.Add(-time.Millisecond), now.Add(-time.Hour), Pause
		for _, a := range []Approval{late, on, pause} {
			added(t, j, a)
		}
		a, err := j.Answer(ctx, late.ID, Answer{Answer: "approve"}, now)
		if !errors.Is(err, op.Expired) || a.State != Pending || a.ID != late.ID {
			t.Fatalf("%v %+v", err, a)
		}
		var counts [2]int
		tally(2, func(i int) error {
			rows, err := j.Expire(ctx, now)
			for _, r := range rows {
				if r.ID != late.ID || r.State != Expired {
					t.Errorf("expired %v %v", r.ID, r.State)
				}
			}
			counts[i] = len(rows)
			return err
		})
		if counts[0]+counts[1] != 1 {
			t.Fatalf("two sweeps told %v lapses", counts)
		}
		if _, err := j.Answer(ctx, late.ID, Answer{Answer: "approve"}, now.Add(-time.Hour)); !errors.Is(err, op.Expired) {
			t.Fatal(err)
		}
		if _, err := j.Answer(ctx, pause.ID, Answer{Answer: "approve"}, now); err != nil {
			t.Fatal(err)
		}
		if err := j.Claim(ctx, pause.ID); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("an approval not started by its deadline cannot start", func(t *testing.T) {
		a := held(j, "")
		a.Deadline = time.Now().Add(30 * time.Millisecond)
		added(t, j, a)
		if _, err := j.Answer(ctx, a.ID, Answer{Answer: "approve"}, now); err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Millisecond)
		if err := want(j.Claim(ctx, a.ID), op.Expired); err != nil {
			t.Fatal(err)
		}
		if err := j.Finish(ctx, a.ID, FailedEnd, "", nil); err != nil {
			t.Fatal(err)
		}
	})
}

// TestApprovalSteps tries every method on a row in every state.
func TestApprovalSteps(t *testing.T) {
	j := fresh(t)
	ctx := t.Context()
	now := time.Now()
	answer := func(word string) func(op.ID) error {
		return func(id op.ID) error { _, err := j.Answer(ctx, id, Answer{Answer: word}, now); return err }
	}
	cancel := func(id op.ID) error { _, err := j.Cancel(ctx, id, "p"); return err }
	claim := func(id op.ID) error { return j.Claim(ctx, id) }
	finish := func(state string) func(op.ID) error {
		return func(id op.ID) error { return j.Finish(ctx, id, state, "op_1", []byte("reply")) }
	}
	expire := func(id op.ID) error { _, err := j.Expire(ctx, now.Add(2*time.Hour)); return err }
	chain := func(steps ...func(op.ID) error) func(op.ID) error {
		return func(id op.ID) error {
			for _, s := range steps {
				if err := s(id); err != nil {
					return err
				}
			}
			return nil
		}
	}
	approve := answer("approve")
	for state, reach := range map[string]func(op.ID) error{
		Pending: chain(), Approved: approve, Rejected: answer("reject"), Expired: expire, Cancelled: cancel, Executing: chain(approve, claim),
		Executed: chain(approve, claim, finish(Executed)), FailedEnd: chain(approve, claim, finish(FailedEnd)), UnknownEnd: chain(approve, claim, finish(UnknownEnd)),
	} {
		t.Run(state, func(t *testing.T) {
			refusals := map[string]map[string]op.Code{ // empty: allowed
				Pending:    {"answer": "", "claim": op.NotReady, "finish": op.NotReady, "cancel": ""},
				Approved:   {"answer": op.AlreadyAnswered, "claim": "", "finish": op.ApprovalConsumed, "cancel": ""},
				Rejected:   {"answer": op.AlreadyAnswered, "claim": op.Rejected, "finish": op.ApprovalConsumed, "cancel": op.AlreadyAnswered},
				Expired:    {"answer": op.Expired, "claim": op.Expired, "finish": op.ApprovalConsumed, "cancel": op.Expired},
				Cancelled:  {"answer": op.Cancelled, "claim": op.Cancelled, "finish": op.ApprovalConsumed, "cancel": op.Cancelled},
				Executing:  {"answer": op.AlreadyAnswered, "claim": op.ApprovalConsumed, "finish": "", "cancel": op.ApprovalConsumed},
				Executed:   {"answer": op.AlreadyAnswered, "claim": op.ApprovalConsumed, "finish": op.ApprovalConsumed, "cancel": op.ApprovalConsumed},
				FailedEnd:  {"answer": op.AlreadyAnswered, "claim": op.ApprovalConsumed, "finish": op.ApprovalConsumed, "cancel": op.ApprovalConsumed},
				UnknownEnd: {"answer": op.AlreadyAnswered, "claim": op.ApprovalConsumed, "finish": op.ApprovalConsumed, "cancel": op.ApprovalConsumed},
			}
			steps := map[string]func(op.ID) error{"answer": approve, "claim": claim, "finish": finish(Executed), "cancel": cancel}
			for name, code := range refusals[state] {
				id := added(t, j, held(j, ""))
				if err := reach(id); err != nil {
					t.Fatal(err)
				}
				before, err := j.Approval(ctx, id)
				if err != nil || before.State != state {
					t.Fatalf("reached %s, %v", before.State, err)
				}
				err = steps[name](id)
				if code == "" && err != nil || code != "" && !errors.Is(err, code) {
					t.Errorf("%s: got %v, want %q", name, err, code)
				}
				after, err := j.Approval(ctx, id)
				if err != nil || code != "" && after.State != state || code == "" && after.State == state {
					t.Errorf("%s left %s, %v", name, after.State, err)
				}
			}
		})
	}
	if err := want(answer("maybe")(added(t, j, held(j, ""))), op.BadRequest); err != nil {
		t.Error(err)
	}
	if err := want(claim("ap_none"), op.NotFound); err != nil {
		t.Error(err)
	}
	rows, err := j.Approvals(ctx, ApprovalFilter{State: Rejected, Token: "tk_1", Root: "root1", Limit: 1})
	if err != nil || len(rows) != 1 || rows[0].State != Rejected {
		t.Error(rows, err)
	}
}
