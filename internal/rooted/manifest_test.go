//go:build linux

package rooted

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// folder makes a directory with a file d/s/f of three bytes among others, old enough to be
// remembered, and the step that acts on it.
func (b *bench) folder(act op.Act) op.Step {
	b.t.Helper()
	for i := range 2 * shareSize {
		b.write(fmt.Sprintf("ws/d/many/%04d", i), fmt.Sprint("text ", i))
	}
	b.write("ws/d/s/f", "old")
	b.write("ws/d/s/g", "one")
	settle()
	if act == op.Move {
		return b.move("d", "e")
	}
	return b.take("d", "s1")
}

// inodeOf looks at a file as a manifest does.
func (b *bench) inodeOf(name string) (Info, imprint) {
	b.t.Helper()
	i, s, err := inspect(unix.AT_FDCWD, b.path(name))
	must(b.t, err)
	return i, s
}

// TestManifestFromMemory: of a directory that nobody touched no file is read twice, at
// none of the looks that a change takes.
func TestManifestFromMemory(t *testing.T) {
	b := onDisk(t, Options{})
	step := b.folder(op.Take)
	_, s := b.inodeOf("ws/d/s/f")
	k, ok := b.root.known.get(s)
	if !ok || k.Digest != HashBytes([]byte("old")) {
		t.Fatalf("the look remembered %v, %v", k, ok)
	}
	sum := func() op.Digest {
		t.Helper()
		m, err := b.look("d", false).Manifest(ctx())
		must(t, err)
		return m.Digest
	}
	b.root.known.set(s, Known{Digest: "blake3:forged", Size: 3})
	if step.Before.Hash = sum(); step.Before.Hash == "" {
		t.Fatal("no digest")
	}
	b.root.known.set(s, k)
	if sum() == step.Before.Hash {
		t.Error("the file was read again")
	}
	b.root.known.set(s, Known{Digest: "blake3:forged", Size: 3})
	done, _, err := b.do(HoldOptions{}, step) // holds by memory alone, before the rename and after it
	must(t, err)
	if st, err := b.st.Kept(ctx(), "s1"); err != nil || st.Hash != step.Before.Hash {
		t.Errorf("the way back read it again: %v %v", st, err)
	}
	if st, err := b.st.State(ctx(), "s1"); err != nil || st.Hash == step.Before.Hash {
		t.Errorf("what verifies believed the memory: %v %v", st, err)
	}
	if l, err := b.st.Verify(ctx(), done[0]); err != nil || l == nil {
		t.Errorf("what verifies believed the memory: %v %v", l, err)
	}
}

// TestManifestGuard changes a file below a directory between the look, the hold, the rename
// and the last comparison, each time to as many bytes and with the old mtime put back, and
// finds the change each time. The directory ends where it was, with the change in it. Where
// the memory goes by size and mtime alone it does not.
func TestManifestGuard(t *testing.T) {
	manners := map[string]func(b *bench, at string){
		"written in place": func(b *bench, at string) {
			f, err := os.OpenFile(at, os.O_WRONLY, 0)
			must(b.t, err)
			_, err = f.WriteAt([]byte("new"), 0)
			must(b.t, errors.Join(err, f.Close()))
		},
		"written over": func(b *bench, at string) { must(b.t, os.WriteFile(at, []byte("new"), 0o644)) },
		"mapped":       func(b *bench, at string) { scribble(b.t, at, 'w') },
		"replaced": func(b *bench, at string) {
			b.write("ws/new", "new")
			must(b.t, os.Rename(b.path("ws/new"), at))
		},
	}
	at := func(b *bench) string { // wherever the directory stands at this moment
		for _, dir := range []string{"ws/d", "ws/e", "store/s1"} {
			if _, err := os.Stat(b.path(dir + "/s/f")); err == nil {
				return b.path(dir + "/s/f")
			}
		}
		b.t.Fatal("the directory is nowhere")
		return ""
	}
	change := func(b *bench, how func(*bench, string)) {
		file := at(b)
		was, err := os.Stat(file)
		must(b.t, err)
		how(b, file)
		must(b.t, os.Chtimes(file, was.ModTime(), was.ModTime()))
	}
	for _, act := range []op.Act{op.Take, op.Move} {
		for _, point := range []string{"after the look", "held", "before " + string(act), map[op.Act]string{op.Take: "taken", op.Move: "moved"}[act]} {
			for name, how := range manners {
				t.Run(fmt.Sprintf("%s, %s, %s", act, point, name), func(t *testing.T) {
					b := onDisk(t, Options{})
					step := b.folder(act)
					if point == "after the look" {
						change(b, how)
					}
					_, _, err := b.do(HoldOptions{Guard: func(p string) {
						if p == point {
							change(b, how)
						}
					}}, step)
					wants(t, err, op.Stale)
					if text, err := os.ReadFile(b.path("ws/d/s/f")); err != nil || string(text) == "old" {
						t.Errorf("it holds %q, %v", text, err)
					}
				})
			}
		}
		t.Run(string(act)+", without the guard", func(t *testing.T) {
			b := onDisk(t, Options{})
			step := b.folder(act)
			_, s := b.inodeOf("ws/d/s/f")
			k, _ := b.root.known.get(s)
			change(b, manners["written in place"])
			_, s = b.inodeOf("ws/d/s/f")
			b.root.known.set(s, k) // as if ctime were no part of it
			_, _, err := b.do(HoldOptions{}, step)
			must(t, err)
		})
	}
}

