package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// apiDoc is the document of the API as one daemon serves it.
type apiDoc struct {
	t    *testing.T
	raw  M
	seen map[string]int // responses checked, by route
}

func (d *daemon) apiDoc(t *testing.T) *apiDoc {
	t.Helper()
	status, doc := d.http("GET", "/openapi.json", "", nil)
	if status != 200 || text(doc, "openapi") != "3.1.0" {
		t.Fatalf("got %d %v", status, doc)
	}
	return &apiDoc{t, doc, map[string]int{}}
}

// closed makes a schema refuse fields that it does not name: what is seen must be said.
func closed(v any) any {
	switch v := v.(type) {
	case M:
		out := M{}
		for k, e := range v {
			out[k] = closed(e)
		}
		if _, named := v["properties"]; named && v["additionalProperties"] == nil && v["oneOf"] == nil && v["title"] == nil {
			out["additionalProperties"] = false
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = closed(e)
		}
		return out
	}
	return v
}

// check holds one value to one schema of the document.
func (a *apiDoc) check(schema any, v any, strict bool) error {
	defs := a.raw["components"].(M)["schemas"]
	whole := M{"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": defs, "allOf": []any{schema}}
	if strict {
		whole["$defs"], whole["allOf"] = closed(defs), []any{closed(schema)}
	}
	b, err := json.Marshal(whole)
	if err != nil {
		return err
	}
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(b), "#/components/schemas/", "#/$defs/")), &s); err != nil {
		return err
	}
	r, err := s.Resolve(nil)
	if err != nil {
		return err
	}
	return r.Validate(v)
}

func (a *apiDoc) route(method, path string) M {
	paths, _ := a.raw["paths"].(M)
	item, _ := paths[path].(M)
	o, _ := item[strings.ToLower(method)].(M)
	return o
}

// answered checks one answer: its status is documented, and all of it is in the schema.
func (a *apiDoc) answered(method, path string, status int, body M) {
	a.t.Helper()
	name := method + " " + path
	answers, _ := a.route(method, path)["responses"].(M)
	r, ok := answers[strconv.Itoa(status)].(M)
	if !ok {
		a.t.Errorf("%s: the status %d is not documented: %v", name, status, body)
		return
	}
	a.seen[name]++
	content, _ := r["content"].(M)
	if j, ok := content["application/json"].(M); ok {
		if err := a.check(j["schema"], body, true); err != nil {
			b, _ := json.Marshal(body)
			a.t.Errorf("%s: %d: %v\n%.2000s", name, status, err, b)
		}
	} else if body["raw"] == nil {
		a.t.Errorf("%s: %d: an answer in JSON is not documented: %v", name, status, body)
	}
}

// asked checks that a body that was taken is one that the document describes.
func (a *apiDoc) asked(method, path string, body M) {
	a.t.Helper()
	rb, _ := a.route(method, path)["requestBody"].(M)
	content, _ := rb["content"].(M)
	j, _ := content["application/json"].(M)
	b, _ := json.Marshal(body)
	var v any
	json.Unmarshal(b, &v)
	if err := a.check(j["schema"], v, false); err != nil {
		a.t.Errorf("%s %s: %v\n%s", method, path, err, b)
	}
}

