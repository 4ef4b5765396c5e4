package flow

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"holdpoint/decision"
	"holdpoint/internal/journal"
	"holdpoint/op"
)

// Judge is the one judgement; Replay takes it as an argument so that another table can be
// held against the same record.
type Judge func(op.Terms, op.Profile, op.Facts, op.Environment) op.Decision

// Replayed is what the record alone says: nobody is asked and nothing is done for it. Two
// replays of one record are equal byte by byte: the clock that they go by is the record's.
type Replayed struct {
	AsOf       time.Time       `json:"as_of"`      // the newest moment on record
	Operations int             `json:"operations"` // records that were read
	Approvals  int             `json:"approvals"`
	Judged     int             `json:"judged"`    // decisions made again from what they were made from
	Carried    int             `json:"carried"`   // operations that carry the decision of the card that released them
	Unjudged   int             `json:"unjudged"`  // records of a schema that kept no basis
	Decisions  map[string]int  `json:"decisions"` // by reason
	Queue      map[string]int  `json:"queue"`     // cards by state, rebuilt from their answers
	Waiting    []op.ID         `json:"waiting"`
	Rules      []ReplayedRule  `json:"rules"` // that counted at that moment
	Modes      []ReplayedMode  `json:"modes"`
	Findings   []ReplayFinding `json:"findings"`
}

// ReplayedRule is a grant or remembered rule with the uses that the record shows.
type ReplayedRule struct {
	ID      op.ID  `json:"id"`
	Kind    string `json:"kind"`
	Agent   string `json:"agent"`
	Used    int64  `json:"used"`    // as counted when it was used
	Carried int64  `json:"carried"` // decisions on record that name it
}

// ReplayedMode is the mode that a person set for one token and label.
type ReplayedMode struct {
	Agent   string  `json:"agent"`
	Session string  `json:"session,omitempty"`
	Root    string  `json:"root,omitempty"`
	Mode    op.Mode `json:"mode"`
}

// ReplayFinding is one record that does not say what it must.
type ReplayFinding struct {
	Record   op.ID        `json:"record"`
	Kind     string       `json:"kind"` // operation, approval, rule, row (of a table)
	Number   int64        `json:"number"`
	Code     string       `json:"code"` // altered, verdict, carried, mode, rule, queue
	Message  string       `json:"message"`
	Recorded *op.Decision `json:"recorded,omitempty"`
	Judged   *op.Decision `json:"judged,omitempty"`
}

// Replay makes every decision of the journal again and rebuilds queue, rules and modes.
func (e *Engine) Replay(ctx context.Context) (Replayed, error) {
	return ReplayJournal(ctx, e.jrn, decision.Judge)
}

// ReplayJournal is Replay without an engine: no workspace is opened, nothing is settled.
func ReplayJournal(ctx context.Context, j *journal.Journal, judge Judge) (Replayed, error) {
	r := replay{j: j, judge: judge, rules: map[op.ID]journal.Rule{}, carried: map[op.ID]int64{}, cards: map[op.ID]journal.Approval{}, ran: map[op.ID]op.ID{},
		out: Replayed{Decisions: map[string]int{}, Queue: map[string]int{}, Waiting: []op.ID{}, Rules: []ReplayedRule{}, Modes: []ReplayedMode{}, Findings: []ReplayFinding{}}}
	list, err := j.Rules(ctx)
	if err != nil && op.AsError(err).Code != op.StateCorrupt {
		return r.out, err
	} else if err != nil {
		r.find(ReplayFinding{Kind: "rule", Code: "altered", Message: op.AsError(err).Message})
	}
	for _, rule := range list {
		r.rules[rule.ID] = rule
		r.at(rule.Created)
	}
	if err := j.EachApproval(ctx, func(a journal.Approval, intact bool) error { return r.approval(ctx, a, intact) }); err != nil {
		return r.out, err
	}
	if err := j.EachOperation(ctx, func(o journal.Operation, intact bool) error { return r.operation(ctx, o, intact) }); err != nil {
		return r.out, err
	}
	r.settle(list)
	return r.out, nil
}

// replay is one pass over the record.
type replay struct {
	j       *journal.Journal
	judge   Judge
	rules   map[op.ID]journal.Rule
	carried map[op.ID]int64            // decisions that name each rule
	cards   map[op.ID]journal.Approval // that were approved
	ran     map[op.ID]op.ID            // card -> the operation that it released
	out     Replayed
}

func (r *replay) find(f ReplayFinding) { r.out.Findings = append(r.out.Findings, f) }

func (r *replay) at(t time.Time) {
	if t.After(r.out.AsOf) {
		r.out.AsOf = t
	}
}

// record is what a decision's record says besides the decision.
type record struct {
	id             op.ID
	kind           string
	number         int64
	root           string
	session, stage string
	operation      op.Name
	identity       string // "" where it has to be made again
	created        time.Time
	decision       op.Decision
}

