//go:build linux

package rooted

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

const foreign = "foreign bytes"

// has reports whether some file below dir holds these bytes.
func has(t *testing.T, dir, content string) bool {
	t.Helper()
	found := false
	must(t, filepath.Walk(dir, func(p string, i os.FileInfo, err error) error {
		if err == nil && i.Mode().IsRegular() {
			b, _ := os.ReadFile(p)
			found = found || strings.Contains(string(b), content)
		}
		return nil
	}))
	return found
}

// writers are ways in which another program changes d/f at the worst moment; each tells
// whether it wrote. They run beside Apply, since a lease may make them wait for its end.
var writers = map[string]func(b *bench) bool{
	"in place": func(b *bench) bool {
		f, err := os.OpenFile(b.path("ws/d/f"), os.O_WRONLY, 0)
		if err != nil {
			return false
		}
		defer f.Close()
		_, err = f.WriteAt([]byte(foreign), 0)
		return err == nil
	},
	"truncating": func(b *bench) bool { return b.overwrite("ws/d/f", foreign) },
	"rename over": func(b *bench) bool {
		return b.overwrite("ws/tmp", foreign) && os.Rename(b.path("ws/tmp"), b.path("ws/d/f")) == nil
	},
	"three renames": func(b *bench) bool {
		wrote := true
		for _, v := range []string{"first", "second", foreign} {
			wrote = b.overwrite("ws/tmp", v) && os.Rename(b.path("ws/tmp"), b.path("ws/d/f")) == nil
		}
		return wrote
	},
	"delete and create": func(b *bench) bool {
		_ = os.Remove(b.path("ws/d/f"))
		return b.overwrite("ws/d/f", foreign)
	},
}

func (b *bench) overwrite(name, content string) bool {
	return os.WriteFile(b.path(name), []byte(content), 0o644) == nil
}

// At every named point, whatever another program writes is in the file or in the store
// afterwards, and a refusal leaves nothing of ours.
func TestForeignWritesAreNeverLost(t *testing.T) {
	points := map[op.Act][]string{
		op.Swap:  {"held", "before swap", "swapped", "after swap", "before confirm", "before lease check"},
		op.Take:  {"held", "before take", "taken", "after take", "before lease check"},
		op.Move:  {"held", "before move", "moved", "after move", "before confirm"},
		op.Place: {"held", "before place", "after place", "before confirm"},
	}
	for _, mode := range []string{"lease", "no lease"} {
		for act, list := range points {
			for _, point := range list {
				for name, write := range writers {
					t.Run(fmt.Sprintf("%s, %s, %s, %s", act, mode, point, name), func(t *testing.T) {
						foreignWrite(t, act, point, mode == "no lease", write)
					})
				}
			}
		}
	}
}

func foreignWrite(t *testing.T, act op.Act, point string, noLease bool, write func(*bench) bool) {
	b := newBench(t, Options{})
	before := fds(t)
	must(t, os.Mkdir(b.path("ws/d"), 0o755))
	var step op.Step
	if act == op.Place {
		step = b.place("d/f", "new", "s1")
	} else {
		b.write("ws/d/f", "old content")
		switch act {
		case op.Swap:
			step = b.swap("d/f", "new", "s1")
		case op.Take:
			step = b.take("d/f", "s1")
		default:
			step = b.move("d/f", "g")
		}
	}
	var wg sync.WaitGroup
	wrote := false
	at := func(p string) {
		if p == point {
			wg.Add(1)
			done := make(chan struct{})
			go func() { defer wg.Done(); defer close(done); wrote = write(b) }()
			select {
			case <-done:
			case <-time.After(5 * time.Millisecond): // held up by the lease
			}
		}
	}
	_, r, err := b.do(HoldOptions{NoLease: noLease, Guard: at}, step)
	wg.Wait()
	if !wrote {
		must(t, err) // it found no file to write to, so nothing was in the way
		return
	}
	if err != nil {
		wants(t, err, op.Stale)
	}
	if !has(t, b.top, foreign) {
		t.Errorf("what the other program wrote is lost: %v, %+v", err, r)
	}
	early := point == "held" || point == "before "+string(act)
	if act != op.Move && (err != nil || early) {
		b.reads("ws/d/f", foreign) // it came first, or ours went away again
	}
	if err == nil && len(r.Late) > 0 {
		t.Errorf("late writes after success: %v", r.Late)
	}
	if after := fds(t); after != before {
		t.Errorf("handles: %d before, %d after", before, after)
	}
}

