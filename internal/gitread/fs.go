package gitread

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/go-git/go-billy/v5"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// place is a path in one of the directories that may be read.
type place struct {
	root *rooted.Root
	path op.Path
}

func (p place) join(rel string) place {
	return place{p.root, op.Path(path.Join(string(p.path), rel))}
}

func (p place) abs() string { return path.Join(p.root.Dir(), string(p.path)) }

// small reads a whole file; nil without an error where there is none.
func (p place) small(ctx context.Context, max int64) ([]byte, error) {
	n, err := p.root.Look(ctx, p.path, true)
	if errors.Is(err, op.NotFound) || errors.Is(err, op.NotADirectory) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer n.Close()
	if n.Info.Kind == op.Absent || n.Info.Kind == op.Directory {
		return nil, nil
	}
	return n.Read(max)
}

func (p place) kind(ctx context.Context) op.Kind {
	n, err := p.root.Look(ctx, p.path, true)
	if err != nil {
		return op.Absent
	}
	defer n.Close()
	return n.Info.Kind
}

// gitFS shows a directory to go-git: for reading only, by handle, confined.
type gitFS struct {
	ctx context.Context
	at  place
}

var _ billy.Filesystem = gitFS{}

func missing(name string) error {
	return &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

func (g gitFS) look(name string, follow bool) (*rooted.Node, error) {
	name = path.Clean(name)
	if name == ".." || strings.HasPrefix(name, "../") {
		return nil, missing(name)
	}
	n, err := g.at.root.Look(g.ctx, g.at.join(strings.TrimPrefix(name, "/")).path, follow)
	if errors.Is(err, op.NotFound) || errors.Is(err, op.NotADirectory) {
		return nil, missing(name)
	}
	if err != nil {
		return nil, err
	}
	if n.Info.Kind == op.Absent {
		n.Close()
		return nil, missing(name)
	}
	return n, nil
}

// Open opens a regular file. Objects, and the lists of where more of them lie, are hidden
// from go-git, which would believe what they say of themselves: they are read here.
func (g gitFS) Open(name string) (billy.File, error) {
	if strings.HasPrefix(path.Clean("/"+name), "/objects/") {
		return nil, missing(name)
	}
	n, err := g.look(name, true)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	f, err := n.Open()
	if err != nil {
		return nil, err
	}
	return file{f, name, g.ctx}, nil
}

func (g gitFS) OpenFile(name string, flag int, _ fs.FileMode) (billy.File, error) {
	if flag != 0 {
		return nil, billy.ErrReadOnly
	}
	return g.Open(name)
}

func (g gitFS) Stat(name string) (fs.FileInfo, error) {
	n, err := g.look(name, true)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	return info{path.Base(name), n.Info}, nil
}

func (g gitFS) Lstat(name string) (fs.FileInfo, error) {
	n, err := g.look(name, false)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	return info{path.Base(name), n.Info}, nil
}

func (g gitFS) Readlink(name string) (string, error) {
	n, err := g.look(name, false)
	if err != nil {
		return "", err
	}
	defer n.Close()
	return n.Info.Target, nil
}

func (g gitFS) ReadDir(name string) ([]fs.FileInfo, error) {
	n, err := g.look(name, true)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	b, err := n.Below()
	if err != nil {
		return nil, missing(name)
	}
	defer b.Close()
	d, err := b.Dir("")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Names(g.ctx)
	if err != nil {
		return nil, err
	}
	out := make([]fs.FileInfo, len(names))
	for i, f := range names {
		out[i] = info{f.Name, rooted.Info{Kind: f.Kind}}
	}
	return out, nil
}

func (g gitFS) Chroot(name string) (billy.Filesystem, error) {
	return gitFS{g.ctx, g.at.join(path.Join("/", name)[1:])}, nil
}
func (g gitFS) Root() string                                { return "/" }
func (g gitFS) Join(elem ...string) string                  { return path.Join(elem...) }
func (g gitFS) Create(string) (billy.File, error)           { return nil, billy.ErrReadOnly }
func (g gitFS) Rename(string, string) error                 { return billy.ErrReadOnly }
func (g gitFS) Remove(string) error                         { return billy.ErrReadOnly }
func (g gitFS) TempFile(string, string) (billy.File, error) { return nil, billy.ErrReadOnly }
func (g gitFS) MkdirAll(string, fs.FileMode) error          { return billy.ErrReadOnly }
func (g gitFS) Symlink(string, string) error                { return billy.ErrReadOnly }
func (g gitFS) Capabilities() billy.Capability              { return billy.ReadCapability | billy.SeekCapability }

// file is a regular file open for reading; a call that ends stops its reads.
type file struct {
	handle interface {
		io.Reader
		io.ReaderAt
		io.Seeker
		io.Closer
	}
	name string
	ctx  context.Context
}

func (f file) Name() string { return f.name }
func (f file) Read(b []byte) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	return f.handle.Read(b)
}
func (f file) ReadAt(b []byte, off int64) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	return f.handle.ReadAt(b, off)
}
func (f file) Seek(off int64, whence int) (int64, error) { return f.handle.Seek(off, whence) }
func (f file) Close() error                              { return f.handle.Close() }
func (f file) Write([]byte) (int, error)                 { return 0, billy.ErrReadOnly }
func (f file) Lock() error                               { return nil }
func (f file) Unlock() error                             { return nil }
func (f file) Truncate(int64) error                      { return billy.ErrReadOnly }

// info shows what stands at a path to go-git.
type info struct {
	name string
	is   rooted.Info
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.is.Size }
func (i info) ModTime() time.Time { return i.is.Mtime }
func (i info) IsDir() bool        { return i.is.Kind == op.Directory }
func (i info) Sys() any           { return nil }
func (i info) Mode() fs.FileMode {
	m := fs.FileMode(i.is.Mode & 0o777)
	switch i.is.Kind {
	case op.File:
	case op.Directory:
		m |= fs.ModeDir
	case op.Symlink:
		m |= fs.ModeSymlink
	default:
		m |= fs.ModeIrregular
	}
	return m
}
