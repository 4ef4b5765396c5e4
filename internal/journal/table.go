package journal

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"holdpoint/op"
)

// A table keeps rows of two parts. The terms are written once: triggers of the database
// refuse to change them, and a keyed digest shows where something else did. The state
// changes, one step a transaction, each step conditional on the mark, a keyed digest of
// the state before it. The first term is the name of a row.
type table struct {
	index  int // place in tables
	name   string
	what   string // one row, for sentences
	terms  []column
	state  []column
	kept   bool   // rows are never deleted, so numbers have no gaps
	byName bool   // the rows lie in the order of their names, and have no numbers (0)
	extras string // indexes
}

type column struct{ name, kind string }

const (
	text   = "TEXT"
	number = "INTEGER"
	bytes_ = "BLOB"
)

// row is one row as read: values are string, int64 and []byte.
type row struct {
	name  string
	seq   int64
	terms []any
	state []any
	mark  []byte
}

func names(columns []column, each string) string {
	var out []string
	for _, c := range columns {
		out = append(out, strings.ReplaceAll(each, "?c", c.name))
	}
	return strings.Join(out, ", ")
}

func (t *table) all() string {
	return "seq, " + names(t.terms, "?c") + ", digest, " + names(t.state, "?c") + ", mark"
}

// Statements, made once when the database is opened.
func (t *table) insertSQL() string {
	marks := strings.Repeat(", ?", len(t.terms)+len(t.state)+2)
	return "INSERT INTO " + t.name + " (" + t.all() + ") VALUES (?" + marks + ")"
}

func (t *table) selectSQL(rest string) string {
	return "SELECT " + t.all() + " FROM " + t.name + " " + rest
}

func (t *table) stateSQL() string {
	return "SELECT seq, " + names(t.state, "?c") + ", mark FROM " + t.name + " WHERE " + t.terms[0].name + " = ?"
}

func (t *table) turnSQL() string {
	return "UPDATE " + t.name + " SET " + names(t.state, "?c = ?") + ", mark = ? WHERE " + t.terms[0].name + " = ? AND seq = ? AND mark = ?"
}

// digest is the keyed digest over values. Each value goes in with its type and length, so
// that no two lists of values read alike.
func (j *Journal) digest(what string, seq int64, values []any) []byte {
	h := j.seal.Clone()
	buf := append(make([]byte, 0, 512), what...)
	buf = binary.BigEndian.AppendUint64(append(buf, 0), uint64(seq))
	for _, v := range values {
		switch v := v.(type) {
		case int64:
			buf = binary.BigEndian.AppendUint64(append(buf, 'i'), uint64(v))
		case string:
			buf = binary.BigEndian.AppendUint64(append(buf, 's'), uint64(len(v)))
			buf = append(buf, v...)
		case []byte:
			buf = binary.BigEndian.AppendUint64(append(buf, 'b'), uint64(len(v)))
			buf = append(buf, v...)
		default:
			buf = append(buf, '?') // a type that no column has
		}
	}
	h.Write(buf)
	return h.Sum(nil)
}

func (j *Journal) termsDigest(t *table, r row) []byte {
	return j.digest(t.name+" terms", r.seq, r.terms)
}
func (j *Journal) stateMark(t *table, seq int64, state []any) []byte {
	return j.digest(t.name+" state", seq, state)
}

// scan reads one row of the columns of all and checks both digests. A row that does not
// match comes back with op.StateCorrupt.
func (j *Journal) scan(t *table, from interface{ Scan(...any) error }) (row, error) {
	n, m := len(t.terms), len(t.state)
	cells := make([]any, n+m+3)
	into := make([]any, len(cells))
	for i := range cells {
		into[i] = &cells[i]
	}
	if err := from.Scan(into...); err != nil {
		return row{}, err
	}
	r := row{terms: cells[1 : n+1], state: cells[n+2 : n+2+m]}
	r.seq, _ = cells[0].(int64)
	r.mark, _ = cells[n+2+m].([]byte)
	digest, _ := cells[n+1].([]byte)
	r.name, _ = r.terms[0].(string)
	if !bytes.Equal(digest, j.termsDigest(t, r)) || !bytes.Equal(r.mark, j.stateMark(t, r.seq, r.state)) {
		return r, corrupt(t, r.seq, r.name)
	}
	return r, nil
}

func corrupt(t *table, seq int64, name string) *op.Error {
	return op.Fail(op.StateCorrupt, fmt.Sprintf("%s %s (record %d) is not as it was written", t.what, op.Visible(name, false), seq)).
		Do("nothing was rewritten; holdpoint verify lists what is damaged")
}

func missing(t *table) *op.Error { return op.Fail(op.NotFound, "there is no such "+t.what) }

// one reads the row of a name. It does not end with ctx: it is too short to be worth the
// goroutine that the driver starts for a context that can end.
func (j *Journal) one(ctx context.Context, t *table, name string) (row, error) {
	if err := ctx.Err(); err != nil {
		return row{}, j.readError(t, err)
	}
	j.catchUp()
	r, err := j.scan(t, j.read.byName[t.index].QueryRowContext(context.WithoutCancel(ctx), name))
	return r, j.readError(t, err)
}

// many reads rows. Damaged ones are left out and named in the error, a *Damaged, so that
// one of them does not hide the others.
func (j *Journal) many(ctx context.Context, t *table, rest string, args ...any) ([]row, error) {
	j.catchUp()
	found, err := j.readers.QueryContext(ctx, t.selectSQL(rest), args...)
	if err != nil {
		return nil, j.readError(t, err)
	}
	defer found.Close()
	var out []row
	var damaged *Damaged
	for found.Next() {
		r, err := j.scan(t, found)
		switch {
		case errors.Is(err, op.StateCorrupt):
			damaged = damaged.without(r.seq, r.name, err)
		case err != nil:
			return nil, j.readError(t, err)
		default:
			out = append(out, r)
		}
	}
	if err := found.Err(); err != nil {
		return nil, j.readError(t, err)
	}
	return out, damaged.orNil()
}

// readError gives a failed read its code.
func (j *Journal) readError(t *table, err error) error {
	var known *op.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case errors.Is(err, sql.ErrNoRows):
		return missing(t)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return op.Fail(op.Cancelled, "the caller went away while the journal was read").Because(err)
	case isDamage(err):
		return op.Fail(op.StateCorrupt, "the database of the state is damaged").Because(err).Do("holdpoint verify lists what is damaged")
	}
	return ioError("read its database", err)
}
