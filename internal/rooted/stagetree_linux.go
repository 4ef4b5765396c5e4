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
// under the umask. Owners are those of a create, and setuid, setgid, attributes and names
// that share a file are not carried on. The copy is of one moment: want is the manifest
// that the source must have afterwards, or the source is stale. It is durable when this
// returns; on any failure nothing is left of it.
func (s *Store) StageTree(ctx context.Context, slot string, src *Node, want op.Digest) (out Staged, err error) {
	if err := checkSlot(slot, 0); err != nil {
		return out, err
	}
	defer func() {
		if err != nil {
			_ = s.Drop(slot)
			err = fail(err, src.Path)
		}
	}()
	top, err := s.mirror(ctx, src, s.fd, slot)
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

// mirror makes one directory like src and fills it. Its last mode is set when it is full,
// because one that its owner may not write could not be filled.
func (s *Store) mirror(ctx context.Context, src *Node, at int, name string) (int, error) {
	if err := unix.Mkdirat(at, name, src.Info.Mode&0o777); err != nil {
		return none, err
	}
	made, _, err := lookAt(at, name) // with the umask taken off
	if err != nil {
		return none, err
	}
	fd, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return none, err
	}
	err = unix.Chmod(fdName(fd), 0o700)
	if err == nil {
		err = src.Tree(ctx, func(p op.Path, info Info, open func() (*Node, error)) error {
			return s.mirrorOne(ctx, fd, p.Base(), info, open)
		})
	}
	if err == nil {
		err = unix.Chmod(fdName(fd), made.Mode)
	}
	if err != nil {
		closeFD(fd)
		return none, err
	}
	return fd, nil
}

// mirrorOne copies one entry; a directory with all below it, so that the walk passes over.
func (s *Store) mirrorOne(ctx context.Context, dir int, name string, info Info, open func() (*Node, error)) error {
	n, err := open()
	if err != nil {
		return err
	}
	defer n.Close()
	switch info.Kind {
	case op.Directory:
		sub, err := s.mirror(ctx, n, dir, name)
		closeFD(sub)
		if err != nil {
			return err
		}
		return fs.SkipDir
	case op.Symlink:
		return unix.Symlinkat(n.Info.Target, dir, name)
	case op.File:
		fd, err := unix.Openat(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, info.Mode&0o777)
		if err != nil {
			return err
		}
		defer closeFD(fd)
		return n.stably(func(from int, now Info) error { return copyFD(ctx, fd, from, now.Size) })
	}
	return op.Fail(op.SpecialFile, "a "+string(info.Kind)+" cannot be copied").At(n.Path).Do("copy what lies beside it, or leave it out")
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
