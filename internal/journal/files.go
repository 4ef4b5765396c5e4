package journal

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"holdpoint/op"
)

// Names in the state directory that belong to this package.
const (
	lockName  = "lock"
	keyName   = "key"
	markName  = "mark"
	headName  = "head"
	dataName  = "journal.db"
	blobsName = "blobs"
	tempMark  = "tmp-" // begins the name of a file that is still being written
)

const markText = "holdpoint state, schema %d, identity %s\n"

// files holds the state directory open, and the lock. All but the database, which
// SQLite opens by path, is reached through the handle.
type files struct {
	dir  string
	root *os.Root
	lock *os.File
	head *os.File // may be nil until the first durable insert
}

// openFiles checks the directory, makes it if it may, and takes the lock.
func openFiles(dir string, create bool) (*files, error) {
	if err := safeDirectory(dir, create); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, ioError("open the state directory", err)
	}
	f := &files{dir: dir, root: root}
	if err := f.secure(); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// secure looks once more through the handle and at each file, then takes the lock.
func (f *files) secure() error {
	byPath, err := os.Lstat(f.dir)
	if err != nil {
		return ioError("look at the state directory", err)
	}
	if held, err := f.root.Stat("."); err != nil || !sameFile(held, byPath) {
		return unsafePlace(f.dir, "was exchanged while it was opened")
	}
	for _, name := range []string{lockName, keyName, markName, headName, dataName, dataName + "-wal", dataName + "-shm", aheadName, blobsName} {
		if err := f.safeEntry(name); err != nil {
			return err
		}
	}
	if f.lock, err = f.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return ioError("open the lock", err)
	}
	return lockFile(f.lock)
}

func (f *files) safeEntry(name string) error {
	info, err := f.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return ioError("look at "+name, err)
	}
	path := filepath.Join(f.dir, name)
	switch {
	case name == blobsName && !info.IsDir():
		return unsafePlace(path, "is not a directory")
	case name != blobsName && !info.Mode().IsRegular():
		return unsafePlace(path, "is not a regular file")
	}
	return safeOwner(path, info)
}

func (f *files) close() error {
	var errs []error
	for _, c := range []*os.File{f.head, f.lock} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(append(errs, f.root.Close())...)
}

// mark returns the identity in the mark file, "" when there is none.
func (f *files) mark() (string, error) {
	text, err := f.root.ReadFile(markName)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", ioError("read the mark", err)
	}
	var version int
	var identity string
	n, _ := fmt.Sscanf(string(text), markText, &version, &identity)
	switch {
	case n >= 1 && (version < 1 || version > schemaVersion):
		return "", otherSchema(version)
	case n != 2:
		return "", op.Fail(op.StateCorrupt, "the mark file of the state is damaged").Do("put it back, or move the directory away to begin anew")
	}
	return identity, nil
}

func (f *files) writeMark(identity string) error {
	return f.write(markName, fmt.Appendf(nil, markText, schemaVersion, identity))
}

// loadKey reads the key, or makes it for a state that was never finished.
func (f *files) loadKey(fresh bool, random io.Reader) ([]byte, error) {
	key, err := f.root.ReadFile(keyName)
	switch {
	case err == nil && len(key) == 32:
		return key, nil
	case err == nil:
		return nil, op.Fail(op.StateCorrupt, fmt.Sprintf("the key file holds %d bytes, not 32", len(key))).Do("put the key file back that was there")
	case !errors.Is(err, fs.ErrNotExist):
		return nil, ioError("read the key", err)
	case !fresh:
		return nil, op.Fail(op.StateCorrupt, "the key file is gone").Do("put it back; without it no credential can be checked")
	}
	key = make([]byte, 32)
	if _, err := io.ReadFull(random, key); err != nil {
		return nil, ioError("make a key", err)
	}
	return key, f.write(keyName, key)
}

// write puts a file in place at once and durably: whoever looks sees the old one or the
// new one.
func (f *files) write(name string, data []byte) error {
	temp := tempMark + name
	if err := f.root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ioError("clear "+temp, err)
	}
	file, err := f.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return ioError("make "+name, err)
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = f.root.Rename(temp, name)
	}
	if err == nil {
		err = f.sync(".")
	}
	if err != nil {
		return ioError("write "+name, err)
	}
	return nil
}

// sync makes the names in a directory durable.
func (f *files) sync(dir string) error {
	d, err := f.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// checkDatabase reads the database's first bytes without SQLite, which would take an
// empty file for a new database and would write to one of a newer schema. existed says
// that there was a database; where there was none it makes the empty file, because SQLite
// would make it with the umask's mode.
func (f *files) checkDatabase(existed bool) error {
	data, err := f.root.Open(dataName)
	if errors.Is(err, fs.ErrNotExist) && !existed {
		data, err = f.root.OpenFile(dataName, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return op.Fail(op.StateCorrupt, "the database of the state is gone").Do("put " + dataName + " back, or move the directory away to begin anew")
	}
	if err != nil {
		return ioError("open the database", err)
	}
	defer data.Close()
	head := make([]byte, 100)
	n, err := io.ReadFull(data, head)
	switch {
	case n == 0 && errors.Is(err, io.EOF) && !existed:
		return nil
	case n == 0 && errors.Is(err, io.EOF):
		return op.Fail(op.StateCorrupt, "the database of the state is empty").Do("put " + dataName + " back, or move the directory away to begin anew")
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return ioError("read the database", err)
	case err != nil || !strings.HasPrefix(string(head), "SQLite format 3\x00"):
		return op.Fail(op.StateCorrupt, "the database of the state does not begin like one").Do("put " + dataName + " back")
	}
	if v := int(uint32(head[60])<<24 | uint32(head[61])<<16 | uint32(head[62])<<8 | uint32(head[63])); (v < 1 || v > schemaVersion) && (existed || v != 0) {
		return otherSchema(v)
	}
	return nil
}

// readHead returns the numbers of the newest acknowledged rows, in the order of headed.
func (f *files) readHead() (head [2]int64, ok bool, err error) {
	if f.head, err = f.root.OpenFile(headName, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return head, false, ioError("open the head", err)
	}
	text, err := io.ReadAll(f.head)
	if err != nil {
		return head, false, ioError("read the head", err)
	}
	n, _ := fmt.Sscanf(string(text), headText, &head[0], &head[1])
	return head, n == 2, nil
}

const headText = "operations %d approvals %d"

func (f *files) writeHead(operations, approvals int64) error {
	line := fmt.Appendf(nil, headText, operations, approvals)
	for len(line) < 79 {
		line = append(line, ' ')
	}
	_, err := f.head.WriteAt(append(line, '\n'), 0)
	return err
}

func unsafePlace(path, why string) *op.Error {
	return op.Fail(op.StateUnsafe, op.Visible(path, false)+" "+why).Do("keep the state in a directory of your own with mode 0700")
}

func otherSchema(v int) *op.Error {
	return op.Fail(op.StateUnsafe, fmt.Sprintf("the state has schema %d and this program knows schemas up to %d; nothing was touched", v, schemaVersion)).
		Do("use the program that wrote it, or another state directory")
}

func ioError(what string, err error) *op.Error {
	var already *op.Error
	if errors.As(err, &already) {
		return already
	}
	return op.Fail(op.IOError, "the state store could not "+what).Because(err)
}

// digestHex splits a wire digest; ok only for the one form.
func digestHex(d op.Digest) (string, bool) {
	h, found := strings.CutPrefix(string(d), "blake3:")
	raw, err := hex.DecodeString(h)
	return h, found && err == nil && len(raw) == 32 && strings.ToLower(h) == h
}
