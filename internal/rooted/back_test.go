//go:build linux

package rooted

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"holdpoint/op"
)

// What others did to our things before those are taken back stays as they made it.
func TestTakingBackLeavesTheirs(t *testing.T) {
	fails := func(b *bench) op.Step { return b.place("last", "x", "s-last") }
	rows := []struct {
		name   string
		first  func(b *bench) op.Step
		meddle func(b *bench)
		check  func(b *bench)
		hint   string
	}{
		{"a placed file was replaced", func(b *bench) op.Step { return b.place("p", "new", "s1") }, func(b *bench) {
			b.write("ws/tmp", "theirs")
			must(b.t, os.Rename(b.path("ws/tmp"), b.path("ws/p")))
		}, func(b *bench) { b.reads("ws/p", "theirs") }, ""},
		{"a placed file was removed", func(b *bench) op.Step { return b.place("p", "new", "s1") }, func(b *bench) {
			must(b.t, os.Remove(b.path("ws/p")))
		}, func(b *bench) { b.reads("ws/p", "<absent>") }, "already removed"},
		{"a swapped file was replaced", func(b *bench) op.Step { return b.swap("f", "new", "s1") }, func(b *bench) {
			b.write("ws/tmp", "theirs")
			must(b.t, os.Rename(b.path("ws/tmp"), b.path("ws/f")))
		}, func(b *bench) { b.reads("ws/f", "theirs") }, ""},
		{"something was put into a new directory", func(b *bench) op.Step { return mkdirStep("d") }, func(b *bench) {
			b.write("ws/d/theirs", "theirs")
		}, func(b *bench) { b.reads("ws/d/theirs", "theirs") }, "stays"},
		{"a new directory was replaced", func(b *bench) op.Step { return mkdirStep("d") }, func(b *bench) {
			must(b.t, os.Rename(b.path("ws/d"), b.path("ws/e")))
			must(b.t, os.Mkdir(b.path("ws/d"), 0o755))
		}, func(b *bench) {
			if _, err := os.Stat(b.path("ws/d")); err != nil {
				b.t.Error("their directory is gone")
			}
		}, ""},
		{"a moved file was replaced", func(b *bench) op.Step { return b.move("f", "g") }, func(b *bench) {
			b.write("ws/tmp", "theirs")
			must(b.t, os.Rename(b.path("ws/tmp"), b.path("ws/g")))
		}, func(b *bench) { b.reads("ws/g", "theirs") }, "already replaced"},
		{"a moved file was removed", func(b *bench) op.Step { return b.move("f", "g") }, func(b *bench) {
			must(b.t, os.Remove(b.path("ws/g")))
		}, func(b *bench) { b.reads("ws/f", "<absent>") }, "already replaced"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			b := newBench(t, Options{})
			b.write("ws/f", "old")
			first := r.first(b)
			before := fds(t)
			_, _, err := b.do(HoldOptions{Guard: func(p string) {
				if p == "before place" && first.Do != op.Place || p == "after place" && first.Do == op.Place {
					if _, err := os.Lstat(b.path("ws/last")); os.IsNotExist(err) {
						r.meddle(b)
						b.write("ws/last", "foreign")
					}
				}
			}}, first, fails(b))
			wants(t, err, op.Stale)
			r.check(b)
			b.reads("ws/last", "foreign")
			if e := op.AsError(err); !strings.Contains(e.Hint, r.hint) {
				t.Errorf("hint %q", e.Hint)
			}
			if after := fds(t); after != before {
				t.Errorf("handles: %d before, %d after", before, after)
			}
		})
	}
}

// A directory in which nothing may be changed: the list before it is taken back.
func TestFrozenDirectory(t *testing.T) {
	rootOnly(t)
	b := newBench(t, Options{})
	b.write("ws/f", "old")
	b.write("ws/d/f", "old")
	steps := []op.Step{b.swap("f", "new", "s1"), b.swap("d/f", "new", "s2")}
	run(t, "chattr", "+i", b.path("ws/d"))
	defer exec.Command("chattr", "-i", b.path("ws/d")).Run()
	if !b.look("d", true).Info.Frozen {
		t.Error("it does not show")
	}
	_, _, err := b.do(HoldOptions{}, steps...)
	wants(t, err, op.PermissionDenied)
	b.reads("ws/f", "old")
	b.reads("ws/d/f", "old")
}

func TestMountFromProc(t *testing.T) {
	b := newBench(t, Options{})
	a, err := mountFromProc(b.root.fd)
	must(t, err)
	c, err := mountFromProc(b.st.fd)
	if err != nil || a == 0 || a != c {
		t.Errorf("mounts %d, %d %v", a, c, err)
	}
}
