package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"holdpoint/audit"
	"holdpoint/decision"
	"holdpoint/fileops"
	"holdpoint/internal/journal"
	"holdpoint/op"
	"holdpoint/preflight"
	"holdpoint/review"
)

// hold puts a call before a person. The row is on disk before the answer leaves.
func (e *Engine) hold(ctx context.Context, c *call, d op.Decision) op.Reply {
	if err := e.halted(); err != nil && !c.harmless() {
		return e.fail(c, d, err)
	}
	card := e.card(ctx, c, d)
	if err := e.answerable(ctx, max(card.Needs, 1)); err != nil {
		return e.fail(c, d, err)
	}
	if err := e.log.Ready(); err != nil {
		return e.fail(c, d, err)
	}
	unlock, err := e.holding.lock(ctx, string(c.by.Token)+"\x00"+c.digest)
	if err != nil {
		return e.fail(c, d, err)
	}
	row, fresh, err := e.queue.Hold(ctx, review.Terms{Caller: c.by, Request: c.req, Call: c.canon, CallDigest: c.digest, RootKey: c.ws.Key,
		Identity: e.identity(c), Pins: c.facts.Pins(), Decision: d, AtMost: c.tight.deadlines[d.Tier], Basis: c.basis.onRecord()}, card)
	unlock()
	if err != nil {
		return e.fail(c, d, err)
	}
	e.record(c, d, "review", row.ID, "", false)
	if fresh { // people are told of each row once
		e.drift.watch(e, row)
		e.warm(c, c.process)
		e.publish("approval.requested", c, map[string]any{"approval_id": row.ID, "op": c.req.Op})
	}
	r := e.replyOf(row)
	if r.Status == op.Held { // an equal row may have been asked for in other words
		r.Warnings = c.warnings
	}
	return r
}

// answerable refuses what nobody, or too few people, could ever answer. Whoever has the
// passphrase is one person; so is each name among the reviewers' tokens.
func (e *Engine) answerable(ctx context.Context, needs int) error {
	hash, err := e.jrn.Meta(ctx, metaPassphrase)
	if err != nil && op.AsError(err).Code != op.NotFound {
		return err
	}
	list, err := e.Roster(ctx)
	if err != nil {
		return err
	}
	people := map[string]bool{}
	if needs > 1 { // where there is a roster, people of the roster count and tokens do not
		people = list.People(e.cfg.Now())
	}
	if len(people) > 0 {
		if len(people) >= needs {
			return nil
		}
		return op.Fail(op.NoReviewer, fmt.Sprintf("this call needs %d people of the roster, and fewer are on it", needs)).Do("enroll each of them with holdpoint reviewer add, or let them register a passkey; nothing was changed or queued")
	}
	if hash != "" {
		people["reviewer"] = true // the name of whoever logs in
	}
	if len(people) >= needs {
		return nil
	}
	tokens, err := e.jrn.Tokens(ctx)
	if err != nil {
		return err
	}
	for _, t := range tokens {
		if t.Role.Includes(op.Reviewer) && !t.Revoked && (t.Expires.IsZero() || e.cfg.Now().Before(t.Expires)) {
			if people[t.Name] = true; len(people) >= needs {
				return nil
			}
		}
	}
	if len(people) > 0 {
		return op.Fail(op.NoReviewer, fmt.Sprintf("this call needs %d people, and fewer can answer", needs)).Do("create a token of the role reviewer for each of them; nothing was changed or queued")
	}
	return op.Fail(op.NoReviewer, "this call needs a person, and no reviewer is set up").Do("run serve once to set the reviewer's passphrase; nothing was changed or queued")
}

func (e *Engine) identity(c *call) string {
	return decision.Identity(c.req.Op, c.ws.Key, decision.Paths(c.facts), c.identityFlags())
}

