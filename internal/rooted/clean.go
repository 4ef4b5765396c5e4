package rooted

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"holdpoint/op"
)

// Clean turns a caller's spelling into a relative path, on the text alone: it opens
// nothing and answers the same whether or not a place exists. Absolute paths are taken
// where they begin with the root's canonical name or the name it was given by. Names
// that hold control characters or are not UTF-8 are taken in their escaped form only, and
// so is a first name "~", which callers write for a home directory.
// Where "b" is a link, "b/.." is cleaned away like any other.
func (r *Root) Clean(asked string) (op.Path, error) {
	return cleanPath(asked, r.Given(), r.Dir())
}

// MeansDirectory reports whether a spelling ends in "/" or "/.", by which a caller says
// that a directory stands there; Clean drops that, so who cares has to ask.
func MeansDirectory(asked string) bool {
	return strings.HasSuffix(asked, "/") || strings.HasSuffix(asked, "/.")
}

func cleanPath(asked string, prefixes ...string) (op.Path, error) {
	text, err := op.Unescape(asked)
	if err != nil {
		return "", err
	}
	raw := strings.HasPrefix(asked, op.RawPrefix)
	if err := checkSpelling(text, raw); err != nil {
		return "", err
	}
	names := strings.Split(text, "/")
	if text[0] == '/' {
		if names = stripPrefix(names, prefixes); names == nil {
			return "", outsideText()
		}
	}
	var kept []string
	for _, n := range names {
		switch n {
		case "", ".":
		case "..":
			if len(kept) == 0 {
				return "", outsideText()
			}
			kept = kept[:len(kept)-1]
		default:
			kept = append(kept, n)
		}
	}
	if len(kept) == 0 {
		return ".", nil
	}
	if kept[0] == "~" && !raw { // also as "./~": a shell would make of it what was not meant
		return "", op.Fail(op.InvalidPath, "a home directory is not looked up here; paths are relative to the root").In("args.path").
			Do("give a path relative to the workspace; a name that really begins with ~ and a slash is written raw:%%7E/...")
	}
	return op.Path(strings.Join(kept, "/")), nil
}

func checkSpelling(text string, raw bool) error {
	invalid := func(why string) error { return op.Fail(op.InvalidPath, why).In("args.path") }
	switch {
	case text == "":
		return invalid("the path is empty")
	case len(text) > maxPath:
		return invalid("the path is longer than 4096 bytes")
	case strings.IndexByte(text, 0) >= 0:
		return invalid("the path holds a NUL byte")
	case !raw && !utf8.ValidString(text):
		return invalid("the path is not UTF-8; write such a name in its raw:% form, as listings show it")
	case !raw && strings.IndexFunc(text, unicode.IsControl) >= 0:
		return invalid("the path holds a control character; write such a name in its raw:% form, as listings show it")
	}
	names := strings.Split(text, "/")
	if len(names) > maxNames {
		return invalid("the path has more than 512 names")
	}
	for _, n := range names {
		if len(n) > maxName {
			return invalid("a name in the path is longer than 255 bytes")
		}
	}
	return nil
}

// stripPrefix takes the root's own names off an absolute path and returns the rest, never
// nil unless no prefix fits. Names are compared one by one, so that "/srv/ab" does not
// begin with "/srv/a"; the longest prefix that fits is taken.
func stripPrefix(names []string, prefixes []string) []string {
	var best []string
	for _, p := range prefixes {
		rest, fits := names, true
		for _, want := range strings.Split(p, "/") {
			if want == "" {
				continue
			}
			for len(rest) > 0 && (rest[0] == "" || rest[0] == ".") {
				rest = rest[1:]
			}
			if len(rest) == 0 || rest[0] != want {
				fits = false
				break
			}
			rest = rest[1:]
		}
		if fits && p != "" && (best == nil || len(rest) < len(best)) {
			best = append([]string{}, rest...)
		}
	}
	return best
}

// outsideText never depends on what is there.
func outsideText() *op.Error {
	return op.Fail(op.OutsideWorkspace, "the path leads out of the workspace").Do("give a path relative to the root")
}
