package fileops

import (
	"bytes"
	"context"
	"encoding/base64"
	"unicode/utf8"

	"holdpoint/op"
)

// Match is one result of a search: a line, or of the modes that do not show lines a file.
type Match struct {
	Path       op.Path `json:"path"`
	Line       int64   `json:"line,omitempty"`
	EndLine    int64   `json:"end_line,omitempty"` // of a match over several lines
	Column     int64   `json:"column,omitempty"`   // byte of the line, from 1
	Text       *string `json:"text,omitempty"`
	TextBase64 string  `json:"text_base64,omitempty"` // where the line is not UTF-8
	Cut        bool    `json:"cut,omitempty"`         // the line is longer than what is shown of it
	Before     []Line  `json:"before,omitempty"`
	After      []Line  `json:"after,omitempty"`
	Count      int64   `json:"count,omitempty"`
}

// Line is a line beside a match.
type Line struct {
	Line       int64   `json:"line"`
	Text       *string `json:"text,omitempty"`
	TextBase64 string  `json:"text_base64,omitempty"`
	Cut        bool    `json:"cut,omitempty"`
}

const (
	maxShown = 1000 // bytes of a line that is shown as a whole
	snippet  = 400  // bytes shown of a longer one
)

// scan looks through one file, of which it is given the text in order, in pieces. A piece
// ends after a line, unless the line is longer than a piece.
type scan struct {
	p       *pattern
	hunt    *hunt // may be nil: nothing can be passed over
	context int
	want    int   // lines to show; those beyond are only counted
	stop    int64 // end after this many matching lines; 0 is never
	goesOn  bool  // more pieces follow
	after   int64 // lines up to this one were shown before

	line  int64 // of the byte at which the next piece begins, from 1
	count int64
	shown []Match
	size  int // bytes of text shown
	cut   bool
	long  int64 // bytes of the line going on that earlier pieces held
	hit   bool  // and it matched there
}

// over reports whether the file need not be read on.
func (s *scan) over() bool { return s.stop > 0 && s.count >= s.stop }

// piece looks at the lines of text that begin in [from, to); what lies around is there to
// be shown beside them.
func (s *scan) piece(ctx context.Context, text []byte, from, to int) {
	if s.hunt != nil {
		s.hunt.over(text)
	}
	counted := from // s.line is the line at this byte
	for pos, n := from, 0; pos < to; n++ {
		if n%64 == 0 && ctx.Err() != nil || s.over() {
			return
		}
		if s.hunt != nil {
			at := s.hunt.from(pos)
			if at < 0 || at >= to {
				break
			}
			if !s.p.many {
				pos += bytes.LastIndexByte(text[pos:at], '\n') + 1
			}
		}
		end := lineEnd(text, pos)
		unit := text[pos:end]
		if s.p.many {
			unit = text[pos:]
		}
		a, b, ok := s.p.in(ctx, trimCR(unit, s.p.many))
		switch {
		case ok && s.p.many:
			a, b = pos+a, pos+b
			if a >= len(text) && a > 0 && text[a-1] == '\n' {
				pos = len(text) // an empty match behind the last line
				break
			}
			begin := bytes.LastIndexByte(text[:a], '\n') + 1
			last := max(a, b-1)
			end = lineEnd(text, last)
			s.line += int64(bytes.Count(text[counted:begin], []byte{'\n'}))
			counted = begin
			s.found(text, begin, end, a, b)
			pos = end + 1
		case ok:
			s.line += int64(bytes.Count(text[counted:pos], []byte{'\n'}))
			counted = pos
			s.found(text, pos, end, pos+a, pos+b)
			pos = end + 1
		case s.p.many:
			pos = len(text)
		default:
			pos = end + 1
		}
	}
	if s.goesOn && counted < to {
		s.line += int64(bytes.Count(text[counted:to], []byte{'\n'}))
	}
}

