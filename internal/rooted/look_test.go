//go:build linux

package rooted

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// The behaviour matrix of name resolution, in both ways of walking.
func TestLook(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		b := newBench(t, o)
		b.write("ws/f", "file")
		b.write("ws/d/e/f", "deep")
		b.write("OUT/secret", "secret")
		must(t, os.Mkdir(b.path("ws/empty"), 0o755))
		b.link("f", "ws/l")
		b.link("d/e", "ws/ld")
		b.link("d/e/", "ws/ldslash")
		b.link("f/", "ws/lfslash")
		b.link("../../ld/../e/f", "ws/d/e/up")
		b.link(".", "ws/self")
		b.link("d/..", "ws/dots")
		b.link("nothing", "ws/dangling")
		b.link("nodir/../../OUT/x", "ws/danglingout")
		b.link("nodir/../x", "ws/danglingin")
		b.link("../OUT/secret", "ws/r")
		b.link("../OUT/new", "ws/rnew")
		b.link("../OUT", "ws/rd")
		b.link("../ws/f", "ws/outback")
		b.link(b.path("OUT/secret"), "ws/abs")
		b.link(b.path("OUT/none"), "ws/absnone")
		b.link(b.path("ws/d/e/f"), "ws/d/absin")
		b.link("loop2", "ws/loop1")
		b.link("loop1", "ws/loop2")
		b.link("/proc/self/root"+b.path("ws/f"), "ws/magic")
		must(t, unix.Mkfifo(b.path("ws/p"), 0o644))
		l, err := net.Listen("unix", b.path("ws/s"))
		must(t, err)
		defer l.Close()

		rows := []struct {
			path    op.Path
			follow  bool
			kind    op.Kind
			want    op.Path // canonical
			links   int
			missing []op.Path
			code    op.Code
		}{
			{path: "f", kind: op.File, want: "f"},
			{path: ".", kind: op.Directory, want: "."},
			{path: "d/e/f", kind: op.File, want: "d/e/f"},
			{path: "d", kind: op.Directory, want: "d"},
			{path: "l", kind: op.Symlink, want: "l"},
			{path: "l", follow: true, kind: op.File, want: "f", links: 1},
			{path: "ld", follow: true, kind: op.Directory, want: "d/e", links: 1},
			{path: "ld/f", kind: op.File, want: "d/e/f", links: 1},
			{path: "ldslash/f", kind: op.File, want: "d/e/f", links: 1},
			{path: "lfslash", follow: true, code: op.NotADirectory},
			{path: "d/e/up", follow: true, kind: op.File, want: "d/e/f", links: 2}, // "ld/.." is d, not the root
			{path: "self/self/f", kind: op.File, want: "f", links: 2},
			{path: "self", follow: true, kind: op.Directory, want: ".", links: 1},
			{path: "dots", follow: true, kind: op.Directory, want: ".", links: 1},
			{path: "dots/f", kind: op.File, want: "f", links: 1},
			{path: "new", kind: op.Absent, want: "new"},
			{path: "ld/new", kind: op.Absent, want: "d/e/new", links: 1},
			{path: "ld/x/y/z", kind: op.Absent, want: "d/e/x/y/z", links: 1, missing: []op.Path{"d/e/x", "d/e/x/y"}},
			{path: "x/y", kind: op.Absent, want: "x/y", missing: []op.Path{"x"}},
			{path: "f/x", code: op.NotADirectory},
			{path: "l/x", code: op.NotADirectory},
			{path: "p/x", code: op.NotADirectory},
			{path: "dangling", kind: op.Symlink, want: "dangling"},
			{path: "dangling", follow: true, code: op.NotFound},
			{path: "dangling/x", follow: true, code: op.NotFound},
			{path: "danglingout", follow: true, code: op.OutsideWorkspace},
			{path: "danglingin", follow: true, code: op.NotFound},
			{path: "r", kind: op.Symlink, want: "r"},
			{path: "r", follow: true, code: op.OutsideWorkspace},
			{path: "rnew", follow: true, code: op.OutsideWorkspace},
			{path: "rd/secret", code: op.OutsideWorkspace},
			{path: "rd/none", code: op.OutsideWorkspace},
			{path: "rd", follow: true, code: op.OutsideWorkspace},
			{path: "outback", follow: true, code: op.OutsideWorkspace},
			{path: "abs", follow: true, code: op.OutsideWorkspace},
			{path: "absnone", follow: true, code: op.OutsideWorkspace},
			{path: "d/absin", follow: true, code: op.SymlinkRefused},
			{path: "loop1", follow: true, code: op.SymlinkRefused},
			{path: "loop1/x", code: op.SymlinkRefused},
			{path: "magic", follow: true, code: op.OutsideWorkspace},
			{path: "p", follow: true, kind: op.Fifo, want: "p"},
			{path: "s", follow: true, kind: op.Socket, want: "s"},
		}
		before := fds(t)
		for _, r := range rows {
			t.Run(fmt.Sprintf("%s follow=%v", r.path, r.follow), func(t *testing.T) {
				n, err := b.root.Look(ctx(), r.path, r.follow)
				wants(t, err, r.code)
				if err != nil {
					return
				}
				defer n.Close()
				if n.Info.Kind != r.kind || n.Path != r.want || len(n.Links) != r.links || !slices.Equal(n.Missing, r.missing) {
					t.Errorf("got %s at %s, links %v, missing %v", n.Info.Kind, n.Path, n.Links, n.Missing)
				}
			})
		}
		if after := fds(t); after != before {
			t.Errorf("handles: %d before, %d after", before, after)
		}

		t.Run("the hint of an absolute link inside", func(t *testing.T) {
			err := b.lookErr("d/absin", true)
			if e := op.AsError(err); !strings.Contains(e.Hint, "e/f") || strings.Contains(e.Hint, b.top) {
				t.Errorf("hint %q", e.Hint)
			}
		})
		t.Run("texts about outside are alike", func(t *testing.T) {
			there, none := op.AsError(b.lookErr("abs", true)), op.AsError(b.lookErr("absnone", true))
			if there.Message != none.Message || there.Hint != none.Hint || there.Code != none.Code {
				t.Errorf("%v / %v", there, none)
			}
		})
		t.Run("links are listed with their texts", func(t *testing.T) {
			n := b.look("self/ld/f", true)
			want := []op.Link{{Path: "self", Target: "."}, {Path: "ld", Target: "d/e"}}
			if !slices.Equal(n.Links, want) {
				t.Errorf("got %v", n.Links)
			}
		})
	})
}

