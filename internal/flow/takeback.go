package flow

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"holdpoint/audit"
	"holdpoint/internal/journal"
	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// difference is one name of the root that is not as it was before a program ran.
type difference struct {
	path    op.Path
	was, is rooted.Info // of Kind Absent where nothing is
}

// changeOf words a difference.
func (d difference) change() string {
	switch op.Absent {
	case d.was.Kind:
		return "created"
	case d.is.Kind:
		return "deleted"
	}
	return "modified"
}

const (
	maxMade      = 50_000 // names that are hashed so that what was made can be taken back
	maxMadeBytes = 2 << 30
)

// reversal makes the steps that a program took, as if this daemon had taken them: the old
// bytes lie in slots, so that the way back is the same as of any other change.
type reversal struct {
	ws      *Workspace
	slots   map[op.Path]string
	slot    func() string
	foreign op.Touched // what other operations changed while it ran

	takes, swaps, places []op.Step
	escaped              []string // sentences
	used                 map[string]bool
}

func (v *reversal) escape(p op.Path, why string) {
	v.escaped = append(v.escaped, op.Escape(string(p))+" ("+why+")")
}

// add takes one difference in. What is below a directory that was made comes with it.
func (v *reversal) add(ctx context.Context, d difference) error {
	if v.foreign.By(op.Step{Path: d.path}) {
		v.escape(d.path, "another operation changed it meanwhile")
		return nil
	}
	switch {
	case d.was.Kind == op.File && d.is.Kind == op.File:
		return v.rewritten(ctx, d)
	case d.was.Kind == op.Symlink && d.is.Kind == op.Symlink && d.was.Target == d.is.Target:
		return nil
	case d.was.Kind == op.Directory && d.is.Kind == op.Directory:
		v.escape(d.path, "another mode")
		return nil
	}
	if d.was.Kind != op.Absent {
		if back, err := v.gone(ctx, d); err != nil || !back {
			return err
		}
	}
	if d.is.Kind == op.Absent {
		return nil
	}
	return v.made(ctx, d)
}

// rewritten is a file that is not as it was kept.
func (v *reversal) rewritten(ctx context.Context, d difference) error {
	slot, kept := v.slots[d.path]
	if !kept {
		v.escape(d.path, "modified, not kept before")
		return nil
	}
	before, err := v.ws.Store.State(ctx, slot)
	if err != nil {
		return err
	}
	after, inode, err := v.now(ctx, d.path)
	if err != nil {
		return err
	}
	switch {
	case !before.Equal(after):
		v.used[slot] = true
		v.swaps = append(v.swaps, op.Step{Do: op.Swap, Path: d.path, Slot: slot, Before: before, After: after, Inode: inode})
	case d.was.UID != d.is.UID || d.was.GID != d.is.GID:
		v.escape(d.path, "another owner")
	}
	return nil
}

// gone is what is no longer there; false when it cannot be brought back.
func (v *reversal) gone(ctx context.Context, d difference) (bool, error) {
	absent := op.State{Kind: op.Absent}
	switch d.was.Kind {
	case op.Directory:
		v.takes = append(v.takes, op.Step{Do: op.RemoveDir, Path: d.path, Before: op.State{Kind: op.Directory, Mode: d.was.ModeString()}, After: absent})
		return true, nil
	case op.Symlink:
		made, err := v.ws.Store.StageLink(v.slot(), d.was.Target)
		if err != nil {
			return false, err
		}
		v.takes = append(v.takes, op.Step{Do: op.Take, Path: d.path, Slot: made.Slot, Before: made.State, After: absent})
		return true, nil
	}
	slot, kept := v.slots[d.path]
	if !kept {
		v.escape(d.path, d.change()+", not kept before")
		return false, nil
	}
	before, err := v.ws.Store.State(ctx, slot)
	if err != nil {
		return false, err
	}
	v.used[slot] = true
	v.takes = append(v.takes, op.Step{Do: op.Take, Path: d.path, Slot: slot, Before: before, After: absent})
	return true, nil
}

// made is what was not there before, a directory with all below it.
func (v *reversal) made(ctx context.Context, d difference) error {
	if k := d.is.Kind; k != op.File && k != op.Directory && k != op.Symlink {
		v.escape(d.path, "a "+string(k)+" that it made")
		return nil
	}
	after, inode, err := v.now(ctx, d.path)
	if err != nil {
		return err
	}
	v.places = append(v.places, op.Step{Do: op.Place, Path: d.path, Slot: v.slot(), Before: op.State{Kind: op.Absent}, After: after, Inode: inode})
	return nil
}

func (v *reversal) now(ctx context.Context, p op.Path) (op.State, uint64, error) {
	n, err := v.ws.Root.Look(ctx, p, false)
	if err != nil {
		return op.State{}, 0, err
	}
	defer n.Close()
	s, err := n.State(ctx)
	return s, n.Info.Ino, err
}

