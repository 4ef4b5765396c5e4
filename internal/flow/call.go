package flow

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/zeebo/blake3"

	"holdpoint/audit"
	"holdpoint/decision"
	"holdpoint/fileops"
	"holdpoint/internal/journal"
	"holdpoint/op"
	"holdpoint/preflight"
)

// call is one request on its way through the stages. Each stage fills in its part and
// the next one reads it.
type call struct {
	by       op.Caller
	req      op.Request // arguments under their own names
	spec     op.Spec
	args     any
	ws       *Workspace
	profile  op.Profile
	tight    tight   // what the workspace's own file takes away; zero once released
	static   Profile // the whole profile, as the operator set it; zero once released
	terms    op.Terms
	canon    []byte // the merged call in canonical form: what is decided is what is done
	digest   string
	warnings []op.Warning
	plain    bool // a read that is only to be answered: its marks say nothing that the judgement asks

	sight  *preflight.Sight
	facts  op.Facts
	basis  *basis // what the decision was made from, once it is made
	plan   *fileops.Plan
	undoes *journal.Operation // of an undo: what it takes back

	group    *GroupPlan  // of an undo of several operations: all its parts
	process  *process    // of a program: what was looked at
	set      *changeSet  // of a landing: what is put into the workspace
	also     []func()    // what else to close at the end
	entry    string      // of a cleanup: the entry that picked the files, which alone may lift it
	started  func(op.ID) // may be nil: told the id of the program that the call starts
	released bool        // it was held, so that its end has a line of its own in the audit
}

func (c *call) close() {
	if c.sight != nil {
		c.sight.Close()
	}
	for _, end := range c.also {
		end()
	}
	c.also = nil
}

// Call answers one request.
func (e *Engine) Call(ctx context.Context, by op.Caller, req op.Request, warnings []op.Warning) op.Reply {
	return e.CallStarted(ctx, by, req, warnings, nil)
}

// CallStarted is Call, and tells the id of a program that runs at once, so that it can be
// followed before the answer. started may be nil. This is the whole order of things.
func (e *Engine) CallStarted(ctx context.Context, by op.Caller, req op.Request, warnings []op.Warning, started func(op.ID)) (answer op.Reply) {
	defer e.counted(req.Op, time.Now(), &answer)
	c, err := e.open(ctx, by, e.inItsRoot(ctx, by, req), warnings, false)
	c.started = started
	if err != nil {
		return e.fail(c, op.Decision{}, err)
	}
	unlock, err := e.once.lock(ctx, string(by.Token)+"\x00"+req.RequestID)
	if err != nil {
		return e.fail(c, op.Decision{}, err)
	}
	defer unlock()
	if reply, known, err := e.ledger(ctx, c); known || err != nil {
		if err != nil {
			return e.fail(c, op.Decision{}, err)
		}
		return reply
	}
	return e.remember(ctx, c, e.since(ctx, c, nil, e.run(ctx, c)))
}

// run takes a call that is new from the first look to its reply.
func (e *Engine) run(ctx context.Context, c *call) op.Reply {
	if d, refused := decision.Refusal(c.terms, c.profile); refused {
		return e.refuse(c, d)
	}
	if err := e.look(ctx, c); err != nil {
		return e.fail(c, op.Decision{}, e.unpinned(c, err))
	}
	defer c.close()
	if err := e.pinned(c); err != nil {
		return e.fail(c, op.Decision{}, err)
	}
	if err := c.limited(); err != nil {
		return e.fail(c, op.Decision{}, err)
	}
	d, err := e.judge(ctx, c, !c.req.DryRun)
	if err != nil {
		return e.fail(c, op.Decision{}, err)
	}
	if !gated && c.spec.Class != op.Read {
		return e.perform(ctx, c, op.Decision{}, "")
	}
	switch {
	case d.Verdict == op.Refuse:
		return e.refuse(c, d)
	case d.Verdict == op.Review:
		return e.hold(ctx, c, d)
	case c.spec.Class == op.Read:
		return e.read(ctx, c, d)
	case c.req.DryRun:
		return e.rehearse(c, d)
	}
	return e.perform(ctx, c, d, "")
}

