package e2e

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestNoOutbound(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	trace := filepath.Join(filepath.Dir(state), "trace")
	t.Run("in an empty network namespace no outbound attempt is seen: no telemetry, no look for updates", func(t *testing.T) {
		d := underOn(t, root, state, "unshare", "--net", "strace", "-f", "-qq", "-e", "signal=none", "-e", "trace=connect,sendto,sendmsg,sendmmsg", "-o", trace)
		reply := must(t, d.call("write_file", M{"path": "f", "content": "x\n"}), "done")
		must(t, d.approve(must(t, d.call("delete_file", M{"path": "f"}), "review")), "done")
		must(t, d.call("write_file", M{"path": "g", "content": "x\n"}), "done")
		d.undo(reply)
		for _, p := range []string{"/metrics", "/v1/status", "/openapi.json"} {
			d.http("GET", p, d.Agent, nil)
		}
		d.stop(syscall.SIGTERM)
		said := read(t, trace)
		if !strings.Contains(said, "AF_UNIX") {
			t.Fatalf("nothing was traced:\n%s", said)
		}
		for _, l := range strings.Split(said, "\n") {
			if strings.Contains(l, "AF_INET") || strings.Contains(l, "AF_PACKET") {
				t.Error(l)
			}
		}
	})
}
