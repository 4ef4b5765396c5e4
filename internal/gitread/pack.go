package gitread

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"holdpoint/op"
)

// Packs are read here and not by the library: whatever a file claims (how much an object
// holds when it is inflated, what it is a difference to, how many names there are) is held
// against a bound before memory or time is spent on it. A repository may be anybody's.

const (
	packHeader = 12
	packNames  = 8 + 256*4 // where the names begin in the list of a pack
	packTail   = 2 * 20
	maxChain   = 5000 // differences in a row; git itself makes at most 4,095
)

var errPack = errors.New("the pack does not hold what its list says")

// pack is one pack file with its list of names (version 2).
type pack struct {
	ctx   context.Context
	stem  place // without the endings
	fan   [256]uint32
	far   int64 // entries of the table of large places
	known [256]*bucket
	data  handle // while it is open
	size  int64  // of data
}

// handle is a file open for reading.
type handle interface {
	io.ReaderAt
	io.Closer
}

// bucket are the names that begin with one byte, in order, and where each object lies.
type bucket struct{ names, places []byte }

// packs looks at what lies in a directory of objects.
func packs(ctx context.Context, objects place) (out []*pack, err error) {
	names, err := gitFS{ctx, objects}.ReadDir("pack")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for _, n := range names {
		there[n.Name()] = true
	}
	for _, n := range names {
		stem, is := strings.CutSuffix(n.Name(), ".idx")
		if !is || !there[stem+".pack"] {
			continue
		}
		p := &pack{ctx: ctx, stem: objects.join("pack/" + stem)}
		if err := p.begin(); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// begin reads how many names begin with each byte.
func (p *pack) begin() error {
	list, size, err := p.regular(".idx")
	if err != nil {
		return err
	}
	defer list.Close()
	if size > maxIndex {
		return op.Fail(op.TooLarge, "the list of a pack is larger than 512 MiB").At(p.stem.path)
	}
	head := make([]byte, packNames)
	if _, err := list.ReadAt(head, 0); err != nil || string(head[:8]) != "\xfftOc\x00\x00\x00\x02" {
		return unsupported("the list of a pack has a form that is not read").At(p.stem.path)
	}
	for i := range p.fan {
		p.fan[i] = binary.BigEndian.Uint32(head[8+4*i:])
		if i > 0 && p.fan[i] < p.fan[i-1] {
			return unsupported("the list of a pack is damaged").At(p.stem.path)
		}
	}
	rest := size - packNames - packTail - int64(p.fan[255])*28
	if rest < 0 || rest%8 != 0 || rest/8 > int64(p.fan[255]) {
		return unsupported("the list of a pack is damaged").At(p.stem.path)
	}
	p.far = rest / 8
	return nil
}

// regular opens one of the two files for reading.
func (p *pack) regular(ending string) (handle, int64, error) {
	n, err := p.stem.root.Look(p.ctx, p.stem.path+op.Path(ending), true)
	if err != nil {
		return nil, 0, err
	}
	defer n.Close()
	if n.Info.Kind != op.File {
		return nil, 0, unsupported("a pack is no regular file").At(n.Path)
	}
	f, err := n.Open()
	if err != nil {
		return nil, 0, err
	}
	return f, n.Info.Size, nil
}

// among gives the names that begin with one byte.
func (p *pack) among(first byte) (*bucket, error) {
	if p.known[first] != nil {
		return p.known[first], nil
	}
	lo, hi := int64(0), int64(p.fan[first])
	if first > 0 {
		lo = int64(p.fan[first-1])
	}
	b := &bucket{make([]byte, (hi-lo)*20), make([]byte, (hi-lo)*4)}
	if hi > lo {
		list, _, err := p.regular(".idx")
		if err != nil {
			return nil, err
		}
		defer list.Close()
		if _, err := list.ReadAt(b.names, packNames+lo*20); err != nil {
			return nil, err
		}
		if _, err := list.ReadAt(b.places, packNames+int64(p.fan[255])*24+lo*4); err != nil {
			return nil, err
		}
	}
	p.known[first] = b
	return b, nil
}

// find tells where an object lies; 0 where the pack has none of that name.
func (p *pack) find(h plumbing.Hash) (int64, error) {
	b, err := p.among(h[0])
	if err != nil {
		return 0, err
	}
	n := len(b.places) / 4
	i := sort.Search(n, func(i int) bool { return bytes.Compare(b.names[i*20:i*20+20], h[:]) >= 0 })
	if i == n || !bytes.Equal(b.names[i*20:i*20+20], h[:]) {
		return 0, nil
	}
	at := int64(binary.BigEndian.Uint32(b.places[i*4:]))
	if at&0x80000000 != 0 {
		if at, err = p.distant(at & 0x7fffffff); err != nil {
			return 0, err
		}
	}
	if at < packHeader {
		return 0, errPack
	}
	return at, nil
}

// distant looks a place up that 31 bits do not hold.
func (p *pack) distant(i int64) (int64, error) {
	if i >= p.far {
		return 0, errPack
	}
	list, _, err := p.regular(".idx")
	if err != nil {
		return 0, err
	}
	defer list.Close()
	var b [8]byte
	if _, err := list.ReadAt(b[:], packNames+int64(p.fan[255])*28+i*8); err != nil {
		return 0, err
	}
	return int64(binary.BigEndian.Uint64(b[:])), nil
}

// begins lists the names that begin with some bytes.
func (p *pack) begins(prefix []byte) (out []plumbing.Hash, err error) {
	b, err := p.among(prefix[0])
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(b.names); i += 20 {
		if bytes.HasPrefix(b.names[i:], prefix) {
			out = append(out, plumbing.Hash(b.names[i:i+20]))
		}
	}
	return out, nil
}

// piece is what stands at one place of a pack: an object, or a difference to another.
type piece struct {
	at   int64
	kind plumbing.ObjectType
	size int64 // inflated, as it claims
	data int64 // where the deflated bytes begin
	base int64 // of a difference
}

func (p *pack) piece(at int64) (x piece, err error) {
	x.at = at
	var room [64]byte
	n, err := p.data.ReadAt(room[:], at)
	if err != nil && err != io.EOF {
		return x, err
	}
	head, i := room[:n], 0
	next := func() (c byte, ok bool) {
		if i < len(head) {
			c, ok = head[i], true
			i++
		}
		return c, ok
	}
	c, ok := next()
	x.kind, x.size = plumbing.ObjectType(c>>4&7), int64(c&15)
	for shift := 4; ok && c&0x80 != 0; shift += 7 {
		if c, ok = next(); shift > 53 {
			return x, errPack
		}
		x.size |= int64(c&0x7f) << shift
	}
	switch x.kind {
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
	case plumbing.OFSDeltaObject:
		c, more := next()
		back := int64(c & 0x7f)
		for ok = ok && more; ok && c&0x80 != 0; {
			if c, ok = next(); back >= 1<<48 {
				return x, errPack
			}
			back = (back+1)<<7 | int64(c&0x7f)
		}
		if x.base = at - back; back == 0 || x.base < packHeader {
			return x, errPack
		}
	case plumbing.REFDeltaObject:
		if ok = i+20 <= len(head); ok {
			if x.base, err = p.find(plumbing.Hash(head[i : i+20])); err != nil || x.base == 0 {
				return x, errors.Join(errPack, err)
			}
			i += 20
		}
	default:
		return x, errPack
	}
	if x.data = at + int64(i); !ok {
		return x, errPack
	}
	return x, nil
}

func (x piece) differs() bool {
	return x.kind == plumbing.OFSDeltaObject || x.kind == plumbing.REFDeltaObject
}

// object reads what lies at a place, through the differences that it is made of. Of what
// is larger than the bound it tells kind and size alone.
func (p *pack) object(at int64, kept *memory) (*stored, error) {
	var chain []piece
	for {
		if err := p.ctx.Err(); err != nil {
			return nil, err
		}
		if o := kept.by[spot{p, at}]; o != nil {
			return p.built(o, chain, kept)
		}
		x, err := p.piece(at)
		if err != nil {
			return nil, err
		}
		if !x.differs() {
			o := &stored{kind: x.kind, size: x.size}
			if !o.large() {
				if o.data, err = p.inflate(x); err != nil {
					return nil, err
				}
			}
			kept.add(spot{p, at}, o)
			return p.built(o, chain, kept)
		}
		if len(chain) == maxChain {
			return nil, errPack
		}
		chain, at = append(chain, x), x.base
	}
}

// built applies differences, the last first.
func (p *pack) built(o *stored, chain []piece, kept *memory) (*stored, error) {
	for _, x := range slices.Backward(chain) {
		if err := p.ctx.Err(); err != nil {
			return nil, err
		}
		if o.large() || x.size > maxObject {
			return &stored{kind: o.kind, size: maxObject + 1}, nil
		}
		change, err := p.inflate(x)
		if err != nil {
			return nil, err
		}
		if o, err = o.changed(change); err != nil {
			return nil, err
		}
		kept.add(spot{p, x.at}, o)
	}
	return o, nil
}

// inflate reads what a piece holds, which is no more than the bound.
func (p *pack) inflate(x piece) ([]byte, error) {
	out, done, err := inflating(io.NewSectionReader(p.data, x.data, p.size-x.data))
	if err != nil {
		return nil, err
	}
	defer done()
	return exactly(out, x.size)
}

// changed applies a difference.
func (o *stored) changed(d []byte) (*stored, error) {
	from, d, ok := number(d)
	size, d, ok2 := number(d)
	if !ok || !ok2 || from != int64(len(o.data)) {
		return nil, errPack
	}
	out := &stored{kind: o.kind, size: size}
	if out.large() {
		return out, nil
	}
	out.data = make([]byte, 0, size)
	for len(d) > 0 {
		c := d[0]
		d = d[1:]
		part := d
		if c&0x80 == 0 {
			if c == 0 || int(c) > len(d) {
				return nil, errPack
			}
			part, d = d[:c], d[c:]
		} else {
			var begin, n int64
			for bit := range 7 {
				if c&(1<<bit) == 0 {
					continue
				}
				if len(d) == 0 {
					return nil, errPack
				}
				if v := int64(d[0]); bit < 4 {
					begin |= v << (8 * bit)
				} else {
					n |= v << (8 * (bit - 4))
				}
				d = d[1:]
			}
			if n == 0 {
				n = 0x10000
			}
			if begin+n > int64(len(o.data)) {
				return nil, errPack
			}
			part = o.data[begin : begin+n]
		}
		if int64(len(out.data)+len(part)) > size {
			return nil, errPack
		}
		out.data = append(out.data, part...)
	}
	if int64(len(out.data)) != size {
		return nil, errPack
	}
	return out, nil
}

// number reads a size as differences begin with.
func number(b []byte) (n int64, rest []byte, ok bool) {
	for i, shift := 0, 0; i < len(b) && shift <= 56; i, shift = i+1, shift+7 {
		if n |= int64(b[i]&0x7f) << shift; b[i]&0x80 == 0 {
			return n, b[i+1:], n >= 0
		}
	}
	return 0, nil, false
}

// inflater is what inflating takes, used again.
type inflater struct {
	in  *bufio.Reader
	out io.ReadCloser
}

var inflaters = sync.Pool{New: func() any { return &inflater{in: bufio.NewReader(nil)} }}

// inflating gives what the deflated bytes of in hold. Who has read it calls the function.
func inflating(in io.Reader) (io.Reader, func(), error) {
	f := inflaters.Get().(*inflater)
	f.in.Reset(in)
	var err error
	if f.out == nil {
		f.out, err = zlib.NewReader(f.in)
	} else {
		err = f.out.(zlib.Resetter).Reset(f.in, nil)
	}
	if err != nil {
		return nil, nil, err // not used again
	}
	return f.out, func() { inflaters.Put(f) }, nil
}

// exactly reads all that there is, which must be size bytes. The caller has bounded them.
func exactly(in io.Reader, size int64) ([]byte, error) {
	b := make([]byte, size)
	if _, err := io.ReadFull(in, b); err != nil {
		return nil, err
	}
	var more [1]byte
	if n, err := io.ReadFull(in, more[:]); n > 0 || err != io.EOF {
		return nil, errPack
	}
	return b, nil
}
