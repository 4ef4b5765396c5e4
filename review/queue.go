package review

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

// Queue holds calls for people. All fields must be set but those that may be nil.
type Queue struct {
	Journal    *journal.Journal
	Now        func() time.Time
	Deadline   func(op.Tier) time.Duration // how long a card waits; 0 is for ever
	OnTimeout  func(op.Tier) string        // reject, pause or auto_deny; may be nil: reject
	MaxWaiting int                         // pending rows at most; more is queue_full
	ReviewURL  func(op.ID) string          // may be nil
	Lapsed     func(journal.Approval)      // hears of each row whose time is over, once; may be nil
}

// MaxNote is the longest words of a person that travel with an answer, in bytes.
const MaxNote = 4096

// Terms is what a row pins besides its card.
type Terms struct {
	Caller     op.Caller
	Request    op.Request // merged
	Call       []byte     // its canonical form: what will be executed
	CallDigest string
	RootKey    string
	Identity   string
	Pins       []op.Pin
	Decision   op.Decision
	AtMost     time.Duration // a shorter deadline than the tier's; 0 is none
	Basis      []byte        // what the decision was made from
}

// Hold makes one durable row, or gives the caller's own pending row for the same call
// when its pins are the same; fresh tells which. The row is on disk before this returns.
func (q *Queue) Hold(ctx context.Context, t Terms, c Card) (row journal.Approval, fresh bool, err error) {
	own, err := q.Journal.Approvals(ctx, journal.ApprovalFilter{State: journal.Pending, Token: t.Caller.Token, Call: t.CallDigest})
	if _, err = journal.Intact(err); err != nil { // a damaged card is not this one
		return row, false, err
	}
	for _, a := range own {
		if samePins(a.Pins, t.Pins) && (a.Deadline.IsZero() || q.Now().Before(a.Deadline)) {
			return a, false, nil
		}
	}
	if waiting, err := q.Journal.CountApprovals(ctx, journal.Pending, ""); err != nil {
		return row, false, err
	} else if waiting >= q.MaxWaiting {
		return row, false, op.Fail(op.QueueFull, "too many calls wait for a person already").Do("wait until some are answered, or cancel your own")
	}
	c.ID, c.CreatedAt = q.Journal.NewID("ap_"), q.Now().UTC().Truncate(time.Millisecond)
	late := journal.Lapse
	if q.OnTimeout != nil {
		late = q.OnTimeout(t.Decision.Tier)
	}
	// A row that pauses has no moment at which anything happens, so the card names none.
	d := q.Deadline(t.Decision.Tier)
	if t.AtMost > 0 && (d == 0 || t.AtMost < d) {
		d = t.AtMost
	}
	if d > 0 && late != journal.Pause {
		c.ExpiresAt = c.CreatedAt.Add(d)
	}
	c.ShownDigest = c.digest()
	body, err := json.Marshal(c)
	if err != nil {
		return row, false, err
	}
	a := journal.Approval{ID: c.ID, Created: c.CreatedAt, Deadline: c.ExpiresAt, OnTimeout: late, Token: t.Caller.Token, Agent: t.Caller.Name,
		Workflow: t.Caller.Workflow, Session: t.Request.Session, Stage: t.Request.Stage, Execution: t.Request.ExecutionID, RequestID: t.Request.RequestID,
		Root: t.RootKey, Op: t.Request.Op, Request: t.Call, CallDigest: t.CallDigest, Identity: t.Identity, Pins: t.Pins, Card: body,
		ShownDigest: c.ShownDigest, Decision: t.Decision, Intent: t.Request.Intent, State: "pending", Basis: t.Basis}
	if err := q.Journal.AddApproval(ctx, a); err != nil {
		return row, false, err
	}
	row, err = q.Journal.Approval(ctx, a.ID)
	return row, true, err
}

func samePins(a, b []op.Pin) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Public is what the asking side learns of a row.
func (q *Queue) Public(a journal.Approval) *op.Approval {
	p := &op.Approval{ID: a.ID, Identity: a.Identity, Title: CardOf(a).Title, ExpiresAt: a.Deadline}
	if q.ReviewURL != nil {
		p.ReviewURL = q.ReviewURL(a.ID)
	}
	return p
}

// Row gives a row with its deadline applied: one whose time is over is expired, whether
// or not anything swept it.
func (q *Queue) Row(ctx context.Context, id op.ID) (journal.Approval, error) {
	lapsed, err := q.Journal.Expire(ctx, q.Now())
	for _, row := range lapsed {
		if q.Lapsed != nil {
			q.Lapsed(row)
		}
	}
	if _, err := journal.Intact(err); err != nil { // of a damaged row its own reading tells
		return journal.Approval{}, err
	}
	return q.Journal.Approval(ctx, id)
}

// Answer records what a person said, once. Whoever asked cannot answer, and the answer
// must be about exactly the card that was shown.
func (q *Queue) Answer(ctx context.Context, by op.Caller, id op.ID, a journal.Answer) (journal.Approval, error) {
	if !by.Role.Includes(op.Reviewer) {
		return journal.Approval{}, op.Fail(op.Forbidden, "only a reviewer can answer").Do("ask a person to review this")
	}
	row, err := q.Row(ctx, id)
	if err != nil {
		return row, err
	}
	switch {
	case row.Forgotten && row.State == journal.Cancelled:
		return row, op.Fail(op.Cancelled, "the content of this call was forgotten by an operator, so nobody can answer it any more").Do("ask for the call again if it is still wanted")
	case row.Token == by.Token:
		return row, op.Fail(op.Forbidden, "whoever asks cannot answer")
	case a.Answer != "approve" && a.Answer != "reject":
		return row, op.Fail(op.BadRequest, "answer must be approve or reject").In("answer")
	case row.State == journal.Pending && a.ShownDigest != row.ShownDigest && (a.Answer == "approve" || a.ShownDigest != ""):
		return row, op.Fail(op.Stale, "the answer is about another card than the one that waits").In("shown_digest").Do("show the card and answer with its shown_digest")
	case len(a.Note) > MaxNote:
		return row, op.Fail(op.TooLarge, "the words are over 4096 bytes").In("note").Do("say it shorter; nothing was answered")
	case a.Remember && (row.Decision.OneShot || a.Answer != "approve"):
		return row, op.Fail(op.BadRequest, "a batch is approved once and never remembered").In("remember")
	}
	a.By, a.Token, a.At, a.Needs = by.Name, by.Token, q.Now().UTC(), CardOf(row).Needs
	return q.Journal.Answer(ctx, id, a, q.Now())
}

// Mine gives a row to the one who asked, or to whoever may see all; anybody else gets
// the same answer as for a row that never was.
func (q *Queue) Mine(ctx context.Context, by op.Caller, id op.ID) (journal.Approval, error) {
	row, err := q.Row(ctx, id)
	absent := op.Fail(op.NotFound, "no such approval")
	if err != nil {
		if errors.Is(err, op.NotFound) {
			return row, absent
		}
		return row, err
	}
	if by.Role == op.Agent && row.Token != by.Token {
		return journal.Approval{}, absent
	}
	return row, nil
}

// Cancel withdraws a row that has not started.
func (q *Queue) Cancel(ctx context.Context, by op.Caller, id op.ID) (journal.Approval, error) {
	if _, err := q.Mine(ctx, by, id); err != nil {
		return journal.Approval{}, err
	}
	if by.Role != op.Agent && !by.Role.Includes(op.Reviewer) {
		return journal.Approval{}, op.Fail(op.Forbidden, "an observer cannot cancel")
	}
	return q.Journal.Cancel(ctx, id, by.Name)
}
