package flow

import (
	"context"

	"holdpoint/decision"
	"holdpoint/op"
)

// performApart does the items of a batch that asked not to be all or nothing, each as an
// operation of its own with its own credential, in order. What fails is reported and the
// rest goes on. Each item is looked at and planned when its turn comes.
func (e *Engine) performApart(ctx context.Context, c *call, d op.Decision, approval op.ID) op.Reply {
	a := c.args.(*op.BatchArgs)
	r := e.reply(c, op.Done, d)
	items := make([]map[string]any, 0, len(a.Operations))
	done := 0
	for i, item := range a.Operations {
		one := e.itemAlone(ctx, c, item, d, approval)
		out := map[string]any{"op": item.Op, "status": one.Status, "effects_executed": one.EffectsExecuted}
		if one.OperationID != "" {
			out["operation_id"], out["undo_credential"] = one.OperationID, one.UndoCredential
		}
		if one.Result != nil {
			out["result"] = one.Result
		}
		if one.Error != nil {
			out["error"] = op.InItem(one.Error, i)
		}
		if one.Status == op.Done {
			done++
		}
		items = append(items, out)
		r.Effects = append(r.Effects, one.Effects...)
		r.EffectsExecuted = r.EffectsExecuted || one.EffectsExecuted
		r.Warnings = append(r.Warnings, one.Warnings...)
	}
	r.Result = map[string]any{"items": items, "done": done, "failed": len(items) - done}
	if done == 0 {
		r.Status = op.Failed
		r.Error, _ = items[0]["error"].(*op.Error)
	}
	return r
}

// itemAlone runs one item under the decision that was made for all of them.
func (e *Engine) itemAlone(ctx context.Context, c *call, item op.Item, d op.Decision, approval op.ID) op.Reply {
	spec, _ := op.Lookup(item.Op)
	sub := &call{by: c.by, req: c.req, spec: spec, args: item.Parsed(), ws: c.ws, profile: c.profile, released: c.released,
		terms: op.TermsOf(item.Op, false, item.Parsed()), canon: c.canon, digest: c.digest, basis: c.basis}
	sub.req.Op, sub.req.Args, sub.req.RequestID, sub.req.Pins = item.Op, item.Args, "", ""
	if err := e.look(ctx, sub); err != nil {
		return e.fail(sub, d, err)
	}
	defer sub.close()
	if spec.Class == op.Read {
		return e.read(ctx, sub, d)
	}
	return e.perform(ctx, sub, d, approval)
}

// identityFlags are what an identity holds of a call besides its paths.
func (c *call) identityFlags() []string {
	flags := append(decision.Flags(c.terms), c.parts()...)
	if c.spec.Class == op.Process {
		// All of the call, and what the files are that it runs: a rule for a program never
		// covers other words, another directory or another version of its script.
		flags = append(flags, "call="+c.digest)
		for _, p := range c.facts.Pins() {
			flags = append(flags, "pin="+string(p.Path)+"\x00"+string(p.Kind)+"\x00"+string(p.Hash))
		}
		return flags
	}
	return append(flags, directories(c.facts)...)
}

// directories tells an identity which of its paths are directories: a yes to one file says
// nothing of a tree that stands at its path by then.
func directories(f op.Facts) (flags []string) {
	for _, t := range f.Targets {
		if t.Kind == op.Directory && t.Role != op.RoleParent {
			flags = append(flags, "directory="+string(t.Path))
		}
	}
	return flags
}

// destroys reports whether some part of the call takes something away.
func (c *call) destroys() bool {
	for _, t := range c.facts.Targets {
		if t.Deletes {
			return true
		}
	}
	return c.spec.Class == op.Destructive || c.facts.Overwrites || c.facts.ProcessTier == op.T4
}
