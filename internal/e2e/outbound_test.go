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
		// An identity provider is configured, and nobody signs in: it is not asked either.
		config := filepath.Join(filepath.Dir(state), "c.toml")
		write(t, config, "[serve]\npublic_url = \"https://review.example.org\"\n[oidc]\nissuer = \"https://id.example.org\"\nclient_id = \"c\"\n")
		d := &daemon{t: t, Root: root, State: state, Socket: filepath.Join(state, "holdpoint.sock"), args: []string{"--review-auth", "token", "--config", config}}
		t.Cleanup(func() { d.stop(syscall.SIGTERM) })
		d.run("unshare", "--net", "strace", "-f", "-qq", "-e", "signal=none", "-e", "trace=connect,sendto,sendmsg,sendmmsg", "-o", trace)
		d.operator()
		reply := must(t, d.call("write_file", M{"path": "f", "content": "x\n"}), "done")
		must(t, d.approve(must(t, d.call("delete_file", M{"path": "f"}), "review")), "done")
		must(t, d.call("write_file", M{"path": "g", "content": "x\n"}), "done")
		d.undo(reply)
		must(t, d.call("search_files", M{"path": ".", "pattern": "x"}), "done")
		d.approve(must(t, d.call("workspace_shell", M{"command": "true"}), "review"))
		for _, p := range []string{"/metrics", "/v1/status", "/openapi.json", "/", "/v1/me", "/v1/login", "/v1/reviewers", "/v1/replay", "/v1/audit/head"} {
			if status, got := d.http("GET", p, d.reviewer(), nil); status != 200 {
				t.Errorf("%s: %d %v", p, status, got)
			}
		}
		d.http("POST", "/v1/verify", d.reviewer(), M{})
		d.http("POST", "/v1/gc", d.reviewer(), M{})
		if exit, _, errs := d.cli("status"); exit != 0 {
			t.Error(errs)
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
