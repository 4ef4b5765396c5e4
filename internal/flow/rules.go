package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"holdpoint/decision"
	"holdpoint/internal/journal"
	"holdpoint/op"
	"holdpoint/protected"
)

// modeRank orders modes from the strictest.
var modeRank = map[op.Mode]int{op.Deny: 0, op.Prompt: 1, op.AutoMode: 2, op.Yolo: 3}

// judge asks the one judgement, with the rules that people made for this caller. A grant
// that counts uses is used here, before any effect; when another call took the last of
// it, the call is judged again without it.
func (e *Engine) judge(ctx context.Context, c *call, use bool) (op.Decision, error) {
	var spent []string
	for {
		env, err := e.environment(ctx, c, spent)
		if err != nil {
			return op.Decision{}, err
		}
		d := decision.Judge(c.terms, c.profile, c.facts, env)
		c.basis.Request, c.basis.Profile, c.basis.Facts, c.basis.Environment = c.terms, c.profile, c.facts, env
		if !use || d.GrantID == "" || d.Verdict != op.Auto {
			return d, nil
		}
		err = e.jrn.UseRule(ctx, op.ID(d.GrantID), max(c.facts.ChangeBytes, 0))
		e.known.forget()
		if !errors.Is(err, op.NotAvailable) {
			return d, err
		}
		spent = append(spent, d.GrantID)
	}
}

// environment is what the daemon alone knows of a call. It also sets the mode that holds
// for the calling token, which is no part of the call either.
func (e *Engine) environment(ctx context.Context, c *call, spent []string) (op.Environment, error) {
	env := op.Environment{CallerRole: c.by.Role, WorkflowID: c.by.Workflow, ClearanceFloor: 1, YoloAllowed: e.cfg.AllowYolo, ProcessApprovalDisabled: e.cfg.Process.ApprovalDisabled,
		RehearseWithoutReview: e.cfg.Process.RehearseWithoutReview}
	if p := c.process; p != nil && p.typed != nil {
		env.SessionReleased = p.typed.WholeSession
	}
	if f, ok := e.settings().Floors[c.req.Op]; ok {
		env.ClearanceFloor = f
	}
	env.ClearanceFloor = max(env.ClearanceFloor, c.tight.Floors[string(c.req.Op)])
	if e.trust != nil {
		set := e.trust.Current()
		env.Trusted = set.For(c.by.Workflow, c.ws.Key, c.ws.Root.Dir(), c.terms.Op, c.facts.Targets, c.destructiveParts())
		// An entry that picks its files lifts its own cleanup alone, and nothing else lifts that.
		env.Trusted = slices.DeleteFunc(env.Trusted, func(p op.TrustedPolicy) bool { return p.ID != c.entry && (c.entry != "" || set.Selects(p.ID)) })
	}
	rules, err := e.known.rulesFor(c.by.Token, func() ([]journal.Rule, error) { return e.jrn.RulesFor(ctx, c.by.Token) })
	if err != nil {
		return env, err
	}
	now := e.cfg.Now()
	base := c.static.Mode
	c.profile.Mode = modeFor(base, rules, c, now)
	c.basis = &basis{BaseMode: base, Rules: liveRules(rules, c.ws.Key, now)}
	identity := ""
	for _, r := range rules {
		if identity == "" && r.Kind == journal.RememberedRule {
			identity = e.identity(c)
		}
		switch {
		case !r.Live(now) || r.Root != "" && r.Root != c.ws.Key || slices.Contains(spent, string(r.ID)):
		case r.Kind == journal.RememberedRule && r.Identity == identity:
			env.Remembered = append(env.Remembered, op.SameIdentity)
		case r.Kind == journal.GrantRule && grantCovers(r, c):
			env.Grants = append(env.Grants, op.Grant{ID: string(r.ID), Scope: r.Scope, MaxTier: r.MaxTier})
		}
	}
	return env, nil
}

