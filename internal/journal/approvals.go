package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"holdpoint/op"
)

// States of an approval. Each step is one conditional update:
// pending to approved, rejected, expired or cancelled; approved to executing, cancelled
// or failed; executing to executed, failed or unknown.
const (
	Pending    = "pending"
	Approved   = "approved"
	Rejected   = "rejected"
	Expired    = "expired"
	Cancelled  = "cancelled"
	Executing  = "executing"
	Executed   = "executed"
	FailedEnd  = "failed"
	UnknownEnd = "unknown" // it ran, and nobody knows how far
)

// What happens to a row whose deadline has passed: Lapse expires it, AutoDeny records a
// rejection by the timer, Pause keeps it open. None of them ever approves.
const (
	Lapse    = "reject"
	AutoDeny = "auto_deny"
	Pause    = "pause"
)

// Timer is who rejects a row by AutoDeny.
const Timer = "timer"

// Approval is one held call.
type Approval struct {
	// Terms: written by AddApproval, never changed; triggers of the database see to it.
	ID          op.ID
	Created     time.Time
	Deadline    time.Time // zero: none
	OnTimeout   string    // reject, pause, auto_deny
	Token       op.ID
	Agent       string
	Workflow    string
	Session     string
	Stage       string
	Execution   string
	RequestID   string // may be empty
	Root        string
	Op          op.Name
	Request     []byte // the merged call, canonical JSON; nil when it was forgotten
	CallDigest  string
	Identity    string
	Pins        []op.Pin
	Card        []byte // JSON; nil when it was forgotten
	ShownDigest string
	Decision    op.Decision
	Intent      string

	// State.
	State       string
	Answer      *Answer // nil until a person answered
	Operation   op.ID
	CancelledBy string
	Reply       []byte
	Changed     time.Time
	Seq         int64 // set by AddApproval
	Forgotten   bool  // the stored call and the card are gone for good

	// For the outbox, in the same transaction; not part of the row.
	AuditKey  string // the id when empty
	AuditLine []byte // may be nil

	// What the decision was made from, kept beside the row in the same transaction. See Basis.
	Basis []byte
}

// Answer is what a person said. On a pending row that takes more than one approval Answer
// is empty, and Before holds those who approved so far.
type Answer struct {
	Answer      string          `json:"answer"` // approve, reject
	By          string          `json:"by"`
	Token       op.ID           `json:"token"`
	Note        string          `json:"note,omitempty"`
	Remember    bool            `json:"remember,omitempty"`
	At          time.Time       `json:"at"`
	Reviewer    op.ID           `json:"reviewer,omitempty"` // the entry of the roster whose key signed it
	Proof       json.RawMessage `json:"proof,omitempty"`    // the signature, kept with what it is over
	ShownDigest string          `json:"shown_digest,omitempty"`
	Before      []Answer        `json:"before,omitempty"` // approvals of other people on the same card
	Needs       int             `json:"-"`                // how many people must approve; 0 is 1
}

// Due reports whether the time to answer or to start has passed. It asks no sweeper.
func (a Approval) Due(now time.Time) bool {
	return !a.Deadline.IsZero() && a.OnTimeout != Pause && now.After(a.Deadline)
}

// terms are what the row has, with the sums of the content in place of it.
func (a Approval) terms() []any {
	return []any{string(a.ID), nanos(a.Created), nanos(a.Deadline), a.OnTimeout, string(a.Token), a.Agent, a.Workflow, a.Session, a.Stage,
		a.Execution, a.RequestID, a.Root, string(a.Op), full(a.Request), a.CallDigest, a.Identity, asJSON(a.Pins), full(a.Card),
		a.ShownDigest, asJSON(a.Decision), a.Intent}
}

func (a Approval) state() []any {
	answer := ""
	if a.Answer != nil {
		answer = asJSON(a.Answer)
	}
	return []any{a.State, answer, string(a.Operation), a.CancelledBy, nanos(a.Changed), full(a.Reply)}
}

func approvalOf(r row) (Approval, error) {
	a := Approval{Seq: r.seq}
	c := cells{v: r.terms}
	a.ID, a.Created, a.Deadline, a.OnTimeout, a.Token = c.id(), c.when(), c.when(), c.str(), c.id()
	a.Agent, a.Workflow, a.Session, a.Stage, a.Execution, a.RequestID = c.str(), c.str(), c.str(), c.str(), c.str(), c.str()
	a.Root, a.Op, a.Request, a.CallDigest, a.Identity = c.str(), op.Name(c.str()), c.blob(), c.str(), c.str()
	c.json(&a.Pins)
	a.Card, a.ShownDigest = c.blob(), c.str()
	c.json(&a.Decision)
	a.Intent = c.str()
	s := cells{v: r.state}
	a.State = s.str()
	s.json(&a.Answer)
	a.Operation, a.CancelledBy, a.Changed, a.Reply = s.id(), s.str(), s.when(), s.blob()
	if c.err != nil || s.err != nil {
		return a, corrupt(approvals, r.seq, string(a.ID))
	}
	return a, nil
}

