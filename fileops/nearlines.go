package fileops

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// blank is what counts as space at the ends of a line; more kinds are named by spaces.
const blank = " \t\r\f\v\u00a0"

// perLine applies f to each line; the number of lines stays.
func perLine(s string, f func(string) string) string {
	var b strings.Builder
	b.Grow(len(s))
	for line := range strings.Lines(s) {
		text, ended := strings.CutSuffix(line, "\n")
		b.WriteString(f(text))
		if ended {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// alike finds the line at which the pattern fits once f was done to each line of both.
func (n near) alike(f func(string) string) (line int, ok bool) {
	pattern := perLine(n.pattern, f)
	if strings.TrimSpace(pattern) == "" {
		return 0, false
	}
	file := perLine(n.file, f)
	i := strings.Index(file, pattern)
	if i < 0 {
		return 0, false
	}
	return 1 + strings.Count(file[:i], "\n"), true
}

func trimLeft(s string) string  { return strings.TrimLeft(s, blank) }
func trimRight(s string) string { return strings.TrimRight(s, blank) }

func (n near) leading() string {
	line, ok := n.alike(trimLeft)
	if !ok {
		return ""
	}
	for k, want := range strings.Split(n.pattern, "\n") {
		has := n.fileLine(line + k)
		a, b := has[:len(has)-len(trimLeft(has))], want[:len(want)-len(trimLeft(want))]
		if a != b && (k > 0 || b != "") && trimLeft(want) != "" {
			if k == 0 && !strings.HasPrefix(trimLeft(has), trimLeft(want)) {
				return n.spacingAt(line+k, has, want)
			}
			return fmt.Sprintf("leading whitespace at line %d: file has %s, pattern %s", line+k, inWords(a), inWords(b))
		}
	}
	return fmt.Sprintf("only whitespace differs, at line %d", line)
}

func (n near) trailing() string {
	line, ok := n.alike(trimRight)
	if !ok {
		return ""
	}
	for k, want := range strings.Split(n.pattern, "\n") {
		has := n.fileLine(line + k)
		a, b := has[len(trimRight(has)):], want[len(trimRight(want)):]
		if a != b && trimRight(want) != "" {
			if !strings.HasSuffix(trimRight(has), trimRight(want)) {
				return n.spacingAt(line+k, has, want)
			}
			return fmt.Sprintf("trailing whitespace at line %d: file has %s, pattern %s", line+k, inWords(a), inWords(b))
		}
	}
	return fmt.Sprintf("only whitespace differs, at line %d", line)
}

func (n near) spacing() string {
	squeeze := func(s string) string { return strings.Join(strings.FieldsFunc(s, isBlank), " ") }
	line, ok := n.alike(squeeze)
	if !ok {
		return ""
	}
	for k, want := range strings.Split(n.pattern, "\n") {
		if has := n.fileLine(line + k); !strings.Contains(has, want) || k > 0 && !strings.HasPrefix(has, want) {
			return n.spacingAt(line+k, has, want)
		}
	}
	return fmt.Sprintf("only whitespace differs, at line %d", line)
}

func (n near) spacingAt(line int, has, want string) string {
	return fmt.Sprintf("only whitespace differs, first at line %d: file has %s, pattern %s", line, excerpt(has), excerpt(want))
}

func isBlank(r rune) bool { return strings.ContainsRune(blank, r) }

// inWords counts kinds of space: "2 tabs", "1 tab and 4 spaces", "none".
func inWords(s string) string {
	var parts []string
	for s != "" {
		c := []rune(s)[0]
		rest := strings.TrimLeft(s, string(c))
		n := (len(s) - len(rest)) / len(string(c))
		name := fmt.Sprintf("U+%04X", c)
		switch c {
		case ' ':
			name = "space"
		case '\t':
			name = "tab"
		case '\r':
			name = "CR"
		}
		if n > 1 && (c == ' ' || c == '\t') {
			name += "s"
		}
		parts = append(parts, fmt.Sprintf("%d %s", n, name))
		s = rest
		if len(parts) == 6 && s != "" {
			parts = append(parts, "more")
			break
		}
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, " and ")
}

// lines finds the place with the most equal lines and names the first that differs.
func (n near) lines() string {
	want := strings.Split(n.pattern, "\n")
	if len(want) < 2 {
		return ""
	}
	if want[len(want)-1] == "" {
		want = want[:len(want)-1] // the pattern ends with a newline
	}
	have := strings.Split(strings.TrimSuffix(n.file, "\n"), "\n")
	start, votes := elect(have, want)
	if votes == 0 {
		return ""
	}
	at := fmt.Sprintf("nearest place: line %d, where %d of %d lines are alike", max(start, 0)+1, votes, len(want))
	for k, w := range want {
		i := start + k
		switch {
		case i < 0:
			return at + fmt.Sprintf("; pattern line %d is %s, but the file begins only after it", k+1, excerpt(w))
		case i >= len(have):
			return at + fmt.Sprintf("; pattern line %d is %s, but the file ends before it", k+1, excerpt(w))
		case have[i] == w, k == 0 && strings.HasSuffix(have[i], w), k == len(want)-1 && k > 0 && strings.HasPrefix(have[i], w):
		default:
			return at + fmt.Sprintf("; first difference: pattern line %d is %s, file line %d is %s", k+1, excerpt(w), i+1, excerpt(have[i])) + unalike(have[i], w)
		}
	}
	return at + "; " + hintView
}

// elect lets each line that stands in both vote for where the pattern would begin. Lines
// that the pattern repeats vote for few places only, so that the work stays linear.
func elect(have, want []string) (start, votes int) {
	const most = 8
	places := map[string][]int{}
	for k, w := range want {
		if key := strings.Trim(w, blank); key != "" && len(places[key]) < most {
			places[key] = append(places[key], k)
		}
	}
	tally := make([]int32, len(have)+len(want)) // at start + len(want), as a start may lie before the file
	for i, h := range have {
		for _, k := range places[strings.Trim(h, blank)] {
			tally[i-k+len(want)]++
		}
	}
	for i, n := range tally {
		if int(n) > votes {
			start, votes = i-len(want), int(n)
		}
	}
	return start, votes
}

// similar finds the line that begins and ends most like the pattern's first line.
func (n near) similar() string {
	want := ""
	for _, w := range strings.Split(n.pattern, "\n") {
		if want = strings.Trim(w, blank); want != "" {
			break
		}
	}
	best, at, text, line := 0, 0, "", 0
	for h := range strings.Lines(n.file) {
		line++
		has := strings.Trim(strings.TrimSuffix(h, "\n"), blank)
		short := min(len(has), len(want))
		if 2*short < max(len(has), len(want)) {
			continue
		}
		a := 0
		for a < short && has[a] == want[a] {
			a++
		}
		b := 0
		for b < short-a && has[len(has)-1-b] == want[len(want)-1-b] {
			b++
		}
		if score := a + b; 2*score > max(len(has), len(want)) && score > best {
			best, at, text = score, line, has
		}
	}
	if best == 0 {
		return ""
	}
	return fmt.Sprintf("nearest line %d: file has %s, pattern %s", at, excerpt(text), excerpt(want)) + unalike(text, want)
}

// unalike names the first character that differs where one of the two is not ASCII: letters
// of two scripts can look the same.
func unalike(has, want string) string {
	a, b := []rune(has), []rune(want)
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			if max(a[i], b[i]) <= unicode.MaxASCII || a[i] == utf8.RuneError {
				return ""
			}
			return fmt.Sprintf("; first character that differs: file U+%04X, pattern U+%04X", a[i], b[i])
		}
	}
	return ""
}
