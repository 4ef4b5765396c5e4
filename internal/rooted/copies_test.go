//go:build linux

package rooted

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// What holds of a store that renames reach holds of one of copies: the same tests, run on it.
func TestCopiesDoTheSame(t *testing.T) {
	t.Setenv(asCopies, "1")
	for name, test := range map[string]func(*testing.T){
		"steps on steps": TestStepsOnSteps, "random lists": TestRandomLists, "a crash at each point": TestSettleAfterCrash,
		"a crash at each point of steps on steps": TestSettleStepsOnSteps,
	} {
		t.Run(name, test)
	}
	for _, manner := range manners {
		t.Run("lease, "+manner, func(t *testing.T) {
			c := runCell(t, manner, "lease", count(t, "HOLDPOINT_HOSTILE_N", 150))
			t.Logf("%d rounds: landed %d, refused %d, diverted %d, lost %d", c.Rounds, c.Landed, c.Refused, c.Diverted, c.Lost)
			if c.Bad != "" {
				t.Fatal(c.Bad)
			}
			checkCell(t, c)
		})
	}
}

// apartBench has its store on a mount of its own, of a size in KiB; 0 is enough for all.
func apartBench(t *testing.T, size int) *bench {
	t.Helper()
	rootOnly(t)
	top := t.TempDir()
	b := &bench{t: t, top: top, ws: filepath.Join(top, "ws")}
	options := "mode=0755"
	if size > 0 {
		options += fmt.Sprintf(",size=%dk", size)
	}
	must(t, os.MkdirAll(b.ws, 0o755))
	must(t, os.Mkdir(b.path("far"), 0o755))
	must(t, unix.Mount("none", b.path("far"), "tmpfs", 0, options))
	t.Cleanup(func() { must(t, unix.Unmount(b.path("far"), unix.MNT_DETACH)) })
	b.reopen()
	t.Cleanup(func() { _ = b.st.Close(); _ = b.root.Close() })
	return b
}

func (b *bench) reopen() {
	b.t.Helper()
	var err error
	b.root, err = Open(b.ws, Options{})
	must(b.t, err)
	_, err = OpenStore(b.path("far/none"), b.root)
	wants(b.t, err, op.CrossDevice)
	if _, err := os.Lstat(b.path("far/none")); !os.IsNotExist(err) {
		b.t.Errorf("a folder that is of no use was left: %v", err)
	}
	b.st, err = OpenCopies(b.path("far/store"), b.root)
	must(b.t, err)
}

// farSlots lists what the store and the root's own folder hold.
func (b *bench) farSlots() string {
	b.t.Helper()
	slots, err := b.st.Slots()
	must(b.t, err)
	if _, err := os.Lstat(b.path("ws/" + nearTop)); !os.IsNotExist(err) {
		slots = append(slots, nearTop)
	}
	return strings.Join(slots, " ")
}

