//go:build linux

package rooted

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/op"
)

// Random lists of steps, in which any may stand on any earlier one: done, undone and
// redone they give the trees they should, and after a crash at a random point Settle gives
// the first tree or the last, without a conflict.
func TestRandomLists(t *testing.T) {
	seed := uint64(count(t, "HOLDPOINT_RANDOM_SEED", int(time.Now().UnixNano())))
	t.Logf("seed %d", seed)
	for round := range count(t, "HOLDPOINT_RANDOM_N", 60) {
		t.Run(fmt.Sprint("round ", round), func(t *testing.T) { randomRound(t, seed, round) })
	}
}

func randomRound(t *testing.T, seed uint64, round int) {
	r := rand.New(rand.NewPCG(seed, uint64(round)))
	steps, texts := randomList(t, r)
	fresh := func() (*bench, []op.Step) { return restage(t, steps, texts) }

	b, list := fresh()
	start := b.tree()
	done, _, err := b.do(HoldOptions{}, list...)
	if err != nil {
		t.Fatalf("seed %d round %d: %v in\n%s", seed, round, err, shown(list))
	}
	end := b.tree()
	done = b.mustDo(op.Inverse(done)...)
	if got := b.tree(); got != start {
		t.Fatalf("seed %d round %d: undo gives\n%s\nnot\n%s\nafter\n%s", seed, round, got, start, shown(list))
	}
	done = b.mustDo(op.Inverse(done)...)
	if got := b.tree(); got != end {
		t.Fatalf("seed %d round %d: redo gives\n%s\nnot\n%s\nafter\n%s", seed, round, got, end, shown(list))
	}
	if got := b.again().settle(done); !got.Done || len(got.Conflicts) > 0 {
		t.Errorf("seed %d round %d: all stands, settled %+v after\n%s", seed, round, got, shown(list))
	}

	// Every other time it is cancelled on the way, so that the crash may fall into the
	// way back.
	b, list = fresh()
	n, cancelAt, seen := 2+r.IntN(4*len(list)+2), r.IntN(3*len(list)), 0
	c, cancel := context.WithCancel(ctx())
	b.within = c
	rec, crashed, point, err := b.crashAt(n, list, func(string) {
		if seen++; round%2 == 0 && seen == cancelAt {
			cancel()
		}
	})
	cancel()
	got := b.again().settle(rec)
	tree := b.tree()
	want := start
	if got.Done {
		want = end
	}
	if tree != want || len(got.Conflicts) > 0 || !crashed && start != end && got.Done != (err == nil) {
		t.Errorf("seed %d round %d: crash at %d %q, settled %+v:\n%s\nwant\n%s\nafter\n%s", seed, round, n, point, got, tree, want, shown(list))
	}
}

func shown(steps []op.Step) string {
	var out strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&out, "%s %s %s %s %d\n", s.Do, s.Path, s.To, s.Slot, s.Inode)
	}
	return out.String()
}

func randomStart(b *bench) {
	for _, f := range []string{"a/x", "a/y", "a/s/z", "b/x", "c"} {
		b.write("ws/"+f, "start "+f)
	}
	b.link("a/x", "ws/l")
}

// randomList plays steps on a tree one by one, so that each is recorded with the state
// that the ones before it leave.
func randomList(t *testing.T, r *rand.Rand) (steps []op.Step, texts map[string]string) {
	t.Helper()
	b := benchIn(t, fastDir(t), Options{})
	randomStart(b)
	texts = map[string]string{}
	for tries := 0; len(steps) < 1+r.IntN(9) && tries < 40; tries++ {
		s, ok := randomStep(b, r, fmt.Sprint("s", len(steps)), texts)
		if !ok {
			continue
		}
		done, report, err := b.do(HoldOptions{}, s)
		if err != nil {
			t.Fatalf("%s: %v", shown([]op.Step{s}), err)
		}
		if len(report.Kept) == 0 {
			done[0].Inode = 0 // of another tree
			steps = append(steps, done[0])
		}
	}
	return steps, texts
}

func randomStep(b *bench, r *rand.Rand, slot string, texts map[string]string) (op.Step, bool) {
	var there []op.Path
	kinds := map[op.Path]op.Kind{}
	n, err := b.root.Look(ctx(), ".", true)
	must(b.t, err)
	defer n.Close()
	must(b.t, n.Tree(ctx(), func(p op.Path, i Info, _ func() (*Node, error)) error {
		there, kinds[p] = append(there, p), i.Kind
		return nil
	}))
	if len(there) == 0 {
		return op.Step{}, false
	}
	p := there[r.IntN(len(there))]
	parent := p
	if kinds[p] != op.Directory {
		parent = p.Parent()
	}
	fresh := parent.Join(string("abcxyznm"[r.IntN(8)]))
	_, taken := kinds[fresh]
	text := fmt.Sprint("text of ", slot)
	switch r.IntN(6) {
	case 0:
		if kinds[p] == op.File {
			texts[slot] = text
			return b.swap(p, text, slot), true
		}
	case 1:
		if !taken {
			texts[slot] = text
			return b.place(fresh, text, slot), true
		}
	case 2:
		return b.take(p, slot), true
	case 3:
		if !taken && !fresh.Within(p) {
			return b.move(p, fresh), true
		}
	case 4:
		if !taken {
			return mkdirStep(fresh), true
		}
	case 5:
		if kinds[p] == op.Directory {
			return op.Step{Do: op.RemoveDir, Path: p, Before: op.State{Kind: op.Directory, Mode: "0755"}, After: op.State{Kind: op.Absent}}, true
		}
	}
	return op.Step{}, false
}

// restage gives a new tree like the first one was, and the list for it.
func restage(t *testing.T, steps []op.Step, texts map[string]string) (*bench, []op.Step) {
	t.Helper()
	b := benchIn(t, fastDir(t), Options{})
	randomStart(b)
	list := slices.Clone(steps)
	for i, s := range list {
		if text, staged := texts[s.Slot]; staged && (s.Do == op.Swap || s.Do == op.Place) {
			made, err := b.st.Stage(ctx(), s.Slot, strings.NewReader(text), Meta{})
			must(t, err)
			list[i].Inode = made.Inode
		}
	}
	return b, list
}
