package fileops

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"holdpoint/op"
)

func (tomlFormat) decode(text []byte) (any, error) {
	out := map[string]any{}
	if err := toml.Unmarshal(text, &out); err != nil {
		return nil, err
	}
	return lists(out), nil
}

// lists gives arrays of tables the type of other arrays.
func lists(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = lists(e)
		}
		return v
	case []map[string]any:
		out := make([]any, 0, len(v))
		for _, e := range v {
			out = append(out, lists(e))
		}
		return out
	case []any:
		for i, e := range v {
			v[i] = lists(e)
		}
	}
	return v
}

func (f tomlFormat) value(raw op.Raw) (any, error) {
	text, err := tomlText(raw)
	if err != nil {
		return nil, err
	}
	doc, err := f.decode([]byte("v = " + text + "\n"))
	if err != nil {
		return nil, err
	}
	return doc.(map[string]any)["v"], nil
}

// tomlText writes a JSON value in TOML, on one line.
func tomlText(raw op.Raw) (string, error) {
	n, err := parseJSONText([]byte(raw))
	if err != nil {
		return "", err
	}
	return n.toml()
}

func (n *jsonNode) toml() (string, error) {
	var parts []string
	for _, e := range n.entries {
		text, err := e.value.toml()
		if err != nil {
			return "", err
		}
		if n.open == '{' {
			text = tomlKey(e.name) + " = " + text
		}
		parts = append(parts, text)
	}
	switch {
	case n.open == '{' && len(parts) == 0:
		return "{}", nil
	case n.open == '{':
		return "{ " + strings.Join(parts, ", ") + " }", nil
	case n.open == '[':
		return "[" + strings.Join(parts, ", ") + "]", nil
	case n.raw == "null":
		return "", fmt.Errorf("TOML has no null")
	case n.raw[0] == '"':
		var s string
		if err := json.Unmarshal([]byte(n.raw), &s); err != nil {
			return "", err
		}
		return strings.ReplaceAll(string(op.AppendString(nil, s)), "\x7f", `\u007F`), nil
	}
	return n.raw, nil
}

func tomlKey(k string) string {
	for i := 0; i < len(k); i++ {
		if !isBare(k[i]) {
			return string(op.AppendString(nil, k))
		}
	}
	if k == "" {
		return `""`
	}
	return k
}

// at finds the line that holds a path, and the value in it.
func (d *tomlDoc) at(path []string) (line *tomlLine, node, parent *jsonNode, i int) {
	for k := range d.lines {
		l := &d.lines[k]
		if len(l.path) > len(path) || !slices.Equal(l.path, path[:len(l.path)]) {
			continue
		}
		if node, parent, i = l.value.at(path[len(l.path):]); node != nil {
			return l, node, parent, i
		}
	}
	return nil, nil, nil, 0
}

func errTable() error {
	return op.Fail(op.PointerError, "this is a table of its own; change it with edit_file, or name a key in it")
}

func (tomlFormat) replace(text []byte, path []string, raw op.Raw) ([]byte, error) {
	d, err := scanTOML(text)
	if err != nil {
		return nil, err
	}
	value, err := tomlText(raw)
	if err != nil {
		return nil, err
	}
	_, node, _, _ := d.at(path)
	if node == nil {
		return nil, errTable()
	}
	return splice(text, node.start, node.end, value), nil
}

func (tomlFormat) addKey(text []byte, path []string, key string, raw op.Raw) ([]byte, error) {
	d, err := scanTOML(text)
	if err != nil {
		return nil, err
	}
	value, err := tomlText(raw)
	if err != nil {
		return nil, err
	}
	if _, node, _, _ := d.at(path); node != nil {
		return enterInline(text, node, -1, tomlKey(key), value), nil
	}
	table := slices.IndexFunc(d.heads, func(h tomlHead) bool { return slices.Equal(h.path, path) })
	if table < 0 && len(path) > 0 {
		return nil, errTable()
	}
	entry, nl := tomlKey(key)+" = "+value, newline(text)
	for k := len(d.lines) - 1; k >= 0; k-- {
		if l := d.lines[k]; l.table == table && len(l.path) == len(path)+1 {
			at := endOfLine(text, l.value.end)
			at = headOfLine(text, at) + len(bytes.TrimRight(text[headOfLine(text, at):at], "\r"))
			return splice(text, at, at, nl+indentAt(text, l.start)+entry), nil
		}
	}
	if table >= 0 {
		h := d.heads[table]
		at := h.start + len(bytes.TrimRight(text[h.start:h.end], "\r"))
		return splice(text, at, at, nl+indentAt(text, h.start)+entry), nil
	}
	if len(d.heads) > 0 { // the keys of no table stand before all others
		at := headOfLine(text, d.heads[0].start)
		return splice(text, at, at, entry+nl+nl), nil
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		entry = nl + entry
	}
	return splice(text, len(text), len(text), entry+nl), nil
}

// enterInline puts an entry into an array or an inline table.
func enterInline(text []byte, n *jsonNode, i int, key, value string) []byte {
	if len(n.entries) > 0 {
		return enterBeside(text, n, i, key, value)
	}
	if key != "" {
		value = " " + key + " = " + value + " "
	}
	return splice(text, n.end-1, n.end-1, value)
}

func (tomlFormat) insert(text []byte, path []string, i int, raw op.Raw) ([]byte, error) {
	d, err := scanTOML(text)
	if err != nil {
		return nil, err
	}
	value, err := tomlText(raw)
	if err != nil {
		return nil, err
	}
	_, node, _, _ := d.at(path)
	if node == nil || node.open != '[' {
		return nil, errTable()
	}
	return enterInline(text, node, i, "", value), nil
}

func (tomlFormat) remove(text []byte, path []string) ([]byte, error) {
	d, err := scanTOML(text)
	if err != nil {
		return nil, err
	}
	line, node, parent, i := d.at(path)
	switch {
	case node == nil:
		return nil, errTable()
	case parent != nil:
		return removeEntry(text, parent, i), nil
	}
	return splice(text, headOfLine(text, line.start), min(endOfLine(text, line.value.end)+1, len(text)), ""), nil
}
