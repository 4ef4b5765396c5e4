package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// proof is what came of taking one id's guard out.
type proof struct {
	id, state, why string
	took           time.Duration
}

// States of a proof. All but noticed count as uncovered.
const (
	noticed  = "noticed"  // its test failed
	survived = "survived" // its test passed without the guard
	unlisted = "unlisted" // no guard is listed for it
	unproven = "unproven" // the guard's lines are gone, or do not compile, or the test was red before
)

// prove samples covered ids, takes the guard of each out by an overlay and runs the tests
// that claim the id. A claim that does not notice is no claim.
func (l *lists) prove(root string, n int, seed uint64, only string, out, errs io.Writer) int {
	guards, err := readGuards(filepath.Join(root, "testdata", "requirements", "guards.txt"))
	if err != nil {
		fmt.Fprintln(errs, err)
		return 1
	}
	for seed == 0 {
		seed = rand.Uint64() >> 1
	}
	var ids []string
	for _, r := range l.rows {
		// The data and security cases are mostly properties of an algorithm: there is nothing to
		// take out. Those with a listed guard can be named.
		if r.state() == "covered" && strings.Contains("CIUX", r.id[:1]) {
			ids = append(ids, r.id)
		}
	}
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	if only != "" {
		ids = strings.Split(only, ",")
	} else {
		ids = ids[:min(n, len(ids))]
	}
	fmt.Fprintf(out, "seed %d: %d ids of the C, I, U and X rows that are covered; %d guards are listed\n", seed, len(ids), len(guards))
	runner, err := newRunner(root)
	if err != nil {
		fmt.Fprintln(errs, err)
		return 1
	}
	defer runner.close()
	counts := map[string]int{}
	for _, id := range ids {
		r := l.byID[id]
		if r == nil {
			fmt.Fprintf(errs, "%s is no requirement\n", id)
			return 2
		}
		p := r.proof(runner, guards)
		counts[p.state]++
		fmt.Fprintf(out, "%-5s %-9s %5.1f s  %s\n", p.id, p.state, p.took.Seconds(), strings.TrimSpace(p.why+" "+r.title))
	}
	fmt.Fprintf(out, "%d noticed; uncovered: %d survived, %d without a listed guard, %d not proven\n",
		counts[noticed], counts[survived], counts[unlisted], counts[unproven])
	if counts[survived] > 0 {
		return 1
	}
	return 0
}

func (r *requirement) proof(runner *runner, guards []guard) proof {
	p := proof{id: r.id, state: unlisted}
	begun := time.Now()
	defer func() { p.took = time.Since(begun) }()
	for _, g := range guards {
		for _, id := range g.ids {
			if id != r.id {
				continue
			}
			state, why := r.run(runner, g)
			// Several guards of one id are all taken out, one by one: each must be noticed.
			if p.state, p.why = state, why; state != noticed {
				p.took = time.Since(begun)
				return p
			}
		}
	}
	p.took = time.Since(begun)
	return p
}

// run takes one guard out. It is noticed when a test that claims the id fails.
func (r *requirement) run(runner *runner, g guard) (state, why string) {
	without, err := runner.without(g)
	if err != nil {
		return unproven, err.Error() + ":"
	}
	for _, c := range r.claims() {
		red, err := without.notices(c)
		if err != nil {
			return unproven, err.Error() + ":"
		}
		if red {
			return noticed, ""
		}
	}
	return survived, fmt.Sprintf("(guard on line %d)", g.line)
}

// claims are the tests to run, one for each function and name.
func (r *requirement) claims() []claim {
	var out []claim
	seen := map[string]bool{}
	for _, c := range append(append([]claim{}, r.whole...), r.part...) {
		if key := c.at + c.name; c.test != "" && !seen[key] {
			seen[key] = true
			out = append(out, c)
		}
	}
	// The quick ones first: a test of a pure package before one that starts daemons.
	sort.SliceStable(out, func(i, j int) bool {
		return !strings.Contains(out[i].at, "e2e") && strings.Contains(out[j].at, "e2e")
	})
	return out
}
