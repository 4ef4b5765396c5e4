//go:build linux

package rooted

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

func TestHashTree(t *testing.T) {
	seed := uint64(20261129)
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	all := make([]byte, 5<<20)
	for i := range all {
		all[i] = byte(r.Uint32())
	}
	sizes := []int{2, 3, 1024, 1025}
	for _, blocks := range []int{1, 2, 3, 4} {
		for _, d := range []int{-1, 0, 1, 1024, leafBytes, leafBytes + 1} {
			sizes = append(sizes, blocks*blockBytes+d)
		}
	}
	for range 20 {
		sizes = append(sizes, blockBytes+1+r.IntN(4<<20-1))
	}
	path := filepath.Join(t.TempDir(), "f")
	for _, n := range sizes {
		if n <= blockBytes {
			continue // join wants two blocks; parallelFrom sees to it
		}
		if err := os.WriteFile(path, all[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		got, ok, err := hashTree(context.Background(), int(f.Fd()), int64(n), nil)
		if want := HashBytes(all[:n]); got != want || !ok || err != nil {
			t.Errorf("%d bytes: %s, %v, %v, want %s", n, got, ok, err, want)
		}
		if _, ok, err = hashTree(context.Background(), int(f.Fd()), int64(n)+1, nil); ok || err != nil {
			t.Errorf("%d bytes, one too many asked: %v, %v", n, ok, err)
		}
		if _, ok, err = hashTree(context.Background(), int(f.Fd()), int64(n)-1, nil); ok || err != nil {
			t.Errorf("%d bytes, one too few asked: %v, %v", n, ok, err)
		}
		f.Close()
	}
	t.Run("a large file and a cancelled one", func(t *testing.T) {
		dir := t.TempDir()
		big := bytes.Repeat(all, 7)
		if err := os.WriteFile(filepath.Join(dir, "big"), big, 0o600); err != nil {
			t.Fatal(err)
		}
		root, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		n, err := root.Look(context.Background(), "big", false)
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		d, size, err := n.Hash(context.Background())
		if d != HashBytes(big) || size != int64(len(big)) || err != nil {
			t.Errorf("%s of %d bytes, %v", d, size, err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, _, err = n.Hash(ctx); op.AsError(err).Code != op.Cancelled {
			t.Errorf("cancelled: %v", err)
		}
	})
}

func TestBelow(t *testing.T) {
	for _, o := range []Options{{}, {NoOpenat2: true}} {
		t.Run(fmt.Sprintf("openat2 %v", !o.NoOpenat2), func(t *testing.T) {
			base := t.TempDir()
			dir, out := filepath.Join(base, "ws"), filepath.Join(base, "out")
			for _, d := range []string{dir + "/a/b/c", out, dir + "/.holdpoint"} {
				if err := os.MkdirAll(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range []string{dir + "/a/b/f", dir + "/a/b/c/\xff\n", out + "/secret", dir + "/.holdpoint/x"} {
				if err := os.WriteFile(f, []byte("text of "+filepath.Base(f)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			os.Symlink("../../out", dir+"/a/link")
			os.Symlink("b", dir+"/a/near")
			unix.Mkfifo(dir+"/a/p", 0o644)
			root, err := Open(dir, o)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			root.Hide(".holdpoint")
			n, err := root.Look(context.Background(), ".", true)
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			b, err := n.Below()
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			names := func(rel string) string {
				d, err := b.Dir(rel)
				if err != nil {
					return string(op.AsError(err).Code)
				}
				defer d.Close()
				list, err := d.Names(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				return fmt.Sprintf("%q", list)
			}
			for rel, want := range map[string]string{
				"":           `[{"a" "directory"}]`,
				"a":          `[{"b" "directory"} {"link" "symlink"} {"near" "symlink"} {"p" "fifo"}]`,
				"a/b":        `[{"c" "directory"} {"f" "file"}]`,
				"a/b/c":      `[{"\xff\n" "file"}]`,
				".holdpoint": "outside_workspace",
				"a/gone":     "not_found",
			} {
				if got := names(rel); got != want {
					t.Errorf("%q: %s, want %s", rel, got, want)
				}
			}
			for _, rel := range []string{"a/link", "a/near", "a/near/c", "a/p", "a/b/f", "..", "a/../../out"} {
				d, err := b.Dir(rel)
				if err == nil {
					d.Close()
					t.Errorf("%q was opened", rel)
				}
			}
			d, err := b.Dir("a")
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			for _, name := range []string{"p", "link", "near", "b"} {
				if r, err := d.Open(name); err == nil {
					r.Close()
					t.Errorf("%s was opened for reading", name)
				}
			}
			// The directory is swapped for a link to the outside while it is known by name.
			os.Rename(dir+"/a/b", dir+"/a/b2")
			os.Symlink("../../out", dir+"/a/b")
			if d, err := b.Dir("a/b"); err == nil {
				d.Close()
				t.Error("a directory swapped for a link was entered")
			}
			sub, err := b.Dir("a/b2")
			if err != nil {
				t.Fatal(err)
			}
			defer sub.Close()
			if got := string(sub.Small("f", 100)); got != "text of f" {
				t.Errorf("read %q", got)
			}
			if sub.Small("f", 3) != nil || sub.Small("none", 3) != nil {
				t.Error("read more than the limit, or what is not there")
			}
		})
	}
}
