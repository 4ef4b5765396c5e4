package protected

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A long pattern is matched sixty-four tokens at a time, and answers as one token at a time.
func TestManyTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := []string{"a", "b", "/", "*", "?", "[ab]", "[!a]", "**/", "/**/", "**", "a*", "*/"}
		least := rapid.SampledFrom([]int{1, 80, 140}).Draw(t, "least") // left to itself a draw is short, and fits one word of tokens
		pattern := strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), least, 150).Draw(t, "pattern"), "")
		tokens, ok := tokenise(pattern, false)
		if !ok {
			t.Fatalf("%q is malformed, and made of parts that are not", pattern)
		}
		// Texts that mostly fit, so that both answers come about.
		var b strings.Builder
		for _, p := range tokens {
			switch p.kind {
			case lit:
				b.WriteByte(p.b)
			case one, set:
				b.WriteString(rapid.SampledFrom([]string{"b", "b", "c", "a"}).Draw(t, "one"))
			case star:
				b.WriteString(rapid.SampledFrom([]string{"", "ab", "ba"}).Draw(t, "star"))
			case deep, inside:
				b.WriteString(rapid.SampledFrom([]string{"", "a/", "ab/b/"}).Draw(t, "deep"))
			}
		}
		text := b.String()
		if rapid.IntRange(0, 3).Draw(t, "spoil") == 0 && text != "" {
			i := rapid.IntRange(0, len(text)-1).Draw(t, "at")
			text = text[:i] + rapid.SampledFrom([]string{"/", "c", ""}).Draw(t, "by") + text[i+1:]
		}
		if got, want := walkMany(tokens, text), walk(tokens, text); got != want {
			t.Fatalf("pattern %q, text %q: got %v, want %v", pattern, text, got, want)
		}
	})
}

// What an agent may write into an ignore file without a person costs seconds at worst.
func TestLongPatterns(t *testing.T) {
	for name, lines := range map[string][]string{
		"S78 (part) one line of stars":              {"/**/" + strings.Repeat("*a", 30000) + "*"},
		"S78 (part) lines as long as a path can be": slicesOf("/**/"+strings.Repeat("*a", 1900)+"*", 16),
		"S78 (part) a plain name of a megabyte":     {strings.Repeat("a", 1<<20)},
		"S78 (part) directories without end":        {strings.Repeat("**/", 300000) + "b"},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			list := compile(lines, false)
			for _, part := range []string{strings.Repeat("a", 250) + "/", "aaaaaaa/"} {
				list.Match(strings.Repeat(part, 3900/len(part))+"a", false)
			}
			if d := time.Since(begin); d > 45*time.Second {
				t.Errorf("took %v", d)
			}
		})
	}
}

func slicesOf(line string, n int) (out []string) {
	for range n {
		out = append(out, line)
	}
	return out
}
