//go:build linux

package rooted

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// known looks at a file, and tells whether its bytes were read for it.
func (b *bench) known(p op.Path) (k Known, read bool) {
	b.t.Helper()
	n := b.look(p, false)
	defer n.Close()
	k, err := n.Known(ctx(), 1<<20, func([]byte, bool) any { read = true; return true })
	must(b.t, err)
	return k, read
}

// settle lets a file get old enough to be remembered.
func settle() { time.Sleep(racy + 10*time.Millisecond) }

// TestKnown: what is remembered is told again only where that is sound.
func TestKnown(t *testing.T) {
	b := onDisk(t, Options{})
	if !b.root.known.sound {
		t.Fatal("the test's own filesystem is none of those whose times move")
	}
	at := b.path("ws/f")
	b.write("ws/f", "one")
	t.Run("what was just changed is not remembered", func(t *testing.T) {
		for range 2 {
			if _, read := b.known("f"); !read {
				t.Fatal("told from memory")
			}
		}
	})
	t.Run("what rests is read once", func(t *testing.T) {
		settle()
		b.known("f")
		if k, read := b.known("f"); read || k.Digest != HashBytes([]byte("one")) || k.Size != 3 {
			t.Fatalf("got %v, read %v", k, read)
		}
	})
	t.Run("no change goes unnoticed, whatever its times say", func(t *testing.T) {
		seed := uint64(time.Now().UnixNano())
		r := rand.New(rand.NewPCG(seed, 1))
		told := 0
		for i := range 40 {
			var was unix.Stat_t
			must(t, unix.Stat(at, &was))
			if i%3 == 0 {
				settle()
				b.known("f") // so that there is something to be wrong about
			}
			text := fmt.Sprintf("%03d", r.IntN(1000))
			switch r.IntN(5) {
			case 0:
				must(t, os.WriteFile(at, []byte(text), 0o644))
			case 1:
				b.write("ws/g", text)
				must(t, os.Rename(b.path("ws/g"), at))
			case 2:
				f, err := os.OpenFile(at, os.O_WRONLY, 0)
				must(t, err)
				_, err = f.WriteAt([]byte(text[:1]), 1)
				must(t, err)
				f.Close()
			case 3:
				scribble(t, at, text[0])
			case 4: // nothing
			}
			must(t, os.Chtimes(at, time.Unix(was.Atim.Unix()), time.Unix(was.Mtim.Unix())))
			if r.IntN(2) == 0 {
				settle()
			}
			for range 2 {
				c, err := os.ReadFile(at)
				must(t, err)
				k, read := b.known("f")
				if k.Digest != HashBytes(c) {
					t.Fatalf("seed %d, turn %d: told %v of %q, read %v", seed, i, k, c, read)
				}
				if !read {
					told++
				}
			}
		}
		if told < 5 {
			t.Errorf("seed %d: only %d answers from memory: nothing was tested", seed, told)
		}
	})
	t.Run("what somebody has open for writing or mapped is not remembered", func(t *testing.T) {
		f, err := os.OpenFile(at, os.O_RDWR, 0)
		must(t, err)
		m, err := unix.Mmap(int(f.Fd()), 0, 3, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		must(t, err)
		f.Close()
		m[0] = 'x' // the page is dirty from here on: later stores move no time
		settle()
		for i := range 3 {
			m[0] = byte('a' + i)
			c, err := os.ReadFile(at)
			must(t, err)
			if k, read := b.known("f"); !read || k.Digest != HashBytes(c) {
				t.Errorf("got %v of %q, read %v", k, c, read)
			}
		}
		must(t, unix.Munmap(m))
	})
	t.Run("a filesystem whose times are not known to move remembers nothing", func(t *testing.T) {
		p, err := os.Open("/proc/self")
		must(t, err)
		defer p.Close()
		if soundTimes(int(p.Fd())) {
			t.Error("/proc is called sound")
		}
		settle()
		b.root.known.sound = false
		defer func() { b.root.known.sound = true }()
		b.known("f")
		if _, read := b.known("f"); !read {
			t.Error("told from memory")
		}
	})
	t.Run("the memory has a bound", func(t *testing.T) {
		k := &knowledge{}
		for i := range uint64(3 * knownFiles) {
			k.set(imprint{ino: i}, Known{})
		}
		if n := len(k.new) + len(k.old); n > knownFiles {
			t.Errorf("%d are remembered", n)
		}
		if _, ok := k.get(imprint{ino: 3*knownFiles - 1}); !ok {
			t.Error("the latest is not")
		}
	})
}

// scribble changes a byte through a mapping of its own.
func scribble(t *testing.T, at string, c byte) {
	t.Helper()
	f, err := os.OpenFile(at, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), 0, 3, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err)
	m[2] = c
	must(t, unix.Munmap(m))
}

// TestKnownIsNotHeld: a memory that is wrong shows in a look and stops at Hold, which
// reads the bytes.
func TestKnownIsNotHeld(t *testing.T) {
	b := newBench(t, Options{})
	b.write("ws/f", "old")
	n := b.look("f", false)
	s, err := imprintOf(n.self)
	must(t, err)
	forged := HashBytes([]byte("forged"))
	b.root.known.sound = true
	b.root.known.set(s, Known{Digest: forged, Size: 3})
	if d, _, err := n.Digest(ctx()); err != nil || d != forged {
		t.Fatalf("the look is not told from memory: %v %v", d, err)
	}
	n.Close()
	step := b.swap("f", "new", "s-f")
	step.Before.Hash = forged
	_, err = b.root.Hold(ctx(), b.st, []op.Step{step}, HoldOptions{})
	wants(t, err, op.Stale)
	b.reads("ws/f", "old")
}

// TestKnownLetsWritersIn: a large file is hashed under a lease, and who wants to write it
// meanwhile does not wait for the end.
func TestKnownLetsWritersIn(t *testing.T) {
	b := onDisk(t, Options{})
	b.write("ws/big", "")
	must(t, os.Truncate(b.path("ws/big"), 512<<20)) // of holes, which are quick to make and not to hash
	settle()
	n := b.look("big", false)
	defer n.Close()
	var hashing atomic.Bool
	hashing.Store(true)
	done := make(chan error, 1)
	go func() {
		_, _, err := n.Digest(ctx())
		hashing.Store(false)
		done <- err
	}()
	time.Sleep(20 * time.Millisecond)
	begin := time.Now()
	f, err := os.OpenFile(b.path("ws/big"), os.O_WRONLY, 0)
	must(t, err)
	took := time.Since(begin)
	if still := hashing.Load(); !still || took > time.Second {
		t.Errorf("the writer waited %v; the file is still being hashed: %v", took, still)
	}
	f.Close()
	must(t, <-done)
	if s, err := imprintOf(n.self); err != nil || len(b.root.known.new) != 0 {
		t.Errorf("it was remembered: %v %v", s, err)
	}
}
