package flow

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"holdpoint/audit"
	"holdpoint/internal/journal"
	"holdpoint/op"
)

// metaProfiles is where the journal keeps the profiles that operators made.
const metaProfiles = "profiles"

// made keeps the profiles that operators made through the API, as they are in the journal.
type made struct {
	mu    sync.Mutex             // guards the rest
	specs map[string]ProfileSpec // nil until read
	list  map[string]Profile
}

// all gives them; what cannot be read is an error, never an empty list.
func (m *made) all(ctx context.Context, j *journal.Journal) (map[string]Profile, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.list, m.load(ctx, j)
}

// load reads them once; the caller holds mu.
func (m *made) load(ctx context.Context, j *journal.Journal) error {
	if m.specs != nil {
		return nil
	}
	text, err := j.Meta(ctx, metaProfiles)
	if err != nil {
		return err
	}
	specs, list := map[string]ProfileSpec{}, map[string]Profile{}
	if text != "" {
		err = json.Unmarshal([]byte(text), &specs)
	}
	for name, s := range specs {
		if err == nil {
			var p Profile
			p, err = s.Profile()
			p.From = "operator"
			list[name] = p
		}
	}
	if err != nil {
		return op.Fail(op.StateCorrupt, "the recorded profiles cannot be read").Because(err)
	}
	m.specs, m.list = specs, list
	return nil
}

// change writes a new list, or leaves all as it was. Maps are never changed in place: the
// callers of all hold on to the one they got.
func (m *made) change(ctx context.Context, j *journal.Journal, how func(map[string]ProfileSpec)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.load(ctx, j); err != nil {
		return err
	}
	next := map[string]ProfileSpec{}
	for n, s := range m.specs {
		next[n] = s
	}
	how(next)
	text, err := json.Marshal(next)
	if err == nil {
		err = j.SetMeta(ctx, metaProfiles, string(text))
	}
	if err != nil {
		return err
	}
	m.specs = nil
	return m.load(ctx, j)
}

// ProfileView is one profile for an operator.
func (e *Engine) profileView(name string, p Profile, agents []string) op.Object {
	o := op.Object{"name": name, "from": p.From, "about": p.About, "visible": p.Visible, "mode": string(p.Mode), "clearance": int64(p.Clearance),
		"roots": []any{}, "max_change": p.MaxChange, "max_targets": int64(p.MaxTargets), "max_timeout": "", "set": op.Object{}, "agents": []any{}}
	for _, s := range p.Switches() {
		o[s.Name] = *s.On
	}
	for key, list := range map[string][]string{"roots": p.Roots, "agents": agents} {
		for _, s := range list {
			o[key] = append(o[key].([]any), s)
		}
	}
	if p.MaxTimeout > 0 {
		o["max_timeout"] = p.MaxTimeout.String()
	}
	for n, set := range p.Set {
		o["set"].(op.Object)[string(n)] = set
	}
	return o
}

// Profiles lists all profiles with the agents that stand under each now.
func (e *Engine) Profiles(ctx context.Context) ([]op.Object, error) {
	all, err := e.everyProfile(ctx)
	if err != nil {
		return nil, err
	}
	users, err := e.profileUsers(ctx)
	if err != nil {
		return nil, err
	}
	out := []op.Object{}
	for _, name := range sortedNames(all) {
		out = append(out, e.profileView(name, all[name], users[name]))
	}
	return out, nil
}

func (e *Engine) everyProfile(ctx context.Context) (map[string]Profile, error) {
	list, err := e.made.all(ctx, e.jrn)
	if err != nil {
		return nil, err
	}
	all := map[string]Profile{}
	for n, p := range list {
		all[n] = p
	}
	for n, p := range e.settings().Profiles {
		all[n] = p
	}
	return all, nil
}

