package trusted

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"holdpoint/op"
)

// node is one JSON value with the line on which it begins, so that every fault can name it.
type node struct {
	line   int
	value  any // string, json.Number, bool or nil; nil for lists and objects as well
	list   []*node
	keys   []string // of an object, in order
	fields []*node
	kind   byte // '{', '[', or 'v'
}

func (n *node) field(name string) *node {
	if i := slices.Index(n.keys, name); i >= 0 {
		return n.fields[i]
	}
	return nil
}

// maxDepth is deeper than any policy file goes.
const maxDepth = 8

// parseTree reads exactly one JSON value, strictly: a key that appears twice, bytes that
// are not UTF-8 and data after the value are faults. encoding/json alone would keep the
// last of two keys, so that a person and a program read different policies.
func parseTree(data []byte) (*node, error) {
	if i := firstInvalid(data); i >= 0 {
		return nil, invalid(lineOf(data, i), "", "the file is not valid UTF-8")
	}
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		offset := len(data)
		if s := (*json.SyntaxError)(nil); errors.As(err, &s) {
			offset = int(s.Offset)
		}
		return nil, invalid(lineOf(data, offset-1), "", "not well-formed JSON: "+err.Error()).Because(err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return build(dec, data, "", 0)
}

func build(dec *json.Decoder, data []byte, at string, depth int) (*node, error) {
	token, err := dec.Token()
	n := &node{line: lineOf(data, int(dec.InputOffset())-1), kind: 'v'}
	if err != nil {
		return nil, invalid(n.line, at, "not well-formed JSON: "+err.Error())
	}
	if depth > maxDepth {
		return nil, invalid(n.line, at, "nested too deeply")
	}
	delim, nested := token.(json.Delim)
	if !nested {
		n.value = token
		return n, nil
	}
	n.kind = byte(delim)
	for dec.More() {
		here := fmt.Sprintf("%s[%d]", at, len(n.list))
		if n.kind == '{' {
			key, err := dec.Token()
			name, _ := key.(string)
			line := lineOf(data, int(dec.InputOffset())-1)
			here = strings.TrimPrefix(at+"."+name, ".")
			if err != nil {
				return nil, invalid(line, here, "not well-formed JSON: "+err.Error())
			}
			if slices.Contains(n.keys, name) {
				return nil, invalid(line, here, fmt.Sprintf("the key %q appears twice", name))
			}
			n.keys = append(n.keys, name)
		}
		child, err := build(dec, data, here, depth+1)
		if err != nil {
			return nil, err
		}
		if n.kind == '{' {
			n.fields = append(n.fields, child)
		} else {
			n.list = append(n.list, child)
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, invalid(n.line, at, "not well-formed JSON: "+err.Error())
	}
	return n, nil
}

func firstInvalid(data []byte) int {
	for i := 0; i < len(data); {
		r, w := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && w == 1 {
			return i
		}
		i += w
	}
	return -1
}

func lineOf(data []byte, offset int) int {
	return 1 + bytes.Count(data[:min(max(offset, 0), len(data))], []byte("\n"))
}

// object checks that n is an object with no other keys than those known.
func (r *reader) object(n *node, at string, known ...string) {
	if n.kind != '{' {
		r.bad(n, at, "must be an object")
		return
	}
	for i, k := range n.keys {
		if !slices.Contains(known, k) {
			r.bad(n.fields[i], strings.TrimPrefix(at+"."+k, "."), fmt.Sprintf("unknown key %q; the keys are %s", k, strings.Join(known, ", ")))
		}
	}
}

// list gives the elements of a list, which must be there and, unless mayBeEmpty, hold
// something: "for all" has no form, least of all one by omission.
func (r *reader) list(n *node, at, name string, mayBeEmpty bool) []*node {
	field := strings.TrimPrefix(at+"."+name, ".")
	l := n.field(name)
	switch {
	case l == nil:
		r.bad(n, field, "is missing")
		return nil
	case l.kind != '[':
		r.bad(l, field, "must be a list")
	case len(l.list) == 0 && !mayBeEmpty:
		r.bad(l, field, "is empty, and there is no form for everything")
	}
	return l.list
}

// text gives a name: plain, and without the star that other systems read as everything.
func (r *reader) text(n, parent *node, field string) string {
	s := r.plain(n, parent, field)
	if strings.Contains(s, "*") {
		r.bad(n, field, fmt.Sprintf("%q holds a *, and there is no form for everything", s))
	}
	return s
}

// plain gives a string that reads as it is written. A lone surrogate would arrive as the
// replacement character, which is refused with the invisible ones.
func (r *reader) plain(n, parent *node, field string) string {
	if n == nil {
		r.bad(parent, field, "is missing")
		return ""
	}
	s, ok := n.value.(string)
	switch {
	case !ok:
		r.bad(n, field, "must be a string")
	case s == "" || strings.TrimSpace(s) != s:
		r.bad(n, field, fmt.Sprintf("%q is empty or begins or ends with a space", s))
	case strings.ContainsFunc(s, op.Invisible) || strings.ContainsRune(s, utf8.RuneError):
		r.bad(n, field, fmt.Sprintf("%+q holds a character that does not show", s))
	case len(s) > 4096:
		r.bad(n, field, "longer than 4,096 bytes")
	}
	return s
}

// number gives a whole number from 1 to most.
func (r *reader) number(n *node, field string, most int64) int64 {
	text, _ := n.value.(json.Number)
	v, err := strconv.ParseInt(text.String(), 10, 64)
	if err != nil || v < 1 || v > most {
		r.bad(n, field, fmt.Sprintf("must be a whole number from 1 to %d", most))
	}
	return v
}
