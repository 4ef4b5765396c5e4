package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestRoles(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	in := func(p string) string { return filepath.Join(d.Root, p) }
	write(t, in("f"), "x\n")
	tokens := map[string]string{"agent": d.token(M{"name": "other", "role": "agent"}), "observer": d.token(M{"name": "eyes", "role": "observer"}), "reviewer": d.token(M{"name": "person", "role": "reviewer"}), "operator": d.token(M{"name": "boss", "role": "operator"})}
	held := must(t, d.call("delete_file", M{"path": "f"}), "review")
	id := idOf(held)
	done := must(t, d.call("write_file", M{"path": "mine", "content": "x"}), "done")
	before := digest(t, d.Root)
	routes := []struct {
		route string
		body  any
		want  map[string]int // by role; what is absent is 403
	}{
		{"POST /v1/call", M{"op": "view_file", "args": M{"path": "f"}}, map[string]int{"agent": 200}},
		{"POST /v1/preflight", M{"op": "view_file", "args": M{"path": "f"}}, map[string]int{"agent": 200}},
		{"GET /v1/approvals/" + id, nil, map[string]int{"agent": 404, "observer": 200, "reviewer": 200, "operator": 200}},
		{"GET /v1/approvals/ap_unknown", nil, map[string]int{"agent": 404, "observer": 404, "reviewer": 404, "operator": 404}},
		{"POST /v1/approvals/" + id + "/answer", M{"answer": "approve", "shown_digest": "blake3:0"}, map[string]int{"reviewer": 409, "operator": 409}},
		{"POST /v1/approvals/" + id + "/cancel", M{}, map[string]int{"agent": 404}},
		{"GET /v1/operations", nil, map[string]int{"agent": 200, "observer": 200, "reviewer": 200, "operator": 200}},
		{"GET /v1/operations/" + text(done, "operation_id"), nil, map[string]int{"agent": 404, "observer": 200, "reviewer": 200, "operator": 200}},
		{"GET /v1/status", nil, map[string]int{"agent": 200, "observer": 200, "reviewer": 200, "operator": 200}},
		{"GET /v1/table", nil, map[string]int{"agent": 200, "observer": 200, "reviewer": 200, "operator": 200}},
		{"POST /v1/undo", M{"operation_id": "op_unknown"}, map[string]int{"agent": 404, "reviewer": 404, "operator": 404}},
		{"GET /v1/tokens", nil, map[string]int{"operator": 200}},
		{"POST /v1/tokens", M{"name": "x y", "role": "agent"}, map[string]int{"operator": 400}},
		{"DELETE /v1/tokens/tk_unknown", nil, map[string]int{"operator": 404}},
		{"POST /v1/roots", M{"dir": "/no/such/place"}, map[string]int{"operator": 404}},
		{"DELETE /v1/roots/unknown", nil, map[string]int{"operator": 404}},
		{"GET /v1/audit", nil, map[string]int{"observer": 200, "reviewer": 200, "operator": 200}},
		{"GET /v1/audit/head", nil, map[string]int{"observer": 200, "reviewer": 200, "operator": 200}},
		{"POST /v1/audit/verify", M{}, map[string]int{"observer": 200, "reviewer": 200, "operator": 200}},
	}
	t.Run("I59, U48 each role reaches what is its own, and no other", func(t *testing.T) {
		for role, token := range tokens {
			for _, r := range routes {
				method, path, _ := strings.Cut(r.route, " ")
				want := r.want[role]
				if want == 0 {
					want = 403
				}
				if r.route == "POST /v1/approvals/"+id+"/cancel" && role != "agent" && role != "observer" {
					continue // it would end the row that others are tried on
				}
				status, out := d.http(method, path, token, r.body)
				if status != want || want == 403 && code(out) != "forbidden" {
					t.Errorf("%s as %s: got %d %v, want %d", r.route, role, status, out["error"], want)
				}
			}
		}
		if d.row(id)["state"] != "pending" || digest(t, d.Root) != before {
			t.Fatal("something was answered or done")
		}
	})
	t.Run("S57, I42, U17, U50 an agent that tries to answer is refused, and is on record with the row", func(t *testing.T) {
		for _, c := range []struct{ who, token string }{{"agent", d.Agent}, {"other", tokens["agent"]}, {"eyes", tokens["observer"]}} {
			status, out := d.http("POST", "/v1/approvals/"+id+"/answer", c.token, M{"answer": "approve", "shown_digest": text(d.row(id), "card", "shown_digest"), "scopes": []string{"admin"}})
			if status != 403 || code(out) != "forbidden" || d.row(id)["state"] != "pending" {
				t.Errorf("%s: got %d %v", c.who, status, out)
			}
			if rec := d.last(); rec["kind"] != "answer" || rec["agent"] != c.who || rec["approval_id"] != id || rec["outcome"] != "forbidden" {
				t.Errorf("%s: audit %v", c.who, rec)
			}
		}
	})
	t.Run("U16 nothing an agent can send changes a file past the gate", func(t *testing.T) {
		n := len(d.operations())
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH"} {
			for _, path := range []string{"/v1/approvals", "/v1/approvals/" + id, "/v1/approvals/" + id + "/answer", "/v1/approvals/" + id + "/approve", "/v1/approvals/" + id + "/execute", "/v1/rules", "/v1/mode", "/v1/profiles", "/v1/tokens",
				"/v1/tokens/tk_x", "/v1/roots", "/v1/audit", "/v1/clean", "/v1/status", "/v1/events/x", "/v1/login", "/v1/shutdown", "/v1/reload", "/v1/policy", "/", "/v1/table", "/v1/protect"} {
				for _, body := range []any{M{}, M{"answer": "approve", "id": id, "approval_id": id, "shown_digest": text(held, "approval", "identity")}, M{"op": "delete_file", "args": M{"path": "f"}, "approved": true}, M{"passphrase": "guess"}} {
					if path == "/v1/login" && method == "POST" {
						continue // a wrong guess is below
					}
					if method == "GET" && path == "/v1/events/x" {
						continue
					}
					status, out, err := d.tryHTTP(method, path, d.Agent, body)
					if err != nil {
						t.Fatalf("%s %s: %v", method, path, err)
					}
					if status == 202 || out["effects_executed"] == true {
						t.Errorf("%s %s %v: got %d %v", method, path, body, status, out)
					}
				}
			}
		}
		if d.row(id)["state"] != "pending" || digest(t, d.Root) != before || len(d.operations()) != n {
			t.Fatal("something was answered or done")
		}
	})
	t.Run("I104, U41, U42, S75 another agent's row, operation and undo look like none", func(t *testing.T) {
		other := tokens["agent"]
		for _, c := range []struct {
			method, mine, none string
			body               func(id string) any
		}{
			{"GET", "/v1/approvals/" + id, "/v1/approvals/ap_aaaaaaaaaaaaaaaaaaaaaaaaaa", nil},
			{"GET", "/v1/approvals/" + id + "?wait=1ms", "/v1/approvals/ap_a?wait=1ms", nil},
			{"POST", "/v1/approvals/" + id + "/cancel", "/v1/approvals/ap_a/cancel", func(string) any { return M{} }},
			{"GET", "/v1/operations/" + text(done, "operation_id"), "/v1/operations/op_a", nil},
		} {
			var body any
			if c.body != nil {
				body = c.body("")
			}
			s1, a := d.http(c.method, c.mine, other, body)
			s2, b := d.http(c.method, c.none, other, body)
			if s1 != 404 || s2 != 404 || !reflect.DeepEqual(a, b) {
				t.Errorf("%s: got %d %v and %d %v", c.mine, s1, a, s2, b)
			}
		}
		s1, a := d.http("POST", "/v1/undo", other, M{"operation_id": done["operation_id"]})
		s2, b := d.http("POST", "/v1/undo", other, M{"operation_id": "op_a"})
		s3, c := d.http("POST", "/v1/undo", other, M{"credential": done["undo_credential"]})
		if s1 != 404 || s2 != 404 || s3 != 404 || code(a) != "undo_unknown" || !reflect.DeepEqual(a, b) || !reflect.DeepEqual(b, c) {
			t.Errorf("undo: got %d %v, %d %v, %d %v", s1, a, s2, b, s3, c)
		}
		if d.row(id)["state"] != "pending" || digest(t, d.Root) != before {
			t.Fatal("something was done")
		}
	})
	t.Run("I60, U3, U53 a reviewer answers with nothing but the id, from a new connection, and is named", func(t *testing.T) {
		shown := text(d.row(id), "card", "shown_digest")
		status, out := d.http("POST", "/v1/approvals/"+id+"/answer", tokens["reviewer"], M{"answer": "approve", "shown_digest": shown})
		if status != 200 || out["state"] != "executed" || text(d.row(id), "card", "answered_by") != "person" {
			t.Fatalf("got %d %v", status, out)
		}
		if _, err := os.Lstat(in("f")); !os.IsNotExist(err) {
			t.Error(err)
		}
	})
}

