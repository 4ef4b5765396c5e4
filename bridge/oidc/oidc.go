// Package oidc signs people in by OpenID Connect: it sends a browser to the provider and
// checks what comes back, with PKCE, a state and a nonce that are good once.
//
// It says who the provider says somebody is, and nothing of what they may do here. It
// reaches out only when somebody signs in, and to the configured issuer alone.
package oidc

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

const (
	signInTime = 10 * time.Minute // how long a person has at the provider
	askTime    = 15 * time.Second // how long the provider has to answer us
	maxOpen    = 1024             // sign-ins under way at once
)

// Config is what the operator says of the provider.
type Config struct {
	Issuer   string // https://id.example.org
	ClientID string
	Secret   string // empty: a public client, held by PKCE alone
	Redirect string // where the provider sends the browser back to
	Scopes   []string
	Groups   string // the claim that lists groups
	AnyEmail bool   // take an address that the provider has not verified
}

// Account is who the provider says somebody is.
type Account struct {
	Email  string
	Groups []string
}

// Provider holds the sign-ins that are under way. They live in memory only.
type Provider struct {
	conf Config
	web  *http.Client

	mu    sync.Mutex // guards the rest
	found *oidc.Provider
	open  map[string]attempt // by state
}

type attempt struct {
	nonce, verifier, browser string
	ends                     time.Time
}

// New checks a configuration. The provider itself is asked when somebody first signs in, so
// that a daemon starts while it is away.
func New(c Config) (*Provider, error) {
	u, err := url.Parse(c.Issuer)
	if err != nil || u.Host == "" || u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) {
		return nil, op.Fail(op.BadRequest, "the issuer must be an https address")
	}
	if c.ClientID == "" {
		return nil, op.Fail(op.BadRequest, "the provider needs a client_id")
	}
	c.Scopes = append([]string{oidc.ScopeOpenID, "email"}, c.Scopes...)
	if c.Groups == "" {
		c.Groups = "groups"
	}
	return &Provider{conf: c, web: &http.Client{Timeout: askTime}, open: map[string]attempt{}}, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Name is what a person knows the provider by.
func (p *Provider) Name() string {
	u, _ := url.Parse(p.conf.Issuer)
	return u.Hostname()
}

// away is the one error of a provider that does not answer as one.
func away(err error) error {
	return op.Fail(op.NotAvailable, "the identity provider cannot be asked").Because(err).Do("sign in with the passphrase, or try again when it is back")
}

// provider asks the issuer for its addresses and keys, once it answers.
func (p *Provider) provider(ctx context.Context) (*oidc.Provider, *oauth2.Config, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found == nil {
		// The keys are fetched by this context for as long as the daemon runs.
		found, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), p.web), p.conf.Issuer)
		if err != nil {
			return nil, nil, away(err)
		}
		p.found = found
	}
	return p.found, &oauth2.Config{ClientID: p.conf.ClientID, ClientSecret: p.conf.Secret, Endpoint: p.found.Endpoint(), RedirectURL: p.conf.Redirect, Scopes: p.conf.Scopes}, nil
}

func secret() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

// Begin gives the address to send a browser to, and what that browser shows when it comes
// back: another one, that was given the address by somebody, does not have it.
func (p *Provider) Begin(ctx context.Context) (at, browser string, err error) {
	_, conf, err := p.provider(ctx)
	if err != nil {
		return "", "", err
	}
	state, a := secret(), attempt{secret(), oauth2.GenerateVerifier(), secret(), time.Now().Add(signInTime)}
	p.mu.Lock()
	defer p.mu.Unlock()
	for s, old := range p.open {
		if !time.Now().Before(old.ends) {
			delete(p.open, s)
		}
	}
	if len(p.open) >= maxOpen {
		return "", "", op.Fail(op.QueueFull, "too many people are signing in").Do("try again in ten minutes")
	}
	p.open[state] = a
	return conf.AuthCodeURL(state, oidc.Nonce(a.nonce), oauth2.S256ChallengeOption(a.verifier)), a.browser, nil
}

// refused is the one error of a sign-in that does not hold, whatever is wrong with it; why
// is for the record alone.
func refused(why string, err error) error {
	return op.Fail(op.Unauthenticated, "the sign-in was not completed").Because(errors.Join(&journal.Unfit{Why: why}, err)).Do("sign in again")
}

// Finish checks what the provider sent the browser back with, and asks it whose sign-in
// that was. A state is good once.
func (p *Provider) Finish(ctx context.Context, browser string, q url.Values) (Account, error) {
	p.mu.Lock()
	a, known := p.open[q.Get("state")]
	delete(p.open, q.Get("state"))
	p.mu.Unlock()
	switch {
	case !known || !time.Now().Before(a.ends):
		return Account{}, refused("state_unknown", nil)
	case subtle.ConstantTimeCompare([]byte(browser), []byte(a.browser)) != 1:
		return Account{}, refused("another_browser", nil)
	case q.Get("code") == "":
		return Account{}, refused("provider_refused", nil)
	}
	found, conf, err := p.provider(ctx)
	if err != nil {
		return Account{}, err
	}
	got, err := conf.Exchange(oidc.ClientContext(ctx, p.web), q.Get("code"), oauth2.VerifierOption(a.verifier))
	if err != nil {
		return Account{}, refused("code_refused", err)
	}
	raw, _ := got.Extra("id_token").(string)
	token, err := found.Verifier(&oidc.Config{ClientID: p.conf.ClientID}).Verify(oidc.ClientContext(ctx, p.web), raw)
	if err != nil {
		return Account{}, refused("token_invalid", err)
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(a.nonce)) != 1 {
		return Account{}, refused("nonce_wrong", nil)
	}
	return p.account(ctx, found, token, got)
}

// account reads the claims: from the token, and what is not in it from what the provider
// tells of the person when it is asked.
func (p *Provider) account(ctx context.Context, found *oidc.Provider, token *oidc.IDToken, got *oauth2.Token) (Account, error) {
	claims := map[string]any{}
	if err := token.Claims(&claims); err != nil {
		return Account{}, refused("token_invalid", err)
	}
	if (claims["email"] == nil || claims[p.conf.Groups] == nil) && found.UserInfoEndpoint() != "" {
		info, err := found.UserInfo(oidc.ClientContext(ctx, p.web), oauth2.StaticTokenSource(got))
		if err == nil && info.Subject == token.Subject {
			err = info.Claims(&claims)
		}
		if err != nil && claims["email"] == nil {
			return Account{}, refused("no_email", err)
		}
	}
	a := Account{}
	a.Email, _ = claims["email"].(string)
	if a.Email = strings.ToLower(a.Email); a.Email == "" {
		return a, refused("no_email", nil)
	}
	if verified, _ := claims["email_verified"].(bool); !verified && !p.conf.AnyEmail {
		return a, refused("email_unverified", nil)
	}
	list, _ := claims[p.conf.Groups].([]any)
	for _, g := range list {
		if name, ok := g.(string); ok {
			a.Groups = append(a.Groups, name)
		}
	}
	return a, nil
}
