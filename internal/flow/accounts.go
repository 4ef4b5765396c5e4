package flow

import (
	"context"
	"strings"

	"holdpoint/internal/journal"
	"holdpoint/op"
	"holdpoint/review"
)

// byConfig is who enrolled an account that the configuration names.
const byConfig = "config"

// Account finds the person behind an account of the identity provider: an entry of the
// roster, else the configuration, which names addresses and groups. An account whose entry
// was revoked stays out until the operator enrolls it again.
func (e *Engine) Account(ctx context.Context, email string, groups []string, people map[string]string) (review.Reviewer, error) {
	list, err := e.Roster(ctx)
	if err != nil {
		return review.Reviewer{}, err
	}
	stranger := op.Fail(op.Unauthenticated, "this account reviews nothing here").Because(&journal.Unfit{Why: "account_unknown", Name: email}).
		Do("ask the operator to enroll it: holdpoint reviewer add --account")
	name := configured(email, groups, people)
	ended := false
	for _, r := range list {
		if r.Kind != review.OIDC || !strings.EqualFold(r.Account, email) {
			continue
		}
		if r.Live(e.cfg.Now()) && (r.By != byConfig || r.Name == name) {
			return r, nil
		}
		ended = ended || !r.Live(e.cfg.Now())
	}
	if name == "" || ended {
		return review.Reviewer{}, stranger
	}
	return e.enroll(ctx, op.Caller{Name: byConfig}, review.Reviewer{Name: name, Kind: review.OIDC, Account: email})
}

// configured gives the name that the configuration has for an account: by its address, else
// by a group, whose members are called by their own addresses unless it is given a name.
func configured(email string, groups []string, people map[string]string) string {
	for account, name := range people {
		if strings.EqualFold(account, email) {
			return name
		}
	}
	for _, g := range groups {
		switch name, ok := people["group:"+g]; {
		case ok && name != "*":
			return name
		case ok:
			own := strings.ReplaceAll(email, "@", ":")
			if op.Label(own) {
				return own
			}
		}
	}
	return ""
}