func TestHTTPForPrograms(t *testing.T) {
	t.Parallel()
	d := quick(t, "[profiles.hidden]\nrequire_approval = false\n")
	doc := d.apiDoc(t)
	agent := d.token(M{"name": "agent-canary", "role": "agent"})
	write(t, filepath.Join(d.Root, "f-CANARY"), "one\n")
	send := func(method, path, token string, body M, fill ...string) M {
		t.Helper()
		at := strings.NewReplacer(append(fill, "{name}", "x", "{id}", "ap_aaaaaaaaaaaaaaaaaaaaaaaaaa")...).Replace(path)
		path, _, _ = strings.Cut(path, "?")
		var b any
		if body != nil {
			b = body
		}
		status, out := d.http(method, at, token, b)
		doc.answered(method, path, status, out)
		if body != nil && status < 400 {
			doc.asked(method, path, body)
		}
		return out
	}
	op := d.reviewerToken
	t.Run("every route that is served is in the document, with the role that it asks for", func(t *testing.T) {
		for _, r := range routeTable(t) {
			if strings.Contains(r.path, "mcp") || r.path == "/" || r.path == "/page/" || r.path == "/{$}" {
				continue
			}
			o := doc.route(r.method, r.path)
			if o == nil {
				t.Errorf("%s %s is not documented", r.method, r.path)
			} else if text(o, "x-role") != r.role {
				t.Errorf("%s %s: the document says role %q, the server %q", r.method, r.path, text(o, "x-role"), r.role)
			}
		}
	})
	t.Run("each answer has a documented status, and every field of it is in the schema", func(t *testing.T) {
		call := func(name string, args M) M {
			return send("POST", "/v1/call", agent, M{"op": name, "args": args, "request_id": "r-" + name + text(args, "path"), "intent": "a test"})
		}
		done := call("write_file", M{"path": "made", "content": "x\n"})
		must(t, done, "done")
		must(t, call("edit_file", M{"path": "made", "old_string": "x", "new_string": "y"}), "done")
		call("edit_file", M{"path": "none", "old_string": "x", "new_string": "y"})
		call("view_file", M{"path": "made", "limit": 1})
		call("list_directory", M{})
		held := call("delete_file", M{"path": "f-CANARY"})
		must(t, held, "review")
		send("POST", "/v1/call", agent, M{"op": "nonsense"})
		send("POST", "/v1/call", agent, M{"op": "write_file", "args": M{"path": "../x", "content": ""}})
		send("POST", "/v1/preflight", agent, M{"op": "delete_file", "args": M{"path": "made"}})
		send("POST", "/v1/preflight", agent, M{"paths": []any{"made", "none"}})
		id := []string{"{id}", idOf(held)}
		for _, p := range []string{"/v1/approvals?state=pending", "/v1/approvals?limit=5", "/v1/approvals/{id}", "/v1/approvals/{id}/diff", "/v1/approvals/{id}/reach"} {
			send("GET", p, op, nil, id...)
		}
		send("GET", "/v1/approvals/{id}", agent, nil, id...)
		row := send("GET", "/v1/approvals/{id}", op, nil, id...)
		send("POST", "/v1/approvals/{id}/answer", agent, M{"answer": "approve"}, id...)
		answer := M{"answer": "approve", "shown_digest": text(row, "card", "shown_digest")}
		answered := send("POST", "/v1/approvals/{id}/answer", op, answer, id...)
		send("POST", "/v1/approvals/{id}/answer", op, answer, id...)
		send("POST", "/v1/approvals/{id}/cancel", op, M{}, id...)
		reply, _ := answered["reply"].(M)
		if text(reply, "status") != "done" {
			t.Fatalf("approved with %v: %v", answer, answered)
		}
		send("POST", "/v1/undo", agent, M{"operation_id": text(reply, "operation_id")})
		send("POST", "/v1/undo", agent, M{"credential": done["undo_credential"]})
		opid := []string{"{id}", text(done, "operation_id")}
		send("GET", "/v1/operations?limit=2", op, nil)
		send("GET", "/v1/operations/{id}", op, nil, opid...)
		send("GET", "/v1/operations/{id}/kept", op, nil, opid...)
		send("POST", "/v1/diff", op, M{"operations": []any{text(done, "operation_id")}})
		send("POST", "/v1/elsewhere", op, M{"since": "2026-01-02T15:04:05Z"})
		send("POST", "/v1/gc", op, M{"dry_run": true})
		send("POST", "/v1/verify", op, M{})
		send("POST", "/v1/audit/verify", op, M{"head": send("GET", "/v1/audit/head", op, nil)})
		tok := send("POST", "/v1/tokens", op, M{"name": "other", "role": "observer", "expires": "1h"})
		send("DELETE", "/v1/tokens/{id}", op, nil, "{id}", text(tok, "id"))
		second := filepath.Join(filepath.Dir(d.Root), "second")
		write(t, filepath.Join(second, "f"), "two\n")
		send("POST", "/v1/roots", op, M{"name": "two", "dir": second})
		send("DELETE", "/v1/roots/{name}", op, nil, "{name}", "two")
		grant := send("PUT", "/v1/rules", op, M{"agent": "agent-canary", "scope": "project", "root": "ws", "paths": []any{"made"}, "for": "1h"})
		send("DELETE", "/v1/rules/{id}", op, nil, "{id}", text(grant, "id"))
		send("PUT", "/v1/mode", op, M{"agent": "agent-canary", "mode": "prompt"})
		send("PUT", "/v1/profiles", op, M{"name": "new"})
		send("PUT", "/v1/profiles/{name}/agents", op, M{"agent": "agent-canary"}, "{name}", "new")
		send("DELETE", "/v1/profiles/{name}", op, nil, "{name}", "new")
		send("GET", "/v1/protect?path=made", op, nil)
		send("GET", "/v1/audit?n=5", op, nil)
		// Each other route once, as the operator and without a token.
		for _, r := range routeTable(t) {
			if doc.route(r.method, r.path) == nil || strings.HasSuffix(r.path, "/events") {
				continue
			}
			var body M
			if r.method == "POST" || r.method == "PUT" {
				body = M{}
			}
			send(r.method, r.path, "", body)
			if r.role != "" && doc.seen[r.method+" "+r.path] < 2 {
				send(r.method, r.path, op, body)
			}
			if doc.seen[r.method+" "+r.path] == 0 {
				t.Errorf("%s %s was not tried", r.method, r.path)
			}
		}
	})
	t.Run("the document names the arguments that the checks take, and no others", func(t *testing.T) {
		good := M{"op": "edit_file", "args": M{"path": "a", "old_string": "b", "new_string": "c"}}
		if err := doc.check(M{"$ref": "#/components/schemas/Request"}, good, false); err != nil {
			t.Error(err)
		}
		for _, bad := range []M{{"op": "edit_file", "args": M{"path": "a", "oldest_string": "b"}}, {"op": "nonsense", "args": M{}}, {"op": "view_file", "args": M{"path": 7.0}}, {"args": M{}}} {
			if doc.check(M{"$ref": "#/components/schemas/Request"}, bad, false) == nil {
				t.Errorf("%v passes", bad)
			}
		}
	})
	t.Run("metrics count calls, decisions and answers for any token, without a path or a name", func(t *testing.T) {
		if status, _ := d.http("GET", "/metrics", "", nil); status != 401 {
			t.Errorf("without a token: %d", status)
		}
		_, out := d.http("GET", "/metrics", agent, nil)
		said := text(out, "raw")
		line := regexp.MustCompile(`^(# (HELP|TYPE) (holdpoint|go|process)_[a-z_]+ .+|(holdpoint|go|process)_[a-z_]+(\{[a-z]+="[^"\\]*"(,[a-z]+="[^"\\]*")*\})? [0-9.e+-]+)$`)
		families := map[string]bool{}
		for in := bufio.NewScanner(strings.NewReader(said)); in.Scan(); {
			if !line.MatchString(in.Text()) {
				t.Errorf("not in the format: %q", in.Text())
			}
			if f := strings.Fields(in.Text()); f[0] == "#" && f[1] == "TYPE" {
				if families[f[2]] {
					t.Errorf("%s comes twice", f[2])
				}
				families[f[2]] = true
			}
		}
		for _, want := range []string{`holdpoint_calls_total{op="write_file",reason="low_impact_scoped_change",status="done"} 1`, `holdpoint_calls_total{op="unknown",reason="unknown_operation",status="refused"} 1`,
			`holdpoint_calls_total{op="delete_file",reason="destructive_operation",status="review"}`, `",verdict="review"} `, "process_open_fds ", "go_goroutines ", `holdpoint_answers_total{state="approved"} 1`,
			"holdpoint_pending_approvals 0", "holdpoint_watch_ok 1", "holdpoint_store_bytes ", `holdpoint_journal_flush_seconds_bucket{le="+Inf"} `, "holdpoint_call_seconds_count "} {
			if !strings.Contains(said, want) {
				t.Errorf("no %s", want)
			}
		}
		for _, c := range []string{"CANARY", "canary", d.Root, "made"} {
			if strings.Contains(said, c) {
				t.Errorf("it tells %q", c)
			}
		}
		before := strings.Count(said, "\n")
		for i := range 30 {
			d.send(agent, M{"op": fmt.Sprintf("made_up_%d", i), "args": M{"path": fmt.Sprint(i)}})
		}
		if _, out := d.http("GET", "/metrics", agent, nil); strings.Count(text(out, "raw"), "\n") > before {
			t.Errorf("made-up names make new lines:\n%s", text(out, "raw"))
		}
	})
	t.Run("health and readiness need no token; events resume after the last that was seen", func(t *testing.T) {
		for _, p := range []string{"/healthz", "/readyz"} {
			if status, out := d.http("GET", p, "", nil); status != 200 || text(out, "raw") != "ok\n" {
				t.Errorf("%s: %d %v", p, status, out)
			}
		}
		read := func(after string, n int) (ids []int) {
			req, _ := http.NewRequestWithContext(t.Context(), "GET", "http://holdpoint/v1/events", nil)
			req.Header.Set("Authorization", "Bearer "+op)
			if after != "" {
				req.Header.Set("Last-Event-ID", after)
			}
			r, err := d.client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Body.Close()
			in := bufio.NewScanner(io.LimitReader(r.Body, 1<<20))
			for len(ids) < n && in.Scan() {
				if v, ok := strings.CutPrefix(in.Text(), "id: "); ok {
					k, _ := strconv.Atoi(v)
					ids = append(ids, k)
				}
			}
			return ids
		}
		first := read("", 3)
		next := read(strconv.Itoa(first[0]), 2)
		if first[0] != 1 || next[0] != first[1] || next[1] != first[2] {
			t.Errorf("got %v, then %v", first, next)
		}
	})
}
