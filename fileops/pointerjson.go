package fileops

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"holdpoint/op"
)

// jsonFormat edits JSON, with comments and commas behind the last entry where the document
// has them.
type jsonFormat struct{}

// jsonNode is one value in the text. Entries of an object have names.
type jsonNode struct {
	start, end int
	open       byte // '{', '[' or 0
	entries    []jsonEntry
	raw        string // of a scalar
}

type jsonEntry struct {
	name     string
	start    int // of the key, or the value in a list
	colon    string
	value    *jsonNode
	comma    int // of the comma behind it; -1 without one
	ownLine  bool
	lineHead int // where its line begins
}

type jsonScanner struct {
	b []byte
	i int
}

func parseJSONText(text []byte) (*jsonNode, error) {
	s := &jsonScanner{b: text}
	if bytes.HasPrefix(text, markUTF8) {
		s.i = len(markUTF8)
	}
	n, err := s.value(0)
	if err != nil {
		return nil, err
	}
	if err := s.space(); err != nil {
		return nil, err
	}
	if s.i != len(s.b) {
		return nil, s.bad("something follows the document")
	}
	return n, nil
}

func (s *jsonScanner) bad(what string) error {
	return fmt.Errorf("%s at line %d", what, 1+bytes.Count(s.b[:min(s.i, len(s.b))], []byte("\n")))
}

// space passes over white space and comments.
func (s *jsonScanner) space() error {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			s.i++
		case bytes.HasPrefix(s.b[s.i:], []byte("//")):
			s.i = endOfLine(s.b, s.i)
		case bytes.HasPrefix(s.b[s.i:], []byte("/*")):
			k := bytes.Index(s.b[s.i+2:], []byte("*/"))
			if k < 0 {
				return s.bad("a comment has no end")
			}
			s.i += k + 4
		default:
			return nil
		}
	}
	return nil
}

// endOfLine is where the line's newline stands, or the end.
func endOfLine(b []byte, i int) int {
	if k := bytes.IndexByte(b[i:], '\n'); k >= 0 {
		return i + k
	}
	return len(b)
}

func headOfLine(b []byte, i int) int { return bytes.LastIndexByte(b[:i], '\n') + 1 }

const maxDocDepth = 200

func (s *jsonScanner) value(depth int) (*jsonNode, error) {
	if err := s.space(); err != nil {
		return nil, err
	}
	if depth > maxDocDepth || s.i >= len(s.b) {
		return nil, s.bad("a value is missing, or nested too deeply")
	}
	n := &jsonNode{start: s.i}
	var err error
	switch c := s.b[s.i]; c {
	case '{', '[':
		n.open = c
		err = s.collection(n, depth)
	case '"':
		_, err = s.str()
	default:
		for s.i < len(s.b) && strings.IndexByte(" \t\r\n,]}:/\"", s.b[s.i]) < 0 {
			s.i++
		}
	}
	n.end = s.i
	if n.open == 0 && err == nil {
		n.raw = string(s.b[n.start:n.end])
		if !json.Valid([]byte(n.raw)) {
			err = s.bad("a malformed value")
		}
	}
	return n, err
}

func (s *jsonScanner) str() (string, error) {
	from := s.i
	for s.i++; s.i < len(s.b); s.i++ {
		switch s.b[s.i] {
		case '\\':
			s.i++
		case '"':
			s.i++
			var out string
			if err := json.Unmarshal(s.b[from:s.i], &out); err != nil {
				return "", s.bad("a malformed string")
			}
			return out, nil
		}
	}
	return "", s.bad("a string has no end")
}