func TestLookSpecial(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		b := newBench(t, o)
		must(t, unix.Mkfifo(b.path("ws/p"), 0o644))
		b.write("ws/d/f", "x")
		done := make(chan struct{})
		go func() {
			defer close(done)
			n := b.look("p", true)
			_, err := n.Read(10)
			wants(t, err, op.SpecialFile)
			_, _, err = n.Hash(ctx())
			wants(t, err, op.SpecialFile)
			_, err = n.Open()
			wants(t, err, op.SpecialFile)
			_, err = n.Entries(ctx())
			wants(t, err, op.NotADirectory)
		}()
		select {
		case <-done:
		case <-time.After(time.Second):
			t.Fatal("a FIFO blocked")
		}
		_, err := b.look("d", true).Read(10)
		wants(t, err, op.NotAFile)
		_, err = b.look("none", true).Read(10)
		wants(t, err, op.NotFound)
		c, cancel := context.WithCancel(ctx())
		cancel()
		_, err = b.root.Look(c, "d", true)
		wants(t, err, op.Cancelled)
	})
}

func TestRoot(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		b := newBench(t, o)
		b.write("ws/f", "x")
		b.link("ws", "lnk")
		if _, err := Open(b.path("none"), o); err == nil || !strings.Contains(op.AsError(err).Hint, b.path("none")) {
			t.Errorf("a root that is not there is not named: %v", err)
		}
		r, err := Open(b.path("lnk"), o)
		must(t, err)
		defer r.Close()
		if !r.Same(b.root) || r.Dir() != b.ws || r.Given() != b.path("lnk") {
			t.Errorf("got %s given %s", r.Dir(), r.Given())
		}
		for _, asked := range []string{b.path("lnk/f"), b.path("ws/f"), "f"} {
			if p, err := r.Clean(asked); p != "f" || err != nil {
				t.Errorf("%s: %s %v", asked, p, err)
			}
		}
		must(t, os.MkdirAll(b.path("ws/in/deep"), 0o755))
		must(t, os.MkdirAll(b.path("ws-evil"), 0o755))
		b.link("ws/in", "door")
		for dir, want := range map[string]bool{"ws": true, "ws/in/deep": true, "door": true, "door/not/yet": true, "lnk": true, "": false, "ws-evil": false, "OUT": false, "OUT/not/yet": false} {
			if r.Holds(b.path(dir)) != want {
				t.Errorf("Holds(%q) is not %v", dir, want)
			}
		}
		must(t, r.Check())
		must(t, os.Rename(b.ws, b.path("moved")))
		must(t, os.Mkdir(b.ws, 0o755))
		wants(t, r.Check(), op.NotReady)
		if n, err := r.Look(ctx(), "f", false); err != nil || n.Info.Kind != op.File {
			t.Errorf("the directory held open is not the one looked at: %v", err)
		} else {
			n.Close()
		}
		must(t, r.Close())
		_, err = r.Look(ctx(), "f", false)
		wants(t, err, op.NotReady)
		_, err = Open(b.path("ws/none"), o)
		wants(t, err, op.NotFound)
		_, err = Open(b.path("moved/f"), o)
		wants(t, err, op.NotADirectory)
	})
}

