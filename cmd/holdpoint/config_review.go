package main

import (
	"errors"
	"fmt"

	"holdpoint/internal/flow"
	"holdpoint/internal/journal"
	"holdpoint/op"
)

// twoReviewersFile says when a call takes two people; what is absent never does.
type twoReviewersFile struct {
	Files         int   `toml:"files"` // more targets than this
	Bytes         int64 `toml:"bytes"` // more bytes than this
	Protected     bool  `toml:"protected"`
	Unrecoverable bool  `toml:"unrecoverable"` // what no undo takes back: processes
}

func (t twoReviewersFile) into(cfg *flow.Config) error {
	if t.Files < 0 || t.Bytes < 0 {
		return errors.New("two_reviewers.files and bytes must not be negative")
	}
	cfg.Two = flow.TwoReviewers(t)
	return nil
}

// timeouts reads what happens to a card whose time is over. The word auto is taken only
// where a tier is automatic anyway, and means reject for the rare card of such a tier:
// time never approves anything.
func (file fileConfig) timeouts(cfg *flow.Config) error {
	cfg.OnTimeout = map[op.Tier]string{}
	for name, word := range file.OnTimeout {
		tier := op.Tier(name)
		switch {
		case tier.Rank() > 4:
			return fmt.Errorf("on_timeout.%s is no tier; they are T0 to T4", name)
		case word == journal.Lapse, word == journal.AutoDeny, word == journal.Pause:
			cfg.OnTimeout[tier] = word
		case word == "auto" && tier.Rank() <= 1:
			cfg.OnTimeout[tier] = journal.Lapse
		case word == "auto":
			return fmt.Errorf("on_timeout.%s = \"auto\" would approve by waiting, which nothing does; it is taken for T0 and T1 alone", name)
		default:
			return fmt.Errorf("on_timeout.%s must be reject, pause or auto_deny", name)
		}
	}
	return nil
}
