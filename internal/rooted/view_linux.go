package rooted

import (
	"context"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// OpenView makes the place of a rehearsal of the root. The upper directory is dressed like
// the root, since it stands for it in the view.
func (s *Store) OpenView(id string, root *Root) (v *View, err error) {
	slot := viewSlot(id)
	if err := checkSlot(slot, 0); err != nil {
		return nil, err
	}
	top, err := s.viewTop(slot)
	if err != nil {
		return nil, err
	}
	defer closeFD(top)
	defer func() {
		if err != nil {
			_ = s.Drop(slot)
			err = fail(err, "")
		}
	}()
	var fds [2]int
	for i, name := range []string{"upper", "work"} {
		if err := unix.Mkdirat(top, name, 0o700); err != nil {
			return nil, err
		}
		if fds[i], err = unix.Openat(top, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
			if i == 1 {
				closeFD(fds[0])
			}
			return nil, err
		}
	}
	v = &View{Upper: os.NewFile(uintptr(fds[0]), "upper"), Work: os.NewFile(uintptr(fds[1]), "work")}
	err = root.use(func(fd int) error {
		from, err := reopen(fd, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		defer closeFD(from)
		info, _, err := lookAt(from, "")
		if err != nil {
			return err
		}
		return carryAll(fds[0], from, info, ".")
	})
	if err != nil {
		v.Close()
		return nil, err
	}
	return v, nil
}

// viewTop makes the empty directory of a view and gives a descriptor for it, which the caller closes.
func (s *Store) viewTop(slot string) (int, error) {
	if err := unix.Mkdirat(s.fd, slot, 0o700); err != nil {
		return -1, fail(err, "")
	}
	top, err := s.in.open(s.fd, slot, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		_ = s.Drop(slot)
		return -1, fail(err, "")
	}
	return top, nil
}

// Bounds of a view that is a copy: it takes its time, and the program waits.
const (
	maxViewNames  = 2000
	maxViewBytes  = 256 << 20
	maxViewShared = 20_000 // names, where a copy shares the blocks of its file
)

// ViewNames is how many names a root may have that is copied for a rehearsal.
func (s *Store) ViewNames() int {
	if s.features.Reflink {
		return maxViewShared
	}
	return maxViewNames
}

// CopyView makes the place of a rehearsal as a copy of the whole root, where no overlay
// can be had. It is not a copy of one moment: what changes meanwhile is found by Harvest.
func (s *Store) CopyView(ctx context.Context, id string, root *Root) (v *View, err error) {
	slot := viewSlot(id)
	if err := checkSlot(slot, 0); err != nil {
		return nil, err
	}
	src, err := root.Look(ctx, ".", false)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	var names int
	var bytes int64
	err = src.Tree(ctx, func(_ op.Path, i Info, _ func() (*Node, error)) error {
		if i.Kind == op.File {
			bytes += i.Size
		}
		if names++; names > s.ViewNames() || bytes > maxViewBytes && !s.features.Reflink {
			return op.Fail(op.RehearsalUnsupported, "the root is too large to be copied for a rehearsal")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	top, err := s.viewTop(slot)
	if err != nil {
		return nil, err
	}
	defer closeFD(top)
	defer func() {
		if err != nil {
			_ = s.Drop(slot)
			err = fail(err, "")
		}
	}()
	r := &replica{s: s, top: slot, seen: map[[2]uint64]string{}}
	if err := r.dir(ctx, src, top, "upper", slot+"/upper"); err != nil {
		return nil, err
	}
	var fds [2]int
	for i := range fds {
		if fds[i], err = unix.Openat(top, "upper", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
			if i == 1 {
				closeFD(fds[0])
			}
			return nil, err
		}
	}
	return &View{Upper: os.NewFile(uintptr(fds[0]), "upper"), Work: os.NewFile(uintptr(fds[1]), "work")}, nil
}

// firstBehind is how long a program runs before what it wrote is flushed for the first time.
const firstBehind = time.Second

// Behind flushes what the program writes while it runs, so that little is left when it has
// ended. Each pause is a quarter of the time so far at least: a long run has few flushes.
// stop may be called more than once; it does not wait for a flush under way.
func (v *View) Behind() (stop func()) {
	fd, err := dup(int(v.Upper.Fd()))
	if err != nil {
		return func() {} // then all of it is flushed at the end
	}
	done := make(chan struct{})
	go func() {
		defer closeFD(fd)
		for begin := time.Now(); ; {
			select {
			case <-done:
				return
			case <-time.After(max(firstBehind, time.Since(begin)/4)):
				_ = unix.Syncfs(fd) // that of Harvest counts
			}
		}
	}()
	return sync.OnceFunc(func() { close(done) })
}

// DropView ends what is left of a view. The slots that Harvest filled stay.
func (s *Store) DropView(id string) error { return s.Drop(viewSlot(id)) }

// Moment is the time that a change made before now is older than. It is that of the
// kernel's tick, by which files are stamped: any finer clock runs ahead of them.
func Moment() time.Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &ts); err != nil {
		return time.Time{} // then everything counts as changed meanwhile
	}
	return time.Unix(ts.Unix())
}
