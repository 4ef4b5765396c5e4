package undo

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"holdpoint/internal/journal"
	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// Texts is what a group has to know of text.
type Texts interface {
	// Merge takes the step from base to theirs on what ours made of base; false where both
	// changed the same lines.
	Merge(base, ours, theirs []byte) ([]byte, bool)
	// After gives what a change made of a file, from what was there before and the kept
	// diff; false when that does not lead to the digest.
	After(path op.Path, before, diff []byte, want op.Digest) ([]byte, bool)
}

// Group is a set of operations that are taken back as one. All fields must be set.
type Group struct {
	Store   *rooted.Store
	Texts   Texts
	NewSlot func() string
	// Now gives what stands at a path of the workspace, and its node, which may be nil
	// where nothing is. It stays open for as long as the plan is used.
	Now   func(op.Path) (op.State, *rooted.Node, error)
	Force bool // also over later changes, which go to the store
}

// Outcomes of a unit.
const (
	Clean   = "undo"
	Merged  = "merge"   // others changed the same files elsewhere, and keep that
	Refused = "refused" // others changed the same lines, or what was there is gone
)

// Unit is a part of a group that hangs together by its paths: it is taken back as a whole
// or not at all.
type Unit struct {
	Operations []op.ID
	Paths      []op.Path
	Outcome    string
	Why        error // of a refusal
	Backs      []Back
	Changes    []Change
}

// Back is one step of the way back.
type Back struct {
	Step    op.Step
	Content []byte       // to stage; nil when it comes from the store or nothing does
	Like    *rooted.Node // whose metadata staged content takes
	Mode    string       // permission bits instead of Like's; empty keeps those
}

// Change is what a path holds before and after the way back.
type Change struct {
	Path     op.Path
	Now, Old Version
}

// Version is one thing, and how to read it.
type Version struct {
	State op.State
	Node  *rooted.Node // in the workspace or in the store; nil when Bytes has it, or absent
	Bytes []byte
}

// largest content that is read for a merge, in bytes.
const maxMerge = 16 << 20

// Plan works out how to take operations back, newest first as they are given, each with
// its diff. Nothing is changed; what is opened is closed by done.
func (g *Group) Plan(ctx context.Context, ops []journal.Operation) (units []Unit, done func(), err error) {
	var open []*rooted.Node
	done = func() {
		for _, n := range open {
			n.Close()
		}
	}
	for _, part := range parts(ops) {
		u := Unit{Outcome: Clean}
		w := &way{g: g, ctx: ctx, entries: map[op.Path]*entry{}, seen: map[op.Path]bool{}}
		for _, o := range part {
			u.Operations = append(u.Operations, o.ID)
			if u.Why == nil {
				u.Why = w.takeBack(o)
			}
			u.Paths = appendPaths(u.Paths, o.Steps)
		}
		open = append(open, w.open...)
		switch {
		case u.Why != nil:
			if code := op.AsError(u.Why).Code; code != op.UndoConflict {
				done()
				return nil, func() {}, u.Why
			}
			u.Outcome = Refused
		case w.merged:
			u.Outcome = Merged
		}
		if u.Why == nil {
			u.Backs, u.Changes = w.finish()
		}
		units = append(units, u)
	}
	return units, done, nil
}

// Order puts the steps of several units into one list: first directories that come back,
// then everything that depends on order within its unit, and at the end directories that
// go, innermost first, because what lay in them may have belonged to another unit. Where
// steps of the same unit need the name of a directory, it comes or goes in its turn.
func Order(units []Unit) []Back {
	var first, middle, last []Back
	for _, u := range units {
		tangled := slices.ContainsFunc(u.Backs, func(b Back) bool {
			return b.Step.Do == op.Move || b.Step.Before.Kind == op.Directory && b.Step.Do == op.Take || b.Step.After.Kind == op.Directory && b.Step.Do == op.Place
		})
		for i, b := range u.Backs {
			switch {
			case tangled && (b.Step.Do != op.RemoveDir || needed(b.Step.Path, u.Backs[i+1:])):
				middle = append(middle, b)
			case b.Step.Do == op.MakeDir:
				first = append(first, b)
			case b.Step.Do == op.RemoveDir:
				last = append(last, b)
			default:
				middle = append(middle, b)
			}
		}
	}
	depth := func(b Back) int { return strings.Count(string(b.Step.Path), "/") }
	slices.SortStableFunc(first, func(a, b Back) int { return depth(a) - depth(b) })
	slices.SortStableFunc(last, func(a, b Back) int { return depth(b) - depth(a) })
	return append(append(once(first), middle...), once(last)...)
}

