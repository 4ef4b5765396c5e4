package main

import (
	"context"
	"net"
	"net/url"

	"holdpoint/op"
	"holdpoint/review"
)

// site is what passkeys are bound to: the host of the page's one address. Where that is an
// IP address there is none, as browsers take only names.
func (f *reaching) site(l net.Listener) review.Site {
	u, err := url.Parse(f.base(l.Addr().String()))
	if err != nil || u.Hostname() == "" || net.ParseIP(u.Hostname()) != nil {
		return review.Site{}
	}
	return review.Site{ID: u.Hostname(), Origin: u.Scheme + "://" + u.Host}
}

// noTokenBesideKeys refuses to start with an operator's token on disk where reviewers have
// passkeys: whoever reads it could take them off the roster.
func (o *opened) noTokenBesideKeys(ctx context.Context, auth string) error {
	list, err := o.engine.Reviewers(ctx)
	if err != nil || auth != "token" {
		return err
	}
	for _, r := range list {
		if r.Live && r.Signs() {
			return op.Fail(op.StateUnsafe, "reviewers have passkeys here, and --review-auth token would leave a token on disk that could take them away").
				Do("start with --review-auth passphrase or passkey, and revoke the passkeys first if they are not wanted: holdpoint reviewer list")
		}
	}
	return nil
}
