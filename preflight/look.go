// Package preflight observes what a call would touch: canonical paths, existence, kind,
// size, mode, BLAKE3, links and marks, all from handles that stay open until the call ends.
//
// It never writes anything into the workspace, takes no lock and runs no program. It does
// not decide and does not plan: what it could not see stays a missing fact, which sends
// the call to a person.
package preflight

import (
	"context"
	"errors"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// Marker says what the operator's and the built-in lists hold of a path.
type Marker interface {
	// Protected judges one name; by is the pattern, from where it stands. Empty: not protected.
	Protected(p op.Path, dir bool) (by, from string)
	// ProtectedBelow judges all names below a directory of this manifest, and gives the first
	// that is protected. Empty: none is.
	ProtectedBelow(dir op.Path, manifest op.Digest, list []op.Beneath) (at op.Path, by, from string)
	// Sensitive judges name and the head of the content, which may be nil.
	Sensitive(p op.Path, head []byte) bool
	// Ignored tells whether git would ignore the path.
	Ignored(ctx context.Context, p op.Path, dir bool) bool
	// ShapesRepository tells whether a thing of this name would stand in, or complete, a
	// directory that git takes for a repository.
	ShapesRepository(ctx context.Context, p op.Path) bool
}

// Depth says how much of a directory has to be looked at.
type Depth uint8

const (
	// Shallow takes a directory as one thing: reads and creates.
	Shallow Depth = iota
	// Deep digests all that lies below and looks for protected names in it: delete, move.
	Deep
)

// Sight is what was seen: one target and one open node for each subject, in order, and
// behind them the directories that would have to be made. The caller closes it.
type Sight struct {
	Targets   []op.Target
	Nodes     []*rooted.Node
	Contents  [][]byte // of each node: all bytes of a file up to WholeBytes, else nil
	Available bool     // every fact that was asked for is there
}

// Close releases the handles.
func (s *Sight) Close() {
	for _, n := range s.Nodes {
		n.Close()
	}
}

const (
	// WholeBytes is the size up to which a file is read once and kept for the call.
	WholeBytes = 1 << 20
	// headBytes is how much of a larger file is read for the secret shapes.
	headBytes = 64 << 10
)

// Look sees each subject once. A nil Marker leaves the marks out, for what is only shown. Errors are those of a call that cannot succeed (a path
// outside, a dangling link); what merely could not be read is a missing fact instead.
func Look(ctx context.Context, root *rooted.Root, m Marker, subjects []op.Subject, depth Depth) (*Sight, error) {
	s := &Sight{Available: true}
	for _, sub := range subjects {
		if err := s.see(ctx, root, m, sub, depth); err != nil {
			s.Close()
			return nil, err
		}
	}
	if len(s.Targets) == 0 {
		s.Available = false
	}
	s.addParents(m)
	return s, nil
}

// find opens what a subject names, and tells what its inode does.
func find(ctx context.Context, root *rooted.Root, sub op.Subject) (n *rooted.Node, t op.Target, asked op.Path, err error) {
	if asked, err = root.Clean(sub.Asked); err == nil {
		// A spelling that ends in a slash means the directory, so a link is walked there too.
		n, err = root.Look(ctx, asked, sub.Follow || rooted.MeansDirectory(sub.Asked))
	}
	if err != nil {
		return nil, t, asked, within(err, "args."+sub.Arg)
	}
	t = op.Target{Path: n.Path, Asked: sub.Asked, Links: n.Links, Role: sub.Role, Kind: n.Info.Kind, Exists: n.Info.Kind != op.Absent}
	if t.Exists {
		t.Size, t.Mode, t.LinkCount = n.Info.Size, n.Info.ModeString(), n.Info.Links
	}
	return n, t, asked, nil
}

func (s *Sight) see(ctx context.Context, root *rooted.Root, m Marker, sub op.Subject, depth Depth) error {
	n, t, asked, err := find(ctx, root, sub)
	if err != nil {
		return err
	}
	s.Nodes = append(s.Nodes, n)
	head, whole, err := s.content(ctx, n, &t, depth)
	if err != nil {
		return within(err, "args."+sub.Arg)
	}
	s.Contents = append(s.Contents, whole)
	mark(ctx, m, &t, asked, head)
	if t.Below != nil {
		if at, by, from := m.ProtectedBelow(t.Path, t.Hash, t.Below.List); by != "" {
			t.ContainsProtected = true
			t.ProtectedBy, t.ProtectedFrom = by+" at "+op.Escape(string(at)), from
		}
	}
	s.Targets = append(s.Targets, t)
	return nil
}

// content fills the hash, and returns the head of a file and, of one that is not large,
// all of it. What cannot be read is a missing fact; a directory that another file system
// is mounted in can never be taken or moved as one, which is an error.
func (s *Sight) content(ctx context.Context, n *rooted.Node, t *op.Target, depth Depth) (head, whole []byte, err error) {
	switch t.Kind {
	case op.File:
		if t.Size <= WholeBytes {
			if whole, err = n.Read(WholeBytes + headBytes); err == nil {
				t.Hash, t.Size = rooted.HashBytes(whole), int64(len(whole))
				return whole[:min(len(whole), headBytes)], whole, nil
			}
		} else if head, err = n.ReadAt(0, headBytes); err == nil {
			if t.Hash, t.Size, err = n.Digest(ctx); err == nil {
				return head, nil, nil
			}
		}
	case op.Directory:
		if depth == Deep {
			var m rooted.Manifest
			below := &op.Below{}
			if m, err = n.Survey(ctx, func(p op.Path, i rooted.Info) { sum(below, p, i) }); err == nil {
				t.Hash, t.Size, t.Below = m.Digest, m.Bytes, below
			}
		}
	case op.Symlink:
		t.Hash = rooted.HashBytes([]byte(n.Info.Target))
	case op.Absent:
	default:
		// A FIFO, a socket or a device has no content to pin.
		s.Available = false
	}
	if errors.Is(err, op.CrossesMount) {
		return nil, nil, err
	}
	if err != nil {
		t.Hash, s.Available = "", false
	}
	return nil, nil, nil
}

// mark judges the canonical path, the asked one and every link walked on the way; the
// strictest counts, so that no spelling dodges a pattern.
func mark(ctx context.Context, m Marker, t *op.Target, asked op.Path, head []byte) {
	if m == nil {
		return
	}
	dir := t.Kind == op.Directory
	names := []op.Path{t.Path}
	if asked != t.Path {
		names = append(names, asked)
	}
	for _, l := range t.Links {
		if l.Path != asked {
			names = append(names, l.Path)
		}
	}
	for _, p := range names {
		if by, from := m.Protected(p, dir); by != "" && !t.Protected {
			t.Protected, t.ProtectedBy, t.ProtectedFrom = true, by, from
		}
	}
	if !t.Protected && m.ShapesRepository(ctx, t.Path) {
		t.Protected, t.ProtectedBy, t.ProtectedFrom = true, "looks_like_git_dir", "shape"
	}
	t.Sensitive = m.Sensitive(t.Path, head)
	t.Ignored = m.Ignored(ctx, t.Path, dir)
}

// sum adds one thing to what lies below a directory.
func sum(b *op.Below, p op.Path, info rooted.Info) {
	one := op.Beneath{Path: p, Kind: info.Kind}
	switch info.Kind {
	case op.File:
		b.Files++
		b.Bytes += info.Size
		one.Size = info.Size
	case op.Directory:
		b.Directories++
	default:
		b.Others++
	}
	b.List = append(b.List, one)
}

// addParents lists the directories that do not exist yet, once each.
func (s *Sight) addParents(m Marker) {
	if m == nil {
		return
	}
	seen := map[op.Path]bool{}
	for _, n := range s.Nodes {
		for _, p := range n.Missing {
			if seen[p] {
				continue
			}
			seen[p] = true
			t := op.Target{Path: p, Role: op.RoleParent, Kind: op.Absent}
			if by, from := m.Protected(p, true); by != "" {
				t.Protected, t.ProtectedBy, t.ProtectedFrom = true, by, from
			}
			s.Targets = append(s.Targets, t)
		}
	}
}

func within(err error, field string) error {
	e := *op.AsError(err)
	if e.Field == "" {
		e.Field = field
	}
	return &e
}
