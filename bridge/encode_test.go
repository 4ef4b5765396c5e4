package bridge

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"holdpoint/op"
)

// library is what encoding/json makes of v.
func library(t testing.TB, v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func TestEncodeText(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	pieces := []string{"a", "plain text of some length", "\"", "\\", "\n", "\t", "\r", "\b", "\f", "\x00", "\x1f", "\x7f", "\x80", "\xff\xfe", "é", "\u2028", "\u2029", "😀", "<b>&", "\xe2\x80", " ", "!", "]", "["}
	for range 50_000 {
		var b strings.Builder
		for range r.IntN(12) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		if got, want := string(appendText(nil, b.String())), library(t, b.String()); got != want {
			t.Fatalf("%q: got %s, want %s", b.String(), got, want)
		}
	}
	for c := range 256 {
		for at := range 9 {
			s := strings.Repeat("x", at) + string([]byte{byte(c)}) + strings.Repeat("y", 9-at)
			if got, want := string(appendText(nil, s)), library(t, s); got != want {
				t.Fatalf("%q: got %s, want %s", s, got, want)
			}
		}
	}
}

func TestEncodeReply(t *testing.T) {
	d := op.Decision{Tier: "read", Mandatory: true}
	for _, v := range []any{
		op.Reply{}, op.Reply{Status: op.Done, Effects: []op.Effect{}},
		op.Reply{Status: op.Done, Op: op.ViewFile, Decision: &d, Effects: []op.Effect{}, Warnings: []op.Warning{{Code: "a", Message: "<&>"}},
			Result: map[string]any{"content": "text \"<b>\"\n", "size": int64(7), "total_lines": 3, "eof": true, "none": nil, "hash": op.Digest("blake3:00"),
				"deep": map[string]any{"z": 1.5, "a": []string{"x"}}, "items": []map[string]any{{"b": 1}, {"a": "\u2028"}}}},
		op.Reply{Result: map[string]any{}}, op.Reply{Result: map[string]any(nil)}, op.Reply{Result: []int{1}},
		map[string]any{"error": op.Fail(op.NotFound, "no <such> thing")}, map[string]any(nil),
	} {
		got, err := encode([]byte("before"), v)
		if err != nil {
			t.Fatal(err)
		}
		var is, want any
		if err := json.Unmarshal(got[len("before"):], &is); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		if err := json.Unmarshal([]byte(library(t, v)), &want); err != nil {
			t.Fatal(err)
		}
		if a, b := library(t, is), library(t, want); a != b {
			t.Errorf("got %s, want %s", a, b)
		}
	}
	if _, err := encode(nil, map[string]any{"f": func() {}}); err == nil {
		t.Error("a function was encoded")
	}
}

func BenchmarkEncode200K(b *testing.B) {
	text := strings.Repeat("the quick brown fox jumps over the lazy dog, said \"line\" \\ of text\n", 3000)
	buf := make([]byte, 0, 1<<20)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		encode(buf, op.Reply{Result: map[string]any{"content": text}})
	}
}
