package fileops

import (
	"bytes"
	"encoding/json"
	"strings"
)

// yamlNode is a block of lines, or a value on its line.
type yamlNode struct {
	kind       byte // 'm' mapping, 's' sequence, 'v' any other value
	flow       byte // of a 'v' that was read as JSON: '{' or '['
	indent     int
	start, end int
	entries    []yamlEntry
}

type yamlEntry struct {
	name    string
	start   int // of the key, or the dash
	column  int
	after   int // right behind the colon or the dash
	end     int // of the value
	lineEnd int // of the last line of the value, with a comment on it
	value   *yamlNode
}

// yamlScanner goes by lines. at is where the next content begins.
type yamlScanner struct {
	b []byte
	i int
}

func parseYAMLBlocks(text []byte) (*yamlNode, error) {
	s := &yamlScanner{b: text}
	if bytes.HasPrefix(text, markUTF8) {
		s.i = len(markUTF8)
	}
	s.next()
	for s.i < len(text) && text[s.i] == '%' {
		s.i = endOfLine(text, s.i)
		s.next()
	}
	if s.column() == 0 && bytes.HasPrefix(text[s.i:], []byte("---")) {
		s.i += 3
		s.next()
	}
	if s.i >= len(text) {
		return nil, errYAML("the document is empty")
	}
	n, err := s.node(-1)
	if err != nil {
		return nil, err
	}
	s.next()
	if s.i < len(text) {
		return nil, errYAML("there is more than one document, or a form that is not block YAML")
	}
	return n, nil
}

// next goes to where the next content begins, past blank lines and comments.
func (s *yamlScanner) next() {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == ' ' || c == '\n' || c == '\r':
			s.i++
		case c == '#' && (s.i == 0 || s.b[s.i-1] == ' ' || s.b[s.i-1] == '\n'):
			s.i = endOfLine(s.b, s.i)
		default:
			return
		}
	}
}

func (s *yamlScanner) column() int { return s.i - headOfLine(s.b, s.i) }

// rest is what is left of the line, without its ending.
func (s *yamlScanner) rest() []byte {
	return bytes.TrimRight(s.b[s.i:endOfLine(s.b, s.i)], "\r")
}

func isDash(l []byte) bool { return len(l) > 0 && l[0] == '-' && (len(l) == 1 || l[1] == ' ') }

// node reads a value that begins here and is indented by more than around.
func (s *yamlScanner) node(around int) (*yamlNode, error) {
	switch l := s.rest(); {
	case isDash(l):
		return s.block('s')
	case yamlKeyLen(l) > 0:
		return s.block('m')
	}
	return s.scalar(around)
}

func (s *yamlScanner) block(kind byte) (*yamlNode, error) {
	n := &yamlNode{kind: kind, indent: s.column(), start: s.i}
	for s.i < len(s.b) && s.column() == n.indent {
		l := s.rest()
		e := yamlEntry{start: s.i, column: n.indent}
		switch {
		case kind == 's' && isDash(l):
			e.after = s.i + 1
		case kind == 'm' && yamlKeyLen(l) > 0:
			k := yamlKeyLen(l)
			name, err := yamlKeyText(string(bytes.TrimRight(l[:k-1], " ")))
			if err != nil {
				return nil, err
			}
			e.name, e.after = name, s.i+k
		default:
			return n, nil
		}
		s.i = e.after
		if err := s.valueOf(n, &e); err != nil {
			return nil, err
		}
		e.end = e.value.end
		e.lineEnd = endOfLine(s.b, e.end)
		e.lineEnd = headOfLine(s.b, e.lineEnd) + len(bytes.TrimRight(s.b[headOfLine(s.b, e.lineEnd):e.lineEnd], "\r"))
		n.entries = append(n.entries, e)
		n.end = e.lineEnd
		s.i = max(s.i, e.end)
		s.next()
	}
	if s.i < len(s.b) && s.column() > n.indent {
		return nil, errYAML("lines are indented in a way that is not understood here")
	}
	return n, nil
}

