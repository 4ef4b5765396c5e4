package flow

import (
	"errors"
	"sync"
	"time"

	"holdpoint/audit"
	"holdpoint/internal/journal"
	"holdpoint/op"
)

// deniedLines is how many refusals of unknown callers are put on record one by one in
// each deniedSpan. Whoever asks without a token must not be able to fill the log.
const (
	deniedLines = 50
	deniedSpan  = time.Hour
)

type denied struct {
	mu    sync.Mutex // guards the rest
	began time.Time
	lines int
	total uint64
}

// Denied puts on record that somebody was turned away who had not shown who they are. The
// exact cause stands there alone: the caller learns one and the same. Beyond the bound one
// line says that there were more, and only the counter knows how many.
func (e *Engine) Denied(where string, err error) {
	cause := string(op.AsError(err).Code)
	name := ""
	var unfit *journal.Unfit
	if errors.As(err, &unfit) {
		cause, name = unfit.Why, unfit.Name
	}
	now := e.cfg.Now()
	d := &e.denied
	d.mu.Lock()
	d.total++
	if d.began.IsZero() || now.Sub(d.began) >= deniedSpan {
		d.began, d.lines = now, 0
	}
	d.lines++
	n := d.lines
	d.mu.Unlock()
	switch {
	case n > deniedLines+1:
		return
	case n > deniedLines:
		where, cause, name = "", "more_refused", ""
	}
	reason := op.Reason("no_valid_token")
	if where != "" {
		reason = op.Reason(where)
	}
	e.log.Append(audit.Record{Kind: audit.Access, Decision: audit.Refused, Reason: reason, Agent: name, Outcome: cause})
}

func (d *denied) count() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.total
}
