//go:build linux

package rooted

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

type crash struct{}

// crashAt applies steps and stops dead at the nth guard point, as a kill does: nothing is
// taken back. It reports whether it got there, the steps as recorded, and the answer.
func (b *bench) crashAt(n int, steps []op.Step, disturb func(point string)) (rec []op.Step, crashed bool, point string, err error) {
	b.t.Helper()
	seen := 0
	h, err := b.root.Hold(ctx(), b.st, steps, HoldOptions{Guard: func(p string) {
		if disturb != nil {
			disturb(p)
		}
		if seen++; seen == n && p != "held" {
			point = p
			panic(crash{})
		}
	}})
	must(b.t, err)
	defer h.Close()
	defer func() {
		if r := recover(); r != nil {
			if _, ours := r.(crash); !ours {
				panic(r)
			}
			crashed = true
		}
	}()
	rec = h.Steps()
	c := b.within
	if c == nil {
		c = ctx()
	}
	_, err = h.Apply(c)
	return rec, false, "", err
}

// again opens root and store anew, as after a restart.
func (b *bench) again() *bench {
	b.t.Helper()
	return benchIn(b.t, b.top, Options{})
}

func (b *bench) settle(steps []op.Step) Settled {
	b.t.Helper()
	s, err := b.root.Settle(ctx(), b.st, steps)
	must(b.t, err)
	return s
}

// A crash at every point, on the way there and on the way back, leaves all or nothing
// after Settle, and a second Settle changes nothing.
func TestSettleAfterCrash(t *testing.T) {
	for _, failing := range []bool{false, true} {
		for n := 2; ; n++ {
			b, steps := plan(t, fastDir(t), Options{})
			if failing {
				b.write("ws/last", "old")
				steps = append(steps, b.swap("last", "new", "s-last"))
			}
			start := b.tree()
			rec, crashed, point, err := b.crashAt(n, steps, func(p string) {
				if failing && p == "before rmdir" { // by a rename, which no lease makes wait
					b.write("ws/tmp", "foreign")
					must(t, os.Rename(b.path("ws/tmp"), b.path("ws/last")))
				}
			})
			if !crashed {
				if failing {
					wants(t, err, op.Stale)
				} else {
					must(t, err)
				}
				break
			}
			t.Run(fmt.Sprintf("failing=%v point %d %s", failing, n, point), func(t *testing.T) {
				a := b.again()
				a.t = t
				got := a.settle(rec)
				tree := strings.Replace(a.tree(), `"foreign"`, `"old"`, 1)
				if !got.Done && tree != start {
					t.Errorf("settled %+v:\n%s\nwant\n%s", got, tree, start)
				}
				if got.Done && (failing || tree == start || !strings.Contains(tree, "new f") || len(got.Conflicts) > 0) {
					t.Errorf("settled %+v:\n%s", got, tree)
				}
				if second := a.settle(rec); second.Done != got.Done || !slices.Equal(second.Left, got.Left) || len(second.Conflicts) > 0 {
					t.Errorf("a second time: %+v, first %+v", second, got)
				}
				for _, slot := range got.Left {
					must(t, a.st.Drop(slot))
				}
				if slots, _ := a.st.Slots(); !got.Done && len(slots) > 0 {
					t.Errorf("left in the store: %v", slots)
				}
			})
		}
	}
}

func TestSettleUndo(t *testing.T) {
	b := newBench(t, Options{})
	b.write("ws/f", "old")
	b.write("ws/g", "old")
	done := b.mustDo(b.swap("f", "new", "s1"), b.swap("g", "new", "s2"))
	rec, crashed, _, _ := b.crashAt(4, op.Inverse(done), nil) // after the first swap of the undo
	if !crashed {
		t.Fatal("no crash")
	}
	got := b.again().settle(rec)
	if got.Done || !slices.Equal(got.Left, []string{"s2", "s1"}) {
		t.Errorf("settled %+v", got)
	}
	b.reads("ws/f", "new")
	b.reads("ws/g", "new")
	b.reads("store/s1", "old") // the pre-images stay, for another undo
	b.reads("store/s2", "old")
}

