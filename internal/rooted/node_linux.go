package rooted

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/zeebo/blake3"
	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// Node is what was found at one path, with handles on its parent and on itself. It stays
// the same thing whatever is renamed later. The caller closes it, once, when no other
// method runs.
type Node struct {
	Asked   op.Path   // as cleaned
	Path    op.Path   // canonical: the deepest existing ancestor's real path with the rest appended
	Links   []op.Link // walked on the way, in order
	Info    Info      // kind Absent when nothing is there
	Missing []op.Path // canonical parents that do not exist yet, outermost first

	in           opener
	hides        func(op.Path) bool // may be nil
	known        *knowledge         // may be nil
	parent, self int                // none where there is none
	name         string             // of self in parent
	above        *Node              // with Missing: the deepest directory that exists; may be nil
	copied       bool               // it is the copy of what stood there, in a store of copies
}

// Close gives the handles back.
func (n *Node) Close() {
	closeFD(n.parent)
	closeFD(n.self)
	n.parent, n.self = none, none
	if n.above != nil {
		n.above.Close()
	}
}

const (
	chunk     = 128 << 10
	readTries = 4 // a file that changed under this many reads is being written
)

// reader is what reading through a file once needs.
type reader struct {
	hasher *blake3.Hasher
	buffer [chunk]byte
}

var readers = sync.Pool{New: func() any { return &reader{hasher: blake3.New()} }}

// reader opens the regular file for reading, makes sure that it is the one seen, and tells
// what it is now.
func (n *Node) reader() (int, Info, error) {
	switch n.Info.Kind {
	case op.File:
	case op.Absent:
		return none, Info{}, op.Fail(op.NotFound, "nothing is there").At(n.Path)
	case op.Directory:
		return none, Info{}, op.Fail(op.NotAFile, "a directory is there").At(n.Path)
	case op.Symlink:
		return none, Info{}, op.Fail(op.NotAFile, "a symbolic link is there").At(n.Path)
	default:
		return none, Info{}, op.Fail(op.SpecialFile, "a "+string(n.Info.Kind)+" is there, which is never opened").At(n.Path)
	}
	fd, err := reopen(n.self, unix.O_RDONLY)
	if err != nil {
		return none, Info{}, fail(err, n.Path)
	}
	now, _, err := lookAt(fd, "")
	if err == nil && (!now.same(n.Info) || now.Kind != op.File) {
		err = stale(n.Path, "another file came to stand there")
	}
	if err != nil {
		closeFD(fd)
		return none, Info{}, fail(err, n.Path)
	}
	return fd, now, nil
}

// stably calls read until the file did not change meanwhile.
func (n *Node) stably(read func(fd int, now Info) error) error {
	fd, before, err := n.reader()
	if err != nil {
		return err
	}
	defer closeFD(fd)
	for range readTries {
		if err = read(fd, before); err != nil {
			return fail(err, n.Path)
		}
		after, _, err := lookAt(fd, "")
		if err != nil {
			return fail(err, n.Path)
		}
		if before.untouched(after) {
			return nil
		}
		before = after
	}
	return beingWritten(n.Path)
}

func beingWritten(p op.Path) error {
	e := stale(p, "the file is being written while it is read").Do("try again when it is quiet")
	e.Retry = "same"
	return e
}

// Read gives all bytes of a regular file, of one moment; too_large beyond max.
func (n *Node) Read(max int64) (b []byte, err error) {
	err = n.stably(func(fd int, now Info) error {
		if now.Size > max {
			return op.Fail(op.TooLarge, "the file is larger than the limit").At(n.Path).Do("ask for a part of it")
		}
		b, err = readAt(fd, 0, int(now.Size))
		return err
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// ReadAt gives at most max bytes from off on; beyond the end there are none.
func (n *Node) ReadAt(off int64, max int) (b []byte, err error) {
	err = n.stably(func(fd int, now Info) error {
		size := min(int64(max), now.Size-off)
		if off < 0 || size <= 0 {
			b = []byte{}
			return nil
		}
		b, err = readAt(fd, off, int(size))
		return err
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Hash digests a regular file in constant memory and gives its size; ctx ends it early.
func (n *Node) Hash(ctx context.Context) (op.Digest, int64, error) {
	s, err := n.hash(ctx)
	return s.digest, s.info.Size, err
}

// hash also tells what the file looked like while it was read.
func (n *Node) hash(ctx context.Context) (s seen, err error) {
	err = n.stably(func(fd int, now Info) error {
		s = seen{info: now, at: time.Now()}
		s.digest, s.info.Size, err = hashFD(ctx, fd, now.Size)
		return err
	})
	if err != nil {
		return seen{}, err
	}
	return s, nil
}

// Open gives a handle for reading the regular file; the caller closes it.
func (n *Node) Open() (*os.File, error) {
	fd, _, err := n.reader()
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		closeFD(fd)
		return nil, fail(err, n.Path)
	}
	return os.NewFile(uintptr(fd), op.Escape(string(n.Path))), nil
}

// readAt reads up to size bytes; fewer when the file ends before.
func readAt(fd int, off int64, size int) ([]byte, error) { return readInto(nil, fd, off, size) }

// readInto is readAt into room, where that is enough.
func readInto(room []byte, fd int, off int64, size int) ([]byte, error) {
	if size > len(room) {
		room = make([]byte, size)
	}
	b, have := room[:size], 0
	for have < size {
		n, err := pread(fd, b[have:], off+int64(have))
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		have += n
	}
	return b[:have], nil
}

func pread(fd int, b []byte, off int64) (n int, err error) {
	err = retry(func() error { n, err = unix.Pread(fd, b, off); return err })
	return n, err
}

// hashFD digests from the start to the end; size only helps to choose the buffer.
func hashFD(ctx context.Context, fd int, size int64) (op.Digest, int64, error) {
	return hashing(ctx, fd, size, nil)
}

// hashing is hashFD, and looks after a lease meanwhile, which may be nil.
func hashing(ctx context.Context, fd int, size int64, l *watchedLease) (op.Digest, int64, error) {
	if size >= parallelFrom {
		// A file that is no longer of this size is digested below, as far as it goes.
		if d, ok, err := hashTree(ctx, fd, size, l); ok || err != nil {
			return d, size, err
		}
	}
	kept := readers.Get().(*reader)
	defer readers.Put(kept)
	kept.hasher.Reset()
	h, b := kept.hasher, kept.buffer[:min(max(size+1, 512), chunk)]
	var off int64
	for {
		if err := ctx.Err(); err != nil {
			return "", 0, op.Fail(op.Cancelled, "cancelled while hashing").Because(err)
		}
		n, err := pread(fd, b, off)
		if err != nil {
			return "", 0, err
		}
		if n == 0 {
			return wireDigest(h), off, nil
		}
		_, _ = h.Write(b[:n])
		if off+int64(n) == size && n < len(b) {
			return wireDigest(h), size, nil // a short read at the end that was known
		}
		if off += int64(n); l != nil && off%(1<<20) == 0 {
			l.stands()
		}
	}
}
