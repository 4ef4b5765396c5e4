package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"holdpoint/op"
)

// own gives the token for what an agent's side may ask: --token-file, HOLDPOINT_TOKEN,
// else the agent token that the daemon left in its state directory.
func (a *app) own() (string, error) {
	if t, err := a.given(); t != "" || err != nil {
		return t, err
	}
	t, err := a.stored("agent")
	if t == "" && err == nil {
		return "", usagef("no token: set HOLDPOINT_TOKEN, give --token-file FILE, or run this as the daemon's user with its --state (no tokens/agent under %s)", StatePath(a.state, a.Env))
	}
	return t, err
}

// given is the token that the caller named; empty when none was.
func (a *app) given() (string, error) {
	if a.tokenFile != "" {
		data, err := readSmall(a.tokenFile)
		if err != nil {
			return "", op.Fail(op.BadRequest, "the token file cannot be read: "+err.Error()).Because(err)
		}
		return cleanToken(string(data), "the token file")
	}
	return cleanToken(a.Env("HOLDPOINT_TOKEN"), "HOLDPOINT_TOKEN")
}

// stored reads a token that the daemon keeps for its own user; empty when there is none.
func (a *app) stored(name string) (string, error) {
	file := filepath.Join(StatePath(a.state, a.Env), "tokens", name)
	data, err := readSmall(file)
	if notExist(err) || errors.Is(err, os.ErrPermission) {
		return "", nil
	}
	if err != nil {
		return "", op.Fail(op.IOError, "the token "+file+" cannot be read").Because(err)
	}
	return cleanToken(string(data), file)
}

// readSmall reads a file, descriptor or pipe of at most 64 KiB.
func readSmall(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 64<<10))
}

// cleanToken takes the line ending off and refuses what would break a header. It never
// repeats the text.
func cleanToken(t, from string) (string, error) {
	t = strings.TrimSpace(t)
	if strings.ContainsFunc(t, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", op.Fail(op.BadRequest, from+" does not hold one token")
	}
	return t, nil
}

// asOwn connects, sets the caller's own token and does what is to be done.
func (a *app) asOwn(ctx context.Context, root string, do func(*client) error) (err error) {
	c, err := a.connect(ctx, root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if c.token, err = a.own(); err != nil {
		return err
	}
	return do(c)
}

// A source is one place where a reviewer's or operator's token may come from; an empty
// token means that this place has none.
type source func(ctx context.Context, c *client) (string, error)

func (a *app) reviewerSources() []source {
	return []source{
		func(context.Context, *client) (string, error) { return a.given() },
		func(context.Context, *client) (string, error) { return a.stored("operator") },
		a.loginFromEnv,
		a.loginFromPrompt,
	}
}

// asReviewer does what only a reviewer or operator may do, with the first token that the
// daemon does not turn away. do may run more than once; what was turned away had no effect.
func (a *app) asReviewer(ctx context.Context, root string, do func(*client) error) (err error) {
	c, err := a.connect(ctx, root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	return a.try(ctx, c, a.reviewerSources(), do)
}

func (a *app) try(ctx context.Context, c *client, sources []source, do func(*client) error) error {
	var denied error
	for _, s := range sources {
		token, err := s(ctx, c)
		if err != nil {
			return err
		}
		if token == "" {
			continue
		}
		c.token = token
		if denied = do(c); !turnedAway(denied) {
			return denied
		}
	}
	if denied != nil {
		e := *op.AsError(denied)
		return e.Do("this needs a reviewer or operator: " + howToBeReviewer)
	}
	return usagef("this needs a reviewer or operator, and nobody says who you are: %s", howToBeReviewer)
}

const howToBeReviewer = "run it on a terminal, which asks for the passphrase, set HOLDPOINT_REVIEW_PASSPHRASE, or set HOLDPOINT_TOKEN to a reviewer's token"

// asWatcher does what an observer may do and an agent may do for its own calls: as
// reviewer where that needs no asking, else with the caller's own token, and only if that
// is turned away by asking on the terminal.
func (a *app) asWatcher(ctx context.Context, root string, do func(*client) error) (err error) {
	if a.hubOf != nil && a.hubOf.at != "" {
		return a.hubOf.through(ctx, a, do)
	}
	c, err := a.connect(ctx, root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	sources := a.reviewerSources()
	agent := func(context.Context, *client) (string, error) { return a.stored("agent") }
	sources = append(sources[:3:3], agent, sources[3])
	return a.try(ctx, c, sources, do)
}

func turnedAway(err error) bool {
	return errors.Is(err, op.Forbidden) || errors.Is(err, op.Unauthenticated)
}

func (a *app) loginFromEnv(ctx context.Context, c *client) (string, error) {
	p := a.Env("HOLDPOINT_REVIEW_PASSPHRASE")
	if p == "" {
		return "", nil
	}
	t, err := login(ctx, c, p)
	if errors.Is(err, op.Unauthenticated) {
		e := op.AsError(err)
		return "", op.Fail(op.Unauthenticated, "HOLDPOINT_REVIEW_PASSPHRASE was not taken: "+e.Message).Do(e.Hint).Because(err)
	}
	return t, err
}

// loginFromPrompt asks on the terminal, three times at most; without a terminal it has none.
func (a *app) loginFromPrompt(ctx context.Context, c *client) (string, error) {
	if !a.InTTY {
		return "", nil
	}
	for try := 1; ; try++ {
		p, err := a.askSecret(ctx, "Reviewer's passphrase: ")
		if err != nil || p == "" {
			return "", err
		}
		t, err := login(ctx, c, p)
		if !errors.Is(err, op.Unauthenticated) || try == 3 {
			return t, err
		}
		fmt.Fprintf(a.Err, "Not taken: %s.\n", line(op.AsError(err).Message))
	}
}

// login trades the passphrase for a token of short life, kept in memory only.
func login(ctx context.Context, c *client, passphrase string) (string, error) {
	var got struct {
		Token     string    `json:"token"`
		Role      op.Role   `json:"role"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	c.token = ""
	_, err := c.do(ctx, http.MethodPost, "/v1/login", map[string]string{"passphrase": passphrase}, &got)
	return got.Token, err
}
