package main

import (
	"container/list"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxSilent is how many connections of one listener may be open on which no whole request
// has come, or none since the last answer. Ten thousand of them would cost memory before
// anybody is known.
const maxSilent = 256

// maxLeaving is how many of those that were put out may still be on their way: what serves
// one is in memory until it gets its turn to notice, which on a busy machine is later than
// the next thousand come.
const maxLeaving = 64

// leaveTime bounds how long a new connection waits for those to be gone.
const leaveTime = 100 * time.Millisecond

// crowd holds the silent connections. A further one puts the oldest out, so that a crowd of silent clients shuts out itself and not those who ask.
type crowd struct {
	mu      sync.Mutex
	order   list.List // of net.Conn, oldest first; guarded by mu, as the rest
	at      map[net.Conn]*list.Element
	leaving map[net.Conn]bool
	left    chan struct{} // closed when fewer than maxLeaving are on their way; nil while nobody waits
}

// state is a server's ConnState, before next.
func (c *crowd) state(next func(net.Conn, http.ConnState)) func(net.Conn, http.ConnState) {
	return func(conn net.Conn, s http.ConnState) {
		out, wait := c.seen(conn, s)
		if out != nil {
			out.Close()
		}
		if wait != nil {
			select {
			case <-wait:
			case <-time.After(leaveTime):
			}
		}
		next(conn, s)
	}
}

// seen takes a change of a connection in. It gives the one to put out, and what a new one
// waits for: a server tells of it before it takes the next.
func (c *crowd) seen(conn net.Conn, s http.ConnState) (out net.Conn, wait <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == nil {
		c.at, c.leaving = map[net.Conn]*list.Element{}, map[net.Conn]bool{}
	}
	if s != http.StateNew && s != http.StateIdle {
		c.forget(conn)
		return nil, nil
	}
	c.at[conn] = c.order.PushBack(conn)
	if c.order.Len() <= maxSilent {
		return nil, nil
	}
	oldest := c.order.Front()
	out = oldest.Value.(net.Conn)
	c.order.Remove(oldest)
	delete(c.at, out)
	c.leaving[out] = true
	if s != http.StateNew || len(c.leaving) < maxLeaving {
		return out, nil
	}
	if c.left == nil {
		c.left = make(chan struct{})
	}
	return out, c.left
}

// forget is for one that is not silent any more, or gone.
func (c *crowd) forget(conn net.Conn) {
	if e := c.at[conn]; e != nil {
		c.order.Remove(e)
		delete(c.at, conn)
	}
	delete(c.leaving, conn)
	if c.left != nil && len(c.leaving) < maxLeaving {
		close(c.left)
		c.left = nil
	}
}
