package protected

import "strings"

// Scope is what the ignore files on the way to one directory say, for a walk that asks
// of each directory after the one it lies in and never enters an ignored one. It never
// changes and is safe for concurrent use. The nil Scope ignores nothing.
type Scope struct {
	up   *Scope
	dir  int // length of the directory's path with its slash; 0 is the root
	list *List
}

// Within adds a file of ignore lines that stands in dir ("" is the root) and outranks
// what the scope holds already. Without a pattern it gives the scope itself.
func (s *Scope) Within(dir string, lines []string) *Scope {
	l := compile(lines, false)
	if len(l.patterns) == 0 {
		return s
	}
	n := len(dir)
	if n > 0 {
		n++
	}
	return &Scope{up: s, dir: n, list: l}
}

// Ignores judges a path, relative to the root, whose ancestors are not ignored.
func (s *Scope) Ignores(path string, isDir bool) bool {
	for ; s != nil; s = s.up {
		if i := s.list.last(path[s.dir:], isDir); i >= 0 {
			return !s.list.patterns[i].negated
		}
	}
	return false
}

// Malformed gives the first pattern that can match nothing, or "".
func Malformed(patterns []string) string {
	for _, line := range patterns {
		if p, ok := parse(line, false); !ok || p.never || strings.Contains(line, "\n") {
			return line
		}
	}
	return ""
}
