package flow

import (
	"context"
	"encoding/json"
	"time"

	"holdpoint/decision"
	"holdpoint/internal/journal"
	"holdpoint/op"
)

// Reach is what a remembered rule for a card would have done with the requests on record.
type Reach struct {
	Identity string         `json:"identity"`
	Logged   int            `json:"logged"`   // requests of the same caller in the same root
	Covered  int            `json:"covered"`  // that it would have let run
	Rejected int            `json:"rejected"` // of those, how many a person turned down
	Asked    int            `json:"asked"`    // of this identity, and held all the same: a fact was missing, or a mode restricts
	States   map[string]int `json:"states"`   // of those that it covers
	IDs      []op.ID        `json:"ids"`      // the newest of them
	Turned   []TurnedDown   `json:"turned_down"`
}

// TurnedDown is one request that a person rejected and that the rule would let run.
type TurnedDown struct {
	ID   op.ID     `json:"id"`
	By   string    `json:"by"`
	Note string    `json:"note,omitempty"`
	At   time.Time `json:"at"`
}

// shownReach is how many ids an answer names.
const shownReach = 50

// RuleReach replays a rule over the log before it is made: each card of the caller is
// judged once more from what it was judged from, with the rule. The rejected ones are
// named: whoever is about to allow for good what somebody turned down should know.
func (e *Engine) RuleReach(ctx context.Context, id op.ID) (Reach, error) {
	row, err := e.jrn.Approval(ctx, id)
	if err != nil {
		return Reach{}, err
	}
	rows, err := e.rows(ctx, journal.ApprovalFilter{Root: row.Root, Token: row.Token})
	if err != nil {
		return Reach{}, err
	}
	r := Reach{Identity: row.Identity, Logged: len(rows), States: map[string]int{}, IDs: []op.ID{}, Turned: []TurnedDown{}}
	for _, o := range rows {
		if o.Identity != row.Identity || o.Decision.OneShot {
			continue
		}
		runs, err := e.withRule(ctx, o)
		if err != nil {
			return Reach{}, err
		}
		if !runs {
			r.Asked++
			continue
		}
		r.Covered++
		r.States[o.State]++
		r.IDs = newest(append(r.IDs, o.ID))
		if o.State == journal.Rejected {
			r.Rejected++
			t := TurnedDown{ID: o.ID, At: o.Changed}
			if o.Answer != nil {
				t.By, t.Note = o.Answer.By, op.Visible(o.Answer.Note, true)
			}
			r.Turned = newest(append(r.Turned, t))
		}
	}
	return r, nil
}

func newest[T any](list []T) []T { return list[max(0, len(list)-shownReach):] }

// withRule judges a card once more, as if the rule had been there. A card of a record that
// kept no basis counts as covered: to promise too much reach is the careful side.
func (e *Engine) withRule(ctx context.Context, o journal.Approval) (bool, error) {
	raw, err := e.jrn.Basis(ctx, o.ID)
	if err != nil || raw == nil {
		return true, err
	}
	var b basis
	if err := json.Unmarshal(raw, &b); err != nil {
		return true, nil
	}
	b.Environment.Remembered = []string{op.SameIdentity}
	return decision.Judge(b.Request, b.Profile, b.Facts, b.Environment).Verdict == op.Auto, nil
}

// remembering makes the rule that an answer asked for: exactly this identity, for the one
// who asked, in this root. The reach is worked out before it is made, and goes with the
// event that tells of it.
func (e *Engine) remembering(ctx context.Context, by op.Caller, row journal.Approval) error {
	reach, err := e.RuleReach(ctx, row.ID)
	if err != nil {
		return err
	}
	defer e.known.forget()
	r := journal.Rule{ID: e.jrn.NewID("ru_"), Kind: journal.RememberedRule, Root: row.Root, Token: row.Token, Agent: row.Agent,
		Identity: row.Identity, By: by.Name, Created: e.cfg.Now().UTC()}
	if err := e.jrn.AddRule(ctx, r); err != nil {
		return err
	}
	e.events.publish(Event{Type: "rule.added", Time: e.cfg.Now().UTC(), Root: r.Root, Agent: r.Agent, Token: string(r.Token),
		Data: map[string]any{"rule_id": r.ID, "kind": r.Kind, "by": r.By, "covered": reach.Covered, "rejected": reach.Rejected}})
	return nil
}
