package journal

import (
	"context"
	"fmt"

	"holdpoint/op"
)

// forgotten is why an operation keeps nothing, not even its diff.
const forgotten = "forgotten"

// Forgotten reports that an operation's content was ended before its time.
func (o Operation) Forgotten() bool { return o.Dropped && o.Why == forgotten }

// ForgetContent ends what the journal keeps of an operation's content: its diff. The row
// stays, and says so. DURABLE. What the store keeps is the caller's to drop first.
func (j *Journal) ForgetContent(ctx context.Context, id op.ID) error {
	return j.write(ctx, durable, func(t *tx) error {
		o, r, err := t.operationState(id)
		if err != nil {
			return err
		}
		if o.State == Intent {
			return op.Fail(op.BusyWriter, "the operation is still running").Do("try again when it has ended")
		}
		for _, q := range []string{"PRAGMA secure_delete = ON", fmt.Sprintf("DELETE FROM diffs WHERE seq = %d", r.seq)} {
			if _, err := t.w.conn.ExecContext(context.Background(), q); err != nil {
				return t.wrong(err)
			}
		}
		o.Dropped, o.Why = true, forgotten
		return t.turn(operations, r, o.state())
	})
}

// Scrub folds the log into the database and cuts it off, so that what ForgetContent
// overwrote there is not left in the log. The file system may keep freed blocks.
func (j *Journal) Scrub(ctx context.Context) error {
	j.w.turn.Lock()
	defer j.w.turn.Unlock()
	if j.w.closed {
		return op.Fail(op.NotReady, "the journal is closed")
	}
	_, err := j.w.conn.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	if err != nil {
		return ioError("scrub the database", err)
	}
	return nil
}
