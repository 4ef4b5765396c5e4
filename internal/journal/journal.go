// Package journal is the only way to the state store: a directory with one SQLite
// database for operations, approvals, tokens, receipts and the audit outbox, the
// daemon's key, and files of bytes named by their BLAKE3 digest.
//
// It knows nothing about workspaces, decides nothing and runs nothing. It does not hide
// the store from other programs of the same user; a digest on each row, keyed with a
// file of the same directory, shows damage and careless edits, not a determined forger.
// An older copy of the whole directory is not told from the newest one.
package journal

import (
	"crypto/rand"
	"database/sql"
	"encoding/base32"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"holdpoint/op"

	"github.com/zeebo/blake3"
)

// Options of Open. The zero value opens what is there and makes nothing.
type Options struct {
	Now       func() time.Time // may be nil: time.Now
	Rand      io.Reader        // may be nil: crypto/rand
	Relaxed   bool             // Begin is LAZY: a power cut may take an edit that was acknowledged, and its undo
	CreatedOK bool             // a directory without a state may become one; else that is op.NotFound
}

// Journal is an open state store. Its methods may be called from any goroutine. Each
// method that writes is one transaction; DURABLE ones return when the disk has it, LAZY
// ones when the operating system has it, which survives the end of this process but not
// of the machine until the next durable one returns.
type Journal struct {
	dir   string
	files *files // lock, head and blobs
	key   []byte
	seal  *blake3.Hasher // keyed for row digests; cloned for each use
	now   func() time.Time
	notes []string

	relaxed bool // see Options

	randMu sync.Mutex // guards rand
	rand   io.Reader

	readers *sql.DB // query_only connections
	read    *statements
	w       writer
}

// Open opens the state directory, or makes it where Options say so: mode 0700, files
// 0600 whatever the umask. It answers op.StateUnsafe for a directory or file that others
// can reach or that somebody else owns, and for a state of a newer program (which it
// does not touch), op.StateLocked while another process has it open, op.StateCorrupt
// when a part that was there is gone or damaged.
func Open(dir string, o Options) (*Journal, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, op.Fail(op.IOError, "the state directory has no absolute path").Because(err)
	}
	f, err := openFiles(dir, o.CreatedOK)
	if err != nil {
		return nil, err
	}
	j := &Journal{dir: dir, files: f, now: o.Now, rand: o.Rand, relaxed: o.Relaxed}
	if err := j.open(o.CreatedOK); err != nil {
		j.Close()
		return nil, err
	}
	return j, nil
}

// open brings key, database and mark together; the lock is held. The mark is written
// last, so that its absence means that making the state was never finished.
func (j *Journal) open(create bool) error {
	marked, err := j.files.mark()
	if err != nil {
		return err
	}
	if marked == "" && !create {
		return op.Fail(op.NotFound, "there is no finished state in "+op.Visible(j.dir, false)).Do("start the daemon once to make one")
	}
	if j.key, err = j.files.loadKey(marked == "", j.rand); err != nil {
		return err
	}
	j.seal = hasher(j.derive("row digests"))
	identity := stateIdentity(j.key)
	if marked != "" && marked != identity {
		return op.Fail(op.StateCorrupt, "the key does not belong to this state").Do("put the key file back that was there")
	}
	if err := j.files.checkDatabase(marked != ""); err != nil {
		return err
	}
	if err := j.openDatabase(identity); err != nil {
		return err
	}
	if marked == "" {
		if err := j.files.writeMark(identity); err != nil {
			return err
		}
	}
	if err := j.files.readyBlobs(); err != nil {
		return err
	}
	if err := j.replayAhead(); err != nil {
		return err
	}
	return j.compareHead()
}

// Close ends the journal and gives the lock back; the journal is of no use after. It
// makes what was written lazily durable.
func (j *Journal) Close() error {
	j.w.queueing.Lock()
	j.w.shut = true
	j.w.queueing.Unlock()
	j.catchUp()
	j.w.turn.Lock()
	closed := j.w.closed
	j.w.closed = true
	j.w.turn.Unlock()
	if closed {
		return nil
	}
	j.w.folds.Wait()
	var errs []error
	if at := j.w.newest.Load(); at != nil {
		errs = append(errs, j.w.flush(at.version)) // the last one: whoever still waits for a flush finds it done
	}
	if j.readers != nil {
		j.read.close()
		errs = append(errs, j.readers.Close())
	}
	errs = append(errs, j.w.ahead.close(j.w.broken.Load() == nil && j.w.ahead.unwritten == 0), j.w.close(), j.files.close()) // the writer's connection is the last: it folds the log into the database
	if err := errors.Join(errs...); err != nil {
		return op.Fail(op.IOError, "the state store did not close cleanly").Because(err)
	}
	return nil
}

// Dir returns the state directory.
func (j *Journal) Dir() string { return j.dir }

// Key returns the 32 random bytes made with the state. Derive from it with a context of
// your own (blake3.DeriveKey); never use it as it is.
func (j *Journal) Key() []byte { return slices.Clone(j.key) }

// Notes tells what Open found wrong and went on with, such as acknowledged records that
// are gone. Empty when all was well.
func (j *Journal) Notes() []string { return slices.Clone(j.notes) }

var idText = base32.StdEncoding.WithPadding(base32.NoPadding)

// NewID makes a name with 128 random bits: the prefix ("op_", "ap_", "tk_") and 26
// letters and digits.
func (j *Journal) NewID(prefix string) op.ID {
	var b [16]byte
	j.randMu.Lock()
	defer j.randMu.Unlock()
	if _, err := io.ReadFull(j.rand, b[:]); err != nil {
		panic("journal: internal error: no randomness: " + err.Error())
	}
	return op.ID(prefix + strings.ToLower(idText.EncodeToString(b[:])))
}

// derive makes a key of its own for one purpose inside this package.
func (j *Journal) derive(purpose string) []byte {
	out := make([]byte, 32)
	blake3.DeriveKey("holdpoint journal 1: "+purpose, j.key, out)
	return out
}

// stateIdentity names a state: mark file and database both hold it, and both must match
// the key.
func stateIdentity(key []byte) string {
	out := make([]byte, 16)
	blake3.DeriveKey("holdpoint journal 1: identity", key, out)
	return strings.ToLower(idText.EncodeToString(out))
}

func hasher(key []byte) *blake3.Hasher {
	h, err := blake3.NewKeyed(key)
	if err != nil {
		panic("journal: internal error: " + err.Error()) // only for a key that is not 32 bytes
	}
	return h
}

// compareHead looks whether the newest acknowledged rows are still there. The head file
// is written after each durable insert without a flush of its own: it never runs ahead of
// what the disk was told to keep, so a database behind it has lost rows.
func (j *Journal) compareHead() error {
	head, ok, err := j.files.readHead()
	if err != nil {
		return err
	}
	if !ok {
		return nil
	}
	for i, t := range headed {
		have := j.w.next[t.index] - 1
		if lost := head[i] - have; lost > 0 {
			j.notes = append(j.notes, gap(t.name, have+1, head[i])+" acknowledged and now gone: the database or its log was cut or replaced")
			j.w.next[t.index] = head[i] + 1 // numbers are never given twice, so that the gap stays visible
		}
	}
	return nil
}

func sameFile(a, b os.FileInfo) bool { return a != nil && b != nil && os.SameFile(a, b) }
