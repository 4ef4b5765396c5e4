package flow

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"holdpoint/op"
)

// tightFile is a workspace's own say about the calls in it. Agents can write there, so
// that it can take away and never give: each key only narrows what the operator left.
const tightFile = ".holdpoint.toml"

// tight is the file as written.
type tight struct {
	Require    bool              `toml:"require_approval"`
	Off        []string          `toml:"switch_off"` // names of switches: allow_exec
	Mode       string            `toml:"mode"`       // the loosest: deny, prompt, auto
	Floors     map[string]int    `toml:"floors"`
	Deadlines  map[string]string `toml:"deadlines"`
	MaxChange  int64             `toml:"max_change"`
	MaxTargets int               `toml:"max_targets"`

	deadlines map[op.Tier]time.Duration
}

// strictest is what holds where the file cannot be understood: what it would have taken
// away is not known, so that everything that changes something asks.
var strictest = tight{Require: true, Mode: string(op.Prompt)}

// readTight reads the file. What is wrong with it is said, and makes it the strictest.
func readTight(data []byte) (tight, []op.Warning) {
	bad := func(what string) (tight, []op.Warning) {
		return strictest, []op.Warning{{Code: "workspace_config", Message: tightFile + " of this workspace cannot be understood, so that every change asks: " + op.Visible(what, false)}}
	}
	var t tight
	dec := toml.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&t); err != nil {
		var strict *toml.StrictMissingError
		if errors.As(err, &strict) && len(strict.Errors) > 0 {
			return bad("unknown key " + strings.Join(strict.Errors[0].Key(), ".") + "; a workspace can only tighten")
		}
		return bad(err.Error())
	}
	var p op.Profile
	for _, name := range t.Off {
		known := false
		for _, s := range p.Switches() {
			known = known || s.Name == name && name != "require_approval"
		}
		if !known {
			return bad("there is no switch " + name)
		}
	}
	switch op.Mode(t.Mode) {
	case "", op.Deny, op.Prompt, op.AutoMode:
	default:
		return bad("mode must be deny, prompt or auto")
	}
	for name := range t.Floors {
		if _, ok := op.Lookup(op.Name(name)); !ok {
			return bad("floors: there is no operation " + name)
		}
	}
	t.deadlines = map[op.Tier]time.Duration{}
	for tier, text := range t.Deadlines {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 || op.Tier(tier).Rank() > 4 {
			return bad("deadlines." + tier + " must be a time like 10m")
		}
		t.deadlines[op.Tier(tier)] = d
	}
	if t.MaxChange < 0 || t.MaxTargets < 0 {
		return bad("limits cannot be negative")
	}
	return t, nil
}

// over gives the profile that is left of p in this workspace.
func (t tight) over(p Profile) Profile {
	p.RequireApproval = p.RequireApproval || t.Require
	for _, name := range t.Off {
		for _, s := range p.Switches() {
			if s.Name == name {
				*s.On = false
			}
		}
	}
	if m := op.Mode(t.Mode); m != "" && modeRank[m] < modeRank[p.Mode] {
		p.Mode = m
	}
	p.MaxChange = least(p.MaxChange, t.MaxChange)
	p.MaxTargets = int(least(int64(p.MaxTargets), int64(t.MaxTargets)))
	return p
}

// least gives the smaller of two limits, of which 0 is none.
func least(a, b int64) int64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// tightened reads the workspace's file when it is not the one that was read last.
func (w *Workspace) tightened(ctx context.Context) (tight, error) {
	if is, err := w.Root.Peek(ctx, tightFile); err == nil {
		w.mu.Lock()
		t, same := w.tight, is == w.tightFrom
		w.mu.Unlock()
		if same {
			return t, nil
		}
	}
	n, err := w.Root.Look(ctx, tightFile, false)
	if err != nil {
		return strictest, err
	}
	defer n.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	if n.Info == w.tightFrom {
		return w.tight, nil
	}
	t, warnings := tight{}, []op.Warning(nil)
	switch n.Info.Kind {
	case op.Absent:
	case op.File:
		b, err := n.Read(maxPatternFile)
		if err != nil {
			return strictest, err
		}
		t, warnings = readTight(b)
	default:
		t, warnings = readTight([]byte("not a regular file"))
	}
	w.tight, w.tightFrom, w.tightWarnings = t, n.Info, warnings
	return t, nil
}

// tighten applies the workspace's file to a call.
func (c *call) tighten(ctx context.Context) error {
	t, err := c.ws.tightened(ctx)
	if err != nil {
		return err
	}
	c.static = t.over(c.static)
	c.profile, c.tight = c.static.Profile, t
	return nil
}