// open checks what can be checked without looking at the workspace. A released call was
// judged when it was held; its switches are not asked again.
func (e *Engine) open(ctx context.Context, by op.Caller, req op.Request, warnings []op.Warning, released bool) (*call, error) {
	c := &call{by: by, req: req, warnings: warnings, released: released}
	c.terms = op.Terms{Op: req.Op, DryRun: req.DryRun, Backup: true}
	spec, known := op.Lookup(req.Op)
	if !known {
		// The judgement refuses it; everything else about the call is of no matter.
		return c, nil
	}
	c.spec = spec
	var err error
	if !released {
		if _, c.static, err = e.profileOf(ctx, by); err != nil {
			return c, err
		}
		c.profile = c.static.Profile
	}
	if c.ws, err = e.workspaceOf(by, req); err != nil {
		return c, err
	}
	if !released && by.Role == op.Agent {
		if err := c.tighten(ctx); err != nil {
			return c, err
		}
	}
	if !released && !spec.Allowed(c.profile) {
		return c, nil
	}
	if !spec.Built {
		return c, op.Fail(op.NotAvailable, "the operation "+string(req.Op)+" is not built yet").In("op").Do("see the list of operations for what is")
	}
	args, named, more, err := op.ParseArgs(spec, req.Args)
	if err == nil && len(c.static.Set) > 0 {
		// Where the profile and the call both set an argument, the profile wins.
		fixed, told := c.static.fixed(req.Op, named)
		more = append(more, told...)
		args, named, _, err = op.ParseArgs(spec, fixed)
	}
	if err != nil {
		return c, err
	}
	c.args, c.req.Args, c.warnings = args, named, append(c.warnings, more...)
	if run := op.RunOf(args); run != nil {
		if err := c.purpose(run); err != nil {
			return c, err
		}
	}
	c.terms = op.TermsOf(req.Op, req.DryRun, args)
	if err := c.unpermitted(); err != nil {
		return c, err
	}
	if spec.Class == op.Reverting && by.Role.Includes(op.Reviewer) {
		// A person who forces an undo is the person whom the safety net asks for.
		c.terms.ForceOverwrite = false
	}
	c.canon = canonical(c.req, c.ws.Key)
	sum := blake3.Sum256(c.canon)
	c.digest = "blake3:" + hex.EncodeToString(sum[:])
	return c, nil
}

// purpose takes what a program is for out of the call: it is the caller's words for the card,
// like intent, and must make no other call of the same program.
func (c *call) purpose(run *op.Run) error {
	if len(run.Description) > op.MaxIntent {
		return op.Fail(op.TooLarge, fmt.Sprintf("description is over %d bytes", op.MaxIntent)).In("args.description")
	}
	if c.req.Intent == "" {
		c.req.Intent = run.Description
	}
	run.Description = ""
	delete(c.req.Args, "description")
	return nil
}

// canonical is the merged call: what is stored for a person, digested and executed.
// Labels and the request id are not part of it; equal calls are equal.
func canonical(r op.Request, rootKey string) []byte {
	o := op.Object{"op": string(r.Op), "root": rootKey, "args": r.Args}
	if r.DryRun {
		o["dry_run"] = true
	}
	if r.Pins != "" {
		o["pins"] = r.Pins
	}
	return op.Canonical(o)
}

// ledger answers a call whose request id is known: the same call gets the same reply,
// another one is refused.
func (e *Engine) ledger(ctx context.Context, c *call) (op.Reply, bool, error) {
	if c.req.RequestID == "" {
		return op.Reply{}, false, nil
	}
	r, known, err := e.jrn.Receipt(ctx, c.by.Token, c.req.RequestID)
	if err != nil || !known {
		return op.Reply{}, false, err
	}
	if r.CallDigest != c.digest {
		return op.Reply{}, false, op.Fail(op.RequestIDReused, "this request id was used for another call").In("request_id").Do("use a new id for a new call")
	}
	if r.Approval != "" {
		row, err := e.queue.Row(ctx, r.Approval)
		if err != nil {
			return op.Reply{}, false, err
		}
		return e.withDiff(ctx, e.replyOf(e.asItEnded(row))), true, nil
	}
	var reply op.Reply
	if err := json.Unmarshal(r.Reply, &reply); err != nil {
		return op.Reply{}, false, op.Fail(op.StateCorrupt, "the recorded reply cannot be read").Because(err)
	}
	return e.withDiff(ctx, reply), true, nil
}

// remember puts the reply of a call that left no operation and no row into the ledger,
// unless it says that the same request may be made again: then nothing has taken the id.
func (e *Engine) remember(ctx context.Context, c *call, r op.Reply) op.Reply {
	if c.req.RequestID == "" || r.OperationID != "" || r.Approval != nil || again(r) {
		return r
	}
	body, err := json.Marshal(r)
	if err == nil {
		err = e.jrn.PutReceipt(ctx, journal.Receipt{Token: c.by.Token, RequestID: c.req.RequestID, CallDigest: c.digest, Reply: body})
	}
	if err != nil {
		r.Warnings = append(r.Warnings, op.Warning{Code: "not_recorded", Message: "this reply could not be kept: the request id is not taken"})
	}
	return r
}

// again reports a failure that is none of the call's own: nothing ran, and the same request
// may come through later.
func again(r op.Reply) bool {
	return r.Error != nil && r.Error.Retry == "same" && !r.EffectsExecuted && r.Result == nil
}

// pinned holds a call to the pins that it brought.
func (e *Engine) pinned(c *call) error {
	if c.req.Pins == "" {
		return nil
	}
	pins, err := e.sealer.Open(c.ws.Key, c.req.Pins)
	if err != nil {
		return err
	}
	if drift := preflight.Drift(pins, c.facts); drift != nil {
		return drift
	}
	return nil
}

