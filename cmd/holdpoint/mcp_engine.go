package main

import (
	"context"
	"time"

	"holdpoint/bridge/mcp"
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
