package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"holdpoint/op"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// writer is the one connection that writes. A write has two halves: in a turn it is
// committed to the write-ahead log without a flush (synchronous = NORMAL), together with
// all that waited; then, if it shall be durable, the log is flushed, while the next turn
// already runs. A flush of the log makes every earlier commit durable too, the lazy ones
// with it; a row may be read a moment before it is durable, but is not acknowledged.
type writer struct {
	j  *Journal
	db *sql.DB

	queueing sync.Mutex // guards the fields down to ahead
	queue    []*job
	led      bool          // somebody has the lead
	patience time.Duration // how long what was posted may wait
	armed    bool          // somebody is about to write what was posted
	solid    int           // jobs queued or running that no record ahead may overtake
	barrier  int64         // version of the newest of them that was written
	shut     bool
	ahead    ahead

	posted atomic.Int64 // how much was and is not written yet

	turn    sync.Mutex // held during a transaction; guards the fields down to folds
	conn    *sql.Conn
	closed  bool
	version int64              // transactions committed since Open
	next    [len(tables)]int64 // the number that the next row of each table gets
	lines   int64              // the same for the outbox

	folds   sync.WaitGroup // the background folding of the log
	folding atomic.Bool

	newest atomic.Pointer[point]    // after the newest commit
	broken atomic.Pointer[op.Error] // the first failure after which the disk's content is not known

	flushing sync.Mutex // held during a flush; guards log and flushed
	log      *os.File
	flushed  point
	durable  atomic.Int64 // flushed.version, for who does not want to wait
	flushes  Times        // how long they took

	begin, commit, rollback, save, release, back                                                                   *sql.Stmt
	insert, state, byName, turnTo                                                                                  [len(tables)]*sql.Stmt
	addContent, content, addPath, addSlot, addSnapshot, addDiff, addBasis, addLine, dropLine, setMeta, dropReceipt *sql.Stmt
}

// point is how far the journal was at one commit.
type point struct {
	version int64
	heads   [len(headed)]int64
}

// tx is one transaction. It ends with the function it is handed to.
type tx struct {
	w *writer
	j *Journal
}

const (
	durable = true
	lazy    = false
)

// fatal marks a failure of the database, as against a refusal of a change.
type fatal struct{ err error }

func (f fatal) Error() string { return f.err.Error() }
func (f fatal) Unwrap() error { return f.err }

// job is one caller's transaction on its way.
type job struct {
	ctx  context.Context
	keep bool
	do   func(*tx) error
	err  error
	lead chan bool // true: take the next turn; false: err is the outcome
	post bool      // nobody waits for it

	apart  bool  // a record ahead may be durable before it
	record int64 // its own record's mark, of an intent that has one
}

// write runs do as one transaction and returns when it is kept as asked. When do fails
// nothing of it stays. A caller that goes away before its turn has written nothing; after
// that it gets the true outcome.
func (j *Journal) write(ctx context.Context, keep bool, do func(*tx) error) error {
	return j.w.through(&job{ctx: ctx, keep: keep, do: do})
}

// through queues a job and returns when it is done.
func (w *writer) through(me *job) error {
	me.lead = make(chan bool, 1)
	w.queueing.Lock()
	w.enqueue(me)
	first := !w.led
	w.led = true
	w.queueing.Unlock()
	if first || <-me.lead {
		w.lead()
	}
	return me.err
}

// enqueue adds a job; queueing is held.
func (w *writer) enqueue(b *job) {
	w.queue = append(w.queue, b)
	if !b.apart {
		w.solid++
	}
	if b.post {
		w.posted.Add(1)
	}
}

// lead takes all that wait through one turn, passes the lead on, and flushes beside the
// next turn. Its caller's own job is among them.
func (w *writer) lead() {
	w.turn.Lock()
	w.queueing.Lock()
	batch := w.queue
	w.queue = nil
	w.queueing.Unlock()
	version := w.run(batch)
	w.turn.Unlock()

	w.queueing.Lock()
	owed := w.written(batch, version)
	w.led = false
	if next := slices.IndexFunc(w.queue, func(b *job) bool { return !b.post }); next >= 0 {
		w.led = true
		w.queue[next].lead <- true
	} else if len(w.queue) > owed || w.holdsUp() {
		w.arm()
	}
	w.queueing.Unlock()
	var flushed error
	for _, b := range batch {
		if b.err == nil && b.keep {
			flushed = w.flush(version)
			break
		}
	}
	for _, b := range batch {
		if b.post {
			continue
		}
		if b.err == nil && b.keep {
			b.err = flushed
		}
		b.lead <- false
	}
}

// written counts a batch off. What was posted and could not be written for want of room, or
// because the database was locked, goes first in the next turn; it tells how much that is.
// queueing is held.
func (w *writer) written(batch []*job, version int64) int {
	var owed []*job
	for _, b := range batch {
		if !b.apart {
			w.solid--
			w.barrier = max(w.barrier, version)
		}
		if b.post && (errors.Is(b.err, op.NoSpace) || errors.Is(b.err, op.NotReady)) {
			owed = append(owed, b)
			continue
		}
		if b.post {
			w.posted.Add(-1)
		}
		if b.record > 0 {
			w.ahead.unwritten--
			w.ahead.last = max(w.ahead.last, version)
		}
	}
	for _, b := range owed {
		if !b.apart {
			w.solid++
		}
	}
	w.queue = append(owed, w.queue...)
	return len(owed)
}

