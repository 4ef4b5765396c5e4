package fileops

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	godiff "github.com/rogpeppe/go-internal/diff"
	"holdpoint/op"
)

func utf8Diff(old, new string) Diff { return Unified("f", []byte(old), []byte(new), true, true) }

// patched applies a diff strictly: each context and removed line must stand where the
// heading says, and the counts must be right.
func patched(old, text string) (string, error) {
	lines := strings.SplitAfter(text, "\n")[2:]
	have := strings.SplitAfter(old, "\n")
	var out strings.Builder
	pos, made := 0, 0
	for len(lines) > 0 && lines[0] != "" {
		var a, n, b, m int
		if _, err := fmt.Sscanf(lines[0], "@@ -%d,%d +%d,%d @@", &a, &n, &b, &m); err != nil {
			return "", fmt.Errorf("heading %q", lines[0])
		}
		lines = lines[1:]
		if n > 0 {
			a--
		}
		if a < pos {
			return "", fmt.Errorf("hunks overlap at line %d", a)
		}
		out.WriteString(strings.Join(have[pos:a], ""))
		made += a - pos
		if m > 0 && made != b-1 || m == 0 && made != b {
			return "", fmt.Errorf("the new side stands at line %d, heading says %d", made, b)
		}
		pos = a
		for n > 0 || m > 0 {
			mark, body := lines[0][0], lines[0][1:]
			lines = lines[1:]
			if len(lines) > 0 && strings.HasPrefix(lines[0], `\ No newline`) {
				body, lines = strings.TrimSuffix(body, "\n"), lines[1:]
			}
			if mark != '+' {
				if have[pos] != body {
					return "", fmt.Errorf("line %d is %q, the diff says %q", pos+1, have[pos], body)
				}
				pos, n = pos+1, n-1
			}
			if mark != '-' {
				out.WriteString(body)
				m, made = m-1, made+1
			}
		}
	}
	return out.String() + strings.Join(have[pos:], ""), nil
}

