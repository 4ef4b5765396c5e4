// Package audit keeps the record of decisions: a file of JSON lines to which it only ever
// appends, each line naming the hash of the line before.
//
// It holds no paths, arguments or content. The chain shows a change, a gap or a swap
// inside the file to anyone; that the end was cut off, or that the whole file was written
// anew, shows only against a Head kept elsewhere. Lines are not flushed one by one: the
// journal holds each until Sync has returned, and puts back what a power cut took
// (AppendUnique). It does not rotate.
package audit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"holdpoint/op"
)

// FileName is the log's name in its directory.
const FileName = "audit.jsonl"

// Options of Open.
type Options struct {
	Now  func() time.Time // may be nil: the system's clock
	Head *Head            // may be nil; else the log must still reach it
}

// Log is an open audit log. Its methods may be called from several goroutines.
type Log struct {
	dir       string
	key       []byte
	now       func() time.Time
	recovered string

	mu       sync.Mutex // guards all below, and the order of lines
	f        *os.File   // nil when closed
	file     identity
	at       link
	size     int64
	reserved int64           // the file owns room up to here
	failed   error           // set when the file may hold half a line; ends all writing
	recent   map[string]bool // what AppendUnique must not write again
	order    []string        // recent, oldest first
}

// Open opens or creates the log in dir, the directory 0700 and the file 0600; where they
// are there already but others can reach them it is state_unsafe. An unfinished last line,
// as a crash leaves it, is dropped and told by Recovered. A chain that is broken within the
// last MiB is state_corrupt and nothing is changed; Verify reads all of it. One process at
// a time holds a log: a second gets state_locked.
func Open(dir string, key []byte, o Options) (_ *Log, err error) {
	if err := supported(); err != nil {
		return nil, err
	}
	if len(key) < 16 {
		return nil, op.Fail(op.Internal, "the audit key is missing or short")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Head != nil {
		if err := checkSeal(key, *o.Head); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, systemError(err, "the audit directory cannot be made")
	}
	if err := checkOwned(dir, fs.ModeDir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, FileName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|openFlags, 0o600)
	if err != nil {
		return nil, systemError(err, "the audit log cannot be opened")
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if err := checkOwned(path, 0); err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		return nil, err
	}
	l := &Log{dir: dir, key: append([]byte(nil), key...), now: o.Now, f: f, recent: map[string]bool{}}
	if err := l.load(o.Head); err != nil {
		return nil, err
	}
	if l.file, err = identify(f); err != nil {
		return nil, err
	}
	return l, nil
}

// checkOwned refuses a directory or file that others could have prepared or can reach.
func checkOwned(path string, kind fs.FileMode) error {
	info, err := os.Lstat(path)
	if err != nil {
		return systemError(err, "the audit log cannot be looked at")
	}
	refuse := func(what string) error {
		return op.Fail(op.StateUnsafe, fmt.Sprintf("%s %s", path, what)).
			Do("move it away, or give it to the daemon's user with mode 0700 (directory) or 0600 (file)")
	}
	switch {
	case info.Mode().Type() != kind:
		return refuse("is not what it should be: " + info.Mode().String())
	case info.Mode().Perm()&0o077 != 0:
		return refuse("can be reached by others: " + info.Mode().String())
	case !ownedByUs(info):
		return refuse("belongs to another user, or has a second name")
	}
	return nil
}

// load reads the tail: it drops what a crash left behind the last whole line, checks the
// chain of the rest and learns where to go on.
func (l *Log) load(head *Head) error {
	info, err := l.f.Stat()
	if err != nil {
		return systemError(err, "the audit log cannot be read")
	}
	t, err := readTail(l.f, info.Size(), tailWindow)
	if err != nil {
		return err
	}
	records, fail := t.check()
	if fail != nil {
		return fail
	}
	l.size = t.whole
	l.at = t.at
	for _, r := range records {
		l.remember(unique(r))
	}
	if head != nil {
		if err := t.reaches(*head); err != nil {
			return err
		}
	}
	if t.torn == 0 {
		return nil
	}
	if err := l.f.Truncate(t.whole); err != nil {
		return systemError(err, "the unfinished last audit record cannot be dropped")
	}
	if err := l.f.Sync(); err != nil {
		return systemError(err, "the audit log cannot be flushed")
	}
	l.recovered = fmt.Sprintf("the last audit record was unfinished: %d bytes after record %d were dropped", t.torn, l.at.seq)
	return nil
}

// Recovered tells what Open dropped; empty when nothing.
func (l *Log) Recovered() string { return l.recovered }

// Append writes r as the next line with one write and returns it as written: seq, time
// and prev are set here, labels escaped. After a failed write the log is as before, or
// takes nothing more.
func (l *Log) Append(r Record) (Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.append(r)
}

// AppendUnique is Append for a record that may have been written before: it writes nothing
// and returns false when key was given to it since Open, or when a line with the same kind,
// operation and approval is among the last (all of the last MiB when the log was opened,
// and 4,096 since). It is how the journal's outbox is put back after a crash.
func (l *Log) AppendUnique(key string, r Record) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.recent["key "+key] || l.recent[unique(clean(r))] {
		return false, nil
	}
	if _, err := l.append(r); err != nil {
		return false, err
	}
	if key != "" {
		l.remember("key " + key)
	}
	return true, nil
}

