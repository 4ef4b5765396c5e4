package rooted

import (
	"context"
	"errors"
	"io"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// Stage writes content into a new slot, gives it its mode, owner and attributes, and begins
// to make it durable: Apply waits for that, and Flushed. On any failure nothing is left of
// it.
func (s *Store) Stage(ctx context.Context, slot string, content io.Reader, m Meta) (Staged, error) {
	return s.stage(slot, m, func(fd int) (op.Digest, int64, error) { return pour(ctx, fd, content) })
}

// StageCopy stages a copy of a file: sharing its blocks where the file system can, else
// keeping its holes. The copy is of one moment, or the source is stale.
func (s *Store) StageCopy(ctx context.Context, slot string, src *Node, m Meta) (Staged, error) {
	out, err := s.stage(slot, m, func(fd int) (d op.Digest, size int64, err error) {
		err = src.stably(func(from int, now Info) error {
			if err := copyFD(ctx, fd, from, now.Size); err != nil {
				return err
			}
			d, size, err = hashFD(ctx, fd, now.Size)
			return err
		})
		return d, size, err
	})
	if err == nil {
		err = s.Flushed(slot)
	}
	if err != nil && out.Slot != "" {
		_ = s.Drop(slot)
		return Staged{}, fail(err, "")
	}
	return out, err
}

// stage makes the file of a slot, fills it and begins its flush.
func (s *Store) stage(slot string, m Meta, fill func(fd int) (op.Digest, int64, error)) (Staged, error) {
	if err := checkSlot(slot, 0); err != nil {
		return Staged{}, err
	}
	fd, err := s.create(slot, m.perm()&0o777)
	if err != nil {
		return Staged{}, fail(err, "")
	}
	return s.stageIn(fd, slot, m, fill)
}

// perm is the mode that a create asks for.
func (m Meta) perm() uint32 {
	if m.Perm&0o7777 == 0 && !m.Exact {
		return 0o666
	}
	return m.Perm & 0o7777
}

// stageIn fills the empty file of a slot and begins its flush, which ends by closing fd.
func (s *Store) stageIn(fd int, slot string, m Meta, fill func(fd int) (op.Digest, int64, error)) (out Staged, err error) {
	defer func() {
		if err != nil {
			closeFD(fd)
			_ = s.Drop(slot)
			err = fail(err, "")
		}
	}()
	hash, size, err := fill(fd)
	if err != nil {
		return out, err
	}
	if m.Like == nil && m.Dir == nil {
		if err = ownAsDir(fd, s.top); err != nil {
			return out, err
		}
	}
	if err = dress(fd, m, m.perm()); err != nil {
		return out, err
	}
	i, _, err := lookAt(fd, "")
	if err != nil {
		return out, err
	}
	if !Legible(i.Mode) {
		return out, op.Fail(op.PermissionDenied, "with mode "+i.ModeString()+" the daemon could not read it again")
	}
	s.markFresh(slot, i)
	s.staging(slot, s.begin(func() error {
		defer closeFD(fd)
		return s.sync(fd)
	}))
	return Staged{Slot: slot, Inode: i.Ino, State: op.State{Kind: op.File, Hash: hash, Size: size, Mode: i.ModeString()}}, nil
}

// dress gives the file everything but its bytes.
func dress(fd int, m Meta, perm uint32) error {
	if m.Like != nil {
		if err := carry(fd, m.Like); err != nil {
			return err
		}
	} else if m.Dir != nil {
		if err := asCreated(fd, m.Dir, perm); err != nil {
			return err
		}
	}
	if m.Exact {
		return unix.Fchmod(fd, perm)
	}
	return nil
}

// StageLink stages a symbolic link with exactly this text.
func (s *Store) StageLink(slot, target string) (Staged, error) {
	if err := checkSlot(slot, 0); err != nil {
		return Staged{}, err
	}
	if err := unix.Symlinkat(target, s.fd, slot); err != nil {
		return Staged{}, fail(err, "")
	}
	i, _, err := lookAt(s.fd, slot)
	if err == nil {
		err = s.sync(s.fd) // a link cannot be synced by itself
	}
	if err != nil {
		_ = s.Drop(slot)
		return Staged{}, fail(err, "")
	}
	s.markFresh(slot, i)
	return Staged{Slot: slot, Inode: i.Ino, State: op.State{Kind: op.Symlink, Hash: HashBytes([]byte(target)), Size: i.Size, Target: target}}, nil
}

// pour writes a stream and digests it on the way.
func pour(ctx context.Context, fd int, from io.Reader) (op.Digest, int64, error) {
	kept := readers.Get().(*reader)
	defer readers.Put(kept)
	kept.hasher.Reset()
	h, b := kept.hasher, kept.buffer[:]
	var size int64
	for {
		if err := ctx.Err(); err != nil {
			return "", 0, op.Fail(op.Cancelled, "cancelled while staging").Because(err)
		}
		n, err := from.Read(b)
		if n > 0 {
			_, _ = h.Write(b[:n])
			if err := writeAt(fd, b[:n], size); err != nil {
				return "", 0, err
			}
			size += int64(n)
		}
		if errors.Is(err, io.EOF) {
			return wireDigest(h), size, nil
		}
		if err != nil {
			return "", 0, err
		}
	}
}

func writeAt(fd int, b []byte, off int64) error {
	for len(b) > 0 {
		var n int
		err := retry(func() (err error) { n, err = unix.Pwrite(fd, b, off); return err })
		if err != nil {
			return err
		}
		b, off = b[n:], off+int64(n)
	}
	return nil
}

// copyFD makes to equal from, whatever it held before.
func copyFD(ctx context.Context, to, from int, size int64) error {
	if err := unix.Ftruncate(to, 0); err != nil {
		return err
	}
	if unix.IoctlFileClone(to, from) == nil {
		return nil
	}
	b := make([]byte, min(max(size, 1), chunk))
	for off := int64(0); off < size; {
		data, err := unix.Seek(from, off, unix.SEEK_DATA)
		if err == unix.ENXIO {
			break // a hole to the end
		}
		if err != nil {
			data = off
		}
		end, err := unix.Seek(from, data, unix.SEEK_HOLE)
		if err != nil {
			end = size
		}
		if err := copyRange(ctx, to, from, data, min(end, size), b); err != nil {
			return err
		}
		off = end
	}
	return unix.Ftruncate(to, size)
}

func copyRange(ctx context.Context, to, from int, off, end int64, b []byte) error {
	for off < end {
		if err := ctx.Err(); err != nil {
			return op.Fail(op.Cancelled, "cancelled while copying").Because(err)
		}
		n, err := pread(from, b[:min(int64(len(b)), end-off)], off)
		if err != nil {
			return err
		}
		if n == 0 {
			return nil // it shrank; the caller notices
		}
		if err := writeAt(to, b[:n], off); err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}
