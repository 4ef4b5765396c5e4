package flow

import (
	"context"
	"sync"
	"time"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

// counts is what the engine counts for those who watch over it. Every key is one of a
// closed set of words, so that no caller can make it grow, and none is a path, a name or
// content.
type counts struct {
	mu        sync.Mutex // guards the maps
	calls     map[CallCount]uint64
	decisions map[DecisionCount]uint64
	answers   map[string]uint64
	took      journal.Times
}

// CallCount names a kind of call by how it ended.
type CallCount struct {
	Op     op.Name
	Status op.Status
	Reason string // of the decision, or the error code
}

// DecisionCount names a kind of decision.
type DecisionCount struct {
	Verdict string
	Reason  op.Reason
}

func (n *counts) call(name op.Name, r op.Reply, took time.Duration) {
	if _, known := op.Lookup(name); !known {
		name = "unknown"
	}
	key := CallCount{Op: name, Status: r.Status}
	switch {
	case r.Error != nil:
		key.Reason = string(r.Error.Code)
	case r.Decision != nil:
		key.Reason = string(r.Decision.Reason)
	}
	n.took.Add(took)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.calls == nil {
		n.calls, n.decisions = map[CallCount]uint64{}, map[DecisionCount]uint64{}
	}
	n.calls[key]++
	if r.Decision != nil {
		n.decisions[DecisionCount{r.Decision.Verdict.String(), r.Decision.Reason}]++
	}
}

// counted counts a call at its end.
func (e *Engine) counted(name op.Name, began time.Time, r *op.Reply) {
	e.counts.call(name, *r, time.Since(began))
}

func (n *counts) answer(word string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.answers == nil {
		n.answers = map[string]uint64{}
	}
	n.answers[word]++
}

// Measures is what the engine counted since it began, and how things stand.
type Measures struct {
	Calls      map[CallCount]uint64
	Decisions  map[DecisionCount]uint64
	Answers    map[string]uint64 // by the state that they brought a card to
	CallTimes  journal.TimesRead
	FlushTimes journal.TimesRead
	Pending    int
	StoreBytes int64
	Watched    bool // every waiting card is watched for drift
	Running    int  // programs
	Roots      int
	Denied     uint64 // callers without a valid token
}

// Measures reads the counters.
func (e *Engine) Measures(ctx context.Context) (Measures, error) {
	m := Measures{Calls: map[CallCount]uint64{}, Decisions: map[DecisionCount]uint64{}, Answers: map[string]uint64{},
		CallTimes: e.counts.took.Read(), FlushTimes: e.jrn.FlushTimes(), Watched: e.drift.lacks() == nil, Roots: len(e.workspaces()), Denied: e.denied.count()}
	e.counts.mu.Lock()
	for k, v := range e.counts.calls {
		m.Calls[k] = v
	}
	for k, v := range e.counts.decisions {
		m.Decisions[k] = v
	}
	for k, v := range e.counts.answers {
		m.Answers[k] = v
	}
	e.counts.mu.Unlock()
	for _, r := range e.Runs(ctx, op.Caller{Role: op.Operator}) {
		if r.State == "running" {
			m.Running++
		}
	}
	var err error
	if m.Pending, err = e.jrn.CountApprovals(ctx, journal.Pending, ""); err != nil {
		return m, err
	}
	m.StoreBytes, err = e.storeUsed(ctx, false)
	return m, err
}
