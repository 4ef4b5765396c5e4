package main

import (
	"context"
	"encoding/json"
	"time"

	"holdpoint/bridge"
	"holdpoint/internal/journal"
	"holdpoint/op"
	"holdpoint/review"
)

// The roster and its passkeys, as the bridge asks for them.

func (a adapter) Me(ctx context.Context, by op.Caller) (any, error) { return a.engine.Me(ctx, by) }
func (a adapter) Reviewers(ctx context.Context) (any, error)        { return a.engine.Reviewers(ctx) }
func (a adapter) Steady(ctx context.Context, by op.Caller) error    { return a.engine.Steady(ctx, by) }
func (a adapter) AddReviewer(ctx context.Context, by op.Caller, r bridge.ReviewerRequest) (any, error) {
	one := review.Reviewer{Name: r.Name, Kind: r.Kind, Public: r.Public, Account: r.Account, Device: op.Visible(r.Device, false), Roots: r.Roots}
	if r.Expires > 0 {
		one.Expires = time.Now().UTC().Add(r.Expires)
	}
	if r.Kind == review.Passkey && r.Passkey != "" {
		made, err := review.ParsePasskey(r.Passkey)
		if err != nil {
			return nil, err
		}
		one.Public, one.Credential = made.Public, made.Credential
	}
	return a.engine.AddReviewer(ctx, by, one)
}
func (a adapter) RevokeReviewer(ctx context.Context, by op.Caller, which string) (any, error) {
	return a.engine.RevokeReviewer(ctx, by, which)
}
func (a adapter) BeginPasskey(ctx context.Context, by op.Caller, proof []byte) (any, error) {
	var p review.Proof
	if proof != nil && json.Unmarshal(proof, &p) != nil {
		return nil, review.NoProof()
	}
	return a.engine.BeginPasskey(ctx, by, p)
}
func (a adapter) RegisterPasskey(ctx context.Context, by op.Caller, device string, made []byte) (any, error) {
	return a.engine.RegisterPasskey(ctx, by, device, made)
}
func (a adapter) Challenge(ctx context.Context, by op.Caller, id op.ID, ans journal.Answer) (any, error) {
	return a.engine.Challenge(ctx, by, id, ans)
}
func (a adapter) Person(ctx context.Context, entry op.ID) (op.Caller, error) {
	r, err := a.engine.Person(ctx, entry)
	return op.Caller{Token: r.ID, Name: r.Name, Role: op.Reviewer, Roots: r.Roots}, err
}
