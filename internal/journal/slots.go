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

const namedSlotSQL = `SELECT 1 FROM op_slots s JOIN operations o ON o.seq = s.seq
	WHERE s.slot = ? AND o.root = ? AND o.state <> 'aborted' AND o.dropped = 0 LIMIT 1`

// NamesSlot reports whether an operation of a root that may still need it names a slot of
// the store: one that was not aborted and has not given up what it kept.
func (j *Journal) NamesSlot(ctx context.Context, root, slot string) (bool, error) {
	j.catchUp()
	var one int
	err := j.read.slot.QueryRowContext(ctx, slot, root).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, j.readError(operations, err)
	}
	return true, nil
}
