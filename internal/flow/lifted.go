package flow

import (
	"context"
	"slices"

	"holdpoint/internal/journal"
	"holdpoint/op"
	"holdpoint/trusted"
)

// lifted asks, once the call has its turn, whether what let it run without a person still
// stands: a grant, remembered rule, mode or entry of the operator's file that was taken
// back while the call waited for its paths no longer counts. What uses of a grant were left
// was settled when the call was judged.
func (e *Engine) lifted(ctx context.Context, c *call, d op.Decision) error {
	stands := true
	switch d.Reason {
	case op.ReasonGranted, op.ReasonRemembered, op.ReasonYolo:
		rules, err := e.known.rulesFor(c.by.Token, func() ([]journal.Rule, error) { return e.jrn.RulesFor(ctx, c.by.Token) })
		if err != nil {
			return err
		}
		stands = e.ruleStands(rules, c, d)
	case op.ReasonTrusted:
		stands = e.trust != nil && slices.ContainsFunc(e.trust.Current().Policies(), func(p trusted.Policy) bool { return p.ID == d.TrustedPolicyID })
	}
	if stands {
		return nil
	}
	return op.Fail(op.Stale, "what let this call run without asking was taken back while it waited").Do("ask again: it will be judged anew; nothing was changed")
}

func (e *Engine) ruleStands(rules []journal.Rule, c *call, d op.Decision) bool {
	now := e.cfg.Now()
	if d.Reason == op.ReasonYolo {
		return modeFor(c.basis.BaseMode, rules, c, now) == op.Yolo
	}
	identity := ""
	if d.Reason == op.ReasonRemembered {
		identity = e.identity(c)
	}
	return slices.ContainsFunc(rules, func(r journal.Rule) bool {
		named := r.Kind == journal.GrantRule && string(r.ID) == d.GrantID || identity != "" && r.Kind == journal.RememberedRule && r.Identity == identity
		return named && !r.Revoked && (r.Expires.IsZero() || now.Before(r.Expires))
	})
}
