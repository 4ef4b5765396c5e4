package bridge

import (
	"strings"
	"testing"
	"time"

	"holdpoint/op"
)

func TestPairingCode(t *testing.T) {
	t.Run("I112 (part) the code has 8 characters, none of which is taken for another, and all of which come", func(t *testing.T) {
		seen := map[rune]bool{}
		for range 500 {
			code := newCode()
			if len(code) != 8 || strings.ContainsAny(code, "01OILUoilu") {
				t.Fatal(code)
			}
			for _, r := range code {
				seen[r] = true
			}
		}
		if len(seen) != len(pairLetters) {
			t.Errorf("%d letters of %d", len(seen), len(pairLetters))
		}
	})
	t.Run("I112 (part) it ends after 5 minutes", func(t *testing.T) {
		var p pairing
		code, ends := p.open(TokenRequest{Role: op.Reviewer})
		if left := time.Until(ends); left > 5*time.Minute || left < 4*time.Minute {
			t.Error(left)
		}
		p.ends = time.Now().Add(-time.Millisecond)
		if _, why := p.claim(code); why != codeEnded {
			t.Errorf("after its end it is %q", why)
		}
	})
	t.Run("I112 (part) the empty code opens nothing, nor does any where none is open", func(t *testing.T) {
		var p pairing
		for _, code := range []string{"", "22222222"} {
			if _, why := p.claim(code); why != codeNever {
				t.Errorf("%q is %q", code, why)
			}
		}
	})
}
