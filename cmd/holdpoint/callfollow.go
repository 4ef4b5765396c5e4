package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"holdpoint/op"
)

// followed makes a call and shows what its program prints as it comes, waiting for the
// person who releases it; then it ends as the program did. The call gets a request id when
// it has none, by which a program that runs at once is found before its answer.
func (a *app) followed(ctx context.Context, c *client, body request, wait time.Duration) (reply, error) {
	if !c.daemon {
		return reply{}, op.Fail(op.NotReady, "--follow needs a daemon").Do("start one: holdpoint serve --root DIR")
	}
	if body.RequestID == "" {
		body.RequestID = "follow-" + rand.Text()
	}
	live, cancel := context.WithCancel(ctx)
	defer cancel()
	show := func(id string) <-chan struct{} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			// What cannot be followed is told by the call's own end.
			_, _ = c.follow(live, id, "", "", a.passOn)
		}()
		return done
	}
	direct := show(body.RequestID)
	r, err := c.call(ctx, "/v1/call", body, body.Op)
	if err != nil {
		return r, err
	}
	if r.Status == op.Held && r.Approval != nil {
		cancel()
		<-direct
		live, cancel = context.WithCancel(ctx)
		defer cancel()
		fmt.Fprintf(a.Err, "Waiting for a person: %s\n", a.command("review approve "+line(string(r.Approval.ID))))
		direct = show(string(r.Approval.ID))
		if r, err = a.await(ctx, c, r, wait); err != nil || r.Status == op.Held {
			return r, err
		}
	}
	if r.runs() {
		<-direct // it runs on by itself: until it ends, or this is interrupted
		return r, nil
	}
	// Its last words are on their way.
	select {
	case <-direct:
	case <-time.After(2 * time.Second):
	}
	return r, nil
}

// runs reports a reply that tells the start of a program which runs on.
func (r reply) runs() bool {
	var v struct {
		State string `json:"state"`
	}
	return r.Status == op.Done && json.Unmarshal(r.Result, &v) == nil && v.State == "running"
}

// printed is the reply without what was shown already.
func (r reply) printed() reply {
	var o map[string]json.RawMessage
	if json.Unmarshal(r.Result, &o) != nil || o["run_id"] == nil {
		return r
	}
	delete(o, "stdout")
	delete(o, "stderr")
	if b, err := json.Marshal(o); err == nil {
		r.Result = b
	}
	return r
}

// showRunning says how to go on with a program that runs on by itself.
func (a *app) showRunning(r reply) {
	var v runView
	if err := json.Unmarshal(r.Result, &v); err != nil {
		a.printJSON(r.Result)
		return
	}
	id := line(string(v.ID))
	if v.Pty {
		fmt.Fprintf(a.Out, "The session runs: %s\nJoin it: %s\n", id, a.command("attach "+id))
		return
	}
	fmt.Fprintf(a.Out, "It runs in the background: %s\nSee it: %s\nEnd it: %s\n", id, a.command("runs tail "+id), a.command("runs stop "+id))
}