func (l *Log) append(r Record) (Record, error) {
	if err := l.usable(); err != nil {
		return Record{}, err
	}
	r = clean(r)
	r.Seq, r.Prev, r.Time = l.at.seq+1, l.at.hash, l.now().UTC().Round(0)
	line := append(appendLine(make([]byte, 0, 1024), r), '\n')
	if err := l.fits(int64(len(line))); err != nil {
		return Record{}, err
	}
	if n, err := l.f.Write(line); err != nil {
		if n > 0 {
			l.takeBack()
		}
		return Record{}, systemError(err, "the audit record cannot be written")
	}
	l.size += int64(len(line))
	l.at = link{r.Seq, hashLine(line[:len(line)-1])}
	l.remember(unique(r))
	return r, nil
}

// takeBack removes half a line. Where that fails no further line may follow it.
func (l *Log) takeBack() {
	l.reserved = 0
	if err := l.f.Truncate(l.size); err != nil {
		l.failed = op.Fail(op.IOError, "the audit log holds half a record and takes no more").
			Do("free the disk and restart the daemon").Because(err)
	}
}

// unique is what tells records apart that may come twice; empty for those that never do.
func unique(r Record) string {
	if r.OperationID == "" && r.ApprovalID == "" {
		return ""
	}
	return r.Kind + " " + string(r.OperationID) + " " + string(r.ApprovalID)
}

const remembered = 4096

func (l *Log) remember(k string) {
	if k == "" || l.recent[k] {
		return
	}
	l.recent[k] = true
	l.order = append(l.order, k)
	if len(l.order) > 2*remembered {
		for _, old := range l.order[:remembered] {
			delete(l.recent, old)
		}
		l.order = append([]string(nil), l.order[remembered:]...)
	}
}

// Sync flushes all lines to the disk. Until it has returned, a power cut may take the last
// ones, so whoever holds copies (the journal's outbox) keeps them until then.
func (l *Log) Sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sync()
}

func (l *Log) sync() error {
	if err := l.usable(); err != nil {
		return err
	}
	if err := l.f.Sync(); err != nil {
		// What was flushed is unknown from here on, and asking again would not tell.
		l.failed = op.Fail(op.IOError, "the audit log could not be flushed").Because(err)
		return l.failed
	}
	return nil
}

// Head flushes the log and names its last record, sealed.
func (l *Log) Head() (Head, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.sync(); err != nil {
		return Head{}, err
	}
	h := Head{Seq: l.at.seq, Hash: l.at.hash, Time: l.now().UTC().Round(0)}
	h.Seal = seal(l.key, h)
	return h, nil
}

// Tail returns the last n records, oldest first.
func (l *Log) Tail(n int) ([]Record, error) {
	l.mu.Lock()
	f, size := l.f, l.size
	l.mu.Unlock()
	if f == nil {
		return nil, op.Fail(op.IOError, "the audit log is closed")
	}
	return lastRecords(f, size, n)
}

// Close flushes and closes the log. The room reserved stays with the file, so that a
// daemon can start on a disk that is full.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	err := l.f.Sync()
	if e := l.f.Close(); err == nil {
		err = e
	}
	l.f = nil
	return systemError(err, "the audit log cannot be closed")
}

// systemError gives a failure of the system its code; nil stays nil.
func systemError(err error, sentence string) error {
	if err == nil {
		return nil
	}
	var known *op.Error
	if errors.As(err, &known) {
		return known
	}
	e := op.Fail(codeOf(err), sentence).Because(err)
	switch e.Code {
	case op.NoSpace:
		return e.Do("free some room on the disk that holds the state directory")
	case op.ReadOnlyFilesystem:
		return e.Do("make the disk that holds the state directory writable")
	}
	return e
}

func broken(n int64, what string) *op.Error {
	return op.Fail(op.StateCorrupt, fmt.Sprintf("audit record %d %s", n, what)).
		Do("keep the file as it is and compare it with a copy or a head kept elsewhere")
}

var _ io.Closer = (*Log)(nil)
