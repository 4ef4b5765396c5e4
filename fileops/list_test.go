package fileops

import (
	"errors"
	"strings"
	"testing"

	"holdpoint/op"
)

func TestMatchGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "a", true}, {"*.go", "a.go", true}, {"*.go", "a.golang", false}, {"[ab]?", "bx", true}, {`\*`, "*", true}, {`\*`, "a", false}, {"?", "\xff", true}, {"a", "a\n", false},
	} {
		if got, err := MatchGlob(c.pattern, c.name); got != c.want || err != nil {
			t.Errorf("%q on %q: %v, %v", c.pattern, c.name, got, err)
		}
	}
	for _, bad := range []string{"[", "a[", `a\`, "**/x", strings.Repeat("a", 3) + "[z-"} {
		if _, err := MatchGlob(bad, "b"); !errors.Is(err, op.BadRequest) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
