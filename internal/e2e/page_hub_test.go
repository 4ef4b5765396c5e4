package e2e

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
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	natsd "github.com/nats-io/nats-server/v2/server"
)

const hubPassphrase = "shows cards only"

// startNATS runs one server of NATS in this process, on loopback.
func startNATS(t testing.TB) string {
	t.Helper()
	s, err := natsd.NewServer(&natsd.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true, JetStream: true, StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("NATS does not start")
	}
	return s.ClientURL()
}

// startHub runs a hub, and gives the port of its page and the key for machines.
func startHub(t testing.TB, nats string) (port, key string) {
	t.Helper()
	said := &logBuffer{}
	cmd := exec.Command(binary, "hub", "--nats", nats, "--listen", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "HOLDPOINT_STATE="+filepath.Join(t.TempDir(), "hub"), "HOLDPOINT_HUB_PASSPHRASE="+hubPassphrase, "GORACE=halt_on_error=1")
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Signal(syscall.SIGTERM); cmd.Wait() })
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		at, k := regexp.MustCompile(`page +http://[^:]+:(\d+)`).FindStringSubmatch(said.String()), regexp.MustCompile(`key +(hub:\S+)`).FindStringSubmatch(said.String())
		if at != nil && k != nil {
			return at[1], k[1]
		}
		if time.Now().After(end) {
			t.Fatalf("the hub does not start:\n%s", said)
		}
	}
}

