//go:build linux

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

func TestProcessPeer(t *testing.T) {
	t.Parallel()
	t.Run("S58 no program that was released can approve: confined it reaches nothing, unconfined the roles of people are refused to it", func(t *testing.T) {
		d := start(t, "--review-auth", "token")
		d.operator()
		d.put("victim", "", 0o644)
		next := must(t, d.call("delete_file", M{"path": "victim"}), "review")
		id := text(next, "approval", "id")
		_, row := d.http("GET", "/v1/approvals/"+id, d.reviewer(), nil)
		digest := text(row, "card", "shown_digest")
		try := func(holdpoint string) string {
			secret := "$(cat " + d.State + "/tokens/operator)"
			return fmt.Sprintf(`P=%s; export HOLDPOINT_SOCKET=%s HOLDPOINT_STATE=%s HOLDPOINT_REVIEW_PASSPHRASE='%s' T="%s"
$P review approve %s --json; echo "cli $?"
curl -s --unix-socket $HOLDPOINT_SOCKET -H "Authorization: Bearer $T" -H 'Content-Type: application/json' -d '{"answer":"approve","shown_digest":"%s"}' http://x/v1/approvals/%s/answer; echo "curl $?"
curl -s --unix-socket $HOLDPOINT_SOCKET -H 'Content-Type: application/json' -d '{"passphrase":"%s"}' http://x/v1/login; echo "login $?"
(setsid sh -c "curl -s --unix-socket $HOLDPOINT_SOCKET -H 'Authorization: Bearer $T' http://x/v1/rules" &) ; sleep 0.3
env; cat /proc/self/cmdline; ls -l /proc/self/fd
`, holdpoint, d.Socket, d.State, passphrase, secret, id, digest, id, passphrase)
		}
		r := d.approve(d.shell(try(binary), M{"timeout_ms": 20000}))
		out := text(r, "result", "stdout") + text(r, "result", "stderr")
		if strings.Contains(out, `"token"`) || strings.Contains(out, "hp_") || strings.Contains(out, "cli 0") || strings.Contains(out, `"state"`) || !d.has("victim") {
			t.Errorf("confined: %s", out)
		}
		// The same operator's token does it from outside, so that the test shows something.
		if c, _ := d.http("GET", "/v1/rules", d.reviewer(), nil); c != 200 {
			t.Fatalf("a person's token is not good: %d", c)
		}

		d = quick(t, "[process]\nconfinement = \"off\"\n")
		d.put("victim", "", 0o644)
		next = must(t, d.call("delete_file", M{"path": "victim"}), "review")
		id = text(next, "approval", "id")
		_, row = d.http("GET", "/v1/approvals/"+id, d.reviewer(), nil)
		digest = text(row, "card", "shown_digest")
		r = d.approve(d.shell(try(binary), M{"timeout_ms": 20000}))
		out = text(r, "result", "stdout") + text(r, "result", "stderr")
		if n := strings.Count(out, "a program that this daemon started cannot review"); n < 4 || strings.Contains(out, "cli 0") || !d.has("victim") {
			t.Errorf("unconfined, refused %d times: %s", n, out)
		}
		if r := d.rowOf(next); text(r, "state") != "pending" {
			t.Errorf("got %v", r)
		}
		if r := d.approve(next); text(r, "status") != "done" || d.has("victim") {
			t.Errorf("a person's answer: %v", r)
		}
	})
}
