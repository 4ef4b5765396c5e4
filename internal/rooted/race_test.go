//go:build linux

package rooted

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdpoint/op"
)

// A second process exchanges the directory d with a link that leads out, without pause,
// while this one reads and changes d/f. Nothing outside is ever read or written, and the
// work gets done; with the plain calls after a check in our place it goes wrong.
func TestSymlinkRace(t *testing.T) {
	n := count(t, "HOLDPOINT_RACE_N", 2000)
	both(t, func(t *testing.T, o Options) {
		r := newRace(t, o)
		r.run(n, r.guarded, true)
		t.Logf("attempts %d, inside %d, refused %d, escapes %d, exchanges %d", r.attempts, r.inside, r.refused, r.escapes, r.swaps)
		if r.escapes != 0 {
			t.Errorf("%d escapes", r.escapes)
		}
		if r.inside*10 < r.attempts {
			t.Errorf("only %d of %d came through", r.inside, r.attempts)
		}
		if r.swaps < r.attempts/100 {
			t.Errorf("only %d exchanges: this was no race", r.swaps)
		}
	})
	t.Run("without the guard", func(t *testing.T) {
		r := newRace(t, Options{})
		for r.escapes == 0 && r.attempts < max(n, 100_000) {
			r.run(2000, r.naive, false)
		}
		t.Logf("attempts %d, inside %d, refused %d, escapes %d, exchanges %d", r.attempts, r.inside, r.refused, r.escapes, r.swaps)
		if r.escapes == 0 {
			t.Error("no escape: the race shows nothing")
		}
	})
}

type race struct {
	*bench
	attempts, inside, refused, escapes, swaps int
}

const (
	insideText = "inside"
	secretText = "outside secret"
)

func newRace(t *testing.T, o Options) *race {
	b := benchIn(t, fastDir(t), o)
	b.write("ws/d/f", insideText)
	b.write("OUT/f", secretText)
	b.link("../OUT", "ws/l")
	return &race{bench: b}
}

func (r *race) run(n int, attempt func(i int) (content []byte, err error), patient bool) {
	r.t.Helper()
	c := self("swapper", r.ws)
	in, err := c.StdinPipe()
	must(r.t, err)
	var out bytes.Buffer
	c.Stdout = &out
	must(r.t, c.Start())
	for i := range n {
		r.attempts++
		content, err := attempt(i)
		switch {
		case err != nil:
			r.refused++
			if patient {
				r.wait()
			}
		case !strings.HasPrefix(string(content), insideText), strings.Contains(string(content), secretText):
			r.escapes++
		default:
			r.inside++
		}
		r.outside()
	}
	must(r.t, in.Close())
	must(r.t, c.Wait())
	var swaps int
	_, _ = fmt.Sscan(out.String(), &swaps)
	r.swaps += swaps
}

// wait lets the other process go on after a refusal. Refusals are quick, and while that
// process does not run, hundreds would fall into one exchange.
func (r *race) wait() {
	for range 20 {
		if i, err := os.Lstat(r.path("ws/d")); err == nil && i.IsDir() {
			return
		}
		spin(20 * time.Microsecond)
	}
}

// outside counts every trace of ours outside of the root as an escape.
func (r *race) outside() {
	got, err := os.ReadFile(r.path("OUT/f"))
	list, _ := os.ReadDir(r.path("OUT"))
	if err == nil && string(got) == secretText && len(list) == 1 {
		return
	}
	r.escapes++
	must(r.t, os.RemoveAll(r.path("OUT")))
	r.write("OUT/f", secretText)
}

// guarded reads in even turns, by path or in a walk, and replaces, creates or removes in
// odd ones.
func (r *race) guarded(i int) ([]byte, error) {
	if i%4 == 2 {
		return r.walked()
	}
	n, err := r.root.Look(ctx(), "d/f", true)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	content, err := n.Read(1 << 10)
	if err != nil || i%2 == 0 {
		return content, err
	}
	text := fmt.Sprint(insideText, " ", i)
	_, _, err = r.do(HoldOptions{}, r.raceSteps(n, i, text, content)...)
	slots, listErr := r.st.Slots()
	must(r.t, listErr)
	for _, s := range slots {
		must(r.t, r.st.Drop(s))
	}
	return []byte(text), err
}

// walked reads every file below the root.
func (r *race) walked() (all []byte, err error) {
	top, err := r.root.Look(ctx(), ".", true)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	err = top.Tree(ctx(), func(_ op.Path, i Info, node func() (*Node, error)) error {
		if i.Kind != op.File {
			return nil
		}
		n, err := node()
		if err != nil {
			return err
		}
		defer n.Close()
		b, err := n.Read(1 << 10)
		all = append(all, b...)
		return err
	})
	if err == nil && all == nil {
		err = stale("d", "both names were links when they were looked at")
	}
	return all, err
}

// raceSteps replaces d/f, alone or by a new file after the old one was taken away.
func (r *race) raceSteps(n *Node, i int, text string, old []byte) []op.Step {
	s, err := r.st.Stage(ctx(), "s1", strings.NewReader(text), Meta{Like: n})
	must(r.t, err)
	before := op.State{Kind: "file", Hash: HashBytes(old)}
	swap := op.Step{Do: "swap", Path: "d/f", Slot: "s1", Before: before, After: s.State, Inode: s.Inode}
	if i%4 == 1 {
		return []op.Step{swap}
	}
	take := op.Step{Do: "take", Path: "d/f", Slot: "s2", Before: before, After: op.State{Kind: "absent"}}
	swap.Do, swap.Before = "place", op.State{Kind: "absent"}
	return []op.Step{take, swap}
}

// naive asks where the path leads and then uses it, as programs do.
func (r *race) naive(i int) ([]byte, error) {
	name := filepath.Join(r.ws, "d/f")
	real, err := filepath.EvalSymlinks(name)
	if err != nil || !strings.HasPrefix(real, r.ws+"/") {
		return nil, fmt.Errorf("it leads out: %w", err)
	}
	if i%2 == 0 {
		return os.ReadFile(name)
	}
	text := fmt.Appendf(nil, "%s %d", insideText, i)
	return text, os.WriteFile(name, text, 0o644)
}