func TestTokenLife(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	write(t, filepath.Join(d.Root, "f"), "x\n")
	look := M{"op": "view_file", "args": M{"path": "f"}}
	t.Run("I112, S81 (part) a secret is shown once, kept as a hash, long and easy to search for", func(t *testing.T) {
		_, made := d.http("POST", "/v1/tokens", d.reviewer(), M{"name": "n1", "role": "agent", "workflow": "w1"})
		secret := text(made, "token")
		if !strings.HasPrefix(secret, "hp_") || len(secret) < 3+43 || text(made, "id") == "" || made["role"] != "agent" {
			t.Fatalf("got %v", made)
		}
		_, list := d.http("GET", "/v1/tokens", d.reviewer(), nil)
		if s := fmt.Sprint(list); strings.Contains(s, secret) || !strings.Contains(s, "n1") {
			t.Errorf("the roster: %v", list)
		}
		d.send(secret, look)
		filepath.Walk(d.State, func(p string, info os.FileInfo, err error) error {
			if err == nil && info.Mode().IsRegular() {
				if b, _ := os.ReadFile(p); bytes.Contains(b, []byte(secret)) {
					t.Errorf("the secret lies in %s", p)
				}
			}
			return nil
		})
		if strings.Contains(d.Log.String(), secret) {
			t.Error("the secret is in the log")
		}
	})
	t.Run("I112 (part) a token ends by revoking and by time, with one refusal for all", func(t *testing.T) {
		_, made := d.http("POST", "/v1/tokens", d.reviewer(), M{"name": "n2", "role": "agent"})
		secret := text(made, "token")
		if status, _ := d.send(secret, look); status != 200 {
			t.Fatalf("before: %d", status)
		}
		if status, _ := d.http("DELETE", "/v1/tokens/"+text(made, "id"), d.reviewer(), nil); status != 200 {
			t.Fatalf("revoke: %d", status)
		}
		brief := d.token(M{"name": "n3", "role": "agent", "expires": "300ms"})
		time.Sleep(400 * time.Millisecond)
		_, never := d.send("hp_never", look)
		for _, s := range []string{secret, brief} {
			if status, out := d.send(s, look); status != 401 || !reflect.DeepEqual(out, never) {
				t.Errorf("got %d %v, want %v", status, out, never)
			}
		}
	})
	t.Run("a token in query or body is none", func(t *testing.T) {
		for path, body := range map[string]any{"/v1/call?token=" + d.Agent: look, "/v1/call?access_token=" + d.Agent: look, "/v1/call": merge(look, M{"token": d.Agent})} {
			if status, _ := d.http("POST", path, "", body); status != 401 {
				t.Errorf("%s: got %d", path, status)
			}
		}
	})
	t.Run("what a token may be made of is checked", func(t *testing.T) {
		for _, spec := range []M{{"name": "", "role": "agent"}, {"name": "a b", "role": "agent"}, {"name": "x", "role": "root"}, {"name": "x"}, {"name": "x", "role": "agent", "profile": "nope"}, {"name": "x", "role": "agent", "root": "nope"},
			{"name": "x", "role": "agent", "expires": "soon"}, {"name": "x", "role": "agent", "workflow": "a/b"}, {"name": "x", "role": "agent", "secret": "mine"}} {
			if status, out := d.http("POST", "/v1/tokens", d.reviewer(), spec); status != 400 && status != 404 || out["token"] != nil {
				t.Errorf("%v: got %d %v", spec, status, out)
			}
		}
	})
	t.Run("a wrong passphrase is refused, slowly, and opens nothing", func(t *testing.T) {
		start := time.Now()
		status, out := d.http("POST", "/v1/login", "", M{"passphrase": "wrong wrong wrong"})
		if status != 401 || out["token"] != nil || time.Since(start) < time.Second {
			t.Errorf("got %d %v after %v", status, out, time.Since(start))
		}
	})
	t.Run("S69, U49 (part) an agent's token that is wrong in any way gets the same words", func(t *testing.T) {
		_, want := d.send("hp_"+strings.Repeat("A", 43), look)
		for _, s := range []string{"x", d.Agent + "x", d.Agent[:len(d.Agent)-1], strings.ToUpper(d.Agent), "hps_" + d.Agent[3:]} {
			if status, out := d.send(s, look); status != 401 || !reflect.DeepEqual(out, want) {
				t.Errorf("got %d %v", status, out)
			}
		}
	})
}

