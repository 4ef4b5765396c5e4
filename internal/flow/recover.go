package flow

import (
	"context"
	"errors"
	"slices"

	"holdpoint/audit"
	"holdpoint/internal/journal"
	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// recover settles what a crash left in one root: each recorded intent is wholly there
// with its credential afterwards, or wholly absent. No call may run in that root.
func (e *Engine) recover(ctx context.Context, w *Workspace) error {
	if err := e.settleOpen(ctx, w); err != nil {
		return err
	}
	if left, err := e.jrn.Meta(ctx, metaLeft+w.Key); err != nil {
		return err
	} else if left != "" && left == w.Store.Found() {
		return nil // an orderly stop left nothing, and nothing was put there since
	}
	if err := e.settleKept(ctx, w); err != nil {
		return err
	}
	return e.sweep(ctx, w)
}

// metaLeft names, with the key of a root, how an orderly stop left its store.
const metaLeft = "left:"

// leave puts on record how the store stands when all calls have ended, so that the next start
// need not look at each thing in it. What was on record before is not so any more since this
// daemon opened the store, so that a stop that fails here costs the next start that look.
func (e *Engine) leave(ctx context.Context, w *Workspace) error {
	slots, err := w.Store.Slots()
	if err != nil || slices.ContainsFunc(slots, isKeptRecord) {
		return err // what a program did there wants settling
	}
	if as := w.Store.Leave(); as != "" {
		return e.jrn.SetMeta(ctx, metaLeft+w.Key, as)
	}
	return nil
}

// settleOpen settles the intents of one root whose end is not on record. It waits for calls
// that hold their paths.
func (e *Engine) settleOpen(ctx context.Context, w *Workspace) error {
	open, err := e.jrn.Unsettled(ctx)
	if err != nil {
		return err
	}
	for i, o := range open {
		if o.Root != w.Key {
			continue
		}
		settled, err := w.Root.Settle(ctx, w.Store, inTree(o.Steps))
		if err != nil {
			return err
		}
		if len(settled.Conflicts) > 0 && !followed(o, open[i+1:]) {
			if err := e.jrn.NoteLate(ctx, o.ID, settled.Conflicts); err != nil {
				return err
			}
		}
		if err := e.settle(ctx, o, settled.Done); err != nil {
			return err
		}
	}
	return nil
}

// followed reports whether a later intent whose end is not on record either changes the same
// path: after a power cut whole rows of edits are open, and what the later ones put there
// is nobody else's.
func followed(o journal.Operation, later []journal.Operation) bool {
	for _, l := range later {
		for _, s := range l.Steps {
			if l.Root == o.Root && slices.ContainsFunc(o.Steps, func(mine op.Step) bool { return mine.Path == s.Path }) {
				return true
			}
		}
	}
	return false
}

// settle closes the record of one intent as the tree says it ended.
func (e *Engine) settle(ctx context.Context, o journal.Operation, done bool) error {
	outcome := "absent_after_crash"
	if !done {
		if err := e.jrn.Abort(ctx, o.ID, "absent after a crash"); err != nil {
			return err
		}
	} else {
		outcome = "recovered"
		d, effects := o.Decision, op.Effects(o.Steps)
		r := op.Reply{Status: op.Done, Op: o.Op, OperationID: o.ID, RequestID: o.RequestID, Decision: &d, Effects: effects[:min(len(effects), maxChanges)], EffectsExecuted: true,
			UndoCredential: e.keeper.Credential(o), Result: map[string]any{"recovered": true}}
		if err := e.commit(ctx, o, r, false); err != nil {
			return err
		}
	}
	return e.relog(ctx, string(o.ID), func(r *audit.Record) { r.Outcome, r.Undo = outcome, done })
}

// relog puts the audit lines back that a crash kept from the log: that of one operation,
// as it ended, or with no key all that are left.
func (e *Engine) relog(ctx context.Context, key string, ended func(*audit.Record)) error {
	left, err := e.jrn.Outbox(ctx)
	if err != nil {
		return err
	}
	for _, entry := range left {
		if key != "" && entry.Key != key {
			continue
		}
		line, err := audit.Parse(entry.Line)
		if err != nil {
			continue // the journal's own check names it
		}
		ended(&line)
		if _, err := e.log.AppendUnique(entry.Key, line); err != nil {
			return err
		}
		e.audited.add(entry.Key)
	}
	return nil
}

// sweep drops what lies in the store and belongs to no recorded operation: files staged
// for a call that never got as far as its intent. What others wrote is not ours to drop.
// The journal is asked for each slot that it does not name at once, so that neither a long
// history costs much nor a full store.
func (e *Engine) sweep(ctx context.Context, w *Workspace) error {
	var failed error
	sets, sure, err := e.liveSets(ctx, w)
	if err != nil {
		return err
	}
	asks := e.jrn.Slots(w.Key)
	live := func(slot string) bool {
		if set := rooted.SetOf(slot); set != "" && (sets[set] || !sure) {
			return true
		}
		named, err := asks.Named(ctx, slot)
		failed = errors.Join(failed, err)
		return named || err != nil
	}
	if err := w.Store.Reclaim(ctx, live); err != nil {
		w.Warnings = append(w.Warnings, op.Warning{Code: "store_behind", Message: "what a change put away still lies inside the root, in .holdpoint: " + op.AsError(err).Message})
	}
	slots, err := w.Store.Slots()
	if err != nil {
		return err
	}
	if slots, err = e.jrn.Unnamed(ctx, w.Key, slots); err != nil {
		return err
	}
	for _, slot := range slots {
		if rooted.KeptFor(slot) == "" && !live(slot) {
			if err := w.Store.Drop(slot); err != nil {
				return err
			}
		}
	}
	return failed
}

// Recover settles what was approved but had not ended when the daemon stopped: a file
// change is executed if its intent was in the journal, else failed with nothing changed.
// Nothing is run again. It replays the audit lines that a crash kept from the log.
// A row that is not as it was written stays as it is: nothing carries it out, status names
// it, and all others go on. Call it after all roots are added.
func (e *Engine) Recover(ctx context.Context) error {
	if err := e.endSessions(ctx); err != nil {
		return err
	}
	e.endLeft()
	for _, state := range []string{"approved", "executing"} {
		rows, err := e.rows(ctx, journal.ApprovalFilter{State: state})
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := e.resume(ctx, row); err != nil {
				return err
			}
		}
	}
	waiting, err := e.rows(ctx, journal.ApprovalFilter{State: journal.Pending})
	if err != nil {
		return err
	}
	for _, row := range waiting {
		e.drift.watch(e, row)
	}
	return e.relog(ctx, "", func(*audit.Record) {})
}

func (e *Engine) resume(ctx context.Context, row journal.Approval) error {
	// A row that was approved and never claimed did not start, whatever its deadline says now.
	state, reply, id := "failed", []byte(nil), op.ID("")
	if row.State == "executing" && isProcess(row.Op) && landing(row) == "" && !rehearses(row) {
		state = "unknown" // it may have started; all of it ended with the daemon
	}
	ops, err := e.jrn.Operations(ctx, journal.Filter{Root: row.Root, Approval: row.ID, Limit: 1})
	left, err := journal.Intact(err)
	if err != nil {
		return err
	}
	if left != nil {
		state = "unknown" // what it did is on record, and the record is not as it was written
	}
	if len(ops) == 1 && (ops[0].State == journal.Committed || ops[0].State == journal.Undone) {
		if reply, id = ops[0].Reply, ops[0].ID; state != "unknown" {
			state = "executed"
		}
	}
	if done, err := e.switched(ctx, row); err != nil {
		return err
	} else if done {
		state = "executed"
	}
	if err := e.jrn.Finish(ctx, row.ID, state, id, reply); err != nil {
		return err
	}
	if row, err = e.jrn.Approval(ctx, row.ID); err == nil {
		e.ended(row)
	}
	return err
}