// modeFor gives the mode that holds for one call. The label in a call is the caller's own
// word, so it can only narrow: a looser mode counts for exactly the label it was given
// to, a stricter one binds every call of the token.
func modeFor(base op.Mode, rules []journal.Rule, c *call, now time.Time) op.Mode {
	mode := base
	for _, r := range rules {
		// Deny and prompt of a profile are a ceiling: nobody loosens them for one session.
		if base == op.AutoMode && r.Kind == journal.ModeRule && r.Live(now) && modeRank[r.Mode] > modeRank[mode] && (r.Session == "" || r.Session == c.req.Session) {
			mode = r.Mode
		}
	}
	for _, r := range rules {
		if r.Kind == journal.ModeRule && r.Live(now) && modeRank[r.Mode] < modeRank[mode] && modeRank[r.Mode] < modeRank[base] {
			mode = r.Mode
		}
	}
	return mode
}

// grantCovers reports whether a grant was given for a call like this.
func grantCovers(r journal.Rule, c *call) bool {
	switch r.Scope {
	case "session":
		if r.Session == "" || r.Session != c.req.Session {
			return false
		}
	case "stage":
		if r.Stage == "" || r.Stage != c.req.Stage || r.Session != "" && r.Session != c.req.Session {
			return false
		}
	case "project":
		if r.Root == "" {
			return false
		}
	default:
		return false
	}
	if len(r.Operations) > 0 && !slices.Contains(r.Operations, c.req.Op) {
		return false
	}
	if r.MaxBytes > 0 && (c.facts.ChangeBytes < 0 || r.UsedBytes+c.facts.ChangeBytes > r.MaxBytes) {
		return false
	}
	return len(r.Paths) == 0 || allMatch(r.Paths, c.facts.Targets)
}

// allMatch reports whether every target lies under one of the patterns.
func allMatch(patterns []string, targets []op.Target) bool {
	list, err := protected.Compile(patterns, "grant")
	if err != nil {
		return false
	}
	for _, t := range targets {
		if t.Role == op.RoleParent {
			continue
		}
		if in, _ := list.Match(string(t.Path), t.Kind == op.Directory); !in {
			return false
		}
	}
	return true
}

// destructiveParts names the destructive operations of a batch; each must be named by a
// trusted entry of its own.
func (c *call) destructiveParts() []op.Name {
	if c.plan == nil {
		return nil
	}
	return c.plan.DestructiveParts
}

// RuleSpec is a grant or a mode as a person asks for it.
type RuleSpec struct {
	Agent, Root, Scope, Session, Stage string
	Mode                               op.Mode
	Operations                         []op.Name
	Paths                              []string
	MaxTier                            op.Tier
	MaxCount, MaxBytes                 int64
	For                                time.Duration
	Confirm                            bool // of mode yolo
}

// How long modes and grants last when nobody says, and at most.
const (
	defaultRule = time.Hour
	longestYolo = 8 * time.Hour
)

// Grant makes a grant.
func (e *Engine) Grant(ctx context.Context, by op.Caller, s RuleSpec) (journal.Rule, error) {
	r, err := e.ruleFor(ctx, by, s)
	if err != nil {
		return r, err
	}
	r.Kind, r.Scope, r.Stage, r.Operations, r.Paths = journal.GrantRule, s.Scope, s.Stage, s.Operations, s.Paths
	r.MaxTier, r.MaxCount, r.MaxBytes = s.MaxTier, s.MaxCount, s.MaxBytes
	if r.MaxTier == "" {
		r.MaxTier = op.T2
	}
	bad := func(field, msg string) (journal.Rule, error) {
		return r, op.Fail(op.BadRequest, msg).In(field)
	}
	switch {
	case s.Scope == "session" && s.Session == "":
		return bad("session", "a session grant names the session")
	case s.Scope == "stage" && s.Stage == "":
		return bad("stage", "a stage grant names the stage")
	case s.Scope == "project" && r.Root == "":
		return bad("root", "a project grant names the root")
	case s.Scope != "session" && s.Scope != "stage" && s.Scope != "project":
		return bad("scope", "scope must be session, stage or project")
	case r.MaxTier.Rank() > 4:
		return bad("max_tier", "max_tier must be T0 to T4")
	case s.MaxCount < 0 || s.MaxBytes < 0:
		return bad("count", "limits cannot be negative")
	}
	for _, n := range s.Operations {
		if _, ok := op.Lookup(n); !ok {
			return bad("operations", "unknown operation "+string(n))
		}
	}
	if _, err := protected.Compile(s.Paths, "grant"); err != nil {
		return r, err
	}
	if s.For == 0 && s.Scope != "project" {
		r.Expires = e.cfg.Now().Add(defaultRule).UTC()
	}
	return r, e.keepRule(ctx, r, "grant.added")
}

