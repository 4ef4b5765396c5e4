package mcp

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"holdpoint/op"
)

// labels are the fields of a request that stand beside an operation's own arguments.
var labels = []string{"dry_run", "dryRun", "pins", "request_id", "session", "stage", "execution_id", "intent"}

// request makes the engine's request of a tool's arguments.
func (c *caller) request(spec op.Spec, args op.Object) (op.Request, []op.Warning, error) {
	own := map[string]bool{}
	if spec.Args != nil {
		for _, f := range op.Fields(spec.Args) {
			own[f.Name] = true
		}
	}
	o := op.Object{"op": string(spec.Name), "args": args}
	rest := op.Object{}
	for k, v := range args {
		rest[k] = v
	}
	for _, k := range labels {
		if v, given := rest[k]; given && !own[k] {
			o[k] = v
			delete(rest, k)
		}
	}
	o["args"] = rest
	if c.root != "" {
		o["root"] = c.root
	}
	if o["session"] == nil && c.label != "" {
		o["session"] = c.label
	}
	return op.RequestFrom(o)
}

// call runs one operation and words its reply.
func (c *caller) call(ctx context.Context, spec op.Spec, args op.Object) answer {
	if spec.Name == op.ViewFile {
		args = boundedView(args)
	}
	req, warnings, err := c.request(spec, args)
	if err != nil {
		return worded(c.engine.Malformed(c.by, spec.Name, err), "")
	}
	var r op.Reply
	if spec.Class == op.Process && c.progress != nil {
		stop := func() {}
		r = c.engine.CallStarted(ctx, c.by, req, warnings, func(id op.ID) { stop = c.telling(ctx, id) })
		stop()
	} else {
		r = c.engine.Call(ctx, c.by, req, warnings)
	}
	a := worded(r, "")
	if e := r.Error; e != nil && e.StillApplies != nil && *e.StillApplies {
		c.explainStale(ctx, req, &a)
	}
	return a
}

// boundedView keeps a view of bytes within what a result may carry; views of lines are
// cut at a line when they are worded.
func boundedView(args op.Object) op.Object {
	_, off := args["offset"]
	limit, given := args["limit"].(int64)
	if !off && !given || given && limit <= maxText {
		return args
	}
	o := op.Object{}
	for k, v := range args {
		o[k] = v
	}
	o["limit"] = int64(maxText)
	return o
}

// explainStale adds to a stale answer what the same change would do to what is there now.
func (c *caller) explainStale(ctx context.Context, req op.Request, a *answer) {
	again := op.Object{}
	for k, v := range req.Args {
		if k != "expected_hash" {
			again[k] = v
		}
	}
	req.Args, req.Pins, req.RequestID = again, "", ""
	p := c.engine.Preflight(ctx, c.by, req)
	if p.Error != nil || p.Facts == nil || p.Diff == "" || len(p.Diff) > 4096 {
		return
	}
	if !slices.ContainsFunc(p.Facts.Targets, func(t op.Target) bool { return t.Sensitive || t.Protected }) {
		a.text += "\nIt would be:\n" + p.Diff
	}
}

// preflightTool looks and judges, and changes nothing.
func preflightTool() tool {
	return tool{name: "preflight", title: "Preflight", about: "Tells what a call would do and whether it would wait for a person, without doing it.",
		input:    []byte(`{"type":"object","properties":{"op":{"type":"string","description":"a tool"},"args":{"type":"object"}},"required":["op","args"]}`),
		output:   schemaOf("verdict reason pins"),
		readOnly: true, idempotent: true,
		run: func(ctx context.Context, c *caller, args op.Object) answer { return c.preflight(ctx, args) }}
}

func (c *caller) preflight(ctx context.Context, args op.Object) answer {
	name, ok := args["op"].(string)
	inner, ok2 := args["args"].(op.Object)
	if !ok || !ok2 || len(args) != 2 {
		return failed(op.Fail(op.BadRequest, "preflight takes op, a tool's name, and args, its arguments").In("args").Do(`for example {"op":"delete_file","args":{"path":"old.txt"}}`))
	}
	spec, known := op.Lookup(op.Name(name))
	if !known {
		spec = op.Spec{Name: op.Name(name)}
	}
	req, _, err := c.request(spec, inner)
	if err != nil {
		return failed(err)
	}
	p := c.engine.Preflight(ctx, c.by, req)
	if p.Error != nil {
		return failed(p.Error)
	}
	a := answer{facts: map[string]any{"status": "done"}}
	var text bytes.Buffer
	if d := p.Decision; d != nil {
		a.fact("verdict", d.Verdict.String())
		a.fact("reason", string(d.Reason))
		switch d.Verdict {
		case op.Auto:
			text.WriteString(name + " would run at once.")
		case op.Review:
			text.WriteString(name + " would wait for a person: " + strings.Join(p.Reasons, "; ") + ".")
		default:
			text.WriteString(name + " would be refused: " + strings.Join(p.Reasons, "; ") + ".")
		}
	}
	if p.Pins != "" {
		a.fact("pins", p.Pins)
	}
	if p.Facts != nil {
		for _, t := range p.Facts.Targets {
			text.WriteString("\n" + op.Escape(string(t.Path)) + ": " + state(t))
		}
	}
	for _, w := range p.Warnings {
		text.WriteString("\nnote: " + w.Message)
	}
	if p.Diff != "" {
		text.WriteString("\n" + p.Diff)
	}
	a.text = cut(text.String(), maxText)
	return a
}

// state words one target in a few words.
func state(t op.Target) string {
	if !t.Exists {
		return "absent"
	}
	words := []string{string(t.Kind)}
	if t.Hash != "" {
		words = append(words, string(t.Hash))
	}
	if t.Protected {
		words = append(words, "protected by "+t.ProtectedBy)
	}
	if t.Sensitive {
		words = append(words, "looks like a secret")
	}
	if t.Ignored {
		words = append(words, "ignored by git")
	}
	return strings.Join(words, ", ")
}
