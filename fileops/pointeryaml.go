package fileops

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"

	"holdpoint/op"
)

// yamlFormat edits block YAML of one document by its lines, and flow parts that are JSON
// as such. What it cannot tell from the text alone it refuses.
type yamlFormat struct{}

func (yamlFormat) decode(text []byte) (any, error) {
	if deepYAML(text) {
		return nil, errors.New("it is nested too deeply")
	}
	var out any
	if err := yaml.Unmarshal(bytes.TrimPrefix(text, markUTF8), &out); err != nil {
		return nil, err
	}
	return out, nil
}

// deepBlock and deepFlow bound the levels of a document by its lines and by its brackets;
// brackets in texts count too, so there may be many.
const (
	deepBlock = 1000
	deepFlow  = 10_000
)

// deepYAML tells from brackets, from dashes in a row and from indentation that a document
// is nested more deeply than any that is meant, before a parser takes the square of that in
// time.
func deepYAML(text []byte) bool {
	open := 0
	for line := range bytes.Lines(text) {
		body := bytes.TrimLeft(line, " \t")
		levels := (len(line) - len(body)) / 2
		for len(body) > 1 && (body[0] == '-' || body[0] == '?') && (body[1] == ' ' || body[1] == '\t') {
			body = bytes.TrimLeft(body[1:], " \t")
			levels++
		}
		if levels > deepBlock {
			return true
		}
		for _, c := range body {
			switch c {
			case '[', '{':
				open++
			case ']', '}':
				open = max(0, open-1)
			}
			if open > deepFlow {
				return true
			}
		}
	}
	return false
}

func (f yamlFormat) value(raw op.Raw) (any, error) { return f.decode([]byte(raw)) }

func errYAML(what string) error { return op.Fail(op.PointerError, what+"; change it with edit_file") }

// replace keeps a comment behind a value that stands on one line.
func (f yamlFormat) replace(text []byte, path []string, raw op.Raw) ([]byte, error) {
	n, parent, i, err := yamlAt(text, path)
	if err != nil {
		return nil, err
	}
	if parent == nil {
		return nil, errYAML("the document as a whole is not replaced")
	}
	e := parent.entries[i]
	if n.kind == 'v' && n.end > n.start && !bytes.ContainsRune(text[n.start:n.end], '\n') {
		return splice(text, n.start, n.end, f.inline(raw, text[n.start])), nil
	}
	return splice(text, e.after, e.end, f.laid(text, raw, e.column, parent.kind == 's')), nil
}

func (f yamlFormat) addKey(text []byte, path []string, key string, raw op.Raw) ([]byte, error) {
	n, parent, i, err := yamlAt(text, path)
	if err != nil {
		return nil, err
	}
	if n.kind != 'm' {
		return inFlow(text, n, parent, i, func(flow []byte) ([]byte, error) { return jsonFormat{}.addKey(flow, nil, key, raw) })
	}
	last := n.entries[len(n.entries)-1]
	at := last.lineEnd
	return splice(text, at, at, newline(text)+strings.Repeat(" ", n.indent)+f.key(key)+":"+f.laid(text, raw, n.indent, false)), nil
}

func (f yamlFormat) insert(text []byte, path []string, i int, raw op.Raw) ([]byte, error) {
	n, parent, k, err := yamlAt(text, path)
	if err != nil {
		return nil, err
	}
	if n.kind != 's' {
		return inFlow(text, n, parent, k, func(flow []byte) ([]byte, error) { return jsonFormat{}.insert(flow, nil, i, raw) })
	}
	entry := strings.Repeat(" ", n.indent) + "-" + f.laid(text, raw, n.indent, true)
	if i == len(n.entries) {
		at := n.entries[i-1].lineEnd
		return splice(text, at, at, newline(text)+entry), nil
	}
	at := headOfLine(text, n.entries[i].start)
	if at+n.indent != n.entries[i].start || len(bytes.TrimSpace(text[at:n.entries[i].start])) > 0 {
		return nil, errYAML("this list begins in the line of another one")
	}
	return splice(text, at, at, entry+newline(text)), nil
}

func (f yamlFormat) remove(text []byte, path []string) ([]byte, error) {
	_, parent, i, err := yamlAt(text, path)
	if err != nil {
		return nil, err
	}
	if parent == nil {
		return nil, errYAML("the document as a whole is not removed")
	}
	if parent.kind == 'v' { // in a flow part
		flow, err := jsonFormat{}.remove(text[parent.start:parent.end], path[len(path)-1:])
		return splice(text, parent.start, parent.end, string(flow)), err
	}
	e, head := parent.entries[i], headOfLine(text, parent.entries[i].start)
	alone := len(bytes.TrimSpace(text[head:e.start])) == 0
	switch {
	case len(parent.entries) == 1:
		up, grand, k, err := yamlAt(text, path[:len(path)-1])
		empty := map[byte]string{'m': "{}", 's': "[]"}[parent.kind]
		if err != nil || grand == nil {
			return splice(text, parent.start, e.lineEnd, empty), err
		}
		_ = up
		return splice(text, grand.entries[k].after, e.lineEnd, " "+empty), nil
	case alone:
		return splice(text, head, min(endOfLine(text, e.lineEnd)+1, len(text)), ""), nil
	case i+1 < len(parent.entries):
		return splice(text, e.start, parent.entries[i+1].start, ""), nil
	}
	return nil, errYAML("this entry shares its line with another one")
}

