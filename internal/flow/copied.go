package flow

import (
	"holdpoint/internal/journal"
	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// What is said where the store of a root holds copies.

// byCopy ends the card's sentence on undo.
const byCopy = "; what stands there is copied to another filesystem, and an undo brings a copy back"

// copied words for the caller what a store of copies means for this change.
func copied(c *call, o journal.Operation, report rooted.Report) []op.Warning {
	if !c.ws.Store.Copies() {
		return nil
	}
	var out []op.Warning
	if putsAway(o.Steps) {
		out = append(out, op.Warning{Code: "undo_by_copy", Message: "the store of this root is on another filesystem: an undo brings back a copy, with bytes, mode, owner, attributes and times of the old file, but another inode"})
	}
	if report.Near != nil {
		out = append(out, op.Warning{Code: "store_behind", Message: "what was there before still lies inside the root, in .holdpoint, and can be brought back after the next start: " + op.AsError(report.Near).Message})
	}
	return out
}

// putsAway reports whether steps take something out of the tree that an undo brings back.
func putsAway(steps []op.Step) bool {
	for _, s := range steps {
		if s.Do == op.Swap || s.Do == op.Take {
			return true
		}
	}
	return false
}

// freed is what a delete gives back on the root's filesystem at once: nothing while the
// thing itself is kept there.
func freed(c *call, steps []op.Step) (n int64) {
	if !c.ws.Store.Copies() {
		return 0
	}
	for _, s := range steps {
		if s.Do == op.Take {
			n += s.Before.Size
		}
	}
	return n
}
