package main

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"holdpoint/bridge"
	"holdpoint/internal/flow"
	"holdpoint/op"
)

// fileConfig is holdpoint.toml. A key that is not here is an error: a misspelt limit
// would otherwise be no limit.
type fileConfig struct {
	Store     string                 `toml:"store"`     // "" or "in-root"
	Keep      string                 `toml:"keep"`      // life of undo credentials, "30d"
	StoreMax  string                 `toml:"store_max"` // what all stores may hold, "10GiB"
	Protected []string               `toml:"protected"`
	Deadlines map[string]string      `toml:"deadlines"`  // by tier: "60m", "0s" waits for ever
	OnTimeout map[string]string      `toml:"on_timeout"` // by tier: reject, pause, auto_deny; auto where a tier is automatic
	Two       twoReviewersFile       `toml:"two_reviewers"`
	Notify    []notifyFile           `toml:"notify"`
	Process   processFile            `toml:"process"`
	Floors    map[string]int         `toml:"floors"` // clearance floors by operation
	Profiles  map[string]profileFile `toml:"profiles"`
}

// profileFile is one profile; what is absent is as in the default profile.
type profileFile struct {
	RequireApproval *bool  `toml:"require_approval"`
	AllowRead       *bool  `toml:"allow_read"`
	AllowWrite      *bool  `toml:"allow_write"`
	AllowEdit       *bool  `toml:"allow_edit"`
	AllowPatch      *bool  `toml:"allow_patch"`
	AllowCopy       *bool  `toml:"allow_copy"`
	AllowBackup     *bool  `toml:"allow_backup"`
	AllowDelete     *bool  `toml:"allow_delete"`
	AllowMove       *bool  `toml:"allow_move"`
	AllowRollback   *bool  `toml:"allow_rollback"`
	AllowBatch      *bool  `toml:"allow_batch"`
	AllowExec       *bool  `toml:"allow_exec"`
	AllowUndo       *bool  `toml:"allow_undo"`
	Clearance       *int   `toml:"clearance"`
	Mode            string `toml:"mode"`
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
	cfg := flow.Config{Protected: operatorPatterns(env), Profiles: map[string]op.Profile{}}
	file, path, err := readConfigFile(flag, env)
	if err != nil || path == "" {
		return cfg, err
	}
	return file.merge(cfg, path)
}

// readConfigFile gives the file as it was written, and its path; "" where there is none.
func readConfigFile(flag string, env func(string) string) (file fileConfig, path string, err error) {
	path, named := configPath(flag, env)
	if path == "" {
		return file, "", nil
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) && !named {
		return file, "", nil
	}
	if err != nil {
		return file, "", op.Fail(op.BadRequest, "the configuration "+path+" cannot be read").Because(err)
	}
	defer f.Close()
	dec := toml.NewDecoder(f)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&file); err != nil {
		return file, "", badConfig(path, err)
	}
	return file, path, nil
}

func badConfig(path string, err error) error {
	msg := err.Error()
	var strict *toml.StrictMissingError
	var at *toml.DecodeError
	if errors.As(err, &strict) {
		msg = "unknown key\n" + strict.String()
	} else if errors.As(err, &at) {
		msg = at.String()
	}
	return op.Fail(op.BadRequest, "the configuration "+path+" is not right: "+msg).Do("mend it; the daemon does not start on a half-understood configuration")
}

func (file fileConfig) merge(cfg flow.Config, path string) (flow.Config, error) {
	bad := func(what string) (flow.Config, error) {
		return cfg, op.Fail(op.BadRequest, "the configuration "+path+": "+what)
	}
	if file.Store != "" && file.Store != "in-root" {
		return bad(`store must be "in-root" or absent`)
	}
	cfg.Store = file.Store
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
		profile, err := p.profile()
		if err != nil {
			return bad("profiles." + name + ": " + err.Error())
		}
		cfg.Profiles[name] = profile
	}
	return cfg, nil
}

func (p profileFile) profile() (op.Profile, error) {
	d := op.DefaultProfile()
	for _, s := range []struct {
		set *bool
		to  *bool
	}{{p.RequireApproval, &d.RequireApproval}, {p.AllowRead, &d.AllowRead}, {p.AllowWrite, &d.AllowWrite}, {p.AllowEdit, &d.AllowEdit},
		{p.AllowPatch, &d.AllowPatch}, {p.AllowCopy, &d.AllowCopy}, {p.AllowBackup, &d.AllowBackup}, {p.AllowDelete, &d.AllowDelete},
		{p.AllowMove, &d.AllowMove}, {p.AllowRollback, &d.AllowRollback}, {p.AllowBatch, &d.AllowBatch}, {p.AllowExec, &d.AllowExec}, {p.AllowUndo, &d.AllowUndo}} {
		if s.set != nil {
			*s.to = *s.set
		}
	}
	if p.Clearance != nil {
		d.Clearance = *p.Clearance
	}
	switch m := op.Mode(p.Mode); m {
	case "":
	case op.Deny, op.Prompt, op.AutoMode:
		d.Mode = m
	case op.Yolo:
		return d, errors.New("mode yolo is set by a person for one session, never by a profile")
	default:
		return d, errors.New("mode must be deny, prompt or auto")
	}
	return d, nil
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
