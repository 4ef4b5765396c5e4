package flow

import (
	"context"
	"path/filepath"
	"time"

	"holdpoint/audit"
	"holdpoint/internal/rooted"
	"holdpoint/op"
	"holdpoint/protected"
)

// Settings is the part of the configuration that may change while the daemon runs. What
// it says counts from the next judgement on; calls that wait for a person keep the terms
// under which they were held.
type Settings struct {
	Profiles  map[string]Profile // "default" is added when absent
	Protected []string           // operator patterns; a negated one stops the start
	Floors    map[op.Name]int    // clearance floors; 1 where absent
	Deadlines map[op.Tier]time.Duration
	OnTimeout map[op.Tier]string // reject (the default), pause, auto_deny
	Two       TwoReviewers
}

// settings gives the ones that hold now. The caller must not change them.
func (e *Engine) settings() *Settings { return e.live.Load() }

// complete adds the default profile where nobody wrote one.
func (s Settings) complete() *Settings {
	all := map[string]Profile{"default": {Profile: op.DefaultProfile(), From: "builtin"}}
	for name, p := range s.Profiles {
		all[name] = p
	}
	s.Profiles = all
	return &s
}

// Reload puts new settings in place of the old ones, all or none: a bad pattern leaves
// everything as it was. Both outcomes are on record.
func (e *Engine) Reload(ctx context.Context, by string, s Settings) error {
	_, _, err := protected.New(protected.Source{Operator: s.Protected})
	if err == nil {
		e.mu.RLock()
		for _, w := range e.roots {
			w.protect(s.Protected)
		}
		e.mu.RUnlock()
		e.live.Store(s.complete())
	}
	e.Reloaded(by, err)
	return err
}

// ConfigFault keeps what status says of a configuration that could not be taken over, or
// not all of it; empty where it was.
func (e *Engine) ConfigFault(what string) { e.fault.Store(&what) }

// Reloaded puts on record that somebody wanted the configuration read again, and how it
// ended: done, or the code of the error that left everything as it was.
func (e *Engine) Reloaded(by string, err error) {
	outcome := "reloaded"
	if err != nil {
		outcome = string(op.AsError(err).Code)
	}
	e.log.Append(audit.Record{Kind: audit.Setting, Agent: by, Outcome: outcome})
	e.events.publish(Event{Type: "config.reloaded", Time: e.cfg.Now().UTC(), Data: map[string]any{"outcome": outcome}})
}

// HideDir keeps a directory of the daemon's out of reach of every root that holds it.
func (e *Engine) HideDir(path string) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, w := range e.roots {
		if rel, err := filepath.Rel(w.Root.Dir(), path); err == nil && filepath.IsLocal(rel) && rel != "." {
			w.Root.Hide(op.Path(filepath.ToSlash(rel)))
		}
	}
}

// protect gives a root the operator's patterns; they count from the next look on.
func (w *Workspace) protect(patterns []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.operator, w.setFrom = patterns, rooted.Info{}
}