// A write into our own new content, before that has to be taken back, is kept and told.
func TestWriteIntoOursIsKept(t *testing.T) {
	for _, act := range []op.Act{op.Swap, op.Place} {
		t.Run(string(act), func(t *testing.T) {
			b := newBench(t, Options{})
			b.write("ws/f", "old")
			first := b.swap("f", "new", "s1")
			path := "ws/f"
			if act == op.Place {
				first, path = b.place("g", "new", "s3"), "ws/g"
			}
			held := []*os.File{}
			_, r, err := b.do(HoldOptions{Guard: func(p string) {
				if p == "after "+string(act) && len(held) == 0 {
					f, err := os.OpenFile(b.path(path), os.O_WRONLY, 0)
					must(t, err)
					held = append(held, f)
					_, _ = f.WriteAt([]byte(foreign), 0)
					b.write("ws/second", "something came to stand")
				}
			}}, first, b.place("second", "x", "s2"))
			wants(t, err, op.Stale)
			defer held[0].Close()
			if len(r.Late) != 1 || r.Late[0].Is != HashBytes([]byte(foreign)) || !strings.Contains(op.AsError(err).Hint, r.Late[0].Slot) {
				t.Fatalf("report %+v, %v", r, err)
			}
			b.reads("store/"+r.Late[0].Slot, foreign)
			must(t, b.st.Drop(first.Slot)) // as callers do with what they staged
			_, _ = held[0].WriteAt([]byte("and later"), 0)
			b.reads("store/"+r.Late[0].Slot, "and later"+foreign[9:])
			if act == op.Swap {
				b.reads("ws/f", "old")
			} else {
				b.reads("ws/g", "<absent>")
			}
		})
	}
}

// A file deleted while a foreign version is put back: that version stays in the store.
func TestDeletedDuringSwapBack(t *testing.T) {
	b := newBench(t, Options{})
	b.write("ws/d/f", "old")
	_, _, err := b.do(HoldOptions{Guard: func(p string) {
		switch p {
		case "before swap":
			writers["rename over"](b)
		case "before back":
			must(t, os.Remove(b.path("ws/d/f")))
		}
	}}, b.swap("d/f", "new", "s1"))
	wants(t, err, op.Stale)
	b.reads("ws/d/f", "<absent>")
	b.reads("store/s1.kept0", foreign)
	if !strings.Contains(op.AsError(err).Hint, "s1.kept0") {
		t.Errorf("the hint does not name it: %v", op.AsError(err).Hint)
	}
}

// Something newer at the name of what has to go back: both stay.
func TestNewerDuringPutBack(t *testing.T) {
	b := newBench(t, Options{})
	b.write("ws/d/f", "old")
	_, _, err := b.do(HoldOptions{Guard: func(p string) {
		switch p {
		case "before take":
			writers["rename over"](b)
		case "before back":
			b.write("ws/d/f", "newest")
		}
	}}, b.take("d/f", "s1"))
	wants(t, err, op.Stale)
	b.reads("ws/d/f", "newest")
	b.reads("store/s1.kept0", foreign)

	b.write("ws/m", "old")
	_, _, err = b.do(HoldOptions{Guard: func(p string) {
		switch p {
		case "before move":
			b.write("ws/m", foreign)
		case "before back":
			b.write("ws/m", "newest")
		}
	}}, b.move("m", "n"))
	wants(t, err, op.UnknownOutcome) // ours cannot go back, so the step stands
	b.reads("ws/m", "newest")
	b.reads("ws/n", foreign)
}

// A change of mode or owner between Hold and the exchange is a change like any other.
func TestForeignModeChange(t *testing.T) {
	rootOnly(t)
	for name, change := range map[string]func(b *bench){
		"mode":  func(b *bench) { must(b.t, os.Chmod(b.path("ws/f"), 0o600)) },
		"owner": func(b *bench) { must(b.t, os.Chown(b.path("ws/f"), 1000, 1000)) },
		"link":  func(b *bench) { must(b.t, os.Link(b.path("ws/f"), b.path("ws/g"))) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Options{})
			b.write("ws/f", "old")
			_, _, err := b.do(HoldOptions{Guard: func(p string) {
				if p == "before swap" {
					change(b)
				}
			}}, b.swap("f", "new", "s1"))
			wants(t, err, op.Stale)
			b.reads("ws/f", "old")
		})
	}
}

