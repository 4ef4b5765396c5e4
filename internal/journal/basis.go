package journal

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"math"

	"holdpoint/op"
)

// A basis is what a decision was made from, as JSON: enough to make it again. It stands
// under the id of the operation or the approval that the decision belongs to, and is
// written in the same transaction. The journal does not read it.

// basisSchema is the step to schema 2. What it keeps is never changed and never deleted.
const basisSchema = `
CREATE TABLE bases (name TEXT PRIMARY KEY, basis BLOB NOT NULL, digest BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TRIGGER bases_terms BEFORE UPDATE ON bases BEGIN SELECT RAISE(ABORT, 'the basis of a decision never changes'); END;
CREATE TRIGGER bases_kept BEFORE DELETE ON bases BEGIN SELECT RAISE(ABORT, 'no basis is ever deleted'); END;
`

func (j *Journal) basisDigest(name string, basis []byte) []byte {
	return j.digest("basis", 0, []any{name, basis})
}

func (t *tx) keepBasis(id op.ID, basis []byte) error {
	if len(basis) == 0 {
		return nil
	}
	_, err := t.exec(t.w.addBasis, string(id), basis, t.j.basisDigest(string(id), basis))
	return err
}

// Basis returns what the decision of an operation or approval was made from, nil when none
// was kept: an approved operation has the one of its approval, and records of schema 1
// have none.
func (j *Journal) Basis(ctx context.Context, id op.ID) ([]byte, error) {
	j.catchUp()
	var basis, digest []byte
	err := j.read.basis.QueryRowContext(ctx, string(id)).Scan(&basis, &digest)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err == nil && !bytes.Equal(digest, j.basisDigest(string(id), basis)) {
		return basis, op.Fail(op.StateCorrupt, "the basis of "+op.Visible(string(id), false)+" is not as it was written")
	}
	return basis, j.readError(operations, err)
}

// EachOperation gives every operation in the order of recording, the damaged ones as far
// as they can be read, with intact false. It stops at the first error of each.
func (j *Journal) EachOperation(ctx context.Context, each func(o Operation, intact bool) error) error {
	return j.every(ctx, operations, func(r row, intact bool) error {
		o, _, err := operationOf(r)
		return each(o, intact && err == nil)
	})
}

// EachApproval gives every approval in the same way.
func (j *Journal) EachApproval(ctx context.Context, each func(a Approval, intact bool) error) error {
	return j.every(ctx, approvals, func(r row, intact bool) error {
		a, err := approvalOf(r)
		if err == nil && intact {
			err = j.fill(j.read.content, &a)
		}
		return each(a, intact && err == nil)
	})
}

func (j *Journal) every(ctx context.Context, t *table, each func(row, bool) error) error {
	j.catchUp()
	for last := int64(math.MinInt64); ; {
		page, damaged, err := j.pageAfter(ctx, t, last)
		if err != nil {
			return err
		}
		for _, r := range page {
			if err := each(r, !damaged[r.seq]); err != nil {
				return err
			}
			last = r.seq
		}
		if len(page) < aPage {
			return nil
		}
	}
}

// pageAfter reads the rows behind a number, the damaged ones too. Its connection is free
// again before anybody sees them: who looked at a row and read another one for it would hold
// one connection and wait for a second, and a few such would wait for each other for ever.
func (j *Journal) pageAfter(ctx context.Context, t *table, seq int64) (page []row, damaged map[int64]bool, err error) {
	found, err := j.readers.QueryContext(ctx, t.selectSQL("WHERE seq > ? ORDER BY seq LIMIT ?"), seq, aPage)
	if err != nil {
		return nil, nil, j.readError(t, err)
	}
	defer found.Close()
	damaged = map[int64]bool{}
	for found.Next() {
		r, err := j.scan(t, found)
		if err != nil && !errors.Is(err, op.StateCorrupt) {
			return nil, nil, j.readError(t, err)
		}
		page, damaged[r.seq] = append(page, r), err != nil
	}
	return page, damaged, j.readError(t, found.Err())
}

func (j *Journal) checkBases(ctx context.Context) ([]string, error) {
	found, err := j.readers.QueryContext(ctx, "SELECT name, basis, digest FROM bases ORDER BY name")
	if err != nil {
		return j.unreadable("bases", err)
	}
	defer found.Close()
	var bad []string
	for found.Next() {
		var name string
		var basis, digest []byte
		if err := found.Scan(&name, &basis, &digest); err != nil {
			more, err := j.unreadable("bases", err)
			return append(bad, more...), err
		}
		if !bytes.Equal(digest, j.basisDigest(name, basis)) {
			bad = append(bad, "the basis of "+op.Visible(name, false)+" is not as it was written")
		}
	}
	more, err := j.unreadable("bases", found.Err())
	return append(bad, more...), err
}
