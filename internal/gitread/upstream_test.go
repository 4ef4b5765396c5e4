package gitread

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"holdpoint/op"
)

// TestUpstream compares ahead and behind with git's on histories of all shapes, with dates
// that go backwards too.
func TestUpstream(t *testing.T) {
	seed := uint64(9)
	r := rand.New(rand.NewPCG(seed, 9))
	w := newWork(t)
	w.git("init", "-q")
	w.git("config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
	w.git("config", "remote.odd.fetch", "+refs/heads/rel-*:refs/remotes/odd/r/*")
	tree := strings.TrimSpace(w.git("write-tree"))
	var all []string
	for i := range 60 {
		args := []string{"commit-tree", tree, "-m", fmt.Sprint(i)}
		for range min(len(all), r.IntN(3)) {
			p := all[max(0, len(all)-1-r.IntN(8))]
			if !strings.Contains(strings.Join(args, " "), p) {
				args = append(args, "-p", p)
			}
		}
		if i%7 == 3 {
			w.at -= 3600 // a clock that was wrong
		}
		all = append(all, strings.TrimSpace(w.git(args...)))
	}
	for i := range 25 {
		a, b := all[r.IntN(len(all))], all[r.IntN(len(all))]
		w.git("update-ref", "refs/heads/main", a)
		w.git("update-ref", "refs/remotes/origin/x/y", b)
		w.git("config", "branch.main.remote", "origin")
		w.git("config", "branch.main.merge", "refs/heads/x/y")
		out := w.must(&op.GitStatusArgs{}, ".")
		got := fmt.Sprintf("%v\t%v", out["ahead"], out["behind"])
		if want := strings.TrimSpace(w.git("rev-list", "--left-right", "--count", "main...origin/x/y")); got != want || out["upstream"] != "origin/x/y" {
			t.Fatalf("seed %d, turn %d: got %s of %v, want %s", seed, i, got, out["upstream"], want)
		}
	}
	for name, c := range map[string]struct{ remote, merge, want string }{
		"another name":  {"odd", "refs/heads/rel-1", "odd/r/1"},
		"a local one":   {".", "refs/heads/side", "side"},
		"one not there": {"origin", "refs/heads/never", "origin/never"},
		"unmapped":      {"odd", "refs/heads/other", ""},
		"none":          {"", "", ""},
	} {
		for _, ref := range []string{"refs/remotes/odd/r/1", "refs/heads/side"} {
			w.git("update-ref", ref, all[5])
		}
		w.try("config", "--unset", "branch.main.remote")
		w.try("config", "--unset", "branch.main.merge")
		if c.remote != "" {
			w.git("config", "branch.main.remote", c.remote)
			w.git("config", "branch.main.merge", c.merge)
		}
		out := w.must(&op.GitStatusArgs{}, ".")
		got, _ := out["upstream"].(string)
		if byGit, err := w.try("for-each-ref", "--format=%(upstream:short)", "refs/heads/main"); err != nil || got != c.want || strings.TrimSpace(byGit) != c.want {
			t.Errorf("%s: got %q, want %q; git says %q %v", name, got, c.want, byGit, err)
		}
		if gone := out["upstream_gone"] == true; gone != (name == "one not there") {
			t.Errorf("%s: gone %v", name, gone)
		}
	}
}
