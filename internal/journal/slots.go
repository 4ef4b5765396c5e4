package journal

import (
	"context"
	"database/sql"
	"errors"
	"slices"
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

// The same for snapshots: what stands between a file's newest one and now may be all that
// ever happened to the file.

const snapshotSchema = `CREATE TABLE op_snapshots (path TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (path, seq)) STRICT, WITHOUT ROWID;
`

// snapshotFill takes every path of an operation that keeps a snapshot of one: who asks looks
// at the steps.
const snapshotFill = `INSERT OR IGNORE INTO op_snapshots SELECT p.path, p.seq FROM op_paths p JOIN operations o ON o.seq = p.seq
	WHERE EXISTS (SELECT 1 FROM json_each(o.steps) s WHERE json_extract(s.value, '$.do') = 'keep');
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

// manySlots is from when on all names are read instead of one after the other, which takes
// ten times as long for each.
const manySlots = 500

// Unnamed gives those of the slots that NamesSlot says no to, in their order, or all of them
// when they are few enough to be asked for one by one.
func (j *Journal) Unnamed(ctx context.Context, root string, slots []string) ([]string, error) {
	if len(slots) < manySlots {
		return slots, nil
	}
	j.catchUp()
	live := map[int64]bool{}
	rows, err := j.readers.QueryContext(ctx, "SELECT seq FROM operations WHERE root = ? AND state <> 'aborted' AND dropped = 0", root)
	if err == nil {
		err = each(rows, func() error {
			var seq int64
			err := rows.Scan(&seq)
			live[seq] = true
			return err
		})
	}
	if err != nil {
		return nil, j.readError(operations, err)
	}
	named := make(map[string]bool, len(slots))
	rows, err = j.readers.QueryContext(ctx, "SELECT slot, seq FROM op_slots")
	if err == nil {
		err = each(rows, func() error {
			var slot sql.RawBytes
			var seq int64
			err := rows.Scan(&slot, &seq)
			if live[seq] {
				named[string(slot)] = true
			}
			return err
		})
	}
	if err != nil {
		return nil, j.readError(operations, err)
	}
	return slices.DeleteFunc(slices.Clone(slots), func(s string) bool { return named[s] }), nil
}

// each calls do for every row and closes them.
func each(rows *sql.Rows, do func() error) error {
	var err error
	for err == nil && rows.Next() {
		err = do()
	}
	return errors.Join(err, rows.Err(), rows.Close())
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