// SetMode sets the mode of one token, for a session or for all its calls. Earlier modes of
// the same token and label end.
func (e *Engine) SetMode(ctx context.Context, by op.Caller, s RuleSpec) (journal.Rule, error) {
	r, err := e.ruleFor(ctx, by, s)
	if err != nil {
		return r, err
	}
	if _, ok := modeRank[s.Mode]; !ok {
		return r, op.Fail(op.BadRequest, "mode must be deny, prompt, auto or yolo").In("mode")
	}
	if s.For == 0 {
		s.For = defaultRule
	}
	if s.Mode == op.Yolo {
		switch {
		case !e.cfg.AllowYolo:
			return r, op.Fail(op.Forbidden, "this daemon was not started with --allow-yolo").In("mode").Do("the operator gives leave at start-up")
		case !s.Confirm:
			return r, op.Fail(op.BadRequest, "mode yolo runs deletes and processes without asking; it needs a confirmation").In("confirm").Do("say confirm: true")
		case s.For > longestYolo:
			return r, op.Fail(op.BadRequest, "mode yolo lasts 8 hours at most").In("for")
		}
	}
	r.Kind, r.Mode, r.Scope, r.Expires = journal.ModeRule, s.Mode, "session", e.cfg.Now().Add(s.For).UTC()
	old, err := e.jrn.RulesFor(ctx, r.Token)
	if err != nil {
		return r, err
	}
	before, err := e.modeBefore(ctx, old, r)
	if err != nil {
		return r, err
	}
	for _, o := range old {
		if o.Kind == journal.ModeRule && o.Session == r.Session && o.Root == r.Root {
			if _, err := e.revoke(ctx, o.ID, by.Name); err != nil {
				return r, err
			}
		}
	}
	defer e.known.forget()
	if err := e.jrn.AddRule(ctx, r); err != nil {
		return r, err
	}
	e.tellMode(r, before, r.Mode, r.By)
	return r, nil
}

// EndModes ends the modes of one token that were given to a session, or to all its calls
// where none is named.
func (e *Engine) EndModes(ctx context.Context, by op.Caller, s RuleSpec) ([]journal.Rule, error) {
	like, err := e.ruleFor(ctx, by, s)
	if err != nil {
		return nil, err
	}
	rules, err := e.jrn.RulesFor(ctx, like.Token)
	if err != nil {
		return nil, err
	}
	var ended []journal.Rule
	for _, r := range rules {
		if r.Kind != journal.ModeRule || r.Session != like.Session || r.Root != like.Root {
			continue
		}
		if r, err = e.RevokeRule(ctx, by, r.ID); err != nil {
			return ended, err
		}
		ended = append(ended, r)
	}
	if ended == nil {
		return nil, op.Fail(op.NotFound, "no such mode is set").Do("mode show lists those that are")
	}
	return ended, nil
}

// ruleFor starts a rule: only people make them, and each is for one token.
func (e *Engine) ruleFor(ctx context.Context, by op.Caller, s RuleSpec) (journal.Rule, error) {
	r := journal.Rule{ID: e.jrn.NewID("ru_"), Agent: s.Agent, Session: s.Session, By: by.Name, Created: e.cfg.Now().UTC()}
	if !by.Role.Includes(op.Reviewer) {
		return r, op.Fail(op.Forbidden, "only a reviewer makes rules")
	}
	for field, label := range map[string]string{"session": s.Session, "stage": s.Stage} {
		if label != "" && !op.Label(label) {
			return r, op.Fail(op.BadRequest, field+" must be at most 64 of A-Z a-z 0-9 . _ : -").In(field)
		}
	}
	if s.Root != "" || len(by.Roots) > 0 { // a reviewer of some roots makes no rule for all
		w, err := e.workspace(by, s.Root)
		if err != nil {
			return r, err
		}
		r.Root = w.Key
	}
	if s.For > 0 {
		r.Expires = e.cfg.Now().Add(s.For).UTC()
	}
	token, err := e.tokenNamed(ctx, s.Agent)
	if err != nil {
		return r, err
	}
	r.Token, r.Agent = token.ID, token.Name
	return r, nil
}

