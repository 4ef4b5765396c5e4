package e2e

import (
	"encoding/base64"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"crypto/ed25519"
	"crypto/rand"

	"holdpoint/internal/ports"
	"holdpoint/internal/softkey"
	"holdpoint/op"
	"holdpoint/review"
)

// asJSON is what travels of a part of an answer.
func asJSON(v any) []byte { b, _ := json.Marshal(v); return b }

// asIs keeps JSON as it is inside a body.
func asIs(b []byte) json.RawMessage { return b }

// register puts a passkey of whoever holds a token on the roster, and gives the entry.
func (d *daemon) register(token string, k *softkey.Key) M {
	d.t.Helper()
	_, next := d.http("POST", "/v1/passkeys/begin", token, M{})
	if next["prove"] != nil {
		_, next = d.http("POST", "/v1/passkeys/begin", token, M{"proof": M{"assertion": asIs(k.Get(asJSON(next["prove"])))}})
	}
	if next["create"] == nil {
		d.t.Fatalf("no passkey is to be made: %v", next)
	}
	status, got := d.http("POST", "/v1/passkeys", token, M{"device": "soft", "credential": asIs(k.Create(asJSON(next["create"])))})
	if status != 200 {
		d.t.Fatalf("the passkey is not registered: %d %v", status, got)
	}
	return got
}

// says is one answer to a held call as it is sent, without a proof.
func (d *daemon) says(held M, word, note string) M {
	d.t.Helper()
	_, row := d.http("GET", "/v1/approvals/"+idOf(held), d.reviewer(), nil)
	return M{"answer": word, "note": note, "remember": false, "shown_digest": text(row, "card", "shown_digest")}
}

// touched gives the same answer with a proof made for it.
func (d *daemon) touched(token string, k *softkey.Key, held, body M) M {
	d.t.Helper()
	status, asked := d.http("POST", "/v1/approvals/"+idOf(held)+"/challenge", token, body)
	if status != 200 {
		d.t.Fatalf("no challenge: %d %v", status, asked)
	}
	out := M{"proof": M{"assertion": asIs(k.Get(asJSON(asked)))}}
	for f, v := range body {
		out[f] = v
	}
	return out
}

func (d *daemon) newToken(by, role, name string) string {
	d.t.Helper()
	_, got := d.http("POST", "/v1/tokens", by, M{"role": role, "name": name})
	if text(got, "token") == "" {
		d.t.Fatalf("no token: %v", got)
	}
	return text(got, "token")
}

