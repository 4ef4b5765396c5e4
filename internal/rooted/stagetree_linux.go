package rooted

import (
	"context"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// StageTree stages a copy of a directory with all below it: files with their bytes and
// holes, links as links with the same text, directories, each with its permission bits
// under the umask. Owners, groups and access lists are those of a create in dir, the
// directory that it goes to (nil: the root), and setuid, attributes and names that share a
// file are not carried on. The copy is of one moment: want is the manifest
// that the source must have afterwards, or the source is stale. It is durable when this
// returns; on any failure nothing is left of it.
func (s *Store) StageTree(ctx context.Context, slot string, src *Node, want op.Digest, dir *Node) (out Staged, err error) {
	if err := checkSlot(slot, 0); err != nil {
		return out, err
	}
	defer func() {
		if err != nil {
			_ = s.Drop(slot)
			err = fail(err, src.Path)
		}
	}()
	m := mirroring{Store: s, owner: s.top, from: dir}
	if dir != nil {
		m.owner = dir.Info
	}
	top, err := m.mirror(ctx, src, s.fd, slot)
	if err != nil {
		return out, err
	}
	defer closeFD(top)
	if err := unix.Syncfs(s.fd); err != nil { // one flush instead of one for each file
		return out, err
	}
	now, err := src.Manifest(ctx)
	if err != nil {
		return out, err
	}
	if now.Digest != want {
		e := stale(src.Path, "something below the directory changed while it was copied")
		e.CurrentHash = now.Digest
		return out, e
	}
	n, err := s.Node(slot)
	if err != nil {
		return out, err
	}
	defer n.Close()
	state, err := n.State(ctx)
	if err != nil {
		return out, err
	}
	s.markFresh(slot, n.Info)
	return Staged{Slot: slot, Inode: n.Info.Ino, State: state}, nil
}

// mirroring is the copy of one tree. The store hands nothing down, so its top is given what
// from would have; the kernel then hands that on to all below it, but for the owner.
type mirroring struct {
	*Store
	owner Info
	from  *Node // may be nil; of the top only
}

// mirror makes one directory like src and fills it. Its last mode is set when it is full,
// because one that its owner may not write could not be filled.
func (m mirroring) mirror(ctx context.Context, src *Node, at int, name string) (int, error) {
	if err := unix.Mkdirat(at, name, src.Info.Mode&0o777); err != nil {
		return none, err
	}
	fd, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return none, err
	}
	if err := m.fill(ctx, src, fd); err != nil {
		closeFD(fd)
		return none, err
	}
	return fd, nil
}

func (m mirroring) fill(ctx context.Context, src *Node, fd int) error {
	if err := m.own(fd, ""); err != nil {
		return err
	}
	if m.from != nil {
		if err := asMade(fd, m.from, src.Info.Mode&0o777); err != nil {
			return err
		}
		m.from = nil
	}
	made, _, err := lookAt(fd, "") // with the umask taken off
	if err != nil {
		return err
	}
	if err := unix.Chmod(fdName(fd), made.Mode&unix.S_ISGID|0o700); err != nil {
		return err
	}
	err = src.Tree(ctx, func(p op.Path, info Info, open func() (*Node, error)) error {
		return m.mirrorOne(ctx, fd, p.Base(), info, open)
	})
	if err != nil {
		return err
	}
	return unix.Chmod(fdName(fd), made.Mode)
}

// mirrorOne copies one entry; a directory with all below it, so that the walk passes over.
func (m mirroring) mirrorOne(ctx context.Context, dir int, name string, info Info, open func() (*Node, error)) error {
	n, err := open()
	if err != nil {
		return err
	}
	defer n.Close()
	switch info.Kind {
	case op.Directory:
		sub, err := m.mirror(ctx, n, dir, name)
		closeFD(sub)
		if err != nil {
			return err
		}
		return fs.SkipDir
	case op.Symlink:
		if err := unix.Symlinkat(n.Info.Target, dir, name); err != nil {
			return err
		}
		return m.own(dir, name)
	case op.File:
		fd, err := unix.Openat(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, info.Mode&0o777)
		if err != nil {
			return err
		}
		defer closeFD(fd)
		if err := m.own(dir, name); err != nil {
			return err
		}
		return n.stably(func(from int, now Info) error { return copyFD(ctx, fd, from, now.Size) })
	}
	return op.Fail(op.SpecialFile, "a "+string(info.Kind)+" cannot be copied").At(n.Path).Do("copy what lies beside it, or leave it out")
}

// own is ownAsDir for a name in dir, or with none for dir itself.
func (m mirroring) own(dir int, name string) error {
	return chownAs(m.owner, func(uid, gid int) error {
		return unix.Fchownat(dir, name, uid, gid, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW)
	})
}

// Sizes gives the bytes that each slot holds: of a file its size, of a directory that of
// all files below it.
func (s *Store) Sizes(ctx context.Context) (map[string]int64, error) {
	slots, err := s.Slots()
	if err != nil {
		return nil, err
	}
	out := make(map[string]int64, len(slots))
	for _, slot := range slots {
		// What cannot be read counts as far as it was: a count must not stop a change.
		if out[slot], err = s.Size(ctx, slot); ctx.Err() != nil {
			return nil, err
		}
	}
	return out, nil
}

// Size gives the bytes that one slot holds, none when it is empty.
func (s *Store) Size(ctx context.Context, slot string) (int64, error) {
	n, err := s.Node(slot)
	if err != nil {
		if errors.Is(err, op.NotFound) {
			return 0, nil
		}
		return 0, err
	}
	defer n.Close()
	if n.Info.Kind != op.Directory {
		return n.Info.Size, nil
	}
	var sum int64
	err = n.Tree(ctx, func(_ op.Path, info Info, _ func() (*Node, error)) error {
		if info.Kind == op.File {
			sum += info.Size
		}
		return nil
	})
	return sum, err
}
