package main

import (
	"context"
	"strings"
	"time"

	"holdpoint/bridge/mcp"
	"holdpoint/internal/flow"
	"holdpoint/op"
)

// toolEngine shows the engine to the MCP bridge.
type toolEngine struct{ *opened }

func (t toolEngine) Caller(ctx context.Context, secret string) (op.Caller, error) {
	by, _, err := t.engine.Caller(ctx, secret)
	return by, err
}

func (t toolEngine) Call(ctx context.Context, by op.Caller, req op.Request, w []op.Warning) op.Reply {
	return t.engine.Call(ctx, by, req, w)
}

func (t toolEngine) Malformed(by op.Caller, name op.Name, err error) op.Reply {
	return t.engine.Malformed(by, name, err)
}

func (t toolEngine) Preflight(ctx context.Context, by op.Caller, req op.Request) mcp.Preview {
	p := t.engine.Preflight(ctx, by, req, nil)
	out := mcp.Preview{Decision: p.Decision, Reasons: p.Reasons, Facts: p.Facts, Pins: p.Pins, Warnings: p.Warnings, Error: p.Error}
	if p.Preview != nil {
		out.Diff = p.Preview.Diff
	}
	return out
}

func (t toolEngine) Approval(ctx context.Context, by op.Caller, id op.ID, wait time.Duration) (mcp.Approval, error) {
	v, err := t.engine.Approval(ctx, by, id, wait)
	if err != nil {
		return mcp.Approval{}, err
	}
	return mcp.Approval{ID: v.ID, State: v.State, Note: v.Note, Reply: *v.Reply}, nil
}

func (t toolEngine) Cancel(ctx context.Context, by op.Caller, id op.ID) error {
	_, err := t.engine.Cancel(ctx, by, id)
	return err
}

func (t toolEngine) Root(ctx context.Context, by op.Caller, named string) (string, error) {
	s, err := t.engine.Status(ctx, by)
	if err != nil {
		return "", err
	}
	for _, r := range s.Roots {
		if named == r.Name || named == r.Key || named == "" && len(s.Roots) == 1 {
			return r.Dir, nil
		}
	}
	return "", op.Fail(op.UnknownRoot, "no workspace has this name or key").In("root")
}

func (t toolEngine) Changes(ctx context.Context, by op.Caller, root, cursor string, wait time.Duration) (mcp.Changes, error) {
	c, err := t.engine.Changes(ctx, by, root, cursor, wait)
	return mcp.Changes{Cursor: c.Cursor, LookAgain: c.LookAgain, Paths: c.Paths}, err
}

func (t toolEngine) CallStarted(ctx context.Context, by op.Caller, req op.Request, w []op.Warning, started func(op.ID)) op.Reply {
	return t.engine.CallStarted(ctx, by, req, w, started)
}

func (t toolEngine) Runs(ctx context.Context, by op.Caller) (any, error) {
	return t.engine.Runs(ctx, by), nil
}

func (t toolEngine) StopRun(ctx context.Context, by op.Caller, id op.ID) (any, error) {
	return t.engine.StopRun(ctx, by, id)
}

func (t toolEngine) Output(ctx context.Context, by op.Caller, id op.ID, stream string, offset, tail int64, limit int) (mcp.Output, error) {
	p, err := t.engine.Output(ctx, by, id, stream, offset, tail, limit)
	if err != nil {
		return mcp.Output{}, err
	}
	return mcp.Output{Text: p.Shown(), Offset: p.Offset, Next: p.Next, Total: p.Total}, nil
}

func (t toolEngine) Follow(ctx context.Context, by op.Caller, id op.ID, send func(string) error) error {
	_, err := t.engine.Follow(ctx, by, id, nil, func() {}, func(c flow.Chunk, _ map[string]int64) error {
		return send(strings.ToValidUTF8(string(c.Bytes()), "\uFFFD"))
	})
	return err
}
