package fileops

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// tomlFormat edits TOML. Where a table has no place of its own in the text, nothing is
// added to it.
type tomlFormat struct{}

// tomlLine is one "key = value" with the full path of its key.
type tomlLine struct {
	path  []string
	table int // which heading it stands under; -1 is none
	start int // of the key
	value *jsonNode
}

// tomlHead is one [table] or [[table]].
type tomlHead struct {
	path       []string
	start, end int // of its line, without the ending
}

type tomlDoc struct {
	lines []tomlLine
	heads []tomlHead
}

type tomlScanner struct {
	jsonScanner
	doc    tomlDoc
	prefix []string
	arrays map[string]int // of tables: how many so far
}

func scanTOML(text []byte) (*tomlDoc, error) {
	s := &tomlScanner{jsonScanner: jsonScanner{b: text}, arrays: map[string]int{}}
	for {
		s.blank(true)
		if s.i >= len(s.b) {
			return &s.doc, nil
		}
		var err error
		if s.b[s.i] == '[' {
			err = s.heading()
		} else {
			err = s.line()
		}
		if err != nil {
			return nil, err
		}
	}
}

// blank passes over white space, and with lines also over newlines and comments.
func (s *tomlScanner) blank(lines bool) {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == ' ' || c == '\t':
			s.i++
		case lines && (c == '\n' || c == '\r'):
			s.i++
		case lines && c == '#':
			s.i = endOfLine(s.b, s.i)
		default:
			return
		}
	}
}

func (s *tomlScanner) heading() error {
	start, double := s.i, bytes.HasPrefix(s.b[s.i:], []byte("[["))
	s.i++
	if double {
		s.i++
	}
	keys, err := s.keys()
	if err != nil {
		return err
	}
	shut := "]"
	if double {
		shut = "]]"
	}
	if !bytes.HasPrefix(s.b[s.i:], []byte(shut)) {
		return s.bad("a heading has no end")
	}
	s.i += len(shut)
	// A name of an array of tables means its last one.
	var path []string
	for i, k := range keys {
		path = append(path, k)
		id := strings.Join(path, "\x00")
		if double && i == len(keys)-1 {
			s.arrays[id]++
		}
		if n := s.arrays[id]; n > 0 {
			path = append(path, strconv.Itoa(n-1))
		}
	}
	s.prefix = path
	s.doc.heads = append(s.doc.heads, tomlHead{path, start, endOfLine(s.b, s.i)})
	s.i = endOfLine(s.b, s.i)
	return nil
}

// keys reads a dotted key.
func (s *tomlScanner) keys() ([]string, error) {
	var out []string
	for {
		s.blank(false)
		if s.i >= len(s.b) {
			return nil, s.bad("a key is missing")
		}
		from := s.i
		switch s.b[s.i] {
		case '"':
			k, err := s.str()
			if err != nil {
				return nil, err
			}
			out = append(out, k)
		case '\'':
			k := bytes.IndexByte(s.b[s.i+1:], '\'')
			if k < 0 {
				return nil, s.bad("a key has no end")
			}
			out = append(out, string(s.b[s.i+1:s.i+1+k]))
			s.i += k + 2
		default:
			for s.i < len(s.b) && isBare(s.b[s.i]) {
				s.i++
			}
			if s.i == from {
				return nil, s.bad("a key is missing")
			}
			out = append(out, string(s.b[from:s.i]))
		}
		s.blank(false)
		if s.i >= len(s.b) || s.b[s.i] != '.' {
			return out, nil
		}
		s.i++
	}
}

func isBare(c byte) bool {
	return c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func (s *tomlScanner) line() error {
	l := tomlLine{start: s.i, table: len(s.doc.heads) - 1}
	keys, err := s.keys()
	if err != nil {
		return err
	}
	if s.i >= len(s.b) || s.b[s.i] != '=' {
		return s.bad("an equals sign is missing")
	}
	s.i++
	s.blank(false)
	l.path = append(slices.Clone(s.prefix), keys...)
	if l.value, err = s.tomlValue(0); err != nil {
		return err
	}
	s.doc.lines = append(s.doc.lines, l)
	return nil
}

func (s *tomlScanner) tomlValue(depth int) (*jsonNode, error) {
	if depth > maxDocDepth || s.i >= len(s.b) {
		return nil, s.bad("a value is missing")
	}
	n := &jsonNode{start: s.i}
	var err error
	switch c := s.b[s.i]; c {
	case '[', '{':
		n.open = c
		err = s.inline(n, depth)
	case '"', '\'':
		err = s.tomlString(c)
	default:
		for s.i < len(s.b) && strings.IndexByte(",]}\n#", s.b[s.i]) < 0 {
			s.i++
		}
		s.i = n.start + len(bytes.TrimRight(s.b[n.start:s.i], " \t\r"))
	}
	n.end = s.i
	return n, err
}

func (s *tomlScanner) tomlString(quote byte) error {
	q := string([]byte{quote, quote, quote})
	if bytes.HasPrefix(s.b[s.i:], []byte(q)) {
		for s.i += 3; s.i < len(s.b); s.i++ {
			switch {
			case quote == '"' && s.b[s.i] == '\\':
				s.i++
			case bytes.HasPrefix(s.b[s.i:], []byte(q)):
				s.i += 3
				for s.i < len(s.b) && s.b[s.i] == quote {
					s.i++ // up to two quotes may stand right before the end
				}
				return nil
			}
		}
		return s.bad("a string has no end")
	}
	for s.i++; s.i < len(s.b) && s.b[s.i] != '\n'; s.i++ {
		switch {
		case quote == '"' && s.b[s.i] == '\\':
			s.i++
		case s.b[s.i] == quote:
			s.i++
			return nil
		}
	}
	return s.bad("a string has no end")
}

// inline reads an array or an inline table.
func (s *tomlScanner) inline(n *jsonNode, depth int) error {
	shut := byte(']')
	if n.open == '{' {
		shut = '}'
	}
	for s.i++; ; {
		s.blank(true)
		if s.i < len(s.b) && s.b[s.i] == shut {
			s.i++
			return nil
		}
		e := jsonEntry{start: s.i, comma: -1, lineHead: headOfLine(s.b, s.i)}
		e.ownLine = len(bytes.TrimSpace(s.b[e.lineHead:s.i])) == 0
		if n.open == '{' {
			keys, err := s.keys()
			if err != nil {
				return err
			}
			e.name = strings.Join(keys, "\x00") // a dotted one is found by no pointer
			from := s.i
			for from > e.start && s.b[from-1] == ' ' {
				from--
			}
			if s.i >= len(s.b) || s.b[s.i] != '=' {
				return s.bad("an equals sign is missing")
			}
			s.i++
			s.blank(false)
			e.colon = string(s.b[from:s.i])
		}
		var err error
		if e.value, err = s.tomlValue(depth + 1); err != nil {
			return err
		}
		s.blank(true)
		if s.i < len(s.b) && s.b[s.i] == ',' {
			e.comma = s.i
			s.i++
		} else if s.i >= len(s.b) || s.b[s.i] != shut {
			return s.bad("a comma is missing")
		}
		n.entries = append(n.entries, e)
	}
}
