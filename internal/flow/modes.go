package flow

import (
	"context"
	"slices"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

// modeBefore is the mode that held for one token, label and root until now: the one that a
// person set last, or the one of the token's profile.
func (e *Engine) modeBefore(ctx context.Context, rules []journal.Rule, r journal.Rule) (op.Mode, error) {
	for _, o := range slices.Backward(rules) {
		if o.Kind == journal.ModeRule && o.Session == r.Session && o.Root == r.Root && o.ID != r.ID && o.Live(e.cfg.Now()) {
			return o.Mode, nil
		}
	}
	token, err := e.tokenNamed(ctx, string(r.Token))
	if err != nil {
		return "", err
	}
	_, p, err := e.profileOf(ctx, op.Caller{Token: token.ID, Profile: token.Profile})
	return p.Mode, err
}

// tellMode says who changed a mode, from what to what.
func (e *Engine) tellMode(r journal.Rule, old, now op.Mode, by string) {
	e.events.publish(Event{Type: "mode.changed", Time: e.cfg.Now().UTC(), Root: r.Root, Agent: r.Agent, Token: string(r.Token),
		Data: map[string]any{"rule_id": r.ID, "kind": r.Kind, "old": old, "mode": now, "session": r.Session, "scope": r.Scope, "by": by}})
}
