package rooted

import (
	"context"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// A store of copies serves a root that no folder of ours shares a mount with. What is
// kept lies elsewhere and comes and goes as copies; what a rename needs at hand lies, only
// while a call is under way, in a folder inside the root, the near one, in which the one
// procedure that changes the tree works as in any store. A slot that both hold is the near
// one's: it is newer, or the same.

// nearTop and nearName name the near folder below the root.
const nearTop, nearName = ".holdpoint", "near"

// Suffixes of what is being copied into the near folder, or out of it, and of what is
// being removed from it: never good as it is.
const inSuffix, outSuffix, goneSuffix = ".in", ".out", ".gone"

// copies is what a store of copies has besides its own folder.
type copies struct {
	root *Root

	mu        sync.Mutex
	users     int    // guarded by mu
	near      *Store // guarded by mu; while there are users
	base, top int    // handles on the root and on nearTop, as long as near
}

// OpenCopies makes the folder if need be, on any mount. It answers state_unsafe where
// others could reach into it.
func OpenCopies(dir string, root *Root) (*Store, error) {
	fd, made, err := openStoreDir(dir)
	if err != nil {
		return nil, err
	}
	s := newStore(fd, opener{})
	s.copies = &copies{root: root, base: none, top: none}
	root.Hide(nearTop)
	s.self, s.in.mount, err = lookAt(fd, "")
	s.in.openat2 = root.in.openat2
	if err == nil {
		err = s.private()
	}
	if err == nil {
		err = s.probeNear()
	}
	if err != nil {
		closeFD(fd)
		if made {
			_ = unix.Rmdir(dir)
		}
		return nil, fail(err, "")
	}
	return s, nil
}

func (s *Store) probeNear() error {
	leave, err := s.Enter()
	if err != nil {
		return err
	}
	defer leave()
	s.features, err = s.Staging().probe()
	s.Staging().features = s.features
	return err
}

// Copies reports whether the store holds copies and not the very things.
func (s *Store) Copies() bool { return s.copies != nil }

// Enter keeps the near folder of a store of copies until leave is called; who stages
// enters before and leaves when all is done. Of any other store it does nothing.
func (s *Store) Enter() (leave func(), err error) {
	c := s.copies
	if c == nil {
		return func() {}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users == 0 {
		if err := c.open(s.features); err != nil {
			c.shut()
			return nil, fail(err, nearTop)
		}
	}
	c.users++
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.users--; c.users == 0 {
			c.shut()
		}
	}), nil
}

// Staging is where things for the tree are staged. Of a store of copies it is good only
// between Enter and leave.
func (s *Store) Staging() *Store {
	c := s.copies
	if c == nil {
		return s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.near
}

func (c *copies) open(f Features) error {
	err := c.root.use(func(fd int) (err error) { c.base, err = dup(fd); return err })
	if err != nil {
		return err
	}
	if c.top, err = c.folder(c.base, nearTop); err != nil {
		return err
	}
	fd, err := c.folder(c.top, nearName)
	if err != nil {
		return err
	}
	c.near = newStore(fd, c.root.in)
	c.near.features, c.near.top = f, c.root.self
	if c.near.self, _, err = lookAt(fd, ""); err != nil {
		return err
	}
	return c.near.private()
}

// folder opens a folder of ours, made if need be, closed to others and on the root's mount.
func (c *copies) folder(at int, name string) (int, error) {
	made := unix.Mkdirat(at, name, 0o700)
	if made != nil && made != unix.EEXIST {
		return none, made
	}
	fd, err := c.root.in.open(at, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err == unix.ENOTDIR || err == unix.ELOOP {
		return none, op.Fail(op.StateUnsafe, "a file or a link has the name that this store needs for its folder in the root").At(nearTop).Do("move it away")
	}
	if err != nil {
		return none, err
	}
	if made == nil { // what was inherited from above must not widen it
		_ = unix.Fchmod(fd, 0o700)
	}
	if err := unix.Fremovexattr(fd, aclDefault); err != nil && !noXattr(err) {
		closeFD(fd)
		return none, err
	}
	return fd, nil
}

// shut closes the near folder and takes it away, unless something had to stay in it.
func (c *copies) shut() {
	if c.near != nil {
		closeFD(c.near.fd)
	}
	if c.top >= 0 {
		_ = unix.Unlinkat(c.top, nearName, unix.AT_REMOVEDIR)
		_ = unix.Unlinkat(c.base, nearTop, unix.AT_REMOVEDIR)
	}
	closeFD(c.top)
	closeFD(c.base)
	c.near, c.top, c.base = nil, none, none
}

// Reclaim puts right what a crash left in the near folder, before any call runs: what a
// live slot holds there moves on into the store, and so does what others wrote; the rest
// is dropped.
func (s *Store) Reclaim(ctx context.Context, live func(slot string) bool) error {
	if s.copies == nil {
		return nil
	}
	err := s.copies.root.use(func(fd int) error { _, _, err := lookAt(fd, nearTop); return err })
	if err == unix.ENOENT {
		return nil
	}
	leave, err := s.Enter()
	if err != nil {
		return err
	}
	defer leave()
	near := s.Staging()
	slots, err := near.Slots()
	if err != nil {
		return err
	}
	for _, slot := range slots {
		half := strings.HasSuffix(slot, inSuffix) || strings.HasSuffix(slot, goneSuffix)
		if !half && (live(slot) || KeptFor(slot) != "") {
			if err := s.haul(ctx, near, slot); err != nil {
				return err
			}
		}
		if err := near.discard(slot); err != nil {
			return err
		}
	}
	return nil
}

// haul copies a slot of the near folder into the store, in place of what is there.
func (s *Store) haul(ctx context.Context, near *Store, slot string) error {
	n, err := near.Node(slot)
	if err != nil {
		return err
	}
	defer n.Close()
	if err := s.replicate(ctx, slot+outSuffix, n); err != nil {
		return err
	}
	if err := s.exchangeFor(slot); err != nil {
		return fail(err, "")
	}
	return fail(syncDir(s.fd), "")
}

// discard drops a slot of the near folder. A directory that is half removed must not look
// like what a change put away, so its name goes first.
func (s *Store) discard(slot string) error {
	s.forget(slot)
	gone := slot
	if !strings.HasSuffix(slot, goneSuffix) {
		gone = slot + goneSuffix
		if err := s.Drop(gone); err != nil {
			return fail(err, "")
		}
		if err := rename(s.fd, slot, s.fd, gone, unix.RENAME_NOREPLACE); err != nil && err != unix.ENOENT {
			return fail(err, "")
		}
	}
	return fail(s.Drop(gone), "")
}

// exchangeFor lets a finished copy take the place of what the slot held. A crash between
// the two halves loses nothing: the near folder still has the slot.
func (s *Store) exchangeFor(slot string) error {
	if err := s.Drop(slot); err != nil {
		return err
	}
	return rename(s.fd, slot+outSuffix, s.fd, slot, unix.RENAME_NOREPLACE)
}

// adopt brings a copy of src into a slot, whole or not at all.
func (s *Store) adopt(ctx context.Context, slot string, src *Node) (Info, error) {
	if err := s.replicate(ctx, slot+inSuffix, src); err != nil {
		return Info{}, err
	}
	if err := rename(s.fd, slot+inSuffix, s.fd, slot, unix.RENAME_NOREPLACE); err != nil {
		return Info{}, err
	}
	i, _, err := lookAt(s.fd, slot)
	if err == nil {
		err = syncDir(s.fd)
	}
	return i, err
}