func (r *replay) approval(ctx context.Context, a journal.Approval, intact bool) error {
	r.out.Approvals++
	r.at(a.Created)
	r.at(a.Changed)
	if !intact {
		r.find(ReplayFinding{Record: a.ID, Kind: "approval", Number: a.Seq, Code: "altered", Message: "this card is not as it was written"})
	}
	if err := r.decided(ctx, record{a.ID, "approval", a.Seq, a.Root, a.Session, a.Stage, a.Op, a.Identity, a.Created, a.Decision}); err != nil {
		return err
	}
	if a.Decision.Verdict != op.Review {
		d := a.Decision
		r.find(ReplayFinding{Record: a.ID, Kind: "approval", Number: a.Seq, Code: "queue", Message: "a card stands for a call that was not held", Recorded: &d})
	}
	state, why := rebuilt(a)
	r.out.Queue[state]++
	if why != "" {
		r.find(ReplayFinding{Record: a.ID, Kind: "approval", Number: a.Seq, Code: "queue", Message: why})
	}
	if state == journal.Pending {
		r.out.Waiting = append(r.out.Waiting, a.ID)
	}
	r.cards[a.ID] = journal.Approval{Decision: a.Decision, State: a.State, Answer: a.Answer, Operation: a.Operation, Seq: a.Seq}
	return nil
}

// rebuilt gives the state of a card, and why its answer, end and reply cannot have led to
// that.
func rebuilt(a journal.Approval) (state, why string) {
	said := ""
	if a.Answer != nil {
		said = a.Answer.Answer
	}
	fits := false
	switch a.State {
	case journal.Pending:
		fits = said == "" && a.CancelledBy == "" && a.Operation == "" && len(a.Reply) == 0
	case journal.Rejected:
		fits = said == "reject" && a.Operation == ""
	case journal.Expired:
		fits = said == "" && !a.Deadline.IsZero() && a.Operation == ""
	case journal.Cancelled:
		fits = a.CancelledBy != "" && a.Operation == ""
	case journal.Approved, journal.Executing:
		fits = said == "approve" && a.CancelledBy == ""
	case journal.Executed, journal.FailedEnd, journal.UnknownEnd:
		fits = said == "approve"
	}
	switch {
	case fits:
		return a.State, ""
	case said == "":
		return a.State, "the card is " + a.State + ", and nobody's answer led to that"
	}
	return a.State, "the card is " + a.State + ", and the answer on record is " + said
}

func (r *replay) operation(ctx context.Context, o journal.Operation, intact bool) error {
	r.out.Operations++
	r.at(o.Created)
	if !intact {
		r.find(ReplayFinding{Record: o.ID, Kind: "operation", Number: o.Seq, Code: "altered", Message: "this operation is not as it was written"})
	}
	if o.ApprovalID == "" {
		if o.Decision.Verdict != op.Auto {
			d := o.Decision
			r.find(ReplayFinding{Record: o.ID, Kind: "operation", Number: o.Seq, Code: "carried", Message: "it ran without a card, and its decision does not let it", Recorded: &d})
		}
		return r.decided(ctx, record{o.ID, "operation", o.Seq, o.Root, o.Session, o.Stage, o.Op, "", o.Created, o.Decision})
	}
	r.out.Carried++
	card, ok := r.cards[o.ApprovalID]
	switch {
	case !ok:
		r.find(ReplayFinding{Record: o.ID, Kind: "operation", Number: o.Seq, Code: "carried", Message: "the card " + string(o.ApprovalID) + " that released it is not on record"})
	case !same(card.Decision, o.Decision):
		mine, its := o.Decision, card.Decision
		r.find(ReplayFinding{Record: o.ID, Kind: "operation", Number: o.Seq, Code: "carried", Message: "its decision is not the one of the card that released it", Recorded: &mine, Judged: &its})
	case card.Answer == nil || card.Answer.Answer != "approve":
		r.find(ReplayFinding{Record: o.ID, Kind: "operation", Number: o.Seq, Code: "carried", Message: "it ran although nobody approved its card"})
	}
	r.ran[o.ApprovalID] = o.ID
	return nil
}

func same(a, b op.Decision) bool {
	a.Also, b.Also = append([]op.Reason{}, a.Also...), append([]op.Reason{}, b.Also...)
	return reflect.DeepEqual(a, b)
}

// decided makes one decision again from its basis, with the rules that counted then. The
// mode that holds today has no part in it.
func (r *replay) decided(ctx context.Context, c record) error {
	r.out.Decisions[string(c.decision.Reason)]++
	if c.decision.GrantID != "" {
		r.carried[op.ID(c.decision.GrantID)]++
	}
	finding := func(code, message string) ReplayFinding {
		d := c.decision
		return ReplayFinding{Record: c.id, Kind: c.kind, Number: c.number, Code: code, Message: message, Recorded: &d}
	}
	raw, err := r.j.Basis(ctx, c.id)
	if err != nil && op.AsError(err).Code != op.StateCorrupt {
		return err
	} else if err != nil {
		r.find(finding("altered", op.AsError(err).Message))
	}
	if raw == nil {
		r.out.Unjudged++
		return nil
	}
	var b basis
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&b); err != nil {
		r.find(finding("altered", "what the decision was made from cannot be read"))
		return nil
	}
	r.out.Judged++
	if d := r.judge(b.Request, b.Profile, b.Facts, b.Environment); !same(d, c.decision) {
		f := finding("verdict", fmt.Sprintf("it says %s (%s), and the same facts give %s (%s)", c.decision.Verdict, c.decision.Reason, d.Verdict, d.Reason))
		f.Judged = &d
		r.find(f)
	}
	r.inForce(c, b, finding)
	return nil
}

