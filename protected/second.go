package protected

import (
	"fmt"
	"strings"
	"sync"

	ignore "github.com/sabhiram/go-gitignore"
)

// second is the other opinion on one pattern: the library's, given a line in the little
// grammar that it reads rightly. It may protect a name next to the ones meant (x/** also
// guards x), never fewer, but for "?" on a name that is not ASCII.
type second struct {
	must    string  // bytes of a path that the pattern matches; a cheap look before the regexp
	needs   letters // of must; a cheaper one
	matcher func() *ignore.GitIgnore
}

// newSecond leaves the regexp to the first path that gets past the cheap look: compiling
// those of all patterns was a fifth of what a start costs, and most are never asked.
func newSecond(p pattern) second {
	compile := func() *ignore.GitIgnore { return ignore.CompileIgnoreLines(rewrite(p)) }
	must := longest(p.glob.tokens)
	return second{must: must, needs: lettersOf(must), matcher: sync.OnceValue(compile)}
}

// covers asks for path and each ancestor, as a file and as a directory.
func (s second) covers(path string) bool {
	if !strings.Contains(path, s.must) {
		return false
	}
	m := s.matcher()
	for end := range ends(path) {
		if m.MatchesPath(path[:end]) || m.MatchesPath(path[:end]+"/") {
			return true
		}
	}
	return false
}

// longest returns the longest text between wildcards.
func longest(tokens []token) string {
	var run, best []byte
	for _, t := range tokens {
		if t.kind != lit {
			run = nil
			continue
		}
		if run = append(run, t.b); len(run) > len(best) {
			best = append([]byte(nil), run...)
		}
	}
	return string(best)
}

// rewrite puts a pattern into words that the library does not misread: every character
// that could mean something in its regular expressions as a number, a class as the
// list of its members.
func rewrite(p pattern) string {
	var b strings.Builder
	if !p.byName {
		b.WriteByte('/')
	}
	var text []byte
	flush := func() {
		for _, r := range string(text) {
			writeRune(&b, r)
		}
		text = nil
	}
	for i, t := range p.glob.tokens {
		if t.kind == lit {
			text = append(text, t.b)
			continue
		}
		flush()
		switch t.kind {
		case one:
			b.WriteString("[^/]")
		case set:
			t.class.write(&b)
		case star:
			if i == 0 || p.glob.tokens[i-1].kind != star {
				b.WriteByte('*')
			}
		case deep:
			if i == 0 && len(p.glob.tokens) == 1 {
				b.WriteByte('*') // alone, ** would be read as nothing
			} else {
				b.WriteString("**")
			}
		case depth:
			if i == 0 || p.glob.tokens[i-1].kind != inside {
				b.WriteString("**/")
			}
		}
	}
	flush()
	return b.String()
}

func writeRune(b *strings.Builder, r rune) {
	switch {
	case r == '/' || r == '_' || r == '-' || r < 128 && alnum(byte(r)):
		b.WriteRune(r)
	default:
		fmt.Fprintf(b, `\x{%X}`, r)
	}
}

func (c *class) write(b *strings.Builder) {
	b.WriteByte('[')
	empty := true
	for i := range 128 {
		if c[i] {
			fmt.Fprintf(b, `\x%02X`, i)
			empty = false
		}
	}
	// The library counts characters, the pattern bytes: any of the upper half is all of it.
	for i := 128; i < 256; i++ {
		if c[i] {
			b.WriteString(`\x{80}-\x{10FFFF}`)
			empty = false
			break
		}
	}
	if empty {
		b.WriteString(`^\x{0}-\x{10FFFF}`)
	}
	b.WriteByte(']')
}