func TestPasskeyAnswers(t *testing.T) {
	t.Parallel()
	addr := ports.Addr(t)
	_, port, _ := strings.Cut(addr, ":")
	d := start(t, "--listen", addr)
	session := d.reviewer()
	reviewer, operator := d.newToken(session, "reviewer", "bob"), d.newToken(session, "operator", "root-like")
	origin := "http://localhost:" + port
	key := softkey.New("localhost", origin)
	hold := func(t *testing.T, name string) M {
		t.Helper()
		write(t, filepath.Join(d.Root, name), "x\n")
		return must(t, d.call("delete_file", M{"path": name}), "review")
	}
	answer := func(token string, held, body M) (int, M) {
		return d.http("POST", "/v1/approvals/"+idOf(held)+"/answer", token, body)
	}
	t.Run("I61 (part) until somebody registers a passkey, none is asked for", func(t *testing.T) {
		held := hold(t, "before")
		if status, got := answer(session, held, d.says(held, "approve", "")); status != 200 || text(got, "state") != "executed" {
			t.Fatalf("%d %v", status, got)
		}
		if _, me := d.http("GET", "/v1/me", session, nil); me["needs_passkey"] != false || me["register"] != true || me["site"] != "localhost" {
			t.Errorf("me is %v", me)
		}
	})
	early := d.newToken(session, "operator", "early")
	entry := d.register(session, key)
	t.Run("I61 from then on every token and session on the machine cannot answer, on any surface, and is told where", func(t *testing.T) {
		held := hold(t, "kept")
		link := origin + "/#/approvals/" + idOf(held)
		for who, token := range map[string]string{"session": session, "reviewer": reviewer, "operator": operator} {
			for _, word := range []string{"approve", "reject"} {
				if status, got := answer(token, held, d.says(held, word, "")); status != 403 || code(got) != "passkey_needed" || !strings.Contains(text(got, "error", "hint"), link) {
					t.Errorf("%s %s: %d %v", who, word, status, got)
				}
			}
		}
		for _, word := range []string{"approve", "reject"} {
			exit, out, errs := d.cli("review", word, idOf(held))
			if exit != 4 || !strings.Contains(errs, "passkey_needed") || !strings.Contains(errs, link) {
				t.Errorf("the command line's %s: exit %d %s %s", word, exit, out, errs)
			}
		}
		if !d.has("kept") || d.state(idOf(held)) != "pending" {
			t.Error("something was answered")
		}
	})
	t.Run("I61 (part) no token makes itself a way round: no reviewer, token, pairing, passkey, rule, mode or profile", func(t *testing.T) {
		for what, r := range map[string]struct {
			method, path string
			body         any
		}{
			"token": {"POST", "/v1/tokens", M{"role": "reviewer", "name": "eve"}}, "agent's token": {"POST", "/v1/tokens", M{"role": "agent", "name": "eve"}},
			"pairing": {"POST", "/v1/pair", M{"name": "eve"}}, "key": {"POST", "/v1/reviewers", M{"name": "eve", "kind": "ed25519", "public": base64.StdEncoding.EncodeToString(make([]byte, 32))}},
			"revoking": {"DELETE", "/v1/reviewers/" + text(entry, "id"), nil}, "mode": {"PUT", "/v1/mode", M{"agent": "agent", "mode": "auto"}},
			"grant": {"PUT", "/v1/rules", M{"agent": "agent", "scope": "project", "max_tier": "T3", "for": "1h"}}, "profile": {"PUT", "/v1/profiles", M{"name": "wide", "mode": "auto"}},
			"agents": {"PUT", "/v1/profiles/wide/agents", M{"agent": "agent"}},
		} {
			if status, got := d.http(r.method, r.path, operator, r.body); status != 403 || code(got) != "forbidden" || !strings.Contains(text(got, "error", "message"), "passkeys") {
				t.Errorf("%s: %d %v", what, status, got)
			}
		}
		// The session was opened with the passphrase just now, but a further passkey of the
		// same person takes a touch of the one that is there.
		_, next := d.http("POST", "/v1/passkeys/begin", session, M{})
		if next["create"] != nil || next["prove"] == nil {
			t.Errorf("a second passkey: %v", next)
		}
		soft := softkey.New("localhost", origin)
		if status, got := d.http("POST", "/v1/passkeys/begin", session, M{"proof": M{"assertion": asIs(soft.Get(asJSON(next["prove"])))}}); status != 403 || code(got) != "proof_invalid" {
			t.Errorf("proved with one's own: %d %v", status, got)
		}
	})
	t.Run("I61 (part) a touch over the card answers it, is on record with the entry, and the card says so", func(t *testing.T) {
		held := hold(t, "go")
		status, got := answer(session, held, d.touched(session, key, held, d.says(held, "approve", "go on")))
		if status != 200 || text(got, "state") != "executed" || d.has("go") || text(got, "card", "answered_with") != "passkey" || text(got, "card", "answered_by") != "reviewer" {
			t.Fatalf("%d %v", status, got)
		}
		_, tail := d.http("GET", "/v1/audit?n=20", session, nil)
		found := false
		for _, r := range objects(tail["records"]) {
			found = found || r["kind"] == "answer" && r["approval_id"] == idOf(held) && r["reviewer_id"] == text(entry, "id") && r["outcome"] == "approved"
		}
		if !found {
			t.Errorf("the audit has no such answer: %v", tail)
		}
		_, log := d.http("GET", "/v1/operations?limit=1", session, nil)
		if o := objects(log["operations"])[0]; o["answered_by"] != "reviewer" {
			t.Errorf("the log says %v", o)
		}
	})
	t.Run("I61 (part) a touch is good for one card, one answer and one use", func(t *testing.T) {
		one, two := hold(t, "one"), hold(t, "two")
		body := d.touched(session, key, one, d.says(one, "reject", "no"))
		other := d.says(two, "reject", "no")
		other["proof"] = body["proof"]
		approve := d.touched(session, key, one, d.says(one, "reject", "no"))
		approve["answer"] = "approve"
		reworded := d.touched(session, key, one, d.says(one, "reject", "no"))
		reworded["note"] = "yes"
		remembered := d.touched(session, key, one, d.says(one, "approve", ""))
		remembered["remember"] = true
		for what, a := range map[string]struct{ held, body M }{"another card": {two, other}, "another answer": {one, approve}, "other words": {one, reworded}, "remembered": {one, remembered}} {
			if status, got := answer(session, a.held, a.body); status != 403 || code(got) != "proof_invalid" {
				t.Errorf("%s: %d %v", what, status, got)
			}
		}
		if status, got := answer(session, one, body); status != 403 {
			t.Errorf("the same touch after it failed elsewhere: %d %v", status, got)
		}
		if status, got := answer(reviewer, one, d.touched(session, key, one, d.says(one, "reject", "no"))); status != 403 || code(got) != "proof_invalid" {
			t.Errorf("sent by somebody else: %d %v", status, got)
		}
		if status, got := answer(session, one, d.touched(session, key, one, d.says(one, "reject", "no"))); status != 200 || text(got, "state") != "rejected" {
			t.Errorf("%d %v", status, got)
		}
		if d.state(idOf(two)) != "pending" || !d.has("one") {
			t.Error("something else was answered")
		}
	})
	t.Run("I61 (part) the counter outlives a restart: a copy of the passkey is refused, and on record", func(t *testing.T) {
		thief := key.Copy()
		held := hold(t, "copied")
		if status, got := answer(session, held, d.touched(session, key, held, d.says(held, "reject", ""))); status != 200 {
			t.Fatalf("%d %v", status, got)
		}
		d.restart()
		d.reviewerToken = ""
		session = d.reviewer()
		held = hold(t, "copied again")
		if status, got := answer(session, held, d.touched(session, thief, held, d.says(held, "approve", ""))); status != 403 || code(got) != "proof_invalid" {
			t.Errorf("%d %v", status, got)
		}
		_, tail := d.http("GET", "/v1/audit?n=3", session, nil)
		if !strings.Contains(string(asJSON(tail)), "passkey_copied") {
			t.Errorf("the audit: %v", tail)
		}
	})
	t.Run("I61 (part) with review-auth token the daemon does not start over people's passkeys", func(t *testing.T) {
		d.stop(9)
		defer d.run()
		if exit, out := refuses(t, d.Root, d.State, nil, "--review-auth", "token"); exit != 1 || !strings.Contains(out, "state_unsafe") || !strings.Contains(out, "passkeys") {
			t.Errorf("exit %d %s", exit, out)
		}
	})
	t.Run("recovery: the operator ends a passkey on the terminal with the passphrase, which is on record; then the person answers as before", func(t *testing.T) {
		exit, out, errs := d.cli("reviewer", "list")
		if exit != 0 || !strings.Contains(out, text(entry, "id")) || !strings.Contains(out, "passkey") || !strings.Contains(out, "soft") {
			t.Fatalf("exit %d %s %s", exit, out, errs)
		}
		d.env = []string{"HOLDPOINT_REVIEW_PASSPHRASE=", "HOLDPOINT_TOKEN=" + early}
		if exit, out, errs := d.cli("reviewer", "revoke", text(entry, "id")); exit != 4 || !strings.Contains(errs, "within the last five minutes") {
			t.Errorf("with a token alone: exit %d %s %s", exit, out, errs)
		}
		d.env = nil
		if exit, out, errs := d.cli("reviewer", "revoke", text(entry, "id")); exit != 0 || !strings.Contains(out, "Revoked") {
			t.Fatalf("exit %d %s %s", exit, out, errs)
		}
		_, out, _ = d.cli("reviewer", "list", "--json")
		if !strings.Contains(out, `"revoked_by":"reviewer"`) || strings.Contains(out, "credential") {
			t.Errorf("the list: %s", out)
		}
		d.reviewerToken = ""
		session = d.reviewer()
		held := hold(t, "after")
		if status, got := answer(session, held, d.says(held, "approve", "")); status != 200 || text(got, "state") != "executed" {
			t.Errorf("%d %v", status, got)
		}
		_, tail := d.http("GET", "/v1/audit?n=10", session, nil)
		if !strings.Contains(string(asJSON(tail)), "reviewer_revoked") {
			t.Errorf("the audit: %v", tail)
		}
	})
}

