package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	natsbridge "holdpoint/bridge/nats"
)

// console runs the command as processes of their own, each with the same environment.
type console struct {
	t   testing.TB
	env []string
}

func (c console) start(args ...string) (*exec.Cmd, *loud) {
	c.t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append([]string{beMain + "=1", "GORACE=atexit_sleep_ms=0", "NO_COLOR=1", "PATH=" + os.Getenv("PATH")}, c.env...)
	out := &loud{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
	return cmd, out
}

func (c console) run(args ...string) (string, int) {
	c.t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append([]string{beMain + "=1", "GORACE=atexit_sleep_ms=0", "NO_COLOR=1", "PATH=" + os.Getenv("PATH")}, c.env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err != nil && cmd.ProcessState == nil {
		c.t.Fatal(err)
	}
	return out.String() + errs.String(), cmd.ProcessState.ExitCode()
}

// must runs a command that ends with 0.
func (c console) must(args ...string) string {
	c.t.Helper()
	out, code := c.run(args...)
	if code != 0 {
		c.t.Fatalf("%v: exit %d\n%s", args, code, out)
	}
	return out
}

type loud struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *loud) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *loud) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// find waits for words of a program and gives what its one group matched.
func (l *loud) find(t testing.TB, what string) string {
	t.Helper()
	var got []string
	awaitIn(t, 30*time.Second, func() bool {
		got = regexp.MustCompile(what).FindStringSubmatch(l.String())
		return got != nil
	}, what+" in\n"+l.String())
	return got[len(got)-1]
}

