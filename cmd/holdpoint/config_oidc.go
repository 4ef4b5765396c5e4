package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"holdpoint/bridge"
	"holdpoint/bridge/oidc"
	"holdpoint/op"
)

// oidcFile says which identity provider signs reviewers in, and who its accounts are here.
type oidcFile struct {
	Issuer     string            `toml:"issuer"`
	ClientID   string            `toml:"client_id"`
	SecretFile string            `toml:"client_secret_file"` // absent: a public client
	Scopes     []string          `toml:"scopes"`             // beside openid and email
	Groups     string            `toml:"groups_claim"`       // "groups" where absent
	AnyEmail   bool              `toml:"allow_unverified_email"`
	People     map[string]string `toml:"people"` // "ada@example.org" = "ada", "group:reviewers" = "*"
}

func (f oidcFile) check() error {
	if f.Issuer == "" {
		if f.ClientID != "" || len(f.People) > 0 {
			return fmt.Errorf("oidc.issuer is missing")
		}
		return nil
	}
	if _, err := oidc.New(oidc.Config{Issuer: f.Issuer, ClientID: f.ClientID}); err != nil {
		return fmt.Errorf("oidc: %s", op.AsError(err).Message)
	}
	for account, name := range f.People {
		group := strings.HasPrefix(account, "group:")
		if !group && !strings.Contains(account, "@") {
			return fmt.Errorf("oidc.people: %q is neither an address nor group:NAME", account)
		}
		if !(group && name == "*") && !op.Label(name) {
			return fmt.Errorf("oidc.people: %q must be a name of A-Z a-z 0-9 . _ : -, or \"*\" for a group whose members keep their own", name)
		}
	}
	return nil
}

// signIn makes the provider's half of the page's login; nil where none is configured.
func (f oidcFile) signIn(o *opened, page string) (*bridge.SignIn, error) {
	if f.Issuer == "" {
		return nil, nil
	}
	if page == "" {
		return nil, op.Fail(op.BadRequest, "an identity provider needs a page to come back to").Do("start serve with --public-url, or with --listen")
	}
	conf := oidc.Config{Issuer: f.Issuer, ClientID: f.ClientID, Redirect: page + "/v1/login/provider/done", Scopes: f.Scopes, Groups: f.Groups, AnyEmail: f.AnyEmail}
	if f.SecretFile != "" {
		b, err := readSmall(f.SecretFile)
		if err != nil {
			return nil, op.Fail(op.BadRequest, "oidc.client_secret_file cannot be read").Because(err)
		}
		conf.Secret = strings.TrimSpace(string(b))
	}
	p, err := oidc.New(conf)
	if err != nil {
		return nil, err
	}
	return &bridge.SignIn{Name: p.Name(), Begin: p.Begin, Finish: func(ctx context.Context, browser string, q url.Values) (op.Caller, op.ID, error) {
		account, err := p.Finish(ctx, browser, q)
		if err != nil {
			return op.Caller{}, "", err
		}
		who, err := o.engine.Account(ctx, account.Email, account.Groups, f.People)
		return op.Caller{Token: who.ID, Name: who.Name, Role: op.Reviewer, Roots: who.Roots}, who.ID, err
	}}, nil
}
