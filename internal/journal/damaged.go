package journal

import (
	"errors"
	"slices"

	"holdpoint/op"
)

// Damaged is the error of a list that left rows out because they are not as they were
// written. The rows that came are right: whoever can go on with those may do so.
type Damaged struct {
	Rows []op.ID // those that were left out, by the names that they have now
	Last int64   // the highest number among them
	err  error   // of the first
}

func (d *Damaged) Error() string { return d.err.Error() }

// Unwrap gives what is wrong with the first.
func (d *Damaged) Unwrap() error { return d.err }

// without notes a row that is left out. It starts from nil.
func (d *Damaged) without(seq int64, name string, err error) *Damaged {
	if d == nil {
		d = &Damaged{err: err}
	}
	if id := op.ID(name); !slices.Contains(d.Rows, id) {
		d.Rows = append(d.Rows, id)
	}
	d.Last = max(d.Last, seq)
	return d
}

// orNil gives an error that is nil where nothing was left out.
func (d *Damaged) orNil() error {
	if d == nil {
		return nil
	}
	return d
}

// Intact forgives what damaged rows alone made of a list. Anything else stays an error.
func Intact(err error) (*Damaged, error) {
	var d *Damaged
	if errors.As(err, &d) {
		return d, nil
	}
	return nil, err
}

// damagedRow tells a row that is not as it was written from a database that cannot be read.
func damagedRow(err error) bool {
	var e *op.Error
	return errors.As(err, &e) && e.Code == op.StateCorrupt && e.Err == nil
}
