package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"holdpoint/audit"
	"holdpoint/fileops"
	"holdpoint/internal/journal"
	"holdpoint/internal/rooted"
	"holdpoint/op"
	"holdpoint/undo"
)

// perform carries a judged call out: stage, hold, intent on record, act, commit. After
// any failure the tree is as before; after a kill at any instruction Recover settles it.
func (e *Engine) perform(ctx context.Context, c *call, d op.Decision, approval op.ID) op.Reply {
	if !allowed(d, approval) {
		return e.fail(c, op.Decision{}, ungated())
	}
	if err := e.halted(); err != nil {
		return e.fail(c, d, err)
	}
	if c.spec.Class == op.Process && c.set == nil {
		return e.performProcess(ctx, c, d, approval)
	}
	if c.spec.Class == op.Switching {
		return e.performSwitch(ctx, c, d, approval)
	}
	if fileops.Apart(c.args) {
		return e.performApart(ctx, c, d, approval)
	}
	if len(c.plan.Steps) == 0 {
		r := e.reply(c, op.Done, d)
		r.Result = c.plan.Result
		e.record(c, d, "done", approval, "", false)
		return r
	}
	// No effect whose decision cannot be put on record.
	if err := e.log.Ready(); err != nil {
		return e.fail(c, d, err)
	}
	need := need(c.plan.Steps)
	if err := e.makeRoom(ctx, need); err != nil {
		return e.fail(c, d, err)
	}
	leave, err := c.ws.Store.Enter()
	if err != nil {
		return e.fail(c, d, err)
	}
	defer leave()
	if err := c.plan.Stage(ctx, c.ws.Store, e.slot); err != nil {
		return e.fail(c, d, err)
	}
	held, err := c.ws.Root.Hold(ctx, c.ws.Store, inTree(c.plan.Steps), rooted.HoldOptions{BreakLinks: c.plan.BreakLinks, OnTheWay: onTheWay(c.facts)})
	if err != nil {
		c.plan.Unstage(c.ws.Store)
		return e.fail(c, d, e.spent(ctx, c, c.drifted(err)))
	}
	defer held.Close()
	if c.ws.Root.Check() != nil {
		c.plan.Unstage(c.ws.Store)
		return e.fail(c, d, moved())
	}
	if err := e.lifted(ctx, c, d); err != nil {
		c.plan.Unstage(c.ws.Store)
		return e.fail(c, d, err)
	}

	// From here on the caller's going away changes nothing: the intent and what follows
	// from it are one.
	ctx = context.WithoutCancel(ctx)
	o := e.intent(c, d, approval, filled(c.plan.Steps, held.Steps()))
	if err := e.jrn.Begin(ctx, o); err != nil {
		c.plan.Unstage(c.ws.Store)
		return e.fail(c, d, err)
	}
	report, err := held.Apply(ctx)
	if err != nil {
		return e.missed(ctx, c, d, o, report, err)
	}
	e.room.add(need)
	return e.landed(ctx, c, d, o, report)
}

// missed ends an intent whose steps do not stand. What others wrote into our files before
// those were taken back stays in the store, and the log names it.
func (e *Engine) missed(ctx context.Context, c *call, d op.Decision, o journal.Operation, report rooted.Report, err error) op.Reply {
	if errors.Is(err, op.UnknownOutcome) {
		// Some step stands. The intent stays open with all that it staged and displaced, so
		// that the next start can settle it.
		r := e.fail(c, d, err)
		r.OperationID, r.EffectsExecuted, r.Effects = o.ID, true, op.Effects(o.Steps)
		return r
	}
	var late []string
	for _, l := range report.Late {
		late = append(late, lateLine(l))
	}
	if len(late) > 0 {
		if err := e.jrn.NoteLate(ctx, o.ID, late); err != nil {
			return e.fail(c, d, err)
		}
	}
	if err := e.jrn.Abort(ctx, o.ID, string(op.AsError(err).Code)); err != nil {
		return e.fail(c, d, err)
	}
	c.plan.Unstage(c.ws.Store)
	return e.fail(c, d, c.drifted(err))
}

// drifted words a drift for who asked: to an undo it is a conflict.
func (c *call) drifted(err error) error {
	if c.undoes != nil {
		return undo.Conflict(err)
	}
	return err
}

// intent is the journal's row: the decision and the steps, before anything happens.
func (e *Engine) intent(c *call, d op.Decision, approval op.ID, steps []op.Step) journal.Operation {
	now := e.cfg.Now().UTC().Truncate(time.Millisecond)
	o := journal.Operation{ID: e.jrn.NewID("op_"), Root: c.ws.Key, Op: c.req.Op, Token: c.by.Token, Agent: c.by.Name, Workflow: c.by.Workflow,
		Session: c.req.Session, Stage: c.req.Stage, Execution: c.req.ExecutionID, RequestID: c.req.RequestID, CallDigest: c.digest,
		ApprovalID: approval, Decision: d, Steps: steps, Intent: c.req.Intent, Created: now, Expires: now.Add(e.cfg.Keep), Diff: bounded(c.plan.Diff.Text)}
	if approval != "" {
		// The request id of a held call belongs to its row.
		o.RequestID = ""
	}
	if c.undoes != nil {
		o.Undoes = c.undoes.ID
	}
	if approval == "" {
		o.Basis = c.basis.onRecord()
		o.AuditLine = audit.Encode(e.line(c, d, "recovered", "", o.ID, true))
	}
	return o
}

