//go:build linux

package rooted

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// tree lists names, kinds, modes, link texts and contents below the workspace.
func (b *bench) tree() string {
	b.t.Helper()
	n, err := b.root.Look(ctx(), ".", true)
	must(b.t, err)
	defer n.Close()
	var out strings.Builder
	must(b.t, n.Tree(ctx(), func(p op.Path, i Info, node func() (*Node, error)) error {
		fmt.Fprintf(&out, "%s %s %04o %s ", p, i.Kind, i.Mode, i.Target)
		if i.Kind == op.File {
			c, err := os.ReadFile(b.path("ws/" + string(p)))
			must(b.t, err)
			fmt.Fprintf(&out, "%q", c)
		}
		out.WriteByte('\n')
		return nil
	}))
	return out.String()
}

// plan is a bench with one list of steps of every kind, some standing on earlier ones.
func plan(t *testing.T, dir string, o Options) (*bench, []op.Step) {
	t.Helper()
	b := benchIn(t, dir, o)
	b.write("ws/f", "old f")
	b.write("ws/gone", "old gone")
	b.write("ws/tree/s/x", "x")
	b.write("ws/from", "moved")
	b.link("f", "ws/ln")
	must(t, os.Mkdir(b.path("ws/void"), 0o750))
	link, err := b.st.StageLink("s-link", "../f")
	must(t, err)
	return b, []op.Step{
		b.swap("f", "new f", "s-f"),
		mkdirStep("made"),
		mkdirStep("made/deep"),
		b.place("made/deep/new", "new", "s-new"),
		{Do: op.Place, Path: "made/link", Slot: "s-link", Before: op.State{Kind: op.Absent}, After: link.State, Inode: link.Inode},
		b.take("gone", "s-gone"),
		b.take("tree", "s-tree"),
		b.take("ln", "s-ln"),
		b.move("from", "made/to"),
		{Do: op.RemoveDir, Path: "void", Before: b.state("void"), After: op.State{Kind: op.Absent}},
	}
}

func TestApply(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		b, steps := plan(t, t.TempDir(), o)
		start, before := b.tree(), fds(t)
		done, r, err := b.do(HoldOptions{}, steps...)
		must(t, err)
		if r.Weak || len(r.Kept) > 0 || len(r.Late) > 0 {
			t.Errorf("report %+v", r)
		}
		b.reads("ws/f", "new f")
		b.reads("ws/made/deep/new", "new")
		b.reads("ws/made/to", "moved")
		b.reads("ws/made/link", "new f")
		b.reads("ws/gone", "<absent>")
		b.reads("store/s-f", "old f")
		b.reads("store/s-gone", "old gone")
		b.reads("store/s-tree/s/x", "x")
		end := b.tree()
		if strings.Contains(end, "void") || strings.Contains(end, "tree") || strings.Contains(end, "ln ") {
			t.Errorf("left standing:\n%s", end)
		}
		for _, s := range done {
			if (s.Do == op.Swap || s.Do == op.Take || s.Do == op.Place || s.Do == op.Move) && s.Inode == 0 {
				t.Errorf("%s %s has no inode on record", s.Do, s.Path)
			}
		}
		// Undo gives the start again, redo the end, any number of times.
		for turn := range 3 {
			done = b.mustDo(op.Inverse(done)...)
			if got := b.tree(); got != start {
				t.Fatalf("undo %d:\n%s\nwant\n%s", turn, got, start)
			}
			done = b.mustDo(op.Inverse(done)...)
			if got := b.tree(); got != end {
				t.Fatalf("redo %d:\n%s\nwant\n%s", turn, got, end)
			}
		}
		if after := fds(t); after != before {
			t.Errorf("handles: %d before, %d after", before, after)
		}
	})
}

