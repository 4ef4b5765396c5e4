package journal

import (
	"context"
	"database/sql"
	"errors"
)

// Which operations name a slot of the store is kept as an index, so that a start does not
// have to read all that ever happened to find what nothing names.

const slotSchema = `CREATE TABLE op_slots (slot TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (slot, seq)) STRICT, WITHOUT ROWID;
`

// slotFill reads the slots out of the steps that are there. Their names are plain, so
// that the form on disk is the name itself.
const slotFill = `INSERT OR IGNORE INTO op_slots SELECT json_extract(s.value, '$.slot'), o.seq FROM operations o, json_each(o.steps) s WHERE json_extract(s.value, '$.slot') <> '';
INSERT OR IGNORE INTO op_slots SELECT json_extract(s.value, '$.copy'), o.seq FROM operations o, json_each(o.steps) s WHERE json_extract(s.value, '$.copy') <> '';
`

// In two steps: the state of an operation lies behind its steps, and where those are many the
// database walks all of them for each look at it.
const (
	slotSeqSQL = "SELECT seq FROM op_slots WHERE slot = ?"
	seqLiveSQL = "SELECT 1 FROM operations WHERE seq = ? AND root = ? AND state <> 'aborted' AND dropped = 0"
)

// NamesSlot reports whether an operation of a root that may still need it names a slot of
// the store: one that was not aborted and has not given up what it kept.
func (j *Journal) NamesSlot(ctx context.Context, root, slot string) (bool, error) {
	return j.Slots(root).Named(ctx, slot)
}

// Slots answers as NamesSlot does for many slots of one root, and looks at each operation
// once. It is for one moment: what an operation gives up afterwards it does not notice.
type Slots struct {
	j    *Journal
	root string
	live map[int64]bool
}

// Slots gives one; see there.
func (j *Journal) Slots(root string) *Slots { return &Slots{j: j, root: root, live: map[int64]bool{}} }

// Named is NamesSlot.
func (s *Slots) Named(ctx context.Context, slot string) (bool, error) {
	s.j.catchUp()
	rows, err := s.j.read.slot.QueryContext(ctx, slot)
	if err != nil {
		return false, s.j.readError(operations, err)
	}
	var seqs []int64
	for rows.Next() {
		var seq int64
		if err := rows.Scan(&seq); err != nil {
			rows.Close()
			return false, s.j.readError(operations, err)
		}
		seqs = append(seqs, seq)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return false, s.j.readError(operations, err)
	}
	for _, seq := range seqs {
		live, known := s.live[seq]
		if !known {
			var one int
			err := s.j.read.seqLive.QueryRowContext(ctx, seq, s.root).Scan(&one)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return false, s.j.readError(operations, err)
			}
			live = err == nil
			s.live[seq] = live
		}
		if live {
			return true, nil
		}
	}
	return false, nil
}