// keptDiff is the longest diff kept for show, in bytes; what is longer says so.
const keptDiff = 256 << 10

func bounded(diff string) []byte {
	if len(diff) <= keptDiff {
		return []byte(diff)
	}
	return append([]byte(diff[:keptDiff]), "\n... the rest of this diff was not kept\n"...)
}

// landed words what happened, and puts it on record without a further flush: after a
// crash the intent is enough to know it.
func (e *Engine) landed(ctx context.Context, c *call, d op.Decision, o journal.Operation, report rooted.Report) op.Reply {
	r := e.reply(c, op.Done, d)
	r.OperationID, r.EffectsExecuted = o.ID, true
	r.Effects = effects(o.Steps, report.Kept)
	if more := len(r.Effects) - maxChanges; more > 0 {
		r.Effects = r.Effects[:maxChanges]
		r.Warnings = append(r.Warnings, op.Warning{Code: "effects_cut", Message: fmt.Sprintf("%d more paths changed; the record of the operation has all of them", more)})
	}
	r.UndoCredential = e.keeper.Credential(o)
	r.Result = e.resultOf(c, o, report)
	if report.Weak {
		r.Warnings = append(r.Warnings, op.Warning{Code: "weak", Message: "no lease could be had on the file: a program that had it open may still write into the kept version"})
	}
	r.Warnings = append(r.Warnings, copied(c, o, report)...)
	// An undo marks what it took back with the same record, a weak change stays open to late
	// writers, and a store of copies has just moved what a restart would look for: these are
	// not acknowledged without it.
	later := o.Undoes == "" && o.ApprovalID == "" && !report.Weak && !c.ws.Store.Copies()
	if err := e.commit(ctx, o, r, later); err != nil {
		r.Warnings = append(r.Warnings, op.Warning{Code: "not_committed", Message: "the change stands, but its record will be completed only at the next start: " + err.Error()})
	}
	outcome, kind := "done", "operation.done"
	if c.undoes != nil {
		outcome, kind = "undone", "operation.undone"
	}
	if o.ApprovalID == "" { // a held call has its own last line
		e.log.Append(e.line(c, d, outcome, "", o.ID, true))
		e.audited.add(string(o.ID))
	}
	e.publish(kind, c, map[string]any{"operation_id": o.ID, "op": o.Op})
	return r
}

// commit says in the journal that the steps stand: later, where nothing hangs on it but what
// recovery finds out as well.
func (e *Engine) commit(ctx context.Context, o journal.Operation, r op.Reply, later bool) error {
	body, err := json.Marshal(withoutDiffs(r, string(o.Diff)))
	if err != nil {
		return err
	}
	if later {
		e.jrn.CommitLater(o.ID, body)
		return nil
	}
	return e.jrn.Commit(ctx, o.ID, body, o.Undoes)
}

// effects words the steps, without the directories that an undo kept.
func effects(steps []op.Step, kept []op.Path) []op.Effect {
	out := make([]op.Effect, 0, len(steps))
next:
	for _, ef := range op.Effects(steps) {
		for _, k := range kept {
			if ef.Path == k && ef.Change == "deleted" {
				continue next
			}
		}
		out = append(out, ef)
	}
	return out
}

func (e *Engine) resultOf(c *call, o journal.Operation, report rooted.Report) any {
	if c.undoes == nil {
		if id := backupID(c, o.Steps); id != "" && c.plan.Result != nil {
			c.plan.Result["backup_id"] = id
		}
		if c.req.Op == op.DeleteFile {
			c.plan.Result["undo_until"], c.plan.Result["freed_bytes"] = o.Expires.UTC().Format(time.RFC3339), freed(c, o.Steps)
		}
		return c.plan.Result
	}
	restored := []string{}
	for _, s := range c.plan.Steps {
		if s.Do != op.RemoveDir || !slices.Contains(report.Kept, s.Path) {
			restored = append(restored, op.Escape(string(s.Path)))
		}
	}
	out := map[string]any{"undone": c.undoes.ID, "restored": restored}
	if c.group != nil {
		out["undone"], out["plan"] = journal.Operation{Undoes: c.undoes.ID}.TakesBack(), c.group
	}
	if len(report.Kept) > 0 {
		kept := []string{}
		for _, p := range report.Kept {
			kept = append(kept, op.Escape(string(p)))
		}
		out["kept"] = kept
	}
	return out
}

func (e *Engine) publish(kind string, c *call, data map[string]any) {
	e.events.publish(Event{Type: kind, Time: e.cfg.Now().UTC(), Root: c.ws.Key, Agent: c.by.Name, Token: string(c.by.Token), Data: data})
}