// What changed after it was looked at is refused, and the refusal changes nothing.
func TestHoldDrift(t *testing.T) {
	rootOnly(t)
	rows := []struct {
		name  string
		drift func(b *bench)
		code  op.Code
	}{
		{"edit", func(b *bench) { b.write("ws/d/f", "foreign") }, op.Stale},
		{"edit of equal size with the old time", func(b *bench) {
			old, _ := os.Stat(b.path("ws/d/f"))
			b.write("ws/d/f", "dlo")
			must(b.t, os.Chtimes(b.path("ws/d/f"), old.ModTime(), old.ModTime()))
		}, op.Stale},
		{"rename over", func(b *bench) {
			b.write("ws/d/t", "foreign")
			must(b.t, os.Rename(b.path("ws/d/t"), b.path("ws/d/f")))
		}, op.Stale},
		{"delete", func(b *bench) { must(b.t, os.Remove(b.path("ws/d/f"))) }, op.Stale},
		{"mode", func(b *bench) { must(b.t, os.Chmod(b.path("ws/d/f"), 0o600)) }, op.Stale},
		{"directory in its place", func(b *bench) {
			must(b.t, os.Remove(b.path("ws/d/f")))
			must(b.t, os.Mkdir(b.path("ws/d/f"), 0o755))
		}, op.Stale},
		{"link in its place", func(b *bench) {
			must(b.t, os.Rename(b.path("ws/d/f"), b.path("ws/d/real")))
			b.link("real", "ws/d/f")
		}, op.Stale},
		{"FIFO in its place", func(b *bench) {
			must(b.t, os.Remove(b.path("ws/d/f")))
			must(b.t, unix.Mkfifo(b.path("ws/d/f"), 0o644))
		}, op.Stale},
		{"parent renamed", func(b *bench) { must(b.t, os.Rename(b.path("ws/d"), b.path("ws/e"))) }, op.Stale},
		{"parent replaced by a link out", func(b *bench) {
			must(b.t, os.Rename(b.path("ws/d"), b.path("ws/e")))
			b.link("../OUT", "ws/d")
			b.write("OUT/f", "old")
		}, op.Stale},
		{"parent replaced by a link in", func(b *bench) {
			must(b.t, os.Rename(b.path("ws/d"), b.path("ws/e")))
			b.link("e", "ws/d")
		}, op.Stale},
		{"parent replaced by a file", func(b *bench) {
			must(b.t, os.Rename(b.path("ws/d"), b.path("ws/e")))
			b.write("ws/d", "old")
		}, op.Stale},
		{"parent below a mount", func(b *bench) {
			must(b.t, unix.Mount(b.path("OUT"), b.path("ws/d"), "", unix.MS_BIND, ""))
			b.t.Cleanup(func() { _ = unix.Unmount(b.path("ws/d"), unix.MNT_DETACH) })
		}, op.CrossesMount},
		{"a mount on the file", func(b *bench) {
			b.write("OUT/f", "old")
			must(b.t, unix.Mount(b.path("OUT/f"), b.path("ws/d/f"), "", unix.MS_BIND, ""))
			b.t.Cleanup(func() { _ = unix.Unmount(b.path("ws/d/f"), unix.MNT_DETACH) })
		}, op.CrossesMount},
		{"another name", func(b *bench) { must(b.t, os.Link(b.path("ws/d/f"), b.path("ws/other"))) }, op.HardLinked},
	}
	both(t, func(t *testing.T, o Options) {
		for _, do := range []op.Act{op.Swap, op.Take, op.Move} {
			for _, r := range rows {
				if r.code == op.HardLinked && do != op.Swap {
					continue // a name that goes away is no matter to the others
				}
				t.Run(string(do)+" after "+r.name, func(t *testing.T) {
					b := newBench(t, o)
					b.write("ws/d/f", "old")
					var step op.Step
					switch do {
					case op.Swap:
						step = b.swap("d/f", "new", "s1")
					case op.Take:
						step = b.take("d/f", "s1")
					default:
						step = b.move("d/f", "g")
					}
					before := fds(t)
					r.drift(b)
					was := ""
					if r.code != op.CrossesMount {
						was = b.tree()
					}
					_, _, err := b.do(HoldOptions{}, step)
					wants(t, err, r.code)
					if r.code != op.CrossesMount && b.tree() != was {
						t.Errorf("it changed something:\n%s\nwas\n%s", b.tree(), was)
					}
					if after := fds(t); after != before {
						t.Errorf("handles: %d before, %d after", before, after)
					}
					if do == op.Swap {
						b.reads("store/s1", "new")
					}
				})
			}
		}
		for _, do := range []op.Act{op.Place, op.Move, op.MakeDir} {
			t.Run(string(do)+" where something came to stand", func(t *testing.T) {
				b := newBench(t, o)
				b.write("ws/src", "old")
				step := mkdirStep("d")
				switch do {
				case op.Place:
					step = b.place("d", "new", "s1")
				case op.Move:
					step = b.move("src", "d")
				}
				b.link("nowhere", "ws/d")
				was := b.tree()
				_, _, err := b.do(HoldOptions{}, step)
				wants(t, err, op.Stale)
				if b.tree() != was {
					t.Errorf("it changed something:\n%s", b.tree())
				}
			})
		}
		t.Run("current hash", func(t *testing.T) {
			b := newBench(t, o)
			b.write("ws/f", "old")
			step := b.swap("f", "new", "s1")
			b.write("ws/f", "foreign")
			_, _, err := b.do(HoldOptions{}, step)
			if e := op.AsError(err); e.CurrentHash != HashBytes([]byte("foreign")) || e.Path != "f" {
				t.Errorf("got %+v", e)
			}
		})
	})
}