func TestCopies(t *testing.T) {
	t.Run("D66 (part) a directory goes by a whole copy and comes back as it was", func(t *testing.T) {
		b := apartBench(t, 0)
		b.write("ws/d/sub/a", "one")
		b.write("ws/d/b", strings.Repeat("b", 300_000))
		must(t, os.Link(b.path("ws/d/b"), b.path("ws/d/sub/same")))
		b.link("../../elsewhere", "ws/d/sub/link")
		must(t, unix.Mkfifo(b.path("ws/d/fifo"), 0o640))
		must(t, unix.Setxattr(b.path("ws/d/sub/a"), "user.mark", []byte("x"), 0))
		must(t, unix.Setxattr(b.path("ws/d/sub"), "user.dir", []byte("y"), 0))
		must(t, os.Lchown(b.path("ws/d/sub/a"), 1234, 2345))
		must(t, os.Chmod(b.path("ws/d/sub"), 0o2710))
		old := time.Unix(1_500_000_000, 123_456_789)
		for _, p := range []string{"ws/d/sub/a", "ws/d/sub", "ws/d"} {
			must(t, os.Chtimes(b.path(p), old, old))
		}
		start := b.tree()
		steps := b.mustDo(b.take("d", "s1"))
		b.reads("ws/d/b", "<absent>")
		if got := b.farSlots(); got != "s1" {
			t.Errorf("the store holds %q", got)
		}
		redo := b.mustDo(op.Inverse(steps)...)
		if got := b.tree(); got != start {
			t.Errorf("got\n%s\nwant\n%s", got, start)
		}
		for _, p := range []string{"ws/d/sub/a", "ws/d/sub", "ws/d"} {
			if i, err := os.Lstat(b.path(p)); err != nil || !i.ModTime().Equal(old) {
				t.Errorf("%s: %v %v", p, i.ModTime(), err)
			}
		}
		var one, two unix.Stat_t
		must(t, errors.Join(unix.Stat(b.path("ws/d/b"), &one), unix.Stat(b.path("ws/d/sub/same"), &two)))
		if one.Ino != two.Ino {
			t.Error("two names of one file are two files")
		}
		if got := b.farSlots(); got != "" {
			t.Errorf("the store still holds %q", got)
		}
		b.mustDo(op.Inverse(redo)...)
		if got := b.farSlots(); got != "s1" {
			t.Errorf("the store holds %q", got)
		}
	})
	t.Run("D66 (part) a copy that fails half way leaves the source and no entry", func(t *testing.T) {
		b := apartBench(t, 1024)
		for i := range 20 {
			b.write(fmt.Sprintf("ws/d/%d", i), strings.Repeat("x", 40<<10))
		}
		b.write("ws/f", "old")
		start := b.tree()
		// The room goes after it was asked for.
		h, err := b.root.Hold(ctx(), b.st, []op.Step{b.take("d", "s1")}, HoldOptions{Guard: func(p string) {
			if p == "before carry" {
				must(t, os.WriteFile(b.path("far/ballast"), make([]byte, 600<<10), 0o600))
			}
		}})
		must(t, err)
		_, err = h.Apply(ctx())
		h.Close()
		wants(t, err, op.NoSpace)
		if got := b.tree(); got != start {
			t.Errorf("got\n%s\nwant\n%s", got, start)
		}
		if got := b.farSlots(); got != "" {
			t.Errorf("left %q", got)
		}
		// And where it can be known before, nothing is touched at all.
		_, err = b.root.Hold(ctx(), b.st, []op.Step{b.take("d", "s1")}, HoldOptions{Guard: func(p string) { t.Errorf("came to %s", p) }})
		wants(t, err, op.NoSpace)
		must(t, os.Remove(b.path("far/ballast")))
		b.mustDo(b.take("d", "s1"))
	})
	t.Run("a swap keeps a copy, and an undo brings it with its times and attributes", func(t *testing.T) {
		b := apartBench(t, 0)
		b.write("ws/f", "old")
		must(t, unix.Setxattr(b.path("ws/f"), "user.mark", []byte("x"), 0))
		old := time.Unix(1_500_000_000, 0)
		must(t, os.Chtimes(b.path("ws/f"), old, old))
		start := b.tree()
		leave, err := b.st.Enter()
		must(t, err)
		staging := &bench{t: t, top: b.top, ws: b.ws, root: b.root, st: b.st.Staging()}
		step := staging.swap("f", "new", "s1")
		steps := b.mustDo(step)
		leave()
		b.reads("far/store/s1", "old")
		b.reads("ws/f", "new")
		redo := b.mustDo(op.Inverse(steps)...)
		if got := b.tree(); got != start {
			t.Errorf("got\n%s\nwant\n%s", got, start)
		}
		if i, err := os.Stat(b.path("ws/f")); err != nil || !i.ModTime().Equal(old) {
			t.Errorf("%v %v", i.ModTime(), err)
		}
		b.reads("far/store/s1", "new")
		b.mustDo(op.Inverse(redo)...)
		b.reads("ws/f", "new")
		b.reads("far/store/s1", "old")
		if got := b.farSlots(); got != "s1" {
			t.Errorf("the store holds %q", got)
		}
	})
	t.Run("what a crash left in the root is moved on or dropped", func(t *testing.T) {
		b := apartBench(t, 0)
		b.write("far/store/s1", "older")
		for name, content := range map[string]string{"s1": "newer", "s1.in": "half", "s2": "staged", "s2.kept0": "foreign"} {
			b.write("ws/.holdpoint/near/"+name, content)
		}
		must(t, os.Chmod(b.path("ws/.holdpoint/near"), 0o700))
		must(t, b.st.Reclaim(ctx(), func(slot string) bool { return slot == "s1" }))
		b.reads("far/store/s1", "newer")
		b.reads("far/store/s2.kept0", "foreign")
		if got := b.farSlots(); got != "s1 s2.kept0" {
			t.Errorf("the store holds %q", got)
		}
	})
	t.Run("what a program has open for writing stays, below a directory too", func(t *testing.T) {
		b := apartBench(t, 0)
		b.write("ws/d/log", "line")
		b.write("ws/f", "old")
		start := b.tree()
		f, err := os.OpenFile(b.path("ws/d/log"), os.O_WRONLY|os.O_APPEND, 0)
		must(t, err)
		defer f.Close()
		_, _, err = b.do(HoldOptions{}, b.take("d", "s1"))
		wants(t, err, op.BusyWriter)
		_, _, err = b.do(HoldOptions{NoLease: true}, b.take("f", "s2"))
		wants(t, err, op.NotAvailable)
		if got := b.tree(); got != start {
			t.Errorf("got\n%s\nwant\n%s", got, start)
		}
		if got := b.farSlots(); got != "" {
			t.Errorf("left %q", got)
		}
	})
	t.Run("a link in the place of the root's folder is refused", func(t *testing.T) {
		b := apartBench(t, 0)
		b.link("../far", "ws/.holdpoint")
		_, err := b.st.Enter()
		wants(t, err, op.StateUnsafe)
	})
}
