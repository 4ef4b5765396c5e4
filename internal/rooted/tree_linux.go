package rooted

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// Entries lists a directory, names sorted bytewise, each looked at without following it.
// A name that vanishes meanwhile is left out.
func (n *Node) Entries(ctx context.Context) ([]Entry, error) {
	names, err := n.names()
	if err != nil {
		return nil, err
	}
	out := make([]Entry, 0, len(names))
	for i, name := range names {
		if i%256 == 0 && ctx.Err() != nil {
			return nil, op.Fail(op.Cancelled, "cancelled while listing").At(n.Path).Because(ctx.Err())
		}
		info, _, err := lookAt(n.self, name)
		if err == unix.ENOENT || err == nil && n.hides != nil && n.hides(n.Path.Join(name)) {
			continue
		}
		if err != nil {
			return nil, fail(err, n.Path.Join(name))
		}
		out = append(out, Entry{name, info})
	}
	return out, nil
}

func (n *Node) names() ([]string, error) {
	switch n.Info.Kind {
	case op.Directory:
	case op.Absent:
		return nil, op.Fail(op.NotFound, "nothing is there").At(n.Path)
	default:
		return nil, op.Fail(op.NotADirectory, "a "+string(n.Info.Kind)+" is there, not a directory").At(n.Path)
	}
	fd, err := unix.Openat(n.self, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fail(err, n.Path)
	}
	f := os.NewFile(uintptr(fd), ".")
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, fail(err, n.Path)
	}
	slices.Sort(names)
	return names, nil
}

// Tree calls fn for everything below a directory, in sorted order, a directory before
// what it holds. It goes by handle, never into links; a mount point on the way ends it
// with crosses_mount. node opens the thing for fn, which closes it. fn may answer
// fs.SkipDir to pass over a directory, and any other error ends the walk.
func (n *Node) Tree(ctx context.Context, fn Visit) error { return n.TreePast(ctx, fn, nil) }

// TreePast is Tree that passes over mount points and over directories that may not be read,
// of which fn was told before: past is told of each with the reason, crosses_mount or
// permission_denied, and ends the walk by an error. nil ends it with the reason.
func (n *Node) TreePast(ctx context.Context, fn Visit, past func(p op.Path, why error) error) error {
	entries, err := n.Entries(ctx)
	if err != nil {
		return err
	}
	return n.visitAll(ctx, entries, fn, past)
}

func (n *Node) visitAll(ctx context.Context, entries []Entry, fn Visit, past func(op.Path, error) error) error {
	for _, e := range entries {
		if err := n.visit(ctx, e, fn, past); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) visit(ctx context.Context, e Entry, fn Visit, past func(op.Path, error) error) error {
	p := n.Path.Join(e.Name)
	if e.Info.Kind != op.Directory {
		err := fn(p, e.Info, func() (*Node, error) { return n.child(e.Name) })
		if errors.Is(err, fs.SkipDir) {
			return nil
		}
		return err
	}
	dir, err := n.child(e.Name)
	if errors.Is(err, op.NotFound) {
		return nil
	}
	if past != nil && errors.Is(err, op.CrossesMount) {
		return past(p, err)
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	err = fn(p, dir.Info, func() (*Node, error) { return n.child(e.Name) })
	if errors.Is(err, fs.SkipDir) {
		return nil
	}
	if err != nil || dir.Info.Kind != op.Directory {
		return err
	}
	entries, err := dir.Entries(ctx)
	if errors.Is(err, op.NotFound) {
		return nil // it went since it was opened, as if there had been nothing in it
	}
	if past != nil && errors.Is(err, op.PermissionDenied) {
		return past(p, err)
	}
	if err != nil {
		return err
	}
	return dir.visitAll(ctx, entries, fn, past)
}

// Child opens one name of a directory by its handle, without reading it. A link is not
// followed. The caller closes the node.
func (n *Node) Child(name string) (*Node, error) {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return nil, op.Fail(op.InvalidPath, "not the name of one thing in a directory").At(n.Path)
	}
	if n.hides != nil && n.hides(n.Path.Join(name)) {
		return nil, outside(n.Path.Join(name))
	}
	if n.Info.Kind != op.Directory {
		return nil, op.Fail(op.NotADirectory, "a "+string(n.Info.Kind)+" is there, not a directory").At(n.Path)
	}
	return n.child(name)
}

// child opens one name that is known to be plain.
func (n *Node) child(name string) (*Node, error) {
	c := &Node{Path: n.Path.Join(name), in: n.in, hides: n.hides, parent: none, self: none, name: name, copied: n.copied}
	c.Asked = c.Path
	var err error
	if c.self, err = n.in.open(n.self, name, unix.O_PATH); err == nil {
		if c.Info, _, err = lookAt(c.self, ""); err == nil {
			c.parent, err = dup(n.self)
		}
	}
	if err != nil {
		c.Close()
		return nil, fail(err, c.Path)
	}
	return c, nil
}

// State is what stands here, as it is recorded.
func (n *Node) State(ctx context.Context) (op.State, error) {
	s, _, err := n.state(ctx, nil)
	return s, err
}

func (n *Node) state(ctx context.Context, old memo) (op.State, memo, error) {
	s := op.State{Kind: n.Info.Kind}
	var err error
	var made memo
	switch s.Kind {
	case op.Absent:
		return s, nil, nil
	case op.File:
		s.Hash, s.Size, err = n.Hash(ctx)
	case op.Symlink:
		s.Target, s.Size = n.Info.Target, n.Info.Size
		s.Hash = HashBytes([]byte(s.Target))
		return s, nil, nil // the mode of a link means nothing
	case op.Directory:
		var m Manifest
		m, made, err = n.manifest(ctx, old)
		s.Hash, s.Size = m.Digest, m.Bytes
	}
	s.Mode = n.Info.ModeString()
	return s, made, err
}
