package journal

import (
	"context"
	"errors"
	"time"

	"holdpoint/op"
)

// Token is who may call. Its secret is not in it and is not stored, only a keyed digest.
type Token struct {
	ID         op.ID
	Name       string
	Role       op.Role
	Roots      []string // keys; empty means every root
	Workflow   string
	Profile    string
	Clearance  int
	Created    time.Time
	Expires    time.Time // zero: never
	Revoked    bool
	SocketOnly bool
}

func tokenOf(r row) (Token, error) {
	c := cells{v: r.terms}
	t := Token{ID: c.id(), Name: c.str(), Role: op.Role(c.str())}
	c.json(&t.Roots)
	t.Workflow, t.Profile, t.Clearance = c.str(), c.str(), int(c.num())
	t.Created, t.Expires, t.SocketOnly = c.when(), c.when(), c.flag()
	s := cells{v: r.state}
	t.Revoked = s.flag()
	if c.err != nil {
		return t, corrupt(tokens, r.seq, string(t.ID))
	}
	return t, nil
}

// secretDigest is what stands in the database for a secret.
func (j *Journal) secretDigest(secret string) []byte {
	return j.digest("token secret", 0, []any{secret})
}

// AddToken stores a token with the digest of its secret. DURABLE. op.Exists for an id or
// a secret that is taken.
func (j *Journal) AddToken(ctx context.Context, t Token, secret string) error {
	if t.ID == "" || len(secret) < 16 {
		return op.Fail(op.Internal, "a token needs an id and a secret of at least 16 characters")
	}
	if t.Created.IsZero() {
		t.Created = j.now()
	}
	terms := []any{string(t.ID), t.Name, string(t.Role), asJSON(t.Roots), t.Workflow, t.Profile, int64(t.Clearance),
		nanos(t.Created), nanos(t.Expires), bit(t.SocketOnly), j.secretDigest(secret)}
	return j.write(ctx, durable, func(x *tx) error {
		_, err := x.insert(tokens, terms, []any{bit(t.Revoked)})
		if sqliteConstraint(err) {
			return op.Fail(op.Exists, "a token with this id or this secret exists").Because(err)
		}
		return err
	})
}

// Unfit is the cause why a token is not good, for the record and for nobody who shows it.
type Unfit struct{ Why, Name string }

func (u *Unfit) Error() string { return u.Why }

// NotValid is the refusal of a token, whatever is wrong with it: in the same words, with
// the cause for the record.
func NotValid(why, name string) error {
	return op.Fail(op.Unauthenticated, "the token is not valid").Do("ask the operator for a token").Because(&Unfit{why, name})
}

// TokenBySecret finds the token of a secret that is neither revoked nor expired at now.
// Everything else is op.Unauthenticated in the same words. The secret is not compared but
// looked up by its keyed digest, so the time taken tells nothing about it.
func (j *Journal) TokenBySecret(ctx context.Context, secret string, now time.Time) (Token, error) {
	r, err := j.scan(tokens, j.read.bySecret.QueryRowContext(context.WithoutCancel(ctx), j.secretDigest(secret)))
	if err = j.readError(tokens, err); errors.Is(err, op.NotFound) {
		return Token{}, NotValid("token_unknown", "")
	}
	if err != nil {
		return Token{}, err
	}
	t, err := tokenOf(r)
	if err != nil {
		return Token{}, err
	}
	if t.Revoked {
		return Token{}, NotValid("token_revoked", t.Name)
	}
	if !t.Expires.IsZero() && !now.Before(t.Expires) {
		return Token{}, NotValid("token_expired", t.Name)
	}
	return t, nil
}

// Tokens returns all tokens in order of making, revoked ones too; damaged rows as
// Operations.
func (j *Journal) Tokens(ctx context.Context) ([]Token, error) {
	rows, err := j.many(ctx, tokens, "ORDER BY seq")
	out := make([]Token, 0, len(rows))
	for _, r := range rows {
		t, bad := tokenOf(r)
		if bad != nil {
			err = bad
			continue
		}
		out = append(out, t)
	}
	return out, err
}

// RevokeToken ends a token for good. DURABLE. Revoking twice is no error.
func (j *Journal) RevokeToken(ctx context.Context, id op.ID) error {
	return j.write(ctx, durable, func(t *tx) error {
		r, err := t.stateOf(tokens, string(id))
		if err != nil {
			return err
		}
		return t.turn(tokens, r, []any{bit(true)})
	})
}