// TestFleetCommands goes the way of docs/fleet.md with the programs themselves: a hub, a
// machine, an agent over NATS, a reviewer with a key.
func TestFleetCommands(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	dir, err := os.MkdirTemp("", "hp") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := func(name string) string { return filepath.Join(dir, name) }
	if err := os.Mkdir(file("ws"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file("ws/old.o"), []byte("old\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	there := console{t, []string{"HOME=" + dir, "HOLDPOINT_STATE=" + file("state"), "HOLDPOINT_SOCKET=" + file("state/s"), "HOLDPOINT_REVIEW_PASSPHRASE=only for tests 1"}}
	desk := console{t, []string{"HOME=" + dir, "HOLDPOINT_STATE=" + file("hub"), "HOLDPOINT_HUB_PASSPHRASE=shows cards only"}}

	// The first command sets the passphrase, in process; the ids are known before NATS is.
	var status struct {
		Daemon string
		Roots  []struct{ Key string }
	}
	if err := json.Unmarshal([]byte(there.must("status", "--root", file("ws"), "--json")), &status); err != nil || len(status.Roots) != 1 || len(status.Daemon) != 32 {
		t.Fatal(status, err)
	}
	root := status.Roots[0].Key
	user := func(args ...string) string {
		t.Helper()
		var may natsbridge.Allow
		if err := json.Unmarshal([]byte(desk.must(append([]string{"hub", "permissions", "--json"}, args...)...)), &may); err != nil {
			t.Fatal(err)
		}
		return c.creds(fleetAccount, args[0], &may)
	}

	_, hub := desk.start("hub", "--nats", c.url(), "--nats-creds", user("hub"), "--listen", "127.0.0.1:0")
	at, key := hub.find(t, `page +(http://\S+)`), hub.find(t, `key +(hub:\S+)`)
	daemon, log := there.start("serve", "--root", file("ws"), "--nats", c.url(), "--nats-creds", user("daemon", "--root", root, "--daemon", status.Daemon), "--nats-hub-key", key)
	log.find(t, "(try) ")
	// Before anybody gives a passphrase, whose hashing takes more memory than what is measured.
	t.Run("S78 (part) NATS: floods without a token, endless lines and messages that never end cost the daemon little, and it listens nowhere", func(t *testing.T) {
		secret, err := os.ReadFile(file("state/tokens/agent"))
		if err != nil {
			t.Fatal(err)
		}
		one := console{t, []string{"HOME=" + dir, "HOLDPOINT_STATE=" + file("nothing"), "HOLDPOINT_NATS=" + c.url(), "HOLDPOINT_NATS_CREDS=" + c.creds(fleetAccount, "one", nil),
			"HOLDPOINT_NATS_ROOT=" + root, "HOLDPOINT_TOKEN=" + strings.TrimSpace(string(secret))}}
		floodsNATS(t, c, root, daemon.Process.Pid, func() {
			awaitIn(t, time.Minute, func() bool { _, code := one.run("call", "list_directory", "--json"); return code == 0 }, "others to be served meanwhile")
		})
	})
	public := strings.TrimSpace(desk.must("review", "keygen", file("ada.key")))
	there.must("reviewer", "add", "--name", "ada", "--key", public)
	var token struct{ Token string }
	if err := json.Unmarshal([]byte(there.must("token", "create", "--role", "agent", "--name", "builder", "--root", root, "--json")), &token); err != nil {
		t.Fatal(err)
	}
	agent := console{t, []string{"HOME=" + dir, "HOLDPOINT_STATE=" + file("nothing"), "HOLDPOINT_NATS=" + c.url(), "HOLDPOINT_NATS_CREDS=" + user("agent", "--root", root, "--inbox", "builder"),
		"HOLDPOINT_NATS_INBOX=builder", "HOLDPOINT_NATS_ROOT=" + root, "HOLDPOINT_TOKEN=" + token.Token}}
	var out string
	code := 1
	for end := time.Now().Add(20 * time.Second); code == 1 && time.Now().Before(end); { // until the daemon has its claim
		out, code = agent.run("call", "delete_file", "path=old.o", "--request-id", "nightly-17", "--json")
	}
	var held struct{ Approval struct{ ID string } }
	if err := json.Unmarshal([]byte(out), &held); code != 3 || err != nil {
		t.Fatalf("exit %d: %s", code, out)
	}
	id := held.Approval.ID

	t.Run("the hub shows the card, and answers only with a key that the machine knows", func(t *testing.T) {
		awaitIn(t, time.Minute, func() bool { return strings.Contains(desk.must("review", "list", "--hub", at), id) }, "the card at the hub")
		if show := desk.must("review", "show", id, "--hub", at); !strings.Contains(show, "old.o") || !strings.Contains(show, "Delete 1 file") {
			t.Error(show)
		}
		desk.must("review", "keygen", file("eve.key"))
		if out, code := desk.run("review", "approve", id, "--hub", at, "--key", file("eve.key")); code != 4 || !strings.Contains(out, "proof_invalid") {
			t.Errorf("exit %d: %s", code, out)
		}
		if err := os.Chmod(file("eve.key"), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, code := desk.run("review", "approve", id, "--hub", at, "--key", file("eve.key")); code == 0 || !strings.Contains(out, "state_unsafe") {
			t.Errorf("exit %d: %s", code, out)
		}
		if _, err := os.Stat(file("ws/old.o")); err != nil {
			t.Error(err)
		}
		if out := desk.must("review", "approve", id, "--hub", at, "--key", file("ada.key")); !strings.Contains(out, "executed") {
			t.Error(out)
		}
		if _, err := os.Stat(file("ws/old.o")); err == nil {
			t.Error("the file is there")
		}
		if out := agent.must("call", "delete_file", "path=old.o", "--request-id", "nightly-17", "--json"); !strings.Contains(out, `"effects_executed":true`) && !strings.Contains(out, `"effects_executed": true`) {
			t.Error(out)
		}
		if out, code := agent.run("review", "approve", id); code == 0 {
			t.Errorf("an agent over NATS answered: %s", out)
		}
	})

	t.Run("a hub serves nothing that belongs to a machine, and shows nothing to whoever is not logged in", func(t *testing.T) {
		for path, want := range map[string]int{"/v1/approvals": 401, "/v1/status": 401, "/v1/tokens": 422, "/v1/reviewers": 422, "/mcp": 422, "/healthz": 200, "/": 200} {
			r, err := http.Get(at + path)
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			if r.StatusCode != want {
				t.Errorf("%s: %d, wanted %d", path, r.StatusCode, want)
			}
		}
	})

	t.Run("status and the metrics tell of the connection, by the names that the alert rules use", func(t *testing.T) {
		var s struct{ NATS natsbridge.State }
		cards := there.must("review", "list", "--json", "--state", "all")
		if !strings.Contains(cards, id) {
			t.Error(cards)
		}
		tr := socketClient(file("state/s"))
		defer tr.close()
		var err error
		if tr.token, err = login(t.Context(), tr, "only for tests 1"); err != nil {
			t.Fatal(err)
		}
		raw, err := tr.get(t.Context(), "/v1/status", &s)
		if err != nil || !s.NATS.Connected || len(s.NATS.Serves) != 1 {
			t.Errorf("%s %v", raw, err)
		}
		metrics, err := tr.send(t.Context(), "GET", "/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		var rules struct {
			Groups []struct {
				Rules []struct{ Alert, Expr string }
			}
		}
		b, err := os.ReadFile("../../docs/fleet/alerts.yml")
		if err == nil {
			err = yaml.Unmarshal(b, &rules)
		}
		if err != nil || len(rules.Groups) != 1 || len(rules.Groups[0].Rules) < 5 {
			t.Fatal(rules, err)
		}
		for _, r := range rules.Groups[0].Rules {
			names := regexp.MustCompile(`holdpoint_[a-z_]+`).FindAllString(r.Expr, -1)
			for _, name := range names {
				if !strings.Contains(string(metrics.body), "\n"+name+" ") {
					t.Errorf("%s asks for %s, which is no metric", r.Alert, name)
				}
			}
			if r.Alert == "" || len(names) == 0 {
				t.Errorf("%+v", r)
			}
		}
		var play []struct {
			Hosts string
			Tasks []map[string]any
		}
		if b, err = os.ReadFile("../../docs/fleet/holdpoint.yml"); err == nil {
			err = yaml.Unmarshal(b, &play)
		}
		if err != nil || len(play) != 1 || len(play[0].Tasks) < 5 {
			t.Error(play, err)
		}
	})
	t.Logf("fleet: one daemon as a process of its own: %.1f MiB resident", float64(residentOf(fmt.Sprint(daemon.Process.Pid)))/(1<<20))
}