// inFlow edits a flow part that is JSON, or fills an empty value.
func inFlow(text []byte, n, parent *yamlNode, i int, edit func([]byte) ([]byte, error)) ([]byte, error) {
	if n.kind != 'v' || n.start == n.end || text[n.start] != '{' && text[n.start] != '[' {
		return nil, errYAML("this place has another form")
	}
	flow, err := edit(text[n.start:n.end])
	if err != nil {
		return nil, errYAML("this flow part is not plain JSON")
	}
	return splice(text, n.start, n.end, string(flow)), nil
}

// inline writes a value on one line; quote is what the value there begins with.
func (f yamlFormat) inline(raw op.Raw, quote byte) string {
	var s string
	if json.Unmarshal([]byte(raw), &s) != nil || raw == "null" {
		return string(raw)
	}
	switch {
	case quote == '"':
	case quote == '\'' && !strings.ContainsAny(s, "\n\r\t") && op.Visible(s, false) == s:
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	case f.plain(s):
		return s
	}
	return string(raw)
}

// plain reports whether a text means itself without quotes.
func (f yamlFormat) plain(s string) bool {
	if s == "" || strings.ContainsAny(s, "\n\r\t{}[]&*!|>'\"%@`#,") || strings.TrimSpace(s) != s {
		return false
	}
	v, err := f.decode([]byte("v: " + s + "\n"))
	return err == nil && reflect.DeepEqual(v, map[string]any{"v": s})
}

func (f yamlFormat) key(k string) string {
	if f.plain(k) && !strings.Contains(k, ":") {
		if v, err := f.decode([]byte(k + ": 1\n")); err == nil && reflect.DeepEqual(v, map[string]any{k: uint64(1)}) {
			return k
		}
	}
	return string(op.AppendString(nil, k))
}

// laid writes what follows a colon or a dash: on its line, or as a block below it.
func (f yamlFormat) laid(text []byte, raw op.Raw, column int, inList bool) string {
	n, err := parseJSONText([]byte(raw))
	if err != nil || len(n.entries) == 0 {
		return " " + f.inline(raw, 0)
	}
	var b strings.Builder
	f.block(&b, n, column+yamlStep(text), newline(text))
	if inList && n.open == '{' && yamlStep(text) == 2 {
		// The first key stands beside the dash.
		return " " + strings.TrimLeft(b.String(), "\r\n ")
	}
	return b.String()
}

func (f yamlFormat) block(b *strings.Builder, n *jsonNode, column int, nl string) {
	for _, e := range n.entries {
		b.WriteString(nl + strings.Repeat(" ", column))
		if n.open == '{' {
			b.WriteString(f.key(e.name) + ":")
		} else {
			b.WriteString("-")
		}
		if len(e.value.entries) == 0 {
			text := e.value.raw
			if e.value.open != 0 {
				text = map[byte]string{'{': "{}", '[': "[]"}[e.value.open]
			}
			b.WriteString(" " + f.inline(op.Raw(text), 0))
			continue
		}
		f.block(b, e.value, column+2, nl)
	}
}

// yamlStep is by how much the document indents.
func yamlStep(text []byte) int {
	for line := range bytes.Lines(text) {
		if n := len(line) - len(bytes.TrimLeft(line, " ")); n > 0 && n < len(bytes.TrimRight(line, "\r\n")) && line[n] != '#' {
			return n
		}
	}
	return 2
}

// yamlAt finds a path, and its place in what holds it. Inside a flow part that is JSON the
// nodes are those of that part.
func yamlAt(text []byte, path []string) (n, parent *yamlNode, i int, err error) {
	root, err := parseYAMLBlocks(text)
	if err != nil {
		return nil, nil, 0, err
	}
	n = root
	for _, key := range path {
		if n.kind == 'v' {
			if err := n.asJSON(text); err != nil {
				return nil, nil, 0, err
			}
		}
		parent, i = n, -1
		for k, e := range n.entries {
			if n.list() && fmt.Sprint(k) == key || !n.list() && e.name == key {
				i = k
			}
		}
		if i < 0 {
			return nil, nil, 0, errYAML("this place is not written where it can be told from the text")
		}
		n = parent.entries[i].value
	}
	return n, parent, i, nil
}

// asJSON gives a flow part entries of its own.
func (n *yamlNode) asJSON(text []byte) error {
	j, err := parseJSONText(text[n.start:n.end])
	if err != nil || j.open == 0 {
		return errYAML("this flow part is not plain JSON")
	}
	n.flow = j.open
	for _, e := range j.entries {
		v := &yamlNode{kind: 'v', start: n.start + e.value.start, end: n.start + e.value.end}
		n.entries = append(n.entries, yamlEntry{name: e.name, start: n.start + e.start, after: n.start + e.value.start, end: v.end, value: v})
	}
	return nil
}

func (n *yamlNode) list() bool { return n.kind == 's' || n.flow == '[' }
