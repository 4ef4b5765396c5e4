//go:build linux

package rooted

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdpoint/op"
)

// Whoever asks for a flush gets one that began after the question, and those who ask while
// one is under way get one between them.
func TestFlushesTogether(t *testing.T) {
	var names together
	const callers = 64
	dir := inode{1, 2}
	var done, flushes atomic.Int64
	first := make(chan struct{})
	began := make(chan struct{})
	go names.flush(dir, func() error { close(began); <-first; return nil })
	<-began
	var g sync.WaitGroup
	for range callers {
		g.Go(func() {
			done.Add(1)
			failed := errors.New("no such luck")
			err := names.flush(dir, func() error { flushes.Add(1); return failed })
			if err != failed && err == nil {
				t.Error("a caller did not learn how the flush ended that it shared")
			}
		})
	}
	for done.Load() < callers {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond) // they wait now; one that comes later makes a flush more
	if flushes.Load() != 0 {
		t.Fatal("a flush of those who came late ran beside the one they were too late for")
	}
	close(first)
	g.Wait()
	if n := flushes.Load(); n < 1 || n > callers/4 {
		t.Errorf("%d flushes for %d callers", n, callers)
	}
	if len(names.now) != 0 {
		t.Error("a round is left over")
	}
}

// No caller returns on a flush that had begun before it asked.
func TestFlushesTogetherBeginLater(t *testing.T) {
	var names together
	var changes, flushed atomic.Int64
	var g sync.WaitGroup
	for range 16 {
		g.Go(func() {
			for range 200 {
				mine := changes.Add(1)
				_ = names.flush(inode{1, 2}, func() error {
					at := changes.Load()
					time.Sleep(20 * time.Microsecond)
					flushed.Store(max(at, flushed.Load()))
					return nil
				})
				if flushed.Load() < mine {
					t.Error("the flush began before the change")
					return
				}
			}
		})
	}
	g.Wait()
}

// The file that a change put in place is not flushed once more when the next one puts it
// away, unless somebody touched it: then it is, whatever they left in it.
func TestSolidFiles(t *testing.T) {
	touches := map[string]func(b *bench){
		"nobody":  func(*bench) {},
		"written": func(b *bench) { b.write("ws/f", "one more") },
		"written with the old time and back": func(b *bench) {
			at := b.path("ws/f")
			info, err := os.Stat(at)
			must(b.t, err)
			must(b.t, os.WriteFile(at, []byte("ein"), 0o644))
			must(b.t, os.WriteFile(at, []byte("one"), 0o644))
			must(b.t, os.Chtimes(at, info.ModTime(), info.ModTime()))
		},
		"replaced": func(b *bench) {
			must(b.t, os.WriteFile(b.path("ws/g"), []byte("one"), 0o644))
			must(b.t, os.Rename(b.path("ws/g"), b.path("ws/f")))
		},
	}
	for name, touch := range touches {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Options{})
			if !b.st.Features().FineTimes || !b.st.Features().Lease {
				t.Skip("this file system gives changes that follow one another the same time, or knows no leases")
			}
			b.write("ws/f", "old")
			flushes := func(to, slot string) bool {
				h, err := b.root.Hold(ctx(), b.st, []op.Step{b.swap("f", to, slot)}, HoldOptions{})
				must(t, err)
				defer h.Close()
				flushed := h.acts[0].flush != nil
				_, err = h.Apply(ctx())
				must(t, err)
				return flushed
			}
			if !flushes("one", "s1") {
				t.Fatal("a file of somebody else's went into the store without a flush")
			}
			touch(b)
			if got, want := flushes("two", "s2"), name != "nobody"; got != want {
				t.Errorf("flushed %v, want %v", got, want)
			}
		})
	}
}