func TestHoldRefuses(t *testing.T) {
	b := newBench(t, Options{})
	b.write("ws/f", "old")
	b.write("ws/d/x", "x")
	file, dir := b.state("f"), b.state("d")
	rows := map[string]struct {
		step op.Step
		code op.Code
	}{
		"the root":           {op.Step{Do: op.Take, Path: ".", Slot: "s", Before: dir}, op.InvalidPath},
		"no path":            {op.Step{Do: op.MakeDir}, op.InvalidPath},
		"no slot":            {op.Step{Do: op.Take, Path: "f", Before: file}, op.Internal},
		"a bad slot":         {op.Step{Do: op.Take, Path: "f", Slot: "../x", Before: file}, op.Internal},
		"no hash":            {op.Step{Do: op.Take, Path: "f", Slot: "s", Before: op.State{Kind: op.File}}, op.Internal},
		"swap of a dir":      {op.Step{Do: op.Swap, Path: "d", Slot: "s", Before: dir}, op.Internal},
		"unknown act":        {op.Step{Path: "f"}, op.Internal},
		"move into itself":   {op.Step{Do: op.Move, Path: "d", To: "d/e", Before: dir}, op.IntoItself},
		"move to the root":   {op.Step{Do: op.Move, Path: "d", To: ".", Before: dir}, op.Internal},
		"nothing was stored": {op.Step{Do: op.Place, Path: "n", Slot: "none", Before: op.State{Kind: op.Absent}}, op.StateCorrupt},
	}
	for name, r := range rows {
		t.Run(name, func(t *testing.T) {
			_, _, err := b.do(HoldOptions{}, r.step)
			wants(t, err, r.code)
		})
	}
	t.Run("a pre-image that was written to", func(t *testing.T) {
		done := b.mustDo(b.swap("f", "new", "s1"))
		b.write("store/s1", "late")
		_, _, err := b.do(HoldOptions{}, op.Inverse(done)...)
		wants(t, err, op.StateCorrupt)
		b.reads("ws/f", "new")
		if l, err := b.st.Verify(ctx(), done[0]); err != nil || l == nil || l.Is != HashBytes([]byte("late")) || l.Slot != "s1" {
			t.Errorf("%v %v", l, err)
		}
	})
	t.Run("long names", func(t *testing.T) {
		for _, n := range []int{243, 255} {
			name := op.Path(strings.Repeat("n", n))
			slot := fmt.Sprintf("n%d", n)
			placed := b.mustDo(b.place(name, "a", slot))
			swapped := b.mustDo(b.swap(name, "b", slot+"s"))
			taken := b.mustDo(b.take(name, slot+"t"))
			b.mustDo(op.Inverse(taken)...)
			b.mustDo(op.Inverse(swapped)...)
			b.reads("ws/"+string(name), "a")
			b.mustDo(op.Inverse(placed)...)
		}
	})
}

func TestHardLinks(t *testing.T) {
	b := newBench(t, Options{})
	b.write("OUT/secret", "old")
	must(t, os.Link(b.path("OUT/secret"), b.path("ws/h")))
	step := b.swap("h", "new", "s1")
	_, _, err := b.do(HoldOptions{}, step)
	wants(t, err, op.HardLinked)
	b.reads("ws/h", "old")
	_, _, err = b.do(HoldOptions{BreakLinks: true}, step)
	must(t, err)
	b.reads("ws/h", "new")
	b.reads("OUT/secret", "old")
}

