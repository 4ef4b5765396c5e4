package fileops

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"holdpoint/op"
)

// maxExplained is the largest text that is searched for what a pattern nearly fits.
const maxExplained = 16 << 20

const hintView = "view the file and copy the text exactly"

// explain says in what way the nearest place of a text differs from a pattern that is
// not in it. It only words the failure: nothing it finds is ever taken for a match.
func explain(t text, e edit, crlf bool) string {
	hint := difference(t, e, crlf)
	if e.index == 0 {
		return hint
	}
	before := t
	before.body = e.first
	if p, ok := t.encode(e.Old); ok && before.survey(p, false).count > 0 {
		return fmt.Sprintf("an edit before it in this call changed that text; edit %d looks at what the ones before it left", e.index+1)
	}
	return fmt.Sprintf("edit %d looks at what the ones before it left: %s", e.index+1, hint)
}

func difference(t text, e edit, crlf bool) string {
	if len(t.body) == 0 {
		return "the file is empty; use write_file"
	}
	if len(t.body) > maxExplained {
		return hintView
	}
	if strings.HasPrefix(e.Old, "\ufeff") {
		return "old_string begins with U+FEFF; the byte-order mark is no part of the text and always stays"
	}
	full := loose(t)
	n := near{file: lfOnly(full), pattern: lfOnly(e.Old)}
	hint := n.endings(full, e.Old, crlf)
	for _, try := range []func() string{n.unended, n.quotes, n.spaces, n.leading, n.trailing, n.spacing, n.letterCase, n.form, n.invisible, n.lines, n.similar} {
		if hint != "" {
			break
		}
		hint = try()
	}
	if hint == "" {
		hint = "nothing in the file is like it; " + hintView
	}
	if t.order == nil && family(t.enc) == encEight && !ascii(e.Old) {
		hint += "; the file is not UTF-8, so that its characters outside ASCII are other bytes than those of old_string"
	}
	if done := strings.TrimSpace(e.New); len(done) >= 8 {
		if i := strings.Index(n.file, lfOnly(e.New)); i >= 0 {
			hint += fmt.Sprintf("; new_string is in the file already, at line %d", n.lineAt(i))
		}
	}
	return hint
}

// near is a text and a pattern, both with LF endings.
type near struct{ file, pattern string }

// loose decodes for reading only.
func loose(t text) string {
	if t.order == nil {
		return string(t.body)
	}
	units := make([]uint16, len(t.body)/2)
	for i := range units {
		units[i] = t.order.Uint16(t.body[2*i:])
	}
	return string(utf16.Decode(units))
}

