package main

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"holdpoint/op"
)

// presence knows whether somebody is connected, and since when nobody is.
type presence struct {
	mu    sync.Mutex // guards the rest
	open  map[net.Conn]bool
	since time.Time
}

// state is the hook of a server's connections. One that was hijacked is counted by whoever
// took it.
func (p *presence) state(c net.Conn, s http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch s {
	case http.StateNew, http.StateActive:
		if p.open == nil {
			p.open = map[net.Conn]bool{}
		}
		p.open[c] = true
	case http.StateIdle, http.StateHijacked, http.StateClosed:
		delete(p.open, c)
	}
	p.since = time.Now()
}

// idleFor tells how long nobody has been there.
func (p *presence) idleFor(clients int64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if clients > 0 || len(p.open) > 0 || p.since.IsZero() {
		p.since = time.Now()
	}
	return time.Since(p.since)
}

// untilIdle returns when nobody has been there for a while and no card waits for a
// person, or when ctx ends. Meanwhile it takes over a reviewer that is set later.
func untilIdle(ctx context.Context, o *opened, p *presence, clients func() int64, after time.Duration, env func(string) string) {
	tick := time.NewTicker(min(max(after/20, 50*time.Millisecond), 2*time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		o.ownReviewer(ctx, env)
		if p.idleFor(clients()) < after {
			continue
		}
		s, err := o.engine.Status(ctx, op.Caller{Role: op.Operator})
		if err == nil && s.Pending == 0 {
			return
		}
	}
}
