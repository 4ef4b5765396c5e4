package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"

	"holdpoint/internal/flow"
	"holdpoint/op"
)

// A daemon that holdpoint mcp starts by itself serves one directory, with a state of its
// own below the default one, so that many work at once and none needs an operator to
// register roots. Commands run inside that directory find it.

// place is where a daemon is met.
type place struct{ state, socket string }

// projectPlace is where the daemon of a directory is met, whether or not it runs.
func projectPlace(dir string, env func(string) string) (place, error) {
	base := DefaultState(env)
	if base == "" {
		return place{}, usagef("no state directory: give --state, or set HOLDPOINT_STATE or HOME")
	}
	state := filepath.Join(base, "roots", flow.RootKey(machineID(), dir)[:16])
	// Two states never share a socket, and the name stays short whatever the state's is.
	sum := sha256.Sum256([]byte(state))
	return place{state, filepath.Join(filepath.Dir(DefaultSocket(env)), hex.EncodeToString(sum[:6])+".sock")}, nil
}

// named reports that the command line or the environment says which daemon is meant.
func (a *app) named() bool {
	return first(a.socket, a.state, a.Env("HOLDPOINT_SOCKET"), a.Env("HOLDPOINT_STATE")) != ""
}

// atProject turns to the daemon of the directory, or of one above it, if one answers.
func (a *app) atProject(ctx context.Context, dir string) bool {
	if a.named() {
		return false
	}
	full, err := canonicalDir(dir)
	if err != nil {
		return false
	}
	for {
		p, err := projectPlace(full, a.Env)
		if err != nil {
			return false
		}
		if isDir(p.state) && reach(ctx, p.socket, false) == nil {
			a.turnTo(p)
			return true
		}
		up := filepath.Dir(full)
		if up == full {
			return false
		}
		full = up
	}
}

func (a *app) turnTo(p place) { a.socket, a.state = p.socket, p.state }

// canonicalDir gives a directory the one name that daemons know it by.
func canonicalDir(dir string) (string, error) {
	full, err := filepath.Abs(dir)
	if err == nil {
		full, err = filepath.EvalSymlinks(full)
	}
	if err != nil || !isDir(full) {
		return "", op.Fail(op.BadRequest, op.Visible(dir, false)+" is no directory here").In("root").Do("give --root DIR")
	}
	return full, nil
}
