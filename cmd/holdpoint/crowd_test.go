package main

import (
	"net"
	"net/http"
	"testing"
)

// Those that were put out count until what serves them is gone, so that a crowd that comes
// faster than they leave is not let in.
func TestCrowdLeaves(t *testing.T) {
	c := &crowd{}
	var all []net.Conn
	come := func() (net.Conn, <-chan struct{}) {
		conn, other := net.Pipe()
		t.Cleanup(func() { conn.Close(); other.Close() })
		all = append(all, conn)
		return c.seen(conn, http.StateNew)
	}
	for i := range maxSilent + maxLeaving - 1 {
		if out, wait := come(); wait != nil || (out != nil) != (i >= maxSilent) {
			t.Fatalf("%d: put out %v, waits %v", i, out != nil, wait != nil)
		}
	}
	out, wait := come()
	if out != all[maxLeaving-1] || wait == nil {
		t.Fatalf("put out %v, waits %v", out, wait != nil)
	}
	select {
	case <-wait:
		t.Fatal("nobody left, and it does not wait")
	default:
	}
	c.seen(all[0], http.StateClosed)
	select {
	case <-wait:
	default:
		t.Fatal("one left, and it waits still")
	}
	c.seen(all[1], http.StateActive) // it was put out as its request came: that may take long
	if _, wait := come(); wait != nil {
		t.Error("one that is served counts as leaving")
	}
}
