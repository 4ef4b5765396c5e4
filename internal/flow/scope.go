package flow

import (
	"context"
	"slices"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

// seesRoot reports whether what belongs to a root is a caller's to see. A token that is
// bound to some roots finds nothing of the others.
func (e *Engine) seesRoot(by op.Caller, key string) bool {
	if len(by.Roots) == 0 {
		return true
	}
	w := e.byKey(key)
	return w != nil && mayUse(by, w) || slices.Contains(by.Roots, key)
}

// RulesOf lists the rules that a caller may see: of its own roots, and those that count in
// every root.
func (e *Engine) RulesOf(ctx context.Context, by op.Caller, all bool) ([]journal.Rule, error) {
	list, err := e.Rules(ctx, all)
	return slices.DeleteFunc(list, func(r journal.Rule) bool { return r.Root != "" && !e.seesRoot(by, r.Root) }), err
}

// RevokeRuleOf ends a rule that the caller may end: a reviewer of some roots ends none that
// counts elsewhere too. Another one looks like none.
func (e *Engine) RevokeRuleOf(ctx context.Context, by op.Caller, id op.ID) (journal.Rule, error) {
	if len(by.Roots) > 0 {
		list, err := e.jrn.Rules(ctx)
		if err != nil {
			return journal.Rule{}, err
		}
		i := slices.IndexFunc(list, func(r journal.Rule) bool { return r.ID == id })
		if i < 0 || list[i].Root == "" || !e.seesRoot(by, list[i].Root) {
			return e.revoke(ctx, "ru_", by.Name) // as one that never was
		}
	}
	return e.RevokeRule(ctx, by, id)
}

// ReachOf is RuleReach of a row that the caller may see.
func (e *Engine) ReachOf(ctx context.Context, by op.Caller, id op.ID) (Reach, error) {
	if err := e.scoped(ctx, by, id); err != nil {
		return Reach{}, err
	}
	return e.RuleReach(ctx, id)
}
