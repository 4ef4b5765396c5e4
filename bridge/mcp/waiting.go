package mcp

import (
	"context"
	"strconv"
	"time"

	"holdpoint/op"
)

// Waiting for a person. These tools see the caller's own rows alone, and none can answer.

const (
	// defaultWait stays under the minute after which common clients give a call up.
	defaultWait = 50 * time.Second
	maxWait     = 10 * time.Minute
	// beat is how often a client that waits hears that it still waits.
	beat = 5 * time.Second
)

func waitingTools() []tool {
	id := `"approval_id":{"type":"string"}`
	of := func(more string) []byte {
		return []byte(`{"type":"object","properties":{` + id + more + `},"required":["approval_id"]}`)
	}
	out := schemaOf("")
	return []tool{
		{name: "approval_status", title: "Approval status", about: "Tells how a held call stands.",
			input: of(""), output: out, readOnly: true, idempotent: true,
			run: func(ctx context.Context, c *caller, args op.Object) answer {
				_, a := c.approval(ctx, args, 0)
				return a
			}},
		{name: "approval_wait", title: "Wait for an approval", about: "Waits until a person answered a held call, and gives its result.",
			input: of(`,"timeout_seconds":{"type":"integer","minimum":1,"maximum":600}`), output: out, readOnly: true, idempotent: true, waits: true,
			run: func(ctx context.Context, c *caller, args op.Object) answer { return c.wait(ctx, args) }},
		{name: "approval_cancel", title: "Withdraw a held call", about: "Withdraws your own held call.",
			input: of(""), output: out, idempotent: true,
			run: func(ctx context.Context, c *caller, args op.Object) answer { return c.cancel(ctx, args) }},
	}
}

func approvalID(args op.Object, further ...string) (op.ID, error) {
	id, ok := args["approval_id"].(string)
	if !ok || id == "" {
		return "", op.Fail(op.BadRequest, "approval_id is missing").In("approval_id").Do("give the approval id of the held call, ap_...")
	}
	for k := range args {
		known := k == "approval_id"
		for _, f := range further {
			known = known || k == f
		}
		if !known {
			return "", op.Fail(op.BadRequest, "unknown argument "+strconv.Quote(k)).In(k)
		}
	}
	return op.ID(id), nil
}

func (c *caller) approval(ctx context.Context, args op.Object, wait time.Duration) (over bool, a answer) {
	id, err := approvalID(args, "timeout_seconds")
	if err != nil {
		return true, failed(err)
	}
	v, err := c.engine.Approval(ctx, c.by, id, wait)
	if err != nil {
		return true, failed(err)
	}
	return v.over() || v.Reply.Status == op.Done, v.worded() // a program in the background runs on
}

// over reports that nothing will change any more.
func (v Approval) over() bool {
	switch v.State {
	case "pending", "approved", "executing":
		return false
	}
	return true
}

func (v Approval) worded() answer {
	a := worded(v.Reply, v.Note)
	a.fact("state", v.State)
	a.fact("approval_id", string(v.ID))
	return a
}

// wait waits in slices, so that the client hears of it, within a bound.
func (c *caller) wait(ctx context.Context, args op.Object) answer {
	bound := defaultWait
	switch v := args["timeout_seconds"].(type) {
	case nil:
	case int64:
		if bound = time.Duration(v) * time.Second; v < 1 || bound > maxWait {
			return failed(op.Fail(op.BadRequest, "timeout_seconds must be 1 to 600").In("timeout_seconds"))
		}
	default:
		return failed(op.Fail(op.BadRequest, "timeout_seconds must be a whole number").In("timeout_seconds"))
	}
	end := time.Now().Add(bound)
	if id, err := approvalID(args, "timeout_seconds"); err == nil {
		defer c.telling(ctx, id)()
	}
	for {
		left := time.Until(end)
		over, a := c.approval(ctx, args, min(max(left, 0), beat))
		if over || left <= beat || ctx.Err() != nil {
			return a
		}
		if c.progress != nil {
			c.progress(ctx, "still waiting")
		}
	}
}

func (c *caller) cancel(ctx context.Context, args op.Object) answer {
	id, err := approvalID(args)
	if err == nil {
		err = c.engine.Cancel(ctx, c.by, id)
	}
	if err != nil {
		return failed(err)
	}
	if v, err := c.engine.Approval(ctx, c.by, id, 0); err == nil && v.State != "cancelled" {
		return v.worded() // its program ran, and was ended
	}
	return answer{text: "The held call " + string(id) + " is withdrawn; nothing was changed.",
		facts: map[string]any{"status": "done", "state": "cancelled", "approval_id": string(id)}}
}
