package flow

import (
	"fmt"
	"testing"

	"holdpoint/op"
)

func TestServedIsBounded(t *testing.T) {
	var s served
	key := func(token string, i int) servedKey {
		return servedKey{op.ID(token), "root", op.Path(fmt.Sprint(i)), "blake3:00"}
	}
	n := 2 * maxServed / maxServedFile
	for i := range n {
		s.put(key("a", i), make([]byte, maxServedFile))
		if _, held := s.get(key("a", 0)); held {
			s.put(key("a", 0), nil) // shown again: it stays
		}
		if s.bytes > maxServed || s.order.Len() != len(s.at) {
			t.Fatalf("%d bytes in %d files", s.bytes, s.order.Len())
		}
	}
	if _, held := s.get(key("a", 0)); !held {
		t.Error("what is shown again and again was dropped")
	}
	if _, held := s.get(key("a", 1)); held {
		t.Error("the oldest is still held")
	}
	if _, held := s.get(key("a", n-1)); !held {
		t.Error("the newest is not held")
	}
	if _, held := s.get(key("b", n-1)); held {
		t.Error("another token gets it")
	}
	s.put(key("a", -1), make([]byte, maxServedFile+1))
	if _, held := s.get(key("a", -1)); held {
		t.Error("a file past the bound is held")
	}
}