func sortedNames(all map[string]Profile) []string {
	names := make([]string, 0, len(all))
	for n := range all {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// profileUsers tells which live agents stand under which profile.
func (e *Engine) profileUsers(ctx context.Context) (map[string][]string, error) {
	tokens, err := e.jrn.Tokens(ctx)
	if err != nil {
		return nil, err
	}
	users := map[string][]string{}
	for _, t := range tokens {
		if t.Role != op.Agent || t.Revoked || !t.Expires.IsZero() && !e.cfg.Now().Before(t.Expires) {
			continue
		}
		name, _, err := e.profileOf(ctx, op.Caller{Token: t.ID, Role: t.Role, Profile: t.Profile})
		if err != nil {
			return nil, err
		}
		users[name] = append(users[name], t.Name)
	}
	return users, nil
}

// PutProfile makes or replaces a profile. Those of the configuration are changed there.
func (e *Engine) PutProfile(ctx context.Context, by op.Caller, name string, o op.Object) (op.Object, error) {
	if !op.Label(name) {
		return nil, op.Fail(op.BadRequest, "name must be 1 to 64 of A-Z a-z 0-9 . _ : -").In("name")
	}
	p, spec, err := profileFrom(o)
	if err != nil {
		return nil, err
	}
	if err := e.ours(name); err != nil {
		return nil, err
	}
	if err := e.log.Ready(); err != nil {
		return nil, err
	}
	if err := e.made.change(ctx, e.jrn, func(m map[string]ProfileSpec) { m[name] = spec }); err != nil {
		return nil, err
	}
	e.known.forget()
	p.From = "operator"
	e.profileChanged(by, "profile_set", name)
	users, err := e.profileUsers(ctx)
	return e.profileView(name, p, users[name]), err
}

// DeleteProfile drops a profile that no live agent stands under: such an agent could do
// nothing any more, and nobody would know why.
func (e *Engine) DeleteProfile(ctx context.Context, by op.Caller, name string) error {
	if err := e.ours(name); err != nil {
		return err
	}
	list, err := e.made.all(ctx, e.jrn)
	if err != nil {
		return err
	}
	if _, ok := list[name]; !ok {
		return op.Fail(op.NotFound, "no profile has this name").In("name")
	}
	users, err := e.profileUsers(ctx)
	if err != nil {
		return err
	}
	if n := len(users[name]); n > 0 {
		return op.Fail(op.Exists, "agents stand under this profile: "+users[name][0]).In("name").Do("put them under another one first, or revoke their tokens")
	}
	if err := e.log.Ready(); err != nil {
		return err
	}
	if err := e.made.change(ctx, e.jrn, func(m map[string]ProfileSpec) { delete(m, name) }); err != nil {
		return err
	}
	e.profileChanged(by, "profile_removed", name)
	return nil
}

// ours refuses names that the configuration, or the program itself, defines.
func (e *Engine) ours(name string) error {
	p, ok := e.settings().Profiles[name]
	switch {
	case !ok:
		return nil
	case p.From == "builtin":
		return op.Fail(op.Exists, "the default profile is the program's own").In("name").Do("write [profiles.default] in the configuration, or make a profile of another name")
	}
	return op.Fail(op.Exists, "this profile stands in the configuration file").In("name").Do("change it there; the daemon reads it again by itself")
}

func (e *Engine) profileChanged(by op.Caller, event, name string) {
	e.log.Append(audit.Record{Kind: audit.Setting, Agent: by.Name, Outcome: event})
	e.events.publish(Event{Type: event, Time: e.cfg.Now().UTC(), Agent: by.Name, Data: map[string]any{"profile": name, "by": by.Name}})
}

// UseProfile puts one agent under a profile, from its next call on. Only an operator can,
// or a reviewer who releases what the agent asked for.
func (e *Engine) UseProfile(ctx context.Context, by op.Caller, name, agent string) (journal.Rule, error) {
	if !by.Role.Includes(op.Operator) {
		return journal.Rule{}, op.Fail(op.Forbidden, "only an operator puts agents under a profile")
	}
	if _, ok, err := e.profileNamed(ctx, name); err != nil || !ok {
		if err == nil {
			err = op.Fail(op.NotFound, "no profile has this name").In("profile")
		}
		return journal.Rule{}, err
	}
	token, err := e.tokenNamed(ctx, agent)
	if err != nil {
		return journal.Rule{}, err
	}
	r := journal.Rule{ID: e.jrn.NewID("ru_"), Kind: journal.ProfileRule, Token: token.ID, Agent: token.Name, Profile: name, By: by.Name, Created: e.cfg.Now().UTC()}
	return r, e.applyProfile(ctx, r)
}

// applyProfile makes the rule that counts from now on, then ends the older ones of the
// token. The newest counts, so that a stop between the two changes nothing.
func (e *Engine) applyProfile(ctx context.Context, r journal.Rule) error {
	old, err := e.jrn.RulesFor(ctx, r.Token)
	if err != nil {
		return err
	}
	if err := e.keepRule(ctx, r, "rule.added"); err != nil {
		return err
	}
	for _, o := range old {
		if o.Kind == journal.ProfileRule && o.ID != r.ID {
			if _, err := e.revoke(ctx, o.ID, r.By); err != nil {
				return err
			}
		}
	}
	return nil
}
