package gitread

import "testing"

// TestEqualsGit compares every answer with git's, on each kind of repository.
func TestEqualsGit(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			w := newWork(t)
			k.make(w)
			for _, part := range []struct {
				name string
				test func(*testing.T, *work, string)
			}{{"git_status", statusEqualsGit}, {"git_diff", diffEqualsGit}, {"git_log and git_show", logAndShowEqualGit}, {"git_blame", blameEqualsGit}} {
				t.Run(part.name, func(t *testing.T) {
					now := *w
					now.t = t
					part.test(t, &now, k.name)
				})
			}
		})
	}
}
