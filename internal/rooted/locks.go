package rooted

import (
	"context"
	"slices"
	"sync"

	"holdpoint/op"
)

// claim is one path that a call changes. A deep claim is on something that is taken,
// moved or removed, and covers everything below it.
type claim struct {
	path op.Path
	deep bool
}

func (c claim) conflicts(o claim) bool {
	return c.path == o.path || c.deep && o.path.Within(c.path) || o.deep && c.path.Within(o.path)
}

// locks orders the calls of this process that change the same paths. A call takes all its
// claims at once and waits behind every earlier call that conflicts, waiting ones too, so
// that nobody deadlocks and nobody starves. Readers take none.
type locks struct {
	mu    sync.Mutex
	queue []*ticket // guarded by mu; in order of arrival
}

type ticket struct {
	claims []claim
	turn   chan struct{} // closed when nothing before it conflicts
	open   bool          // guarded by locks.mu
}

// lock waits for its turn or for ctx; the caller calls the function it returns once.
func (l *locks) lock(ctx context.Context, claims []claim) (func(), error) {
	t := &ticket{claims: claims, turn: make(chan struct{})}
	l.mu.Lock()
	l.queue = append(l.queue, t)
	l.wake()
	l.mu.Unlock()
	select {
	case <-t.turn:
		return func() { l.leave(t) }, nil
	case <-ctx.Done():
		l.leave(t)
		return nil, waited(ctx, claims)
	}
}

func (l *locks) leave(t *ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = slices.DeleteFunc(l.queue, func(q *ticket) bool { return q == t })
	l.wake()
}

// wake lets everybody in whom nobody earlier keeps out. Called with mu held.
func (l *locks) wake() {
	for i, t := range l.queue {
		if t.open || blocked(t, l.queue[:i]) {
			continue
		}
		t.open = true
		close(t.turn)
	}
}

func blocked(t *ticket, earlier []*ticket) bool {
	for _, e := range earlier {
		for _, a := range e.claims {
			if slices.ContainsFunc(t.claims, a.conflicts) {
				return true
			}
		}
	}
	return false
}

func waited(ctx context.Context, claims []claim) error {
	if ctx.Err() == context.Canceled {
		return op.Fail(op.Cancelled, "cancelled while waiting for another call on the same path").Because(ctx.Err())
	}
	e := op.Fail(op.BusyWriter, "another call on the same path took too long").Do("try again").Because(ctx.Err())
	e.Retry = "same"
	if len(claims) > 0 {
		e.At(claims[0].path)
	}
	return e
}

// claims lists what steps change.
func claims(steps []op.Step) []claim {
	out := make([]claim, 0, len(steps))
	for _, s := range steps {
		deep := s.Do == op.Take || s.Do == op.Move || s.Do == op.RemoveDir
		out = append(out, claim{s.Path, deep})
		if s.Do == op.Move {
			out = append(out, claim{s.To, true})
		}
	}
	return out
}