func TestUnified(t *testing.T) {
	t.Run("heads and counts", func(t *testing.T) {
		d := utf8Diff("a\nb\nc\n", "a\nB\nc\n")
		want := "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
		if d.Text != want || d.Bytes != int64(len(want)) || d.Added != 1 || d.Removed != 1 {
			t.Errorf("%+v", d)
		}
	})
	t.Run("files that come, go, or stay as they are", func(t *testing.T) {
		for _, c := range []struct {
			old, new string
			was, is  bool
			want     string
		}{
			{"", "x\n", false, true, "--- /dev/null\n+++ b/f\n@@ -0,0 +1,1 @@\n+x\n"},
			{"x\n", "", true, false, "--- a/f\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-x\n"},
			{"", "", false, true, "--- /dev/null\n+++ b/f\n"},
			{"", "", true, false, "--- a/f\n+++ /dev/null\n"},
			{"x", "", true, true, "--- a/f\n+++ b/f\n@@ -1,1 +0,0 @@\n-x\n\\ No newline at end of file\n"},
			{"x", "x\n", true, true, "--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n-x\n\\ No newline at end of file\n+x\n"},
			{"a\nx", "b\nx", true, true, "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+b\n x\n\\ No newline at end of file\n"},
			{"x", "x", true, true, ""},
			{"", "", false, false, ""},
		} {
			if d := Unified("f", []byte(c.old), []byte(c.new), c.was, c.is); d.Text != c.want || d.Bytes != int64(len(c.want)) {
				t.Errorf("%q to %q:\n%s", c.old, c.new, d.Text)
			}
		}
	})
	t.Run("line numbers far down a file", func(t *testing.T) {
		lines := make([]string, 5000)
		for i := range lines {
			lines[i] = fmt.Sprintf("%d\n", i+1)
		}
		old := strings.Join(lines, "")
		lines[3999] = "new\n"
		d := utf8Diff(old, strings.Join(lines, ""))
		want := "--- a/f\n+++ b/f\n@@ -3997,7 +3997,7 @@\n 3997\n 3998\n 3999\n-4000\n+new\n 4001\n 4002\n 4003\n"
		if d.Text != want {
			t.Error(d.Text)
		}
	})
	t.Run("context as asked", func(t *testing.T) {
		l, r := Side{"f", []byte("1\n2\n3\n4\n5\n"), true}, Side{"g", []byte("1\n2\nX\n4\n5\n"), true}
		for context, want := range map[int]string{
			0: "--- a/f\n+++ b/g\n@@ -3,1 +3,1 @@\n-3\n+X\n",
			1: "--- a/f\n+++ b/g\n@@ -2,3 +2,3 @@\n 2\n-3\n+X\n 4\n",
			9: "--- a/f\n+++ b/g\n@@ -1,5 +1,5 @@\n 1\n 2\n-3\n+X\n 4\n 5\n",
		} {
			if got := Compare(l, r, context).Text; got != want {
				t.Errorf("context %d:\n%s", context, got)
			}
		}
		r.Bytes = []byte("1\n2\n4\n5\n")
		if got := Compare(l, r, 0).Text; got != "--- a/f\n+++ b/g\n@@ -3,1 +2,0 @@\n-3\n" {
			t.Error(got)
		}
	})
	t.Run("names that would break the head", func(t *testing.T) {
		for name, want := range map[string]string{"a b": "--- a/a b\t\n", "x\ny": "--- \"a/x\\012y\"\n", "\xff": "--- \"a/\\377\"\n", `q"\`: "--- \"a/q\\\"\\\\\"\n", "é": "--- a/é\n"} {
			if d := Unified(op.Path(name), []byte("a\n"), []byte("b\n"), true, true); !strings.HasPrefix(d.Text, want) {
				t.Errorf("%q: %q", name, d.Text)
			}
		}
	})
	t.Run("binary sides are named by size and hash", func(t *testing.T) {
		d := utf8Diff("\x00a", "\x00b")
		if !d.Binary || strings.Count(d.Text, "binary, 2 bytes, blake3:") != 2 || d.Added != 0 || d.Bytes < 20 {
			t.Errorf("%+v", d)
		}
		lines := strings.Split(d.Text, "\n")
		if lines[2][1:] == lines[3][1:] {
			t.Error("the sides look alike")
		}
		if d := Unified("f", nil, []byte("\x00"), false, true); !strings.Contains(d.Text, "-absent\n+binary, 1 bytes") {
			t.Error(d.Text)
		}
		if d := utf8Diff("", "\x00"); !strings.Contains(d.Text, "-binary, 0 bytes") {
			t.Error(d.Text)
		}
	})
	t.Run("bytes that are not UTF-8 are escaped so that nothing looks alike", func(t *testing.T) {
		d := utf8Diff("caf\xe9\n", `caf\xE9`+"\n")
		if want := "@@ -1,1 +1,1 @@\n-caf\\xE9\n+caf\\\\xE9\n"; !d.Escaped || !strings.HasSuffix(d.Text, want) {
			t.Error(d.Text)
		}
		raw := "--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n-caf\xe9\n+caf\\xE9\n"
		if d.Bytes != int64(len(raw)) {
			t.Errorf("%d bytes, want %d", d.Bytes, len(raw))
		}
		d = utf8Diff("caf\xe9\r", "caf\xe9\r\n")
		if want := "-caf\\xE9\\x0D\n\\ No newline at end of file\n+caf\\xE9\\x0D\n"; !strings.HasSuffix(d.Text, want) {
			t.Error(d.Text)
		}
	})
	t.Run("UTF-16 is shown decoded, a change of encoding is not", func(t *testing.T) {
		old, new := "\xff\xfea\x00\n\x00\x0a\x01\n\x00", "\xff\xfea\x00\n\x00\x0b\x01\n\x00"
		d := utf8Diff(old, new)
		if d.Text != "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-\u010a\n+\u010b\n" || d.Added != 1 || d.Escaped {
			t.Errorf("%+v", d)
		}
		if d := Unified("f", nil, []byte("\xff\xfea\x00"), false, true); !strings.HasSuffix(d.Text, "+a\n\\ No newline at end of file\n") {
			t.Error(d.Text)
		}
		if d := Unified("f", nil, []byte("\xff\xfe"), false, true); d.Text == "" {
			t.Error("no diff")
		}
		if d := utf8Diff("\xff\xfea\x00", "a"); d.Added == 0 || !d.Escaped {
			t.Errorf("%+v", d)
		}
		if d := utf8Diff("\xff\xfe", ""); d.Added+d.Removed == 0 || !strings.Contains(d.Text, "@@") {
			t.Errorf("a mark that goes is not shown: %+v", d)
		}
	})
}

func TestDiffsApply(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	vocabulary := []string{"", "a", "b", "c", "-x", "+y", "@@ -1 +1 @@", `\ No newline at end of file`, "--- a/f", "é", "r\r", "diff a b"}
	random := func() string {
		var b strings.Builder
		for range r.IntN(25) {
			b.WriteString(vocabulary[r.IntN(len(vocabulary))] + "\n")
		}
		if r.IntN(3) == 0 {
			b.WriteString(vocabulary[r.IntN(len(vocabulary))])
		}
		return b.String()
	}
	for range 2000 {
		old, new := random(), random()
		if r.IntN(2) == 0 { // a small change in something longer
			lines := strings.SplitAfter(old+random()+old, "\n")
			old = strings.Join(lines, "")
			for range 1 + r.IntN(3) {
				lines[r.IntN(len(lines))] = vocabulary[r.IntN(len(vocabulary))] + "\n"
			}
			new = strings.Join(lines, "")
		}
		if old == new {
			continue
		}
		context := r.IntN(5)
		d := Compare(Side{"f", []byte(old), true}, Side{"f", []byte(new), true}, context)
		if got, err := patched(old, d.Text); err != nil || got != new {
			t.Fatalf("%q to %q with context %d: %v, got %q\n%s", old, new, context, err, got, d.Text)
		}
		// Where no line is shared at the ends, nothing is left out of the comparison; it is
		// the very text of the package that compares, or one with fewer changed lines.
		l, n := "first old\n"+old+"\nlast old\n", "first new\n"+new+"\nlast new\n"
		want := strings.TrimPrefix(string(godiff.Diff("a/f", []byte(l), "b/f", []byte(n))), "diff a/f b/f\n")
		got := utf8Diff(l, n)
		if theirs := int64(strings.Count(want, "\n+")+strings.Count(want, "\n-")) - 1; got.Added+got.Removed > theirs || got.Added+got.Removed == theirs && got.Text != want {
			t.Fatalf("%q to %q: %d lines, theirs %d\n%s\nwant\n%s", l, n, got.Added+got.Removed, theirs, got.Text, want)
		}
	}
}

func TestDiffOfRepeatingText(t *testing.T) {
	line := "same\n"
	t.Run("two changes among equal lines", func(t *testing.T) {
		for _, n := range []int{100, 200_000} { // compared both ways, and by walking alone
			old := "a\n" + strings.Repeat(line, n) + "b\n"
			if d := utf8Diff(old, "A\n"+strings.Repeat(line, n)+"B\n"); d.Added != 2 || d.Removed != 2 {
				t.Errorf("%d lines: +%d -%d", n, d.Added, d.Removed)
			}
		}
	})
	t.Run("lines that both ends could claim", func(t *testing.T) {
		for _, n := range []int{1, 10, 20, 29} {
			l, r := strings.Repeat(line, 30), strings.Repeat(line, 30-n)
			d, back := utf8Diff(l, r), utf8Diff(r, l)
			if d.Removed != int64(n) || d.Added != 0 || back.Added != int64(n) || back.Removed != 0 {
				t.Errorf("%d lines: +%d -%d, back +%d -%d", n, d.Added, d.Removed, back.Added, back.Removed)
			}
			if got, err := patched(l, d.Text); err != nil || got != r {
				t.Error(got, err)
			}
		}
	})
	t.Run("large texts that agree nowhere, or at every other line", func(t *testing.T) {
		var old, odd, other strings.Builder
		for i := range 40_000 {
			fmt.Fprintf(&old, "old line number %d\n", i)
			fmt.Fprintf(&other, "new line number %d\n", i)
			fmt.Fprintf(&odd, []string{"old line number %d\n", "new line number %d\n"}[i%2], i)
		}
		for new, want := range map[string]int64{other.String(): 40_000, odd.String(): 20_000} {
			start := time.Now()
			d := utf8Diff(old.String(), new)
			if got, err := patched(old.String(), d.Text); err != nil || got != new {
				t.Fatal(err)
			}
			if d.Added != want || d.Removed != want {
				t.Errorf("+%d -%d, want %d", d.Added, d.Removed, want)
			}
			t.Logf("%d changes took %v", want, time.Since(start))
		}
	})
}

func TestDiffOfLargeFilesIsFast(t *testing.T) {
	old := bytes.Repeat([]byte("a line of some text that is not very long\n"), 250_000)
	new := bytes.Clone(old)
	copy(new[len(new)/2:], "HERE")
	start := time.Now()
	d := Unified("f", old, new, true, true)
	took := time.Since(start)
	t.Logf("a diff of one line in %d MiB took %v, %d bytes", len(old)>>20, took, d.Bytes)
	if d.Added != 1 || d.Bytes > 1000 || took > 2*time.Second {
		t.Errorf("+%d, %d bytes, %v", d.Added, d.Bytes, took)
	}
}
