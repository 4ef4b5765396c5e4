package journal

import (
	"context"
	"time"

	"holdpoint/op"
)

// Kinds of a rule.
const (
	ModeRule       = "mode"       // how much one token may do without asking
	GrantRule      = "grant"      // lifts the author's reasons for a while
	RememberedRule = "remembered" // one identity that a person approved for good
	ProfileRule    = "profile"    // the profile that a token has from now on
)

// Rule is something that a person set and may take back. What it says never changes; how
// often it was used does.
type Rule struct {
	// Terms.
	ID         op.ID
	Kind       string
	Root       string // key; empty: every root
	Token      op.ID  // for whom
	Agent      string // the token's name, for people
	Scope      string // session, stage, project
	Session    string
	Stage      string
	Mode       op.Mode
	Profile    string
	Identity   string // of a remembered rule
	Operations []op.Name
	Paths      []string // patterns as in gitignore; empty: all
	MaxTier    op.Tier
	MaxCount   int64 // 0 is no limit
	MaxBytes   int64
	By         string // who made it
	Created    time.Time
	Expires    time.Time // zero: never

	// State.
	Revoked   bool
	RevokedBy string
	Used      int64
	UsedBytes int64
	Seq       int64
}

// body is what has no column of its own.
type ruleBody struct {
	Operations []op.Name `json:"operations,omitempty"`
	Paths      []string  `json:"paths,omitempty"`
	MaxTier    op.Tier   `json:"max_tier,omitempty"`
	MaxCount   int64     `json:"max_count,omitempty"`
	MaxBytes   int64     `json:"max_bytes,omitempty"`
	Agent      string    `json:"agent,omitempty"`
	Scope      string    `json:"scope,omitempty"`
	Session    string    `json:"session,omitempty"`
	Stage      string    `json:"stage,omitempty"`
	Mode       op.Mode   `json:"mode,omitempty"`
	Profile    string    `json:"profile,omitempty"`
}

func (r Rule) terms() []any {
	b := ruleBody{r.Operations, r.Paths, r.MaxTier, r.MaxCount, r.MaxBytes, r.Agent, r.Scope, r.Session, r.Stage, r.Mode, r.Profile}
	return []any{string(r.ID), r.Kind, r.Root, string(r.Token), r.Identity, asJSON(b), r.By, nanos(r.Created), nanos(r.Expires)}
}

func (r Rule) state() []any { return []any{bit(r.Revoked), r.RevokedBy, r.Used, r.UsedBytes} }

func ruleOf(from row) (Rule, error) {
	r := Rule{Seq: from.seq}
	c := cells{v: from.terms}
	r.ID, r.Kind, r.Root, r.Token, r.Identity = c.id(), c.str(), c.str(), c.id(), c.str()
	var b ruleBody
	c.json(&b)
	r.Operations, r.Paths, r.MaxTier, r.MaxCount, r.MaxBytes = b.Operations, b.Paths, b.MaxTier, b.MaxCount, b.MaxBytes
	r.Agent, r.Scope, r.Session, r.Stage, r.Mode, r.Profile = b.Agent, b.Scope, b.Session, b.Stage, b.Mode, b.Profile
	r.By, r.Created, r.Expires = c.str(), c.when(), c.when()
	s := cells{v: from.state}
	r.Revoked, r.RevokedBy, r.Used, r.UsedBytes = s.flag(), s.str(), s.num(), s.num()
	if c.err != nil || s.err != nil {
		return r, corrupt(rules, from.seq, string(r.ID))
	}
	return r, nil
}

// Live reports whether the rule counts at a moment.
func (r Rule) Live(now time.Time) bool {
	return !r.Revoked && (r.Expires.IsZero() || now.Before(r.Expires)) && (r.MaxCount == 0 || r.Used < r.MaxCount) && (r.MaxBytes == 0 || r.UsedBytes < r.MaxBytes)
}

// AddRule records a rule. DURABLE.
func (j *Journal) AddRule(ctx context.Context, r Rule) error {
	if r.Created.IsZero() {
		r.Created = j.now()
	}
	return j.write(ctx, durable, func(x *tx) error {
		_, err := x.insert(rules, r.terms(), r.state())
		if sqliteConstraint(err) {
			return op.Fail(op.Exists, "a rule with this id exists").Because(err)
		}
		return err
	})
}

// Rules returns all rules in order of making, ended ones too; damaged rows as Operations.
func (j *Journal) Rules(ctx context.Context) ([]Rule, error) {
	rows, err := j.many(ctx, rules, "ORDER BY seq")
	return readRules(rows, err)
}

// RulesFor returns the rules of one token that are not revoked, in order of making.
func (j *Journal) RulesFor(ctx context.Context, token op.ID) ([]Rule, error) {
	rows, err := j.many(ctx, rules, "WHERE token = ? AND revoked = 0 ORDER BY seq", string(token))
	return readRules(rows, err)
}

func readRules(rows []row, err error) ([]Rule, error) {
	out := make([]Rule, 0, len(rows))
	for _, from := range rows {
		r, bad := ruleOf(from)
		if bad != nil {
			err = bad
			continue
		}
		out = append(out, r)
	}
	return out, err
}

// RevokeRule ends a rule for good. DURABLE. Revoking twice is no error.
func (j *Journal) RevokeRule(ctx context.Context, id op.ID, by string) (Rule, error) {
	return j.stepRule(ctx, id, func(r *Rule) error {
		if !r.Revoked {
			r.Revoked, r.RevokedBy = true, by
		}
		return nil
	})
}

// UseRule counts one use of so many bytes. DURABLE, and refused with op.NotAvailable when
// the rule no longer counts or has not that much left, so that two uses at once never
// exceed it.
func (j *Journal) UseRule(ctx context.Context, id op.ID, bytes int64) error {
	_, err := j.stepRule(ctx, id, func(r *Rule) error {
		if !r.Live(j.now()) || r.MaxBytes > 0 && r.UsedBytes+bytes > r.MaxBytes {
			return op.Fail(op.NotAvailable, "the grant is used up, expired or revoked")
		}
		r.Used++
		r.UsedBytes += bytes
		return nil
	})
	return err
}

func (j *Journal) stepRule(ctx context.Context, id op.ID, change func(*Rule) error) (Rule, error) {
	var out Rule
	err := j.write(ctx, durable, func(t *tx) error {
		from, err := t.row(rules, string(id))
		if err != nil {
			return err
		}
		if out, err = ruleOf(from); err != nil {
			return err
		}
		if err := change(&out); err != nil {
			return err
		}
		return t.turn(rules, from, out.state())
	})
	return out, err
}
