package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"holdpoint/op"
)

// ahead is a log beside the database for the intents of edits. A transaction of the
// database dirties many pages of a log that grows; the same intent here is one record in a
// file whose blocks are on the disk already, and its flush is the cheapest there is. The
// caller waits for that alone: the transaction is written after it, together with the
// commit, or before whatever is written or read next.
//
// A record is good only until the database's own log is flushed past its transaction. Open
// puts those that the database lacks into it, in their order. So that a record stands on
// nothing that can be lost, an intent goes here only while all that was written before is
// flushed, but for other such intents and their commits, which a start finds out from the
// workspace; and only an intent that the database has no reason to refuse.
type ahead struct {
	file   *os.File
	size   int64        // how much of it records may fill
	usable bool         // all of it is on the disk, so that a record's flush is of the record alone
	count  atomic.Int64 // records so far

	// Guarded by the writer's queueing.
	at        int64  // where the next record goes
	epoch     uint64 // of the records since the file was last begun anew
	full      bool   // a flush of the database's log is needed to begin anew
	unwritten int    // records whose transactions are not written yet
	last      int64  // version of the newest that is

	mu   sync.Mutex
	open map[op.ID]bool // guarded by mu: whose end is to come, and is found out by a start

	flushing sync.Mutex // held during a flush; guards done
	done     int64      // records on the disk
}

const (
	aheadName = "ahead"
	aheadSize = 1 << 20
	aheadMost = aheadSize / 8 // of one record
	headerLen = 16            // epoch, length
	digestLen = 32
)

// openAhead makes the file where there is none. Without room for it every intent waits for
// the database's log.
func (j *Journal) openAhead() (err error) {
	a := &j.w.ahead
	a.open, a.size = map[op.ID]bool{}, aheadSize
	var seed [8]byte
	if _, err := io.ReadFull(j.rand, seed[:]); err != nil {
		return ioError("begin its log of intents", err)
	}
	a.epoch = binary.BigEndian.Uint64(seed[:]) | 1
	if a.file, err = j.files.root.OpenFile(aheadName, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return ioError("open its log of intents", err)
	}
	info, err := a.file.Stat()
	if err == nil && info.Size() < aheadSize {
		// Written, not only reserved: else the first flush of each block would have to say
		// in the inode that it is in use.
		if _, err = a.file.WriteAt(make([]byte, aheadSize-info.Size()), info.Size()); err == nil {
			err = errors.Join(a.file.Sync(), j.files.sync("."))
		}
	}
	a.usable = err == nil
	return nil
}

// intentAhead puts an edit's intent into the log, if it may go there, and its transaction
// into the queue. The mark is what to wait for; 0 says that nothing was done.
func (w *writer) intentAhead(o Operation, terms []any, do func(*tx) error) (mark int64) {
	a, body := &w.ahead, bodyAhead(o, terms)
	if !a.usable || body == nil {
		return 0
	}
	w.queueing.Lock()
	defer w.queueing.Unlock()
	if w.shut || w.broken.Load() != nil || w.solid > 0 || w.durable.Load() < w.barrier && !w.j.relaxed {
		return 0
	}
	size := int64(headerLen + len(body) + digestLen)
	if a.at+size > a.size {
		if a.unwritten > 0 || w.durable.Load() < a.last {
			a.full = true
			return 0 // the flush that this causes makes room
		}
		a.full = false
		a.at, a.epoch = 0, a.epoch+1
	}
	if _, err := a.file.WriteAt(w.j.frame(a.epoch, body), a.at); err != nil {
		return 0
	}
	a.at += size
	a.unwritten++
	a.mu.Lock()
	a.open[o.ID] = true
	a.mu.Unlock()
	mark = a.count.Add(1)
	w.enqueue(&job{ctx: context.Background(), do: do, post: true, apart: true, record: mark})
	return mark
}

// aheadFull reports whether a flush would make room.
func (w *writer) aheadFull() bool {
	w.queueing.Lock()
	defer w.queueing.Unlock()
	return w.ahead.full
}

// began is for an operation whose intent is on the disk in the database: records may go
// ahead of its commit too. Else the commit of the first edit, which nobody flushes, would
// hold up the intents of all that follow.
func (a *ahead) began(id op.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open[id] = true
}

// ended forgets an operation, and reports whether a record here may go ahead of its commit.
func (a *ahead) ended(id op.ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	had := a.open[id]
	delete(a.open, id)
	return had
}

// syncAhead returns when the first mark records are on the disk.
func (w *writer) syncAhead(mark int64) error {
	a := &w.ahead
	a.flushing.Lock()
	defer a.flushing.Unlock()
	if a.done >= mark {
		return nil
	}
	if broken := w.broken.Load(); broken != nil {
		return broken
	}
	upTo, began := a.count.Load(), time.Now()
	if err := datasync(a.file); err != nil {
		return w.poison(err)
	}
	w.flushes.Add(time.Since(began))
	a.done = upTo
	return nil
}