// card words the call for a person, once; everything that came from the caller or the
// files is made visible.
func (e *Engine) card(ctx context.Context, c *call, d op.Decision) review.Card {
	show := func(s string) string { return op.Visible(s, false) }
	plan := c.plan
	if plan == nil {
		plan = c.reading()
	}
	card := review.Card{Title: plan.Title, Op: c.req.Op, Lines: plan.Lines, Tier: d.Tier, Effect: "write", Mandatory: d.Mandatory, OneShot: d.OneShot,
		Diff: op.Visible(plan.Diff.Text, true), Targets: c.facts.Targets, Undo: e.undoSentence(c), Intent: op.Visible(c.req.Intent, true),
		Agent: show(c.by.Name), Workflow: show(c.by.Workflow), Session: c.req.Session, Root: c.ws.Key, RootName: c.ws.Name, Host: e.cfg.Host,
		Dir: show(c.ws.Root.Dir()), Identity: show(e.identity(c)), Call: json.RawMessage(c.canon), Warnings: c.warnings}
	switch {
	case c.harmless():
		card.Effect = "read"
	case c.destroys():
		card.Effect = "destructive"
	}
	if e.settings().Two.needed(c) {
		card.Needs = 2
		card.Lines = append(card.Lines, "two people must approve this")
	}
	for _, r := range append([]op.Reason{d.Reason}, d.Also...) {
		card.Reasons = append(card.Reasons, review.Why{Code: r, Sentence: decision.Sentence(r)})
	}
	for _, t := range c.facts.Targets {
		for _, l := range t.Links {
			card.Lines = append(card.Lines, fmt.Sprintf("through the link %s -> %s", op.Escape(string(l.Path)), show(l.Target)))
		}
		if t.ProtectedBy != "" {
			card.Lines = append(card.Lines, fmt.Sprintf("protected by %s (%s)", show(t.ProtectedBy), t.ProtectedFrom))
		}
	}
	if plan.BreakLinks && len(c.facts.Targets) > 1 {
		card.Lines = append(card.Lines, "a file with several names gets one of its own; the others keep the old bytes")
	} else if plan.BreakLinks {
		card.Lines = append(card.Lines, fmt.Sprintf("this file has %d names; the others keep the old bytes", c.facts.Targets[0].LinkCount))
	}
	card.Lines = append(card.Lines, further(c.req.Args)...)
	card.Lines = append(card.Lines, e.tracked(ctx, c)...)
	e.askedBefore(ctx, c, &card)
	if e.cfg.ReviewAuth == "token" {
		card.ReviewerNote = "programs of the same user can approve: review-auth is token"
	}
	for i, l := range card.Lines {
		card.Lines[i] = show(l)
	}
	return card
}

// harmless reports a call that changes nothing even when it is released: a read, or a
// rehearsal. In the mode deny it waits all the same.
func (c *call) harmless() bool {
	return c.spec.Class == op.Read || c.req.DryRun || c.spec.Class == op.Batch && !c.facts.Mutates
}

// reading words a read for the card; it has no plan.
func (c *call) reading() *fileops.Plan {
	p := &fileops.Plan{Title: c.spec.Title}
	for _, t := range c.facts.Targets {
		p.Lines = append(p.Lines, "read "+op.Escape(string(t.Path)))
	}
	return p
}

func (e *Engine) undoSentence(c *call) string {
	if c.harmless() {
		return "changes nothing"
	}
	if c.process != nil && c.process.rehearsal != nil {
		return "changes nothing in the workspace; what it would change waits on a card of its own"
	}
	if c.spec.Class == op.Process && c.set == nil {
		return undoOf(c.process, int(e.cfg.Keep/(24*time.Hour)))
	}
	days := int(e.cfg.Keep / (24 * time.Hour))
	s := fmt.Sprintf("reversible for %d days", days)
	if c.spec.Class == op.Destructive && c.req.Op == op.DeleteFile {
		s += "; it goes to quarantine and frees no space until then"
		if c.ws.Store.Copies() {
			s = fmt.Sprintf("reversible for %d days", days)
		}
	}
	if c.ws.Store.Copies() {
		s += byCopy
	}
	return s
}