// needed reports whether one of the steps that follow puts something at a path, or at a
// directory above it, or moves one of those.
func needed(p op.Path, later []Back) bool {
	return slices.ContainsFunc(later, func(b Back) bool {
		s := b.Step
		puts := (s.Do == op.Place || s.Do == op.MakeDir) && p.Within(s.Path)
		return puts || s.Do == op.Take && p.Within(s.Path) || s.Do == op.Move && (p.Within(s.Path) || p.Within(s.To))
	})
}

// once drops steps on a path that has one already.
func once(list []Back) []Back {
	seen := map[op.Path]bool{}
	return slices.DeleteFunc(list, func(b Back) bool {
		again := seen[b.Step.Path]
		seen[b.Step.Path] = true
		return again
	})
}

// parts finds which operations hang together: those that touch the same path, or one
// inside a directory that another took, brought or moved. Directories that are only made
// on the way tie nothing else together. Order is kept.
func parts(ops []journal.Operation) [][]journal.Operation {
	root := make([]int, len(ops))
	for i := range root {
		root[i] = i
	}
	var find func(int) int
	find = func(i int) int {
		if root[i] != i {
			root[i] = find(root[i])
		}
		return root[i]
	}
	byPath, trees, made := map[op.Path]int{}, map[op.Path]int{}, map[op.Path][]int{}
	tie := func(p op.Path, i int) {
		if j, ok := byPath[p]; ok {
			root[find(i)] = find(j)
		} else {
			byPath[p] = i
		}
	}
	for i, o := range ops {
		for _, s := range o.Steps {
			if s.Do == op.MakeDir || s.Do == op.RemoveDir {
				made[s.Path] = append(made[s.Path], i)
			}
			if !s.Do.InTree() || s.Do == op.MakeDir || s.Do == op.RemoveDir {
				continue
			}
			for _, p := range []op.Path{s.Path, s.To} {
				if p == "" {
					continue
				}
				tie(p, i)
				if s.Before.Kind == op.Directory || s.After.Kind == op.Directory {
					trees[p] = i
				}
			}
		}
	}
	within := func(p op.Path, i int) {
		for ; p != "."; p = p.Parent() {
			if j, ok := trees[p]; ok {
				root[find(i)] = find(j)
			}
		}
	}
	if len(trees) > 0 {
		for p, i := range byPath {
			within(p, i)
		}
		for p, list := range made {
			for _, i := range list {
				within(p, i)
			}
		}
	}
	at := map[int]int{}
	var out [][]journal.Operation
	for i, o := range ops {
		r := find(i)
		k, ok := at[r]
		if !ok {
			k = len(out)
			at[r] = k
			out = append(out, nil)
		}
		out[k] = append(out[k], o)
	}
	return out
}

func appendPaths(list []op.Path, steps []op.Step) []op.Path {
	for _, s := range steps {
		for _, p := range []op.Path{s.Path, s.To} {
			if p != "" && !slices.Contains(list, p) {
				list = append(list, p)
			}
		}
	}
	return list
}

func conflict(p op.Path, format string, args ...any) error {
	return op.Fail(op.UndoConflict, fmt.Sprintf(format, args...)).At(p).Do("nothing was changed; look at the difference, or force the undo, which keeps the later version under a new credential")
}
