package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdpoint/internal/ports"
)

// delivery is one request that a target got.
type delivery struct {
	path, body string
	header     http.Header
}

func TestNotify(t *testing.T) {
	t.Parallel()
	got := make(chan delivery, 100)
	fails := 1
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- delivery{r.URL.Path, string(b), r.Header}
		if r.URL.Path == "/hook" && fails > 0 {
			fails--
			w.WriteHeader(503)
		}
	}))
	defer s.Close()
	root, state := dirs(t)
	base := filepath.Dir(state)
	const secret = "a secret of the webhook"
	write(t, filepath.Join(base, "secret"), secret+"\n")
	write(t, filepath.Join(base, "tell.sh"), "#!/bin/sh\nprintf '%s|%s|%s' \"$HOLDPOINT_EVENT\" \"$HOLDPOINT_TITLE\" \"$HOLDPOINT_LINK\" >> "+filepath.Join(base, "told")+"\n")
	os.Chmod(filepath.Join(base, "tell.sh"), 0o755)
	addr := ports.Addr(t)
	config := filepath.Join(base, "c.toml")
	write(t, config, fmt.Sprintf(`
[[notify]]
kind = "webhook"
url = "%[1]s/hook"
secret_file = "%[2]s/secret"
[[notify]]
kind = "ntfy"
url = "%[1]s/topic"
[[notify]]
kind = "slack"
url = "%[1]s/slack"
[[notify]]
kind = "command"
command = ["%[2]s/tell.sh"]
`, s.URL, base))
	d := startOn(t, root, state, nil, "--config", config, "--listen", addr)
	next := func(t *testing.T) delivery {
		t.Helper()
		select {
		case g := <-got:
			return g
		case <-time.After(time.Minute):
			t.Fatalf("nothing came\n%s", d.Log)
		}
		return delivery{}
	}
	write(t, filepath.Join(root, "secret-name-7.txt"), "content 4711\n")
	_, held := d.http("POST", "/v1/call", d.Agent, M{"op": "delete_file", "args": M{"path": "secret-name-7.txt"}, "intent": "intent 4712"})
	id, link := text(held, "approval", "id"), text(held, "approval", "review_url")
	t.Run("I28 (part), I89 (part) people are told the title and the link, and nothing of the call", func(t *testing.T) {
		first, second := next(t), next(t)
		if first.path != "/hook" || second.path != "/hook" || first.body != second.body || first.header.Get("Holdpoint-Delivery") != second.header.Get("Holdpoint-Delivery") {
			t.Fatalf("a webhook that answers 503 is tried again with the same delivery: got %v and %v", first, second)
		}
		var m M
		if err := json.Unmarshal([]byte(first.body), &m); err != nil || m["title"] != "Delete 1 file" || m["link"] != link || m["id"] != id || m["type"] != "approval.requested" {
			t.Errorf("got %s", first.body)
		}
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(first.header.Get("Holdpoint-Timestamp") + "." + first.body))
		if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); first.header.Get("Holdpoint-Signature") != want {
			t.Errorf("got signature %s, want %s", first.header.Get("Holdpoint-Signature"), want)
		}
		ntfy, slack := next(t), next(t)
		if ntfy.path != "/topic" || ntfy.header.Get("Click") != link || !strings.Contains(ntfy.body, "Delete 1 file") {
			t.Errorf("ntfy got %v", ntfy)
		}
		if slack.path != "/slack" || !strings.Contains(slack.body, "Delete 1 file") || !strings.Contains(slack.body, link) {
			t.Errorf("slack got %v", slack)
		}
		var told string
		for end := time.Now().Add(time.Minute); told == "" && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			b, _ := os.ReadFile(filepath.Join(base, "told"))
			told = string(b)
		}
		if told != "approval.requested|Delete 1 file|"+link {
			t.Errorf("the command got %q", told)
		}
		for _, g := range []delivery{first, ntfy, slack, {body: told}} {
			for _, no := range []string{"secret-name-7", "4711", "4712", secret} {
				if strings.Contains(g.body+fmt.Sprint(g.header), no) {
					t.Errorf("%s travels in %v", no, g)
				}
			}
		}
	})
	t.Run("I28 (part) a target that never answers loses no card", func(t *testing.T) {
		root, state := dirs(t)
		config := filepath.Join(filepath.Dir(state), "c.toml")
		write(t, config, "[[notify]]\nkind = \"webhook\"\nurl = \"http://"+ports.Addr(t)+"/\"\n")
		d := startOn(t, root, state, nil, "--config", config)
		write(t, filepath.Join(root, "f"), "x")
		must(t, d.approve(must(t, d.call("delete_file", M{"path": "f"}), "review")), "done")
	})
	t.Run("notify test sends to every target and says how it went", func(t *testing.T) {
		exit, out, errs := d.cli("notify", "test", "--config", config)
		if exit != 0 || strings.Count(out, "sent") != 4 {
			t.Errorf("exit %d, %s %s", exit, out, errs)
		}
		for range 3 {
			next(t)
		}
		write(t, config, "[[notify]]\nkind = \"slack\"\nurl = \"http://"+ports.Addr(t)+"/very-secret-path\"\n")
		exit, out, errs = d.cli("notify", "test", "--config", config, "--json")
		if exit != 1 || !strings.Contains(out, `"sent": false`) && !strings.Contains(out, `"sent":false`) || strings.Contains(out+errs, "very-secret") {
			t.Errorf("exit %d, %s %s", exit, out, errs)
		}
	})
	t.Run("U43 (part) a target in the clear on another machine is refused at the start", func(t *testing.T) {
		root, state := dirs(t)
		config := filepath.Join(filepath.Dir(state), "c.toml")
		for _, bad := range []string{"kind = \"webhook\"\nurl = \"http://example.org/x\"", "kind = \"mail\"\nurl = \"https://example.org/x\"", "kind = \"command\"", "kind = \"webhook\"\nurl = \"https://user:word@example.org/\""} {
			write(t, config, "[[notify]]\n"+bad+"\n")
			if exit, out := refuses(t, root, state, nil, "--config", config); exit != 6 || !strings.Contains(out, "notify 1") {
				t.Errorf("%s: exit %d, %s", bad, exit, out)
			}
		}
	})
}