// replyOf is the answer to whoever asked, at any point of a row's life.
func (e *Engine) replyOf(a journal.Approval) op.Reply {
	var done op.Reply
	if len(a.Reply) > 0 && json.Unmarshal(a.Reply, &done) == nil {
		done.Approval, done.RequestID, done.Resumed = e.queue.Public(a), a.RequestID, true
		done.Warnings = steered(done.Warnings, a)
		if a.State == "unknown" && done.Error == nil { // its files were settled; how the program ended nobody knows
			done.Status, done.Error, done.Result = op.Failed, outcomeUnknown(), nil
		}
		return done
	}
	d := a.Decision
	if run := e.under(a); run != nil {
		r := e.underWay(op.Request{Op: a.Op, RequestID: a.RequestID}, d, run, nil)
		r.Approval, r.Warnings = e.queue.Public(a), steered(nil, a)
		return r
	}
	r := op.Reply{Status: op.Held, Op: a.Op, RequestID: a.RequestID, Decision: &d, Approval: e.queue.Public(a), Effects: []op.Effect{}}
	note := ""
	if a.Answer != nil {
		note = a.Answer.Note
	}
	switch a.State {
	case "rejected":
		r.Status, r.Error = op.Refused, op.Fail(op.Rejected, "a person rejected this call; nothing was changed").Do(note)
	case "expired":
		r.Status, r.Error = op.Refused, op.Fail(op.Expired, "nobody answered in time; nothing was changed").Do("ask again if it is still wanted")
	case "cancelled":
		r.Status, r.Error = op.Refused, op.Fail(op.Cancelled, "the call was withdrawn; nothing was changed")
	case "failed":
		r.Status, r.Error = op.Failed, op.Fail(op.UnknownOutcome, "the call was approved but did not run; nothing was changed").Do("ask again if it is still wanted")
	case "unknown":
		r.Status, r.Error = op.Failed, outcomeUnknown()
	}
	if a.State == "rejected" && a.Answer != nil && a.Answer.By == journal.Timer {
		r.Error.Message = "nobody answered in time, and the operator has such calls denied then; nothing was changed"
	}
	if r.Error != nil {
		r.Error.Retry = "never"
		if r.Error.Hint == "" { // no words came with the answer
			r.Error.Hint = op.NextStep(r.Error.Code)
		}
		return r
	}
	r.Warnings = review.CardOf(a).Warnings // the same ones to who asks and to who answers
	return r
}

func outcomeUnknown() *op.Error {
	e := op.Fail(op.UnknownOutcome, "it is not known whether this ran; a person must look")
	e.Retry = "never"
	return e
}

// Answer records a person's word and, on approve, runs the stored call, once.
func (e *Engine) Answer(ctx context.Context, by op.Caller, id op.ID, answer journal.Answer) (journal.Approval, error) {
	if err := e.scoped(ctx, by, id); err != nil {
		return journal.Approval{}, err
	}
	if err := e.runnable(ctx, by, id, answer); err != nil {
		return journal.Approval{}, err
	}
	answer, err := e.proven(ctx, by, id, answer)
	if err != nil {
		return journal.Approval{}, err
	}
	row, err := e.queue.Answer(ctx, by, id, answer)
	if err != nil {
		if op.AsError(err).Code == op.Forbidden {
			// Whoever tries what only a person may do is on record.
			e.log.Append(audit.Record{Kind: "answer", Agent: by.Name, ApprovalID: id, Outcome: string(op.Forbidden)})
		}
		return row, err
	}
	e.log.Append(audit.Record{Kind: "answer", Tool: row.Op, Decision: "require_user_approval", Reason: row.Decision.Reason, Also: row.Decision.Also,
		Mandatory: row.Decision.Mandatory, Pinned: row.Decision.Pinned, Agent: by.Name, WorkflowID: row.Workflow, ExecutionID: row.Execution,
		ApprovalID: row.ID, ReviewerID: answer.Reviewer, Outcome: row.State})
	e.counts.answer(row.State)
	e.announce("approval.answered", row)
	if answer.Remember && row.State == journal.Approved {
		if err := e.remembering(ctx, by, row); err != nil {
			return row, err
		}
	}
	if row.State == journal.Pending {
		return row, nil // one of two approvals
	}
	if row.State != "approved" {
		e.ended(row)
		return row, nil
	}
	// The answer is on record; what follows does not depend on who waits for it.
	return e.release(context.WithoutCancel(ctx), row)
}

// Answered is Answer, and shows the row as Approval does. It does not read it once more: what
// was released has happened, whether or not the journal can still be read.
func (e *Engine) Answered(ctx context.Context, by op.Caller, id op.ID, answer journal.Answer) (ApprovalView, error) {
	row, err := e.Answer(ctx, by, id, answer)
	if err != nil {
		return ApprovalView{}, err
	}
	return e.view(ctx, by, row), nil
}

