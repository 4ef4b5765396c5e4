package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdpoint/op"
)

// Receipt is the answer that a call with a request id got, so that the same call asked
// again gets it again and is not done twice.
type Receipt struct {
	Token      op.ID
	RequestID  string
	CallDigest string
	Reply      []byte // nil while an operation has not ended or an approval has no result
	Operation  op.ID  // when the call made one
	Approval   op.ID  // when the call was held
}

// receiptName makes one text of the two parts of the key; the length keeps them apart.
func receiptName(token op.ID, requestID string) string {
	return fmt.Sprintf("%d:%s:%s", len(token), token, requestID)
}

func receiptOf(r row) Receipt {
	c := cells{v: r.terms}
	c.str()
	out := Receipt{Token: c.id(), RequestID: c.str(), CallDigest: c.str(), Approval: c.id()}
	c.num()
	out.Reply = c.blob()
	state := cells{v: r.state}
	out.Operation = state.id()
	return out
}

// Receipt looks a request id up among operations, approvals and plain receipts.
func (j *Journal) Receipt(ctx context.Context, token op.ID, requestID string) (Receipt, bool, error) {
	if requestID == "" {
		return Receipt{}, false, nil
	}
	r, err := j.one(ctx, ledger, receiptName(token, requestID))
	if errors.Is(err, op.NotFound) {
		return Receipt{}, false, nil
	}
	if err != nil {
		return Receipt{}, false, err
	}
	out := receiptOf(r)
	if out.Operation != "" {
		o, err := j.Operation(ctx, out.Operation)
		out.Reply = o.Reply
		if err != nil || out.Approval == "" {
			return out, err == nil, err
		}
	}
	if out.Approval != "" {
		a, err := j.Approval(ctx, out.Approval)
		if a.Reply != nil {
			out.Reply = a.Reply
		}
		return out, err == nil, err
	}
	return out, true, nil
}

// PutReceipt records the answer of a call that made no operation and was not held. LAZY.
// The same call once more changes nothing; another call under the same request id is
// op.RequestIDReused.
func (j *Journal) PutReceipt(ctx context.Context, r Receipt) error {
	if r.RequestID == "" {
		return nil
	}
	return j.write(ctx, lazy, func(t *tx) error {
		have, err := t.row(ledger, receiptName(r.Token, r.RequestID))
		switch {
		case err == nil && receiptOf(have).CallDigest == r.CallDigest:
			return nil
		case err == nil:
			return reused()
		case !errors.Is(err, op.NotFound):
			return err
		}
		return t.receipt(r)
	})
}

func reused() *op.Error {
	return op.Fail(op.RequestIDReused, "the request id was used before").In("request_id").Do("give each call a request id of its own")
}

func (t *tx) receipt(r Receipt) error {
	terms := []any{receiptName(r.Token, r.RequestID), string(r.Token), r.RequestID, r.CallDigest, string(r.Approval), nanos(t.j.now()), full(r.Reply)}
	_, err := t.insert(ledger, terms, []any{string(r.Operation)})
	return err
}

// enter takes the request id for an operation. One that an approval took before is handed
// on to the operation that the approval released, and to no other.
func (t *tx) enter(o Operation) error {
	if o.RequestID == "" {
		return nil
	}
	var have row
	var err error
	if o.ApprovalID != "" {
		have, err = t.row(ledger, receiptName(o.Token, o.RequestID))
	}
	if o.ApprovalID == "" || errors.Is(err, op.NotFound) {
		err := t.receipt(Receipt{Token: o.Token, RequestID: o.RequestID, CallDigest: o.CallDigest, Operation: o.ID})
		if sqliteConstraint(err) {
			return reused()
		}
		return err
	}
	if err != nil {
		return err
	}
	r := receiptOf(have)
	if r.Approval == "" || r.Approval != o.ApprovalID || r.Operation != "" || r.CallDigest != o.CallDigest {
		return reused()
	}
	return t.turn(ledger, have, []any{string(o.ID)})
}

// leave gives the request id of an aborted operation back.
func (t *tx) leave(o Operation) error {
	if o.RequestID == "" {
		return nil
	}
	name := receiptName(o.Token, o.RequestID)
	have, err := t.row(ledger, name)
	if err != nil {
		return err
	}
	switch r := receiptOf(have); {
	case r.Operation != o.ID:
		return nil
	case r.Approval != "":
		return t.turn(ledger, have, []any{""})
	}
	_, err = t.exec(t.w.dropReceipt, name)
	return err
}

// Forget drops the plain receipts made before a time and returns how many; those of
// operations and approvals stay. LAZY.
func (j *Journal) Forget(ctx context.Context, before time.Time) (int, error) {
	var n int64
	err := j.write(ctx, lazy, func(t *tx) error {
		result, err := t.w.conn.ExecContext(context.Background(), "DELETE FROM ledger WHERE approval = '' AND operation = '' AND created < ?", nanos(before))
		if err != nil {
			return t.wrong(err)
		}
		n, err = result.RowsAffected()
		return err
	})
	return int(n), err
}
