package flow

import (
	"context"
	"slices"
	"time"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

// Sessions lists the sessions that a caller may know of: an agent's own, and for people
// those of the roots that they see. A label is the caller's own word and opens nothing.
func (e *Engine) Sessions(ctx context.Context, by op.Caller, root string, since time.Time) ([]journal.Session, error) {
	key := ""
	if root != "" {
		w, err := e.workspace(by, root)
		if err != nil {
			return nil, err
		}
		key = w.Key
	}
	list, err := e.jrn.Sessions(ctx, since)
	return slices.DeleteFunc(list, func(s journal.Session) bool {
		w := e.byKey(s.Root)
		return by.Role == op.Agent && s.Token != by.Token || w == nil || !mayUse(by, w) || key != "" && s.Root != key
	}), err
}