// scoped hides rows of other roots from a person whose token is bound to some: to them
// such a row looks like none.
func (e *Engine) scoped(ctx context.Context, by op.Caller, id op.ID) error {
	if len(by.Roots) == 0 || !by.Role.Includes(op.Observer) {
		return nil
	}
	absent := op.Fail(op.NotFound, "no such approval")
	row, err := e.queue.Row(ctx, id)
	if errors.Is(err, op.NotFound) {
		return absent
	}
	if err != nil || e.seesRoot(by, row.Root) {
		return err
	}
	return absent
}

// release runs an approved row: the stored call, judged no second time, but held to its
// pins.
func (e *Engine) release(ctx context.Context, row journal.Approval) (journal.Approval, error) {
	if isProcess(row.Op) {
		defer e.procs.runs.expect(row.ID)()
	}
	if err := e.jrn.Claim(ctx, row.ID); op.AsError(err) != nil {
		if op.AsError(err).Code != op.Expired {
			return row, err
		}
		// Its time ran out between the answer and the start: it ends here, not run.
		body, bad := json.Marshal(e.unrun(&call{req: op.Request{Op: row.Op}}, row, err))
		if bad == nil {
			bad = e.jrn.Finish(ctx, row.ID, journal.FailedEnd, "", body)
		}
		if bad != nil {
			return row, bad
		}
		row, err = e.jrn.Approval(ctx, row.ID)
		e.ended(row)
		return row, err
	}
	reply := e.execute(ctx, row)
	if _, runs := reply.Result.(RunView); runs { // what sees it to its end ends the row
		if now, err := e.jrn.Approval(ctx, row.ID); err == nil {
			return now, nil
		}
		row.State = journal.Executing
		return row, nil
	}
	state := journal.Executed
	switch {
	case reply.Result != nil && isProcess(row.Op): // it ran, whatever came of it
	case reply.Status != op.Done && reply.EffectsExecuted:
		state = "unknown"
	case reply.Status != op.Done:
		state = "failed"
	}
	return e.finish(ctx, row, state, reply)
}

// finish ends a row whose call ran.
func (e *Engine) finish(ctx context.Context, row journal.Approval, state string, reply op.Reply) (journal.Approval, error) {
	diff := e.diffOf(ctx, reply.OperationID)
	body, err := json.Marshal(withoutDiffs(reply, diff))
	if err != nil {
		return row, err
	}
	err = e.jrn.Finish(ctx, row.ID, state, reply.OperationID, body)
	if err == nil {
		var ended journal.Approval
		if ended, err = e.jrn.Approval(ctx, row.ID); err == nil {
			e.ended(ended)
			return ended, nil
		}
	}
	// What happened has happened, and whoever answered is told so, not of the journal's
	// failure alone. The next start ends the row from the intent.
	reply.Warnings = append(reply.Warnings, op.Warning{Code: "not_committed", Message: "the reply tells what happened, but the record of the approval will be completed only at the next start: " + err.Error()})
	if body, err = json.Marshal(withoutDiffs(reply, diff)); err != nil {
		return row, err
	}
	row.State, row.Operation, row.Reply = state, reply.OperationID, body
	e.unrecorded.Store(row.ID, row)
	e.ended(row)
	return row, nil
}

// asItEnded gives a row as it ended, also where the journal does not know.
func (e *Engine) asItEnded(row journal.Approval) journal.Approval {
	if v, is := e.unrecorded.Load(row.ID); is {
		ended := v.(journal.Approval)
		row.State, row.Operation, row.Reply = ended.State, ended.Operation, ended.Reply
	}
	return row
}

