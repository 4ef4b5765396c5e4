package rooted

import (
	"context"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// Aside keeps a copy of a file in a slot, as like as can be made, its blocks shared where the
// file system can. The copy is of one moment. It is not flushed: see Flush.
func (s *Store) Aside(ctx context.Context, slot string, src *Node) error {
	if err := checkSlot(slot, len(keptSuffix)+2); err != nil {
		return err
	}
	if src.Info.Kind != op.File {
		return op.Fail(op.NotAFile, "only files are put aside").At(src.Path)
	}
	r := &replica{s: s, seen: map[[2]uint64]string{}}
	if err := r.file(ctx, src, s.fd, slot, slot); err != nil {
		_ = s.Drop(slot)
		return fail(err, src.Path)
	}
	return nil
}

// Flush makes all that the store holds durable. It may block for as long as the disk takes.
func (s *Store) Flush() error {
	return fail(retry(func() error { return unix.Syncfs(s.fd) }), "")
}
