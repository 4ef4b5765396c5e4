package main

import (
	"encoding/json"
	"net/http"
	"slices"
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
			Operations []string `json:"operations"`
			DryRun     bool     `json:"dry_run"`
			Merge      bool     `json:"merge"`
			KeepGoing  bool     `json:"keep_going"`
		}
		json.NewDecoder(r.Body).Decode(&body)
		if body.Operations == nil {
			send(w, 200, strings.Replace(doneDelete, "delete_file", "undo", 1))
			return
		}
		plan := map[string]any{"undo": 0, "merge": 0, "refused": 0, "not_ours": 2}
		var units []any
		var undone []string
		for _, id := range body.Operations {
			outcome := map[string]string{"op_bad": "refused", "op_2": "merge"}[id]
			if outcome == "" {
				outcome = "undo"
			}
			unit := map[string]any{"operations": []string{id}, "paths": []string{"p_" + id}, "outcome": outcome, "diff": "-" + id + "\n"}
			if outcome == "refused" {
				unit["why"] = map[string]any{"code": "undo_conflict", "message": "the same lines", "path": "srcx"}
			}
			if outcome == "undo" || outcome == "merge" && body.Merge {
				undone = append(undone, id)
			}
			plan[outcome] = plan[outcome].(int) + 1
			units = append(units, unit)
		}
		plan["units"] = units
		switch {
		case body.DryRun:
			send(w, 200, map[string]any{"status": "done", "op": "undo", "effects": []any{}, "effects_executed": false, "result": map[string]any{"dry_run": true, "plan": plan, "diff": "-all\n"}})
		case slices.Contains(body.Operations, "op_held"):
			send(w, 202, heldCall)
		case len(undone) < len(body.Operations) && !body.KeepGoing || len(undone) == 0:
			send(w, 409, `{"status":"failed","op":"undo","effects":[],"effects_executed":false,"error":{"code":"undo_conflict","message":"1 part cannot be taken back"}}`)
		default:
			send(w, 200, map[string]any{"status": "done", "op": "undo", "operation_id": "op_new", "effects": []any{}, "effects_executed": true, "result": map[string]any{"undone": undone, "plan": plan}})
		}
	})
	return f
}

// undone lists what was asked to be undone, in order, without rehearsals.
func (f *fake) undone() string {
	var ids []string
	for _, r := range f.requests() {
		var body struct {
			Operation  string   `json:"operation_id"`
			Operations []string `json:"operations"`
			DryRun     bool     `json:"dry_run"`
		}
		if r.path == "/v1/undo" && json.Unmarshal([]byte(r.body), &body) == nil && (!body.DryRun || body.Operation != "") {
			ids = append(append(ids, strings.Fields(body.Operation)...), body.Operations...)
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
		{"--last 1", 0, "op_5", "undo 1, not ours 2"},
		{"--last 2", 5, "op_5 op_bad", "undo 1, refused 1 (overlap), not ours 2"},
		{"--last 2 --keep-going", 5, "op_5 op_bad", "Took back 1 operation as one"},
		{"--last 3 --keep-going --merge", 5, "op_5 op_bad op_2", "Took back 2 operations as one"},
		{"--last 2 --dry-run", 5, "", "srcx: the same lines"},
		{"--session s1", 5, "op_5 op_2", "merge 1 (others changed it too, no overlap)"},
		{"--session s1 --merge", 0, "op_5 op_2", "Took back 2 operations as one"},
		{"--session s3", 3, "op_held", "Waiting for a person"},
		{"--since 10m", 0, "op_5", "Took back 1 operation as one"},
		{"--since 1d --path src --merge", 0, "op_5 op_2", "Took back 2 operations"},
		{"--path ./src/ --merge", 0, "op_5 op_2", "Took back 2 operations"},
		{"--agent bot --keep-going", 3, "op_5 op_bad op_2 op_held", "Waiting"},
		{"--since 1d --agent other", 6, "", "undo_unknown"},
		{"--session none", 6, "", "undo_unknown"},
		{"--merge op_2", 0, "op_2", "Took back 1 operation"},
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

func TestUndoAsksOnATerminal(t *testing.T) {
	for _, c := range []struct{ args, in, want, says string }{
		{"--session s1", "y\n", "op_5 op_2", "Took back 2 operations"},
		{"--session s1", "\n", "", "Nothing was changed"},
		{"--session s1", "", "", "Nothing was changed"},
		{"--session s1", "d\ny\n", "op_5 op_2", "-all"},
		{"--session s1", "p\nn\nd\ny\n", "op_2", "-op_2"},
		{"--last 3", "y\n", "op_5 op_2", "refused 1"},
		{"--session s1 -p", "y\nq\n", "op_5", "Took back 1 operation"},
	} {
		t.Run(c.args+" "+c.in, func(t *testing.T) {
			f := logDaemon(t)
			f.runWith(with{in: c.in, tty: true}, append([]string{"undo"}, strings.Fields(c.args)...)...).wants(t, 0, c.says)
			if got := f.undone(); got != c.want {
				t.Errorf("undid %q, want %q", got, c.want)
			}
		})
	}
}

func TestUndoJSONGivesOneReply(t *testing.T) {
	f := logDaemon(t)
	for _, args := range []string{"--last 2", "--last 1", "--last 1 --dry-run"} {
		code := 0
		if args == "--last 2" {
			code = 5
		}
		r := f.run(append(strings.Fields("undo --json"), strings.Fields(args)...)...).wants(t, code)
		if _, err := parseReply([]byte(r.out)); err != nil {
			t.Errorf("%s: %v in %s", args, err, r.out)
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
