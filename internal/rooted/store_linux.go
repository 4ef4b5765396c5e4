package rooted

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// Store is a folder of our own on the same mount as the root, or on any mount for copies
// (OpenCopies). What is staged waits in it and what was replaced or taken away stays in it, each under a slot, a short plain name
// that the caller chooses. Nothing but Drop removes from it. Safe for concurrent use.
type Store struct {
	fd       int
	in       opener
	self     Info
	top      Info // of the root: a new file below new directories is its owner's
	features Features
	copies   *copies    // of a store of copies; else nil
	known    *knowledge // of the root, on whose mount it lies; nil of a store of copies

	relaxed bool          // see Relax
	flushes chan struct{} // holds one token for each flush under way
	blanks  blanks
	names   together // flushes of directories
	solid   solid

	mu      sync.Mutex
	fresh   map[string]Info   // guarded by mu; staged in this run, by no step that stands
	pending map[string]*flush // guarded by mu; of what was staged and nobody waited for yet
}

func newStore(fd int, in opener) *Store {
	return &Store{fd: fd, in: in, flushes: make(chan struct{}, maxFlushes), blanks: blanks{names: map[string]bool{}}, fresh: map[string]Info{}, pending: map[string]*flush{}}
}

// OpenStore makes the folder if need be. It answers cross_device where renames between it
// and the root are impossible, and state_unsafe where others could reach into it. Nothing
// is written into the workspace to find out: a rename of a name that does not exist is
// refused for crossing mounts before it is refused for the name.
func OpenStore(dir string, root *Root) (*Store, error) {
	fd, made, err := openStoreDir(dir)
	if err != nil {
		return nil, err
	}
	s := newStore(fd, root.in)
	s.top, s.known = root.self, &root.known
	if err = s.check(root); err == nil {
		s.features, err = s.probe()
	}
	if err != nil {
		closeFD(fd)
		if made {
			_ = unix.Rmdir(dir) // it was of no use
		}
		return nil, fail(err, "")
	}
	s.blanks.on = true
	return s, nil
}

func openStoreDir(dir string) (fd int, isNew bool, err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return none, false, fail(err, "")
	}
	made := unix.Mkdir(dir, 0o700)
	if made != nil && made != unix.EEXIST {
		return none, false, fail(made, "")
	}
	fd, err = unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ELOOP || err == unix.ENOTDIR {
		return none, false, op.Fail(op.StateUnsafe, "the store is not a directory of its own but a link or a file")
	}
	if err != nil {
		return none, false, fail(err, "")
	}
	if made == nil { // what was inherited from above must not widen it
		_ = unix.Fchmod(fd, 0o700)
	}
	// A default ACL would be stamped on everything staged here.
	if err := unix.Fremovexattr(fd, aclDefault); err != nil && !noXattr(err) {
		closeFD(fd)
		return none, false, fail(err, "")
	}
	return fd, made == nil, nil
}

func (s *Store) check(root *Root) error {
	var err error
	if s.self, _, err = lookAt(s.fd, ""); err != nil {
		return err
	}
	if err := s.private(); err != nil {
		return err
	}
	return root.use(func(fd int) error {
		err := rename(s.fd, "probe.absent", fd, ".", unix.RENAME_NOREPLACE)
		if err == unix.EXDEV || s.self.Dev != root.self.Dev {
			return op.Fail(op.CrossDevice, "the store is not on the workspace's mount").Do("choose a store beside the root, on the same mount")
		}
		return nil
	})
}

func (s *Store) private() error {
	if s.self.UID != uint32(os.Geteuid()) || s.self.Mode&0o077 != 0 {
		return op.Fail(op.StateUnsafe, "the store must belong to the daemon's user and be closed to others").Do("chown it to that user and chmod it to 0700")
	}
	return nil
}

// Relax ends the flushes of changes from now on: what the operating system has not written
// back by itself a power cut takes, the old bytes of a file and the new ones alike. Where
// the store holds copies they are flushed as ever. Call it before the store is used.
func (s *Store) Relax() { s.relaxed = s.copies == nil }

// sync makes a file or directory durable.
func (s *Store) sync(fd int) error {
	if s.relaxed {
		return nil
	}
	return syncFD(fd)
}

// Features tells what was probed when the store was opened.
func (s *Store) Features() Features { return s.features }

// Found names the folder as it was when the store was opened. Where an earlier Leave gave the
// same, nothing was put into it or taken out since. "" where that cannot be told: where the
// file system gives two changes one time, and of a store of copies.
func (s *Store) Found() string { return s.named(s.self) }

