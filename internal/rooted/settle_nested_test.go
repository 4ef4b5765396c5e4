//go:build linux

package rooted

import (
	"fmt"
	"testing"

	"holdpoint/op"
)

// nested gives steps that stand on one another as those of a batch do: a directory moves
// and is changed inside, gives things up, and names are used again.
func nested(t *testing.T) (*bench, []op.Step) {
	b := newBench(t, Options{})
	for _, f := range []string{"d/x", "d/y", "d/s/z", "e/q", "e/r", "a"} {
		b.write("ws/"+f, "old "+f)
	}
	at := func(s op.Step, p op.Path) op.Step { s.Path = p; return s }
	known := func(s op.Step, now op.Path) op.Step {
		n := b.look(now, false)
		s.Inode = n.Info.Ino
		return s
	}
	e := b.look("e", false)
	m, err := e.ManifestWithout(ctx(), func(below string) bool { return below == "q" })
	must(t, err)
	takeE := known(b.take("e", "s-e"), "e")
	takeE.Before.Hash, takeE.Before.Size = m.Digest, m.Bytes
	return b, []op.Step{
		known(b.move("d", "f"), "d"),
		at(b.swap("d/x", "new x", "s-x"), "f/x"),
		at(known(b.move("d/y", "y"), "d/y"), "f/y"),
		at(known(b.take("d/s", "s-s"), "d/s"), "f/s"),
		known(b.move("e/q", "q"), "e/q"),
		takeE,
		b.place("e", "now a file", "s-new"),
		b.swap("a", "new a", "s-a"),
	}
}

// A crash at every point of steps that stand on one another, and of taking them back,
// leaves all or nothing.
func TestSettleNested(t *testing.T) {
	for _, undo := range []bool{false, true} {
		for _, failing := range []bool{false, true} {
			whole := false
			for n := 2; !whole; n++ {
				b, steps := nested(t)
				if undo {
					steps = op.Inverse(b.mustDo(steps...))
					for i, s := range steps {
						if s.Do == op.Swap || s.Do == op.Place {
							var err error
							steps[i].Inode, err = b.st.Inode(s.Slot)
							must(t, err)
						}
						if s.Do == op.Take || s.Do == op.Move {
							if n, err := b.root.Look(ctx(), s.Path, false); err == nil {
								steps[i].Inode = n.Info.Ino
								n.Close()
							}
						}
					}
				}
				if failing { // the last step finds another thing than it wants when its turn comes
					last := b.swap("a", "newer", "s-last")
					last.Before.Hash = HashBytes([]byte("something else"))
					steps = append(steps, last)
				}
				start := b.tree()
				before, _ := b.st.Slots()
				rec, crashed, point, err := b.crashAt(n, steps, nil)
				if !crashed {
					whole = true
					if failing {
						wants(t, err, op.Stale)
					} else {
						must(t, err)
					}
					continue
				}
				t.Run(fmt.Sprintf("undo=%v failing=%v point %d %s", undo, failing, n, point), func(t *testing.T) {
					a := b.again()
					a.t = t
					got := a.settle(rec)
					if len(got.Conflicts) > 0 {
						t.Errorf("conflicts %q", got.Conflicts)
					}
					if tree := a.tree(); !got.Done && tree != start || got.Done && (tree == start || failing) {
						t.Errorf("settled %+v:\n%s\nit began with\n%s", got, tree, start)
					}
					if after, _ := a.st.Slots(); !got.Done && len(after) != len(before) {
						t.Errorf("the store held %v and holds %v", before, after)
					}
					if second := a.settle(rec); second.Done != got.Done || len(second.Conflicts) > 0 {
						t.Errorf("a second time: %+v, first %+v", second, got)
					}
				})
			}
		}
	}
}
