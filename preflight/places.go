package preflight

import (
	"context"

	"holdpoint/op"
)

// Place judges a path that a call makes and no argument names: a target that is absent,
// with its marks. head is the beginning of what will stand there, and may be nil.
func Place(ctx context.Context, m Marker, p op.Path, dir bool, head []byte) op.Target {
	t := op.Target{Path: p, Role: op.RoleTarget, Kind: op.Absent}
	if dir {
		t.Kind = op.Directory // for the marks: some patterns mean directories only
	}
	mark(ctx, m, &t, p, head)
	t.Kind = op.Absent
	return t
}
