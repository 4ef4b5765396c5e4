package gitread

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	gogit "github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"holdpoint/op"
)

const (
	// maxObject is the largest object that is read whole.
	maxObject = 64 << 20
	// maxKept bounds the objects that a call keeps for another look.
	maxKept = 64 << 20
)

// objects is a repository's store with those that it borrows from. The library reads the
// references; the objects are read here.
type objects struct {
	*filesystem.Storage
	ctx  context.Context
	dirs []place // of objects: the repository's own first
	all  []*pack
	seen bool    // whether all are the packs of dirs
	open []*pack // whose data is open
	kept memory
}

// mostOpen bounds the packs that a call holds open.
const mostOpen = 32

func (s *objects) close() {
	s.Storage.Close()
	s.shut()
}

func (s *objects) shut() {
	for _, p := range s.open {
		p.data.Close()
		p.data = nil
	}
	s.open = nil
}

// opened opens the data of a pack.
func (s *objects) opened(p *pack) (err error) {
	if p.data != nil {
		return nil
	}
	if len(s.open) == mostOpen {
		s.shut()
	}
	if p.data, p.size, err = p.regular(".pack"); err == nil {
		s.open = append(s.open, p)
	}
	return err
}

// stored is one object, or of one that is too large to be read only what it is. It is what
// the library takes as one.
type stored struct {
	name plumbing.Hash
	kind plumbing.ObjectType
	size int64
	data []byte
}

func (o *stored) large() bool                     { return o.size > maxObject }
func (o *stored) Hash() plumbing.Hash             { return o.name }
func (o *stored) Type() plumbing.ObjectType       { return o.kind }
func (o *stored) Size() int64                     { return o.size }
func (o *stored) SetType(plumbing.ObjectType)     {}
func (o *stored) SetSize(int64)                   {}
func (o *stored) Reader() (io.ReadCloser, error)  { return io.NopCloser(bytes.NewReader(o.data)), nil }
func (o *stored) Writer() (io.WriteCloser, error) { return nil, errors.ErrUnsupported }

// memory keeps what was read, by name and by place. It is emptied when it is full.
type memory struct {
	by   map[any]*stored
	size int64
}

// spot is a place in a pack.
type spot struct {
	p  *pack
	at int64
}

func (m *memory) add(key any, o *stored) {
	cost := int64(len(o.data)) + 200
	if cost > maxKept/4 {
		return
	}
	if m.size += cost; m.by == nil || m.size > maxKept {
		m.by, m.size = map[any]*stored{}, cost
	}
	m.by[key] = o
}

// EncodedObject finds an object in each store in turn. Its bytes are those that its name
// is the digest of, so that no tree or commit can be below or before itself.
func (s *objects) EncodedObject(t plumbing.ObjectType, h plumbing.Hash) (plumbing.EncodedObject, error) {
	if err := s.ctx.Err(); err != nil {
		return nil, op.Fail(op.Cancelled, "cancelled while reading").Because(err)
	}
	o := s.kept.by[h]
	if o == nil {
		found, err := s.read(h)
		if err != nil {
			return nil, err
		}
		o = &stored{h, found.kind, found.size, found.data}
		if !o.large() && digest(o) != h {
			return nil, errors.New("its bytes are not those of its name")
		}
		s.kept.add(h, o)
	}
	if t != plumbing.AnyObject && t != o.kind {
		return nil, plumbing.ErrObjectNotFound
	}
	return o, nil
}

func digest(o *stored) (h plumbing.Hash) {
	sum := sha1.New()
	fmt.Fprintf(sum, "%s %d\x00", o.kind, len(o.data))
	sum.Write(o.data)
	copy(h[:], sum.Sum(nil))
	return h
}

func (s *objects) packs() ([]*pack, error) {
	if s.seen {
		return s.all, nil
	}
	for _, dir := range s.dirs {
		more, err := packs(s.ctx, dir)
		if err != nil {
			return nil, err
		}
		s.all = append(s.all, more...)
	}
	s.seen = true
	return s.all, nil
}