// What each of the states that a crash can leave is taken for.
func TestSettleStates(t *testing.T) {
	type row struct {
		name      string
		make      func(b *bench) []op.Step
		done      bool
		conflicts int
		file      string // of ws/f afterwards
		slot      string // of store/s1 afterwards
		left      []string
	}
	swapped := func(b *bench) []op.Step {
		b.write("ws/f", "old")
		return b.mustDo(b.swap("f", "new", "s1"))
	}
	recorded := func(b *bench) []op.Step {
		b.write("ws/f", "old")
		return []op.Step{b.swap("f", "new", "s1")}
	}
	over := func(b *bench, name, content string) {
		b.write("ws/tmp", content)
		must(b.t, os.Rename(b.path("ws/tmp"), b.path(name)))
	}
	exchange := func(b *bench) {
		must(b.t, unix.Renameat2(unix.AT_FDCWD, b.path("ws/f"), unix.AT_FDCWD, b.path("store/s1"), unix.RENAME_EXCHANGE))
	}
	rows := []row{
		{name: "swap happened", make: swapped, done: true, file: "new", slot: "old"},
		{name: "swap did not happen", make: recorded, file: "old", slot: "new", left: []string{"s1"}},
		{name: "swap did not happen and others wrote", make: func(b *bench) []op.Step {
			s := recorded(b)
			b.write("ws/f", "foreign")
			return s
		}, file: "foreign", slot: "new", left: []string{"s1"}},
		{name: "swap happened and others replaced it", make: func(b *bench) []op.Step {
			s := swapped(b)
			over(b, "ws/f", "foreign")
			return s
		}, done: true, conflicts: 1, file: "foreign", slot: "old"},
		{name: "swap happened and others put the old bytes back", make: func(b *bench) []op.Step {
			s := swapped(b)
			over(b, "ws/f", "old")
			return s
		}, done: true, conflicts: 1, file: "old", slot: "old"},
		{name: "swap happened and others wrote into it", make: func(b *bench) []op.Step {
			s := swapped(b)
			b.write("ws/f", "foreign")
			return s
		}, done: true, conflicts: 1, file: "foreign", slot: "old"},
		{name: "swap happened and others removed it", make: func(b *bench) []op.Step {
			s := swapped(b)
			must(b.t, os.Remove(b.path("ws/f")))
			return s
		}, done: true, conflicts: 1, file: "<absent>", slot: "old"},
		{name: "swap brought a foreign version out", make: func(b *bench) []op.Step {
			s := recorded(b)
			over(b, "ws/f", "foreign")
			exchange(b)
			return s
		}, conflicts: 1, file: "foreign", slot: "new", left: []string{"s1"}},
		{name: "swap brought a foreign version out and others replaced ours", make: func(b *bench) []op.Step {
			s := recorded(b)
			over(b, "ws/f", "foreign")
			exchange(b)
			over(b, "ws/f", "newest")
			return s
		}, conflicts: 1, file: "newest", slot: "<absent>"},
		{name: "swap stands torn", make: func(b *bench) []op.Step {
			s := swapped(b)
			must(b.t, os.Truncate(b.path("ws/f"), 0))
			return s
		}, conflicts: 1, file: "old", slot: "", left: []string{"s1"}},
		{name: "the pre-image is gone", make: func(b *bench) []op.Step {
			s := swapped(b)
			must(b.t, b.st.Drop("s1"))
			return s
		}, done: true, conflicts: 1, file: "new", slot: "<absent>"},
		{name: "what was staged is gone", make: func(b *bench) []op.Step {
			s := recorded(b)
			must(b.t, b.st.Drop("s1"))
			return s
		}, file: "old", slot: "<absent>"},
		{name: "what was staged never got to the disk and others changed the file since", make: func(b *bench) []op.Step {
			s := recorded(b)
			must(b.t, b.st.Drop("s1"))
			b.write("ws/f", "foreign")
			return s
		}, file: "foreign", slot: "<absent>"},
		{name: "what was staged got to the disk torn", make: func(b *bench) []op.Step {
			s := recorded(b)
			must(b.t, os.Truncate(b.path("store/s1"), 0))
			return s
		}, file: "old", slot: "", left: []string{"s1"}},

		{name: "place happened", make: func(b *bench) []op.Step { return b.mustDo(b.place("f", "new", "s1")) }, done: true, file: "new", slot: "<absent>"},
		{name: "place did not happen", make: func(b *bench) []op.Step { return []op.Step{b.place("f", "new", "s1")} }, file: "<absent>", slot: "new", left: []string{"s1"}},
		{name: "place happened and others removed it", make: func(b *bench) []op.Step {
			s := b.mustDo(b.place("f", "new", "s1"))
			must(b.t, os.Remove(b.path("ws/f")))
			return s
		}, done: true, conflicts: 1, file: "<absent>", slot: "<absent>"},
		{name: "take happened", make: func(b *bench) []op.Step {
			b.write("ws/f", "old")
			return b.mustDo(b.take("f", "s1"))
		}, done: true, file: "<absent>", slot: "old"},
		{name: "take did not happen", make: func(b *bench) []op.Step {
			b.write("ws/f", "old")
			return []op.Step{b.take("f", "s1")}
		}, file: "old", slot: "<absent>"},
		{name: "take took a foreign version", make: func(b *bench) []op.Step {
			b.write("ws/f", "old")
			s := b.take("f", "s1")
			over(b, "ws/f", "foreign")
			must(b.t, os.Rename(b.path("ws/f"), b.path("store/s1")))
			return []op.Step{s}
		}, conflicts: 1, file: "foreign", slot: "<absent>"},
		{name: "take happened and others made a new file", make: func(b *bench) []op.Step {
			b.write("ws/f", "old")
			s := b.mustDo(b.take("f", "s1"))
			b.write("ws/f", "foreign")
			return s
		}, done: true, file: "foreign", slot: "old"},
		{name: "take happened, the next step did not, and others made a new file", make: func(b *bench) []op.Step {
			b.write("ws/f", "old")
			s := b.mustDo(b.take("f", "s1"))
			b.write("ws/f", "foreign")
			return append(s, mkdirStep("never"))
		}, conflicts: 1, file: "foreign", slot: "<absent>"},
		{name: "move happened", make: func(b *bench) []op.Step {
			b.write("ws/g", "old")
			return b.mustDo(b.move("g", "f"))
		}, done: true, file: "old", slot: "<absent>"},
		{name: "move happened and others wrote", make: func(b *bench) []op.Step {
			b.write("ws/g", "old")
			s := b.mustDo(b.move("g", "f"))
			b.write("ws/f", "foreign")
			return s
		}, done: true, conflicts: 1, file: "foreign", slot: "<absent>"},
		{name: "move did not happen", make: func(b *bench) []op.Step {
			b.write("ws/f", "old")
			return []op.Step{b.move("f", "g")}
		}, file: "old", slot: "<absent>"},
		{name: "move without an inode on record", make: func(b *bench) []op.Step {
			b.write("ws/g", "old")
			s := b.mustDo(b.move("g", "f"))
			s[0].Inode = 0
			return s
		}, done: true, file: "old", slot: "<absent>"},
		{name: "an earlier step stands and a later one does not", make: func(b *bench) []op.Step {
			s := swapped(b)
			return append(s, b.place("g", "new", "s2"))
		}, file: "old", slot: "new", left: []string{"s1", "s2"}},
		{name: "an earlier step was overtaken and a later one does not stand", make: func(b *bench) []op.Step {
			s := swapped(b)
			over(b, "ws/f", "foreign")
			return append(s, b.place("g", "new", "s2"))
		}, conflicts: 1, file: "foreign", slot: "old", left: []string{"s2"}},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			b := newBench(t, Options{})
			steps := r.make(b)
			before := fds(t)
			got := b.settle(steps)
			if after := fds(t); after != before {
				t.Errorf("handles: %d before, %d after", before, after)
			}
			if got.Done != r.done || len(got.Conflicts) != r.conflicts || !slices.Equal(got.Left, r.left) {
				t.Errorf("got %+v", got)
			}
			b.reads("ws/f", r.file)
			b.reads("store/s1", r.slot)
			again := b.settle(steps)
			if again.Done != got.Done {
				t.Errorf("a second time: %+v", again)
			}
			b.reads("ws/f", r.file)
		})
	}
}
