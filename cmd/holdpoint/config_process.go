package main

import (
	"errors"
	"path/filepath"
	"time"

	"holdpoint/internal/flow"
)

// processFile is what the operator says about programs.
type processFile struct {
	Confinement string   `toml:"confinement"`   // "" what can be had, "required", "off"
	Env         []string `toml:"env"`           // names of the daemon's variables that programs may see
	MaxTimeout  string   `toml:"max_timeout"`   // "10m" when absent
	SessionIdle string   `toml:"session_idle"`  // "30s" when absent
	MaxCount    int      `toml:"max_processes"` // of one run at a time, threads too; 4,096 when absent

	RehearseWithoutReview bool     `toml:"rehearse_without_review"` // a rehearsal that is fully confined, without network, runs without asking
	RehearseOutputs       []string `toml:"rehearse_outputs"`        // patterns of what such a rehearsal may leave without asking: it is dropped
}

// leastCount is the least number of processes that Linux can hold a namespace to.
const leastCount = 301

func (p processFile) into(cfg *flow.Config) error {
	switch p.Confinement {
	case "", "required", "off":
		cfg.Process.Confinement = p.Confinement
	default:
		return errors.New(`process.confinement must be "required", "off" or absent`)
	}
	if cfg.Process.Env, cfg.Process.MaxCount = p.Env, p.MaxCount; p.MaxCount < 0 || p.MaxCount > 0 && p.MaxCount < leastCount {
		return errors.New("process.max_processes must be 301 or more: the kernel counts no fewer")
	}
	cfg.Process.RehearseWithoutReview, cfg.Process.RehearseOutputs = p.RehearseWithoutReview, p.RehearseOutputs
	if p.MaxTimeout != "" {
		d, err := time.ParseDuration(p.MaxTimeout)
		if err != nil || d <= 0 {
			return errors.New("process.max_timeout must be a time like 30m")
		}
		cfg.Process.MaxTimeout = d
	}
	if p.SessionIdle != "" {
		d, err := time.ParseDuration(p.SessionIdle)
		if err != nil || d <= 0 {
			return errors.New("process.session_idle must be a time like 30s")
		}
		cfg.Process.SessionIdle = d
	}
	return nil
}

// programs fills in what the environment says of programs: only the exact word switches
// their approval off. The daemon's own files are hidden from them.
func programs(cfg *flow.Config, s setup) {
	for _, name := range []string{"HOLDPOINT_PROCESS_APPROVAL_DISABLED", "CHENG_WORKSPACE_PROCESS_APPROVAL_DISABLED"} {
		switch s.env(name) {
		case "":
		case "true":
			cfg.Process.ApprovalDisabled = true
			s.warn(name + " is true: PROGRAMS RUN WITHOUT ASKING ANYBODY, for this whole deployment")
		default:
			s.warn(name + " is set, but not to the exact word true: programs still wait for a person")
		}
	}
	if cfg.Process.Confinement == "off" {
		s.warn("process.confinement is off: programs run unconfined")
	}
	for _, l := range configLayers(s.config, s.env) {
		if filepath.IsAbs(l.path) {
			cfg.Process.Hide = append(cfg.Process.Hide, l.path)
		}
	}
	for _, p := range []string{s.env("HOLDPOINT_TRUSTED_AUTOMATION_POLICY_FILE"), s.env("CHENG_TRUSTED_AUTOMATION_POLICY_FILE"), s.env("HOLDPOINT_SOCKET"), s.socket} {
		if filepath.IsAbs(p) {
			cfg.Process.Hide = append(cfg.Process.Hide, p)
		}
	}
}
