package journal

import (
	"context"
	"time"

	"holdpoint/op"
)

// Session is what one token did under one label in one root.
type Session struct {
	Root       string    `json:"root"` // key
	Token      op.ID     `json:"token"`
	Agent      string    `json:"agent"`
	Session    string    `json:"session"`
	Operations int       `json:"operations"` // that were recorded, undone ones too
	Standing   int       `json:"standing"`   // of those, what was not taken back
	Waiting    int       `json:"waiting"`    // cards
	First      time.Time `json:"first,omitzero"`
	Last       time.Time `json:"last,omitzero"`
}

// Sessions sums the record up by session, the one that was heard of last first. It is for
// finding one's way: rows are read in part, so that one that is damaged is not found out.
func (j *Journal) Sessions(ctx context.Context, since time.Time) ([]Session, error) {
	j.catchUp()
	rows, err := j.readers.QueryContext(ctx, `SELECT root, token, max(agent), session, sum(done), sum(standing), sum(waits), min(created), max(created) FROM (
		SELECT root, token, agent, session, created, 1 AS done, state = 'committed' AND op <> 'undo' AS standing, 0 AS waits FROM operations WHERE session <> '' AND state IN ('committed', 'undone')
		UNION ALL SELECT root, token, agent, session, created, 0, 0, 1 FROM approvals WHERE session <> '' AND state = 'pending'
	) WHERE created >= ? GROUP BY root, token, session ORDER BY max(created) DESC, session`, nanos(since))
	out := []Session{}
	if err == nil {
		err = each(rows, func() error {
			var s Session
			var token string
			var first, last int64
			if err := rows.Scan(&s.Root, &token, &s.Agent, &s.Session, &s.Operations, &s.Standing, &s.Waiting, &first, &last); err != nil {
				return err
			}
			s.Token, s.First, s.Last = op.ID(token), fromNanos(first), fromNanos(last)
			out = append(out, s)
			return nil
		})
	}
	return out, j.readError(operations, err)
}
