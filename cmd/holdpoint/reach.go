package main

import (
	"context"
	"fmt"

	"holdpoint/internal/flow"
	"holdpoint/op"
)

// showReach says what remembering an answer would have covered on record, before it is
// given. Where somebody turned such a request down, a person on a terminal says yes once
// more.
func (a *app) showReach(ctx context.Context, c *client, id op.ID) error {
	var r flow.Reach
	if _, err := c.get(ctx, "/v1/approvals/"+escapeID(id)+"/reach", &r); err != nil {
		return err
	}
	fmt.Fprintf(a.Err, "From now on exactly this call runs without asking. Of %s on record it would have let %d run", plural(int64(r.Logged), "request"), r.Covered)
	if r.Rejected == 0 {
		fmt.Fprintln(a.Err, "; nobody turned one of them down.")
		return nil
	}
	fmt.Fprintf(a.Err, ", and people turned %d of those down:\n", r.Rejected)
	for _, t := range r.Turned {
		fmt.Fprintf(a.Err, "  %s  %s  %s\n", line(string(t.ID)), line(t.By), line(t.Note))
	}
	if !a.InTTY || a.json {
		return nil
	}
	return a.askAgain(ctx, "Remember it all the same")
}
