package flow

import (
	"context"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

// TwoReviewers says above which size a call takes two people. The zero value never does.
type TwoReviewers struct {
	Files         int   // more targets than this; 0 is off
	Bytes         int64 // more bytes at the targets, or of change, than this; 0 is off
	Protected     bool  // any protected target
	Unrecoverable bool  // what no undo takes back: processes
}

func (t TwoReviewers) needed(c *call) bool {
	if c.harmless() {
		return false
	}
	var size int64
	protected := false
	for _, target := range c.facts.Targets {
		size += target.Size
		protected = protected || target.Protected || target.ContainsProtected
	}
	return t.Files > 0 && len(c.facts.Targets) > t.Files ||
		t.Bytes > 0 && max(size, c.facts.ChangeBytes) > t.Bytes ||
		t.Protected && protected ||
		t.Unrecoverable && c.spec.Class == op.Process
}

// runnable refuses an approval that could not be followed by the call: the row stays
// pending, so that the same card can be answered when the workspace is back. A row of a
// root that the reviewer may not use is as one that never was.
func (e *Engine) runnable(ctx context.Context, by op.Caller, id op.ID, a journal.Answer) error {
	if !by.Role.Includes(op.Reviewer) {
		return nil // the queue refuses, and that is put on record
	}
	row, err := e.jrn.Approval(ctx, id)
	if err != nil {
		return nil // the queue says why
	}
	w := e.byKey(row.Root)
	if w != nil && !mayUse(by, w) {
		return op.Fail(op.NotFound, "no such approval")
	}
	spec, known := op.Lookup(row.Op)
	if a.Answer == "approve" && row.State == journal.Pending && e.halted() != nil {
		return e.halted()
	}
	switch {
	case a.Answer != "approve" || row.State != journal.Pending:
		return nil
	case w == nil, w.Root.Check() != nil:
		return op.Fail(op.NotReady, "the workspace of this call is not there, so an approval could not be carried out").Do("bring the workspace back and answer then, or reject; the card still waits")
	case !known || !spec.Built:
		return op.Fail(op.NotAvailable, "this version cannot run "+string(row.Op)).Do("reject it, or answer with a version that can; the card still waits")
	}
	return nil
}

// actor is whose step brought a row to its state: a person's name, the timer, or nobody's.
func actor(row journal.Approval) string {
	switch {
	case row.State == journal.Expired:
		return journal.Timer
	case row.State == journal.Cancelled:
		return row.CancelledBy
	case row.Answer == nil:
		return ""
	case row.Answer.By == "" && len(row.Answer.Before) > 0:
		return row.Answer.Before[len(row.Answer.Before)-1].By
	}
	return row.Answer.By
}

// Steering is the code under which the words that a person sent along with an approval
// travel back. They are data for whoever asked: nothing here reads them.
const Steering = "steering"

func steered(list []op.Warning, row journal.Approval) []op.Warning {
	if row.Answer == nil || row.Answer.Note == "" || row.Answer.Answer != "approve" {
		return list
	}
	return append(list[:len(list):len(list)], op.Warning{Code: Steering, Message: row.Answer.Note})
}
