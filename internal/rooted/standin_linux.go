package rooted

import (
	"context"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// Stand-ins are nodes for things that do not stand where they say: what an earlier part of
// a call will have moved, made or changed by the time a later part comes to it. They are
// good for planning and as sources of bytes and metadata; a change is never made through
// one, since Hold opens everything anew by its path.

// As gives the same thing under the path that it will have. The caller closes both.
func (n *Node) As(p op.Path) (*Node, error) {
	s := &Node{Asked: p, Path: p, Info: n.Info, in: n.in, hides: n.hides, parent: none, self: none, name: p.Base()}
	var err error
	if n.self >= 0 {
		s.self, err = dup(n.self)
	}
	if err == nil && n.parent >= 0 {
		s.parent, err = dup(n.parent)
	}
	if err != nil {
		s.Close()
		return nil, fail(err, p)
	}
	return s, nil
}

// Absence gives a path at which nothing will stand. dir is the directory that will be its
// parent, or with below the deepest that is there now; nil where there is none. missing
// lists the parents still to be made.
func Absence(p op.Path, dir *Node, below bool, missing []op.Path) (*Node, error) {
	s := &Node{Asked: p, Path: p, Info: Info{Kind: op.Absent}, Missing: missing, parent: none, self: none, name: p.Base()}
	if dir == nil || dir.self < 0 {
		return s, nil
	}
	s.in, s.hides = dir.in, dir.hides
	var err error
	if below {
		s.above, err = s.dirOf(dir.Path, dir.self)
	} else {
		s.parent, err = dup(dir.self)
	}
	if err != nil {
		return nil, fail(err, p)
	}
	return s, nil
}

// NewDir gives a directory that will have been made, and holds nothing that is there now.
func NewDir(p op.Path) *Node {
	return &Node{Asked: p, Path: p, Info: Info{Kind: op.Directory, Mode: 0o755}, parent: none, self: none, name: p.Base()}
}

// Imagine gives a file that will hold these bytes. They are in memory only.
func Imagine(p op.Path, content []byte, mode uint32) (*Node, error) {
	fd, err := unix.MemfdCreate("holdpoint", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fail(err, p)
	}
	n := &Node{Asked: p, Path: p, parent: none, self: fd, name: p.Base()}
	if err = writeAt(fd, content, 0); err == nil {
		n.Info, _, err = lookAt(fd, "")
	}
	if err != nil {
		n.Close()
		return nil, fail(err, p)
	}
	n.Info.Mode, n.Info.Links = mode, 1
	return n, nil
}

// ManifestWithout is the manifest of a directory from which some of what is below it will
// have been taken; without is asked for each path below n.
func (n *Node) ManifestWithout(ctx context.Context, without func(below string) bool) (Manifest, error) {
	return n.manifestOf(ctx, without)
}
