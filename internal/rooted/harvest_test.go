//go:build linux

package rooted

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// TestHarvest reads upper directories made by hand, with the marks of both name spaces and
// in all their forms, as other kernels leave them.
func TestHarvest(t *testing.T) {
	for _, space := range []string{"user.overlay.", "trusted.overlay."} {
		t.Run("whiteouts, opaque directories and bookkeeping of "+space, func(t *testing.T) {
			base := t.TempDir()
			var on unix.Statfs_t
			if err := unix.Statfs(base, &on); err != nil {
				t.Fatal(err)
			}
			if on.Type == unix.OVERLAYFS_SUPER_MAGIC {
				t.Skip("on an overlay no whiteout can be made by hand")
			}
			root := filepath.Join(base, "ws")
			for _, name := range []string{"device", "marked", "same", "opaque/old", "opaque/kept", "merged/stays", "merged/goes", "moved"} {
				os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755)
				if err := os.WriteFile(filepath.Join(root, name), []byte("the bytes of "+name), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			r, err := Open(root, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			s, err := OpenStore(filepath.Join(base, "store"), r)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			v, err := s.OpenView("cs_t", r)
			if err != nil {
				t.Fatal(err)
			}
			v.Close()
			up := filepath.Join(base, "store", "cs_t.view", "upper")
			at := func(name string) string {
				os.MkdirAll(filepath.Dir(filepath.Join(up, name)), 0o755)
				return filepath.Join(up, name)
			}
			put := func(name, content string) string {
				if err := os.WriteFile(at(name), []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
				return at(name)
			}
			mark := func(p, name, value string) {
				if err := unix.Setxattr(p, space+name, []byte(value), 0); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{"device", "merged/goes", "never"} {
				if err := unix.Mknod(at(name), unix.S_IFCHR, 0); err != nil {
					t.Fatal(err)
				}
			}
			mark(put("marked", ""), "whiteout", "y")
			mark(put("same", "the bytes of same"), "origin", "x")
			put("opaque/kept", "changed")
			mark(at("opaque"), "opaque", "y")
			mark(put("new/sub/f", "new"), "origin", "x")
			mark(at("new/sub"), "impure", "y")
			if err := unix.Mknod(at("new/gone"), unix.S_IFCHR, 0); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mknod(at("moved"), unix.S_IFCHR, 0); err != nil {
				t.Fatal(err)
			}
			put("to", "the bytes of moved")

			h, err := s.Harvest(t.Context(), "cs_t", r, time.Now().Add(time.Hour), nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range h.Changes {
				got = append(got, fmt.Sprintf("%s %s %s%d", c.Change, c.Path, c.From, c.Entries))
			}
			slices.Sort(got)
			want := []string{"created new 2", "created to moved0", "deleted device 0", "deleted marked 0", "deleted merged/goes 0", "deleted moved 0", "deleted opaque/old 0", "modified opaque/kept 0"}
			if !slices.Equal(got, want) {
				t.Errorf("got %q\nwant %q", got, want)
			}
			if h.Dropped != 1 || h.Tainted != "" || len(h.Left) > 0 {
				t.Errorf("dropped %d, tainted %q, left %q", h.Dropped, h.Tainted, h.Left)
			}
			for _, step := range h.Steps {
				if step.Do == op.Place && step.Path == "new" {
					for _, p := range []string{"", "sub", "sub/f"} {
						if n, _ := unix.Listxattr(filepath.Join(base, "store", step.Slot, p), nil); n > 0 {
							t.Errorf("%q bears attributes", p)
						}
					}
				}
			}
			held, err := r.Hold(t.Context(), s, h.Steps, HoldOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer held.Close()
			if _, err := held.Apply(t.Context()); err != nil {
				t.Fatal(err)
			}
			if b, _ := os.ReadFile(filepath.Join(root, "new/sub/f")); string(b) != "new" {
				t.Errorf("landed %q", b)
			}
		})
	}
	t.Run("what changed after the moment taints", func(t *testing.T) {
		base := t.TempDir()
		root := filepath.Join(base, "ws")
		os.Mkdir(root, 0o755)
		r, err := Open(root, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		s, err := OpenStore(filepath.Join(base, "store"), r)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		missed := 0
		for i := range 200 {
			id := fmt.Sprintf("cs_%d", i)
			v, err := s.OpenView(id, r)
			if err != nil {
				t.Fatal(err)
			}
			v.Close()
			since := Moment()
			os.WriteFile(filepath.Join(root, "f"), fmt.Append(nil, i), 0o644) // at once: a finer clock would take it for older
			os.WriteFile(filepath.Join(base, "store", id+".view", "upper", "f"), []byte("x"), 0o644)
			h, err := s.Harvest(t.Context(), id, r, since, nil)
			if err != nil {
				t.Fatal(err)
			}
			if h.Tainted != "f" {
				missed++
			}
		}
		if missed > 0 {
			t.Errorf("%d of 200 changes were missed", missed)
		}
	})
}

// TestBehind flushes a view behind a program that writes, and leaves nothing of it.
func TestBehind(t *testing.T) {
	b := onDisk(t, Options{})
	v, err := b.st.OpenView("cs_t", b.root)
	must(t, err)
	up := b.path("store/cs_t.view/upper")
	opened := func() (n int) {
		list, _ := filepath.Glob("/proc/self/fd/*")
		for _, fd := range list {
			if at, err := os.Readlink(fd); err == nil && at == up {
				n++
			}
		}
		return n
	}
	stop := v.Behind()
	for end := time.Now().Add(3 * firstBehind / 2); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		must(t, os.WriteFile(filepath.Join(up, "f"), []byte(end.String()), 0o644))
	}
	if n := opened(); n != 2 {
		t.Errorf("%d handles on the upper directory, not that of the view and one to flush by", n)
	}
	stop()
	stop()
	v.Close()
	for end := time.Now().Add(time.Minute); opened() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a handle is left")
		}
	}
}