// Leave is Found as the folder is now, without blanks. Nothing may be in use any more.
func (s *Store) Leave() string {
	s.dropBlanks()
	now, _, err := lookAt(s.fd, "")
	if err != nil {
		return ""
	}
	return s.named(now)
}

func (s *Store) named(i Info) string {
	if s.copies != nil || !s.features.FineTimes {
		return ""
	}
	return fmt.Sprintf("%d:%d:%d", i.Dev, i.Ino, i.Mtime.UnixNano())
}

// Close lets the folder go.
func (s *Store) Close() error {
	s.dropBlanks()
	closeFD(s.fd)
	s.fd = none
	return nil
}

const maxSlot = 64

// copySuffix marks a slot of our own making: the independent copy of a pre-image.
const copySuffix = ".pre"

// checkSlot lets plain names pass. One that steps use leaves room for a suffix.
func checkSlot(slot string, room int) error {
	bad := slot == "" || slot[0] == '.' || len(slot)+room > maxSlot || slices.ContainsFunc([]byte(slot), func(c byte) bool {
		return !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '-')
	})
	if bad {
		return op.Fail(op.Internal, "not a name for a slot: "+op.Escape(slot))
	}
	return nil
}

// Node opens what a slot holds; the caller closes it. Its path is the slot's name, which
// means nothing in the workspace.
func (s *Store) Node(slot string) (*Node, error) {
	if err := checkSlot(slot, 0); err != nil {
		return nil, err
	}
	return (&Node{Path: ".", in: s.in, self: s.fd}).child(slot)
}

// Kept is State for the way back: of a directory it takes from memory what is known of the
// files in it, where that is sound, as the look at it did before it was put away.
func (s *Store) Kept(ctx context.Context, slot string) (op.State, error) {
	n, err := s.Node(slot)
	if err != nil {
		return op.State{}, err
	}
	defer n.Close()
	n.known = s.known
	return n.State(ctx)
}

// State of what a slot holds, all of it read again; not_found if it is empty.
func (s *Store) State(ctx context.Context, slot string) (op.State, error) {
	n, err := s.Node(slot)
	if err != nil {
		return op.State{}, err
	}
	defer n.Close()
	return n.State(ctx)
}

// Inode of what a slot holds.
func (s *Store) Inode(slot string) (uint64, error) {
	if err := checkSlot(slot, 0); err != nil {
		return 0, err
	}
	i, _, err := lookAt(s.fd, slot)
	return i.Ino, fail(err, op.Path(slot))
}

// Open gives a handle for reading the file in a slot; the caller closes it.
func (s *Store) Open(slot string) (*os.File, error) {
	n, err := s.Node(slot)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	return n.Open()
}

// Slots lists all that is there, ours and leftovers, but no blanks.
func (s *Store) Slots() ([]string, error) {
	all, err := (&Node{Path: ".", in: s.in, self: s.fd, Info: s.self}).names()
	return slices.DeleteFunc(all, s.blanks.isBlank), err
}

// Drop ends what a slot holds, for good; an empty slot is fine.
func (s *Store) Drop(slot string) error {
	if err := checkSlot(slot, 0); err != nil {
		return err
	}
	s.forget(slot)
	return fail(s.remove(s.fd, slot), op.Path(slot))
}

// remove goes by handle and never into a link. A directory that its owner may not write
// is opened up first: it is in the store, where nobody else looks.
func (s *Store) remove(dir int, name string) error {
	err := retry(func() error { return unix.Unlinkat(dir, name, 0) })
	if err == nil || err == unix.ENOENT {
		return nil
	}
	if i, _, lookErr := lookAt(dir, name); lookErr != nil || i.Kind != op.Directory {
		return err
	}
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	_ = unix.Chmod(fdName(fd), 0o700)
	names, err := (&Node{Path: ".", self: fd, Info: Info{Kind: op.Directory}}).names()
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := s.remove(fd, n); err != nil {
			return err
		}
	}
	return retry(func() error { return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) })
}

func (s *Store) markFresh(slot string, i Info) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fresh[slot] = i
}

func (s *Store) forget(slot string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.fresh, slot)
	delete(s.pending, slot)
}

// isFresh reports whether the slot still holds what this run staged there, for a step that
// has not stood yet, and whether nobody touched it since.
func (s *Store) isFresh(slot string, now Info) (fresh, untouched bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, known := s.fresh[slot]
	return known && was.same(now), known && was.untouched(now)
}
