// Package decision judges a call: refuse it, hold it for a person, or let it run.
//
// Judge is the only place where a verdict is made, and a pure function of its four
// arguments: no file, clock, network, randomness or global state takes part. It does not
// promise that the facts are true (preflight observes them) nor that they still hold when
// the effect lands (the executor re-checks the pins). What it cannot see it holds for a
// person.
package decision

import (
	"slices"

	"holdpoint/op"
)

// MaxChange is the largest change, in bytes, that runs without asking; itself included.
const MaxChange = 65536

// call is one judgement's input in one piece.
type call struct {
	spec  op.Spec
	terms op.Terms
	prof  op.Profile
	facts op.Facts
	env   op.Environment
	tier  op.Tier
}

// Judge decides a call. The first reason that holds leads, the others follow in Also.
func Judge(t op.Terms, p op.Profile, f op.Facts, e op.Environment) op.Decision {
	if d, refused := Refusal(t, p); refused {
		return d
	}
	spec, _ := op.Lookup(t.Op)
	c := call{spec, t, p, f, e, tier(spec, t, f)}

	if reason := c.harmless(); reason != "" {
		if mode(p) == op.Deny {
			return c.review([]op.Reason{op.ReasonModeRestricted})
		}
		return decided(op.Auto, reason, c.tier)
	}
	// A floor of zero is no floor at all: the operation was never given one.
	if e.ClearanceFloor < 1 || p.Clearance < e.ClearanceFloor {
		return decided(op.Refuse, op.ReasonClearanceTooLow, c.tier)
	}
	reasons := c.reasons()
	if len(reasons) == 0 {
		return c.auto(c.unasked())
	}
	for _, l := range lifts {
		if !l.coversAll(reasons) {
			continue
		}
		if by, ok := l.holds(c); ok {
			d := c.auto(l.reason)
			d.TrustedPolicyID, d.GrantID = by.policy, by.grant
			return d
		}
	}
	return c.review(reasons)
}

// Refusal answers what can be answered before anything is looked at: an operation that
// does not exist, or whose switch is off. Its tier uses no facts, so that the answer is
// the same whatever stands at the path.
func Refusal(t op.Terms, p op.Profile) (op.Decision, bool) {
	spec, known := op.Lookup(t.Op)
	if !known || spec.Class == op.NoClass || spec.Allowed == nil {
		return decided(op.Refuse, op.ReasonUnknownOperation, ""), true
	}
	if !spec.Allowed(p) {
		return decided(op.Refuse, op.ReasonOperationDisabled, tierUnseen(spec, t)), true
	}
	return op.Decision{}, false
}

// harmless names the reason for which a call can change nothing, or "".
func (c call) harmless() op.Reason {
	switch {
	case c.spec.Class == op.Read:
		return op.ReasonReadOnly
	case c.spec.Class == op.Batch && readsOnly(c.facts):
		return op.ReasonReadOnly
	case c.terms.DryRun && c.spec.Class != op.Process:
		// Whether a program would do harm cannot be found out without running it.
		return op.ReasonRehearsal
	}
	return ""
}

// readsOnly reports whether a batch was seen to change nothing. Without facts nobody saw
// that, and facts that contradict each other are none.
func readsOnly(f op.Facts) bool {
	return f.Available && f.Planned && !f.Mutates && !f.Creates && !f.Overwrites && !slices.ContainsFunc(f.Targets, deletes)
}

func deletes(t op.Target) bool { return t.Deletes }

// unasked is the reason of a call against which nothing speaks.
func (c call) unasked() op.Reason {
	if c.spec.Class == op.Reverting {
		return op.ReasonUndo
	}
	return op.ReasonLowImpact
}

// mode is the profile's mode; what is no mode restricts like the strictest.
func mode(p op.Profile) op.Mode {
	switch p.Mode {
	case op.Prompt, op.AutoMode, op.Yolo:
		return p.Mode
	}
	return op.Deny
}

func (c call) auto(reason op.Reason) op.Decision {
	d := decided(op.Auto, reason, c.tier)
	d.Pinned = observed(c.facts)
	return d
}

func (c call) review(reasons []op.Reason) op.Decision {
	d := decided(op.Review, reasons[0], c.tier)
	d.Also = append(d.Also, reasons[1:]...)
	missing := slices.ContainsFunc(reasons, in(missingFacts))
	single := slices.ContainsFunc(reasons, in(unlifted))
	d.Mandatory = missing || single || slices.ContainsFunc(reasons, in(mandatory))
	d.TargetBound = !missing && (single || slices.ContainsFunc(reasons, in(targetBound)))
	if c.harmless() == "" {
		d.OneShot = c.spec.Class == op.Batch || single
		d.Pinned = observed(c.facts)
	}
	return d
}

func decided(v op.Verdict, reason op.Reason, tier op.Tier) op.Decision {
	return op.Decision{Verdict: v, Reason: reason, Also: []op.Reason{}, Tier: tier}
}

func in(list []op.Reason) func(op.Reason) bool {
	return func(r op.Reason) bool { return slices.Contains(list, r) }
}