// The directory that was held is renamed away and a link out put in its place.
func TestParentSwappedAfterHold(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		for _, act := range []op.Act{op.Swap, op.Take, op.Move, op.Place, op.MakeDir} {
			t.Run(string(act), func(t *testing.T) {
				b := newBench(t, o)
				b.write("OUT/secret", "secret")
				b.write("OUT/f", "outside")
				b.write("ws/d/f", "old")
				step := mkdirStep("d/new")
				switch act {
				case op.Swap:
					step = b.swap("d/f", "new", "s1")
				case op.Take:
					step = b.take("d/f", "s1")
				case op.Move:
					step = b.move("d/f", "d/g")
				case op.Place:
					step = b.place("d/new", "new", "s1")
				}
				_, _, err := b.do(HoldOptions{Guard: func(p string) {
					if p == "before "+string(act) {
						must(t, os.Rename(b.path("ws/d"), b.path("ws/moved")))
						b.link("../OUT", "ws/d")
					}
				}}, step)
				wants(t, err, op.Stale)
				b.reads("ws/moved/f", "old")
				b.reads("OUT/f", "outside")
				for dir, want := range map[string]int{"OUT": 2, "ws/moved": 1} {
					if list, _ := os.ReadDir(b.path(dir)); len(list) != want {
						t.Errorf("%s holds %v", dir, list)
					}
				}
			})
		}
	})
}

// A directory whose content changes between Hold and the rename comes back.
func TestDirectoryChangesAfterHold(t *testing.T) {
	for _, act := range []op.Act{op.Take, op.Move} {
		for name, change := range map[string]func(b *bench){
			"write":  func(b *bench) { b.write("ws/d/s/f", foreign) },
			"create": func(b *bench) { b.write("ws/d/s/new", foreign) },
			"mode":   func(b *bench) { must(b.t, os.Chmod(b.path("ws/d/s"), 0o700)) },
		} {
			t.Run(string(act)+" "+name, func(t *testing.T) {
				b := newBench(t, Options{})
				b.write("ws/d/s/f", "old")
				b.write("ws/d/x", "x")
				step := b.take("d", "s1")
				if act == op.Move {
					step = b.move("d", "e")
				}
				was := ""
				_, _, err := b.do(HoldOptions{Guard: func(p string) {
					if p == "before "+string(act) {
						change(b)
						was = b.tree()
					}
				}}, step)
				wants(t, err, op.Stale)
				if b.tree() != was {
					t.Errorf("left\n%s\nwant\n%s", b.tree(), was)
				}
			})
		}
	}
}

// In a list, one failing step takes all others back, whichever it is.
func TestAllOrNothing(t *testing.T) {
	_, list := plan(t, fastDir(t), Options{})
	for i := range list {
		for _, moment := range []string{"before ", "after "} {
			if i == 0 && moment == "before " {
				continue // nothing to take back; TestHoldDrift has it
			}
			t.Run(fmt.Sprintf("%s%d %s", moment, i, list[i].Do), func(t *testing.T) {
				b, steps := plan(t, fastDir(t), Options{})
				b.write("ws/last", "old")
				steps = append(steps, b.swap("last", "new", "s-last"))
				start, seen := b.tree(), 0
				_, r, err := b.do(HoldOptions{Guard: func(p string) {
					if strings.HasPrefix(p, moment) && !strings.Contains(p, "confirm") && !strings.Contains(p, "lease") && !strings.Contains(p, "back") {
						if seen++; seen == i+1 {
							b.write("ws/last", foreign[:3])
						}
					}
				}, NoLease: true}, steps...)
				wants(t, err, op.Stale)
				b.reads("ws/last", foreign[:3])
				must(t, os.WriteFile(b.path("ws/last"), []byte("old"), 0o644))
				if got := b.tree(); got != start || len(r.Kept) > 0 {
					t.Errorf("left\n%s\nwant\n%s\n%+v", got, start, r)
				}
				slots, _ := b.st.Slots()
				for _, s := range slots {
					if strings.HasSuffix(s, copySuffix) {
						t.Errorf("a copy is left: %v", slots)
					}
				}
			})
		}
	}
}

// SIGIO of a broken lease reaches nobody; an open that does not wait is refused meanwhile.
func TestLeaseBreak(t *testing.T) {
	b := newBench(t, Options{})
	b.write("ws/f", "old")
	_, _, err := b.do(HoldOptions{Guard: func(p string) {
		if p == "before swap" {
			if fd, err := unix.Open(b.path("ws/f"), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err != unix.EAGAIN {
				t.Errorf("open: %d %v", fd, err)
			}
		}
	}}, b.swap("f", "new", "s1"))
	wants(t, err, op.Stale)
	b.reads("ws/f", "old")
	must(t, os.WriteFile(b.path("ws/f"), []byte("free again"), 0o644))
}
