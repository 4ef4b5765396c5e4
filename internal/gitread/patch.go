package gitread

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing/filemode"
)

// patcher writes changes as git diff does, with whole object names.
type patcher struct {
	r       *repo
	read    func(side, string) ([]byte, error)
	attrs   *attributes
	context int
}

// patch is one change as it reads.
type patch struct {
	change
	text           string
	added, removed int
	binary         bool
}

func (p *patcher) write(ctx context.Context, c change) (patch, error) {
	if c.letter() != "T" {
		return p.one(c)
	}
	// What became another kind of thing went, and came.
	gone, err := p.one(change{path: c.path, old: c.old})
	if err != nil {
		return gone, err
	}
	came, err := p.one(change{path: c.path, new: c.new})
	came.text = gone.text + came.text
	came.removed, came.binary = gone.removed, gone.binary || came.binary
	return came, err
}

func (p *patcher) one(c change) (patch, error) {
	out := patch{change: c}
	var b strings.Builder
	old := c.path
	if c.from != "" {
		old = c.from
	}
	left, right, err := p.sides(&c, old)
	if err != nil {
		return out, err
	}
	fmt.Fprintf(&b, "diff --git %s %s\n", quote("a/", old), quote("b/", c.path))
	switch {
	case !c.old.exists():
		fmt.Fprintf(&b, "new file mode %06o\n", uint32(c.new.mode))
	case !c.new.exists():
		fmt.Fprintf(&b, "deleted file mode %06o\n", uint32(c.old.mode))
	case c.old.mode != c.new.mode:
		fmt.Fprintf(&b, "old mode %06o\nnew mode %06o\n", uint32(c.old.mode), uint32(c.new.mode))
	}
	if c.from != "" {
		fmt.Fprintf(&b, "similarity index %d%%\nrename from %s\nrename to %s\n", c.score, quote("", old), quote("", c.path))
	}
	if c.old.hash != c.new.hash {
		fmt.Fprintf(&b, "index %s..%s", c.old.hash, c.new.hash)
		if c.old.mode == c.new.mode {
			fmt.Fprintf(&b, " %06o", uint32(c.old.mode))
		}
		b.WriteByte('\n')
	}
	out.change = c
	if bytes.Equal(left, right) {
		out.text = b.String()
		return out, nil
	}
	from, to := quote("a/", old), quote("b/", c.path)
	if !c.old.exists() {
		from = "/dev/null"
	}
	if !c.new.exists() {
		to = "/dev/null"
	}
	if p.binary(c.path, left, right) {
		fmt.Fprintf(&b, "Binary files %s and %s differ\n", from, to)
		out.binary, out.text = true, b.String()
		return out, nil
	}
	fmt.Fprintf(&b, "--- %s%s\n+++ %s%s\n", from, tab(from), to, tab(to))
	out.added, out.removed = hunks(&b, left, right, p.context)
	out.text = b.String()
	return out, nil
}

// sides reads both sides and names what the work tree holds.
func (p *patcher) sides(c *change, old string) (left, right []byte, err error) {
	get := func(s *side, at string) ([]byte, error) {
		if s.mode == filemode.Submodule {
			text := "Subproject commit " + s.hash.String()
			if s.live {
				text += "-dirty"
			}
			return []byte(text + "\n"), nil
		}
		b, err := p.read(*s, at)
		if err == nil && s.live {
			s.hash = blobHash(b)
		}
		return b, err
	}
	if left, err = get(&c.old, old); err != nil {
		return nil, nil, err
	}
	right, err = get(&c.new, c.path)
	return left, right, err
}

// binary: the diff attribute decides, else a NUL near the beginning of either side.
func (p *patcher) binary(at string, left, right []byte) bool {
	switch p.attrs.get(at)["diff"] {
	case "unset":
		return true
	case "set":
		return false
	}
	return hasNUL(left) || hasNUL(right)
}

// tab ends a name with a space in the head of a diff, so that readers know where it ends.
func tab(name string) string {
	if strings.Contains(name, " ") {
		return "\t"
	}
	return ""
}

// quote writes a path as git does: in C's way when it holds what would not show.
func quote(prefix, p string) string {
	plain := true
	for i := range len(p) {
		if c := p[i]; c < 32 || c >= 127 || c == '"' || c == '\\' {
			plain = false
		}
	}
	if plain {
		return prefix + p
	}
	var b strings.Builder
	b.WriteString(`"` + prefix)
	for i := range len(p) {
		switch c := p[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c >= 7 && c <= 13:
			b.WriteByte('\\')
			b.WriteByte("abtnvfr"[c-7])
		case c < 32 || c >= 127:
			fmt.Fprintf(&b, "\\%03o", c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func cut(b []byte) [][]byte {
	if len(b) == 0 {
		return nil
	}
	list := bytes.SplitAfter(b, []byte("\n"))
	if len(list[len(list)-1]) == 0 {
		list = list[:len(list)-1]
	}
	return list
}

// hunks writes the changes between two texts with lines around them, and counts lines.
func hunks(b *strings.Builder, left, right []byte, around int) (added, removed int) {
	l, r := cut(left), cut(right)
	list := align(l, r)
	for i := 0; i < len(list); {
		j := i + 1
		for j < len(list) && list[j].a0-list[j-1].a1 <= 2*around {
			j++
		}
		first, last := list[i], list[j-1]
		before := min(around, first.a0, first.b0)
		after := min(around, len(l)-last.a1, len(r)-last.b1)
		a0, b0 := first.a0-before, first.b0-before
		fmt.Fprintf(b, "@@ -%s +%s @@%s\n", reach(a0, last.a1+after-a0), reach(b0, last.b1+after-b0), heads(l, a0))
		at := a0
		for _, s := range list[i:j] {
			put(b, ' ', l[at:s.a0])
			put(b, '-', l[s.a0:s.a1])
			put(b, '+', r[s.b0:s.b1])
			added, removed, at = added+s.b1-s.b0, removed+s.a1-s.a0, s.a1
		}
		put(b, ' ', l[at:last.a1+after])
		i = j
	}
	return added, removed
}

func reach(start, count int) string {
	if count > 0 {
		start++
	}
	if count == 1 {
		return fmt.Sprint(start)
	}
	return fmt.Sprintf("%d,%d", start, count)
}

// heads is the nearest line above that seems to head what follows.
func heads(l [][]byte, at int) string {
	for i := at - 1; i >= 0; i-- {
		if c := l[i][0]; c == '_' || c == '$' || c|0x20 >= 'a' && c|0x20 <= 'z' {
			return strings.TrimRight(" "+string(bytes.TrimRight(l[i][:min(len(l[i]), 80)], " \t\n\r\v\f")), " ")
		}
	}
	return ""
}

func put(b *strings.Builder, mark byte, list [][]byte) {
	for _, l := range list {
		b.WriteByte(mark)
		b.Write(l)
		if l[len(l)-1] != '\n' {
			b.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// shownText makes text of a diff or a message for an answer. Where some byte is not UTF-8
// such bytes are \xNN and a backslash is doubled.
func shownText(s string) (text string, escaped bool) {
	if utf8.ValidString(s) {
		return s, false
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02X`, s[i])
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String(), true
}