func lfOnly(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

func (n near) lineAt(i int) int { return 1 + strings.Count(n.file[:i], "\n") }

// fileLine gives line number k from 1, without its ending.
func (n near) fileLine(k int) string {
	rest := n.file
	for ; k > 1; k-- {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	line, _, _ := strings.Cut(rest, "\n")
	return line
}

func (n near) endings(file, pattern string, crlf bool) string {
	i := strings.Index(n.file, n.pattern)
	if i < 0 {
		return ""
	}
	in := map[bool]string{true: "CRLF", false: "LF"}
	has := "mixed endings"
	switch {
	case crlf || !strings.Contains(strings.ReplaceAll(file, "\r\n", ""), "\n"):
		has = in[true]
	case !strings.Contains(file, "\r\n"):
		has = in[false]
	}
	return fmt.Sprintf("only line endings differ, at line %d: file has %s, pattern %s", n.lineAt(i), has, in[strings.Contains(pattern, "\r\n")])
}

// unended is the case of a pattern that ends with a newline which the last line lacks.
func (n near) unended() string {
	if text, ok := strings.CutSuffix(n.pattern, "\n"); ok && text != "" && strings.HasSuffix(n.file, text) {
		return fmt.Sprintf("the file ends without a newline at line %d, the pattern ends with one", n.lineAt(len(n.file)))
	}
	return ""
}

// runewise compares with each character replaced by one that stands for its kind. It
// returns the line of the first place and the first characters that differ there.
func (n near) runewise(kind func(rune) rune) (line int, has, wants rune, ok bool) {
	file := strings.Map(kind, n.file)
	i := strings.Index(file, strings.Map(kind, n.pattern))
	if i < 0 {
		return 0, 0, 0, false
	}
	at := n.file
	for range utf8.RuneCountInString(file[:i]) {
		_, w := utf8.DecodeRuneInString(at)
		at = at[w:]
	}
	for _, wants = range n.pattern {
		r, w := utf8.DecodeRuneInString(at)
		if r != wants {
			return n.lineAt(len(n.file) - len(at)), r, wants, true
		}
		at = at[w:]
	}
	return 0, 0, 0, false
}

func (n near) quotes() string {
	line, has, wants, ok := n.runewise(plainQuote)
	if !ok {
		return ""
	}
	return fmt.Sprintf("differs only in quote characters at line %d: file U+%04X, pattern U+%04X", line, has, wants)
}

// plainQuote maps what looks like a quotation mark to the ASCII one.
func plainQuote(r rune) rune {
	switch r {
	case 0x2018, 0x2019, 0x201a, 0x201b, 0x2032, 0x02bc, 0x00b4, '`':
		return '\''
	case 0x201c, 0x201d, 0x201e, 0x201f, 0x2033, 0x00ab, 0x00bb:
		return '"'
	}
	return r
}

func (n near) spaces() string {
	line, has, wants, ok := n.runewise(plainSpace)
	if !ok {
		return ""
	}
	return fmt.Sprintf("differs only in the kind of space at line %d: file U+%04X, pattern U+%04X", line, has, wants)
}

func plainSpace(r rune) rune {
	if r > unicode.MaxASCII && unicode.Is(unicode.Zs, r) {
		return ' '
	}
	return r
}

func (n near) letterCase() string {
	line, has, wants, ok := n.runewise(unicode.ToLower)
	if !ok {
		return ""
	}
	return fmt.Sprintf("differs only in upper and lower case, first at line %d: file has %q, pattern %q", line, has, wants)
}

func (n near) form() string {
	file := norm.NFC.String(n.file)
	i := strings.Index(file, norm.NFC.String(n.pattern))
	if i < 0 {
		return ""
	}
	return fmt.Sprintf("differs only in Unicode normal form (composed and decomposed characters) at line %d; copy the text from the file", 1+strings.Count(file[:i], "\n"))
}

// invisible compares without characters that do not show.
func (n near) invisible() string {
	drop := func(r rune) rune {
		if r != '\n' && r != '\t' && op.Invisible(r) {
			return -1
		}
		return r
	}
	file, pattern := strings.Map(drop, n.file), strings.Map(drop, n.pattern)
	i := strings.Index(file, pattern)
	if i < 0 || strings.TrimSpace(pattern) == "" {
		return ""
	}
	line := 1 + strings.Count(file[:i], "\n")
	for k, want := range strings.Split(n.pattern, "\n") {
		has := n.fileLine(line + k)
		if a, b := hidden(has), hidden(want); a != b {
			return fmt.Sprintf("differs only in characters that do not show, at line %d: file has %s, pattern %s", line+k, a, b)
		}
	}
	return fmt.Sprintf("differs only in characters that do not show, at line %d", line)
}

// hidden names the characters of a line that do not show, at most five.
func hidden(s string) string {
	var names []string
	for _, r := range s {
		if r != '\t' && op.Invisible(r) {
			if len(names) == 5 {
				return strings.Join(names, " ") + " and more"
			}
			names = append(names, fmt.Sprintf("U+%04X", r))
		}
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, " ")
}

// excerpt shows a piece of a line, escaped, and says what it leaves out.
func excerpt(s string) string {
	const most = 100
	cut := s
	for i := range s {
		if i > most {
			cut = s[:i]
			break
		}
	}
	text := `"` + op.Visible(cut, false) + `"`
	if len(cut) < len(s) {
		text += fmt.Sprintf(" (the first %d of %d bytes)", len(cut), len(s))
	}
	return text
}
