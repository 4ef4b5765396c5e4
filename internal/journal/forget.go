package journal

import (
	"context"
	"fmt"
	"time"

	"holdpoint/op"
)

// forgotten is why an operation keeps nothing, not even its diff.
const forgotten = "forgotten"

// Forgotten reports that an operation's content was ended before its time.
func (o Operation) Forgotten() bool { return o.Dropped && o.Why == forgotten }

// ForgetContent ends what the journal keeps of an operation's content: its diff. The row
// stays, and says so; what reply makes of the kept reply takes its place (nil keeps it).
// DURABLE. What the store keeps is the caller's to drop first.
func (j *Journal) ForgetContent(ctx context.Context, id op.ID, reply func([]byte) []byte) error {
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
		if o.Dropped, o.Why = true, forgotten; reply != nil && len(o.Reply) > 0 {
			o.Reply = reply(o.Reply)
		}
		return t.turn(operations, r, o.state())
	})
}

// standStill takes both locks of the writer, when no record ahead is without its
// transaction.
func (w *writer) standStill() {
	for {
		w.turn.Lock()
		w.queueing.Lock()
		if w.ahead.unwritten == 0 || w.broken.Load() != nil {
			return
		}
		w.queueing.Unlock()
		w.turn.Unlock()
		w.j.catchUp()
	}
}

// Scrub writes the database anew, without the bytes of rows that were changed or moved,
// folds the log into it and cuts the log off, so that what was forgotten is in neither.
// It takes as long as the database is big. The file system may keep freed blocks.
func (j *Journal) Scrub(ctx context.Context) error {
	j.w.standStill()
	defer j.w.turn.Unlock()
	defer j.w.queueing.Unlock()
	if err := j.w.usable(); err != nil {
		return err
	}
	if _, err := j.w.conn.ExecContext(ctx, "VACUUM"); err != nil {
		return ioError("scrub the database", err)
	}
	// A reader that is on its way keeps the log; it is soon done.
	for range 20 {
		var busy, pages, folded int
		if err := j.w.conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &folded); err != nil {
			return ioError("scrub the database", err)
		}
		if busy == 0 {
			if err := j.w.ahead.wipe(); err != nil {
				return ioError("scrub its log of intents", err)
			}
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return op.Fail(op.NotReady, "the log of the database is being read, and may still hold what was forgotten").Do("do the same once more")
}
