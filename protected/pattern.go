package protected

import "strings"

// pattern is one line of an ignore file, taken apart.
type pattern struct {
	text    string // as `git check-ignore -v` prints it
	negated bool
	dirOnly bool // matches directories alone
	byName  bool // without a slash: compared with the last element
	never   bool // malformed: matches nothing
	glob    glob
}

// parse takes a line apart in the way of git. The second answer is false for a comment
// and for an empty line. With fold, letters are made equal in all their cases and
// spellings; the paths to compare must then be folded too.
func parse(line string, fold bool) (pattern, bool) {
	if line == "" || line[0] == '#' {
		return pattern{}, false
	}
	// Git holds a line as a C string.
	if i := strings.IndexByte(line, 0); i >= 0 {
		line = line[:i]
	}
	line = trimSpaces(strings.TrimSuffix(line, "\r"))

	p := pattern{text: line}
	body := line
	if strings.HasPrefix(body, "!") {
		p.negated, body = true, body[1:]
	}
	if strings.HasSuffix(body, "/") {
		p.dirOnly, body = true, body[:len(body)-1]
	}
	// A slash counts wherever it stands, escaped or within brackets too.
	p.byName = !strings.Contains(body, "/")
	body = strings.TrimPrefix(body, "/")

	tokens, ok := tokenise(body, fold)
	if ok && fold {
		tokens, ok = foldTokens(tokens)
	}
	if !ok || len(tokens) == 0 {
		p.never = true
		return p, true
	}
	p.glob = newGlob(tokens)
	return p, true
}

// trimSpaces cuts trailing spaces that no backslash holds.
func trimSpaces(s string) string {
	end := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ' ':
			continue
		case '\\':
			i++
			if i >= len(s) {
				return s
			}
		}
		end = i + 1
	}
	return s[:end]
}

// matches compares p with one path, not with its ancestors. name is the last element.
func (p *pattern) matches(path, name string, isDir bool) bool {
	if p.never || p.dirOnly && !isDir {
		return false
	}
	if p.byName {
		return p.glob.match(name)
	}
	return p.glob.match(path)
}
