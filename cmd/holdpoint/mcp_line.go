package main

import (
	"bytes"
	"io"

	"holdpoint/op"
)

// glance is what a splice reads of a message: which one it is. The rest is nobody's
// business on the way.
type glance struct {
	id     string // as it is written; empty for a notification
	method string // empty for an answer
	name   string // params.name
	about  string // params.requestId, as it is written
	uri    string // params.uri, as it is written
}

// glanceAt reads the outermost keys of a message. What it does not understand it leaves
// alone: the other end says what is wrong with it. An answer is read to its id only.
func glanceAt(line []byte) (g glance) {
	s := scan{b: line}
	if !s.next('{') {
		return g
	}
	for {
		key, ok := s.text()
		if !ok || !s.next(':') {
			return g
		}
		switch key {
		case "id":
			g.id = string(s.value())
		case "method":
			g.method, _ = s.text()
		case "params":
			s.params(&g)
		case "result", "error":
			if g.id != "" {
				return g
			}
			s.value()
		default:
			s.value()
		}
		if !s.next(',') {
			return g
		}
	}
}

// scan walks over JSON without making anything of it.
type scan struct {
	b []byte
	i int
}

// next passes a mark, if it comes next.
func (s *scan) next(mark byte) bool {
	s.space()
	if s.i < len(s.b) && s.b[s.i] == mark {
		s.i++
		return true
	}
	return false
}

func (s *scan) space() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\t' || s.b[s.i] == '\n' || s.b[s.i] == '\r') {
		s.i++
	}
}

// text passes a string and gives what stands between its quotes.
func (s *scan) text() (string, bool) {
	s.space()
	start := s.i
	if s.i >= len(s.b) || s.b[s.i] != '"' {
		s.value()
		return "", false
	}
	s.quoted()
	if s.i-start < 2 {
		return "", false
	}
	return string(s.b[start+1 : s.i-1]), true
}

// quoted passes a string at whose first quote it stands.
func (s *scan) quoted() {
	for from := s.i + 1; ; {
		n := bytes.IndexByte(s.b[min(from, len(s.b)):], '"')
		if n < 0 {
			s.i = len(s.b)
			return
		}
		end, slashes := from+n, 0
		for end-1-slashes > s.i && s.b[end-1-slashes] == '\\' {
			slashes++
		}
		if from = end + 1; slashes%2 == 0 {
			s.i = from
			return
		}
	}
}

// value passes any value and gives its bytes.
func (s *scan) value() []byte {
	s.space()
	start, depth := s.i, 0
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case '"':
			if s.quoted(); depth == 0 {
				return s.b[start:s.i]
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return bytes.TrimSpace(s.b[start:s.i])
			}
			if depth--; depth == 0 {
				s.i++
				return s.b[start:s.i]
			}
		case ',':
			if depth == 0 {
				return bytes.TrimSpace(s.b[start:s.i])
			}
		}
		s.i++
	}
	return s.b[start:s.i]
}

func (s *scan) params(g *glance) {
	if s.space(); s.i >= len(s.b) || s.b[s.i] != '{' {
		s.value()
		return
	}
	for s.i++; ; {
		key, ok := s.text()
		if !ok || !s.next(':') {
			break
		}
		switch key {
		case "name":
			g.name, _ = s.text()
		case "uri":
			g.uri = string(s.value())
		case "requestId":
			g.about = string(s.value())
		default:
			s.value()
		}
		if !s.next(',') {
			break
		}
	}
	s.next('}')
}

// wholeLines reads what is there of whole lines, at least one.
type wholeLines struct {
	r     io.Reader
	buf   []byte
	from  int // what is not given out yet
	to    int // what is read
	limit int
}

// next gives lines that stay valid until it is called again. What stands behind the last
// end of a line when the reader ends is no message and is dropped.
func (w *wholeLines) next() ([]byte, error) {
	searched := w.from
	for {
		if n := bytes.LastIndexByte(w.buf[searched:w.to], '\n'); n >= 0 {
			out := w.buf[w.from : searched+n+1]
			w.from = searched + n + 1
			return out, nil
		}
		searched = w.to
		if w.to == len(w.buf) {
			held := w.to - w.from
			if held > w.limit {
				return nil, op.Fail(op.TooLarge, "a message is too long")
			}
			to := w.buf
			if held > len(w.buf)/2 || len(w.buf) == 0 {
				to = make([]byte, max(64<<10, 2*len(w.buf)))
			}
			copy(to, w.buf[w.from:w.to])
			w.buf, w.from, w.to, searched = to, 0, held, held
		}
		n, err := w.r.Read(w.buf[w.to:])
		if w.to += n; err != nil && n == 0 {
			return nil, err
		}
	}
}