// AddApproval records a held call as pending. DURABLE.
func (j *Journal) AddApproval(ctx context.Context, a Approval) error {
	if a.ID == "" || a.Op == "" {
		return op.Fail(op.Internal, "an approval without an id or an operation cannot be recorded")
	}
	now := j.now()
	if a.Created.IsZero() {
		a.Created = now
	}
	a.State, a.Answer, a.Operation, a.CancelledBy, a.Reply, a.Changed = Pending, nil, "", "", nil, now
	parted := a
	parted.Request, parted.Card = j.sums(a)
	terms, state := parted.terms(), a.state()
	return j.write(ctx, durable, func(t *tx) error {
		if a.RequestID != "" {
			if _, err := t.stateOf(ledger, receiptName(a.Token, a.RequestID)); err == nil {
				return reused()
			} else if op.AsError(err).Code != op.NotFound {
				return err
			}
			if err := t.receipt(Receipt{Token: a.Token, RequestID: a.RequestID, CallDigest: a.CallDigest, Approval: a.ID}); err != nil {
				return err
			}
		}
		seq, err := t.insert(approvals, terms, state)
		if err != nil {
			return err
		}
		if err := t.keepContent(seq, a); err != nil {
			return err
		}
		if err := t.keepBasis(a.ID, a.Basis); err != nil {
			return err
		}
		return t.audit(a.AuditKey, a.ID, a.AuditLine)
	})
}

// Approval returns one row, checked; op.NotFound, op.StateCorrupt as Operation.
func (j *Journal) Approval(ctx context.Context, id op.ID) (Approval, error) {
	r, err := j.one(ctx, approvals, string(id))
	if err != nil {
		return Approval{}, err
	}
	a, err := approvalOf(r)
	if err == nil {
		err = j.readError(approvals, j.fill(j.read.content, &a))
	}
	return a, err
}

// ApprovalFilter picks rows. Zero fields pick all.
type ApprovalFilter struct {
	State string
	Token op.ID
	Root  string
	Call  string // digest; with Token, finds the caller's own row for the same call
	After int64  // rows with a higher Seq: the next page
	Limit int    // 0 is no limit

	Newest bool // newest first
}

// Approvals returns what a filter picks, oldest first unless it says otherwise. Where rows are damaged it returns
// the others with a *Damaged.
func (j *Journal) Approvals(ctx context.Context, f ApprovalFilter) ([]Approval, error) {
	var where []string
	var args []any
	for _, c := range []struct{ column, value string }{{"state", f.State}, {"token", string(f.Token)}, {"root", f.Root}, {"call_digest", f.Call}} {
		if c.value != "" {
			where = append(where, c.column+" = ?")
			args = append(args, c.value)
		}
	}
	if f.State == Pending {
		where = append(where, "state = 'pending'") // spelled out, so that the partial indexes serve
	}
	if f.After > 0 {
		where = append(where, "seq > ?")
		args = append(args, f.After)
	}
	rest := "ORDER BY seq"
	if f.Newest {
		rest += " DESC"
	}
	if len(where) > 0 {
		rest = "WHERE " + strings.Join(where, " AND ") + " " + rest
	}
	if f.Limit > 0 {
		rest += fmt.Sprintf(" LIMIT %d", f.Limit)
	}
	rows, err := j.many(ctx, approvals, rest, args...)
	damaged, err := Intact(err)
	if err != nil {
		return nil, err
	}
	out := make([]Approval, 0, len(rows))
	for _, r := range rows {
		a, bad := approvalOf(r)
		if bad == nil {
			bad = j.readError(approvals, j.fill(j.read.content, &a))
		}
		switch {
		case bad == nil:
			out = append(out, a)
		case damagedRow(bad):
			damaged = damaged.without(r.seq, r.name, bad)
		default:
			return nil, bad
		}
	}
	return out, damaged.orNil()
}

// CountApprovals tells how many rows are in a state, of one token or of all, without
// reading them.
func (j *Journal) CountApprovals(ctx context.Context, state string, token op.ID) (int, error) {
	var n int
	err := j.readers.QueryRowContext(ctx, "SELECT count(*) FROM approvals WHERE state = ?1 AND (?2 = '' OR token = ?2)", state, string(token)).Scan(&n)
	return n, j.readError(approvals, err)
}

// due gives the pending rows whose deadline has passed, by the index on it.
func (j *Journal) due(ctx context.Context, now time.Time) ([]Approval, error) {
	rows, err := j.many(ctx, approvals, "WHERE state = 'pending' AND deadline > 0 AND deadline < ? ORDER BY seq", nanos(now))
	damaged, err := Intact(err)
	if err != nil {
		return nil, err
	}
	var out []Approval
	for _, r := range rows {
		if a, bad := approvalOf(r); bad != nil {
			damaged = damaged.without(r.seq, r.name, bad)
		} else if a.Due(now) {
			out = append(out, a)
		}
	}
	return out, damaged.orNil()
}
