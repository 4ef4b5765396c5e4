package journal

import (
	"bytes"
	"context"
	"database/sql"
	"errors"

	"holdpoint/op"
)

// The content of an approval, the stored call and the card, stands beside the row: the
// terms hold keyed digests of both and never change, the content can be forgotten and
// never changed. That it was forgotten is sealed as well, so that nobody without the key
// can take content away and have it look so.

// contentSchema is the step to schema 4.
const contentSchema = `
CREATE TABLE approval_content (seq INTEGER PRIMARY KEY, request BLOB NOT NULL, card BLOB NOT NULL, digest BLOB NOT NULL) STRICT;
CREATE TRIGGER approval_content_terms BEFORE UPDATE ON approval_content WHEN OLD.seq IS NOT NEW.seq OR length(NEW.request) > 0 OR length(NEW.card) > 0 BEGIN SELECT RAISE(ABORT, 'the content of an approval can be forgotten and never changes'); END;
CREATE TRIGGER approval_content_kept BEFORE DELETE ON approval_content BEGIN SELECT RAISE(ABORT, 'no content of an approval is ever deleted'); END;
`

const (
	addContentSQL = "INSERT INTO approval_content (seq, request, card, digest) VALUES (?, ?, ?, ?)"
	contentSQL    = "SELECT request, card, digest FROM approval_content WHERE seq = ?"
)

// sums are what the terms hold in place of the content.
func (j *Journal) sums(a Approval) (request, card []byte) {
	return j.digest("approval request", 0, []any{string(a.ID), full(a.Request)}), j.digest("approval card", 0, []any{string(a.ID), full(a.Card)})
}

func (t *tx) keepContent(seq int64, a Approval) error {
	request, card := full(a.Request), full(a.Card)
	digest := t.j.digest("approval content", seq, []any{request, card}) // also where both are empty: that is not forgotten
	_, err := t.exec(t.w.addContent, seq, request, card, digest)
	return err
}

// fill puts the content into an approval that was read, or says that it was forgotten.
func (j *Journal) fill(from *sql.Stmt, a *Approval) error {
	var request, card, digest []byte
	err := from.QueryRowContext(context.Background(), a.Seq).Scan(&request, &card, &digest)
	if errors.Is(err, sql.ErrNoRows) {
		return corrupt(approvals, a.Seq, string(a.ID))
	}
	if err != nil {
		return err
	}
	if len(request) == 0 && len(card) == 0 && bytes.Equal(digest, j.digest("approval forgotten", a.Seq, nil)) {
		a.Forgotten, a.Request, a.Card = true, nil, nil
		return nil
	}
	r, c := a.Request, a.Card // their sums, as the terms have them
	a.Request, a.Card = blobOf(request), blobOf(card)
	wantR, wantC := j.sums(*a)
	if !bytes.Equal(r, wantR) || !bytes.Equal(c, wantC) || !bytes.Equal(digest, j.digest("approval content", a.Seq, []any{full(request), full(card)})) {
		return corrupt(approvals, a.Seq, string(a.ID))
	}
	return nil
}

// fill does it within a transaction.
func (t *tx) fill(a *Approval) error {
	err := t.j.fill(t.w.content, a)
	var known *op.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	return fatal{err}
}

// blobOf gives nil for no bytes.
func blobOf(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// ForgetApproval ends the stored call and the card of one approval, and puts what reply
// makes of the kept reply in its place; both may be about a secret. A row that waits, or
// was approved and has not started, is withdrawn: nobody could see any more what they
// answer. DURABLE; see Scrub. One that is being executed is op.BusyWriter.
func (j *Journal) ForgetApproval(ctx context.Context, id op.ID, by string, reply func([]byte) []byte) (Approval, error) {
	var out Approval
	err := j.write(ctx, durable, func(t *tx) error {
		r, err := t.row(approvals, string(id))
		if err != nil {
			return err
		}
		a, err := approvalOf(r)
		if err != nil {
			return err
		}
		switch a.State {
		case Executing:
			return op.Fail(op.BusyWriter, "the approved call is being executed").Do("try again when it has ended")
		case Pending, Approved:
			a.State, a.CancelledBy = Cancelled, by
		}
		if a.Changed = j.now(); len(a.Reply) > 0 {
			a.Reply = reply(a.Reply)
		}
		if _, err := t.w.conn.ExecContext(context.Background(), "UPDATE approval_content SET request = x'', card = x'', digest = ? WHERE seq = ?",
			j.digest("approval forgotten", r.seq, nil), r.seq); err != nil {
			return t.wrong(err)
		}
		if err := t.turn(approvals, r, a.state()); err != nil {
			return err
		}
		a.Forgotten, a.Request, a.Card = true, nil, nil
		out = a
		return nil
	})
	return out, err
}

// parted moves the content of approvals that a database of schema 3 holds in their terms.
// It runs in the transaction of the step.
func (j *Journal) parted(ctx context.Context, c querier) error {
	if _, err := c.ExecContext(ctx, "PRAGMA secure_delete = ON; DROP TRIGGER approvals_terms"); err != nil {
		return err
	}
	found, err := c.QueryContext(ctx, approvals.selectSQL("ORDER BY seq"))
	if err != nil {
		return err
	}
	var rows []row
	for found.Next() {
		r, err := j.scan(approvals, found)
		if errors.Is(err, op.StateCorrupt) {
			continue // it stays as damaged as it is, and is named as such
		}
		if err != nil {
			return errors.Join(err, found.Close())
		}
		rows = append(rows, r)
	}
	if err := errors.Join(found.Err(), found.Close()); err != nil {
		return err
	}
	for _, r := range rows {
		a, err := approvalOf(r)
		if err != nil {
			continue
		}
		request, card := full(a.Request), full(a.Card)
		if _, err := c.ExecContext(ctx, addContentSQL, r.seq, request, card, j.digest("approval content", r.seq, []any{request, card})); err != nil {
			return err
		}
		a.Request, a.Card = j.sums(a)
		r.terms = a.terms()
		if _, err := c.ExecContext(ctx, "UPDATE approvals SET request = ?, card = ?, digest = ? WHERE seq = ?", a.Request, a.Card, j.termsDigest(approvals, r), r.seq); err != nil {
			return err
		}
	}
	_, err = c.ExecContext(ctx, approvals.termsTrigger())
	return err
}

func (j *Journal) checkContents(ctx context.Context) ([]string, error) {
	var bad []string
	err := j.EachApproval(ctx, func(a Approval, intact bool) error {
		if intact {
			return nil
		}
		if err := j.fill(j.read.content, &a); errors.Is(err, op.StateCorrupt) {
			bad = append(bad, "the content of "+op.AsError(err).Message)
		}
		return nil
	})
	return bad, err
}