// TestRoster has people who sign by themselves.
func TestRoster(t *testing.T) {
	t.Parallel()
	d := start(t, "--config", twoReviewers(t), "--review-auth", "passkey")
	session := d.reviewer()
	public, private, _ := ed25519.GenerateKey(rand.Reader)
	token := d.newToken(session, "reviewer", "ada")
	second := d.newToken(session, "reviewer", "ada2")
	hold := func(t *testing.T, name string) M {
		t.Helper()
		write(t, filepath.Join(d.Root, name), "x\n")
		return must(t, d.call("delete_file", M{"path": name}), "review")
	}
	signed := func(key ed25519.PrivateKey, entry string, held, body M) M {
		s := review.Statement{Card: op.ID(idOf(held)), ShownDigest: text(body, "shown_digest"), Answer: text(body, "answer"), Note: text(body, "note")}
		body["proof"] = M{"reviewer": entry, "signature": ed25519.Sign(key, s.Digest())}
		return body
	}
	answer := func(token string, held, body M) (int, M) {
		return d.http("POST", "/v1/approvals/"+idOf(held)+"/answer", token, body)
	}
	held := hold(t, "first")
	t.Run("I61 (part) with review-auth passkey nobody answers without a key, the passphrase neither", func(t *testing.T) {
		for _, who := range []string{session, token} {
			if status, got := answer(who, held, d.says(held, "approve", "")); status != 403 || code(got) != "passkey_needed" {
				t.Errorf("%d %v", status, got)
			}
		}
	})
	var entry string
	t.Run("the operator enrolls a key by its file, and its owner's answer is signed over the card", func(t *testing.T) {
		pub := filepath.Join(filepath.Dir(d.State), "ada.pub")
		write(t, pub, base64.StdEncoding.EncodeToString(public)+"\n")
		exit, out, errs := d.cli("reviewer", "add", "--name", "ada", "--key", pub, "--device", "laptop", "--json")
		var got M
		if json.Unmarshal([]byte(out), &got); exit != 0 || text(got, "id") == "" {
			t.Fatalf("exit %d %s %s", exit, out, errs)
		}
		entry = text(got, "id")
		if status, got := answer(session, held, signed(private, entry, held, d.says(held, "approve", ""))); status != 403 || code(got) != "proof_invalid" {
			t.Errorf("ada's signature sent by somebody else: %d %v", status, got)
		}
		if status, got := answer(token, held, signed(private, entry, held, d.says(held, "approve", "fine"))); status != 200 || text(got, "state") != "executed" || text(got, "card", "answered_with") != "ed25519" {
			t.Errorf("%d %v", status, got)
		}
	})
	t.Run("a card that takes two counts people of the roster, not tokens", func(t *testing.T) {
		write(t, filepath.Join(d.Root, "a"), "x\n")
		write(t, filepath.Join(d.Root, "b"), "x\n")
		both := M{"operations": []M{item("delete_file", M{"path": "a"}), item("delete_file", M{"path": "b"})}}
		if got := d.call("batch_file_ops", both); code(got) != "no_reviewer" || !strings.Contains(text(got, "error", "message"), "roster") {
			t.Fatalf("one person on the roster, three tokens: %v", got)
		}
		bobKey, bobPrivate, _ := ed25519.GenerateKey(rand.Reader)
		_, bob := d.http("POST", "/v1/reviewers", session, M{"name": "bob", "kind": "ed25519", "public": base64.StdEncoding.EncodeToString(bobKey)})
		bobToken := d.newToken(session, "reviewer", "bob")
		held := must(t, d.call("batch_file_ops", both), "review")
		if status, got := answer(second, held, signed(private, entry, held, d.says(held, "approve", ""))); status != 403 {
			t.Errorf("a token of no person: %d %v", status, got)
		}
		if status, got := answer(token, held, signed(private, entry, held, d.says(held, "approve", ""))); status != 200 || text(got, "state") != "pending" {
			t.Fatalf("the first: %d %v", status, got)
		}
		if status, got := answer(token, held, signed(private, entry, held, d.says(held, "approve", "again"))); status != 409 {
			t.Errorf("the same person again: %d %v", status, got)
		}
		if status, got := answer(bobToken, held, signed(bobPrivate, text(bob, "id"), held, d.says(held, "approve", ""))); status != 200 || text(got, "state") != "executed" {
			t.Errorf("the second: %d %v", status, got)
		}
		_, log := d.http("GET", "/v1/operations?limit=1", session, nil)
		if o := objects(log["operations"])[0]; o["answered_by"] != "ada, bob" {
			t.Errorf("the log says %v", o)
		}
	})
	t.Run("an entry with an end counts until then, and revoking a name ends the person's tokens too", func(t *testing.T) {
		if status, got := d.http("POST", "/v1/reviewers", session, M{"name": "carol", "kind": "ed25519", "public": base64.StdEncoding.EncodeToString(public)}); status != 422 || code(got) != "exists" {
			t.Errorf("one key for two people: %d %v", status, got)
		}
		_, got := d.http("DELETE", "/v1/reviewers/ada", session, nil)
		if n := len(objects(got["revoked"])); n != 1 {
			t.Fatalf("got %v", got)
		}
		if status, _ := d.http("GET", "/v1/me", token, nil); status != 401 {
			t.Errorf("ada's token: %d", status)
		}
		held := hold(t, "last")
		if status, got := answer(second, held, signed(private, entry, held, d.says(held, "reject", ""))); status != 403 {
			t.Errorf("%d %v", status, got)
		}
	})
}

