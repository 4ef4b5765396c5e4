package preflight

import (
	"context"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// Glancer is a Marker for looks at many paths, which keep no bytes.
type Glancer interface {
	Marker
	// Describe words what all bytes of a file are.
	Describe(b []byte) op.TextFacts
}

// studied is what is kept of a file's bytes beside their hash.
type studied struct {
	text   *op.TextFacts // nil of a large file
	secret bool
}

// Glance sees one path as a shallow Look does, and holds nothing afterwards. What is known
// of a file's bytes from an earlier look is told again where that is sound. available is
// false where a fact is missing.
func Glance(ctx context.Context, root *rooted.Root, sweep *rooted.Sweep, m Glancer, sub op.Subject) (t op.Target, available bool, err error) {
	study := func(b []byte, whole bool) any {
		// A name that says nothing: what the bytes say counts for every name.
		s := studied{secret: m.Sensitive("x", b[:min(len(b), headBytes)])}
		if whole {
			d := m.Describe(b)
			s.text = &d
		}
		return s
	}
	if asked, err := root.Clean(sub.Asked); err == nil && !rooted.MeansDirectory(sub.Asked) {
		if i, k, ok := sweep.File(ctx, asked, WholeBytes, study); ok {
			t = op.Target{Path: asked, Asked: sub.Asked, Role: sub.Role, Kind: op.File, Exists: true, Mode: i.ModeString(), LinkCount: i.Links}
			tell(ctx, m, &t, asked, k)
			return t, true, nil
		}
	}
	n, t, asked, err := find(ctx, root, sub)
	if err != nil {
		return t, false, err
	}
	defer n.Close()
	if t.Kind != op.File {
		s := &Sight{Available: true}
		if _, _, err := s.content(ctx, n, &t, Shallow); err != nil {
			return t, false, within(err, "args."+sub.Arg)
		}
		mark(ctx, m, &t, asked, nil)
		return t, s.Available, nil
	}
	k, err := n.Known(ctx, WholeBytes, study)
	if err != nil {
		k = rooted.Known{Size: t.Size}
	}
	tell(ctx, m, &t, asked, k)
	return t, err == nil, nil
}

// tell fills in what is known of a file's bytes, and the marks.
func tell(ctx context.Context, m Glancer, t *op.Target, asked op.Path, k rooted.Known) {
	t.Hash, t.Size = k.Digest, k.Size
	mark(ctx, m, t, asked, nil)
	if s, ok := k.Note.(studied); ok {
		t.Sensitive = t.Sensitive || s.secret
		if s.text != nil {
			text := *s.text
			t.Text = &text
		}
	}
}