// steps gives them in an order in which they could have been taken: what went, from below,
// then what was rewritten, then what was made.
func (v *reversal) steps() []op.Step {
	slices.SortFunc(v.takes, func(a, b op.Step) int { return strings.Compare(string(b.Path), string(a.Path)) })
	return slices.Concat(v.takes, v.swaps, v.places)
}

// moment is how far the operations of a root were when somebody began to look at its tree.
type moment struct {
	last int64          // the newest
	open map[int64]bool // those that had not ended: what they do may come later
	from int64          // all of both lie above
}

// underway tells which operations of a root have not ended. Call it before the look: what
// they change can be seen in it or after it.
func (e *Engine) underway(ctx context.Context, w *Workspace) (moment, error) {
	m := moment{open: map[int64]bool{}}
	newest, err := e.jrn.Operations(ctx, journal.Filter{Root: w.Key, Limit: 1})
	if _, err = journal.Intact(err); err != nil {
		return m, err
	}
	for _, o := range newest {
		m.last, m.from = o.Seq, o.Seq
	}
	open, err := e.jrn.Unsettled(ctx) // the second question: what begins in between is newer than the newest
	if _, err = journal.Intact(err); err != nil {
		return m, err
	}
	for _, o := range open {
		if o.Root == w.Key {
			m.open[o.Seq], m.from = true, min(m.from, o.Seq-1)
		}
	}
	return m, nil
}

// othersSince gives what operations changed that had not ended at a moment, or began later.
func (e *Engine) othersSince(ctx context.Context, w *Workspace, m moment) (op.Touched, error) {
	var all op.Touched
	others, err := e.jrn.Operations(ctx, journal.Filter{Root: w.Key, After: m.from})
	for _, o := range others {
		for _, s := range o.Steps {
			if (o.Seq > m.last || m.open[o.Seq]) && o.State != journal.Aborted {
				all.Add(s)
			}
		}
	}
	return all, err
}

// takeBack puts on record what a program changed and can be taken back, with a credential in
// the reply, and names there what cannot. all reports that diffs is all that changed.
func (e *Engine) takeBack(ctx context.Context, c *call, d op.Decision, run *run, r *op.Reply, diffs []difference, all bool) {
	defer e.letGo(c)
	told := func(why error) {
		r.Warnings = append(r.Warnings, op.Warning{Code: "not_undoable", Message: "what it changed cannot be taken back: " + op.AsError(why).Message})
	}
	var err error
	v := &reversal{ws: c.ws, slot: e.slot, slots: c.process.keeping.slots, used: map[string]bool{}}
	if v.foreign, err = e.othersSince(ctx, c.ws, c.process.before); err != nil {
		told(err)
		return
	}
	if !all {
		diffs = e.keptDifferences(ctx, c)
	}
	names, size := 0, int64(0)
	made := map[op.Path]bool{}
	for _, diff := range diffs {
		if covers(made, diff.path) {
			continue
		}
		if diff.is.Kind == op.Directory && diff.was.Kind != op.Directory || diff.was.Kind == op.Absent {
			n, b := below(diffs, diff.path)
			if names, size = names+n, size+b; names > maxMade || size > maxMadeBytes {
				v.escape(diff.path, "made, and too much to be hashed")
				made[diff.path] = true
				continue
			}
			made[diff.path] = diff.is.Kind == op.Directory
		}
		if err := v.add(ctx, diff); err != nil {
			v.escape(diff.path, op.AsError(err).Message)
		}
	}
	if len(v.escaped) > 0 {
		list := v.escaped[:min(len(v.escaped), maxChanges)]
		r.Result.(map[string]any)["not_undoable"] = map[string]any{"count": len(v.escaped), "paths": list}
		r.Warnings = append(r.Warnings, op.Warning{Code: "not_undoable", Message: escapedLine(v.escaped)})
	}
	if steps := v.steps(); len(steps) > 0 {
		o := e.intent(c, d, run.Approval, steps)
		o.AuditLine, o.Diff = nil, nil
		if err := e.recordRun(ctx, c, o, r); err != nil {
			told(err)
			return
		}
		e.room.add(need(steps))
		for at, slot := range c.process.keeping.slots {
			if v.used[slot] {
				delete(c.process.keeping.slots, at)
			}
		}
		run.undoneBy(o.ID)
	}
}

// below counts the names of a thing that was made, and their bytes. diffs is in order.
func below(diffs []difference, at op.Path) (names int, size int64) {
	i, _ := slices.BinarySearchFunc(diffs, at, func(d difference, p op.Path) int { return strings.Compare(string(d.path), string(p)) })
	for ; i < len(diffs) && strings.HasPrefix(string(diffs[i].path), string(at)); i++ {
		if diffs[i].path.Within(at) {
			names, size = names+1, size+diffs[i].is.Size
		}
	}
	return names, size
}

func escapedLine(list []string) string { return "this cannot be taken back: " + escapedList(list) }

