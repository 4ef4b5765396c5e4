// Package ports gives tests addresses for servers that cannot be told to pick one themselves.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// The ports given lie below those that the kernel picks for outgoing connections and for
// listeners on port 0 (net.ipv4.ip_local_port_range, from 32768), so that between giving
// and listening nothing but another caller of Free takes one.
const (
	first = 10000
	last  = 32000
)

var (
	mu    sync.Mutex // guards given
	given = map[int]bool{}
)

// Addr gives an address on 127.0.0.1 whose port is Free.
func Addr(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", Free(t))
}

// Free gives a port of 127.0.0.1 on which nobody listens, each to one caller of a process.
func Free(t testing.TB) int {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	for range 1000 {
		n := first + rand.IntN(last-first)
		if given[n] {
			continue
		}
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", n)); err == nil {
			l.Close()
			given[n] = true
			return n
		}
	}
	t.Fatal("no free port was found")
	return 0
}
