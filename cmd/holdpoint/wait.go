package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"holdpoint/op"
)

// approval is what GET /v1/approvals/{id} answers.
type approval struct {
	ID    op.ID           `json:"id"`
	State string          `json:"state"`
	Note  string          `json:"note"`
	Reply json.RawMessage `json:"reply"`
	Card  *card           `json:"card"`
}

// open reports whether an answer or an execution is still to come.
func (p approval) open() bool {
	return p.State == "pending" || p.State == "approved" || p.State == "executing" && !p.runs()
}

// runs reports a row whose program runs on in the background: its start is its answer.
func (p approval) runs() bool {
	r, err := parseReply(p.Reply)
	return err == nil && r.runs()
}

// await polls until the held call has ended or limit is over; then the reply is the one
// that was held. No limit means for as long as it takes.
func (a *app) await(ctx context.Context, c *client, held reply, limit time.Duration) (reply, error) {
	short, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	p, err := c.poll(short, held.Approval.ID, limit)
	if short.Err() != nil && (err == nil || errors.Is(err, short.Err())) {
		if ctx.Err() != nil {
			fmt.Fprintln(a.Err, "The card still waits.")
		}
		return held, nil
	}
	if err != nil {
		// The call is held whatever became of the waiting.
		fmt.Fprintf(a.Err, "note: the waiting ended early: %s\n", line(err.Error()))
		return held, nil
	}
	if p.open() {
		return held, nil
	}
	return p.final(held.Op)
}

// pollWait is what one long poll asks for; pollPause keeps a daemon that answers at once
// from being asked without a pause.
const (
	pollWait  = 30 * time.Second
	pollPause = 100 * time.Millisecond
)

func (c *client) poll(ctx context.Context, id op.ID, limit time.Duration) (approval, error) {
	deadline := time.Now().Add(limit)
	for {
		wait := min(pollWait, time.Until(deadline)).Round(time.Millisecond)
		if wait <= 0 {
			return approval{ID: id, State: "pending"}, nil
		}
		var p approval
		if _, err := c.get(ctx, query("/v1/approvals/"+escapeID(id), "wait", wait.String()), &p); err != nil {
			return p, err
		}
		if !p.open() {
			return p, nil
		}
		select {
		case <-ctx.Done():
			return p, ctx.Err()
		case <-time.After(pollPause):
		}
	}
}

// endings words the states in which a held call ends without a reply of its own.
var endings = map[string]struct {
	code op.Code
	says string
}{
	"rejected":  {op.Rejected, "a person rejected the call"},
	"expired":   {op.Expired, "nobody answered in time"},
	"cancelled": {op.Cancelled, "the call was withdrawn"},
	"unknown":   {op.UnknownOutcome, "the daemon stopped while the call ran, and cannot tell how it ended"},
	"failed":    {op.UnknownOutcome, "the call failed and left no reply"},
	"executed":  {op.UnknownOutcome, "the call was executed and left no reply; holdpoint log has it"},
}

// final gives the reply of a held call that has ended.
func (p approval) final(name op.Name) (reply, error) {
	if len(p.Reply) > 0 && string(p.Reply) != "null" {
		r, err := parseReply(p.Reply)
		if err != nil {
			return r, op.Fail(op.Internal, "the reply of the held call is not understood: "+err.Error()).Because(err)
		}
		if r.Status != op.Held {
			return r, nil
		}
	}
	end, known := endings[p.State]
	if !known {
		end.code, end.says = op.UnknownOutcome, "the card is in the state "+p.State
	}
	e := op.Fail(end.code, end.says)
	if p.Note != "" {
		e.Message += ": " + p.Note
	}
	status := op.Refused
	if end.code == op.UnknownOutcome {
		status = op.Failed
	}
	whole := op.Reply{Status: status, Op: name, Error: e, Effects: []op.Effect{}}
	raw, err := json.Marshal(whole)
	return reply{Reply: whole, raw: raw}, err
}