func TestClearance(t *testing.T) {
	t.Parallel()
	d := quick(t, "[floors]\ndelete_file = 4\nmove_file = 2\nedit_file = 3\n")
	write(t, filepath.Join(d.Root, "f"), "x\n")
	before := digest(t, d.Root)
	owner := func(n int) string {
		return d.token(M{"name": fmt.Sprintf("owner%d", n), "role": "agent", "clearance": n})
	}
	args := map[string]M{"delete_file": {"path": "f"}, "move_file": {"source": "f", "destination": "g"}, "edit_file": {"path": "f", "old_string": "x", "new_string": "y"}}
	t.Run("U24, U21, U22 a token has its owner's clearance less one, at least 1; a floor that is reached asks, one that is not refuses", func(t *testing.T) {
		for _, c := range []struct {
			owner  int
			op     string
			refuse bool
		}{{5, "delete_file", false}, {4, "delete_file", true}, {5, "move_file", false}, {3, "move_file", false}, {2, "move_file", true}, {1, "move_file", true}, {4, "edit_file", false}, {3, "edit_file", true}} {
			token := owner(c.owner)
			_, look := d.http("POST", "/v1/preflight", token, M{"op": c.op, "args": args[c.op]})
			want := map[bool]string{true: "refuse", false: "review"}[c.refuse]
			if c.op == "edit_file" && !c.refuse {
				want = "auto"
			}
			if text(look, "decision", "verdict") != want {
				t.Errorf("owner %d, %s: got %v, want %s", c.owner, c.op, look["decision"], want)
			}
		}
	})
	t.Run("U18, U26, U27 below the floor: a plain refusal with a way on, no row, nothing done, on record", func(t *testing.T) {
		token := owner(2)
		for o, a := range args {
			status, r := d.send(token, M{"op": o, "args": a})
			fails(t, status, r, 403, "clearance_too_low")
			if r["status"] != "refused" || !strings.Contains(text(r, "error", "hint"), "person") || text(r, "error", "retry") != "never" {
				t.Errorf("%s: got %v", o, r)
			}
			if rec := d.last(); rec["decision"] != "refuse" || rec["reason"] != "clearance_too_low" || rec["agent"] != "owner2" {
				t.Errorf("audit: %v", rec)
			}
		}
		if len(d.cards("")) != 0 || digest(t, d.Root) != before {
			t.Fatal("something was queued or done")
		}
	})
	t.Run("U24 (part) a clearance in the call is no clearance", func(t *testing.T) {
		for _, req := range []M{{"op": "delete_file", "args": M{"path": "f"}, "clearance": 9}, {"op": "delete_file", "args": M{"path": "f", "clearance": 9}}} {
			status, r := d.send(owner(1), req)
			fails(t, status, r, 400, "bad_request")
		}
	})
	t.Run("U20 reads and rehearsals have no floor", func(t *testing.T) {
		token := owner(1)
		for _, req := range []M{{"op": "view_file", "args": M{"path": "f"}}, {"op": "delete_file", "args": M{"path": "f"}, "dry_run": true}} {
			_, r := d.send(token, req)
			must(t, r, "done")
		}
	})
	t.Run("U19, U45, U23 a fresh install without any policy asks for what destroys and refuses what it does not know", func(t *testing.T) {
		d := quick(t, "")
		write(t, filepath.Join(d.Root, "f"), "x\n")
		must(t, d.call("delete_file", M{"path": "f"}), "review")
		status, r := d.call2("format_disk", M{})
		fails(t, status, r, 403, "unknown_operation")
	})
}

