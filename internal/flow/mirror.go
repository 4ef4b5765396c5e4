package flow

import (
	"context"
	"encoding/hex"

	"github.com/zeebo/blake3"

	"holdpoint/internal/journal"
	"holdpoint/op"
	"holdpoint/review"
)

// DaemonID tells daemons apart for those that gather from many. It is made from the key of
// the state, and tells nothing about it.
func (e *Engine) DaemonID() string {
	var id [16]byte
	blake3.DeriveKey("holdpoint daemon id 1", e.jrn.Key(), id[:])
	return hex.EncodeToString(id[:])
}

// Row is a row for those who gather, with what no longer is as it was when it was asked.
type Row struct {
	journal.Approval
	Drifted string
}

// Waiting lists the rows of served roots that wait for a person.
func (e *Engine) Waiting(ctx context.Context) ([]Row, error) {
	if err := e.Expire(ctx); err != nil {
		return nil, err
	}
	rows, err := e.jrn.Approvals(ctx, journal.ApprovalFilter{State: journal.Pending})
	var out []Row
	for _, r := range rows {
		if e.byKey(r.Root) != nil {
			out = append(out, Row{r, e.drift.of(r.ID)})
		}
	}
	return out, err
}

// RowOf gives one row of a served root, whatever became of it.
func (e *Engine) RowOf(ctx context.Context, id op.ID) (Row, error) {
	r, err := e.queue.Row(ctx, id)
	if err == nil && e.byKey(r.Root) == nil {
		err = op.Fail(op.NotFound, "no such approval")
	}
	return Row{e.asItEnded(r), e.drift.of(id)}, err
}

// AnswerCarried records an answer that others carried here, such as a hub. Who carried it
// is nobody: the signature of a reviewer whom an operator enrolled here is all that counts,
// and it is over this card and these words. A key is found by itself, since it has another
// id on each machine.
func (e *Engine) AnswerCarried(ctx context.Context, root string, id op.ID, a journal.Answer, p review.Proof) (journal.Approval, error) {
	roster, err := e.Roster(ctx)
	if err != nil {
		return journal.Approval{}, err
	}
	s := review.Statement{Card: id, ShownDigest: a.ShownDigest, Answer: a.Answer, Remember: a.Remember, Note: a.Note}
	check := roster.Signed
	if len(p.Assertion) > 0 {
		check = roster.Touched
	}
	who, err := check(s, p, e.cfg.Now())
	if err != nil && !review.Copied(err) { // of a copy the answer itself puts on record whose it is
		e.Denied("signed_answer", err)
		return journal.Approval{}, err
	}
	if row, err := e.queue.Row(ctx, id); err != nil || row.Root != root {
		return journal.Approval{}, op.Fail(op.NotFound, "no such approval")
	}
	p.Reviewer = who.ID
	return e.AnswerSigned(ctx, id, a, p)
}

// Roots lists the roots that are served, by key and name.
func (e *Engine) Roots() []RootView {
	e.mu.RLock()
	defer e.mu.RUnlock()
	var out []RootView
	for _, w := range e.roots {
		out = append(out, RootView{Name: w.Name, Key: w.Key})
	}
	return out
}

// NextEnd gives a channel that closes when the next held call has ended.
func (e *Engine) NextEnd() <-chan struct{} { return e.events.nextEnd() }
