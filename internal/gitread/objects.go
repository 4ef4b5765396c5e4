package gitread

import (
	"context"
	"errors"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"holdpoint/op"
)

// maxObject is the largest object that is read whole.
const maxObject = 64 << 20

// objects is a repository's store with those that it borrows from.
type objects struct {
	*filesystem.Storage
	ctx  context.Context
	lent []*filesystem.Storage
}

func (s *objects) close() {
	s.Storage.Close()
	for _, l := range s.lent {
		l.Close()
	}
}

// EncodedObject looks in each store in turn.
func (s *objects) EncodedObject(t plumbing.ObjectType, h plumbing.Hash) (plumbing.EncodedObject, error) {
	if err := s.ctx.Err(); err != nil {
		return nil, op.Fail(op.Cancelled, "cancelled while reading").Because(err)
	}
	o, err := s.Storage.EncodedObject(t, h)
	for _, l := range s.lent {
		if !errors.Is(err, plumbing.ErrObjectNotFound) {
			break
		}
		o, err = l.EncodedObject(t, h)
	}
	return o, err
}

// bad words what go-git says of an object.
func (s *objects) bad(err error, h plumbing.Hash) error {
	var known *op.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	case s.ctx.Err() != nil:
		return op.Fail(op.Cancelled, "cancelled while reading").Because(err)
	case errors.Is(err, plumbing.ErrObjectNotFound):
		return unsupported("the object " + h.String() + " is not in the repository").Because(err)
	}
	return unsupported("the object " + h.String() + " cannot be read").Because(err)
}

func (s *objects) commit(h plumbing.Hash) (*object.Commit, error) {
	c, err := object.GetCommit(s, h)
	return c, s.bad(err, h)
}

// tree gives the entries of a tree; none of the zero name, which stands for nothing.
func (s *objects) tree(h plumbing.Hash) ([]object.TreeEntry, error) {
	if h.IsZero() || h == emptyTree {
		return nil, nil
	}
	t, err := object.GetTree(s, h)
	if err != nil {
		return nil, s.bad(err, h)
	}
	return t.Entries, nil
}

// emptyTree is the name of the tree that holds nothing, which no store need hold.
var emptyTree = plumbing.NewHash("4b825dc642cb6eb9a060e54bf8d69288fbee4904")

// blob reads a whole blob.
func (s *objects) blob(h plumbing.Hash) ([]byte, error) {
	o, err := s.EncodedObject(plumbing.BlobObject, h)
	if err != nil {
		return nil, s.bad(err, h)
	}
	if o.Size() > maxObject {
		return nil, op.Fail(op.TooLarge, "the object "+h.String()+" is larger than 64 MiB")
	}
	rd, err := o.Reader()
	if err != nil {
		return nil, s.bad(err, h)
	}
	defer rd.Close()
	b := make([]byte, o.Size())
	if _, err := io.ReadFull(rd, b); err != nil {
		return nil, s.bad(err, h)
	}
	return b, nil
}

func (s *objects) tag(h plumbing.Hash) (*object.Tag, error) {
	t, err := object.GetTag(s, h)
	return t, s.bad(err, h)
}
