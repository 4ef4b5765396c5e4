//go:build linux

package shellexec

import (
	"slices"
	"strings"
	"testing"
)

// TestEvidence tells of attempts at a network that is off, and of nothing else.
func TestEvidence(t *testing.T) {
	try := func(t *testing.T, network bool, lines ...string) *Evidence {
		t.Helper()
		s := shell(t, "python3 -c '"+strings.Join(append([]string{"import socket"}, lines...), "\n")+"'")
		s.Network = network
		r := mustRun(t, s)
		if r.Exit == nil || *r.Exit != 0 {
			t.Fatalf("%+v %q", r, all(r.Stderr))
		}
		return r.Seen
	}
	tcp := `socket.socket().connect_ex(("192.0.2.7", 443))`
	udp := `try: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("198.51.100.9", 123))
except OSError: pass`
	six := `socket.socket(socket.AF_INET6).connect_ex(("2001:db8::1", 80))`
	dns := `socket.socket(type=socket.SOCK_DGRAM).connect(("127.0.0.53", 53))`
	own := `l = socket.create_server(("127.0.0.1", 0)); socket.create_connection(l.getsockname()).send(b"x"); a, b = socket.socketpair(); a.sendall(b"x")`
	t.Run("each attempt is counted and its address named", func(t *testing.T) {
		got := try(t, false, tcp, tcp, udp, six, dns)
		if got == nil || got.Attempts != 5 || !slices.Equal(got.To, []string{"192.0.2.7:443", "198.51.100.9:123", "[2001:db8::1]:80", "127.0.0.53:53 (a name server)"}) {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("what it says to itself is none", func(t *testing.T) {
		if got := try(t, false, own); got != nil {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("with the network nothing is counted", func(t *testing.T) {
		if got := try(t, true, own, dns); got != nil {
			t.Errorf("got %+v", got)
		}
	})
}
