package protected

import (
	"strings"

	"holdpoint/op"
)

// List is a compiled list of ignore lines. It never changes and is safe for concurrent use.
type List struct {
	patterns []pattern
	// Most patterns are plain names. They are found by name, the others tried in turn.
	names map[string][]int // ascending
	globs []int            // ascending
	needs []letters        // of each in globs: what a path that it matches must have
}

// letters is a set of bytes, of those that agree in their last six bits as one: a look at
// whether a path has what a pattern asks for, before it is compared.
type letters uint64

func lettersOf(s string) (l letters) {
	for i := range len(s) {
		l |= 1 << (s[i] & 63)
	}
	return l
}

func lettersIn(tokens []token) (l letters) {
	for _, t := range tokens {
		if t.kind == lit {
			l |= 1 << (t.b & 63)
		}
	}
	return l
}

func (l letters) in(have letters) bool { return l&^have == 0 }

const utf8BOM = "\ufeff"

// Compile reads lines as git reads an ignore file: comments and empty lines say nothing,
// a malformed pattern matches nothing. source names the file in an error; the only error
// is a line that holds a line break.
func Compile(lines []string, source string) (*List, error) {
	for _, line := range lines {
		if strings.Contains(line, "\n") {
			return nil, op.Fail(op.BadRequest, "a pattern of "+source+" holds a line break").Do("give each pattern as a line of its own")
		}
	}
	return compile(lines, false), nil
}

func compile(lines []string, fold bool) *List {
	l := &List{names: map[string][]int{}}
	for i, line := range lines {
		if i == 0 {
			line = strings.TrimPrefix(line, utf8BOM)
		}
		if p, ok := parse(line, fold); ok {
			l.add(p)
		}
	}
	return l
}

func (l *List) add(p pattern) {
	i := len(l.patterns)
	l.patterns = append(l.patterns, p)
	switch {
	case p.never:
	case p.byName && p.glob.exact:
		l.names[p.glob.head] = append(l.names[p.glob.head], i)
	default:
		l.globs, l.needs = append(l.globs, i), append(l.needs, lettersIn(p.glob.tokens))
	}
}

// Match reports whether git, with this list as the only ignore file at the root, would
// ignore path, and by which pattern. A directory that is ignored takes along all below
// it, whatever later lines say. Where a negated pattern decides, ignored is false and the
// pattern is returned. path is clean and relative; the root is not ignored.
func (l *List) Match(path string, isDir bool) (ignored bool, by string) {
	if path == "." {
		return false, ""
	}
	for end := range ends(path) {
		last := end == len(path)
		i := l.last(path[:end], isDir || !last)
		if i < 0 {
			continue
		}
		p := &l.patterns[i]
		if last || !p.negated {
			return !p.negated, p.text
		}
	}
	return false, ""
}

// ends yields the end of each ancestor of path, outermost first, then of path itself.
func ends(path string) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := 1; i < len(path); i++ {
			if path[i] == '/' && !yield(i) {
				return
			}
		}
		if path != "" {
			yield(len(path))
		}
	}
}

// last returns the index of the last pattern that matches exactly this path, or -1.
func (l *List) last(path string, isDir bool) int {
	name := path[strings.LastIndexByte(path, '/')+1:]
	found := -1
	for _, i := range l.names[name] {
		if isDir || !l.patterns[i].dirOnly {
			found = i
		}
	}
	have := letters(0)
	if len(l.globs) > 0 {
		have = lettersOf(path)
	}
	for k := len(l.globs) - 1; k >= 0 && l.globs[k] > found; k-- {
		if i := l.globs[k]; l.needs[k].in(have) && l.patterns[i].matches(path, name, isDir) {
			return i
		}
	}
	return found
}
