package decision

import (
	"slices"

	"holdpoint/op"
)

// lift is one way by which a call runs although reasons speak against it. It counts only
// when it covers every one of them: two lifts never join.
type lift struct {
	reason op.Reason
	covers [][]op.Reason
	holds  func(call) (lifter, bool)
}

// lifter names the entry that lifted, for the audit.
type lifter struct{ policy, grant string }

// lifts stand in the order in which they are tried. No lift covers a missing fact, and
// only a rule for exactly this call covers protected and guarded targets.
var lifts = []lift{
	{op.ReasonProcessDisabled, [][]op.Reason{{op.ReasonProcess}}, func(c call) (lifter, bool) {
		return lifter{}, c.env.ProcessApprovalDisabled
	}},
	{op.ReasonGranted, [][]op.Reason{{op.ReasonProcess}}, func(c call) (lifter, bool) {
		return lifter{}, c.env.SessionReleased
	}},
	{op.ReasonConfinedRehearsal, [][]op.Reason{{op.ReasonProcess}}, func(c call) (lifter, bool) {
		return lifter{}, c.env.RehearseWithoutReview && c.facts.ConfinedRehearsal
	}},
	{op.ReasonTrusted, [][]op.Reason{{op.ReasonBatch, op.ReasonDestructive}}, trustedBy},
	{op.ReasonAuthorOptOut, [][]op.Reason{{op.ReasonBatch}, envelope}, func(c call) (lifter, bool) {
		return lifter{}, !c.prof.RequireApproval
	}},
	{op.ReasonRemembered, [][]op.Reason{mandatory, envelope}, func(c call) (lifter, bool) {
		return lifter{}, slices.Contains(c.env.Remembered, op.SameIdentity)
	}},
	{op.ReasonGranted, [][]op.Reason{envelope, {op.ReasonModeRestricted}}, grantedBy},
	{op.ReasonYolo, [][]op.Reason{{op.ReasonBatch, op.ReasonDestructive, op.ReasonProcess}, envelope}, func(c call) (lifter, bool) {
		return lifter{}, c.env.YoloAllowed && mode(c.prof) == op.Yolo
	}},
}

func (l lift) coversAll(reasons []op.Reason) bool {
	for _, r := range reasons {
		if !slices.ContainsFunc(l.covers, func(group []op.Reason) bool { return slices.Contains(group, r) }) {
			return false
		}
	}
	return true
}

// trustedBy finds the first entry of the operator's file that names the workflow, the
// operation and all targets. Two keys are needed: the entry and the profile's own switch.
// A batch may hold a delete, so that its entry must name that as well.
func trustedBy(c call) (lifter, bool) {
	if c.prof.RequireApproval || c.env.WorkflowID == "" {
		return lifter{}, false
	}
	for _, p := range c.env.Trusted {
		named := slices.Contains(p.Operations, c.terms.Op) &&
			(c.spec.Class != op.Batch || slices.Contains(p.Operations, op.DeleteFile))
		if named && p.ID != "" && p.CoversAllTargets && slices.Contains(p.WorkflowIDs, c.env.WorkflowID) {
			return lifter{policy: p.ID}, true
		}
	}
	return lifter{}, false
}

// grantedBy finds the grant of the narrowest scope that reaches the call's tier. A grant
// of an unknown scope or tier is none: read generously it would reach everything.
func grantedBy(c call) (lifter, bool) {
	for _, scope := range []string{"session", "stage", "project"} {
		for _, g := range c.env.Grants {
			reach := g.MaxTier.Rank()
			if g.Scope == scope && g.ID != "" && reach <= op.T4.Rank() && reach >= c.tier.Rank() {
				return lifter{grant: g.ID}, true
			}
		}
	}
	return lifter{}, false
}