// TestPageHub is a phone at the page of a hub: it shows the cards of a machine, and answers
// with a passkey that the machine checks.
func TestPageHub(t *testing.T) {
	t.Parallel()
	browser(t)
	nats := startNATS(t)
	port, key := startHub(t, nats)
	root, state := dirs(t)
	d := startOn(t, root, state, nil, "--nats", nats, "--nats-hub-key", key)
	b := openBrowser(t, "localhost:"+port)
	b.size(390, 844)
	b.authenticator()
	hold := func(name string) string {
		write(t, filepath.Join(d.Root, name), "x\n")
		return idOf(must(t, d.call("delete_file", M{"path": name}), "review"))
	}
	first, second := hold("first"), hold("second")
	b.do("open the page", chromedp.Navigate("about:blank"), chromedp.Navigate(b.at+"/"))
	b.waits("it asks for the hub's passphrase, and says what that is good for", `document.querySelector('label[for=passphrase]').textContent === 'Passphrase of the hub' && document.getElementById('login-text').textContent.includes('answers nothing')`)
	b.fill("#passphrase", hubPassphrase+"\r")
	b.visible("#live.on")
	b.lists(2)
	press := func(id, button string) {
		b.to("#/approvals/" + id)
		b.shows("delete")
		b.click(button)
		if button == "#approve" {
			b.click("#confirm")
		}
	}
	var made string
	t.Run("a passkey made on the hub's page answers nothing before the machine knows it", func(t *testing.T) {
		b.click("#who")
		b.click("#register")
		b.waits("its text is shown", `document.getElementById('made').value.startsWith('passkey:')`)
		made = b.get(`document.getElementById('made').value`)
		b.click("#mine-close")
		press(first, "#approve")
		b.waits("the machine refuses", `document.querySelector('form.answer .error').textContent.includes('proof_invalid')`)
		if d.state(first) != "pending" || !d.has("first") {
			t.Errorf("it is %s", d.state(first))
		}
	})
	t.Run("enrolled by the operator on the machine, a touch on the hub's page runs the call there", func(t *testing.T) {
		if exit, _, errs := d.cli("reviewer", "add", "--name", "ada", "--passkey", made, "--device", "phone"); exit != 0 {
			t.Fatal(errs)
		}
		b.click("#confirm")
		b.waits("it is done", `document.getElementById('detail').innerText.includes('This card is done.')`)
		if d.has("first") {
			t.Error("it did not run")
		}
		_, row := d.http("GET", "/v1/approvals/"+first, d.reviewer(), nil)
		if card := object(row["card"]); card["answered_by"] != "ada" || card["answered_with"] != "passkey" {
			t.Errorf("the machine says %v", card)
		}
	})
	t.Run("what is touched for is one answer with its words: a hub that turns it round or takes it for another card gets nothing", func(t *testing.T) {
		// The page signs as ever, and what it sends is kept back from the machine and changed.
		b.run(`window.kept = []; window.real = window.fetch; window.fetch = (at, o) => { if (String(at).endsWith('/answer')) { window.kept.push(o.body); return Promise.reject(new Error('kept back')); } return window.real(at, o); };`)
		b.to("#/approvals/" + second)
		b.shows("delete file second")
		b.run(`document.getElementById('words').value = 'not this one: ünïcode'`) // typed words would race with the list's events
		b.click("#reject")
		b.waits("it was kept back", `window.kept.length === 1`)
		b.run(`window.fetch = window.real`)
		var sent M
		if err := json.Unmarshal([]byte(b.get(`window.kept[0]`)), &sent); err != nil {
			t.Fatal(err)
		}
		token := hubToken(t, port)
		third := hold("third")
		awaitHub(t, port, token, third)
		for what, change := range map[string]func(M) string{
			"turned round":      func(m M) string { m["answer"] = "approve"; return second },
			"other words":       func(m M) string { m["note"] = "yes, all"; return second },
			"without its words": func(m M) string { delete(m, "note"); return second },
			"to be remembered":  func(m M) string { m["remember"] = true; return second },
			"for another card":  func(m M) string { return third },
			"another card's digest": func(m M) string {
				_, row := d.http("GET", "/v1/approvals/"+third, d.reviewer(), nil)
				m["shown_digest"] = object(row["card"])["shown_digest"]
				return third
			},
		} {
			other := M{}
			for k, v := range sent {
				other[k] = v
			}
			id := change(other)
			if status, got := askHub(t, port, token, "POST", "/v1/approvals/"+id+"/answer", other); status != 403 || code(got) != "proof_invalid" {
				t.Errorf("%s: got %d %v", what, status, got)
			}
		}
		if d.state(second) != "pending" || d.state(third) != "pending" || !d.has("second") || !d.has("third") {
			t.Fatal("something was answered")
		}
		if status, got := askHub(t, port, token, "POST", "/v1/approvals/"+second+"/answer", sent); status != 200 || got["state"] != "rejected" {
			t.Errorf("as it was signed: got %d %v", status, got)
		}
		if status, got := askHub(t, port, token, "POST", "/v1/approvals/"+second+"/answer", sent); status != 409 || code(got) != "already_answered" {
			t.Errorf("the same once more: got %d %v", status, got)
		}
		_, row := d.http("GET", "/v1/approvals/"+second, d.reviewer(), nil)
		if row["note"] != "not this one: ünïcode" {
			t.Errorf("the words are %v", row["note"])
		}
		t.Run("and where the operator ended the entry, nothing any more", func(t *testing.T) {
			if exit, _, errs := d.cli("reviewer", "revoke", "ada"); exit != 0 {
				t.Fatal(errs)
			}
			press(third, "#approve")
			b.waits("the machine refuses", `document.querySelector('form.answer .error')?.textContent.includes('proof_invalid')`)
			if d.state(third) != "pending" || !d.has("third") {
				t.Errorf("it is %s", d.state(third))
			}
		})
	})
}

func hubToken(t testing.TB, port string) string {
	t.Helper()
	status, got := askHub(t, port, "", "POST", "/v1/login", M{"passphrase": hubPassphrase})
	if status != 200 {
		t.Fatal(status, got)
	}
	return text(got, "token")
}

func askHub(t testing.TB, port, token, method, path string, body any) (int, M) {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, _ := http.NewRequest(method, "http://localhost:"+port+path, bytes.NewReader(b))
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	got, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	out := M{}
	json.NewDecoder(got.Body).Decode(&out)
	return got.StatusCode, out
}

// awaitHub waits until the hub shows a card.
func awaitHub(t testing.TB, port, token, id string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		status, got := askHub(t, port, token, "GET", "/v1/approvals/"+id, nil)
		if status == 200 && strings.Contains(fmt.Sprint(got), "third") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the hub does not show it: %d %v", status, got)
		}
	}
}
