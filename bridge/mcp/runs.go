package mcp

import (
	"context"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"holdpoint/op"
)

// Running programs: an agent lists, reads and stops its own. To type into a session it
// calls workspace_shell, as any execution.

// Output is a piece of what a program printed.
type Output struct {
	Text        string
	Offset      int64
	Next, Total int64 // Next is 0 at the end
}

// runTools is one tool for all three, because each tool in the list costs every client.
func runTools() []tool {
	return []tool{{name: "runs", title: "Running programs", about: "Lists your programs, shows what one prints, or stops it.",
		input:  []byte(`{"type":"object","properties":{"action":{"type":"string","enum":["list","tail","stop"]},"run_id":{"type":"string"},"stream":{"type":"string","enum":["stdout","stderr"]},"offset":{"type":"integer"}},"required":["action"]}`),
		output: schemaOf(""), destructive: true, idempotent: true,
		run: func(ctx context.Context, c *caller, args op.Object) answer {
			switch args["action"] {
			case "list":
				return c.runList(ctx, args)
			case "tail":
				return c.runTail(ctx, args)
			case "stop":
				return c.runStop(ctx, args)
			}
			return failed(op.Fail(op.BadRequest, "action is list, tail or stop").In("action"))
		}}}
}

func (c *caller) runList(ctx context.Context, args op.Object) answer {
	if err := only(args, "action"); err != nil {
		return failed(err)
	}
	list, err := c.engine.Runs(ctx, c.by)
	if err != nil {
		return failed(err)
	}
	return answer{text: cut(string(encode(list)), maxText), facts: map[string]any{"status": "done"}}
}

func (c *caller) runStop(ctx context.Context, args op.Object) answer {
	id, err := runID(args)
	if err == nil {
		err = only(args, "action", "run_id")
	}
	if err != nil {
		return failed(err)
	}
	run, err := c.engine.StopRun(ctx, c.by, id)
	if err != nil {
		return failed(err)
	}
	return answer{text: string(encode(run)), facts: map[string]any{"status": "done", "run_id": string(id)}}
}

func runID(args op.Object) (op.ID, error) {
	id, _ := args["run_id"].(string)
	if id == "" {
		return "", op.Fail(op.BadRequest, "run_id is missing").In("run_id").Do("action list names your programs, run_...")
	}
	return op.ID(id), nil
}

// tailed is how much of the end is shown.
const tailed = 16 << 10

func (c *caller) runTail(ctx context.Context, args op.Object) answer {
	id, err := runID(args)
	if err == nil {
		err = only(args, "action", "run_id", "stream", "offset")
	}
	stream, given := args["stream"].(string)
	if !given {
		stream = "stdout"
	}
	offset, from := args["offset"].(int64)
	if err == nil && args["offset"] != nil && (!from || offset < 0) {
		err = op.Fail(op.BadRequest, "offset must be a whole number").In("offset")
	}
	if err != nil {
		return failed(err)
	}
	tail := int64(0)
	if !from {
		tail = tailed
	}
	o, err := c.engine.Output(ctx, c.by, id, stream, offset, tail, maxText-200)
	if err != nil {
		return failed(err)
	}
	a := answer{text: o.Text, facts: map[string]any{"status": "done", "run_id": string(id), "offset": o.Offset, "total": o.Total}}
	if o.Next > 0 {
		a.fact("next", o.Next)
		a.text += fmt.Sprintf("\n[more: offset %d]", o.Next)
	}
	if a.text == "" {
		a.text = "[nothing printed yet]"
	}
	return a
}

const (
	// pulse is how often a client that waits hears what its program prints.
	pulse = 250 * time.Millisecond
	// maxPulse is how much of it one message holds: the latest.
	maxPulse = 4 << 10
)

// telling sends what a program prints as progress until the returned function is called.
// Who reads slowly gets the latest of it; all of it can be read with action tail.
func (c *caller) telling(ctx context.Context, id op.ID) (stop func()) {
	if c.progress == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var mu sync.Mutex // guards latest
	var latest string
	take := func() string {
		mu.Lock()
		defer mu.Unlock()
		s := latest
		latest = ""
		return s
	}
	var both sync.WaitGroup
	both.Go(func() {
		defer cancel()
		// That there is nothing to follow is no failure of the call.
		_ = c.engine.Follow(ctx, c.by, id, func(text string) error {
			mu.Lock()
			defer mu.Unlock()
			if latest += text; len(latest) > maxPulse {
				n := len(latest) - maxPulse
				for n < len(latest) && !utf8.RuneStart(latest[n]) {
					n++
				}
				latest = latest[n:]
			}
			return nil
		})
	})
	both.Go(func() {
		tick := time.NewTicker(pulse)
		defer tick.Stop()
		for on := true; on; {
			select {
			case <-tick.C:
			case <-ctx.Done():
				on = false
			}
			if s := take(); s != "" {
				c.progress(context.WithoutCancel(ctx), s)
			}
		}
	})
	return func() {
		cancel()
		both.Wait()
	}
}