func TestHide(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		b := newBench(t, o)
		b.write("ws/.own/x", "x")
		b.write("ws/a", "x")
		b.link(".own", "ws/door")
		b.root.Hide(".own")
		for _, p := range []op.Path{".own", ".own/x", ".own/none", "door/x"} {
			wants(t, b.lookErr(p, true), op.OutsideWorkspace)
		}
		b.write("ws/deep/.mine/x", "x")
		b.root.Hide("deep/.mine")
		for _, s := range []op.Step{{Do: op.MakeDir, Path: ".own/y"}, {Do: op.Move, Path: "a", To: ".own/y"}, {Do: op.Take, Path: "deep", Slot: "s"}, {Do: op.Move, Path: "deep", To: "x"}} {
			s.Before = op.State{Kind: op.Directory}
			_, _, err := b.do(HoldOptions{}, s)
			wants(t, err, op.OutsideWorkspace)
		}
		must(t, os.RemoveAll(b.path("ws/deep")))
		_, err := b.look(".", true).Child(".own")
		wants(t, err, op.OutsideWorkspace)
		es, err := b.look(".", true).Entries(ctx())
		must(t, err)
		if len(es) != 2 {
			t.Errorf("listed %v", es)
		}
		must(t, b.look(".", true).Tree(ctx(), func(p op.Path, _ Info, _ func() (*Node, error)) error {
			if p.Within(".own") {
				t.Errorf("walked %s", p)
			}
			return nil
		}))
	})
}

func TestRead(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		b := newBench(t, o)
		text := strings.Repeat("0123456789", 50_000)
		b.write("ws/f", text)
		n := b.look("f", true)
		got, err := n.Read(1 << 20)
		if err != nil || string(got) != text {
			t.Errorf("read %d bytes, %v", len(got), err)
		}
		_, err = n.Read(int64(len(text)) - 1)
		wants(t, err, op.TooLarge)
		for _, w := range []struct {
			off  int64
			max  int
			want string
		}{{0, 3, "012"}, {499_998, 10, "89"}, {500_000, 5, ""}, {9_999_999, 5, ""}, {-1, 5, ""}, {5, 0, ""}} {
			got, err := n.ReadAt(w.off, w.max)
			if err != nil || string(got) != w.want {
				t.Errorf("at %d: %q %v", w.off, got, err)
			}
		}
		d, size, err := n.Hash(ctx())
		if err != nil || size != int64(len(text)) || d != HashBytes([]byte(text)) {
			t.Errorf("hash %s %d %v", d, size, err)
		}
		c, cancel := context.WithCancel(ctx())
		cancel()
		_, _, err = n.Hash(c)
		wants(t, err, op.Cancelled)
		f, err := n.Open()
		must(t, err)
		defer f.Close()
		if _, err := f.WriteString("x"); err == nil {
			t.Error("the handle is writable")
		}
		// A node stays what it was, whatever becomes of the name.
		must(t, os.Remove(b.path("ws/f")))
		b.write("ws/f", "other")
		if got, err := n.Read(1 << 20); err != nil || string(got) != text {
			t.Errorf("after the name changed: %d bytes, %v", len(got), err)
		}
	})
}

func TestReadWhileWritten(t *testing.T) {
	b := newBench(t, Options{})
	b.write("ws/f", "start")
	n := b.look("f", true)
	writes := 0
	read := func(until int) error {
		writes = 0
		return n.stably(func(int, Info) error {
			if writes++; writes <= until {
				b.write("ws/f", fmt.Sprint("version ", writes))
			}
			return nil
		})
	}
	wants(t, read(1000), op.Stale)
	if writes != readTries {
		t.Errorf("gave up after %d", writes)
	}
	must(t, read(readTries-1)) // quiet in the end
}