// post queues a lazy transaction that nobody waits for: it is written at once, by somebody
// else. Every later write, and every read of this journal, finds it done.
func (w *writer) post(b *job) {
	b.ctx, b.post = context.Background(), true
	w.queueing.Lock()
	defer w.queueing.Unlock()
	w.enqueue(b)
	if !w.led {
		w.arm()
	}
}

// postedWait is how long what nobody waits for is left alone, so that the end of one edit
// and the beginning of the next become one transaction. Whoever reads or writes comes first
// and takes it along; a kill leaves it to the log of intents and the next start.
const postedWait = 5 * time.Millisecond

// arm sees to what was posted, and flushes what no record may go ahead of; queueing is held.
func (w *writer) arm() {
	if w.armed {
		return
	}
	w.armed = true
	time.AfterFunc(w.patience, func() {
		w.queueing.Lock()
		w.armed = false
		mine := !w.led && len(w.queue) > 0
		w.led = w.led || mine
		w.queueing.Unlock()
		if mine {
			w.lead()
		}
		w.queueing.Lock()
		flush, barrier := w.holdsUp(), w.barrier
		w.queueing.Unlock()
		if flush {
			_ = w.flush(barrier) // a failure is told to the next writer
		}
	})
}

// holdsUp reports whether something that nobody flushes keeps intents from going ahead;
// queueing is held.
func (w *writer) holdsUp() bool {
	return w.ahead.usable && !w.j.relaxed && !w.shut && w.newest.Load() != nil && w.durable.Load() < w.barrier
}

// catchUp returns when what was posted before is written.
func (j *Journal) catchUp() {
	if j.w.posted.Load() > 0 {
		// Turns are taken in order. A failure is the next writer's to report.
		_ = j.w.through(&job{ctx: context.Background(), apart: true, do: func(*tx) error { return nil }})
	}
}

func gone(err error) error {
	return op.Fail(op.Cancelled, "the caller went away before the journal was written").Because(err)
}

// run does the first half for a batch and returns the version to flush up to. A failure of
// the database is everyone's; a refusal is one's own.
func (w *writer) run(batch []*job) int64 {
	before := w.next
	err := w.usable()
	if err == nil {
		err = w.transact(batch)
	}
	if err != nil {
		w.next = before
		for _, b := range batch {
			b.err = err
		}
		return 0
	}
	w.version++
	now := &point{version: w.version}
	for i, t := range headed {
		now.heads[i] = w.next[t.index] - 1
	}
	w.newest.Store(now)
	w.noticeLog()
	return w.version
}

func (w *writer) usable() error {
	if w.closed {
		return op.Fail(op.NotReady, "the state store is closed")
	}
	if broken := w.broken.Load(); broken != nil {
		return broken
	}
	return nil
}

// transact runs the functions of a batch in one database transaction, each in a savepoint
// of its own, so that a refused one leaves no trace and the others alone. One that is
// alone needs none.
func (w *writer) transact(batch []*job) error {
	if err := w.exec(w.begin); err != nil {
		return w.failed(err)
	}
	if len(batch) == 1 {
		return w.alone(batch[0])
	}
	for _, b := range batch {
		if b.err = b.ctx.Err(); b.err != nil {
			b.err = gone(b.err)
			continue
		}
		before := w.next
		if err := w.exec(w.save); err != nil {
			return w.failed(err)
		}
		b.err = b.call(&tx{w, w.j})
		var lost fatal
		if errors.As(b.err, &lost) {
			return w.failed(lost.err)
		}
		if b.err != nil {
			w.next = before
			if err := w.exec(w.back); err != nil {
				return w.failed(err)
			}
		}
		if err := w.exec(w.release); err != nil {
			return w.failed(err)
		}
	}
	if err := w.exec(w.commit); err != nil {
		return w.failed(err)
	}
	return nil
}

// call runs a job's function. A panic in it counts as a failure of the database: it would
// end this caller's request alone, with the turn still held, and everybody who comes after
// would wait for ever.
func (b *job) call(t *tx) (err error) {
	defer func() {
		if what := recover(); what != nil {
			err = fatal{fmt.Errorf("internal error: %v\n%s", what, debug.Stack())}
		}
	}()
	return b.do(t)
}

// alone is transact for one job: a refusal takes the whole transaction back.
func (w *writer) alone(b *job) error {
	end, before := w.commit, w.next
	if b.err = b.ctx.Err(); b.err != nil {
		b.err = gone(b.err)
	} else {
		b.err = b.call(&tx{w, w.j})
	}
	var lost fatal
	if errors.As(b.err, &lost) {
		return w.failed(lost.err)
	}
	if b.err != nil {
		end, w.next = w.rollback, before
	}
	if err := w.exec(end); err != nil {
		return w.failed(err)
	}
	return nil
}

