package flow

import (
	"context"
	"slices"
	"time"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

// Profile is the static side of a caller: what the operator lets it do, whatever it asks
// for. The zero Profile allows nothing.
type Profile struct {
	op.Profile
	About      string // for people and for agents that may ask for it
	Visible    bool   // agents see it in list_profiles and may ask for it
	Roots      []string
	Set        map[op.Name]op.Object // arguments that win over the call's own
	MaxChange  int64                 // bytes that one call may change; 0 is no limit
	MaxTargets int                   // paths that one call may touch; 0 is no limit
	MaxTimeout time.Duration         // of a program; 0 is the operator's general one
	From       string                // builtin, config, operator
}

// profileOf gives the profile under which a caller stands now: the one that a person put
// it under last, else that of its token, else the default. One that is gone is the zero
// one.
func (e *Engine) profileOf(ctx context.Context, by op.Caller) (string, Profile, error) {
	name := by.Profile
	rules, err := e.known.rulesFor(by.Token, func() ([]journal.Rule, error) { return e.jrn.RulesFor(ctx, by.Token) })
	if err != nil {
		return "", Profile{}, err
	}
	for _, r := range rules { // in order of making
		if r.Kind == journal.ProfileRule && r.Live(e.cfg.Now()) {
			name = r.Profile
		}
	}
	if name == "" {
		name = "default"
	}
	p, _, err := e.profileNamed(ctx, name)
	if by.Clearance > 0 {
		p.Clearance = max(by.Clearance-1, 1)
	}
	return name, p, err
}

// profileNamed finds a profile. The configuration's count before those that an operator
// made through the API, which can therefore never replace one of them.
func (e *Engine) profileNamed(ctx context.Context, name string) (Profile, bool, error) {
	if p, ok := e.settings().Profiles[name]; ok {
		return p, true, nil
	}
	made, err := e.made.all(ctx, e.jrn)
	p, ok := made[name]
	return p, ok, err
}

// narrowed gives the caller the roots that its profile leaves it.
func (e *Engine) narrowed(ctx context.Context, by op.Caller) (op.Caller, error) {
	if by.Role != op.Agent {
		return by, nil
	}
	_, p, err := e.profileOf(ctx, by)
	if err != nil || len(p.Roots) == 0 {
		return by, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	mine := []string{"-"} // no root has this name or key: none is left
	for _, w := range e.roots {
		if mayUse(by, w) && p.reaches(w) {
			mine = append(mine, w.Key)
		}
	}
	by.Roots = mine
	return by, nil
}

// reaches reports whether the profile counts in a root.
func (p Profile) reaches(w *Workspace) bool {
	return len(p.Roots) == 0 || slices.Contains(p.Roots, w.Key) || slices.Contains(p.Roots, w.Name)
}

// fixed puts the arguments that the profile sets into a call, those of a batch's parts as
// well, before anything is judged. What the call said of them is told to have no effect.
func (p Profile) fixed(name op.Name, args op.Object) (op.Object, []op.Warning) {
	var told []op.Warning
	if len(p.Set) == 0 {
		return args, nil
	}
	merged := put(p.Set[name], args, &told)
	items, ok := args["operations"].([]any)
	if name != op.BatchFileOps || !ok {
		return merged, told
	}
	list := make([]any, len(items))
	for i, v := range items {
		item, _ := v.(op.Object)
		inner, _ := item["args"].(op.Object)
		word, _ := item["op"].(string)
		one := op.Object{}
		for k, v := range item {
			one[k] = v
		}
		one["args"] = put(p.Set[op.Name(word)], inner, &told)
		list[i] = one
	}
	merged["operations"] = list
	return merged, told
}

func put(set, args op.Object, told *[]op.Warning) op.Object {
	out := op.Object{}
	for k, v := range args {
		out[k] = v
	}
	for k, v := range set {
		if was, given := out[k]; given && string(op.Canonical(was)) != string(op.Canonical(v)) {
			*told = append(*told, op.Warning{Code: "profile_argument", Message: k + " is set by the operator's profile; what the call said of it does not count"})
		}
		out[k] = v
	}
	return out
}

// limited refuses a call that is larger than the profile allows. It comes before the
// judgement, and a person cannot lift it: it is no question of asking.
func (c *call) limited() error {
	if c.spec.Class == op.Read || c.spec.Class == op.Reverting || c.released {
		return nil
	}
	n := 0
	for _, t := range c.facts.Targets {
		if t.Role != op.RoleParent {
			n++
		}
	}
	switch p := c.static; {
	case p.MaxTargets > 0 && n > p.MaxTargets:
		return op.Fail(op.TooLarge, "the call touches more paths than the caller's profile allows at once").In("args").Do("split it, or ask for another profile; nothing was changed")
	case p.MaxChange > 0 && c.facts.ChangeBytes > p.MaxChange:
		return op.Fail(op.TooLarge, "the change is larger than the caller's profile allows").In("args").Do("make smaller changes, or ask for another profile; nothing was changed")
	}
	return nil
}
