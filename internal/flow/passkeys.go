package flow

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"holdpoint/op"
	"holdpoint/review"
)

// Me is what a reviewer learns of themselves.
type Me struct {
	Name     string         `json:"name"`
	Role     op.Role        `json:"role"`
	Needs    bool           `json:"needs_passkey"` // answers take one
	Keys     []ReviewerView `json:"keys"`
	Site     string         `json:"site"`     // where passkeys work; empty: nowhere
	Register bool           `json:"register"` // whether one may be registered now
	Why      string         `json:"why,omitempty"`
}

// ReviewerView is an entry of the roster without what only its verification needs.
type ReviewerView struct {
	review.Reviewer
	Live bool `json:"live"`
}

func (e *Engine) reviewerView(r review.Reviewer) ReviewerView {
	r.Credential = nil
	return ReviewerView{Reviewer: r, Live: r.Live(e.cfg.Now())}
}

// Reviewers lists the roster for those who may see it.
func (e *Engine) Reviewers(ctx context.Context) ([]ReviewerView, error) {
	list, err := e.Roster(ctx)
	out := make([]ReviewerView, 0, len(list))
	for _, r := range list {
		out = append(out, e.reviewerView(r))
	}
	return out, err
}

// PasskeySite says where the page is reached, once that is known.
func (e *Engine) PasskeySite(s review.Site) { e.passkeys.Serve(s) }

// Me tells a caller who they are here and what an answer of theirs takes.
func (e *Engine) Me(ctx context.Context, by op.Caller) (Me, error) {
	m := Me{Name: by.Name, Role: by.Role, Keys: []ReviewerView{}, Site: e.passkeys.Site().ID}
	list, err := e.Roster(ctx)
	if err != nil {
		return m, err
	}
	m.Needs = by.Role.Includes(op.Reviewer) && e.needsProof(by, list)
	for _, r := range list {
		if r.Name == by.Name && r.Live(e.cfg.Now()) {
			m.Keys = append(m.Keys, e.reviewerView(r))
		}
	}
	err = e.mayRegister(ctx, by, list)
	if m.Register = err == nil; err != nil {
		m.Why = op.AsError(err).Message
	}
	return m, nil
}

// mayRegister tells whether a caller may enroll a first passkey, or a further one with a
// touch of one it has. A token may for a short while after it was made: later it could have
// been found by somebody else.
func (e *Engine) mayRegister(ctx context.Context, by op.Caller, list review.Roster) error {
	switch {
	case !by.Role.Includes(op.Reviewer):
		return op.Fail(op.Forbidden, "only a reviewer has passkeys")
	case e.cfg.ReviewAuth == "token":
		return op.Fail(op.NotAvailable, "an operator's token lies on disk here, so that a passkey would guard nothing").Do("start serve with --review-auth passphrase or passkey")
	case e.passkeys.Site().ID == "":
		return op.Fail(op.NotAvailable, "passkeys need a page that is reached by a name").Do("start serve with --listen 127.0.0.1:7117, or with --public-url")
	}
	own := list.Signers(by.Name, e.cfg.Now())
	elsewhere := len(own) > 0 && !e.passkeys.Works(by.Name, own)
	if !by.LoggedIn.IsZero() {
		if elsewhere && !(by.Role.Includes(op.Operator) && e.justSignedIn(by)) {
			return notVouched(by.Name)
		}
		return nil
	}
	made, err := e.tokenMade(ctx, by)
	switch {
	case err != nil:
		return err
	case e.cfg.Now().Sub(made) >= newToken:
		return op.Fail(op.Forbidden, "this token is too old to register a passkey with").Do("pair the device anew, or sign in with the passphrase")
	case elsewhere && slices.ContainsFunc(own, func(r review.Reviewer) bool { return !made.After(r.Created) }):
		return notVouched(by.Name)
	}
	return nil
}

// notVouched refuses a passkey to somebody none of whose keys this page can ask: a key that
// signs by itself, or a passkey of another page. It takes an operator, who may enroll a key for
// anybody: by being the one who asks, or by having made the token since the keys were enrolled.
// A sign-in by a provider is no such proof: the provider could sign in as anybody.
func notVouched(name string) error {
	return op.Fail(op.Forbidden, name+" has keys, and none that can be asked on this page").Do("have the operator pair this device by that name: holdpoint pair --name " + name)
}

// tokenMade tells when the token of a caller was made; the zero time where it is gone.
func (e *Engine) tokenMade(ctx context.Context, by op.Caller) (time.Time, error) {
	tokens, err := e.jrn.Tokens(ctx)
	for _, t := range tokens {
		if t.ID == by.Token {
			return t.Created, err
		}
	}
	return time.Time{}, err
}

// enrolling is the statement that a further passkey is signed with by one the person has.
func enrolling(name string) review.Statement {
	return review.Statement{ShownDigest: "enroll", Answer: "enroll", Note: name}
}

// Enrollment is what the page is to do next: touch a passkey that is there, or make one.
type Enrollment struct {
	Prove  json.RawMessage `json:"prove,omitempty"`
	Create json.RawMessage `json:"create,omitempty"`
}

// BeginPasskey begins to enroll a passkey. Whoever has one already shows it first, so that
// a stolen session adds none.
func (e *Engine) BeginPasskey(ctx context.Context, by op.Caller, p review.Proof) (Enrollment, error) {
	list, err := e.Roster(ctx)
	if err == nil {
		err = e.mayRegister(ctx, by, list)
	}
	if err != nil {
		return Enrollment{}, err
	}
	own := list.Signers(by.Name, e.cfg.Now())
	here := e.passkeys.Works(by.Name, own)
	var out Enrollment
	switch {
	case here && len(p.Assertion) == 0:
		out.Prove, err = e.passkeys.Challenge(by.Name, own, enrolling(by.Name))
		return out, err
	case here:
		var who review.Reviewer
		if who, _, err = e.passkeys.Proven(by.Name, own, enrolling(by.Name), p); err == nil {
			err = e.used(ctx, who)
		}
		if err != nil {
			return out, e.refusedProof(by, "", err)
		}
	}
	out.Create, err = e.passkeys.Register(by.Name, own)
	return out, err
}

// RegisterPasskey puts what the browser made on the roster. That it was asked for by
// BeginPasskey shows in its challenge.
func (e *Engine) RegisterPasskey(ctx context.Context, by op.Caller, device string, made []byte) (ReviewerView, error) {
	list, err := e.Roster(ctx)
	if err == nil {
		err = e.mayRegister(ctx, by, list)
	}
	if err != nil {
		return ReviewerView{}, err
	}
	r, err := e.passkeys.Registered(by.Name, made)
	if err != nil {
		return ReviewerView{}, err
	}
	r.Name, r.Device, r.Roots = by.Name, op.Visible(device, false), by.Roots
	r, err = e.enroll(ctx, by, r)
	return e.reviewerView(r), err
}

// PasskeyOrigin is the address where passkeys work; empty where none is known.
func (e *Engine) PasskeyOrigin() string { return e.passkeys.Site().Origin }
