package main

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// maxSilent is how many connections of one listener may be open on which no whole request
// has come, or none since the last answer. Ten thousand of them would cost memory before
// anybody is known.
const maxSilent = 256

// crowd holds the silent connections. A further one puts the oldest out, so that a crowd of silent clients shuts out itself and not those who ask.
type crowd struct {
	mu    sync.Mutex
	order list.List // of net.Conn, oldest first; guarded by mu
	at    map[net.Conn]*list.Element
}

// state is a server's ConnState, before next.
func (c *crowd) state(next func(net.Conn, http.ConnState)) func(net.Conn, http.ConnState) {
	return func(conn net.Conn, s http.ConnState) {
		if out := c.seen(conn, s); out != nil {
			out.Close()
		}
		next(conn, s)
	}
}

func (c *crowd) seen(conn net.Conn, s http.ConnState) (out net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == nil {
		c.at = map[net.Conn]*list.Element{}
	}
	if s != http.StateNew && s != http.StateIdle {
		if e := c.at[conn]; e != nil {
			c.order.Remove(e)
			delete(c.at, conn)
		}
		return nil
	}
	c.at[conn] = c.order.PushBack(conn)
	if c.order.Len() <= maxSilent {
		return nil
	}
	oldest := c.order.Front()
	out = oldest.Value.(net.Conn)
	c.order.Remove(oldest)
	delete(c.at, out)
	return out
}
