package fileops

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/zeebo/blake3"
	"holdpoint/op"
)

// Diff is how a change reads.
type Diff struct {
	Text    string
	Bytes   int64 // length of the unified diff over the stored bytes, with its head, whatever Text shows
	Added   int64 // lines; of binary bytes none are counted
	Removed int64
	Binary  bool // Text names the sides by size and hash only
	Escaped bool // Text shows bytes that are not UTF-8 as \xNN and a backslash as \\: to read, not to apply
}

// Side is one side of a comparison.
type Side struct {
	Path   op.Path
	Bytes  []byte
	Exists bool
}

// contextLines is how much a diff shows around a change.
const contextLines = 3

// Unified is the diff of one path with three lines of context.
func Unified(path op.Path, old, new []byte, oldExists, newExists bool) Diff {
	return Compare(Side{path, old, oldExists}, Side{path, new, newExists}, contextLines)
}

// Compare gives the unified diff from old to new. It is empty when nothing changed and
// never when something did: an empty file that comes or goes has a head without hunks.
// Text that is UTF-8 on both sides is shown as it is, so that the diff can be applied;
// UTF-16 is shown decoded; other text escaped. It is not always the shortest diff: work
// is bounded by n log n in the lines between the first and the last change, and more
// than 32 MiB that agree nowhere near are shown as replaced as a whole. Of more than
// maxDiffLines between the first and the last change only sizes and hashes are told.
func Compare(old, new Side, context int) Diff {
	if old.Exists == new.Exists && bytes.Equal(old.Bytes, new.Bytes) {
		return Diff{}
	}
	head := "--- " + heading("a/", old) + "\n+++ " + heading("b/", new) + "\n"
	if manyLines(old.Bytes, new.Bytes, context) {
		return Diff{Binary: true, Bytes: int64(len(head) + len(old.Bytes) + len(new.Bytes)), Text: head + "-" + inBrief(old, "too many lines") + "+" + inBrief(new, "too many lines")}
	}
	raw, d := hunks(old.Bytes, new.Bytes, context)
	d.Bytes = int64(len(head) + len(raw))
	l, r := split(old.Bytes), split(new.Bytes)
	switch {
	case l.enc == encBinary || r.enc == encBinary:
		return Diff{Binary: true, Bytes: d.Bytes, Text: head + "-" + inBrief(old, "binary") + "+" + inBrief(new, "binary")}
	case l.enc == encUTF8 && r.enc == encUTF8:
		d.Text = head + string(raw)
		return d
	case l.order == r.order || !old.Exists || !new.Exists:
		lt, lok := decode(l.body, l.order)
		rt, rok := decode(r.body, r.order)
		if lok && rok {
			shown, n := hunks([]byte(lt), []byte(rt), context)
			d.Text, d.Added, d.Removed = head+string(shown), n.Added, n.Removed
			return d
		}
	}
	d.Text, d.Escaped = head+escapeBytes(raw), true
	return d
}

// heading is a side's name in the head of a diff. Names that would break the line are
// quoted; one with a space gets the tab that tells readers where it ends.
func heading(prefix string, s Side) string {
	if !s.Exists {
		return "/dev/null"
	}
	name := prefix + string(s.Path)
	quote := !utf8.ValidString(name)
	for _, r := range name {
		quote = quote || r == '"' || r == '\\' || r < 0x20 || r == 0x7f
	}
	switch {
	case quote:
		return quoted(name)
	case strings.Contains(name, " "):
		return name + "\t"
	}
	return name
}

// quoted writes a name between quotes with octal escapes, as patch readers take it.
func quoted(name string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < 0x20 || c >= 0x7f:
			fmt.Fprintf(&b, "\\%03o", c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// inBrief is one side of a binary change.
func inBrief(s Side, why string) string {
	if !s.Exists {
		return "absent\n"
	}
	sum := blake3.Sum256(s.Bytes)
	return fmt.Sprintf("%s, %d bytes, blake3:%s\n", why, len(s.Bytes), hex.EncodeToString(sum[:]))
}

// escapeBytes shows the lines of hunks so that two that differ never look alike.
func escapeBytes(hunks []byte) string {
	var b strings.Builder
	for line := range bytes.Lines(hunks) {
		if line[0] == '@' || line[0] == '\\' {
			b.Write(line)
			continue
		}
		b.WriteByte(line[0])
		for i := 1; i < len(line); {
			r, w := utf8.DecodeRune(line[i:])
			switch {
			case r == '\\':
				b.WriteString(`\\`)
			case r == utf8.RuneError && w == 1, r < 0x20 && r != '\n' && r != '\t', r == 0x7f:
				fmt.Fprintf(&b, `\x%02X`, line[i])
			default:
				b.Write(line[i : i+w])
			}
			i += w
		}
	}
	return b.String()
}
