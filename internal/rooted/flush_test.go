//go:build linux

package rooted

import (
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// Nothing is renamed before what it needs is on the disk: Apply waits for the flushes that
// Stage and Hold began, and one that failed stops it with nothing changed.
func TestApplyWaitsForFlushes(t *testing.T) {
	for _, fails := range []bool{false, true} {
		b := newBench(t, Options{})
		b.write("ws/f", "old")
		step := b.swap("f", "new", "s1")
		release := make(chan struct{})
		b.st.staging("s1", b.st.begin(func() error {
			<-release
			if fails {
				return unix.EIO
			}
			return nil
		}))
		h, err := b.root.Hold(ctx(), b.st, []op.Step{step}, HoldOptions{Guard: func(point string) {
			if strings.HasPrefix(point, "before swap") {
				select {
				case <-release:
				default:
					t.Error("a rename before the flush was through")
				}
			}
		}})
		must(t, err)
		ended := make(chan error)
		go func() { _, err := h.Apply(ctx()); ended <- err }()
		select {
		case err := <-ended:
			t.Fatalf("it did not wait: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
		b.reads("ws/f", "old")
		close(release)
		err = <-ended
		h.Close()
		if fails {
			if err == nil || errors.Is(err, op.UnknownOutcome) {
				t.Errorf("got %v", err)
			}
			b.reads("ws/f", "old")
			continue
		}
		must(t, err)
		b.reads("ws/f", "new")
		b.reads("store/s1", "old")
	}
}

// Flushes are bounded: what is begun beyond that is done at once.
func TestFlushesAreBounded(t *testing.T) {
	b := newBench(t, Options{})
	release := make(chan struct{})
	var held []*flush
	for range maxFlushes {
		held = append(held, b.st.begin(func() error { <-release; return nil }))
	}
	done := false
	if err := b.st.begin(func() error { done = true; return nil }).wait(); err != nil || !done {
		t.Errorf("done %v, %v", done, err)
	}
	close(release)
	for _, f := range held {
		must(t, f.wait())
	}
	must(t, (*flush)(nil).wait())
	must(t, b.st.Flushed("nothing"))
}
