package gitread

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"holdpoint/op"
)

// sections cuts a diff into the parts of its files.
func sections(s string) (out []string) {
	for i, part := range strings.Split("\n"+s, "\ndiff --") {
		if i > 0 {
			out = append(out, "diff --"+strings.TrimSuffix(part, "\n"))
		}
	}
	return out
}

func sameDiff(t *testing.T, what string, out map[string]any, want string) {
	t.Helper()
	got, err := unshown(out)
	if err != nil {
		t.Fatal(err)
	}
	g, w := sections(got), sections(want)
	for i := range max(len(g), len(w)) {
		var a, b string
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			t.Errorf("%s, part %d\n--- got\n%s\n--- want\n%s", what, i, a, b)
			return
		}
	}
}

// unshown gives the bytes of a diff as shown.
func unshown(out map[string]any) (string, error) {
	s := out["diff"].(string)
	if out["escaped"] == nil {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if s[i+1] == '\\' {
			b.WriteByte('\\')
			i++
			continue
		}
		var n byte
		if _, err := fmt.Sscanf(s[i:i+4], `\x%02X`, &n); err != nil {
			return "", err
		}
		b.WriteByte(n)
		i += 3
	}
	return b.String(), nil
}

// merged leaves out of a diff of git's what it shows of unmerged paths: its combined form is
// not given here, the paths are listed instead.
func merged(s string) string {
	var keep []string
	for _, part := range sections(s) {
		if strings.HasPrefix(part, "diff --git") {
			part, _, _ = strings.Cut(part, "\n* Unmerged path")
			keep = append(keep, part)
		}
	}
	return strings.Join(keep, "\n")
}

func diffEqualsGit(t *testing.T, w *work, kind string) {
	for _, top := range tops(kind) {
		base := []string{"-C", top, "diff", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv"}
		has := func(rev string) bool {
			_, err := w.try("-C", top, "rev-parse", "-q", "--verify", rev)
			return err == nil
		}
		cases := []struct {
			name string
			args op.GitDiffArgs
			git  []string
		}{
			{"files", op.GitDiffArgs{}, nil},
			{"staged", op.GitDiffArgs{Staged: true}, []string{"--cached"}},
		}
		if has("HEAD") {
			cases = append(cases, struct {
				name string
				args op.GitDiffArgs
				git  []string
			}{"HEAD", op.GitDiffArgs{From: "HEAD"}, []string{"HEAD"}})
		}
		for i := 1; has(fmt.Sprintf("HEAD~%d", i)) && i < 6; i++ {
			from := fmt.Sprintf("HEAD~%d", i)
			cases = append(cases, struct {
				name string
				args op.GitDiffArgs
				git  []string
			}{from, op.GitDiffArgs{From: from, To: "HEAD", ContextLines: ptr(int64(i))}, []string{fmt.Sprintf("-U%d", i), from, "HEAD"}})
		}
		for _, c := range cases {
			if kind == "conflicts" && c.name == "HEAD" {
				continue // git shows the file of an unmerged path here; listed as unmerged instead
			}
			c.args.MaxBytes = ptr(int64(1 << 20))
			sameDiff(t, top+" "+c.name, w.must(&c.args, top), merged(w.git(append(base, c.git...)...)))
		}
	}
}

func ptr[T any](v T) *T { return &v }

// TestDiffOfRandomTexts compares alignments on texts with much that repeats, where there
// are many shortest ones.
func TestDiffOfRandomTexts(t *testing.T) {
	seed := rand.Int63()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewSource(seed))
	w := newWork(t)
	w.git("init", "-q")
	text := func(n int) []string {
		var out []string
		for range n {
			out = append(out, strings.Repeat([]string{"\t", "  ", ""}[rnd.Intn(3)], rnd.Intn(4))+string("abcdefgh{}\n "[rnd.Intn(12)])+"\n")
		}
		return out
	}
	const files = 120
	var before [files][]string
	for i := range files {
		before[i] = text(rnd.Intn(80))
		w.write(fmt.Sprintf("f%03d", i), strings.Join(before[i], ""))
	}
	w.commit("before")
	for i := range files {
		after := append([]string(nil), before[i]...)
		for range 1 + rnd.Intn(8) {
			at := rnd.Intn(len(after) + 1)
			end := min(len(after), at+rnd.Intn(6))
			after = append(append(append([]string(nil), after[:at]...), text(rnd.Intn(6))...), after[end:]...)
		}
		w.write(fmt.Sprintf("f%03d", i), strings.Join(after, ""))
	}
	out := w.must(&op.GitDiffArgs{MaxBytes: ptr(int64(1 << 20))}, ".")
	sameDiff(t, "random", out, w.git("diff", "--full-index"))
}