func TestBusyWriter(t *testing.T) {
	b := newBench(t, Options{})
	b.write("ws/f", "old")
	step := b.swap("f", "new", "s1")
	f, err := os.OpenFile(b.path("ws/f"), os.O_RDWR, 0)
	must(t, err)
	began := time.Now()
	_, _, err = b.do(HoldOptions{WaitWriter: 50 * time.Millisecond}, step)
	wants(t, err, op.BusyWriter)
	if waited := time.Since(began); waited < 50*time.Millisecond {
		t.Errorf("waited only %v", waited)
	}
	m, err := unix.Mmap(int(f.Fd()), 0, 3, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err)
	must(t, f.Close())
	_, _, err = b.do(HoldOptions{WaitWriter: time.Millisecond}, step)
	wants(t, err, op.BusyWriter) // a mapping writes as well
	b.reads("ws/f", "old")
	go func() {
		time.Sleep(20 * time.Millisecond)
		_ = unix.Munmap(m)
	}()
	_, r, err := b.do(HoldOptions{WaitWriter: 10 * time.Second}, step)
	if err != nil || r.Weak {
		t.Errorf("%+v %v", r, err)
	}
	b.reads("ws/f", "new")
}

// Without a lease a writer that holds the old file writes into the pre-image: it is found,
// and the copy beside it is what undo needs.
func TestLate(t *testing.T) {
	b := newBench(t, Options{})
	b.write("ws/f", "old")
	must(t, unix.Setxattr(b.path("ws/f"), "user.k", []byte("v"), 0))
	f, err := os.OpenFile(b.path("ws/f"), os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	h, err := b.root.Hold(ctx(), b.st, []op.Step{b.swap("f", "new", "s1")}, HoldOptions{NoLease: true})
	must(t, err)
	r, err := h.Apply(ctx())
	if err != nil || !r.Weak {
		t.Errorf("%+v %v", r, err)
	}
	if l := h.Late(ctx()); len(l) > 0 {
		t.Errorf("early: %v", l)
	}
	_, _ = f.WriteAt([]byte("late"), 0)
	steps := h.Steps()
	want := Late{Path: "f", Was: HashBytes([]byte("old")), Is: HashBytes([]byte("late")), Slot: "s1"}
	if l := h.Late(ctx()); !slices.Equal(l, []Late{want}) {
		t.Errorf("got %v", l)
	}
	h.Close()
	if l, err := b.st.Verify(ctx(), steps[0]); err != nil || l == nil || *l != want {
		t.Errorf("got %v %v", l, err)
	}
	if steps[0].Copy != "s1.pre" {
		t.Errorf("copy %q", steps[0].Copy)
	}
	b.reads("ws/f", "new")
	b.reads("store/s1.pre", "old")
	if _, a := meta(t, b.path("store/s1.pre")); a["user.k"] != "v" {
		t.Error("the copy lost an attribute")
	}
	// A way back from the copy.
	n, err := b.st.Node(steps[0].Copy)
	must(t, err)
	defer n.Close()
	s, err := b.st.StageCopy(ctx(), "s2", n, Meta{Like: n})
	must(t, err)
	b.mustDo(op.Step{Do: op.Swap, Path: "f", Slot: "s2", Before: b.state("f"), After: s.State, Inode: s.Inode})
	b.reads("ws/f", "old")
}

// Undo and redo without leases keep their copies apart.
func TestWeakUndo(t *testing.T) {
	b := newBench(t, Options{})
	b.write("ws/f", "old")
	steps, _, err := b.do(HoldOptions{NoLease: true}, b.swap("f", "new", "s1"))
	must(t, err)
	for turn := range 4 {
		if steps, _, err = b.do(HoldOptions{NoLease: true}, op.Inverse(steps)...); err != nil {
			t.Fatal(turn, err)
		}
		s, err := b.st.State(ctx(), steps[0].Copy)
		if err != nil || s.Hash != steps[0].Before.Hash {
			t.Errorf("turn %d: copy %s is %v %v", turn, steps[0].Copy, s, err)
		}
	}
	b.reads("ws/f", "new")
}

// A file that does not read back as it was staged is never reported as written.
func TestReadBack(t *testing.T) {
	b := newBench(t, Options{})
	b.write("ws/f", "old")
	for _, step := range []op.Step{b.swap("f", "new", "s1"), b.place("g", "new", "s2")} {
		step.After.Hash = HashBytes([]byte("what was meant"))
		was := b.tree()
		_, _, err := b.do(HoldOptions{}, step)
		wants(t, err, op.IOError)
		if b.tree() != was {
			t.Errorf("it stands:\n%s", b.tree())
		}
	}
}

func TestRemoveDir(t *testing.T) {
	rootOnly(t)
	b := newBench(t, Options{})
	b.write("ws/full/x", "x")
	b.write("ws/file", "x")
	must(t, os.Mkdir(b.path("ws/void"), 0o755))
	rm := func(p op.Path) op.Step {
		return op.Step{Do: op.RemoveDir, Path: p, Before: op.State{Kind: op.Directory}, After: op.State{Kind: op.Absent}}
	}
	_, r, err := b.do(HoldOptions{}, rm("full"), rm("file"), rm("void"), rm("none"), rm("none/below"))
	must(t, err)
	if want := []op.Path{"full", "file", "none", "none/below"}; !slices.Equal(r.Kept, want) {
		t.Errorf("kept %v", r.Kept)
	}
	b.reads("ws/full/x", "x")
	if _, err := os.Stat(b.path("ws/void")); !os.IsNotExist(err) {
		t.Error("the empty one stays")
	}
	// Taken back as it was, with owner, mode and ACL.
	must(t, os.Mkdir(b.path("ws/v"), 0o755))
	must(t, unix.Setxattr(b.path("ws/v"), aclDefault, userEntry(), 0))
	must(t, os.Chown(b.path("ws/v"), 1000, 1001))
	must(t, unix.Chmod(b.path("ws/v"), 0o2750))
	_, _, err = b.do(HoldOptions{Guard: func(p string) {
		if p == "after rmdir" {
			b.write("ws/n", "foreign")
		}
	}}, rm("v"), b.place("n", "new", "s1"))
	wants(t, err, op.Stale)
	i, a := meta(t, b.path("ws/v"))
	if i.Mode != 0o2750 || i.UID != 1000 || i.GID != 1001 || a[aclDefault] == "" {
		t.Errorf("came back as %04o %d:%d %v", i.Mode, i.UID, i.GID, a)
	}
}

func TestMakeDirMode(t *testing.T) {
	defer unix.Umask(unix.Umask(0o027))
	b := newBench(t, Options{})
	exact := mkdirStep("exact")
	exact.After.Mode = "2775"
	b.mustDo(mkdirStep("plain"), exact)
	for name, want := range map[string]string{"plain": "0750", "exact": "2775"} {
		if got := b.state(op.Path(name)).Mode; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestLocks(t *testing.T) {
	b := newBench(t, Options{})
	b.write("ws/d/f", "old")
	b.write("ws/d/g", "old")
	b.write("ws/e", "old")
	hold := func(steps ...op.Step) (*Held, error) {
		c, cancel := context.WithTimeout(ctx(), 30*time.Millisecond)
		defer cancel()
		return b.root.Hold(c, b.st, steps, HoldOptions{})
	}
	first, err := hold(b.swap("d/f", "new", "s1"))
	must(t, err)
	_, err = hold(b.take("d/f", "s2"))
	wants(t, err, op.BusyWriter)
	_, err = hold(b.take("d", "s2"))
	wants(t, err, op.BusyWriter)
	_, err = hold(b.move("d", "x"))
	wants(t, err, op.BusyWriter)
	_, err = hold(b.move("e", "d/f"))
	wants(t, err, op.BusyWriter)
	sibling, err := hold(b.take("d/g", "s3"))
	must(t, err)
	sibling.Close()
	c, cancel := context.WithCancel(ctx())
	cancel()
	_, err = b.root.Hold(c, b.st, []op.Step{b.take("d", "s2")}, HoldOptions{})
	wants(t, err, op.Cancelled)

	// Who waits gets in when the first lets go, and finds the world as that left it.
	step := b.take("d", "s2")
	done := make(chan error)
	go func() {
		h, err := b.root.Hold(ctx(), b.st, []op.Step{step}, HoldOptions{})
		if err == nil {
			h.Close()
		}
		done <- err
	}()
	time.Sleep(5 * time.Millisecond)
	if _, err = first.Apply(ctx()); err != nil {
		t.Error(err)
	}
	first.Close()
	wants(t, <-done, op.Stale)
	again, err := hold(b.take("d", "s2"))
	must(t, err)
	_, err = hold(b.take("d/g", "s3"))
	wants(t, err, op.BusyWriter) // below what is taken
	again.Close()
}

// Nobody is ever in with somebody that conflicts, and everybody gets in.
func TestLocksExclude(t *testing.T) {
	var l locks
	paths := []op.Path{"a", "a/b", "a/b/c", "d", "d/e"}
	var in [5]atomic.Int32
	done := make(chan int)
	for w := range 8 {
		go func() {
			turns := 0
			for i := range 300 {
				k := (i*7 + w*3) % len(paths)
				deep := (i+w)%3 == 0
				unlock, err := l.lock(ctx(), []claim{{paths[k], deep}})
				if err != nil {
					break
				}
				in[k].Add(1)
				for o, p := range paths {
					if n := in[o].Load(); o == k && n != 1 || deep && o != k && p.Within(paths[k]) && n != 0 {
						turns = -1 << 20
					}
				}
				in[k].Add(-1)
				unlock()
				turns++
			}
			done <- turns
		}()
	}
	for range 8 {
		if turns := <-done; turns != 300 {
			t.Errorf("%d turns", turns)
		}
	}
	if len(l.queue) != 0 {
		t.Errorf("%d left in the queue", len(l.queue))
	}
}

func TestCancelApply(t *testing.T) {
	b, steps := plan(t, fastDir(t), Options{})
	start := b.tree()
	for i := range steps {
		c, cancel := context.WithCancel(ctx())
		seen := 0
		h, err := b.root.Hold(ctx(), b.st, steps, HoldOptions{Guard: func(p string) {
			if strings.HasPrefix(p, "after ") {
				if seen++; seen == i+1 {
					cancel()
				}
			}
		}})
		must(t, err)
		_, err = h.Apply(c)
		h.Close()
		cancel()
		if i == len(steps)-1 { // all stood already
			if err == nil {
				return
			}
		}
		wants(t, err, op.Cancelled)
		if got := b.tree(); got != start {
			t.Fatalf("cancelled after step %d:\n%s\nwant\n%s", i, got, start)
		}
	}
}

// A directory on the way that came to stand is left out; whatever else stands there, and a
// directory that was meant itself, is drift.
func TestOnTheWay(t *testing.T) {
	b := newBench(t, Options{})
	way := HoldOptions{OnTheWay: []op.Path{"a", "a/b"}}
	steps := func(n string) []op.Step {
		return []op.Step{mkdirStep("a"), mkdirStep("a/b"), b.place(op.Path("a/b/"+n), n, "s"+n)}
	}
	must(t, os.Mkdir(b.path("ws/a"), 0o755))
	_, _, err := b.do(HoldOptions{}, steps("1")...)
	wants(t, err, op.Stale)
	done, _, err := b.do(way, steps("2")...)
	must(t, err)
	if len(done) != 2 || done[0].Path != "a/b" {
		t.Errorf("did %v", done)
	}
	more, _, err := b.do(way, steps("3")...)
	must(t, err)
	b.reads("ws/a/b/3", "3")
	_, r, err := b.do(HoldOptions{}, op.Inverse(done)...)
	must(t, err)
	if !slices.Equal(r.Kept, []op.Path{"a/b"}) {
		t.Errorf("kept %v", r.Kept)
	}
	b.mustDo(op.Inverse(more)...)
	// Where an earlier step takes it away it is made again, though it stands now.
	b.write("ws/a/b/4", "4")
	_, _, err = b.do(way, append([]op.Step{b.take("a/b", "s-taken")}, steps("5")[1:]...)...)
	must(t, err)
	b.reads("ws/a/b/5", "5")
	b.reads("ws/a/b/4", "<absent>")
	must(t, os.RemoveAll(b.path("ws/a/b")))
	must(t, os.Mkdir(b.path("ws/a/b"), 0o755))
	must(t, os.Remove(b.path("ws/a/b")))
	b.link("..", "ws/a/b")
	was := b.tree()
	_, _, err = b.do(way, steps("6")...)
	wants(t, err, op.Stale)
	if b.tree() != was {
		t.Errorf("it stands:\n%s", b.tree())
	}
}
