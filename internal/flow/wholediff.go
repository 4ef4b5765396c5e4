package flow

import (
	"context"

	"holdpoint/fileops"
	"holdpoint/internal/journal"
	"holdpoint/op"
	"holdpoint/preflight"
)

// WholeDiff is the change of a row for a tool that shows two files side by side.
type WholeDiff struct {
	ID    op.ID  `json:"id"`
	Diff  string `json:"diff"`
	Whole bool   `json:"whole"` // with all the lines around; else the card's own diff
}

// everything is more lines of context than a file has.
const everything = 1 << 30

// WholeDiff gives the diff of a card with all the lines around the change, made anew from
// the file while it still is what the card was made from. Where that cannot be had, and for
// the one who asked, it is the card's own diff.
func (e *Engine) WholeDiff(ctx context.Context, by op.Caller, id op.ID) (WholeDiff, error) {
	v, err := e.Approval(ctx, by, id, 0)
	if err != nil {
		return WholeDiff{}, err
	}
	out := WholeDiff{ID: id, Diff: v.Card.Diff}
	if v.State != journal.Pending || !by.Role.Includes(op.Observer) || out.Diff == "" {
		return out, nil
	}
	row, err := e.queue.Mine(ctx, by, id)
	if err != nil {
		return out, err
	}
	c, err := e.reopen(ctx, row)
	if err != nil || e.look(ctx, c) != nil {
		return out, nil // what the card shows still stands
	}
	defer c.close()
	if preflight.Drift(row.Pins, c.facts) != nil || c.plan.NewContent == nil || len(c.facts.Targets) != 1 || len(c.sight.Contents) != 1 {
		return out, nil
	}
	t := c.facts.Targets[0]
	d := fileops.Compare(fileops.Side{Path: t.Path, Bytes: c.sight.Contents[0], Exists: t.Exists}, fileops.Side{Path: t.Path, Bytes: c.plan.NewContent, Exists: true}, everything)
	if d.Binary || d.Text == "" || d.Added != c.plan.Diff.Added || d.Removed != c.plan.Diff.Removed {
		return out, nil
	}
	out.Diff, out.Whole = op.Visible(d.Text, true), true
	return out, nil
}