func TestPermission(t *testing.T) {
	rows := map[error]op.Code{unix.EACCES: op.PermissionDenied, unix.EPERM: op.PermissionDenied, unix.ENOSPC: op.NoSpace, unix.EDQUOT: op.NoSpace,
		unix.EROFS: op.ReadOnlyFilesystem, unix.EIO: op.IOError, unix.ENAMETOOLONG: op.InvalidPath, unix.EBUSY: op.CrossesMount, unix.EXDEV: op.CrossesMount,
		unix.ESTALE: op.IOError, &fs.PathError{Op: "open", Path: "/somewhere", Err: unix.ENOSPC}: op.NoSpace}
	for err, code := range rows {
		got := fail(err, "p")
		wants(t, got, code)
		if strings.Contains(got.Error(), "somewhere") {
			t.Errorf("a place shows in %v", got)
		}
	}
	if err := fail(stale("q", "x"), "p"); op.AsError(err).Path != "q" {
		t.Error("an error of ours was worded twice")
	}
}

func TestEntriesAndTree(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		b := newBench(t, o)
		for _, f := range []string{"b", "a/2", "a/1", "a\nb", "caf\xe9", "a.b"} {
			b.write("ws/d/"+f, f)
		}
		b.write("OUT/secret", "secret")
		b.link("../../OUT", "ws/d/a/out")
		es, err := b.look("d", true).Entries(ctx())
		must(t, err)
		var names []string
		for _, e := range es {
			names = append(names, e.Name)
		}
		if want := []string{"a", "a\nb", "a.b", "b", "caf\xe9"}; !slices.Equal(names, want) {
			t.Errorf("got %q", names)
		}
		var walked []string
		must(t, b.look("d", true).Tree(ctx(), func(p op.Path, i Info, node func() (*Node, error)) error {
			n, err := node()
			if err != nil {
				return err
			}
			defer n.Close()
			if n.Info.Ino != i.Ino || n.Path != p {
				t.Errorf("%s opens as %s", p, n.Path)
			}
			walked = append(walked, fmt.Sprint(p, ":", i.Kind))
			return nil
		}))
		want := []string{"d/a:directory", "d/a/1:file", "d/a/2:file", "d/a/out:symlink", "d/a\nb:file", "d/a.b:file", "d/b:file", "d/caf\xe9:file"}
		if !slices.Equal(walked, want) {
			t.Errorf("got %q", walked)
		}
		count := 0
		must(t, b.look("d", true).Tree(ctx(), func(p op.Path, i Info, _ func() (*Node, error)) error {
			count++
			if i.Kind == op.Directory {
				return fs.SkipDir
			}
			return nil
		}))
		if count != 5 {
			t.Errorf("skipping saw %d", count)
		}
		stop := errors.New("enough")
		if err := b.look("d", true).Tree(ctx(), func(op.Path, Info, func() (*Node, error)) error { return stop }); err != stop {
			t.Errorf("got %v", err)
		}
		b.write("ws/d/goes/x", "x")
		walked = nil
		must(t, b.look("d", true).Tree(ctx(), func(p op.Path, i Info, _ func() (*Node, error)) error {
			if walked = append(walked, string(p)); p == "d/goes" { // between its opening and its reading
				return os.RemoveAll(filepath.Join(b.ws, "d/goes"))
			}
			return nil
		}))
		if want := []string{"d/a", "d/a/1", "d/a/2", "d/a/out", "d/a\nb", "d/a.b", "d/b", "d/caf\xe9", "d/goes"}; !slices.Equal(walked, want) {
			t.Errorf("around what went meanwhile: %q", walked)
		}
		for _, bad := range []string{"", ".", "..", "a/1", "a\x00"} {
			_, err := b.look("d", true).Child(bad)
			wants(t, err, op.InvalidPath)
		}
		c, err := b.look("d", true).Child("b")
		must(t, err)
		c.Close()
		// The names of the raw kind are found again through Clean.
		for _, e := range es {
			p, err := b.root.Clean(op.Escape("d/" + e.Name))
			if err != nil || b.look(p, false).Info.Ino != e.Info.Ino {
				t.Errorf("%q: %v", e.Name, err)
			}
		}
	})
}

