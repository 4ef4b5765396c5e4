package gitread

import (
	"bytes"
	"context"
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
)

// entry is one line of git's index.
type entry struct {
	path         string
	hash         plumbing.Hash
	mode         filemode.FileMode
	stage        int
	skip         bool // not in the work tree on purpose
	trusted      bool // to be taken as unchanged, whatever the file holds
	intent       bool // to be added, without content yet
	ctime, mtime [2]uint32
	ino, size    uint32
	uid, gid     uint32
}

// index is what git tracks, in path order, with the trees that parts of it are known to be.
type index struct {
	entries []entry
	trees   map[string]cached // by directory, "" is the top
	mtime   time.Time
}

type cached struct {
	hash  plumbing.Hash
	count int
}

// readIndex reads the index of a work tree; an empty one where there is none.
func (r *repo) readIndex(ctx context.Context) (*index, error) {
	at := r.git.join("index")
	n, err := at.root.Look(ctx, at.path, true)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	idx := &index{trees: map[string]cached{}, mtime: n.Info.Mtime}
	raw, err := at.small(ctx, maxIndex)
	if err != nil || raw == nil {
		return idx, err
	}
	return idx, idx.parse(raw)
}

func (x *index) parse(raw []byte) error {
	bad := func() error { return unsupported("the index cannot be read") }
	if len(raw) < 12+20 || string(raw[:4]) != "DIRC" {
		return bad()
	}
	version, count := binary.BigEndian.Uint32(raw[4:]), int(binary.BigEndian.Uint32(raw[8:]))
	if version < 2 || version > 4 {
		return unsupported("index version " + strconv.Itoa(int(version)) + " is not read")
	}
	if count > len(raw)/62 {
		return bad()
	}
	x.entries = make([]entry, 0, count)
	body, at, before := raw[:len(raw)-20], 12, []byte(nil)
	for range count {
		e, next, name, ok := readEntry(body, at, version, before)
		if !ok {
			return bad()
		}
		x.entries, at, before = append(x.entries, e), next, name
	}
	for at+8 <= len(body) {
		name, size := string(body[at:at+4]), int(binary.BigEndian.Uint32(body[at+4:]))
		if at += 8; size < 0 || at+size > len(body) {
			return bad()
		}
		switch {
		case name == "TREE":
			x.readTrees(body[at : at+size])
		case name == "link":
			return unsupported("the index is split, which is not read")
		case name == "sdir":
			return unsupported("the index is sparse, which is not read")
		case name[0] < 'A' || name[0] > 'Z':
			return unsupported("the index has an extension that is not known")
		}
		at += size
	}
	for i := range x.entries {
		if !relative(x.entries[i].path) {
			return bad()
		}
	}
	return nil
}

// relative tells whether a path is one that git itself would put into an index: names with
// one slash between them, and none that leads elsewhere.
func relative(p string) bool {
	if p == "" || len(p) > longest || p[0] == '/' || p[len(p)-1] == '/' || strings.Contains(p, "//") {
		return false
	}
	if p[0] != '.' && !strings.Contains(p, "/.") {
		return true // as nearly all are
	}
	for name := range strings.SplitSeq(p, "/") {
		if name == "." || name == ".." || name == ".git" {
			return false
		}
	}
	return true
}

// readEntry reads the entry that begins at a place; before is the name of the one before.
func readEntry(b []byte, at int, version uint32, before []byte) (e entry, next int, name []byte, ok bool) {
	begin := at
	if at+62 > len(b) {
		return e, 0, nil, false
	}
	word := func(i int) uint32 { return binary.BigEndian.Uint32(b[at+i:]) }
	e.ctime, e.mtime = [2]uint32{word(0), word(4)}, [2]uint32{word(8), word(12)}
	e.ino, e.mode, e.uid, e.gid, e.size = word(20), filemode.FileMode(word(24)), word(28), word(32), word(36)
	copy(e.hash[:], b[at+40:])
	flags := binary.BigEndian.Uint16(b[at+60:])
	e.stage, e.trusted = int(flags>>12&3), flags&0x8000 != 0
	at += 62
	if flags&0x4000 != 0 {
		if at+2 > len(b) {
			return e, 0, nil, false
		}
		more := binary.BigEndian.Uint16(b[at:])
		e.skip, e.intent = more&0x4000 != 0, more&0x2000 != 0
		at += 2
	}
	if version == 4 {
		cut := 0
		for i := 0; ; i++ {
			if at >= len(b) || i > 4 {
				return e, 0, nil, false
			}
			c := b[at]
			at++
			if cut = cut<<7 | int(c&0x7f); c < 0x80 {
				break
			}
			cut++
		}
		if cut > len(before) {
			return e, 0, nil, false
		}
		name = append(name, before[:len(before)-cut]...)
	}
	end := bytes.IndexByte(b[at:], 0)
	if end < 0 {
		return e, 0, nil, false
	}
	name = append(name, b[at:at+end]...)
	e.path = string(name)
	if at += end + 1; version < 4 {
		at = begin + (at-begin+7)/8*8
	}
	return e, at, name, at <= len(b)
}

// readTrees reads which directories are known to be which trees; what cannot be read is
// left out, since it only saves work.
func (x *index) readTrees(b []byte) {
	var read func(dir string, depth int) bool
	read = func(dir string, depth int) bool {
		end := bytes.IndexByte(b, 0)
		if end < 0 || depth > 512 {
			return false
		}
		name := string(b[:end])
		b = b[end+1:]
		line := bytes.IndexByte(b, '\n')
		if line < 0 {
			return false
		}
		first, second, ok := bytes.Cut(b[:line], []byte(" "))
		count, err1 := strconv.Atoi(string(first))
		below, err2 := strconv.Atoi(string(second))
		b = b[line+1:]
		if !ok || err1 != nil || err2 != nil {
			return false
		}
		at := name
		if dir != "" {
			at = dir + "/" + name
		}
		if count >= 0 {
			if len(b) < 20 {
				return false
			}
			c := cached{count: count}
			copy(c.hash[:], b)
			b = b[20:]
			x.trees[at] = c
		}
		for range below {
			if !read(at, depth+1) {
				return false
			}
		}
		return true
	}
	read("", 0)
}