func (s *objects) read(h plumbing.Hash) (*stored, error) {
	all, err := s.packs()
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		at, err := p.find(h)
		if err != nil {
			return nil, err
		}
		if at == 0 {
			continue
		}
		if err := s.opened(p); err != nil {
			return nil, err
		}
		return p.object(at, &s.kept)
	}
	for _, dir := range s.dirs {
		o, err := loose(s.ctx, dir, h)
		if o != nil || err != nil {
			return o, err
		}
	}
	return nil, plumbing.ErrObjectNotFound
}

// loose reads an object that is a file of its own; nil where there is none.
func loose(ctx context.Context, dir place, h plumbing.Hash) (*stored, error) {
	name := h.String()
	f, err := gitFS{ctx, dir}.Open(name[:2] + "/" + name[2:])
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in, done, err := inflating(f)
	if err != nil {
		return nil, err
	}
	defer done()
	rd := bufio.NewReader(in)
	head, err := rd.Peek(32)
	if err != nil && err != io.EOF {
		return nil, err
	}
	head, _, ok := bytes.Cut(head, []byte{0})
	kind, length, ok2 := strings.Cut(string(head), " ")
	size, err := strconv.ParseInt(length, 10, 64)
	if !ok || !ok2 || err != nil || size < 0 {
		return nil, errPack
	}
	o := &stored{size: size}
	if o.kind, err = plumbing.ParseObjectType(kind); err != nil || o.large() {
		return o, err
	}
	if _, err := rd.Discard(len(head) + 1); err != nil {
		return nil, err
	}
	o.data, err = exactly(rd, size)
	return o, err
}

// named lists the objects whose names begin with some bytes.
func (s *objects) begins(prefix []byte) (out []plumbing.Hash, err error) {
	all, err := s.packs()
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		more, err := p.begins(prefix)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	first := hex.EncodeToString(prefix[:1])
	for _, dir := range s.dirs {
		list, err := gitFS{s.ctx, dir}.ReadDir(first)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, n := range list {
			if name := first + n.Name(); len(name) == 40 && hexName.MatchString(name) && strings.HasPrefix(name, hex.EncodeToString(prefix)) {
				out = append(out, plumbing.NewHash(name))
			}
		}
	}
	return out, nil
}

// bad words what is wrong with an object.
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

// whole refuses an object that is too large to be read.
func (s *objects) whole(t plumbing.ObjectType, h plumbing.Hash) (plumbing.EncodedObject, error) {
	o, err := s.EncodedObject(t, h)
	if err == nil && o.Size() > maxObject {
		err = op.Fail(op.TooLarge, "the object "+h.String()+" is larger than 64 MiB")
	}
	return o, s.bad(err, h)
}

func (s *objects) commit(h plumbing.Hash) (*gogit.Commit, error) {
	o, err := s.whole(plumbing.CommitObject, h)
	if err != nil {
		return nil, err
	}
	c, err := gogit.DecodeCommit(s, o)
	return c, s.bad(err, h)
}

// tree gives the entries of a tree; none of the zero name, which stands for nothing.
func (s *objects) tree(h plumbing.Hash) ([]gogit.TreeEntry, error) {
	if h.IsZero() || h == emptyTree {
		return nil, nil
	}
	o, err := s.whole(plumbing.TreeObject, h)
	if err != nil {
		return nil, err
	}
	t, err := gogit.DecodeTree(s, o)
	if err != nil {
		return nil, s.bad(err, h)
	}
	return t.Entries, nil
}

// emptyTree is the name of the tree that holds nothing, which no store need hold.
var emptyTree = plumbing.NewHash("4b825dc642cb6eb9a060e54bf8d69288fbee4904")

// blob reads a whole blob. The caller must not change it.
func (s *objects) blob(h plumbing.Hash) ([]byte, error) {
	o, err := s.whole(plumbing.BlobObject, h)
	if err != nil {
		return nil, err
	}
	return o.(*stored).data, nil
}

func (s *objects) tag(h plumbing.Hash) (*gogit.Tag, error) {
	o, err := s.whole(plumbing.TagObject, h)
	if err != nil {
		return nil, err
	}
	t, err := gogit.DecodeTag(s, o)
	return t, s.bad(err, h)
}
