package flow

import (
	"context"
	"encoding/json"

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
	err = e.mayRegister(ctx, by)
	if m.Register = err == nil; err != nil {
		m.Why = op.AsError(err).Message
	}
	return m, nil
}

// mayRegister tells whether a caller may enroll a first passkey, or a further one with a
// touch of one it has. A token may for a short while after it was made: later it could have
// been found by somebody else.
func (e *Engine) mayRegister(ctx context.Context, by op.Caller) error {
	switch {
	case !by.Role.Includes(op.Reviewer):
		return op.Fail(op.Forbidden, "only a reviewer has passkeys")
	case e.cfg.ReviewAuth == "token":
		return op.Fail(op.NotAvailable, "an operator's token lies on disk here, so that a passkey would guard nothing").Do("start serve with --review-auth passphrase or passkey")
	case e.passkeys.Site().ID == "":
		return op.Fail(op.NotAvailable, "passkeys need a page that is reached by a name").Do("start serve with --listen 127.0.0.1:7117, or with --public-url")
	case !by.LoggedIn.IsZero():
		return nil
	}
	tokens, err := e.jrn.Tokens(ctx)
	if err != nil {
		return err
	}
	for _, t := range tokens {
		if t.ID == by.Token && e.cfg.Now().Sub(t.Created) < newToken {
			return nil
		}
	}
	return op.Fail(op.Forbidden, "this token is too old to register a passkey with").Do("pair the device anew, or sign in with the passphrase")
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
	if err := e.mayRegister(ctx, by); err != nil {
		return Enrollment{}, err
	}
	list, err := e.Roster(ctx)
	if err != nil {
		return Enrollment{}, err
	}
	own := list.Signers(by.Name, e.cfg.Now())
	var out Enrollment
	switch {
	case len(own) > 0 && len(p.Assertion) == 0:
		out.Prove, err = e.passkeys.Challenge(by.Name, own, enrolling(by.Name))
		return out, err
	case len(own) > 0:
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
	if err := e.mayRegister(ctx, by); err != nil {
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
