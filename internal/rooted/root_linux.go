package rooted

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// Root is one workspace held open by handle. It is safe for concurrent use; Close waits
// for looks that are under way, and nodes opened before stay good after it.
type Root struct {
	dir, given string
	in         opener
	self       Info
	locks      locks
	whole      int // the longest list of steps that is held at once
	known      knowledge

	mu     sync.RWMutex
	fd     int       // guarded by mu; none after Close
	hidden []op.Path // guarded by mu
}

// Open holds a directory open. Its name may lead through links: the canonical one is kept
// beside the one given.
func Open(dir string, o Options) (*Root, error) {
	given, err := filepath.Abs(dir)
	if err != nil {
		return nil, op.Fail(op.InvalidPath, "the root has no absolute name").Because(err)
	}
	fd, err := openDir(given)
	if err != nil {
		return nil, op.AsError(fail(err, "")).Do("look at " + op.Visible(given, false) + ": a root is an existing directory")
	}
	r := &Root{given: given, fd: fd, whole: heldWhole}
	r.self, r.in.mount, err = lookAt(fd, "")
	if err == nil {
		r.dir, err = filepath.EvalSymlinks(given)
	}
	if err == nil {
		err = r.Check() // the two names were looked up one after the other
	}
	if err != nil {
		closeFD(fd)
		return nil, fail(err, "")
	}
	r.in.openat2 = !o.NoOpenat2 && hasOpenat2(fd)
	r.known.sound = soundTimes(fd)
	return r, nil
}

func openDir(name string) (fd int, err error) {
	err = retry(func() error { fd, err = unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); return err })
	return fd, err
}

// hasOpenat2 asks the kernel itself: a filter may forbid the call on a kernel that has it.
func hasOpenat2(fd int) bool {
	t, err := opener{openat2: true}.open(fd, ".", unix.O_PATH|unix.O_DIRECTORY)
	closeFD(t)
	return err == nil
}

// Dir is the canonical absolute directory.
func (r *Root) Dir() string { return r.dir }

// Given is the name that Open was given, made absolute.
func (r *Root) Given() string { return r.given }

// Same reports whether o is the same directory.
func (r *Root) Same(o *Root) bool { return r.self.same(o.self) }

// Holds reports whether a directory is this root or lies below it, by device and inode of
// each parent, so that no spelling hides it. A directory that does not exist is judged by
// the nearest parent that does; one that cannot be looked at counts as held.
func (r *Root) Holds(absDir string) bool {
	fd, err := openDir(absDir)
	for err == unix.ENOENT && filepath.Dir(absDir) != absDir {
		absDir = filepath.Dir(absDir)
		fd, err = openDir(absDir)
	}
	if err != nil {
		return true
	}
	defer func() { closeFD(fd) }()
	at, _, err := lookAt(fd, "")
	for {
		if err != nil || at.same(r.self) {
			return true
		}
		up, err2 := unix.Openat(fd, "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err2 != nil {
			return true
		}
		closeFD(fd)
		fd = up
		var above Info
		if above, _, err = lookAt(fd, ""); err == nil && above.same(at) {
			return false // the top is its own parent
		}
		at = above
	}
}

// Hide makes p and all below it look like a place outside of the workspace, in every look
// and listing: for a store that lies inside the root.
func (r *Root) Hide(p op.Path) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hidden = append(r.hidden, p)
}

func (r *Root) hides(p op.Path) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.ContainsFunc(r.hidden, p.Within)
}

// holdsHidden reports whether something hidden lies below p.
func (r *Root) holdsHidden(p op.Path) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.ContainsFunc(r.hidden, func(h op.Path) bool { return h.Within(p) })
}

// Check reports whether the root's name still leads to the directory held open.
func (r *Root) Check() error {
	var st unix.Stat_t
	err := retry(func() error { return unix.Stat(r.dir, &st) })
	if err == nil && st.Ino == r.self.Ino && uint64(st.Dev) == r.self.Dev && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return nil
	}
	return op.Fail(op.NotReady, "the root's name no longer leads to the directory that was registered").Because(err).Do("register the root again")
}

// nameOf gives the name below the root at which the kernel sees what is held open now. It
// is only where to look: by the time of the answer the thing may be elsewhere.
func (r *Root) nameOf(fd int) (p op.Path, err error) {
	err = r.use(func(top int) error {
		above, err := linkText(unix.AT_FDCWD, fdName(top))
		if err != nil {
			return err
		}
		name, err := linkText(unix.AT_FDCWD, fdName(fd))
		if err != nil {
			return err
		}
		below, ok := strings.CutPrefix(name, strings.TrimSuffix(above, "/")+"/")
		if !ok {
			return outside("")
		}
		p = op.Path(below)
		return nil
	})
	return p, err
}

// Close lets the directory go.
func (r *Root) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fd == none {
		return os.ErrClosed
	}
	closeFD(r.fd)
	r.fd = none
	return nil
}

// use calls f with the root's handle, which stays open meanwhile.
func (r *Root) use(f func(fd int) error) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.fd == none {
		return op.Fail(op.NotReady, "the root is closed")
	}
	return f(r.fd)
}