// inForce builds again what the rules of that moment gave to the decision: the mode, and
// each grant or remembered rule that it was handed.
func (r *replay) inForce(c record, b basis, finding func(code, message string) ReplayFinding) {
	var then []journal.Rule
	for _, id := range b.Rules {
		rule, ok := r.rules[id]
		if !ok {
			r.find(finding("rule", "the rule "+string(id)+" that counted then is not on record"))
			continue
		}
		if rule.Created.After(c.created.Add(time.Millisecond)) {
			r.find(finding("rule", "the rule "+string(id)+" was made after the decision that it counted for"))
		}
		// It counted then; what became of it since is of no matter.
		rule.Revoked, rule.Expires, rule.Used, rule.UsedBytes = false, time.Time{}, 0, 0
		then = append(then, rule)
	}
	as := &call{req: op.Request{Op: c.operation, Session: c.session, Stage: c.stage}, terms: b.Request, facts: b.Facts, profile: b.Profile}
	as.req.Op = b.Request.Op
	if mode := modeFor(b.BaseMode, then, as, c.created); mode != b.Profile.Mode {
		r.find(finding("mode", fmt.Sprintf("it was made in mode %s, and the rules of that moment give %s", b.Profile.Mode, mode)))
	}
	for _, g := range b.Environment.Grants {
		i := slices.IndexFunc(then, func(rule journal.Rule) bool { return rule.ID == op.ID(g.ID) && rule.Kind == journal.GrantRule })
		if i < 0 || then[i].Scope != g.Scope || then[i].MaxTier != g.MaxTier || !grantCovers(then[i], as) {
			r.find(finding("rule", "the grant "+g.ID+" as recorded does not cover this call"))
		}
	}
	if len(b.Environment.Remembered) > 0 {
		identities := []string{c.identity}
		if c.identity == "" {
			paths, flags := decision.Paths(b.Facts), decision.Flags(b.Request)
			identities = []string{decision.Identity(b.Request.Op, c.root, paths, append(slices.Clip(flags), directories(b.Facts)...)),
				decision.Identity(b.Request.Op, c.root, paths, flags)} // of a record from before directories counted
		}
		if !slices.ContainsFunc(then, func(rule journal.Rule) bool {
			return rule.Kind == journal.RememberedRule && slices.Contains(identities, rule.Identity)
		}) {
			r.find(finding("rule", "no remembered rule of that moment covers exactly this call"))
		}
	}
}

// settle closes the pass: what each card released, how often each rule was used, and what
// counted at the newest moment of the record.
func (r *replay) settle(rules []journal.Rule) {
	for id, card := range r.cards {
		if card.Operation != "" && r.ran[id] == "" && card.State == journal.Executed && !isRun(card.Operation) {
			r.find(ReplayFinding{Record: id, Kind: "approval", Number: card.Seq, Code: "queue", Message: "the operation " + string(card.Operation) + " that it released is not on record"})
		}
	}
	for _, rule := range rules {
		n := r.carried[rule.ID]
		if rule.Kind == journal.GrantRule && n > rule.Used {
			r.find(ReplayFinding{Record: rule.ID, Kind: "rule", Number: rule.Seq, Code: "rule",
				Message: fmt.Sprintf("it was counted %d times, and %d decisions name it", rule.Used, n)})
		}
		switch {
		case !rule.Live(r.out.AsOf):
		case rule.Kind == journal.ModeRule:
			r.out.Modes = append(r.out.Modes, ReplayedMode{rule.Agent, rule.Session, rule.Root, rule.Mode})
		default:
			r.out.Rules = append(r.out.Rules, ReplayedRule{rule.ID, rule.Kind, rule.Agent, rule.Used, n})
		}
	}
	for id := range r.carried {
		if _, ok := r.rules[id]; !ok {
			r.find(ReplayFinding{Record: id, Kind: "rule", Code: "rule", Message: "decisions name this rule, which is not on record"})
		}
	}
	slices.SortStableFunc(r.out.Findings, func(a, b ReplayFinding) int {
		if a.Kind != b.Kind {
			return strings.Compare(a.Kind, b.Kind)
		}
		if a.Number != b.Number {
			return int(a.Number - b.Number)
		}
		return strings.Compare(string(a.Record), string(b.Record))
	})
}

// isRun reports an id of a program's run, which has no operation of its own.
func isRun(id op.ID) bool { return strings.HasPrefix(string(id), "run_") }
