package rooted

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// Below opens what lies below one directory by names relative to it, for walks over many
// files. Each opening is one walk of the kernel that begins at the directory held: links
// are never followed, mounts never entered, so that a directory that is swapped for a
// link under the walk is not found, and nothing outside ever is. It is safe for
// concurrent use; who made it closes it when no other method runs.
type Below struct {
	Path  op.Path // of the directory
	fd    int
	in    opener
	hides func(op.Path) bool
}

// Below holds a directory open for a walk.
func (n *Node) Below() (*Below, error) {
	if n.Info.Kind != op.Directory {
		return nil, op.Fail(op.NotADirectory, "a "+string(n.Info.Kind)+" is there, not a directory").At(n.Path)
	}
	fd, err := dup(n.self)
	if err != nil {
		return nil, fail(err, n.Path)
	}
	return &Below{Path: n.Path, fd: fd, in: n.in, hides: n.hides}, nil
}

// Close lets the directory go.
func (b *Below) Close() { closeFD(b.fd) }

func (b *Below) at(rel string) op.Path {
	if rel == "" {
		return b.Path
	}
	return b.Path.Join(rel)
}

// Dir opens a directory; rel is "" for the one held. The caller closes it.
func (b *Below) Dir(rel string) (*Dir, error) {
	if rel != "" && b.hides != nil && b.hides(b.at(rel)) {
		return nil, outside(b.at(rel))
	}
	fd, err := b.open(rel)
	if err != nil {
		return nil, fail(err, b.at(rel))
	}
	return &Dir{in: b.in, hides: b.hides, path: b.at(rel), fd: fd}, nil
}

func (b *Below) open(rel string) (int, error) {
	if rel == "" {
		rel = "."
	}
	if rel == ".." || strings.HasPrefix(rel, "../") || strings.HasSuffix(rel, "/..") || strings.Contains(rel, "/../") {
		return none, outside(b.Path)
	}
	const flags = unix.O_RDONLY | unix.O_DIRECTORY
	if b.in.openat2 || !strings.Contains(rel, "/") {
		return b.in.open(b.fd, rel, flags)
	}
	fd := b.fd
	for name := range strings.SplitSeq(rel, "/") {
		next, err := b.in.open(fd, name, flags)
		if fd != b.fd {
			closeFD(fd)
		}
		if err != nil {
			return none, err
		}
		fd = next
	}
	return fd, nil
}

// Dir is one directory of a walk, held open.
type Dir struct {
	in    opener
	hides func(op.Path) bool
	path  op.Path
	fd    int
}

// Close lets the directory go.
func (d *Dir) Close() { closeFD(d.fd) }

// Found is one name of a directory and what the directory says stands there.
type Found struct {
	Name string
	Kind op.Kind
}

// direntHead is what stands before a name in a record of getdents64: inode, offset,
// length and type.
const direntHead = 8 + 8 + 2 + 1

var direntBuffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// Names lists the directory, sorted bytewise. Nothing is looked at beyond what the
// directory itself says, except where its file system does not say what a name is.
func (d *Dir) Names(ctx context.Context) ([]Found, error) {
	buf := direntBuffers.Get().(*[64 << 10]byte)
	defer direntBuffers.Put(buf)
	var text []byte // all names, one after the other
	var ends []int
	var kinds []op.Kind
	for {
		if err := ctx.Err(); err != nil {
			return nil, op.Fail(op.Cancelled, "cancelled while listing").At(d.path).Because(err)
		}
		var n int
		err := retry(func() (err error) { n, err = unix.Getdents(d.fd, buf[:]); return err })
		if err != nil {
			return nil, fail(err, d.path)
		}
		if n == 0 {
			break
		}
		for rest := buf[:n]; len(rest) > direntHead; {
			length := int(binary.NativeEndian.Uint16(rest[16:]))
			name := rest[direntHead:length]
			name = name[:max(0, bytes.IndexByte(name, 0))]
			kind := kindOfEntry(rest[18])
			rest = rest[length:]
			if string(name) == "." || string(name) == ".." || len(name) == 0 {
				continue
			}
			text, ends, kinds = append(text, name...), append(ends, len(text)+len(name)), append(kinds, kind)
		}
	}
	all, begin := string(text), 0
	out := make([]Found, 0, len(ends))
	for i, end := range ends {
		f := Found{all[begin:end], kinds[i]}
		begin = end
		if f.Kind == op.Unknown {
			info, _, err := lookAt(d.fd, f.Name)
			if err == unix.ENOENT {
				continue
			}
			f.Kind = info.Kind
		}
		// What is hidden is a directory, or a name with a dot.
		if (f.Kind == op.Directory || f.Name[0] == '.') && d.hides != nil && d.hides(d.path.Join(f.Name)) {
			continue
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b Found) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func kindOfEntry(t byte) op.Kind {
	switch t {
	case unix.DT_REG:
		return op.File
	case unix.DT_DIR:
		return op.Directory
	case unix.DT_LNK:
		return op.Symlink
	case unix.DT_FIFO:
		return op.Fifo
	case unix.DT_SOCK:
		return op.Socket
	case unix.DT_CHR, unix.DT_BLK:
		return op.Device
	}
	return op.Unknown
}

// Info looks at one name without following it. Unlike a node's it holds no text of a link
// and does not tell a frozen file: it is for listings.
func (d *Dir) Info(name string) (Info, error) {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT) })
	if err != nil {
		return Info{}, fail(err, d.path.Join(name))
	}
	return Info{
		Kind: kindOf(uint16(st.Mode)), Size: st.Size, Mode: st.Mode & 0o7777, UID: st.Uid, GID: st.Gid, Links: uint64(st.Nlink), Dev: uint64(st.Dev), Ino: st.Ino,
		Mtime: time.Unix(st.Mtim.Unix()), Ctime: time.Unix(st.Ctim.Unix()),
	}, nil
}

// Open opens a name that the directory called a regular file. It never waits: what has
// become something else meanwhile is refused.
func (d *Dir) Open(name string) (Reading, error) {
	fd, err := d.in.open(d.fd, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return Reading{fd: none}, fail(err, d.path.Join(name))
	}
	var st unix.Stat_t
	if err = retry(func() error { return unix.Fstat(fd, &st) }); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = op.Fail(op.SpecialFile, "no regular file is there").At(d.path.Join(name))
	}
	if err != nil {
		closeFD(fd)
		return Reading{fd: none}, fail(err, d.path.Join(name))
	}
	return Reading{Size: st.Size, fd: fd}, nil
}

// Small reads a whole file of at most max bytes; nil where there is none, it is no
// regular file, it is larger or cannot be read.
func (d *Dir) Small(name string, max int64) []byte {
	r, err := d.Open(name)
	if err != nil || r.Size > max {
		r.Close()
		return nil
	}
	defer r.Close()
	b, err := readAt(r.fd, 0, int(r.Size))
	if err != nil {
		return nil
	}
	return b
}

// Reading is a regular file open for reading. Unlike Node.Read it does not promise bytes
// of one moment: it is for searching, where a file that changes is seen as it changes.
type Reading struct {
	Size int64 // when it was opened
	fd   int
}

// Close lets the file go.
func (r Reading) Close() { closeFD(r.fd) }

// ReadAt fills b from off on; fewer bytes only at the end of the file.
func (r Reading) ReadAt(b []byte, off int64) (int, error) {
	have := 0
	for have < len(b) {
		n, err := pread(r.fd, b[have:], off+int64(have))
		if err != nil {
			return have, fail(err, "")
		}
		if n == 0 {
			break
		}
		have += n
		if off+int64(have) >= r.Size { // the end, as far as was known; a longer file is read on by asking again
			break
		}
	}
	return have, nil
}