// twoReviewers is a configuration under which two files take two people.
func twoReviewers(t *testing.T) string {
	t.Helper()
	file := filepath.Join(shortDir(t), "c.toml")
	write(t, file, "[two_reviewers]\nfiles = 1\n")
	return file
}

// TestPasskeyBesideKeys has a person with a key that signs by itself, who wants a passkey on
// the machine's page as well.
func TestPasskeyBesideKeys(t *testing.T) {
	t.Parallel()
	addr := ports.Addr(t)
	_, port, _ := strings.Cut(addr, ":")
	d := start(t, "--listen", addr)
	session := d.reviewer()
	pair := func() string {
		_, got := d.http("POST", "/v1/pair", session, M{"name": "ada"})
		return text(got, "code")
	}
	claim := func(code string) (int, M) { return d.http("POST", "/v1/pair/claim", "", M{"code": code}) }
	// Somebody who holds an operator's token makes ready before ada has any key.
	early, open := d.newToken(session, "reviewer", "ada"), pair()
	public, private, _ := ed25519.GenerateKey(rand.Reader)
	if status, got := d.http("POST", "/v1/reviewers", session, M{"name": "ada", "kind": "ed25519", "public": base64.StdEncoding.EncodeToString(public)}); status != 200 {
		t.Fatalf("%d %v", status, got)
	}
	origin := "http://localhost:" + port
	t.Run("I61 (part) what was made before the key was enrolled registers no passkey in its owner's name", func(t *testing.T) {
		if status, got := d.http("POST", "/v1/passkeys/begin", early, M{}); status != 403 || code(got) != "forbidden" || !strings.Contains(text(got, "error", "hint"), "holdpoint pair --name ada") {
			t.Errorf("a token: %d %v", status, got)
		}
		if _, me := d.http("GET", "/v1/me", early, nil); me["register"] != false || !strings.Contains(text(me, "why"), "ada has keys") {
			t.Errorf("the page is told %v", me)
		}
		if status, got := claim(open); status != 401 {
			t.Errorf("a code: %d %v", status, got)
		}
	})
	t.Run("I61 (part) a device that the operator pairs since registers one, and answers by its touch; the key goes on to sign", func(t *testing.T) {
		status, got := claim(pair())
		if status != 200 {
			t.Fatalf("%d %v", status, got)
		}
		phone := text(got, "token")
		key := softkey.New("localhost", origin)
		if r := d.register(phone, key); r["name"] != "ada" || r["kind"] != "passkey" {
			t.Fatalf("registered %v", r)
		}
		write(t, filepath.Join(d.Root, "f"), "x\n")
		held := must(t, d.call("delete_file", M{"path": "f"}), "review")
		body := d.says(held, "approve", "")
		for who, token := range map[string]string{"the phone without a touch": phone, "the early token": early} {
			if status, got := d.http("POST", "/v1/approvals/"+idOf(held)+"/answer", token, body); status != 403 || code(got) != "passkey_needed" {
				t.Errorf("%s: %d %v", who, status, got)
			}
		}
		if status, got := d.http("POST", "/v1/approvals/"+idOf(held)+"/answer", phone, d.touched(phone, key, held, body)); status != 200 || text(got, "state") != "executed" {
			t.Errorf("the touch: %d %v", status, got)
		}
		write(t, filepath.Join(d.Root, "g"), "x\n")
		held = must(t, d.call("delete_file", M{"path": "g"}), "review")
		body = d.says(held, "approve", "")
		s := review.Statement{Card: op.ID(idOf(held)), ShownDigest: text(body, "shown_digest"), Answer: "approve"}
		body["proof"] = M{"signature": ed25519.Sign(private, s.Digest())}
		if status, got := d.http("POST", "/v1/approvals/"+idOf(held)+"/answer", phone, body); status != 200 || text(got, "state") != "executed" {
			t.Errorf("the key: %d %v", status, got)
		}
		t.Run("and a further passkey takes a touch of the one that is here", func(t *testing.T) {
			_, got := claim(pair())
			if _, next := d.http("POST", "/v1/passkeys/begin", text(got, "token"), M{}); next["create"] != nil || next["prove"] == nil {
				t.Errorf("got %v", next)
			}
		})
	})
}
