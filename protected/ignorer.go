package protected

import (
	"strings"

	"holdpoint/op"
)

// IgnoreFile is one file of ignore lines. What counts for the whole tree has Dir "." and
// comes first: the user's global file, then .git/info/exclude, then the .gitignore files.
type IgnoreFile struct {
	Dir   op.Path
	Lines []string
}

// Ignorer answers whether git would ignore a path. It never changes and is safe for
// concurrent use. That a tracked file is never ignored is for the caller to know.
type Ignorer struct {
	byDir map[string][]*List // "" is the root
}

// NewIgnorer compiles the files; of those with one Dir a later one outranks an earlier.
func NewIgnorer(files []IgnoreFile) *Ignorer {
	g := &Ignorer{byDir: map[string][]*List{}}
	for _, f := range files {
		dir := tidy(string(f.Dir))
		g.byDir[dir] = append(g.byDir[dir], compile(f.Lines, false))
	}
	return g
}

// Ignored reports whether git would ignore p: the deepest file with a matching line
// decides, in a file the last such line, and an ignored directory takes along all below.
func (g *Ignorer) Ignored(p op.Path, isDir bool) bool {
	path := tidy(string(p))
	for end := range ends(path) {
		if g.decide(path[:end], isDir || end < len(path)) {
			return true
		}
	}
	return false
}

// decide judges one path whose ancestors are not ignored.
func (g *Ignorer) decide(path string, isDir bool) bool {
	for dir := parent(path); ; dir = parent(dir) {
		rest := strings.TrimPrefix(path[len(dir):], "/")
		lists := g.byDir[dir]
		for k := len(lists) - 1; k >= 0; k-- {
			if i := lists[k].last(rest, isDir); i >= 0 {
				return !lists[k].patterns[i].negated
			}
		}
		if dir == "" {
			return false
		}
	}
}

func parent(path string) string { return path[:max(0, strings.LastIndexByte(path, '/'))] }
