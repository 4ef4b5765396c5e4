package fileops

import (
	"bytes"
	"sort"
	"unicode/utf16"
	"unicode/utf8"

	"holdpoint/op"
)

// block is how much of a file is read at a time; an even number, for UTF-16.
const block = 1 << 20

// surveyed is a file whose lines were counted, with the count at each block, so that a
// line is found by reading one block.
type surveyed struct {
	src   Source
	size  int64
	order byteOrder
	mark  int
	enc   string
	ends  []int64 // ends[i]: line endings before block i; the last entry is all of them
	total int64   // lines; -1: not counted
}

// survey reads a file once; with only set it looks no further than its beginning.
func survey(src Source, only bool) (*surveyed, error) {
	s := &surveyed{src: src, size: src.Size()}
	head, err := s.read(0, block)
	if err != nil {
		return nil, err
	}
	s.order, s.mark, s.enc = opening(head, s.size)
	if only {
		s.total = -1
		return s, nil
	}
	s.ends = []int64{0}
	last := head
	for off, b := int64(0), head; off < s.size; off += int64(len(b)) {
		if off > 0 {
			if b, err = s.read(off, block); err != nil {
				return nil, err
			}
		}
		lf, _ := text{body: b, order: s.order}.endings()
		s.ends = append(s.ends, s.ends[len(s.ends)-1]+lf)
		last = b
	}
	s.total = s.ends[len(s.ends)-1]
	if s.size > int64(s.mark) && !(text{body: last, order: s.order}).terminated() {
		s.total++
	}
	return s, nil
}

// opening judges a file by its first block. A UTF-16 file of odd length is none.
func opening(head []byte, size int64) (byteOrder, int, string) {
	t := split(head)
	enc := t.enc
	if size > int64(len(head)) {
		enc = DescribePrefix(head).Encoding
	}
	if t.order != nil && size%2 != 0 {
		return nil, 0, encBinary
	}
	return t.order, len(t.mark), enc
}

func (s *surveyed) view() View {
	return View{TotalLines: s.total, Encoding: s.enc, order: s.order, mark: s.mark}
}

// read gives n bytes, or what is left. A file that is shorter than it was is no longer
// the one that was looked at.
func (s *surveyed) read(off int64, n int) ([]byte, error) {
	if n = int(min(int64(n), s.size-off)); n <= 0 {
		return nil, nil
	}
	b, err := s.src.ReadAt(off, n)
	if len(b) < n {
		if err == nil {
			err = op.Fail(op.Stale, "the file became shorter while it was read").Do("view it again")
		}
		return nil, err
	}
	return b[:n], nil
}

// lineStart gives the offset of a line's first byte; of one behind the last, the size.
func (s *surveyed) lineStart(line int64) (int64, error) {
	if line == 1 {
		return 0, nil
	}
	if line > s.total {
		return s.size, nil
	}
	// The line begins after ending number line-1, which stands in the last block that
	// has fewer before it.
	i := sort.Search(len(s.ends), func(i int) bool { return s.ends[i] >= line-1 }) - 1
	b, err := s.read(int64(i)*block, block)
	if err != nil {
		return 0, err
	}
	pos := 0
	for range line - 1 - s.ends[i] {
		n := s.ending(b[pos:])
		if n == 0 {
			return 0, op.Fail(op.Stale, "the file changed while it was read").Do("view it again")
		}
		pos += n
	}
	return int64(i)*block + int64(pos), nil
}

// number fills in the lines of a window of bytes.
func (s *surveyed) number(v *View) error {
	i := v.Offset / block
	b, err := s.read(i*block, int(v.Offset-i*block))
	if err != nil {
		return err
	}
	lf, _ := text{body: b, order: s.order}.endings()
	v.StartLine = s.ends[i] + lf + 1
	c := text{body: v.Content, order: s.order}
	lf, _ = c.endings()
	v.EndLine = v.StartLine + lf
	if c.terminated() {
		v.EndLine--
	}
	return nil
}

// ending gives the length of the first line with its ending; 0 if none ends in b.
func (s *surveyed) ending(b []byte) int {
	if s.order == nil {
		return bytes.IndexByte(b, '\n') + 1
	}
	if i := (text{body: b, order: s.order}).index16('\n', 0); i >= 0 {
		return i + 2
	}
	return 0
}

// lineLength is the length of the first line, of all of b if it goes on.
func (s *surveyed) lineLength(b []byte) int {
	if n := s.ending(b); n > 0 {
		return n
	}
	return len(b)
}

// cut gives the largest length up to n at which b may end without parting a character.
// In bytes that are no characters it is n.
func (s *surveyed) cut(b []byte, n int) int {
	if n >= len(b) {
		return len(b)
	}
	if s.order != nil {
		n &^= 1
		if n >= 2 && n+2 <= len(b) && utf16.DecodeRune(rune(s.order.Uint16(b[n-2:])), rune(s.order.Uint16(b[n:]))) != utf8.RuneError {
			n -= 2
		}
		return n
	}
	for i := n - 1; i >= 0 && i > n-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if r, w := utf8.DecodeRune(b[i:]); (r != utf8.RuneError || w > 1) && i+w > n {
				return i
			}
			break
		}
	}
	return n
}

// charLength is the length of the first character.
func (s *surveyed) charLength(b []byte) int {
	if s.order == nil {
		_, w := utf8.DecodeRune(b)
		return w
	}
	if len(b) >= 4 && utf16.DecodeRune(rune(s.order.Uint16(b)), rune(s.order.Uint16(b[2:]))) != utf8.RuneError {
		return 4
	}
	return min(2, len(b))
}
