package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"holdpoint/internal/flow"
	"holdpoint/op"
)

// One person reviews for all the daemons that start by themselves: the hash of the
// passphrase lies in one file of the default state directory, from which each of them
// takes it. It is what each state keeps anyway, and answers nothing by itself.

func reviewerFile(env func(string) string) string {
	base := DefaultState(env)
	if base == "" {
		return ""
	}
	return filepath.Join(base, "reviewer")
}

// sharedHash reads the file; empty when there is none that only this user could have made.
func sharedHash(env func(string) string) string {
	name := reviewerFile(env)
	info, err := os.Lstat(name)
	if name == "" || err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0 {
		return ""
	}
	if owner, err := ownerOf(info); err != nil || owner != os.Getuid() {
		return ""
	}
	b, err := readSmall(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// ownReviewer gives a daemon that nobody watches its reviewer: the passphrase of its
// environment, else the shared one. A generated one would be seen by nobody, or lie in a
// log for every program of this user to read.
func (o *opened) ownReviewer(ctx context.Context, env func(string) string) (bool, error) {
	if err := o.firstPassphrase(ctx, env("HOLDPOINT_REVIEW_PASSPHRASE")); err != nil {
		return false, err
	}
	has, err := o.engine.HasPassphrase(ctx)
	if err != nil || has {
		return has, err
	}
	hash := sharedHash(env)
	if hash == "" {
		return false, nil
	}
	return true, o.engine.SetPassphraseHash(ctx, hash)
}

// shareReviewer lets daemons that start by themselves know the reviewer of the default
// state, unless there is one already.
func (o *opened) shareReviewer(ctx context.Context, state string, env func(string) string) error {
	if state != DefaultState(env) || sharedHash(env) != "" {
		return nil
	}
	hash, err := o.engine.PassphraseHash(ctx)
	if err != nil || hash == "" {
		return err
	}
	return writeSecret(reviewerFile(env), hash)
}

// initReviewer asks for the passphrase that services and daemons of clients take over.
func (a *app) initReviewer(ctx context.Context) error {
	if sharedHash(a.Env) != "" {
		fmt.Fprintln(a.Out, "A reviewer is set: daemons that start by themselves take that passphrase.")
		return nil
	}
	if err := a.firstReviewer(ctx); err != nil {
		return err
	}
	if sharedHash(a.Env) == "" {
		return exitWith(op.ExitStatus(op.NoReviewer))
	}
	fmt.Fprintln(a.Out, "Set. A service that runs already takes it over within a second.")
	return nil
}

// firstReviewer sees to it that somebody can answer the cards of daemons that start by
// themselves: it asks once, on a terminal.
func (a *app) firstReviewer(ctx context.Context) error {
	if reviewerFile(a.Env) == "" || sharedHash(a.Env) != "" {
		return nil
	}
	chosen := a.Env("HOLDPOINT_REVIEW_PASSPHRASE")
	if chosen == "" && !(a.InTTY && a.TTY) {
		fmt.Fprintln(a.Err, "No reviewer is set yet: run this once on a terminal, or set HOLDPOINT_REVIEW_PASSPHRASE, so that held calls can be answered.")
		return nil
	}
	if chosen == "" {
		var err error
		if chosen, err = a.askPassphrase(ctx); err != nil {
			return err
		}
	}
	if chosen == "" {
		chosen = generated()
		fmt.Fprintf(a.Err, "reviewer passphrase: %s\n  it is shown this once and only its hash is kept; approve with: holdpoint review approve ID\n", chosen)
	}
	hash, err := flow.HashPassphrase(chosen)
	if err != nil {
		return err
	}
	if err := writeSecret(reviewerFile(a.Env), hash); err != nil {
		return op.AsError(err).Do("the client's settings are not touched")
	}
	return nil
}
