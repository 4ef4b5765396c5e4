package flow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdpoint/op"
)

// ProfileSpec is a profile as the operator writes it, in the configuration or through the
// API. What is absent is as in the default profile.
type ProfileSpec struct {
	About           *string                   `json:"about,omitempty" toml:"about"`
	Visible         *bool                     `json:"visible,omitempty" toml:"visible"`
	RequireApproval *bool                     `json:"require_approval,omitempty" toml:"require_approval"`
	AllowRead       *bool                     `json:"allow_read,omitempty" toml:"allow_read"`
	AllowWrite      *bool                     `json:"allow_write,omitempty" toml:"allow_write"`
	AllowEdit       *bool                     `json:"allow_edit,omitempty" toml:"allow_edit"`
	AllowPatch      *bool                     `json:"allow_patch,omitempty" toml:"allow_patch"`
	AllowCopy       *bool                     `json:"allow_copy,omitempty" toml:"allow_copy"`
	AllowBackup     *bool                     `json:"allow_backup,omitempty" toml:"allow_backup"`
	AllowDelete     *bool                     `json:"allow_delete,omitempty" toml:"allow_delete"`
	AllowMove       *bool                     `json:"allow_move,omitempty" toml:"allow_move"`
	AllowRollback   *bool                     `json:"allow_rollback,omitempty" toml:"allow_rollback"`
	AllowBatch      *bool                     `json:"allow_batch,omitempty" toml:"allow_batch"`
	AllowExec       *bool                     `json:"allow_exec,omitempty" toml:"allow_exec"`
	AllowUndo       *bool                     `json:"allow_undo,omitempty" toml:"allow_undo"`
	AllowSwitch     *bool                     `json:"allow_switch,omitempty" toml:"allow_switch"`
	Clearance       *int                      `json:"clearance,omitempty" toml:"clearance"`
	Mode            *string                   `json:"mode,omitempty" toml:"mode"`
	Roots           []string                  `json:"roots,omitempty" toml:"roots"`
	MaxChange       *int64                    `json:"max_change,omitempty" toml:"max_change"`
	MaxTargets      *int                      `json:"max_targets,omitempty" toml:"max_targets"`
	MaxTimeout      *string                   `json:"max_timeout,omitempty" toml:"max_timeout"`
	Set             map[string]map[string]any `json:"set,omitempty" toml:"set"`
}

// Profile checks a spec and gives the profile that it stands for.
func (s ProfileSpec) Profile() (Profile, error) {
	p := Profile{Profile: op.DefaultProfile(), About: op.Or(s.About, ""), Visible: op.Or(s.Visible, false), Roots: s.Roots,
		MaxChange: op.Or(s.MaxChange, 0), MaxTargets: op.Or(s.MaxTargets, 0)}
	given := []*bool{s.RequireApproval, s.AllowRead, s.AllowWrite, s.AllowEdit, s.AllowPatch, s.AllowCopy, s.AllowBackup, s.AllowDelete, s.AllowMove,
		s.AllowRollback, s.AllowBatch, s.AllowExec, s.AllowUndo, s.AllowSwitch}
	for i, sw := range p.Switches() {
		*sw.On = op.Or(given[i], *sw.On)
	}
	bad := func(field, msg string) (Profile, error) { return Profile{}, op.Fail(op.BadRequest, msg).In(field) }
	if p.Clearance = op.Or(s.Clearance, p.Clearance); p.Clearance < 1 {
		return bad("clearance", "clearance must be at least 1")
	}
	switch m := op.Mode(op.Or(s.Mode, string(p.Mode))); m {
	case op.Deny, op.Prompt, op.AutoMode:
		p.Mode = m
	case op.Yolo:
		return bad("mode", "mode yolo is set by a person for one session, never by a profile")
	default:
		return bad("mode", "mode must be deny, prompt or auto")
	}
	switch {
	case len(p.About) > 400:
		return bad("about", "about is at most 400 bytes")
	case p.MaxChange < 0 || p.MaxTargets < 0:
		return bad("max_change", "limits cannot be negative")
	case slices.Contains(p.Roots, ""):
		return bad("roots", "a root has a name or a key")
	}
	if s.MaxTimeout != nil {
		d, err := time.ParseDuration(*s.MaxTimeout)
		if err != nil || d <= 0 {
			return bad("max_timeout", "max_timeout must be a time like 5m")
		}
		p.MaxTimeout = d
	}
	var err error
	p.Set, err = fixedArguments(s.Set)
	return p, err
}

