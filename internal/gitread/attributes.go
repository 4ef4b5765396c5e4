package gitread

import (
	"bytes"
	"context"
	"path"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// attributes answers what .gitattributes say of a path: as the work tree has them, the
// nearest directory's last matching line first, .git/info/attributes before all.
type attributes struct {
	r      *repo
	ctx    context.Context
	files  map[string][]attrLine // by directory, "" is the top
	own    []attrLine            // of info/attributes
	macros map[string]map[string]string
}

type attrLine struct {
	rule Rules
	set  map[string]string // "set", "unset", "" for unspecified, or the value
}

const maxAttributes = 1 << 20

func (r *repo) attributes(ctx context.Context) *attributes {
	a := &attributes{r: r, ctx: ctx, files: map[string][]attrLine{}}
	a.macros = map[string]map[string]string{"binary": {"diff": "unset", "merge": "unset", "text": "unset"}}
	a.of("")
	text, err := r.common.join("info/attributes").small(ctx, maxAttributes)
	if err == nil {
		a.own = a.parse("", text)
	}
	return a
}

// of reads the file of one directory.
func (a *attributes) of(dir string) []attrLine {
	if list, ok := a.files[dir]; ok {
		return list
	}
	n, err := a.r.top.root.Look(a.ctx, a.r.top.join(path.Join(dir, ".gitattributes")).path, false)
	var list []attrLine
	if err == nil {
		if text, err := n.Read(maxAttributes); err == nil { // a link is not read, as git does not
			list = a.parse(dir, text)
		}
		n.Close()
	}
	a.files[dir] = list
	return list
}

func (a *attributes) parse(dir string, text []byte) (out []attrLine) {
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		pattern, rest := line, ""
		if line[0] == '"' {
			quoted, err := strconv.QuotedPrefix(line)
			if err != nil {
				continue
			}
			pattern, _ = strconv.Unquote(quoted)
			rest = line[len(quoted):]
		} else if i := strings.IndexAny(line, " \t"); i > 0 {
			pattern, rest = line[:i], line[i:]
		}
		set := map[string]string{}
		for _, word := range strings.Fields(rest) {
			a.word(set, word)
		}
		if name, is := strings.CutPrefix(pattern, "[attr]"); is {
			if dir == "" {
				a.macros[name] = set
			}
			continue
		}
		at := string(a.r.top.join(dir).path)
		if at == "." {
			at = ""
		}
		out = append(out, attrLine{a.r.o.Rules.Within(at, []string{pattern}), set})
	}
	return out
}

func (a *attributes) word(set map[string]string, word string) {
	name, value := word, "set"
	switch {
	case word[0] == '-':
		name, value = word[1:], "unset"
	case word[0] == '!':
		name, value = word[1:], ""
	case strings.Contains(word, "="):
		name, value, _ = strings.Cut(word, "=")
	}
	set[name] = value
	if value == "set" {
		for k, v := range a.macros[name] {
			set[k] = v
		}
	}
}

// get gives the attributes of a path below the top.
func (a *attributes) get(p string) map[string]string {
	out := map[string]string{}
	full := string(a.r.top.join(p).path)
	apply := func(list []attrLine) {
		for _, l := range list {
			if l.rule.Ignores(full, false) {
				for k, v := range l.set {
					out[k] = v
				}
			}
		}
	}
	apply(a.of(""))
	for i := 0; i < len(p); i++ {
		if p[i] == '/' {
			apply(a.of(p[:i]))
		}
	}
	apply(a.own)
	return out
}

// convert is what becomes of line ends on the way into the repository.
type convert uint8

const (
	asIs    convert = iota
	asText          // every CRLF becomes LF
	ifText          // where it looks like text and was not stored with CRLF
	unknown         // only a program could tell
)

func (a *attributes) convert(p string) convert {
	at := a.get(p)
	if f := at["filter"]; f != "" && f != "unset" && f != "set" {
		return unknown
	}
	if e := at["working-tree-encoding"]; e != "" && e != "unset" && !strings.EqualFold(e, "utf-8") {
		return unknown
	}
	if at["ident"] == "set" {
		return unknown
	}
	text := at["text"]
	if text == "" {
		text = at["crlf"]
	}
	eol := at["eol"]
	switch {
	case text == "unset":
		return asIs
	case text == "set", text == "input":
		return asText
	case text == "auto":
		return ifText
	case eol == "lf" || eol == "crlf":
		return asText
	case strings.EqualFold(a.r.conf["core.autocrlf"], "input"), a.r.conf.flag("core.autocrlf", false):
		return ifText
	}
	return asIs
}

// clean gives the bytes as they would be stored; stored is what the index holds.
func (c convert) clean(b []byte, stored func() []byte) []byte {
	if c == asIs || !bytes.Contains(b, []byte("\r\n")) {
		return b
	}
	if c == ifText {
		if looksBinary(b) {
			return b
		}
		if s := stored(); bytes.Contains(s, []byte("\r\n")) && !looksBinary(s) {
			return b
		}
	}
	return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
}

// looksBinary judges as git does before it touches line ends.
func looksBinary(b []byte) bool {
	printable, other := 0, 0
	for i, c := range b {
		switch {
		case c == '\r':
			if i+1 == len(b) || b[i+1] != '\n' {
				return true
			}
		case c == '\n':
		case c == 0:
			return true
		case c == 127:
			other++
		case c < 32 && c != '\b' && c != '\t' && c != 27 && c != 12:
			other++
		default:
			printable++
		}
	}
	if len(b) > 0 && b[len(b)-1] == 26 {
		other--
	}
	return printable>>7 < other
}

func blobHash(b []byte) plumbing.Hash { return plumbing.ComputeHash(plumbing.BlobObject, b) }