// unpinned words the failure of a call that brought pins: where one of them no longer
// holds, that is the reason, whatever it made of the plan.
func (e *Engine) unpinned(c *call, err error) error {
	if len(c.facts.Targets) == 0 {
		return err
	}
	if drift := e.pinned(c); drift != nil {
		return drift
	}
	return err
}

// read answers from the handles that were looked at; it takes no lock.
func (e *Engine) read(ctx context.Context, c *call, d op.Decision) op.Reply {
	var result map[string]any
	var err error
	result, err = e.answer(ctx, c, c.scene())
	if err != nil {
		return e.fail(c, d, err)
	}
	r := e.reply(c, op.Done, d)
	e.showed(c)
	r.Result = result
	e.record(c, d, "done", "", "", false)
	return r
}

// rehearse says what would happen.
func (e *Engine) rehearse(c *call, d op.Decision) op.Reply {
	r := e.reply(c, op.Done, d)
	result := map[string]any{"dry_run": true, "would": op.Effects(c.plan.Would())}
	for k, v := range c.plan.Result {
		result[k] = v
	}
	r.Result = result
	e.record(c, d, "done", "", "", false)
	return r
}

func (c *call) scene() fileops.Scene {
	return fileops.Scene{Args: c.args, Nodes: c.sight.Nodes, Targets: c.facts.Targets, Contents: c.sight.Contents, Root: c.ws.Root, Globals: c.ws.excludes, Rules: IgnoreRules()}
}

// reply starts an answer.
func (e *Engine) reply(c *call, s op.Status, d op.Decision) op.Reply {
	r := op.Reply{Status: s, Op: c.req.Op, RequestID: c.req.RequestID, Warnings: c.warnings, Effects: []op.Effect{}}
	if d.Tier != "" {
		r.Decision = &d
	}
	return r
}

// refuse answers a call that the judgement turned away: nothing is queued, nothing done.
func (e *Engine) refuse(c *call, d op.Decision) op.Reply {
	err := op.Fail(op.Code(d.Reason), decision.Sentence(d.Reason)).In("op").Do(refusalHint[d.Reason])
	err.Retry = "never"
	r := e.reply(c, op.Refused, d)
	r.Decision, r.Error = &d, err
	e.record(c, d, string(d.Reason), "", "", false)
	return r
}

var refusalHint = map[op.Reason]string{
	op.ReasonUnknownOperation:  "the operations endpoint and the help of call list the names",
	op.ReasonOperationDisabled: "the operator switched this operation off; ask them, or use another way",
	op.ReasonClearanceTooLow:   "a person with more clearance must do this; nothing was queued",
}

// fail answers a call that cannot go on; nothing was changed.
func (e *Engine) fail(c *call, d op.Decision, err error) op.Reply {
	why := *op.AsError(err)
	status := op.Failed
	if h := op.HTTPStatus(why.Code); h == 403 || h == 429 {
		status = op.Refused
	}
	r := e.reply(c, status, d)
	r.Error = c.complete(why)
	e.record(c, d, string(why.Code), "", "", false)
	return r
}

// Malformed answers a request that could not even be read, and puts it on record.
func (e *Engine) Malformed(by op.Caller, name op.Name, err error) (answer op.Reply) {
	defer e.counted(name, time.Now(), &answer)
	return e.fail(&call{by: by, req: op.Request{Op: name}}, op.Decision{}, err)
}

// retries says whether the same call may work later, after a correction, or never.
func retries(c op.Code) string {
	switch c {
	case op.BusyWriter, op.QueueFull, op.NoSpace, op.StoreFull, op.IOError, op.NotReady, op.NoReviewer, op.Cancelled, op.Internal:
		return "same"
	case op.OperationDisabled, op.ClearanceTooLow, op.Forbidden, op.NotAvailable, op.UndoForged, op.UndoUnknown, op.UndoConsumed, op.UndoExpired, op.Rejected, op.Expired, op.UnknownOutcome:
		return "never"
	}
	return "corrected"
}

// record writes the audit line of a call: who, what kind, why and by which rule; no
// path, no argument, no content.
func (e *Engine) record(c *call, d op.Decision, outcome string, approval, operation op.ID, undoable bool) {
	if c.released {
		return
	}
	e.log.Append(e.line(c, d, outcome, approval, operation, undoable))
}

var verdictWords = map[op.Verdict]string{op.Auto: "auto_execute", op.Review: "require_user_approval", op.Refuse: "refuse"}

func (e *Engine) line(c *call, d op.Decision, outcome string, approval, operation op.ID, undoable bool) audit.Record {
	return audit.Record{Kind: "call", Tool: c.req.Op, Decision: verdictWords[d.Verdict], Reason: d.Reason, Also: d.Also, Mandatory: d.Mandatory,
		TrustedPolicyID: d.TrustedPolicyID, GrantID: d.GrantID, Pinned: d.Pinned, Agent: c.by.Name, WorkflowID: c.by.Workflow,
		ExecutionID: c.req.ExecutionID, ApprovalID: approval, OperationID: operation, Outcome: outcome, Undo: undoable}
}