// fixedArguments checks the arguments that a profile sets, operation by operation.
func fixedArguments(given map[string]map[string]any) (map[op.Name]op.Object, error) {
	out := map[op.Name]op.Object{}
	for name, args := range given {
		at := "set." + name
		spec, known := op.Lookup(op.Name(name))
		if !known || !spec.Built {
			return nil, op.Fail(op.BadRequest, "there is no operation "+name).In(at)
		}
		text, err := json.Marshal(args)
		if err != nil {
			return nil, op.Fail(op.BadRequest, at+" cannot be written as JSON").In(at)
		}
		o, err := op.ParseJSON(text)
		if err == nil {
			err = op.CheckPart(spec, o, at)
		}
		if err != nil {
			return nil, err
		}
		out[spec.Name] = o
	}
	return out, nil
}

// profileFrom reads a spec from a decoded JSON object, strictly.
func profileFrom(o op.Object) (Profile, ProfileSpec, error) {
	var s ProfileSpec
	dec := json.NewDecoder(bytes.NewReader(op.Canonical(o)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		msg := strings.TrimPrefix(err.Error(), "json: ")
		e := op.Fail(op.BadRequest, "the profile cannot be read: "+msg)
		if _, name, ok := strings.Cut(msg, "unknown field "); ok {
			e = e.In(strings.Trim(name, `"`))
		}
		return Profile{}, s, e
	}
	p, err := s.Profile()
	return p, s, err
}

// Param is one parameter of a profile in words.
type Param struct{ Name, Value string }

// Params lists every parameter that bears on calls, in a fixed order, so that two profiles
// can be laid side by side.
func (p Profile) Params() []Param {
	var out []Param
	for _, s := range p.Switches() {
		out = append(out, Param{s.Name, fmt.Sprint(*s.On)})
	}
	limit := func(n int64) string {
		if n == 0 {
			return "none"
		}
		return fmt.Sprint(n)
	}
	roots, timeout := "all", "the general one"
	if len(p.Roots) > 0 {
		roots = strings.Join(p.Roots, " ")
	}
	if p.MaxTimeout > 0 {
		timeout = p.MaxTimeout.String()
	}
	out = append(out, Param{"mode", string(p.Mode)}, Param{"clearance", fmt.Sprint(p.Clearance)}, Param{"roots", roots},
		Param{"max_change", limit(p.MaxChange)}, Param{"max_targets", limit(int64(p.MaxTargets))}, Param{"max_timeout", timeout})
	for _, spec := range op.Operations() {
		if set := p.Set[spec.Name]; len(set) > 0 {
			out = append(out, Param{"set." + string(spec.Name), string(op.Canonical(set))})
		}
	}
	return out
}

// Change is one parameter that differs between two profiles.
type Change struct {
	Name string `json:"name"`
	From string `json:"from"`
	To   string `json:"to"`
}

// differences lays two profiles side by side, parameter by parameter.
func differences(from, to Profile) []Change {
	value := func(list []Param, name string) string {
		for _, p := range list {
			if p.Name == name {
				return p.Value
			}
		}
		return "none"
	}
	a, b := from.Params(), to.Params()
	out := []Change{}
	for _, p := range append(slices.Clone(b), a...) {
		was, is := value(a, p.Name), value(b, p.Name)
		if was != is && !slices.ContainsFunc(out, func(c Change) bool { return c.Name == p.Name }) {
			out = append(out, Change{p.Name, was, is})
		}
	}
	return out
}
