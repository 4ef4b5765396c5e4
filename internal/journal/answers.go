package journal

import (
	"context"
	"errors"
	"time"

	"holdpoint/op"
)

// step moves one approval. next looks at the checked row and changes its state, or
// refuses with the row untouched; the row comes back either way.
func (j *Journal) step(ctx context.Context, id op.ID, next func(*Approval) error) (Approval, error) {
	var out Approval
	err := j.write(ctx, durable, func(t *tx) error {
		r, err := t.row(approvals, string(id))
		if err != nil {
			return err
		}
		if out, err = approvalOf(r); err != nil {
			return err
		}
		if err := t.fill(&out); err != nil {
			return err
		}
		a := out
		if err := next(&a); err != nil {
			return err
		}
		a.Changed = j.now()
		if err := t.turn(approvals, r, a.state()); err != nil {
			return err
		}
		out = a
		return nil
	})
	return out, err
}

// Answer records a person's answer on a pending row whose deadline has not passed.
// DURABLE, and apart from anything that the answer sets off. Otherwise nothing changes
// and the recorded row comes back with op.AlreadyAnswered, op.Expired or op.Cancelled. A
// row past its deadline stays pending until Expire announces it, and is refused here.
func (j *Journal) Answer(ctx context.Context, id op.ID, answer Answer, now time.Time) (Approval, error) {
	state := map[string]string{"approve": Approved, "reject": Rejected}[answer.Answer]
	if state == "" {
		return Approval{}, op.Fail(op.BadRequest, "the answer must be approve or reject").In("answer")
	}
	if answer.At.IsZero() {
		answer.At = now
	}
	return j.step(ctx, id, func(a *Approval) error {
		switch {
		case a.State == Cancelled:
			return op.Fail(op.Cancelled, "the call was withdrawn")
		case a.State == Expired || a.State == Pending && a.Due(now):
			return op.Fail(op.Expired, "the time to answer has passed").Do("ask for the call again")
		case a.State != Pending:
			return op.Fail(op.AlreadyAnswered, "the call was answered before")
		}
		if a.Answer != nil {
			answer.Before = a.Answer.Before
		}
		if state == Approved && len(answer.Before)+1 < answer.Needs {
			return a.firstOf(answer)
		}
		if state == Approved && answer.Needs > 1 && twice(answer) {
			return sameReviewer()
		}
		a.State, a.Answer = state, &answer
		return nil
	})
}

// firstOf keeps an approval that is not enough alone; the row stays pending.
func (a *Approval) firstOf(answer Answer) error {
	if twice(answer) {
		return sameReviewer()
	}
	before := append(answer.Before[:len(answer.Before):len(answer.Before)], answer)
	before[len(before)-1].Before = nil
	a.Answer = &Answer{Before: before}
	return nil
}

// twice reports whether the one who answers has approved before. A name counts as one
// person, however many tokens it has.
func twice(answer Answer) bool {
	for _, b := range answer.Before {
		if b.By == answer.By || b.Token == answer.Token {
			return true
		}
	}
	return false
}

func sameReviewer() error {
	return op.Fail(op.AlreadyAnswered, "you approved this already; it takes a second person").Do("ask another reviewer to answer with their own token")
}

// Claim takes the right to execute an approved call, at most once however many ask.
// DURABLE, before anything is executed. Refused: op.ApprovalConsumed when it was claimed,
// op.Rejected, op.Expired (also when the deadline passed after the answer), op.Cancelled,
// op.NotReady while nobody has answered.
func (j *Journal) Claim(ctx context.Context, id op.ID) error {
	_, err := j.step(ctx, id, func(a *Approval) error {
		switch {
		case a.State == Rejected:
			return op.Fail(op.Rejected, "the call was rejected")
		case a.State == Cancelled:
			return op.Fail(op.Cancelled, "the call was withdrawn")
		case a.State == Expired || (a.State == Approved || a.State == Pending) && a.Due(j.now()):
			return op.Fail(op.Expired, "the deadline passed before the call was started").Do("ask for the call again")
		case a.State == Pending:
			return op.Fail(op.NotReady, "nobody has answered yet")
		case a.State != Approved:
			return op.Fail(op.ApprovalConsumed, "the approval was used before")
		}
		a.State = Executing
		return nil
	})
	return err
}

// Finish records how the execution ended: executed, failed or unknown, from executing;
// an approved row that was never started can only fail. DURABLE.
func (j *Journal) Finish(ctx context.Context, id op.ID, state string, operation op.ID, reply []byte) error {
	_, err := j.step(ctx, id, func(a *Approval) error {
		switch {
		case state != Executed && state != FailedEnd && state != UnknownEnd:
			return op.Fail(op.Internal, "an execution ends as executed, failed or unknown, not as "+state)
		case a.State == Executing, a.State == Approved && state == FailedEnd:
			a.State, a.Operation, a.Reply = state, operation, reply
			return nil
		case a.State == Pending:
			return op.Fail(op.NotReady, "nobody has answered yet")
		}
		return op.Fail(op.ApprovalConsumed, "the approval is "+a.State+" and cannot end once more")
	})
	return err
}

// Cancel withdraws a row that is pending, or approved and not started. DURABLE.
// Otherwise the recorded row comes back with op.Cancelled, op.Expired, op.AlreadyAnswered
// (rejected) or op.ApprovalConsumed (started).
func (j *Journal) Cancel(ctx context.Context, id op.ID, by string) (Approval, error) {
	return j.step(ctx, id, func(a *Approval) error {
		switch a.State {
		case Pending, Approved:
			a.State, a.CancelledBy = Cancelled, by
			return nil
		case Cancelled:
			return op.Fail(op.Cancelled, "the call was withdrawn before")
		case Expired:
			return op.Fail(op.Expired, "the time to answer has passed")
		case Rejected:
			return op.Fail(op.AlreadyAnswered, "the call was answered before")
		}
		return op.Fail(op.ApprovalConsumed, "the call was started and cannot be withdrawn")
	})
}

// Expire turns pending rows whose deadline has passed into expired ones, or rejected by
// the timer where the row says so, and returns exactly those that it turned, so that each
// lapse is told once. DURABLE. Rows that pause never expire, nor do damaged ones, which come
// as a *Damaged beside the others.
func (j *Journal) Expire(ctx context.Context, now time.Time) ([]Approval, error) {
	due, err := j.due(ctx, now)
	damaged, err := Intact(err)
	if err != nil || len(due) == 0 {
		return nil, errors.Join(err, damaged.orNil())
	}
	var out []Approval
	err = j.write(ctx, durable, func(t *tx) error {
		out = nil
		for _, seen := range due {
			r, err := t.row(approvals, string(seen.ID))
			a := Approval{}
			if err == nil {
				a, err = approvalOf(r)
			}
			if err == nil && a.State != Pending { // answered since
				continue
			}
			if err == nil {
				err = t.fill(&a)
			}
			if damagedRow(err) { // it stays as it is, and the others lapse
				damaged = damaged.without(seen.Seq, string(seen.ID), err)
				continue
			}
			if err != nil {
				return err
			}
			a.State, a.Changed = Expired, now
			if a.OnTimeout == AutoDeny {
				a.State, a.Answer = Rejected, &Answer{Answer: "reject", By: Timer, At: now}
			}
			if err := t.turn(approvals, r, a.state()); err != nil {
				return err
			}
			out = append(out, a)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, damaged.orNil()
}
