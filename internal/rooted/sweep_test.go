//go:build linux

package rooted

import (
	"os"
	"testing"

	"holdpoint/op"
)

// TestSweep: a sweep tells of a file what Look and Known tell, and of nothing else; what
// comes to stand on the way under it is not walked.
func TestSweep(t *testing.T) {
	b := onDisk(t, Options{})
	b.write("ws/d/a", "one")
	b.write("ws/d/b", "two")
	b.write("ws/e/c", "three")
	b.write("OUT/a", "secret")
	b.link("a", "ws/d/l")
	b.link("d", "ws/way")
	b.write("ws/.own/x", "ours")
	b.root.Hide(".own")
	settle()
	s := b.root.Sweep()
	defer s.Close()
	file := func(p op.Path) (Known, bool, bool) {
		read := false
		i, k, ok := s.File(ctx(), p, 1<<20, func([]byte, bool) any { read = true; return p })
		if ok && (i.Kind != op.File || k.Note == nil) {
			t.Errorf("%s: %+v %+v", p, i, k)
		}
		return k, read, ok
	}
	for range 2 { // what another path's study gave is told of a file under one path alone
		for p, text := range map[op.Path]string{"d/a": "one", "d/b": "two", "e/c": "three"} {
			if k, _, ok := file(p); !ok || k.Digest != HashBytes([]byte(text)) || k.Note != any(p) || k.Size != int64(len(text)) {
				t.Errorf("%s: %+v %v", p, k, ok)
			}
		}
	}
	if _, read, ok := file("d/a"); read || !ok {
		t.Error("a known file was read again")
	}
	for _, p := range []op.Path{"d", "d/l", "way/a", "none", "d/none", ".own/x", ".", ""} {
		if _, _, ok := file(p); ok {
			t.Errorf("%q was told of", p)
		}
	}
	must(t, os.Rename(b.path("ws/d"), b.path("ws/was")))
	b.link("../OUT", "ws/d")
	if k, _, ok := file("e/c"); !ok {
		t.Errorf("%+v", k) // and the directory held is another one now
	}
	if _, _, ok := file("d/a"); ok {
		t.Error("a link was walked out of the root")
	}
	by := benchIn(t, t.TempDir(), Options{NoOpenat2: true})
	by.write("ws/f", "x")
	if _, _, ok := by.root.Sweep().File(ctx(), "f", 1, nil); ok {
		t.Error("without openat2 nothing keeps the way below the root")
	}
}
