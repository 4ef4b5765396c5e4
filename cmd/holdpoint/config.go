package main

import (
	"errors"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"holdpoint/bridge"
	"holdpoint/internal/flow"
	"holdpoint/op"
)

// fileConfig is holdpoint.toml. A key that is not here is an error: a misspelt limit
// would otherwise be no limit.
type fileConfig struct {
	Serve     serveFile                   `toml:"serve"`      // what the flags of serve say, which win
	Store     string                      `toml:"store"`      // "" or "in-root"
	Durable   string                      `toml:"durability"` // "" or "relaxed"
	Keep      string                      `toml:"keep"`       // life of undo credentials, "30d"
	StoreMax  string                      `toml:"store_max"`  // what all stores may hold, "10GiB"
	Protected []string                    `toml:"protected"`
	Deadlines map[string]string           `toml:"deadlines"`  // by tier: "60m", "0s" waits for ever
	OnTimeout map[string]string           `toml:"on_timeout"` // by tier: reject, pause, auto_deny; auto where a tier is automatic
	Two       twoReviewersFile            `toml:"two_reviewers"`
	Notify    []notifyFile                `toml:"notify"`
	Process   processFile                 `toml:"process"`
	Floors    map[string]int              `toml:"floors"` // clearance floors by operation
	Profiles  map[string]flow.ProfileSpec `toml:"profiles"`
}

// configPath is where the configuration lies unless it is named.
func configPath(flag string, env func(string) string) (path string, named bool) {
	if p := first(flag, env("HOLDPOINT_CONFIG")); p != "" {
		return p, true
	}
	if d := env("XDG_CONFIG_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "holdpoint", "holdpoint.toml"), false
	}
	if h := env("HOME"); filepath.IsAbs(h) {
		return filepath.Join(h, ".config", "holdpoint", "holdpoint.toml"), false
	}
	return "", false
}

// readConfig reads the operator's file, strictly; without one the defaults hold. Nothing
// is ever read from the current directory or from a workspace.
func readConfig(flag string, env func(string) string) (flow.Config, error) {
	cfg := flow.Config{Settings: flow.Settings{Protected: operatorPatterns(env), Profiles: map[string]flow.Profile{}}}
	file, path, err := readConfigFile(flag, env)
	if err != nil || path == "" {
		return cfg, err
	}
	return file.merge(cfg, path)
}

func (file fileConfig) merge(cfg flow.Config, path string) (flow.Config, error) {
	bad := func(what string) (flow.Config, error) {
		return cfg, op.Fail(op.BadRequest, "the configuration "+path+": "+what)
	}
	if file.Store != "" && file.Store != "in-root" {
		return bad(`store must be "in-root" or absent`)
	}
	cfg.Store = file.Store
	if file.Durable != "" && file.Durable != "relaxed" {
		return bad(`durability must be "relaxed" or absent`)
	}
	cfg.Relaxed = file.Durable == "relaxed"
	cfg.Protected = append(cfg.Protected, file.Protected...)
	if file.Keep != "" {
		d, err := bridge.Span(file.Keep)
		if err != nil {
			return bad("keep must be a time like 30d")
		}
		cfg.Keep = d
	}
	if file.StoreMax != "" {
		n, err := byteCount(file.StoreMax)
		if err != nil {
			return bad("store_max must be a size like 10GiB")
		}
		cfg.StoreMax = n
	}
	cfg.Deadlines = map[op.Tier]time.Duration{}
	for tier, text := range file.Deadlines {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 || op.Tier(tier).Rank() > 4 {
			return bad("deadlines." + tier + " must be a time like 60m")
		}
		cfg.Deadlines[op.Tier(tier)] = d
	}
	if err := file.timeouts(&cfg); err != nil {
		return bad(err.Error())
	}
	if err := file.Two.into(&cfg); err != nil {
		return bad(err.Error())
	}
	if _, err := targets(file.Notify); err != nil {
		return bad(err.Error())
	}
	if err := file.Process.into(&cfg); err != nil {
		return bad(err.Error())
	}
	cfg.Floors = map[op.Name]int{}
	for name, n := range file.Floors {
		if _, ok := op.Lookup(op.Name(name)); !ok || n < 1 {
			return bad("floors." + name + " must name an operation and be at least 1")
		}
		cfg.Floors[op.Name(name)] = n
	}
	for name, p := range file.Profiles {
		profile, err := p.Profile()
		if err != nil {
			return bad("profiles." + name + ": " + op.AsError(err).Message)
		}
		profile.From = "config"
		cfg.Profiles[name] = profile
	}
	return cfg, nil
}

// byteCount reads a size: a number with KiB, MiB, GiB or TiB behind, or of bytes alone.
func byteCount(s string) (int64, error) {
	shift := 0
	for i, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if rest, ok := strings.CutSuffix(s, unit); ok {
			s, shift = rest, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64>>shift {
		return 0, errors.New("not a size")
	}
	return n << shift, nil
}
