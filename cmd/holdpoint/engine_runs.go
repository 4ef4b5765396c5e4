package main

import (
	"context"
	"encoding/json"

	"holdpoint/internal/flow"
	"holdpoint/op"
)

func (a adapter) Runs(ctx context.Context, by op.Caller) (any, error) {
	return a.engine.Runs(ctx, by), nil
}

func (a adapter) Run(ctx context.Context, by op.Caller, id op.ID) (any, error) {
	return a.engine.Run(ctx, by, id)
}

func (a adapter) StopRun(ctx context.Context, by op.Caller, id op.ID) (any, error) {
	return a.engine.StopRun(ctx, by, id)
}

func (a adapter) Attach(ctx context.Context, by op.Caller, id op.ID) (func(), error) {
	return a.engine.Attach(ctx, by, id)
}

func (a adapter) TypeInto(ctx context.Context, by op.Caller, id op.ID, b []byte) error {
	return a.engine.TypeInto(ctx, by, id, b)
}

func (a adapter) Resize(ctx context.Context, by op.Caller, id op.ID, rows, cols int64) error {
	return a.engine.Resize(ctx, by, id, rows, cols)
}

func (a adapter) Follow(ctx context.Context, by op.Caller, id op.ID, at map[string]int64, found func(), send func([]byte, map[string]int64) error) ([]byte, error) {
	run, err := a.engine.Follow(ctx, by, id, at, found, func(c flow.Chunk, now map[string]int64) error {
		piece, err := json.Marshal(c)
		if err != nil {
			return err
		}
		return send(piece, now)
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(run)
}
