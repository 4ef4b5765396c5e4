package protected

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"holdpoint/op"
)

// fold gives s the one spelling that it shares with every name which a file system that
// folds names (APFS, NTFS, ext4 with casefold) could take for the same: full case
// folding, ignorable code points removed, NFC. Bytes that are not UTF-8 stay.
func fold(s string) string {
	if ascii(s) {
		return strings.ToLower(s)
	}
	var b strings.Builder
	for s != "" {
		n := 0
		for n < len(s) {
			r, w := utf8.DecodeRuneInString(s[n:])
			if r == utf8.RuneError && w == 1 {
				break
			}
			n += w
		}
		b.WriteString(foldText(s[:n]))
		if n < len(s) {
			b.WriteByte(s[n])
			n++
		}
		s = s[n:]
	}
	return b.String()
}

// foldText folds valid UTF-8. Folding comes before removal and composition last, since
// each may make work for the next.
func foldText(s string) string {
	s = cases.Fold().String(norm.NFD.String(s))
	s = strings.Map(func(r rune) rune {
		if ignorable(r) {
			return -1
		}
		return r
	}, s)
	return norm.NFC.String(s)
}

// ignorable: what file systems leave out when they compare, and all else that does not show.
func ignorable(r rune) bool {
	return op.Invisible(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// ascii reports whether s holds printable ASCII alone, which only case can vary.
func ascii(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// foldTokens folds the text between wildcards. False when nothing of a text is left: a
// pattern must not grow by that.
func foldTokens(tokens []token) ([]token, bool) {
	var out []token
	for i := 0; i < len(tokens); {
		if tokens[i].kind != lit {
			out = append(out, tokens[i])
			i++
			continue
		}
		var run []byte
		for ; i < len(tokens) && tokens[i].kind == lit; i++ {
			run = append(run, tokens[i].b)
		}
		text := fold(string(run))
		if text == "" {
			return nil, false
		}
		for j := range len(text) {
			out = append(out, token{kind: lit, b: text[j]})
		}
	}
	return out, true
}

// ntfs reads a folded path as Windows would: the backslash separates, a colon begins a
// stream, trailing dots and spaces do not count, GIT~1 is .git.
func ntfs(path string) string {
	if !strings.ContainsAny(path, `\:~`) && !strings.Contains(path, "./") && !strings.Contains(path, " /") &&
		!strings.HasSuffix(path, ".") && !strings.HasSuffix(path, " ") {
		return path
	}
	var out []string
	for name := range strings.SplitSeq(strings.ReplaceAll(path, `\`, "/"), "/") {
		name, _, _ = strings.Cut(name, ":")
		if name = strings.TrimRight(name, ". "); name == "" {
			continue
		}
		out = append(out, longName(name))
	}
	return strings.Join(out, "/")
}

// longName undoes the short names of the two files that git reads its own settings from.
func longName(name string) string {
	stem, number, ok := strings.Cut(name, "~")
	if !ok || number == "" || strings.Trim(number, "0123456789") != "" {
		return name
	}
	switch stem {
	case "git":
		return ".git"
	case "gitmod", "gi7eba": // the second where four others had the first
		return ".gitmodules"
	}
	return name
}

// tidy makes an asked name comparable: no empty, "." or ".." elements and no leading
// slash. What climbs above the root starts there; it is refused elsewhere.
func tidy(path string) string {
	if clean(path) {
		return path
	}
	var out []string
	for name := range strings.SplitSeq(path, "/") {
		switch name {
		case "", ".":
		case "..":
			out = out[:max(0, len(out)-1)]
		default:
			out = append(out, name)
		}
	}
	return strings.Join(out, "/")
}

func clean(path string) bool {
	if path == "." || path == "" || path[0] == '/' || path[len(path)-1] == '/' {
		return false
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." || name == ".." {
			return false
		}
	}
	return true
}