func (e *Engine) execute(ctx context.Context, row journal.Approval) op.Reply {
	c, err := e.reopen(ctx, row)
	if err != nil {
		return e.unrun(c, row, err)
	}
	if err := e.look(ctx, c); err != nil {
		return e.since(ctx, c, row.Pins, e.unrun(c, row, c.stale(err)))
	}
	defer c.close()
	if drift := preflight.Drift(row.Pins, c.facts); drift != nil {
		return e.since(ctx, c, row.Pins, e.unrun(c, row, drift))
	}
	if !c.facts.WorkspaceBound {
		return e.unrun(c, row, moved())
	}
	switch {
	case c.spec.Class == op.Read:
		return e.read(ctx, c, row.Decision)
	case c.req.DryRun:
		return e.rehearse(c, row.Decision)
	}
	return e.perform(ctx, c, row.Decision, row.ID)
}

// stale words a call that could succeed when it was held and cannot now.
func (c *call) stale(err error) error {
	why := op.AsError(err)
	if c.undoes != nil || why.Code == op.OutsideWorkspace || why.Code == op.SymlinkRefused {
		return err
	}
	return (&op.Error{Code: op.Stale, Message: "what the call was approved for no longer holds: " + why.Message, Path: why.Path, CurrentHash: why.CurrentHash,
		Hint: "ask again on what is there now; nothing was changed", Err: err})
}

func (e *Engine) unrun(c *call, row journal.Approval, err error) op.Reply {
	r := e.reply(c, op.Failed, row.Decision)
	r.Error = c.complete(*op.AsError(err))
	return r
}

// reopen makes the call again from the row alone: identity, arguments and labels are
// those of the one who asked.
func (e *Engine) reopen(ctx context.Context, row journal.Approval) (*call, error) {
	o, err := op.ParseJSON(row.Request)
	if err != nil {
		return &call{req: op.Request{Op: row.Op}}, op.Fail(op.StateCorrupt, "the stored call cannot be read").Because(err)
	}
	delete(o, "root")
	req, _, err := op.RequestFrom(o)
	if err != nil {
		return &call{req: op.Request{Op: row.Op}}, op.Fail(op.StateCorrupt, "the stored call cannot be read").Because(err)
	}
	req.Root, req.Session, req.Stage, req.ExecutionID, req.RequestID, req.Intent = row.Root, row.Session, row.Stage, row.Execution, row.RequestID, row.Intent
	by := op.Caller{Token: row.Token, Name: row.Agent, Role: op.Agent, Workflow: row.Workflow}
	c, err := e.open(ctx, by, req, nil, true)
	if err != nil {
		return c, err
	}
	if c.digest != row.CallDigest {
		return c, op.Fail(op.StateCorrupt, "the stored call is not the one that was approved")
	}
	return c, nil
}

// ended writes the second audit line of a held call, and tells who listens.
func (e *Engine) ended(row journal.Approval) {
	e.drift.forget(row.ID)
	e.landedSet(row)
	d := row.Decision
	e.log.Append(audit.Record{Kind: "end", Tool: row.Op, Decision: "require_user_approval", Reason: d.Reason, Also: d.Also, Mandatory: d.Mandatory,
		Pinned: d.Pinned, Agent: row.Agent, WorkflowID: row.Workflow, ExecutionID: row.Execution, ApprovalID: row.ID, OperationID: row.Operation,
		Outcome: row.State, Undo: row.Operation != ""})
	e.events.rowEnded()
	switch {
	case row.State == "expired":
		e.announce("approval.expired", row)
	case row.Answer != nil && row.Answer.By == journal.Timer:
		e.announce("approval.answered", row)
	}
}

func (e *Engine) announce(kind string, row journal.Approval) {
	e.events.publish(Event{Type: kind, Time: e.cfg.Now().UTC(), Root: row.Root, Agent: row.Agent, Token: string(row.Token),
		Data: map[string]any{"approval_id": row.ID, "op": row.Op, "state": row.State, "actor": actor(row)}})
}

// Cancel withdraws a row that has not started, or ends its program where one runs.
func (e *Engine) Cancel(ctx context.Context, by op.Caller, id op.ID) (journal.Approval, error) {
	if err := e.scoped(ctx, by, id); err != nil {
		return journal.Approval{}, err
	}
	if ran, err := e.stopRow(ctx, by, id); ran {
		if err != nil {
			return journal.Approval{}, err
		}
		return e.queue.Row(ctx, id)
	}
	row, err := e.queue.Cancel(ctx, by, id)
	if err == nil {
		e.ended(row)
		e.announce("approval.answered", row)
	}
	return row, err
}
