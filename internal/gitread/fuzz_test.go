package gitread

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
)

// FuzzPack reads every object that the list of a pack names. Whatever both files say, that ends, takes
// no more than an object may hold, and gives of an untouched pack the bytes that each name is
// the digest of.
func FuzzPack(f *testing.F) {
	dir, err := filepath.EvalSymlinks(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	list, data := packOf(f, dir)
	f.Add(list, data)
	f.Add(list, data[:len(data)/2])
	f.Add(list[:packNames], data)
	at := place{openRoot(f, dir), "objects"}
	file := filepath.Join(dir, "objects/pack/pack-0")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, idx, pack []byte) {
		for ending, b := range map[string][]byte{".idx": idx, ".pack": pack} {
			if err := os.WriteFile(file+ending, b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		untouched := bytes.Equal(idx, list) && bytes.Equal(pack, data)
		read := readPacked(t, at, untouched)
		if untouched && read < 20 {
			t.Errorf("%d objects were read", read)
		}
	})
}

// readPacked reads what all names of a pack lead to, and tells how many objects that were.
func readPacked(t *testing.T, at place, whole bool) (read int) {
	all, err := packs(context.Background(), at)
	if err != nil {
		if whole {
			t.Fatal(err)
		}
		return 0
	}
	s := &objects{ctx: context.Background(), all: all, seen: true}
	defer s.shut()
	for first := range 256 {
		names, err := all[0].begins([]byte{byte(first)})
		if err != nil && whole {
			t.Fatal(err)
		}
		for _, h := range names[:min(len(names), 64)] {
			o, err := s.read(h)
			switch {
			case err == nil && len(o.data) > maxObject:
				t.Fatalf("%d bytes of %s", len(o.data), h)
			case err == nil && !o.large() && int64(len(o.data)) != o.size:
				t.Fatalf("%s has %d bytes and says %d", h, len(o.data), o.size)
			case whole && (err != nil || digest(&stored{h, o.kind, o.size, o.data}) != h):
				t.Fatalf("%s: %v", h, err)
			case err == nil:
				read++
			}
		}
	}
	return read
}

// packOf lets git pack a history of which most is stored as differences.
func packOf(f *testing.F, dir string) (list, data []byte) {
	from := filepath.Join(dir, "from")
	run := func(args ...string) {
		c := exec.Command("git", append([]string{"-C", from, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		if out, err := c.CombinedOutput(); err != nil {
			f.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	if err := os.Mkdir(from, 0o755); err != nil {
		f.Fatal(err)
	}
	run("init", "-q")
	for i := range 8 {
		text := bytes.Repeat([]byte("some line of a file that changes little\n"), 20)
		text = append(text, plumbing.ComputeHash(plumbing.BlobObject, []byte{byte(i)}).String()...)
		if err := os.WriteFile(filepath.Join(from, "f"), text, 0o644); err != nil {
			f.Fatal(err)
		}
		run("add", "f")
		run("commit", "-q", "-m", "m")
	}
	run("repack", "-adfq", "--depth=50")
	for _, e := range []struct {
		ending string
		to     *[]byte
	}{{".idx", &list}, {".pack", &data}} {
		found, err := filepath.Glob(filepath.Join(from, ".git/objects/pack/*"+e.ending))
		if err != nil || len(found) != 1 {
			f.Fatal(found, err)
		}
		if *e.to, err = os.ReadFile(found[0]); err != nil {
			f.Fatal(err)
		}
	}
	return list, data
}
