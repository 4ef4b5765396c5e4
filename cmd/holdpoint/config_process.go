package main

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"
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
	MaxMemory   string   `toml:"max_memory"`    // of one run, like "2GiB"; none when absent
	MaxCPU      string   `toml:"max_cpu"`       // time of one process, like "10m"; none when absent
	Cgroup      string   `toml:"cgroup"`        // a control group that was handed to the daemon; found by itself when absent

	Snapshot              []string `toml:"snapshot"`                // patterns of what is kept before every program that runs for real
	RehearseWithoutReview bool     `toml:"rehearse_without_review"` // a rehearsal that is fully confined, without network, runs without asking
	RehearseOutputs       []string `toml:"rehearse_outputs"`        // patterns of what such a rehearsal may leave without asking: it is dropped
}

// leastMemory is what a helper and a small program need.
const leastMemory = 64 << 20

// ceilings reads the limits of memory and of processor time.
func (p processFile) ceilings(cfg *flow.Config) error {
	if p.MaxMemory != "" {
		digits := strings.TrimRight(p.MaxMemory, "KMGiB")
		unit := map[string]int64{"MiB": 1 << 20, "GiB": 1 << 30}[p.MaxMemory[len(digits):]]
		n, err := strconv.ParseInt(digits, 10, 32)
		if err != nil || unit == 0 || n*unit < leastMemory {
			return errors.New("process.max_memory must be a size like 512MiB or 4GiB, and 64MiB or more")
		}
		cfg.Process.MaxMemory = n * unit
	}
	if p.MaxCPU != "" {
		d, err := time.ParseDuration(p.MaxCPU)
		if err != nil || d < time.Second {
			return errors.New("process.max_cpu must be a time like 10m, and 1s or more")
		}
		cfg.Process.MaxCPU = d
	}
	if p.Cgroup != "" && (!filepath.IsAbs(p.Cgroup) || p.MaxMemory == "") {
		return errors.New("process.cgroup must be an absolute directory, and goes with process.max_memory")
	}
	cfg.Process.Cgroup = p.Cgroup
	return nil
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
	cfg.Process.Snapshot = p.Snapshot
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
	return p.ceilings(cfg)
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