// tokenNamed finds the one agent token of a name or id.
func (e *Engine) tokenNamed(ctx context.Context, name string) (journal.Token, error) {
	list, err := e.jrn.Tokens(ctx)
	if err != nil {
		return journal.Token{}, err
	}
	var found []journal.Token
	for _, t := range list {
		live := !t.Revoked && (t.Expires.IsZero() || e.cfg.Now().Before(t.Expires))
		if live && t.Role == op.Agent && (t.Name == name || string(t.ID) == name) {
			found = append(found, t)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return journal.Token{}, op.Fail(op.NotFound, "no agent has this name").In("agent").Do("token list shows the names")
	}
	return journal.Token{}, op.Fail(op.BadRequest, fmt.Sprintf("%d tokens have this name; a rule is for one", len(found))).In("agent").Do("name the token by its id")
}

func (e *Engine) keepRule(ctx context.Context, r journal.Rule, event string) error {
	defer e.known.forget()
	if err := e.jrn.AddRule(ctx, r); err != nil {
		return err
	}
	e.tell(event, r)
	return nil
}

func (e *Engine) tell(event string, r journal.Rule) {
	e.events.publish(Event{Type: event, Time: e.cfg.Now().UTC(), Root: r.Root, Agent: r.Agent, Token: string(r.Token),
		Data: map[string]any{"rule_id": r.ID, "kind": r.Kind, "mode": r.Mode, "scope": r.Scope, "by": r.By}})
}

// Rules lists modes, grants and remembered rules; ended ones only when asked for.
func (e *Engine) Rules(ctx context.Context, all bool) ([]journal.Rule, error) {
	list, err := e.jrn.Rules(ctx)
	out := make([]journal.Rule, 0, len(list))
	for _, r := range list {
		if all || r.Live(e.cfg.Now()) {
			out = append(out, r)
		}
	}
	return out, err
}

// RevokeRule ends a rule; it counts from the next judgement on.
func (e *Engine) RevokeRule(ctx context.Context, by op.Caller, id op.ID) (journal.Rule, error) {
	r, err := e.revoke(ctx, id, by.Name)
	if err != nil {
		return r, err
	}
	if r.Kind == journal.ModeRule {
		rules, err := e.jrn.RulesFor(ctx, r.Token)
		if err != nil {
			return r, err
		}
		now, err := e.modeBefore(ctx, rules, r)
		if errors.Is(err, op.NotFound) { // its token ended before it did
			err = nil
		}
		e.tellMode(r, r.Mode, now, by.Name)
		return r, err
	}
	e.tell(map[string]string{journal.GrantRule: "grant.revoked", journal.RememberedRule: "rule.revoked", journal.ProfileRule: "mode.changed"}[r.Kind], r)
	return r, nil
}

func (e *Engine) revoke(ctx context.Context, id op.ID, by string) (journal.Rule, error) {
	defer e.known.forget()
	return e.jrn.RevokeRule(ctx, id, by)
}

// endSessions takes back what was for one run of the daemon only: modes, and grants of a
// session or stage. Project grants and remembered rules stay, and are told.
func (e *Engine) endSessions(ctx context.Context) error {
	list, err := e.jrn.Rules(ctx)
	if err != nil {
		return err
	}
	for _, r := range list {
		switch {
		case r.Revoked:
		case r.Kind == journal.ModeRule || r.Kind == journal.GrantRule && r.Scope != "project":
			if _, err := e.revoke(ctx, r.ID, "restart"); err != nil {
				return err
			}
		case r.Kind == journal.GrantRule && r.Live(e.cfg.Now()):
			e.tell("grant.loaded", r)
		}
	}
	return nil
}