func TestManifest(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		b := newBench(t, o)
		b.write("ws/d/a", "one")
		b.write("ws/d/s/b", "two")
		b.link("a", "ws/d/l")
		sum := func() Manifest {
			t.Helper()
			m, err := b.look("d", true).Manifest(ctx())
			must(t, err)
			return m
		}
		first := sum()
		if first.Entries != 4 || first.Bytes != 6 {
			t.Errorf("got %+v", first)
		}
		seen := map[op.Digest]string{first.Digest: "start"}
		differs := func(what string) {
			t.Helper()
			d := sum().Digest
			if by, twice := seen[d]; twice {
				t.Errorf("%s looks like %s", what, by)
			}
			seen[d] = what
		}
		same := time.Now()
		must(t, os.Chtimes(b.path("ws/d/a"), same, same))
		if sum().Digest != first.Digest {
			t.Error("a touch counts")
		}
		b.write("ws/d/a", "eno")
		differs("equal size")
		must(t, os.Chmod(b.path("ws/d/s"), 0o700))
		differs("mode of a directory")
		must(t, os.Rename(b.path("ws/d/a"), b.path("ws/d/c")))
		differs("another name")
		must(t, os.Remove(b.path("ws/d/l")))
		b.link("b", "ws/d/l")
		differs("another link text")
		must(t, os.Remove(b.path("ws/d/l")))
		b.write("ws/d/l", "b")
		differs("a file for a link")
		must(t, unix.Mkfifo(b.path("ws/d/p"), 0o644))
		differs("a FIFO")
	})
}

// A second manifest reads again only what was touched, and notices an equal-size change
// whose mtime was set back.
func TestManifestMemo(t *testing.T) {
	b := newBench(t, Options{})
	b.write("ws/d/a", "one")
	b.write("ws/d/b", "two")
	time.Sleep(3 * tick)
	n := b.look("d", true)
	m1, seen, err := n.manifest(ctx(), nil)
	must(t, err)
	must(t, os.Rename(b.path("ws/d"), b.path("ws/e"))) // as into quarantine
	m2, _, err := n.manifest(ctx(), seen)
	if err != nil || m2 != m1 {
		t.Errorf("%v: %v, then %v", err, m1, m2)
	}
	forged := seen["a"]
	forged.digest = "blake3:forged"
	seen["a"] = forged
	if m, _, _ := n.manifest(ctx(), seen); m == m1 {
		t.Error("untouched entries were read again")
	}
	old, _ := os.Stat(b.path("ws/e/b"))
	must(t, os.WriteFile(b.path("ws/e/b"), []byte("owt"), 0o644))
	must(t, os.Chtimes(b.path("ws/e/b"), old.ModTime(), old.ModTime()))
	_, seen, _ = n.manifest(ctx(), nil)
	if m3, _, _ := n.manifest(ctx(), seen); m3 == m1 {
		t.Error("a change with the old mtime was missed")
	}
}

// Mounts inside the root are refused, by id and not by device number.
func TestMounts(t *testing.T) {
	rootOnly(t)
	both(t, func(t *testing.T, o Options) {
		b := newBench(t, o)
		b.write("OUT/secret", "secret")
		b.write("ws/d/f", "x")
		must(t, os.MkdirAll(b.path("ws/d/m"), 0o755))
		must(t, os.MkdirAll(b.path("ws/tmp"), 0o755))
		b.write("ws/single", "x")
		bind := func(from, to string) {
			must(t, unix.Mount(from, to, "", unix.MS_BIND, ""))
			t.Cleanup(func() { _ = unix.Unmount(to, unix.MNT_DETACH) })
		}
		bind(b.path("OUT"), b.path("ws/d/m"))
		bind(b.path("OUT/secret"), b.path("ws/single"))
		must(t, unix.Mount("tmpfs", b.path("ws/tmp"), "tmpfs", 0, "size=64k"))
		t.Cleanup(func() { _ = unix.Unmount(b.path("ws/tmp"), unix.MNT_DETACH) })
		b.link("d/m/secret", "ws/l")
		for _, p := range []op.Path{"d/m", "d/m/secret", "d/m/none", "tmp", "tmp/x", "l", "single"} {
			wants(t, b.lookErr(p, true), op.CrossesMount)
		}
		_, err := b.look("d", true).Manifest(ctx())
		wants(t, err, op.CrossesMount)
		_, err = OpenStore(filepath.Join(b.path("ws/tmp"), "store"), b.root)
		wants(t, err, op.CrossDevice)
		_, err = OpenStore(filepath.Join(b.path("ws/d/m"), "store"), b.root) // the same device, another mount
		wants(t, err, op.CrossDevice)
	})
}

func TestLinkLimit(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		b := newBench(t, o)
		b.write("ws/l0", "end")
		for i := 1; i <= 41; i++ {
			b.link(fmt.Sprintf("l%d", i-1), fmt.Sprintf("ws/l%d", i))
		}
		if n := b.look("l40", true); n.Path != "l0" || len(n.Links) != 40 {
			t.Errorf("got %s over %d links", n.Path, len(n.Links))
		}
		wants(t, b.lookErr("l41", true), op.SymlinkRefused)
	})
}
