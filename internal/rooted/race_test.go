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
		r.told("race")
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
		r.told("without the guard")
		if r.escapes == 0 {
			t.Error("no escape: the race shows nothing")
		}
	})
}

// While one process exchanges the directory with a link that leads out, another replaces
// the file in it, and this one replaces the file too. Each version names what it took the
// place of: one that nobody names, that is not in the file and was not kept, is lost.
func TestNoSwapWindow(t *testing.T) {
	n := count(t, "HOLDPOINT_WINDOW_N", 10_000)
	t.Run("C22 10,000 changes while the path is exchanged for a link that leads out: nothing leaves the root, no foreign write is lost", func(t *testing.T) {
		w := newWindow(t, Options{})
		w.play(n, w.guarded)
		w.told("race")
		if w.escapes != 0 || w.lost != 0 {
			t.Errorf("%d escapes, %d foreign writes lost: %v", w.escapes, w.lost, w.gone)
		}
		if w.inside*100 < n || w.refused*100 < n || w.theirs*100 < n || w.swaps*100 < n || w.between*1000 < n {
			t.Error("the three hardly met: this was no race")
		}
	})
	t.Run("with a check before the write in its place both happen", func(t *testing.T) {
		w := newWindow(t, Options{})
		for w.escapes == 0 || w.lost == 0 {
			if w.attempts >= 10*n {
				break
			}
			w.play(n/5, w.naive)
		}
		w.told("without the guard")
		if w.escapes == 0 || w.lost == 0 {
			t.Error("the rounds show nothing")
		}
	})
}

// window is a race with a rival that writes the same file.
type window struct {
	*race
	theirs, lost, between int      // foreign versions; those that nobody can find; those that one of ours took the place of, knowingly
	gone                  []string // the first few that are lost
}

func newWindow(t *testing.T, o Options) *window { return &window{race: newRace(t, o)} }

// play runs n attempts beside the rival and then looks for each version of the rival's.
func (w *window) play(n int, attempt func(i int) (replaced string, kept []string, err error)) {
	w.t.Helper()
	rival := self("rival", w.ws)
	in, err := rival.StdinPipe()
	must(w.t, err)
	var out bytes.Buffer
	rival.Stdout = &out
	must(w.t, rival.Start())
	found := map[string]bool{}
	w.run(n, func(i int) ([]byte, error) {
		replaced, kept, err := attempt(i)
		for _, k := range kept {
			found[k] = true
		}
		if err == nil {
			found[replaced] = true
			if strings.HasPrefix(replaced, rivalText) {
				w.between++
			}
		}
		return []byte(insideText), err
	}, true)
	must(w.t, in.Close())
	must(w.t, rival.Wait())
	now, err := os.ReadFile(w.path("ws/d/f"))
	must(w.t, err)
	found[string(now)] = true
	var wrote []string
	for line := range strings.Lines(out.String()) {
		mine, replaced, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " over ")
		wrote, found[replaced] = append(wrote, mine), true
	}
	w.theirs += len(wrote)
	for _, v := range wrote {
		if !found[v] {
			w.lost++
			w.gone = append(w.gone, v)[:min(len(w.gone)+1, 5)]
		}
	}
}

func (w *window) told(what string) {
	w.t.Helper()
	w.race.told(what)
	w.t.Logf("of which %d over a foreign version; %d foreign writes, %d lost", w.between, w.theirs, w.lost)
}

// told prints the counts; make security adds those of each race.
func (r *race) told(what string) {
	r.t.Helper()
	r.t.Logf("%s: %d attempts, %d inside, %d refused, %d escapes; %d exchanges", what, r.attempts, r.inside, r.refused, r.escapes, r.swaps)
}

// guarded looks, stages, holds and applies; it gives what the change took the place of and
// what lies in the store besides.
func (w *window) guarded(i int) (replaced string, kept []string, err error) {
	n, err := w.root.Look(ctx(), "d/f", true)
	if err != nil {
		return "", nil, err
	}
	defer n.Close()
	old, err := n.Read(1 << 10)
	if err != nil {
		return "", nil, err
	}
	if !strings.HasPrefix(string(old), insideText) && !strings.HasPrefix(string(old), rivalText) {
		w.escapes++ // it read what lies outside
	}
	text := fmt.Sprint(insideText, " ", w.attempts)
	s, err := w.st.Stage(ctx(), "s1", strings.NewReader(text), Meta{Like: n})
	must(w.t, err)
	_, _, err = w.do(HoldOptions{}, op.Step{Do: op.Swap, Path: "d/f", Slot: "s1", Before: op.State{Kind: op.File, Hash: HashBytes(old)}, After: s.State, Inode: s.Inode})
	slots, listErr := w.st.Slots()
	must(w.t, listErr)
	for _, s := range slots {
		b, readErr := os.ReadFile(w.path("store/" + s))
		must(w.t, readErr)
		if err != nil { // of a change that landed this is what it says that it replaced, or a loss
			kept = append(kept, string(b))
		}
		must(w.t, w.st.Drop(s))
	}
	return string(old), kept, err
}

// naive asks where the path leads and compares what it read, and then renames over it.
func (w *window) naive(i int) (replaced string, kept []string, err error) {
	name := filepath.Join(w.ws, "d/f")
	real, err := filepath.EvalSymlinks(name)
	if err != nil || !strings.HasPrefix(real, w.ws+"/") {
		return "", nil, fmt.Errorf("it leads out: %w", err)
	}
	old, err := os.ReadFile(name)
	must(w.t, os.WriteFile(w.path("new"), fmt.Append(nil, insideText, " ", w.attempts), 0o644))
	now, again := os.ReadFile(name)
	if err != nil || again != nil || string(now) != string(old) {
		return "", nil, stale("d/f", "it changed")
	}
	return string(old), nil, os.Rename(w.path("new"), name)
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