// TestManifestOfMapped: a program that had a file mapped before the look can change it
// without any time moving. Such a file is read at each look.
func TestManifestOfMapped(t *testing.T) {
	for _, point := range []string{"after the look", "held", "taken"} {
		t.Run(point, func(t *testing.T) {
			b := onDisk(t, Options{})
			b.write("ws/d/s/f", "old")
			f, err := os.OpenFile(b.path("ws/d/s/f"), os.O_RDWR, 0)
			must(t, err)
			m, err := unix.Mmap(int(f.Fd()), 0, 3, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			must(t, errors.Join(err, f.Close()))
			defer func() { must(t, unix.Munmap(m)) }()
			m[0] = 'x' // the page is dirty from here on
			step := b.folder2()
			was, _ := b.inodeOf("ws/d/s/f")
			if point == "after the look" {
				m[1] = 'y'
			}
			_, _, err = b.do(HoldOptions{Guard: func(p string) {
				if p == point {
					m[1] = 'y'
				}
			}}, step)
			wants(t, err, op.Stale)
			b.reads("ws/d/s/f", "xyd")
			if now, _ := b.inodeOf("ws/d/s/f"); !now.untouched(was) {
				t.Log("a time moved: this run showed nothing")
			}
		})
	}
}

func (b *bench) folder2() op.Step {
	settle()
	return b.take("d", "s1")
}

// TestSoundTimes: on a file system that is trusted, a program that maps a file after it was
// looked at moves a time when it changes it, even where it has read it first.
func TestSoundTimes(t *testing.T) {
	for _, dir := range []string{t.TempDir(), "/dev/shm"} {
		t.Run(dir, func(t *testing.T) {
			top, err := os.MkdirTemp(dir, "sound")
			if err != nil {
				t.Skip("skipped: no such place: ", err)
			}
			defer os.RemoveAll(top)
			fd, err := openDir(top)
			must(t, err)
			defer closeFD(fd)
			at := top + "/f"
			must(t, os.WriteFile(at, []byte("old"), 0o644))
			settle()
			_, before, err := inspect(unix.AT_FDCWD, at)
			must(t, err)
			f, err := os.OpenFile(at, os.O_RDWR, 0)
			must(t, err)
			m, err := unix.Mmap(int(f.Fd()), 0, 3, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			must(t, err)
			first := m[0]
			time.Sleep(time.Millisecond)
			m[0] = first + 1
			must(t, errors.Join(unix.Munmap(m), f.Close()))
			_, after, err := inspect(unix.AT_FDCWD, at)
			must(t, err)
			if moved := before != after; moved != soundTimes(fd) {
				t.Errorf("a time moved: %v; the file system is trusted: %v", moved, soundTimes(fd))
			}
		})
	}
}
