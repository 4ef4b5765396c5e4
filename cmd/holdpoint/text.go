package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"holdpoint/op"
)

// Everything a daemon sends may hold the words of an agent, so nothing of it reaches a
// terminal but through line, block, showPath or printJSON.

// line makes text safe as a part of one line: no line break, no escape sequence, nothing
// that hides.
func line(s string) string { return op.Visible(s, false) }

// block makes a text of several lines safe and sets each behind a bar, so that none can
// pass for a line of ours.
func block(s string, color func(string) string) string {
	if s == "" {
		return ""
	}
	var b strings.Builder
	for _, l := range strings.Split(strings.TrimSuffix(op.Visible(s, true), "\n"), "\n") {
		b.WriteString("  | " + color(l) + "\n")
	}
	return b.String()
}

// showPath gives the wire form of a name, which can be typed back.
func showPath(p op.Path) string { return line(op.Escape(string(p))) }

func plain(s string) string { return s }

// styled reports whether colors are wanted.
func (a *app) styled() bool {
	return a.TTY && a.Env("NO_COLOR") == "" && a.Env("TERM") != "dumb"
}

func (a *app) style(code, s string) string {
	if !a.styled() || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (a *app) bold(s string) string { return a.style("1", s) }

// diffLine colors one line of a unified diff that is already safe.
func (a *app) diffLine(l string) string {
	switch {
	case strings.HasPrefix(l, "+"):
		return a.style("32", l)
	case strings.HasPrefix(l, "-"):
		return a.style("31", l)
	case strings.HasPrefix(l, "@@"):
		return a.style("36", l)
	}
	return l
}

// printJSON writes one JSON document on one line. Characters that do not show are written
// as escapes, which mean the same to a program and nothing to a terminal.
func (a *app) printJSON(v any) {
	raw, ok := v.(json.RawMessage)
	if !ok {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			panic("holdpoint: internal error: " + err.Error())
		}
		raw = b.Bytes()
	}
	text, err := oneLine(raw)
	if err != nil {
		a.printJSON(map[string]any{"error": op.Fail(op.Internal, "the daemon's answer is no JSON")})
		return
	}
	fmt.Fprintln(a.Out, text)
}

// oneLine gives a JSON document on one line that is safe to show.
func oneLine(raw json.RawMessage) (string, error) {
	var compact bytes.Buffer
	err := json.Compact(&compact, raw)
	return escapeJSON(compact.String()), err
}

// escapeJSON escapes what op.Invisible names. Beyond ASCII such characters stand only
// inside the strings of a compact document; below it JSON itself escapes them, save DEL.
func escapeJSON(s string) string {
	var b strings.Builder
	for i, w := 0, 0; i < len(s); i += w {
		var r rune
		r, w = utf8.DecodeRuneInString(s[i:])
		switch {
		case r < 0x7f || r != utf8.RuneError && !op.Invisible(r):
			b.WriteRune(r)
		case r == utf8.RuneError && w == 1:
			b.WriteString(`\ufffd`)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// table writes rows in columns; cells must be safe already.
func table(w io.Writer, rows [][]string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		for len(r) > 0 && r[len(r)-1] == "" {
			r = r[:len(r)-1]
		}
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	t.Flush()
}

func (a *app) clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// command words a command to type next, with the flags by which this one found its engine.
func (a *app) command(rest string) string {
	words := "holdpoint "
	for _, f := range [][2]string{{"--state", a.state}, {"--socket", a.socket}} {
		if f[1] != "" {
			words += f[0] + " " + shellWord(f[1]) + " "
		}
	}
	if a.inRoot != "" {
		rest += " --root " + shellWord(a.inRoot)
	}
	return words + rest
}

// shellWord quotes a word for a shell where it needs it.
func shellWord(w string) string {
	plain := strings.Trim(w, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/-") == ""
	if plain && w != "" {
		return w
	}
	return "'" + strings.ReplaceAll(line(w), "'", `'\''`) + "'"
}

// until words a deadline.
func (a *app) until(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	left := t.Sub(a.now())
	if left <= 0 {
		return "expired at " + a.clock(t)
	}
	return "expires in " + span(left)
}

func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return plural(int64(d.Round(time.Second)/time.Second), "second")
	case d < 2*time.Hour:
		return plural(int64(d.Round(time.Minute)/time.Minute), "minute")
	case d < 48*time.Hour:
		return plural(int64(d.Round(time.Hour)/time.Hour), "hour")
	}
	return plural(int64(d.Round(24*time.Hour)/(24*time.Hour)), "day")
}

func plural(n int64, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return strconv.FormatInt(n, 10) + " " + word + "s"
}

// duration reads what time.ParseDuration reads, and days as "30d".
func duration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, usagef("%q is no duration; write 30s, 10m, 2h or 30d", s)
	}
	return d, nil
}

// durationFlag is a flag that duration reads.
type durationFlag struct {
	d   time.Duration
	set bool
}

func (f *durationFlag) String() string {
	if f == nil || !f.set {
		return ""
	}
	return f.d.String()
}
func (*durationFlag) Type() string { return "duration" }
func (f *durationFlag) Set(s string) (err error) {
	f.d, err = duration(s)
	f.set = err == nil
	return err
}

// orNearest suggests the name that was probably meant, else gives the other hint.
func orNearest(word string, names []string, other string) string {
	best, least := "", len(word)/3+2
	for _, n := range names {
		if d := distance(word, n); d < least {
			best, least = n, d
		}
	}
	if best == "" {
		return other
	}
	return "did you mean " + best + "?"
}

// distance is the number of letters to change, add or drop between two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