// part looks at text within a line that is longer than a piece. It keeps no more of the
// line than that it matched.
func (s *scan) part(ctx context.Context, text []byte, fresh int) {
	if s.hunt != nil {
		s.hunt.over(text)
	}
	if !s.hit && (s.hunt == nil || s.hunt.from(0) >= 0) {
		if a, b, ok := s.p.in(ctx, text); ok {
			s.hit = true
			s.add(text, 0, len(text), a, b, s.long-int64(len(text)-fresh))
		}
	}
	s.long += int64(fresh)
}

func (s *scan) found(text []byte, begin, end, a, b int) {
	s.add(text, begin, end, a, b, 0)
}

// add records a match in text[a:b], whose lines are text[begin:end]. Of a long line,
// before counts the bytes that stand before begin.
func (s *scan) add(text []byte, begin, end, a, b int, before int64) {
	if s.line <= s.after {
		return
	}
	s.count++
	if len(s.shown) >= s.want {
		return
	}
	m := Match{Line: s.line, Column: before + int64(a-begin) + 1}
	if lines := bytes.Count(text[begin:max(begin, min(b, end))], []byte{'\n'}); lines > 0 {
		m.EndLine = s.line + int64(lines)
	}
	whole := trimCR(text[begin:end], false)
	m.Text, m.TextBase64, m.Cut = showLine(whole, a-begin, min(b-begin, len(whole)))
	m.Cut = m.Cut || before > 0
	for i, e := 0, begin; i < s.context && e > 0; i++ {
		from := bytes.LastIndexByte(text[:e-1], '\n') + 1
		l := Line{Line: s.line - int64(i) - 1}
		l.Text, l.TextBase64, l.Cut = showLine(trimCR(text[from:e-1], false), 0, 0)
		m.Before = append([]Line{l}, m.Before...)
		e = from
	}
	last := max(s.line, m.EndLine)
	for i, p := 0, end+1; i < s.context && p < len(text); i++ {
		to := lineEnd(text, p)
		l := Line{Line: last + int64(i) + 1}
		l.Text, l.TextBase64, l.Cut = showLine(trimCR(text[p:to], false), 0, 0)
		m.After = append(m.After, l)
		p = to + 1
	}
	s.cut = s.cut || m.Cut
	s.shown = append(s.shown, m)
	s.size += m.size()
}

func (m Match) size() int {
	n := len(m.Path) + len(m.TextBase64) + 64
	if m.Text != nil {
		n += len(*m.Text)
	}
	for _, l := range append(m.Before[:len(m.Before):len(m.Before)], m.After...) {
		n += len(l.TextBase64) + 32
		if l.Text != nil {
			n += len(*l.Text)
		}
	}
	return n
}

// showLine gives a line, or what stands around [a, b) of a long one, as text where it is
// text.
func showLine(line []byte, a, b int) (text *string, encoded string, cut bool) {
	if len(line) > maxShown {
		cut = true
		room := max(0, snippet-(b-a)) / 2
		from := max(0, min(a-room, len(line)-snippet))
		to := min(len(line), from+snippet)
		for from < a && from > 0 && !utf8.RuneStart(line[from]) {
			from++
		}
		for to < len(line) && to > from && !utf8.RuneStart(line[to]) {
			to--
		}
		line = line[from:to]
	}
	if !utf8.Valid(line) {
		return nil, base64.StdEncoding.EncodeToString(line), cut
	}
	s := string(line)
	return &s, "", cut
}

func lineEnd(text []byte, pos int) int {
	if i := bytes.IndexByte(text[pos:], '\n'); i >= 0 {
		return pos + i
	}
	return len(text)
}

// trimCR cuts the CR of a CRLF from a line; many means that the text is no single line.
func trimCR(line []byte, many bool) []byte {
	if n := len(line); n > 0 && line[n-1] == '\r' && !many {
		return line[:n-1]
	}
	return line
}
