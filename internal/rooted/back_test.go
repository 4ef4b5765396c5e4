//go:build linux

package rooted

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

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

// A file of ours that others move before it is taken back is followed; where it cannot be,
// nothing of theirs is lost. And the undo that is refused on the way can be asked for again.
func TestTakingBackFollows(t *testing.T) {
	exchange := func(b *bench, p, q string) {
		must(b.t, unix.Renameat2(unix.AT_FDCWD, b.path(p), unix.AT_FDCWD, b.path(q), unix.RENAME_EXCHANGE))
	}
	rename := func(b *bench, p, q string) { must(b.t, os.Rename(b.path(p), b.path(q))) }
	rows := []struct {
		name   string
		meddle func(b *bench)
		ends   map[string]string // STOOD is what stood at f before the refused change
		hint   string
	}{
		{"exchanged with another", func(b *bench) { exchange(b, "ws/f", "ws/d/g") }, map[string]string{"f": "theirs", "d/g": "STOOD"}, ""},
		{"renamed", func(b *bench) { rename(b, "ws/f", "ws/d/h") }, map[string]string{"f": "<absent>", "d/g": "theirs", "d/h": "STOOD"}, ""},
		{"renamed, and another put in its place", func(b *bench) { rename(b, "ws/f", "ws/d/h"); rename(b, "ws/d/g", "ws/f") }, map[string]string{"f": "theirs", "d/g": "<absent>", "d/h": "STOOD"}, ""},
		{"given another name, and replaced", func(b *bench) { must(b.t, os.Link(b.path("ws/f"), b.path("ws/h"))); rename(b, "ws/d/g", "ws/f") }, map[string]string{"f": "theirs", "d/g": "<absent>"}, "to another name before"},
		{"moved out of the root", func(b *bench) { rename(b, "ws/f", "OUT/f") }, map[string]string{"f": "<absent>", "d/g": "theirs"}, "somebody removed f"},
		{"removed", func(b *bench) { must(b.t, os.Remove(b.path("ws/f"))) }, map[string]string{"f": "<absent>", "d/g": "theirs"}, "somebody removed f"},
		{"replaced", func(b *bench) { rename(b, "ws/d/g", "ws/f") }, map[string]string{"f": "theirs", "d/g": "<absent>"}, ""},
	}
	for _, r := range rows {
		for _, undo := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s undo=%v", r.name, undo), func(t *testing.T) {
				b := newBench(t, Options{})
				b.write("ws/f", "old")
				b.write("ws/d/g", "theirs")
				step, stood := b.swap("f", "new", "s1"), "old"
				if undo {
					step, stood = op.Inverse(b.mustDo(step))[0], "new"
				}
				before, met := fds(t), false
				_, _, err := b.do(HoldOptions{Guard: func(p string) {
					if p == "before place" && !met {
						met = true
						r.meddle(b)
						b.write("ws/last", "foreign") // so that the whole is taken back
					}
				}}, step, b.place("last", "x", "s-last"))
				wants(t, err, op.Stale)
				for name, want := range r.ends {
					b.reads("ws/"+name, strings.ReplaceAll(want, "STOOD", stood))
				}
				hint := op.AsError(err).Hint
				if !strings.Contains(hint, r.hint) {
					t.Errorf("hint %q", hint)
				}
				if strings.Contains(hint, "kept in the store as s1") {
					b.reads("store/s1"+keptSuffix+"0", stood)
				}
				if undo {
					b.reads("store/s1", "old")
					must(t, os.RemoveAll(b.path("ws/f")))
					b.write("ws/f", "new")
					b.mustDo(op.Step{Do: op.Swap, Path: "f", Slot: "s1", Before: b.state("f"), After: step.After})
					b.reads("ws/f", "old")
				}
				if after := fds(t); after != before {
					t.Errorf("handles: %d before, %d after", before, after)
				}
			})
		}
	}
}

// A restored file that others moved or removed before it is taken back leaves its copy in
// the store, so that the undo can be asked for again.
func TestTakingBackAPlacedPreimage(t *testing.T) {
	for name, meddle := range map[string]func(b *bench){
		"removed":  func(b *bench) { must(b.t, os.Remove(b.path("ws/f"))) },
		"renamed":  func(b *bench) { must(b.t, os.Rename(b.path("ws/f"), b.path("ws/h"))) },
		"replaced": func(b *bench) { must(b.t, os.Rename(b.path("ws/g"), b.path("ws/f"))) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Options{})
			b.write("ws/f", "old")
			b.write("ws/g", "theirs")
			step, met := op.Inverse(b.mustDo(b.take("f", "s1")))[0], false
			_, _, err := b.do(HoldOptions{Guard: func(p string) {
				if _, err := os.Lstat(b.path("ws/f")); p == "before place" && err == nil && !met {
					met = true
					meddle(b)
					b.write("ws/last", "foreign")
				}
			}}, step, b.place("last", "x", "s-last"))
			wants(t, err, op.Stale)
			b.reads("store/s1", "old")
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