func (s *jsonScanner) collection(n *jsonNode, depth int) error {
	shut := byte('}')
	if n.open == '[' {
		shut = ']'
	}
	seen := map[string]bool{}
	for s.i++; ; {
		if err := s.space(); err != nil {
			return err
		}
		if s.i < len(s.b) && s.b[s.i] == shut {
			s.i++
			return nil
		}
		if k := len(n.entries); k > 0 && n.entries[k-1].comma < 0 {
			return s.bad("a comma is missing")
		}
		e := jsonEntry{start: s.i, comma: -1, lineHead: headOfLine(s.b, s.i)}
		e.ownLine = len(bytes.TrimSpace(s.b[e.lineHead:s.i])) == 0
		var err error
		if n.open == '{' {
			if s.i >= len(s.b) || s.b[s.i] != '"' {
				return s.bad("a key is missing")
			}
			if e.name, err = s.str(); err != nil {
				return err
			}
			if seen[e.name] {
				return s.bad("a key stands twice")
			}
			seen[e.name] = true
			from := s.i
			if err := s.space(); err != nil {
				return err
			}
			if s.i >= len(s.b) || s.b[s.i] != ':' {
				return s.bad("a colon is missing")
			}
			s.i++
			for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\t') {
				s.i++
			}
			e.colon = string(s.b[from:s.i])
		}
		if e.value, err = s.value(depth + 1); err != nil {
			return err
		}
		if err := s.space(); err != nil {
			return err
		}
		if s.i < len(s.b) && s.b[s.i] == ',' {
			e.comma = s.i
			s.i++
		}
		n.entries = append(n.entries, e)
	}
}

func (jsonFormat) decode(text []byte) (any, error) {
	n, err := parseJSONText(text)
	if err != nil {
		return nil, err
	}
	return n.meaning(), nil
}

func (n *jsonNode) meaning() any {
	switch n.open {
	case '{':
		out := make(map[string]any, len(n.entries))
		for _, e := range n.entries {
			out[e.name] = e.value.meaning()
		}
		return out
	case '[':
		out := make([]any, 0, len(n.entries))
		for _, e := range n.entries {
			out = append(out, e.value.meaning())
		}
		return out
	}
	dec := json.NewDecoder(strings.NewReader(n.raw))
	dec.UseNumber()
	var v any
	_ = dec.Decode(&v) // it was valid when it was scanned
	return v
}

func (f jsonFormat) value(raw op.Raw) (any, error) { return f.decode([]byte(raw)) }

// at finds the node of a path that is there, and its place in its parent.
func (n *jsonNode) at(path []string) (node, parent *jsonNode, i int) {
	node = n
	for _, key := range path {
		parent, i = node, -1
		for k, e := range node.entries {
			if node.open == '{' && e.name == key || node.open == '[' && fmt.Sprint(k) == key {
				i = k
			}
		}
		if i < 0 {
			return nil, nil, -1
		}
		node = parent.entries[i].value
	}
	return node, parent, i
}

var errNoPlace = op.Fail(op.PointerError, "nothing is there")

func (jsonFormat) replace(text []byte, path []string, raw op.Raw) ([]byte, error) {
	n, err := parseJSONText(text)
	if err != nil {
		return nil, err
	}
	node, _, _ := n.at(path)
	if node == nil {
		return nil, errNoPlace
	}
	return splice(text, node.start, node.end, laidOut(text, raw, indentAt(text, node.start), spansLines(text, n))), nil
}

// spansLines reports a document that gives its entries lines of their own.
func spansLines(text []byte, n *jsonNode) bool {
	return bytes.IndexByte(text[n.start:n.end], '\n') >= 0
}

// indentAt is the white space that the line of a place begins with.
func indentAt(text []byte, i int) string {
	head := headOfLine(text, i)
	k := head
	for k < len(text) && (text[k] == ' ' || text[k] == '\t') {
		k++
	}
	return string(text[head:k])
}

// unit is by how much the document indents; two spaces when it does not tell.
func unit(text []byte, n *jsonNode) string {
	for _, e := range n.entries {
		if e.ownLine {
			if in := indentAt(text, e.start); in != "" {
				return in
			}
		}
	}
	for _, e := range n.entries {
		if e.value.open != 0 {
			if u := unit(text, e.value); u != "" {
				return u
			}
		}
	}
	return ""
}

// laidOut writes a value as it would stand in the document.
func laidOut(text []byte, raw op.Raw, indent string, lines bool) string {
	v, err := parseJSONText([]byte(raw))
	if err != nil || v.open == 0 || len(v.entries) == 0 || !lines {
		return string(raw)
	}
	step := "  "
	if n, err := parseJSONText(text); err == nil {
		if u := unit(text, n); u != "" {
			step = u
		}
	}
	var b bytes.Buffer
	if json.Indent(&b, []byte(raw), indent, step) != nil {
		return string(raw)
	}
	return strings.ReplaceAll(b.String(), "\n", newline(text))
}

// newline is the ending of the document's lines.
func newline(text []byte) string {
	if i := bytes.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}