// wipe ends all records, for good; the database has them on the disk. queueing is held, and
// nothing is queued.
func (a *ahead) wipe() error {
	a.at, a.epoch = 0, a.epoch+1
	if _, err := a.file.WriteAt(make([]byte, aheadSize), 0); err != nil {
		return err
	}
	return datasync(a.file)
}

// close ends the log; a clean one has nothing that the database lacks.
func (a *ahead) close(clean bool) error {
	if a.file == nil {
		return nil
	}
	a.flushing.Lock()
	defer a.flushing.Unlock()
	var err error
	if clean {
		_, err = a.file.WriteAt(make([]byte, headerLen), 0)
	}
	return errors.Join(err, a.file.Close())
}

// onlySwaps reports whether all that an operation does is to swap files that nothing else
// hangs on, so that its end stands in the workspace alone.
func onlySwaps(o Operation) bool {
	other := func(s op.Step) bool { return s.Do != op.Swap }
	return o.Undoes == "" && o.ApprovalID == "" && len(o.Steps) > 0 && !slices.ContainsFunc(o.Steps, other)
}

// bodyAhead is the content of a record, nil where an operation does not qualify: only
// swaps of files that nothing else hangs on, and nothing that could be refused.
func bodyAhead(o Operation, terms []any) []byte {
	if o.RequestID != "" || !onlySwaps(o) {
		return nil
	}
	body := make([]byte, 0, 4096+len(o.Diff)+len(o.Basis))
	for _, v := range append(slices.Clone(terms), full(o.Diff), full(o.Basis), o.AuditKey, full(o.AuditLine)) {
		switch v := v.(type) {
		case int64:
			body = binary.BigEndian.AppendUint64(append(body, 'i'), uint64(v))
		case string:
			body = append(binary.BigEndian.AppendUint64(append(body, 's'), uint64(len(v))), v...)
		case []byte:
			body = append(binary.BigEndian.AppendUint64(append(body, 'b'), uint64(len(v))), v...)
		}
	}
	if len(body) > aheadMost {
		return nil
	}
	return body
}

// valuesOf reads a body back; its digest held.
func valuesOf(body []byte) (out []any) {
	for len(body) >= 9 {
		kind, n := body[0], binary.BigEndian.Uint64(body[1:])
		if body = body[9:]; kind == 'i' {
			out = append(out, int64(n))
			continue
		}
		if n > uint64(len(body)) {
			return nil
		}
		if kind == 's' {
			out = append(out, string(body[:n]))
		} else {
			out = append(out, bytes.Clone(body[:n]))
		}
		body = body[n:]
	}
	return out
}

// frame is a record as it stands in the file.
func (j *Journal) frame(epoch uint64, body []byte) []byte {
	out := make([]byte, 0, headerLen+len(body)+digestLen)
	out = binary.BigEndian.AppendUint64(out, epoch)
	out = append(binary.BigEndian.AppendUint64(out, uint64(len(body))), body...)
	return append(out, j.digest("intent ahead", int64(epoch), []any{body})...)
}

// recordsAhead reads the bodies of the newest epoch as far as they are whole.
func (j *Journal) recordsAhead() (out [][]byte, err error) {
	file := j.w.ahead.file
	head := make([]byte, headerLen)
	if n, err := file.ReadAt(head, 0); n < headerLen || bytes.Equal(head, make([]byte, headerLen)) {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return nil, err
	}
	all, err := io.ReadAll(io.NewSectionReader(file, 0, aheadSize))
	for epoch := binary.BigEndian.Uint64(head); len(all) >= headerLen && binary.BigEndian.Uint64(all) == epoch; {
		size := binary.BigEndian.Uint64(all[8:])
		end := headerLen + size + digestLen
		if size > aheadMost || end > uint64(len(all)) {
			break
		}
		body := all[headerLen : headerLen+size]
		if !bytes.Equal(all[headerLen+size:end], j.digest("intent ahead", int64(epoch), []any{body})) {
			break
		}
		out, all = append(out, body), all[end:]
	}
	return out, err
}

// replayAhead puts into the database what only the log has: what a kill left in the queue,
// and what a power cut took of the database's own log.
func (j *Journal) replayAhead() error {
	bodies, err := j.recordsAhead()
	if err != nil {
		return ioError("read its log of intents", err)
	}
	for _, body := range bodies {
		v, n := valuesOf(body), len(operations.terms)
		if len(v) != n+4 {
			return op.Fail(op.StateUnsafe, "the log of intents was written by a newer program; nothing was touched").Do("use the program that wrote it")
		}
		o, _, err := operationOf(row{terms: v[:n], state: Operation{State: Intent}.state()})
		if err != nil {
			return err
		}
		if _, err := j.one(context.Background(), operations, string(o.ID)); !errors.Is(err, op.NotFound) {
			continue // it is there; whether it is as it was written is the check's to say
		}
		more := cells{v: v[n:]}
		o.Diff, o.Basis, o.AuditKey, o.AuditLine = more.blob(), more.blob(), more.str(), more.blob()
		if err := j.write(context.Background(), durable, func(t *tx) error { return t.begin(o, v[:n], o.state()) }); err != nil {
			return err
		}
	}
	return nil
}
