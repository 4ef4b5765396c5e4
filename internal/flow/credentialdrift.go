package flow

import (
	"context"
	"time"

	"holdpoint/internal/journal"
	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// Whether an undo would find the tree as the operation left it: words of LogEntry.Tree.
const (
	treeClean   = "clean"
	treeDrifted = "drifted"
	treeUnknown = "unknown" // it was not looked at: too much to read for a list
)

// lookedOver bounds what one list reads to tell how the tree stands. What the daemon knows
// of a file's bytes already costs nothing.
type lookedOver struct {
	bytes int64
	until time.Time
}

func newLookedOver() *lookedOver {
	return &lookedOver{bytes: 64 << 20, until: time.Now().Add(time.Second)}
}

// spent reports whether size more bytes are too many.
func (l *lookedOver) spent(size int64) bool {
	l.bytes -= size
	return l.bytes < 0 || time.Now().After(l.until)
}

// treeOf tells whether the paths of an operation still are what it left. It is what was so a
// moment ago; the undo itself compares again, under locks.
func (w *Workspace) treeOf(ctx context.Context, o journal.Operation, left *lookedOver) string {
	word := treeClean
	for p, s := range leftBy(o.Steps) {
		switch w.stands(ctx, p, s, left) {
		case treeDrifted:
			return treeDrifted
		case treeUnknown:
			word = treeUnknown
		}
	}
	return word
}

// leftBy gives what the steps left at each path.
func leftBy(steps []op.Step) map[op.Path]op.State {
	left := map[op.Path]op.State{}
	for _, s := range steps {
		if !s.Do.InTree() {
			continue
		}
		left[s.Path] = s.After
		if s.Do == op.Move {
			left[s.Path], left[s.To] = op.State{Kind: op.Absent}, s.Before
		}
	}
	return left
}

func (w *Workspace) stands(ctx context.Context, p op.Path, want op.State, left *lookedOver) string {
	if want.Kind == op.Absent {
		if i, err := w.Root.Peek(ctx, p); err == nil && i.Kind == op.Absent {
			return treeClean
		}
	}
	n, err := w.Root.Look(ctx, p, false)
	if err != nil {
		return treeDrifted // another thing stands on the way
	}
	defer n.Close()
	is := op.State{Kind: n.Info.Kind, Mode: n.Info.ModeString()}
	switch {
	case is.Kind != want.Kind || n.Path != p:
		return treeDrifted
	case is.Kind == op.Symlink:
		is.Hash = rooted.HashBytes([]byte(n.Info.Target))
	case is.Kind == op.File && n.Info.Size != want.Size:
		return treeDrifted
	case is.Kind == op.File:
		if left.spent(n.Info.Size) {
			return treeUnknown
		}
		if is.Hash, _, err = n.Digest(ctx); err != nil {
			return treeUnknown
		}
	case is.Kind == op.Directory && want.Hash != "":
		return treeUnknown // all below it would have to be read
	}
	if !is.Equal(want) {
		return treeDrifted
	}
	return treeClean
}
