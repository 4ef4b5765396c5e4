package journal

import (
	"context"

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
		if _, err := t.w.conn.ExecContext(context.Background(), "DELETE FROM diffs WHERE seq = ?", r.seq); err != nil {
			return t.wrong(err)
		}
		o.Dropped, o.Why = true, forgotten
		return t.turn(operations, r, o.state())
	})
}

// Scrub overwrites what was deleted from the database and its log.
func (j *Journal) Scrub(ctx context.Context) error {
	j.w.turn.Lock()
	defer j.w.turn.Unlock()
	if j.w.closed {
		return op.Fail(op.NotReady, "the journal is closed")
	}
	_, err := j.w.conn.ExecContext(ctx, "PRAGMA secure_delete = ON; VACUUM; PRAGMA wal_checkpoint(TRUNCATE);")
	if err != nil {
		return ioError("scrub the database", err)
	}
	return nil
}