// escapedList names the first ones and counts the rest.
func escapedList(list []string) string {
	s := strings.Join(list[:min(len(list), shownKept)], ", ")
	if more := len(list) - shownKept; more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

// recordRun makes an operation of what a program did. The old bytes are durable before.
func (e *Engine) recordRun(ctx context.Context, c *call, o journal.Operation, r *op.Reply) error {
	if k := c.process.keeping; k.flush != nil {
		err := <-k.flush
		k.flush = nil
		if err != nil {
			return err
		}
	}
	if err := e.jrn.Begin(ctx, o); err != nil {
		return err
	}
	r.OperationID, r.UndoCredential = o.ID, e.keeper.Credential(o)
	e.publish("operation.done", c, map[string]any{"operation_id": o.ID, "op": o.Op})
	return e.commit(ctx, o, *r, false)
}

// keptDifferences compares what was kept, where not all of the root is known.
func (e *Engine) keptDifferences(ctx context.Context, c *call) []difference {
	var out []difference
	for at, slot := range c.process.keeping.slots {
		was, err := c.ws.Store.Node(slot)
		if err != nil {
			continue
		}
		is, err := c.ws.Root.Look(ctx, at, false)
		if err == nil {
			out = append(out, difference{at, was.Info, is.Info})
			is.Close()
		}
		was.Close()
	}
	slices.SortFunc(out, func(a, b difference) int { return strings.Compare(string(a.path), string(b.path)) })
	return out
}

// settleKept puts on record what a run whose end no daemon saw did to the files that were
// kept before it. What else it did is not known.
func (e *Engine) settleKept(ctx context.Context, w *Workspace) error {
	slots, err := w.Store.Slots()
	if err != nil {
		return err
	}
	for _, slot := range slots {
		if !isKeptRecord(slot) {
			continue
		}
		if err := e.settleRun(ctx, w, slot); err != nil {
			return err
		}
		if err := w.Store.Drop(slot); err != nil {
			return err
		}
	}
	return nil
}

func isKeptRecord(slot string) bool { return strings.HasSuffix(slot, keptRecordSuffix) }

func (e *Engine) settleRun(ctx context.Context, w *Workspace, slot string) error {
	f, err := w.Store.Open(slot)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(f)
	f.Close()
	var rec keptRecord
	if err != nil || json.Unmarshal(body, &rec) != nil {
		return nil // it was never whole, so nothing ran on it
	}
	if _, err := e.jrn.Operation(ctx, rec.Intent.ID); err == nil {
		return nil
	}
	c := &call{ws: w, process: &process{keeping: &keeping{slots: map[op.Path]string{}}}}
	for text, slot := range rec.Files {
		if p, err := op.Unescape(text); err == nil {
			c.process.keeping.slots[op.Path(p)] = slot
		}
	}
	v := &reversal{ws: w, slot: e.slot, slots: c.process.keeping.slots, used: map[string]bool{}}
	for _, d := range e.keptDifferences(ctx, c) {
		if err := v.add(ctx, d); err != nil {
			v.escape(d.path, op.AsError(err).Message)
		}
	}
	o := rec.Intent
	if o.Steps = v.steps(); len(o.Steps) == 0 {
		return nil
	}
	if err := w.Store.Flush(); err != nil {
		return err
	}
	if err := e.jrn.Begin(ctx, o); err != nil {
		return err
	}
	d := o.Decision
	r := op.Reply{Status: op.Failed, Op: o.Op, OperationID: o.ID, RequestID: o.RequestID, Decision: &d, Effects: op.Effects(o.Steps), EffectsExecuted: true, UndoCredential: e.keeper.Credential(o),
		Error: op.Fail(op.UnknownOutcome, "the daemon ended while it ran, and all that it had started with it").Do("a person must look: what it made, and what it changed beside the files that were kept, is not known")}
	r.Error.Retry = "never"
	if len(v.escaped) > 0 {
		r.Warnings = append(r.Warnings, op.Warning{Code: "not_undoable", Message: escapedLine(v.escaped)})
	}
	e.log.Append(audit.Record{Kind: "end", Tool: o.Op, Agent: o.Agent, WorkflowID: o.Workflow, ApprovalID: o.ApprovalID, OperationID: o.ID, Outcome: "unknown", Undo: true})
	return e.commit(ctx, o, r, false)
}

// escapedOf gives what an operation of a program could not keep, for who takes it back.
func escapedOf(o journal.Operation) []op.Warning {
	if !isProcess(o.Op) || len(o.Reply) == 0 {
		return nil
	}
	var r struct {
		Warnings []op.Warning `json:"warnings"`
	}
	if json.Unmarshal(o.Reply, &r) != nil {
		return nil
	}
	return slices.DeleteFunc(r.Warnings, func(w op.Warning) bool { return w.Code != "not_undoable" && w.Code != "effects_unknown" })
}

// operationOf gives the operation of a run that the caller sees; empty where there is none.
func (e *Engine) operationOf(c *call, id op.ID) op.ID {
	r := e.procs.runs.find(id, c.by.Token, e.sees(c.by))
	if r == nil {
		return ""
	}
	return r.view().Operation
}
