package decision

import (
	"slices"

	"holdpoint/op"
)

// Groups of reasons. What is in missingFacts or mandatory no author's switch lifts.
var (
	missingFacts = []op.Reason{op.ReasonUnbound, op.ReasonNoPreflight, op.ReasonPlanningFailed}
	mandatory    = []op.Reason{op.ReasonDestructive, op.ReasonProcess, op.ReasonProtected, op.ReasonGuarded, op.ReasonSafetyOverride}
	targetBound  = []op.Reason{op.ReasonBatch, op.ReasonDestructive, op.ReasonProcess, op.ReasonProtected, op.ReasonGuarded, op.ReasonSafetyOverride}
	unlifted     = []op.Reason{op.ReasonProfileSwitch} // a person says yes to each single one
	envelope     = []op.Reason{op.ReasonMultipleTargets, op.ReasonOverwrite, op.ReasonBackupRoot, op.ReasonBackupDisabled, op.ReasonTooLarge}
)

// reasons lists all that speaks for asking a person, in the order in which they lead.
func (c call) reasons() []op.Reason {
	t, f, class := c.terms, c.facts, c.spec.Class
	process, adaptive := class == op.Process, class == op.Adaptive
	var out []op.Reason
	add := func(r op.Reason, holds bool) {
		if holds {
			out = append(out, r)
		}
	}
	add(op.ReasonUnbound, !f.WorkspaceBound)
	add(op.ReasonNoPreflight, !process && !observed(f))
	add(op.ReasonPlanningFailed, !process && (!f.Planned || f.ChangeBytes < 0))
	add(op.ReasonBatch, class == op.Batch)
	add(op.ReasonDestructive, c.destroys())
	add(op.ReasonProcess, process)
	add(op.ReasonProfileSwitch, class == op.Switching)
	add(op.ReasonProtected, c.protected())
	add(op.ReasonGuarded, c.guarded())
	add(op.ReasonSafetyOverride, t.AllowSensitive || t.AllowIgnored || t.ForceOverwrite)
	add(op.ReasonMultipleTargets, adaptive && countTargets(f) > 1)
	add(op.ReasonOverwrite, adaptive && (f.Overwrites || c.replaces()))
	add(op.ReasonBackupRoot, adaptive && t.BackupRoot != "")
	add(op.ReasonBackupDisabled, !t.Backup && (t.Op == op.EditFile || t.Op == op.PatchFile))
	add(op.ReasonTooLarge, adaptive && f.ChangeBytes > MaxChange)
	add(op.ReasonModeRestricted, class != op.Reverting && (mode(c.prof) == op.Deny || mode(c.prof) == op.Prompt))
	return out
}

// observed reports whether preflight saw what the call is about: at least one thing that
// it changes, and of everything listed enough to pin it.
func observed(f op.Facts) bool {
	return f.Available && countTargets(f) > 0 && !slices.ContainsFunc(f.Targets, func(t op.Target) bool { return !known(t) })
}

// known reports whether one target's facts are there and agree. Fifos, sockets and devices
// have no content that could be pinned, so that they count as not seen.
func known(t op.Target) bool {
	switch t.Role {
	case op.RoleTarget, op.RoleSource, op.RoleDestination, op.RoleParent:
	default:
		return false
	}
	switch t.Kind {
	case op.File, op.Directory, op.Symlink:
		return t.Path != "" && t.Exists
	case op.Absent:
		return t.Path != "" && !t.Exists
	}
	return false
}

// changed reports whether a target is one that the call changes, rather than reads or
// passes through.
func changed(t op.Target) bool { return t.Role == op.RoleTarget || t.Role == op.RoleDestination }

func countTargets(f op.Facts) int {
	n := 0
	for _, t := range f.Targets {
		if changed(t) {
			n++
		}
	}
	return n
}

// destroys: an operation that destroys by its nature, or one with a part that does. The
// name of an adaptive operation must not make a deleting part of it adaptive.
func (c call) destroys() bool {
	switch c.spec.Class {
	case op.Destructive:
		return true
	case op.Batch, op.Adaptive:
		return slices.ContainsFunc(c.facts.Targets, deletes)
	}
	return false
}

// protected: anything that the call touches or reads is protected, or holds something
// that is. A parent that is only passed through counts for itself, not for its children.
// A person who takes something back has already seen it.
func (c call) protected() bool {
	if c.spec.Class == op.Reverting && c.env.CallerRole.Includes(op.Reviewer) {
		return false
	}
	return slices.ContainsFunc(c.facts.Targets, func(t op.Target) bool {
		return t.Protected || t.ContainsProtected && t.Role != op.RoleParent
	})
}

// guarded: sensitive, or ignored by git. Taking away what git ignores is the usual cleanup
// of build output and no reason of its own.
func (c call) guarded() bool {
	if c.spec.Class == op.Reverting {
		return false
	}
	return slices.ContainsFunc(c.facts.Targets, func(t op.Target) bool {
		return t.Sensitive || t.Ignored && !t.Deletes && c.spec.Class != op.Destructive
	})
}

// replaces finds the overwrite that the facts show although they do not say it.
func (c call) replaces() bool {
	if c.terms.Op != op.WriteFile && c.terms.Op != op.CopyFile {
		return false
	}
	return slices.ContainsFunc(c.facts.Targets, func(t op.Target) bool { return changed(t) && t.Exists })
}

// tier ranks a call. No mode and no grant ever lowers it.
func tier(spec op.Spec, t op.Terms, f op.Facts) op.Tier {
	base := tierUnseen(spec, t)
	switch {
	case base == op.T1:
		return base
	case spec.Class == op.Batch && readsOnly(f):
		return op.T1
	case spec.Class == op.Batch || spec.Class == op.Adaptive:
		if slices.ContainsFunc(f.Targets, deletes) {
			return op.T4
		}
	case spec.Class == op.Process:
		if f.ProcessTier != "" && f.ProcessTier.Rank() >= op.T4.Rank() {
			return op.T4
		}
	}
	return base
}

// tierUnseen ranks a call of which only the terms are known.
func tierUnseen(spec op.Spec, t op.Terms) op.Tier {
	switch {
	case spec.Class == op.Read, t.DryRun && spec.Class != op.Process:
		return op.T1
	case spec.Class == op.Process, spec.Class == op.Switching:
		return op.T3
	case spec.Class == op.Destructive:
		return op.T4
	}
	return op.T2
}
