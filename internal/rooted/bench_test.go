//go:build linux

package rooted

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdpoint/op"
)

func benchRoot(b *testing.B, o Options) (*Root, *Store, string) {
	dir := b.TempDir()
	ws := dir + "/ws"
	if err := os.MkdirAll(ws+"/a/b/c/d", 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(ws+"/a/b/c/d/f", []byte(strings.Repeat("x", 256)), 0o644); err != nil {
		b.Fatal(err)
	}
	r, err := Open(ws, o)
	if err != nil {
		b.Fatal(err)
	}
	s, err := OpenStore(dir+"/store", r)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close(); _ = r.Close() })
	return r, s, ws
}

func BenchmarkLook(b *testing.B) {
	for name, o := range map[string]Options{"openat2": {}, "by names": {NoOpenat2: true}} {
		r, _, _ := benchRoot(b, o)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				n, err := r.Look(ctx(), "a/b/c/d/f", true)
				if err != nil {
					b.Fatal(err)
				}
				n.Close()
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	r, _, _ := benchRoot(b, Options{})
	for b.Loop() {
		n, err := r.Look(ctx(), "a/b/c/d/f", true)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := n.Read(1 << 20); err != nil {
			b.Fatal(err)
		}
		n.Close()
	}
}

// BenchmarkReplace is look, hash, stage, hold, apply and drop of a file of 256 bytes.
func BenchmarkReplace(b *testing.B) {
	r, s, _ := benchRoot(b, Options{})
	texts := []string{strings.Repeat("x", 256), strings.Repeat("y", 256)}
	hashes := []op.Digest{HashBytes([]byte(texts[0])), HashBytes([]byte(texts[1]))}
	for i := 0; b.Loop(); i++ {
		n, err := r.Look(ctx(), "a/b/c/d/f", true)
		if err != nil {
			b.Fatal(err)
		}
		st, err := s.Stage(ctx(), "s", strings.NewReader(texts[(i+1)%2]), Meta{Like: n})
		n.Close()
		if err != nil {
			b.Fatal(err)
		}
		h, err := r.Hold(ctx(), s, []op.Step{{Do: op.Swap, Path: "a/b/c/d/f", Slot: "s", Inode: st.Inode, After: st.State,
			Before: op.State{Kind: op.File, Hash: hashes[i%2]}}}, HoldOptions{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := h.Apply(ctx()); err != nil {
			b.Fatal(err)
		}
		h.Close()
		if err := s.Drop("s"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHarvest takes a view apart whose program made 20,000 small files in new directories.
func BenchmarkHarvest(b *testing.B) {
	r, s, ws := benchRoot(b, Options{})
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		id := fmt.Sprintf("cs_b%d", i)
		since := Moment()
		v, err := s.OpenView(id, r)
		if err != nil {
			b.Fatal(err)
		}
		v.Close()
		up := filepath.Join(filepath.Dir(ws), "store", viewSlot(id), "upper", "build")
		for d := range 100 {
			dir := filepath.Join(up, fmt.Sprint("d", d))
			if err := os.MkdirAll(dir, 0o755); err != nil {
				b.Fatal(err)
			}
			for f := range 200 {
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("o%d.o", f)), fmt.Appendf(nil, "object %d %d\n", d, f), 0o644); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.StartTimer()
		h, err := s.Harvest(ctx(), id, r, since, nil)
		if err != nil || len(h.Steps) != 1 || h.Changes[0].Entries != 20_100 {
			b.Fatal(err, len(h.Steps))
		}
		b.StopTimer()
		for _, step := range h.Steps {
			if err := s.Drop(step.Slot); err != nil {
				b.Fatal(err)
			}
		}
		if err := s.DropView(id); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkManifest digests a folder of 10,000 files: in a root that was just opened, and
// again when nobody touched it since.
func BenchmarkManifest(b *testing.B) {
	_, _, ws := benchRoot(b, Options{})
	for i := range 10_000 {
		dir := filepath.Join(ws, "many", fmt.Sprintf("d%03d", i/100))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%06d", i)), []byte(strings.Repeat("line of text\n", 20+i%900)), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	settle()
	open := func() (*Root, *Node) {
		r, err := Open(ws, Options{})
		if err != nil {
			b.Fatal(err)
		}
		n, err := r.Look(ctx(), "many", false)
		if err != nil {
			b.Fatal(err)
		}
		return r, n
	}
	sum := func(n *Node) {
		if m, err := n.Manifest(ctx()); err != nil || m.Entries != 10_100 {
			b.Fatal(m, err)
		}
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			r, n := open()
			sum(n)
			n.Close()
			_ = r.Close()
		}
	})
	b.Run("unchanged", func(b *testing.B) {
		_, n := open()
		sum(n)
		for b.Loop() {
			sum(n)
		}
	})
}

// BenchmarkHashLarge digests a file of 256 MiB by all cores.
func BenchmarkHashLarge(b *testing.B) {
	r, _, ws := benchRoot(b, Options{})
	const size = 256 << 20
	if err := os.WriteFile(ws+"/big", []byte(strings.Repeat("0123456789abcdef", size/16)), 0o644); err != nil {
		b.Fatal(err)
	}
	n, err := r.Look(ctx(), "big", false)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(size)
	for b.Loop() {
		if _, _, err := n.Hash(ctx()); err != nil {
			b.Fatal(err)
		}
	}
}
