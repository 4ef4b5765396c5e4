package op

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestTouched compares the index with looking at every earlier step.
func TestTouched(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	paths := []Path{"a", "a/b", "a/b/c", "ab", "ab/c", "d", "d/e", "d/e/f/g", "d/ef"}
	touches := func(a, b Path) bool { return a != "" && b != "" && (a.Within(b) || b.Within(a)) }
	for range 2000 {
		var index Touched
		var earlier []Step
		for range rng.IntN(4) {
			s := Step{Path: paths[rng.IntN(len(paths))]}
			if rng.IntN(2) == 0 {
				s.To = paths[rng.IntN(len(paths))]
			}
			earlier = append(earlier, s)
			index.Add(s)
		}
		s := Step{Path: paths[rng.IntN(len(paths))]}
		if rng.IntN(2) == 0 {
			s.To = paths[rng.IntN(len(paths))]
		}
		want := false
		for _, e := range earlier {
			want = want || touches(s.Path, e.Path) || touches(s.Path, e.To) || touches(s.To, e.Path) || touches(s.To, e.To)
		}
		if got := index.By(s); got != want {
			t.Fatalf("%v after %v: got %v", s, earlier, got)
		}
	}
}
