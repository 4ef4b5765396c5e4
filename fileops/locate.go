package fileops

import (
	"bytes"
	"iter"
)

// finding is where a pattern stands in a text.
type finding struct {
	count   int64   // places that do not overlap, from the left
	lines   []int64 // of the first maxPlaces of them
	overlap bool    // another place begins inside one of them
}

// survey finds all places. Overlaps are looked for on demand: replacing every place from
// the left is well defined with them, picking a single one is not.
func (t text) survey(pattern []byte, overlaps bool) finding {
	var f finding
	line, from := int64(1), 0
	for at := range t.places(pattern) {
		f.count++
		if f.count <= maxPlaces {
			lf, _ := text{body: t.body[from:at], order: t.order}.endings()
			line, from = line+lf, at
			f.lines = append(f.lines, line)
		}
		if overlaps && !f.overlap {
			f.overlap = t.inside(pattern, at)
		}
	}
	return f
}

// inside reports whether the pattern also begins within its place at an offset.
func (t text) inside(pattern []byte, at int) bool {
	from := at + t.unit()
	to := min(len(t.body), at+2*len(pattern)-t.unit())
	if to-from < len(pattern) {
		return false
	}
	for range (text{body: t.body[from:to], order: t.order}).places(pattern) {
		return true
	}
	return false
}

// places gives the offsets of a pattern from the left without overlaps. A pattern is
// never empty.
func (t text) places(pattern []byte) iter.Seq[int] {
	if t.order != nil {
		return wide(t.body, pattern)
	}
	return func(yield func(int) bool) {
		for i := 0; ; {
			j := bytes.Index(t.body[i:], pattern)
			if j < 0 || !yield(i+j) {
				return
			}
			i += j + len(pattern)
		}
	}
}

// wide is places for UTF-16: only at whole units. A search by bytes would find places
// across two units and might have to step over very many, so this is Knuth, Morris and
// Pratt's, whose time is linear whatever the texts.
func wide(body, pattern []byte) iter.Seq[int] {
	unit := func(b []byte, i int) [2]byte { return [2]byte(b[2*i:]) }
	n, m := len(body)/2, len(pattern)/2
	return func(yield func(int) bool) {
		back := make([]int, m) // back[i]: longest proper border of pattern[:i+1]
		for i, k := 1, 0; i < m; i++ {
			for k > 0 && unit(pattern, k) != unit(pattern, i) {
				k = back[k-1]
			}
			if unit(pattern, k) == unit(pattern, i) {
				k++
			}
			back[i] = k
		}
		for i, k := 0, 0; i < n; i++ {
			for k > 0 && unit(pattern, k) != unit(body, i) {
				k = back[k-1]
			}
			if unit(pattern, k) == unit(body, i) {
				k++
			}
			if k == m {
				if !yield(2 * (i + 1 - m)) {
					return
				}
				k = 0
			}
		}
	}
}
