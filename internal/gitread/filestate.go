package gitread

import (
	"context"
	"fmt"
	"slices"

	"holdpoint/op"
)

// FileState tells how one file or link stands with git: unchanged, changed (with status's
// two letters), untracked, ignored or, where only a program could tell, undecided. It is nil
// where the path lies in no repository, or among git's own files.
func FileState(ctx context.Context, o Options, at op.Path) (state map[string]any, err error) {
	defer func() {
		if p := recover(); p != nil {
			state, err = nil, unsupported("the repository's data cannot be read").Because(fmt.Errorf("%v", p))
		}
	}()
	for p := at; p != "."; p = p.Parent() {
		if p.Base() == ".git" {
			return nil, nil
		}
	}
	r, err := find(ctx, o, at.Parent())
	if err != nil {
		if op.AsError(err).Code == op.NotFound {
			err = nil
		}
		return nil, err
	}
	defer r.close()
	x, err := r.readIndex(ctx)
	if err != nil {
		return nil, err
	}
	specs := pathspecs{{text: string(at), literal: true}}
	staged, err := r.staged(ctx, x, specs)
	if err != nil {
		return nil, err
	}
	w, err := r.scan(ctx, x, specs, "all")
	if err != nil {
		return nil, err
	}
	state = map[string]any{"repository": op.Escape(string(r.top.path))}
	tracked := slices.ContainsFunc(x.entries, func(e entry) bool { return r.full(e.path) == string(at) })
	rows := r.rows(staged, w)
	switch {
	case len(w.undecided) > 0:
		state["state"] = "undecided"
	case len(rows) > 0 && rows[len(rows)-1]["status"] == "??":
		state["state"] = "untracked"
	case len(rows) > 0:
		state["state"], state["status"] = "changed", rows[0]["status"]
	case tracked:
		state["state"] = "unchanged"
	default:
		state["state"] = "ignored"
	}
	return state, nil
}