// valueOf reads what stands behind a colon or a dash.
func (s *yamlScanner) valueOf(n *yamlNode, e *yamlEntry) error {
	for s.i < len(s.b) && s.b[s.i] == ' ' {
		s.i++
	}
	l, err := s.rest(), error(nil)
	switch {
	case len(l) > 0 && strings.IndexByte("&*!", l[0]) >= 0:
		return errYAML("anchors, aliases and tags are not followed here")
	case len(l) > 0 && l[0] != '#' && n.kind == 's':
		e.value, err = s.node(n.indent)
		return err
	case len(l) > 0 && l[0] != '#':
		e.value, err = s.scalar(n.indent)
		return err
	}
	s.next()
	deeper := s.i < len(s.b) && (s.column() > n.indent || n.kind == 'm' && s.column() == n.indent && isDash(s.rest()))
	if !deeper {
		e.value = &yamlNode{kind: 'v', start: e.after, end: e.after}
		return nil
	}
	if k := strings.IndexByte("&*!", s.b[s.i]); k >= 0 {
		return errYAML("anchors, aliases and tags are not followed here")
	}
	e.value, err = s.node(n.indent)
	return err
}

// scalar reads a plain, quoted, block or flow value, over several lines where those are
// indented by more than around.
func (s *yamlScanner) scalar(around int) (*yamlNode, error) {
	n := &yamlNode{kind: 'v', start: s.i}
	switch c := s.b[s.i]; c {
	case '{', '[':
		if err := s.flow(); err != nil {
			return nil, err
		}
	case '"', '\'':
		if err := s.quotedText(c); err != nil {
			return nil, err
		}
	case '|', '>':
		s.i = endOfLine(s.b, s.i)
		s.deeper(around, true)
	default:
		l := s.rest()
		if k := bytes.Index(l, []byte(" #")); k >= 0 {
			l = l[:k]
		}
		s.i += len(bytes.TrimRight(l, " "))
		s.deeper(around, false)
	}
	n.end = s.i
	return n, nil
}

// deeper takes the following lines that are indented by more than around.
func (s *yamlScanner) deeper(around int, blank bool) {
	for at := endOfLine(s.b, s.i); at < len(s.b); {
		at++
		end := endOfLine(s.b, at)
		line := bytes.TrimRight(s.b[at:end], "\r")
		body := bytes.TrimLeft(line, " ")
		switch {
		case len(body) == 0:
		case len(line)-len(body) <= around, !blank && body[0] == '#':
			return
		default:
			s.i = at + len(line)
		}
		at = end
	}
}

func (s *yamlScanner) quotedText(q byte) error {
	for s.i++; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '\\' && q == '"':
			s.i++
		case c == q && q == '\'' && s.i+1 < len(s.b) && s.b[s.i+1] == q:
			s.i++
		case c == q:
			s.i++
			return nil
		}
	}
	return errYAML("a quoted text has no end")
}

// flow passes over a balanced flow part.
func (s *yamlScanner) flow() error {
	for depth := 0; s.i < len(s.b); {
		switch c := s.b[s.i]; {
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case c == '"' || c == '\'':
			if err := s.quotedText(c); err != nil {
				return err
			}
			continue
		case c == '#' && s.b[s.i-1] == ' ':
			s.i = endOfLine(s.b, s.i)
			continue
		}
		s.i++
		if depth == 0 {
			return nil
		}
	}
	return errYAML("a flow part has no end")
}

// yamlKeyLen is the length of a key with its colon at the start of a line; 0 for none.
func yamlKeyLen(l []byte) int {
	if len(l) == 0 || strings.IndexByte("[]{}#&*!|>%@`,", l[0]) >= 0 || l[0] == '?' && (len(l) == 1 || l[1] == ' ') {
		return 0
	}
	i := 0
	if l[0] == '"' || l[0] == '\'' {
		q := &yamlScanner{b: l}
		if q.quotedText(l[0]) != nil {
			return 0
		}
		i = q.i
		for i < len(l) && l[i] == ' ' {
			i++
		}
		if i < len(l) && l[i] == ':' && (i+1 == len(l) || l[i+1] == ' ') {
			return i + 1
		}
		return 0
	}
	for ; i < len(l); i++ {
		switch {
		case l[i] == ':' && (i+1 == len(l) || l[i+1] == ' '):
			return i + 1
		case l[i] == '#' && i > 0 && l[i-1] == ' ':
			return 0
		}
	}
	return 0
}

func yamlKeyText(k string) (string, error) {
	switch {
	case strings.HasPrefix(k, `"`):
		var s string
		if json.Unmarshal([]byte(k), &s) != nil {
			return "", errYAML("a key is quoted in a way that is not understood here")
		}
		return s, nil
	case strings.HasPrefix(k, "'"):
		return strings.ReplaceAll(k[1:len(k)-1], "''", "'"), nil
	}
	return k, nil
}