func (d *daemon) call2(op string, args M) (int, M) {
	d.t.Helper()
	return d.send(d.Agent, M{"op": op, "args": args})
}

func TestBoundTokens(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	second := filepath.Join(filepath.Dir(root), "second")
	write(t, filepath.Join(root, "f"), "first\n")
	write(t, filepath.Join(second, "f"), "second\n")
	d := quickOn(t, root, state, "", nil, "--root", "two="+second)
	bound := d.token(M{"name": "bound", "role": "agent", "root": "two"})
	watcher := d.token(M{"name": "watcher", "role": "observer", "root": "two"})
	t.Run("U41 a token of one root needs not name it, and finds no other", func(t *testing.T) {
		_, r := d.send(bound, M{"op": "view_file", "args": M{"path": "f"}})
		if text(must(t, r, "done"), "result", "content") != "second\n" {
			t.Errorf("got %v", r["result"])
		}
		_, status := d.http("GET", "/v1/status", bound, nil)
		if roots := objects(status["roots"]); len(roots) != 1 || strings.Contains(fmt.Sprint(status), root) {
			t.Errorf("status: %v", status)
		}
		_, all := d.http("GET", "/v1/status", d.Agent, nil)
		key := text(objects(all["roots"])[0], "key")
		for _, name := range []string{"ws", key} {
			s1, a := d.send(bound, M{"op": "view_file", "args": M{"path": "f"}, "root": name})
			s2, b := d.send(bound, M{"op": "view_file", "args": M{"path": "f"}, "root": "nothing"})
			if s1 != 404 || s2 != 404 || !reflect.DeepEqual(a, b) {
				t.Errorf("%s: got %d %v and %d %v", name, s1, a, s2, b)
			}
		}
	})
	t.Run("U41, U42 (part) an observer of one root sees no card, operation or event of another", func(t *testing.T) {
		_, held := d.send(d.Agent, M{"op": "delete_file", "args": M{"path": "f"}, "root": "ws"})
		must(t, held, "review")
		_, done := d.send(d.Agent, M{"op": "write_file", "args": M{"path": "g", "content": "x"}, "root": "ws"})
		must(t, done, "done")
		if _, list := d.http("GET", "/v1/approvals?state=pending", watcher, nil); len(objects(list["approvals"])) != 0 {
			t.Errorf("cards: %v", list)
		}
		if status, _ := d.http("GET", "/v1/approvals/"+idOf(held), watcher, nil); status != 404 {
			t.Errorf("row: %d", status)
		}
		if _, list := d.http("GET", "/v1/operations", watcher, nil); len(objects(list["operations"])) != 0 {
			t.Errorf("operations: %v", list)
		}
		if status, _ := d.http("GET", "/v1/operations/"+text(done, "operation_id"), watcher, nil); status != 404 {
			t.Errorf("operation: %d", status)
		}
		if heard := d.events(t, watcher, 0); len(heard) != 0 {
			t.Errorf("events: %v", heard)
		}
	})
	t.Run("U41 (part) a reviewer of one root answers for no other", func(t *testing.T) {
		reviewer := d.token(M{"name": "half", "role": "reviewer", "root": "two"})
		_, held := d.send(d.Agent, M{"op": "delete_file", "args": M{"path": "f"}, "root": "ws"})
		shown := text(d.row(idOf(held)), "card", "shown_digest")
		for path, body := range map[string]M{"answer": {"answer": "approve", "shown_digest": shown}, "cancel": {}} {
			if status, out := d.http("POST", "/v1/approvals/"+idOf(held)+"/"+path, reviewer, body); status != 404 && status != 403 {
				t.Errorf("%s: got %d %v", path, status, out)
			}
		}
		if d.row(idOf(held))["state"] != "pending" {
			t.Error("it was answered")
		}
	})
}