// flush does the second half. An error here means that a commit may or may not survive,
// and asking the kernel again could wrongly say that it does.
func (w *writer) flush(version int64) error {
	w.flushing.Lock()
	defer w.flushing.Unlock()
	if w.flushed.version >= version {
		return nil
	}
	if broken := w.broken.Load(); broken != nil {
		return broken
	}
	upTo := *w.newest.Load()
	began := time.Now()
	if err := datasync(w.log); err != nil {
		return w.poison(err)
	}
	w.flushes.Add(time.Since(began))
	if upTo.heads != w.flushed.heads {
		// A head that cannot be written loses a check, nothing else: see compareHead.
		_ = w.j.files.writeHead(upTo.heads[0], upTo.heads[1])
	}
	w.flushed = upTo
	w.durable.Store(upTo.version)
	return nil
}

// failed ends a transaction that the database could not do. A full disk, and a lock that
// somebody's database shell holds, leave the journal usable: SQLite found out before
// anything was flushed and takes all of it back.
func (w *writer) failed(err error) error {
	back := w.exec(w.rollback) // answers with an error when SQLite has done it by itself
	if sqliteCode(err) == sqlite3.SQLITE_FULL && (back == nil || sqliteCode(back) == sqlite3.SQLITE_ERROR) {
		return op.Fail(op.NoSpace, "there is no room for the journal").Because(err).Do("make room on the disk that holds the state directory")
	}
	if sqliteCode(err) == sqlite3.SQLITE_BUSY {
		return op.Fail(op.NotReady, "another program keeps the database of the state locked").Because(err).Do("end the program that has it open")
	}
	return w.poison(err)
}

// poison stops all acknowledging until the state has been opened anew.
func (w *writer) poison(err error) error {
	w.broken.CompareAndSwap(nil, op.Fail(op.IOError, "the journal could not be written; nothing more is acknowledged until it is opened anew").
		Because(err).Do("look at the disk, then start the daemon again"))
	return w.broken.Load()
}

func (w *writer) exec(s *sql.Stmt) error {
	_, err := s.ExecContext(context.Background())
	return err
}

// exec runs one statement. A refusal by a trigger or an index fails this change alone;
// all else is fatal.
func (t *tx) exec(s *sql.Stmt, args ...any) (int64, error) {
	result, err := s.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, t.wrong(err)
	}
	n, err := result.RowsAffected()
	return n, err
}

func (t *tx) wrong(err error) error {
	if sqliteConstraint(err) {
		return op.Fail(op.Internal, "the journal refused a change: "+err.Error()).Because(err)
	}
	return fatal{err}
}

// insert adds a row and returns its number.
func (t *tx) insert(tb *table, terms, state []any) (int64, error) {
	r := row{seq: t.w.next[tb.index], terms: terms}
	args := make([]any, 0, len(terms)+len(state)+3)
	args = append(append(append(args, r.seq), terms...), t.j.termsDigest(tb, r))
	args = append(append(args, state...), t.j.stateMark(tb, r.seq, state))
	if _, err := t.exec(t.w.insert[tb.index], args...); err != nil {
		return 0, err
	}
	if !tb.byName {
		t.w.next[tb.index]++
	}
	return r.seq, nil
}

// stateOf reads the state of a row, checked.
func (t *tx) stateOf(tb *table, name string) (row, error) {
	cells := make([]any, len(tb.state)+2)
	into := make([]any, len(cells))
	for i := range cells {
		into[i] = &cells[i]
	}
	if err := t.w.state[tb.index].QueryRowContext(context.Background(), name).Scan(into...); err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			return row{}, missing(tb)
		}
		return row{}, fatal{err}
	}
	r := row{name: name, state: cells[1 : len(cells)-1]}
	r.seq, _ = cells[0].(int64)
	r.mark, _ = cells[len(cells)-1].([]byte)
	if string(r.mark) != string(t.j.stateMark(tb, r.seq, r.state)) {
		return r, corrupt(tb, r.seq, name)
	}
	return r, nil
}

// row reads a whole row, checked.
func (t *tx) row(tb *table, name string) (row, error) {
	r, err := t.j.scan(tb, t.w.byName[tb.index].QueryRowContext(context.Background(), name))
	var known *op.Error
	switch {
	case err == nil || errors.As(err, &known):
		return r, err
	case errors.Is(err, sql.ErrNoRows):
		return r, missing(tb)
	}
	return r, fatal{err}
}

// turn puts a new state in place of the one that was read: one conditional update.
func (t *tx) turn(tb *table, from row, state []any) error {
	args := append(append(make([]any, 0, len(state)+4), state...), t.j.stateMark(tb, from.seq, state), from.name, from.seq, from.mark)
	n, err := t.exec(t.w.turnTo[tb.index], args...)
	if err == nil && n != 1 {
		err = op.Fail(op.Internal, fmt.Sprintf("the state of %s record %d moved within a transaction", tb.what, from.seq))
	}
	return err
}

func sqliteConstraint(err error) bool { return sqliteCode(err) == sqlite3.SQLITE_CONSTRAINT }

// sqliteCode is the primary part of a result code, 0 for other errors.
func sqliteCode(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}
