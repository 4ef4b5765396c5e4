package flow

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/zeebo/blake3"

	"holdpoint/fileops"
	"holdpoint/internal/journal"
	"holdpoint/op"
	"holdpoint/preflight"
)

// listProfiles answers list_profiles: the visible profiles of the caller's own roots, and
// the one it stands under. A profile that it may not see looks like none.
func (e *Engine) listProfiles(ctx context.Context, c *call) (map[string]any, error) {
	name, now, err := e.profileOf(ctx, c.by)
	if err != nil {
		return nil, err
	}
	all, err := e.everyProfile(ctx)
	if err != nil {
		return nil, err
	}
	list := []map[string]any{}
	for _, n := range sortedNames(all) {
		if p := all[n]; p.Visible && p.reaches(c.ws) && n != name {
			list = append(list, map[string]any{"name": n, "about": p.About, "changes": differences(now, p)})
		}
	}
	return map[string]any{"current": name, "profiles": list}, nil
}

// lookSwitch sees what a switch of profiles would change. The parameters of the wanted
// profile are pinned like a file: whoever approves has seen exactly these.
func (e *Engine) lookSwitch(ctx context.Context, c *call) error {
	wanted := c.args.(*op.SwitchArgs).Profile
	by, err := e.asToken(ctx, c.by)
	if err != nil {
		return err
	}
	name, now, err := e.profileOf(ctx, by)
	if err != nil {
		return err
	}
	p, known, err := e.profileNamed(ctx, wanted)
	if by.Clearance > 0 { // the owner's counts under every profile
		p.Clearance = now.Clearance
	}
	switch {
	case err != nil:
		return err
	case !known || !p.Visible || !p.reaches(c.ws):
		return op.Fail(op.NotFound, "there is no profile of this name that you may ask for").In("args.profile").Do("list_profiles names those that there are")
	case wanted == name:
		return op.Fail(op.Exists, "you stand under this profile already").In("args.profile")
	}
	changes := differences(now, p)
	lines := make([]string, 0, len(changes))
	for _, ch := range changes {
		lines = append(lines, fmt.Sprintf("%s: %s -> %s", ch.Name, ch.From, ch.To))
	}
	if len(lines) == 0 {
		lines = append(lines, "no parameter differs")
	}
	h := blake3.New()
	for _, param := range append(now.Params(), p.Params()...) {
		fmt.Fprintf(h, "%q %q\n", param.Name, param.Value)
	}
	c.sight = &preflight.Sight{Available: true}
	c.facts.Available, c.facts.Planned, c.facts.Mutates, c.facts.ChangeBytes = true, true, true, 0
	c.facts.Targets = []op.Target{{Path: op.Path("profile:" + name), Role: op.RoleSource, Exists: true, Kind: op.File},
		{Path: op.Path("profile:" + wanted), Role: op.RoleTarget, Exists: true, Kind: op.File, Hash: op.Digest("blake3:" + hex.EncodeToString(h.Sum(nil)))}}
	c.plan = &fileops.Plan{Title: "Put " + op.Visible(c.by.Name, false) + " under the profile " + wanted, Lines: lines,
		Result: map[string]any{"profile": wanted, "was": name, "changes": changes, "would": changes}}
	return nil
}

// asToken gives a caller with all that its token says: a released call knows its token by
// id alone.
func (e *Engine) asToken(ctx context.Context, by op.Caller) (op.Caller, error) {
	list, err := e.jrn.Tokens(ctx)
	for _, t := range list {
		if t.ID == by.Token {
			by.Profile, by.Clearance = t.Profile, t.Clearance
		}
	}
	return by, err
}

// performSwitch applies what a person released. It runs in the daemon on the answer's
// behalf; no caller reaches it.
func (e *Engine) performSwitch(ctx context.Context, c *call, d op.Decision, approval op.ID) op.Reply {
	row, err := e.jrn.Approval(ctx, approval)
	if err == nil && row.Answer == nil {
		err = ungated()
	}
	if err == nil {
		err = e.log.Ready()
	}
	if err != nil {
		return e.fail(c, d, err)
	}
	r := journal.Rule{ID: switchRule(approval), Kind: journal.ProfileRule, Token: c.by.Token, Agent: c.by.Name, Profile: c.args.(*op.SwitchArgs).Profile,
		By: row.Answer.By, Created: e.cfg.Now().UTC()}
	if err := e.applyProfile(ctx, r); err != nil {
		return e.fail(c, d, err)
	}
	delete(c.plan.Result, "would")
	c.plan.Result["rule_id"] = r.ID
	reply := e.reply(c, op.Done, d)
	reply.Result, reply.EffectsExecuted = c.plan.Result, true
	return reply
}

// switchRule names the rule of an approved switch after its row, so that a crash between
// the two records leaves no doubt.
func switchRule(approval op.ID) op.ID {
	return op.ID("ru_" + strings.TrimPrefix(string(approval), "ap_"))
}

// switched reports whether the rule of a row was made before a crash.
func (e *Engine) switched(ctx context.Context, row journal.Approval) (bool, error) {
	if row.Op != op.SwitchProfile || row.State != journal.Executing {
		return false, nil
	}
	list, err := e.jrn.Rules(ctx)
	for _, r := range list {
		if r.ID == switchRule(row.ID) {
			return true, err
		}
	}
	return false, err
}

// workspaceOf finds the root of a call. What concerns the caller alone belongs to no root;
// where it names none, its card stands under the first that the caller may use.
func (e *Engine) workspaceOf(by op.Caller, req op.Request) (*Workspace, error) {
	w, err := e.workspace(by, req.Root)
	if err == nil || req.Root != "" || req.Op != op.ListProfiles && req.Op != op.SwitchProfile {
		return w, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, w := range e.roots {
		if mayUse(by, w) {
			return w, nil
		}
	}
	return nil, err
}
