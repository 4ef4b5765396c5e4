package rooted

import (
	"context"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// replica is a copy that is as like as can be made: bytes and holes, kinds, modes, owners,
// attributes, times, and names below it that share a file.
type replica struct {
	s    *Store
	top  string               // its name in the store
	seen map[[2]uint64]string // the first copy of a file of several names, from the store's folder on
	last bool                 // the source goes when it is copied: nobody may have it open for writing
}

// replicate makes a durable replica of src under a name that nothing depends on yet; what
// lay there before is dropped. On any failure nothing is left of it.
func (s *Store) replicate(ctx context.Context, name string, src *Node) error {
	return s.replica(ctx, name, src, false)
}

// copyOut is replicate for what has left the tree and goes for good then. A program that
// has a file below a directory open would write into what nobody finds again.
func (s *Store) copyOut(ctx context.Context, name string, src *Node) error {
	return s.replica(ctx, name, src, src.Info.Kind == op.Directory)
}

func (s *Store) replica(ctx context.Context, name string, src *Node, last bool) (err error) {
	if err := checkSlot(name, 0); err != nil {
		return err
	}
	if err := s.Drop(name); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = s.Drop(name)
		}
	}()
	r := &replica{s: s, top: name, seen: map[[2]uint64]string{}, last: last}
	if err := r.one(ctx, src, s.fd, name, name); err != nil {
		return err
	}
	if src.Info.Kind == op.File {
		return nil // synced by itself
	}
	return unix.Syncfs(s.fd) // one flush instead of one for each file
}

// one copies what stands at one name; at is that name from the store's folder on.
func (r *replica) one(ctx context.Context, src *Node, dir int, name, at string) error {
	if err := ctx.Err(); err != nil {
		return op.Fail(op.Cancelled, "cancelled while copying").At(src.Path).Because(err)
	}
	switch src.Info.Kind {
	case op.File:
		return r.file(ctx, src, dir, name, at)
	case op.Directory:
		return r.dir(ctx, src, dir, name, at)
	case op.Symlink:
		if err := unix.Symlinkat(src.Info.Target, dir, name); err != nil {
			return err
		}
		return r.named(src, dir, name)
	}
	var st unix.Stat_t
	if err := unix.Fstat(src.self, &st); err != nil {
		return err
	}
	if err := unix.Mknodat(dir, name, st.Mode&unix.S_IFMT|0o600, int(st.Rdev)); err != nil {
		return err
	}
	if err := r.named(src, dir, name); err != nil {
		return err
	}
	return unix.Fchmodat(dir, name, src.Info.Mode, 0)
}

// named gives owner and times to what is not opened.
func (r *replica) named(src *Node, dir int, name string) error {
	if err := unix.Fchownat(dir, name, int(src.Info.UID), int(src.Info.GID), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return lostMeta("owner", src.Path, err)
	}
	return unix.UtimesNanoAt(dir, name, times(src.Info), unix.AT_SYMLINK_NOFOLLOW)
}

func (r *replica) file(ctx context.Context, src *Node, dir int, name, at string) error {
	id := [2]uint64{src.Info.Dev, src.Info.Ino}
	if first, ok := r.seen[id]; ok {
		return unix.Linkat(r.s.fd, first, dir, name, 0)
	}
	if src.Info.Links > 1 {
		r.seen[id] = at
	}
	fd, err := unix.Openat(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	err = src.stably(func(from int, now Info) error {
		if r.last {
			if err := lease(from); err != nil {
				return noLease(err, src.Path)
			}
			defer unlease(from)
		}
		if err := copyFD(ctx, fd, from, now.Size); err != nil {
			return err
		}
		if err := carryAll(fd, from, now, src.Path); err != nil {
			return err
		}
		if r.last && !leaseStands(from) {
			return noLease(unix.EAGAIN, src.Path)
		}
		return setTimes(fd, now)
	})
	if err == nil && at == r.top {
		err = syncFD(fd)
	}
	return err
}

// dir makes a directory and fills it; its own mode and times come last.
func (r *replica) dir(ctx context.Context, src *Node, dir int, name, at string) error {
	from, err := reopen(src.self, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer closeFD(from)
	if err := unix.Mkdirat(dir, name, 0o700); err != nil {
		return err
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	_ = unix.Fremovexattr(fd, aclDefault) // it would be stamped on what is made below
	names, err := src.names()
	if err != nil {
		return err
	}
	for _, below := range names {
		if src.hides != nil && src.hides(src.Path.Join(below)) {
			continue
		}
		n, err := src.child(below)
		if err != nil {
			return err
		}
		err = r.one(ctx, n, fd, below, path.Join(at, below))
		n.Close()
		if err != nil {
			return err
		}
	}
	if err := carryAll(fd, from, src.Info, src.Path); err != nil {
		return err
	}
	return setTimes(fd, src.Info)
}

// noLease says why a file cannot go by copy: somebody has it open for writing, or nobody
// could tell.
func noLease(err error, p op.Path) error {
	if err == unix.EAGAIN {
		e := op.Fail(op.BusyWriter, "another program has the file open for writing").At(p).Do("close it there, or try again later")
		e.Retry = "same"
		return e
	}
	return op.Fail(op.NotAvailable, "the store of this root holds copies, and no lease can be had on this file: what a program that has it open still writes would be lost").At(p).Because(err).
		Do("let the daemon run as the file's owner, or ask the operator for a store on the root's own filesystem")
}

func lostMeta(what string, p op.Path, err error) error {
	if os.IsPermission(err) {
		return op.Fail(op.MetadataLoss, "a copy would lose its "+what).At(p).Do("run the daemon as the owner of the files").Because(err)
	}
	return err
}

// times are those of the last change; when a thing was last read is not kept.
func times(i Info) []unix.Timespec {
	return []unix.Timespec{{Nsec: unix.UTIME_NOW}, unix.NsecToTimespec(i.Mtime.UnixNano())}
}

func setTimes(fd int, i Info) error {
	return unix.UtimesNanoAt(unix.AT_FDCWD, fdName(fd), times(i), 0)
}
