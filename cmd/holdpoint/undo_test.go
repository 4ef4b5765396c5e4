package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// logDaemon has a log of two pages and undoes everything but op_bad and op_held.
func logDaemon(t *testing.T) *fake {
	f := newFake(t)
	now := time.Now()
	entry := func(id, name, session, path, undo string, age time.Duration) map[string]any {
		return map[string]any{"id": id, "op": name, "time": now.Add(-age), "agent": "bot", "session": session, "state": "committed", "paths": []string{path}, "undo": undo}
	}
	first := []any{
		entry("op_u", "undo", "s1", "z", "available", time.Minute),
		entry("op_5", "edit_file", "s1", "src/a.go", "available", 2*time.Minute),
		entry("op_4", "edit_file", "s2", "src", "consumed", 3*time.Minute),
	}
	second := []any{
		entry("op_bad", "write_file", "s2", "srcx", "available", 20*time.Minute),
		entry("op_2", "delete_file", "s1", "src/b.go", "available", 30*time.Minute),
		entry("op_held", "write_file", "s3", ".env", "available", 40*time.Minute),
	}
	f.mux.HandleFunc("GET /v1/operations", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("next") == "2" {
			send(w, 200, map[string]any{"operations": second})
			return
		}
		send(w, 200, map[string]any{"operations": first, "next": 2})
	})
	f.mux.HandleFunc("POST /v1/undo", func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Operation string `json:"operation_id"`
		}
		json.NewDecoder(r.Body).Decode(&body)
		switch body.Operation {
		case "op_bad":
			send(w, 409, `{"status":"failed","op":"undo","effects":[],"effects_executed":false,"error":{"code":"undo_conflict","message":"srcx changed since"}}`)
		case "op_held":
			send(w, 202, heldCall)
		default:
			send(w, 200, strings.Replace(doneDelete, "delete_file", "undo", 1))
		}
	})
	return f
}

// undone lists what was asked to be undone, in order.
func (f *fake) undone() string {
	var ids []string
	for _, r := range f.requests() {
		var body struct {
			Operation string `json:"operation_id"`
		}
		if r.path == "/v1/undo" && json.Unmarshal([]byte(r.body), &body) == nil {
			ids = append(ids, body.Operation)
		}
	}
	return strings.Join(ids, " ")
}

func TestUndoSelection(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		want string
		says string
	}{
		{"@", 0, "op_u", "Done"},
		{"op_5", 0, "op_5", "Done"},
		{"--last 1", 0, "op_5", "Took back 1 of 1"},
		{"--last 3", 5, "op_5 op_bad", "Took back 1 of 3"},
		{"--last 3 --keep-going", 5, "op_5 op_bad op_2", "Took back 2 of 3"},
		{"--last 2 --dry-run", 5, "op_5 op_bad", "Rehearsed 1 of 2"},
		{"--session s1", 0, "op_5 op_2", "Took back 2 of 2"},
		{"--session s3", 3, "op_held", "Waiting for a person"},
		{"--since 10m", 0, "op_5", "Took back 1 of 1"},
		{"--since 1d --path src", 0, "op_5 op_2", "Took back 2 of 2"},
		{"--since 1d --path ./src/", 0, "op_5 op_2", "Took back 2 of 2"},
		{"--since 1d --agent other", 6, "", "undo_unknown"},
		{"--session none", 6, "", "undo_unknown"},
		{"-p op_5", 6, "", "not_available"},
		{"--merge op_5", 6, "", "not_available"},
	} {
		t.Run(c.args, func(t *testing.T) {
			f := logDaemon(t)
			f.run(append([]string{"undo"}, strings.Fields(c.args)...)...).wants(t, c.code, c.says)
			if got := f.undone(); got != c.want {
				t.Errorf("undid %q, want %q", got, c.want)
			}
		})
	}
}

func TestUndoJSONGivesAReplyALine(t *testing.T) {
	f := logDaemon(t)
	r := f.run("undo", "--last", "2", "--json").wants(t, 5)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if len(lines) != 2 {
		t.Fatalf("got %q", r.out)
	}
	for _, l := range lines {
		if _, err := parseReply([]byte(l)); err != nil {
			t.Errorf("%v in %s", err, l)
		}
	}
}

func TestUndoCredential(t *testing.T) {
	f := logDaemon(t)
	credential := `{"id":"uc_1","operation_id":"op_5","seal":"s","unknown":1}`
	for name, w := range map[string]struct{ arg, in string }{
		"as text":             {credential, ""},
		"on stdin":            {"-", credential + "\n"},
		"inside of its reply": {"-", `{"status":"done","effects_executed":true,"undo_credential":` + credential + `}`},
	} {
		t.Run(name, func(t *testing.T) {
			f.runWith(with{in: w.in}, "undo", w.arg, "--force").wants(t, 0)
			sameJSON(t, f.last("/v1/undo").body, `{"credential":`+credential+`,"dry_run":false,"force":true}`)
		})
	}
	before := len(f.requests())
	f.run("undo", `{"status":"review","effects_executed":false}`).wants(t, 6, "undo_unknown")
	f.run("undo", `{"seal`).wants(t, 6, "bad_request")
	if len(f.requests()) != before {
		t.Error("something was sent")
	}
}

func TestUndoAsPerson(t *testing.T) {
	f := newFake(t)
	f.secret("operator", "operator-secret")
	f.answer("POST /v1/undo", 200, doneDelete)
	f.run("undo", "op_1").wants(t, 0)
	if got := f.last("/v1/undo").token; got != "agent-secret" {
		t.Errorf("token %q", got)
	}
	f.run("undo", "op_1", "--person").wants(t, 0)
	if got := f.last("/v1/undo").token; got != "operator-secret" {
		t.Errorf("token %q", got)
	}
}

func TestLog(t *testing.T) {
	f := logDaemon(t)
	r := f.run("log").wants(t, 0, "op_u", "op_held", "undo available", "undo consumed")
	if strings.Count(r.out, "\n") != 6 {
		t.Errorf("got %s", r.out)
	}
	r = f.run("log", "--limit", "4", "--json").wants(t, 0)
	var list []operation
	if err := json.Unmarshal([]byte(r.out), &list); err != nil || len(list) != 4 || list[3].ID != "op_bad" {
		t.Errorf("%v: %s", err, r.out)
	}
	f.run("log", "--path", "src", "--session", "s1").wants(t, 0, "op_5", "op_2")
	if got := f.last("/v1/operations").path; !strings.Contains(got, "path=src") || !strings.Contains(got, "session=s1") {
		t.Errorf("the daemon was not asked to narrow: %s", got)
	}
	f.run("log", "--session", "none").wants(t, 0, "No operation matches")
}
