package flow

import (
	"context"
	"encoding/json"

	"holdpoint/fileops"
	"holdpoint/internal/journal"
	"holdpoint/internal/rooted"
	"holdpoint/op"
	"holdpoint/review"
)

// A program that was approved and did not run, because a file it names had changed, is
// asked for again as a new row. What a person needs then is the difference from what was
// approved, not the whole script once more.

// keepScript holds the bytes of a script that a card shows, for the comparison later. They
// are gone with the daemon, and when there is no room; the card then says so.
func (e *Engine) keepScript(c *call, p op.Path, text []byte) {
	e.served.put(servedKey{c.by.Token, c.ws.Key, p, rooted.HashBytes(text)}, text)
}

// askedBefore adds to the card of a program what differs from the latest row of the same
// call that was approved and found stale.
func (e *Engine) askedBefore(ctx context.Context, c *call, card *review.Card) {
	if c.process == nil || c.process.typed != nil {
		return
	}
	rows, err := e.rows(ctx, journal.ApprovalFilter{Token: c.by.Token, Root: c.ws.Key, Call: c.digest, Newest: true, Limit: 1})
	if err != nil || len(rows) == 0 {
		return // a courtesy: the card is whole without it
	}
	last := rows[0]
	var reply op.Reply
	if last.State != journal.FailedEnd || json.Unmarshal(last.Reply, &reply) != nil || reply.Error == nil || reply.Error.Code != op.Stale {
		return
	}
	card.Lines = append(card.Lines, "was approved before as "+string(last.ID)+" and not run: what it stands on changed since that approval")
	for _, now := range c.facts.Targets {
		for _, was := range last.Pins {
			if was.Path != now.Path || was.Hash == now.Hash || was.Kind != op.File || was.Hash == "" {
				continue
			}
			before, held := e.served.get(servedKey{c.by.Token, c.ws.Key, was.Path, was.Hash})
			if !held {
				card.Lines = append(card.Lines, "changed since that approval: "+op.Escape(string(now.Path))+", whose bytes of then are not held any more")
				continue
			}
			after := c.text(ctx, now.Path)
			card.Lines = append(card.Lines, "changed since that approval: "+op.Escape(string(now.Path))+", see the diff")
			card.Diff += op.Visible(fileops.Compare(fileops.Side{Path: now.Path, Bytes: before, Exists: true}, fileops.Side{Path: now.Path, Bytes: after, Exists: now.Exists}, 3).Text, true)
		}
	}
}
