package fileops

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

func TestMerge(t *testing.T) {
	for _, c := range []struct{ name, base, ours, theirs, want string }{
		{"nothing of ours", "a\nB\nc\n", "a\nB\nc\n", "a\nb\nc\n", "a\nb\nc\n"},
		{"another line", "a\nB\nc\nd\n", "a\nB\nc\nD2\n", "a\nb\nc\nd\n", "a\nb\nc\nD2\n"},
		{"the line after", "a\nB\nc\n", "a\nB\nC2\n", "a\nb\nc\n", "a\nb\nC2\n"},
		{"inserted at the edge", "a\nB\nc\n", "a\nnew\nB\nc\n", "a\nb\nc\n", "a\nnew\nb\nc\n"},
		{"inserted behind a deletion", "a\nb\nX\nY\nc\n", "a\nb\nX\nY\nmine\nc\n", "a\nb\nc\n", "a\nb\nmine\nc\n"},
		{"the same by both", "a\nB\nc\n", "a\nb\nc\n", "a\nb\nc\n", "a\nb\nc\n"},
		{"only its white space", "a\n  x:=1\nc\n", "a\n\tx := 1\nc\n", "a\n\ty := 0\nc\n", "a\n\ty := 0\nc\n"},
		{"no newline at the end", "a\nB", "z\na\nB", "a\nb", "z\na\nb"},
		{"overlap", "a\nB\nc\n", "a\nmine\nc\n", "a\nb\nc\n", "!"},
		{"both insert", "a\nc\n", "a\nmine\nc\n", "a\nold\nc\n", "!"},
		{"deleted by ours", "a\nB\nc\n", "a\nc\n", "a\nb\nc\n", "!"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := Merge([]byte(c.base), []byte(c.ours), []byte(c.theirs))
			if c.want == "!" {
				if ok {
					t.Fatalf("got %q, want overlap", got)
				}
				return
			}
			if !ok || string(got) != c.want {
				t.Fatalf("got %q %v, want %q", got, ok, c.want)
			}
		})
	}
}

// TestMergeKeeps takes random edits of one side back and looks for every line that the
// other side added elsewhere.
func TestMergeKeeps(t *testing.T) {
	const seed = 20261129
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	merged := 0
	for round := range 2000 {
		pre := make([]string, 30)
		for i := range pre {
			pre[i] = fmt.Sprintf("line %d of %d", r.IntN(12), round) // some lines are alike
		}
		post := append([]string(nil), pre...)
		at := r.IntN(len(post))
		post[at] = fmt.Sprintf("agent %d", round)
		current := append([]string(nil), post...)
		var theirs []string
		for range 1 + r.IntN(4) {
			l := fmt.Sprintf("person %d %d", round, r.IntN(1000))
			i := r.IntN(len(current) + 1)
			current = append(current[:i], append([]string{l}, current[i:]...)...)
			theirs = append(theirs, l)
		}
		text := func(lines []string) []byte { return []byte(strings.Join(lines, "\n") + "\n") }
		got, ok := Merge(text(post), text(current), text(pre))
		if !ok {
			continue
		}
		merged++
		for _, l := range theirs {
			if !bytes.Contains(got, []byte(l+"\n")) {
				t.Fatalf("seed %d round %d: %q is lost", seed, round, l)
			}
		}
		if bytes.Contains(got, []byte(fmt.Sprintf("agent %d\n", round))) || !bytes.Contains(got, []byte(pre[at]+"\n")) {
			t.Fatalf("seed %d round %d: the edit was not taken back", seed, round)
		}
	}
	if merged < 1500 {
		t.Fatalf("only %d of 2000 could be merged", merged)
	}
}

func TestAfter(t *testing.T) {
	const seed = 7
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	for round := range 500 {
		var old, now []string
		for i := range r.IntN(60) {
			l := []string{"-- a/x", "+++ b/x", "@@ -1,1 +1,1 @@", "\\ x", "", fmt.Sprint(i)}[r.IntN(6)]
			if r.IntN(4) > 0 {
				old = append(old, l)
			}
			if r.IntN(4) > 0 {
				now = append(now, l)
			}
		}
		a, b := []byte(strings.Join(old, "\n")), []byte(strings.Join(now, "\n"))
		p := op.Path("dir/a file.txt")
		d := Unified(p, a, b, round%7 != 0 || len(a) > 0, true)
		whole := "--- a/other\n+++ b/other\n@@ -1,1 +1,1 @@\n-x\n+y\n" + d.Text
		got, ok := After(p, a, []byte(whole), rooted.HashBytes(b))
		if d.Text == "" && bytes.Equal(a, b) {
			continue
		}
		if !ok || !bytes.Equal(got, b) {
			t.Fatalf("seed %d round %d: got %q %v, want %q\n%s", seed, round, got, ok, b, d.Text)
		}
	}
	if _, ok := After("f", []byte("a\n"), []byte("--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n-a\n+b\n"), rooted.HashBytes([]byte("c\n"))); ok {
		t.Fatal("a diff that does not lead to the digest was believed")
	}
}
