package gitread

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/op"
)

// forged are objects that stand under a name of the writer's choice.
type forged struct {
	t   *testing.T
	git string // the directory
}

func forge(t *testing.T) (*work, *forged) {
	w := newWork(t)
	w.git("init")
	w.write("s.txt", "one\n")
	w.git("add", ".")
	w.git("commit", "-m", "m")
	w.write("s.txt", "two\n")
	return w, &forged{t, filepath.Join(w.dir, ".git")}
}

func (f *forged) put(name string, b []byte) {
	f.t.Helper()
	at := filepath.Join(f.git, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		f.t.Fatal(err)
	}
	os.Remove(at)
	if err := os.WriteFile(at, b, 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func deflated(parts ...[]byte) []byte {
	var b bytes.Buffer
	z, _ := zlib.NewWriterLevel(&b, zlib.BestSpeed)
	for _, p := range parts {
		z.Write(p)
	}
	z.Close()
	return b.Bytes()
}

// loose writes an object under any name, saying any size.
func (f *forged) loose(name, kind string, size int, parts ...[]byte) {
	f.t.Helper()
	head := fmt.Appendf(nil, "%s %d\x00", kind, size)
	f.put("objects/"+name[:2]+"/"+name[2:], deflated(append([][]byte{head}, parts...)...))
}

// object writes one under the name that it has.
func (f *forged) object(kind string, body []byte) string {
	name := hex.EncodeToString(sum(fmt.Appendf(nil, "%s %d\x00", kind, len(body)), body))
	f.loose(name, kind, len(body), body)
	return name
}

func sum(parts ...[]byte) []byte {
	h := sha1.New()
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

func raw(name string) []byte { b, _ := hex.DecodeString(name); return b }

func entryOf(mode, name, hash string) []byte {
	return append([]byte(mode+" "+name+"\x00"), raw(hash)...)
}

func commitOf(tree string, parents ...string) []byte {
	text := "tree " + tree + "\n"
	for _, p := range parents {
		text += "parent " + p + "\n"
	}
	return []byte(text + "author a <a@b> 1700000000 +0000\ncommitter a <a@b> 1700000000 +0000\n\nm\n")
}

// packed is one entry of a pack: kind, the size it says, what it refers to, and its bytes.
type packed struct {
	name string
	kind byte
	size int
	base string // of a difference
	body []byte // deflated
}

func (f *forged) pack(list ...packed) {
	f.t.Helper()
	data := append([]byte("PACK"), 0, 0, 0, 2)
	data = binary.BigEndian.AppendUint32(data, uint32(len(list)))
	places := map[string]uint32{}
	var names []string
	for _, p := range list {
		places[p.name] = uint32(len(data))
		names = append(names, p.name)
		c, n := p.kind<<4|byte(p.size&15), p.size>>4
		for ; n > 0; n >>= 7 {
			data = append(data, c|0x80)
			c = byte(n & 0x7f)
		}
		data = append(append(append(data, c), raw(p.base)...), p.body...)
	}
	data = append(data, sum(data)...)
	slices.Sort(names)
	list2 := []byte("\xfftOc\x00\x00\x00\x02")
	for b := range 256 {
		n := 0
		for _, name := range names {
			if int(raw(name)[0]) <= b {
				n++
			}
		}
		list2 = binary.BigEndian.AppendUint32(list2, uint32(n))
	}
	for _, name := range names {
		list2 = append(list2, raw(name)...)
	}
	list2 = append(list2, make([]byte, 4*len(names))...)
	for _, name := range names {
		list2 = binary.BigEndian.AppendUint32(list2, places[name])
	}
	list2 = append(list2, data[len(data)-20:]...)
	list2 = append(list2, sum(list2)...)
	f.put("objects/pack/pack-f.pack", data)
	f.put("objects/pack/pack-f.idx", list2)
}

// difference says the sizes of both sides and carries three bytes.
func difference(from, to int) []byte {
	d := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(from)), uint64(to))
	return append(d, 3, 'a', 'b', 'c')
}

// index writes an index of one entry.
func (f *forged) index(name string) {
	f.t.Helper()
	e := make([]byte, 62)
	binary.BigEndian.PutUint32(e[24:], 0o100644)
	binary.BigEndian.PutUint16(e[60:], uint16(min(len(name), 0xfff)))
	e = append(e, name...)
	e = append(e, make([]byte, 8-len(e)%8)...)
	b := append([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x01"), e...)
	f.put("index", append(b, sum(b)...))
}

const (
	self  = "1111111111111111111111111111111111111111"
	other = "2222222222222222222222222222222222222222"
)

// TestHostileRepository: what a repository says of itself, in the worst case, costs an
// answer. It costs neither the daemon nor its memory, and it is over soon.
func TestHostileRepository(t *testing.T) {
	none := emptyTree.String()
	zeros := make([]byte, 1<<20)
	many := func(n int) (parts [][]byte) {
		for range n {
			parts = append(parts, zeros)
		}
		return parts
	}
	head := func(f *forged, name string) { f.put("HEAD", []byte(name+"\n")) }
	cases := []struct {
		name string
		make func(w *work, f *forged)
	}{
		{"a path of the index that begins with a slash", func(w *work, f *forged) { f.index("/x") }},
		{"a path of the index that leads out", func(w *work, f *forged) { f.index("a/../../x") }},
		{"a path of the index without an end", func(w *work, f *forged) { f.index(strings.Repeat("a/", 200_000) + "b") }},
		{"a tree that is in itself", func(w *work, f *forged) {
			b := entryOf("40000", "a", self)
			f.loose(self, "tree", len(b), b)
			head(f, f.object("commit", commitOf(self)))
		}},
		{"a commit that is before itself", func(w *work, f *forged) {
			b := commitOf(none, self)
			f.loose(self, "commit", len(b), b)
			head(f, self)
		}},
		{"trees that hold the next one twice", func(w *work, f *forged) {
			below := f.object("tree", nil)
			for range 60 {
				below = f.object("tree", append(entryOf("40000", "a", below), entryOf("40000", "b", below)...))
			}
			head(f, f.object("commit", commitOf(below)))
		}},
		{"trees as deep as nothing on a disk", func(w *work, f *forged) {
			below := f.object("tree", entryOf("100644", "a", f.object("blob", []byte("x"))))
			for range 2100 {
				below = f.object("tree", entryOf("40000", "a", below))
			}
			head(f, f.object("commit", commitOf(below)))
		}},
		{"a commit of a gigabyte", func(w *work, f *forged) {
			f.loose(self, "commit", 1<<30, many(1<<10)...)
			head(f, self)
		}},
		{"a blob that holds more than it says", func(w *work, f *forged) {
			f.loose(self, "blob", 10, many(512)...)
			w.git("update-index", "--add", "--cacheinfo", "100644,"+self+",s.txt")
		}},
		{"a blob that says more than it holds", func(w *work, f *forged) {
			f.loose(self, "blob", 1<<62, zeros)
			w.git("update-index", "--add", "--cacheinfo", "100644,"+self+",s.txt")
		}},
		{"a packed commit that holds more than it says", func(w *work, f *forged) {
			f.pack(packed{name: self, kind: 1, size: 10, body: deflated(many(512)...)})
			head(f, self)
		}},
		{"a small difference to a packed object of a gigabyte", func(w *work, f *forged) {
			d := difference(1<<30, 3)
			f.pack(packed{self, 7, len(d), other, deflated(d)}, packed{name: other, kind: 3, size: 1 << 30, body: deflated(many(1 << 10)...)})
			w.git("update-index", "--add", "--cacheinfo", "100644,"+self+",s.txt")
		}},
		{"a difference that says that it makes a terabyte", func(w *work, f *forged) {
			d := difference(3, 1<<40)
			f.pack(packed{self, 7, len(d), other, deflated(d)}, packed{name: other, kind: 1, size: 3, body: deflated([]byte("abc"))})
			head(f, self)
		}},
		{"differences to each other", func(w *work, f *forged) {
			d := difference(3, 3)
			f.pack(packed{self, 7, len(d), other, deflated(d)}, packed{other, 7, len(d), self, deflated(d)})
			head(f, self)
		}},
		{"a list of a pack with four thousand million names", func(w *work, f *forged) {
			f.pack(packed{name: self, kind: 1, size: 3, body: deflated([]byte("abc"))})
			list := []byte("\xfftOc\x00\x00\x00\x02" + strings.Repeat("\xff\xff\xff\xff", 256))
			f.put("objects/pack/pack-f.idx", append(list, make([]byte, 100)...))
			head(f, self)
		}},
	}
	for _, c := range cases {
		t.Run("S78 (part): "+c.name, func(t *testing.T) {
			w, f := forge(t)
			c.make(w, f)
			var before, after runtime.MemStats
			refused := 0
			for _, args := range []any{&op.GitStatusArgs{}, &op.GitDiffArgs{}, &op.GitDiffArgs{Staged: true}, &op.GitDiffArgs{From: "HEAD"}, &op.GitLogArgs{}, &op.GitLogArgs{Paths: []string{"a"}},
				&op.GitShowArgs{}, &op.GitShowArgs{Rev: "HEAD:s.txt"}, &op.GitShowArgs{Rev: "HEAD~2000000000"}, &op.GitShowArgs{Rev: ":s.txt"}, &op.GitShowArgs{Rev: "1111"}, &op.GitBlameArgs{Path: "s.txt"}} {
				path := op.Path(".")
				if a, ok := args.(*op.GitBlameArgs); ok {
					path = op.Path(a.Path)
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				runtime.ReadMemStats(&before)
				_, err := Read(ctx, Options{Root: w.root, Path: path, Rules: rules{}}, args)
				runtime.ReadMemStats(&after)
				if ctx.Err() != nil {
					t.Errorf("%T %+v did not end", args, args)
				}
				cancel()
				if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 1000 {
					t.Errorf("%T %+v took %d MiB", args, args, got)
				}
				if err == nil {
					continue
				}
				refused++
				if code := op.AsError(err).Code; code == op.Internal || code == op.Cancelled || code == op.OutsideWorkspace {
					t.Errorf("%T %+v: %v", args, args, err)
				}
			}
			if refused == 0 {
				t.Error("nothing was refused")
			}
		})
	}
}

// TestLargeObjects: an object beyond the bound is named as such and its neighbours are read.
func TestLargeObjects(t *testing.T) {
	w, f := forge(t)
	body := bytes.Repeat([]byte("0123456789abcde\n"), (maxObject+16)/16)
	f.put("../large", body)
	w.git("add", "large")
	w.git("commit", "-m", "large")
	for _, packs := range []bool{false, true} {
		if packs {
			w.git("repack", "-adq")
		}
		if _, err := Read(context.Background(), Options{Root: w.root, Path: ".", Rules: rules{}}, &op.GitShowArgs{Rev: "HEAD:large"}); op.AsError(err).Code != op.TooLarge {
			t.Errorf("packed %v: %v, want too_large", packs, err)
		}
		got, err := Read(context.Background(), Options{Root: w.root, Path: ".", Rules: rules{}}, &op.GitShowArgs{Rev: "HEAD:s.txt"})
		if err != nil || got["content"] != "one\n" {
			t.Errorf("packed %v: %v %v", packs, got["content"], err)
		}
	}
}
