package fileops

import (
	"bytes"
	"strings"

	"holdpoint/op"
)

func (f jsonFormat) addKey(text []byte, path []string, key string, raw op.Raw) ([]byte, error) {
	return f.enter(text, path, -1, string(op.AppendString(nil, key)), raw)
}

func (f jsonFormat) insert(text []byte, path []string, i int, raw op.Raw) ([]byte, error) {
	return f.enter(text, path, i, "", raw)
}

// enter puts an entry behind entry i-1 of a collection, with -1 behind the last.
func (jsonFormat) enter(text []byte, path []string, i int, key string, raw op.Raw) ([]byte, error) {
	root, err := parseJSONText(text)
	if err != nil {
		return nil, err
	}
	n, _, _ := root.at(path)
	if n == nil {
		return nil, errNoPlace
	}
	if len(n.entries) == 0 {
		return enterEmpty(text, root, n, key, raw), nil
	}
	like := n.entries[min(max(i, 0), len(n.entries)-1)]
	return enterBeside(text, n, i, key, laidOut(text, raw, indentAt(text, like.start), like.ownLine)), nil
}

// enterBeside puts an entry before entry i, with -1 behind the last, in the way in which
// those beside it are written.
func enterBeside(text []byte, n *jsonNode, i int, key, entry string) []byte {
	if i < 0 {
		i = len(n.entries)
	}
	like := n.entries[min(i, len(n.entries)-1)]
	lines := like.ownLine
	indent := indentAt(text, like.start)
	if key != "" {
		entry = key + like.colon + entry
	}
	between := " "
	if lines {
		between = newline(text) + indent
	} else if len(n.entries) > 1 {
		if k := n.entries[0].comma; k >= 0 && n.entries[1].start == k+1 {
			between = ""
		}
	}
	if i < len(n.entries) {
		return splice(text, like.start, like.start, entry+","+between)
	}
	// Behind the last: its comma goes right behind its value, the new line behind what
	// else is on its line.
	if like.comma >= 0 {
		at := restOfLine(text, like.comma+1, lines)
		return splice(text, at, at, between+entry+",")
	}
	at := restOfLine(text, like.value.end, lines)
	out := splice(text, at, at, between+entry)
	return splice(out, like.value.end, like.value.end, ",")
}

// restOfLine passes over a comment behind a value.
func restOfLine(text []byte, at int, lines bool) int {
	if !lines {
		return at
	}
	end := endOfLine(text, at)
	rest := bytes.TrimSpace(text[at:end])
	if bytes.HasPrefix(rest, []byte("//")) || bytes.HasPrefix(rest, []byte("#")) || bytes.HasPrefix(rest, []byte("/*")) && bytes.HasSuffix(rest, []byte("*/")) {
		return at + len(bytes.TrimRight(text[at:end], " \t\r"))
	}
	return at
}

func enterEmpty(text []byte, root, n *jsonNode, key string, raw op.Raw) []byte {
	indent := indentAt(text, n.start)
	// A list of one short value stays on its line.
	lines := spansLines(text, root) && (n.open == '{' || strings.ContainsAny(string(raw), "{["))
	step := unit(text, root)
	if step == "" {
		step = "  "
	}
	inner := laidOut(text, raw, indent+step, lines)
	if key != "" {
		inner = key + ": " + inner
	}
	if lines {
		inner = newline(text) + indent + step + inner + newline(text) + indent
	}
	if blank := bytes.TrimSpace(text[n.start+1 : n.end-1]); len(blank) > 0 {
		return splice(text, n.end-1, n.end-1, inner) // a comment is all it holds
	}
	return splice(text, n.start+1, n.end-1, inner)
}

func (jsonFormat) remove(text []byte, path []string) ([]byte, error) {
	root, err := parseJSONText(text)
	if err != nil {
		return nil, err
	}
	_, n, i := root.at(path)
	if n == nil {
		return nil, errNoPlace
	}
	return removeEntry(text, n, i), nil
}

// removeEntry takes an entry out with its comma, and with its line where it has one to
// itself.
func removeEntry(text []byte, n *jsonNode, i int) []byte {
	e := n.entries[i]
	last := i == len(n.entries)-1
	end := e.value.end
	if e.comma >= 0 {
		end = e.comma + 1
	}
	alone := e.ownLine && len(bytes.TrimSpace(text[restOfLine(text, end, true):endOfLine(text, end)])) == 0
	var out []byte
	switch {
	case alone:
		out = splice(text, e.lineHead, min(endOfLine(text, end)+1, len(text)), "")
	case !last:
		out = splice(text, e.start, n.entries[i+1].start, "")
	case i > 0:
		from := n.entries[i-1].value.end
		if n.entries[i-1].comma >= 0 {
			from = n.entries[i-1].comma + 1
		}
		out = splice(text, from, end, "")
	default:
		out = splice(text, e.start, end, "")
	}
	if last && i > 0 && e.comma < 0 {
		comma := n.entries[i-1].comma
		out = splice(out, comma, comma+1, "")
	}
	return out
}
