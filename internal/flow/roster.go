package flow

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"holdpoint/audit"
	"holdpoint/internal/journal"
	"holdpoint/op"
	"holdpoint/review"
)

// metaReviewers is where the journal keeps the roster.
const metaReviewers = "reviewers"

// roster is the list of reviewers as it is in the journal. Lists are never changed in
// place: who asked holds on to the one they got.
type roster struct {
	mu   sync.Mutex // guards the rest
	list review.Roster
	read bool
}

func (r *roster) all(ctx context.Context, j *journal.Journal) (review.Roster, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list, r.load(ctx, j)
}

// load reads the list once; the caller holds mu. What cannot be read is an error, never an
// empty list: it would let people answer without their passkeys.
func (r *roster) load(ctx context.Context, j *journal.Journal) error {
	if r.read {
		return nil
	}
	text, err := j.Meta(ctx, metaReviewers)
	if err != nil {
		return err
	}
	var list review.Roster
	if text != "" {
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return op.Fail(op.StateCorrupt, "the roster of reviewers cannot be read").Because(err)
		}
	}
	r.list, r.read = list, true
	return nil
}

// change writes a new list, or leaves all as it was.
func (r *roster) change(ctx context.Context, j *journal.Journal, how func(review.Roster) (review.Roster, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.load(ctx, j); err != nil {
		return err
	}
	next, err := how(slices.Clone(r.list))
	if err != nil {
		return err
	}
	text, err := json.Marshal(next)
	if err == nil {
		err = j.SetMeta(ctx, metaReviewers, string(text))
	}
	if err == nil {
		r.list = next
	}
	return err
}

// Roster gives every entry, ended ones too, oldest first.
func (e *Engine) Roster(ctx context.Context) (review.Roster, error) {
	return e.roster.all(ctx, e.jrn)
}

// AddReviewer enrolls one more way in which a person shows to be that person. Passkeys of
// this page come by RegisterPasskey alone, which has seen the browser's word for them; those
// of a hub's page as the text that is shown there.
func (e *Engine) AddReviewer(ctx context.Context, by op.Caller, r review.Reviewer) (ReviewerView, error) {
	switch {
	case !op.Label(r.Name):
		return ReviewerView{}, op.Fail(op.BadRequest, "name must be 1 to 64 of A-Z a-z 0-9 . _ : -: it is what the audit and the cards call the person").In("name")
	case r.Kind == review.Ed25519 && len(r.Public) != ed25519.PublicKeySize:
		return ReviewerView{}, op.Fail(op.BadRequest, "an ed25519 key has 32 bytes").In("public")
	case r.Kind == review.OIDC && (!strings.Contains(r.Account, "@") || len(r.Account) > 254):
		return ReviewerView{}, op.Fail(op.BadRequest, "an entry of the identity provider needs the account: an email address").In("account").Do("groups are given names in the configuration, under oidc.people")
	case r.Kind != review.Ed25519 && r.Kind != review.OIDC && len(r.Credential) == 0:
		return ReviewerView{}, op.Fail(op.BadRequest, "kind must be ed25519, oidc or passkey").In("kind").Do("a passkey of this daemon's page is registered there, by its owner; one of a hub's page takes the text shown there as passkey")
	case !r.Expires.IsZero() && !r.Expires.After(e.cfg.Now()):
		return ReviewerView{}, op.Fail(op.BadRequest, "the entry would be over before it began").In("expires")
	}
	for i, root := range r.Roots {
		w, err := e.workspace(op.Caller{Role: op.Operator}, root)
		if err != nil {
			return ReviewerView{}, err
		}
		r.Roots[i] = w.Key
	}
	r, err := e.enroll(ctx, by, r)
	return e.reviewerView(r), err
}

// enroll puts a checked entry on the roster. A key belongs to one person.
func (e *Engine) enroll(ctx context.Context, by op.Caller, r review.Reviewer) (review.Reviewer, error) {
	now := e.cfg.Now().UTC()
	r.ID, r.Created, r.By = e.jrn.NewID("rv_"), now, by.Name
	err := e.roster.change(ctx, e.jrn, func(list review.Roster) (review.Roster, error) {
		for _, old := range list {
			if old.Live(now) && old.Kind == r.Kind && (r.Kind == review.OIDC && old.Account == r.Account || r.Kind != review.OIDC && string(old.Public) == string(r.Public)) {
				return nil, op.Fail(op.Exists, "the roster has this already, as "+old.Name).Do("revoke that entry first")
			}
		}
		return append(list, r), nil
	})
	if err != nil {
		return review.Reviewer{}, err
	}
	e.rosterChanged(by, r, "reviewer.added", "reviewer_added")
	return r, nil
}

// RevokeReviewer ends one entry by its id, or by a name all of a person's entries with the
// reviewer's tokens of that name.
func (e *Engine) RevokeReviewer(ctx context.Context, by op.Caller, which string) ([]ReviewerView, error) {
	now := e.cfg.Now().UTC()
	var ended []ReviewerView
	err := e.roster.change(ctx, e.jrn, func(list review.Roster) (review.Roster, error) {
		for i, r := range list {
			if (string(r.ID) == which || r.Name == which) && r.Revoked.IsZero() {
				list[i].Revoked, list[i].EndedBy = now, by.Name
				ended = append(ended, e.reviewerView(list[i]))
			}
		}
		if len(ended) == 0 {
			return nil, op.Fail(op.NotFound, "the roster has no such entry").Do("holdpoint reviewer list shows them")
		}
		return list, nil
	})
	if err != nil {
		return nil, err
	}
	for _, r := range ended {
		e.rosterChanged(by, r.Reviewer, "reviewer.revoked", "reviewer_revoked")
	}
	return ended, e.endTokens(ctx, which)
}

// endTokens revokes the tokens by which a person could answer.
func (e *Engine) endTokens(ctx context.Context, name string) error {
	list, err := e.jrn.Tokens(ctx)
	if err != nil {
		return err
	}
	for _, t := range list {
		if t.Name == name && t.Role == op.Reviewer && !t.Revoked {
			if err := e.RevokeToken(ctx, t.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// rosterChanged puts on record who changed it, and tells who listens.
func (e *Engine) rosterChanged(by op.Caller, r review.Reviewer, event, outcome string) {
	e.log.Append(audit.Record{Kind: audit.Setting, Agent: by.Name, ReviewerID: r.ID, Outcome: outcome})
	e.events.publish(Event{Type: event, Time: e.cfg.Now().UTC(), Data: map[string]any{"reviewer_id": r.ID, "name": r.Name, "kind": r.Kind, "by": by.Name}})
}

// Person gives the entry behind a session while it counts.
func (e *Engine) Person(ctx context.Context, id op.ID) (review.Reviewer, error) {
	list, err := e.Roster(ctx)
	if err != nil {
		return review.Reviewer{}, err
	}
	r, ok := list.Find(id, e.cfg.Now())
	if !ok {
		return r, op.Fail(op.Unauthenticated, "the person is no longer on the roster").Do("ask the operator")
	}
	return r, nil
}
