package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"holdpoint/op"
)

func TestCallSendsARequest(t *testing.T) {
	f := newFake(t)
	f.answer("POST /v1/call", 200, doneDelete)
	f.answer("GET /v1/status", 200, `{"roots":[{"name":"app","key":"k1","dir":"`+f.dir+`"}]}`)
	f.run("call", "delete_file", "path=a", "--root", "app", "--dry-run", "--request-id", "r1", "--session", "s", "--stage", "g", "--execution-id", "e",
		"--intent", "tidy <b>", "--pins", "p").wants(t, 0)
	got := f.last("/v1/call")
	sameJSON(t, got.body, `{"op":"delete_file","root":"k1","args":{"path":"a"},"dry_run":true,"pins":"p","request_id":"r1","session":"s","stage":"g",
		"execution_id":"e","intent":"tidy <b>"}`)
	if got.token != "agent-secret" {
		t.Errorf("token %q", got.token)
	}
	f.runWith(with{env: map[string]string{"HOLDPOINT_TOKEN": "mine"}}, "call", "delete_file", "path=a").wants(t, 0, "deleted", "holdpoint undo op_1")
	if got := f.last("/v1/call"); got.token != "mine" || strings.Contains(got.body, "root") {
		t.Errorf("got %v", got)
	}
	f.run("call", "delete_file", "path=a", "--root", f.dir).wants(t, 0)
	if got := f.last("/v1/call").body; !strings.Contains(got, `"root":"k1"`) {
		t.Errorf("a directory is not told by its key: %s", got)
	}
	f.run("call", "delete_file", "path=a", "--root", "apq").wants(t, 6, "unknown_root", "did you mean app?")
	f.run("call", "view_file", "path=a", "--intent", "\xff").wants(t, 6, "bad_request")
}

func TestExitCodes(t *testing.T) {
	f := newFake(t)
	var status int
	var body string
	f.mux.HandleFunc("POST /v1/call", func(w http.ResponseWriter, _ *http.Request) { send(w, status, body) })
	failed := func(status op.Status, code op.Code) string {
		return fmt.Sprintf(`{"status":%q,"op":"edit_file","effects":[],"effects_executed":false,"error":{"code":%q,"message":"m"}}`, status, code)
	}
	for _, c := range []struct {
		name string
		http int
		body string
		want int
	}{
		{"done", 200, doneDelete, 0},
		{"review", 202, heldCall, 3},
		{"refused without an error", 403, `{"status":"refused","op":"x","effects":[],"effects_executed":false}`, 4},
		{"operation_disabled", 403, failed(op.Refused, op.OperationDisabled), 4},
		{"outside_workspace", 403, failed(op.Failed, op.OutsideWorkspace), 4},
		{"crosses_mount", 403, failed(op.Failed, op.CrossesMount), 4},
		{"symlink_refused", 403, failed(op.Failed, op.SymlinkRefused), 4},
		{"undo_forged", 403, failed(op.Failed, op.UndoForged), 4},
		{"stale_precondition", 409, failed(op.Failed, op.Stale), 5},
		{"undo_conflict", 409, failed(op.Failed, op.UndoConflict), 5},
		{"request_id_reused", 409, failed(op.Failed, op.RequestIDReused), 5},
		{"no_match", 422, failed(op.Failed, op.NoMatch), 6},
		{"not_found", 404, failed(op.Failed, op.NotFound), 6},
		{"bad_request", 400, failed(op.Failed, op.BadRequest), 6},
		{"rejected", 403, failed(op.Refused, op.Rejected), 7},
		{"expired", 409, failed(op.Refused, op.Expired), 7},
		{"io_error", 500, failed(op.Failed, op.IOError), 1},
		{"an error that is no Reply", 401, `{"error":{"code":"unauthenticated","message":"no such token"}}`, 4},
		{"a proxy's page", 503, `<html>`, 1},
		{"nonsense", 200, `[]`, 1},
		{"a status of the future", 200, `{"status":"maybe"}`, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body = c.http, c.body
			f.run("call", "edit_file", "path=a").wants(t, c.want)
			r := f.run("call", "edit_file", "path=a", "--json").wants(t, c.want)
			var reply op.Reply
			if err := json.Unmarshal([]byte(r.out), &reply); err != nil || reply.Status == "" {
				t.Errorf("with --json no Reply: %q, %v", r.out, err)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	f := newFake(t)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"nonsense"}, "unknown command"},
		{[]string{"statsu"}, "status"},
		{[]string{"review", "aprove", "x"}, "did you mean approve?"},
		{[]string{"token"}, "create, list, revoke"},
		{[]string{"call"}, "name an operation"},
		{[]string{"call", "view_file", "--wat"}, "unknown flag"},
		{[]string{"call", "view_file", "--wait", "soon"}, "no duration"},
		{[]string{"call", "view_file", "a.go"}, "key=value"},
		{[]string{"undo"}, "name one thing"},
		{[]string{"undo", "@", "--last", "2"}, "name one thing"},
		{[]string{"undo", "--last", "0"}, "from 1"},
		{[]string{"show"}, "the id of an operation"},
		{[]string{"token", "create", "--role", "boss", "--name", "x"}, "--role must be"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) { f.run(c.args...).wants(t, 2, c.says, "--help") })
	}
	if n := len(f.requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	for _, name := range []string{"mcp", "hub"} {
		f.run(name, "--some", "flag").wants(t, 6, "not_available", name)
		sameJSON(t, f.run(name, "--json").wants(t, 6).out, `{"error":{"code":"not_available","message":"holdpoint `+name+` is not in this version","hint":"holdpoint --help lists what is"}}`)
	}
	f.run("version").wants(t, 0, "holdpoint ")
	f.run("call", "--help").wants(t, 0, "view_file", "key:=JSON")
	f.run("call", "delete_file", "--help").wants(t, 0, "recursive", "required")
	f.run("completion", "bash").wants(t, 0, "holdpoint")
	f.run("__complete", "call", "delete_file", "").wants(t, 0, "recursive=")
}

func TestUnknownOperationIsTheDaemonsToRefuse(t *testing.T) {
	f := newFake(t)
	f.answer("POST /v1/call", 403, `{"status":"refused","op":"delete_fil","effects":[],"effects_executed":false,"error":{"code":"unknown_operation","message":"no such operation"}}`)
	f.run("call", "delete_fil", "path=a").wants(t, 4, "unknown_operation", "did you mean delete_file?")
}

func TestHeldCall(t *testing.T) {
	f := newFake(t)
	f.answer("POST /v1/call", 202, heldCall)
	t.Run("U37 a held call names the commands that answer it", func(t *testing.T) {
		p := f.process("call", "delete_file", "path=a")
		p.wants(t, 3, "Delete 1 file", "holdpoint review show ap_1", "holdpoint review approve ap_1", "holdpoint review reject ap_1")
	})
	f.run("--socket", f.socket, "call", "delete_file", "path=a").wants(t, 3, "holdpoint --socket "+f.socket+" review approve ap_1")
	var rounds int
	var final string
	f.mux.HandleFunc("GET /v1/approvals/ap_1", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("wait") == "" {
			t.Error("the poll does not wait")
		}
		if rounds++; rounds < 2 {
			send(w, 200, `{"id":"ap_1","state":"pending","note":"","reply":null}`)
			return
		}
		send(w, 200, final)
	})
	for _, c := range []struct {
		name, final string
		code        int
		says        string
	}{
		{"executed", `{"id":"ap_1","state":"executed","note":"","reply":` + doneDelete + `}`, 0, "holdpoint undo op_1"},
		{"rejected", `{"id":"ap_1","state":"rejected","note":"not that one","reply":null}`, 7, "not that one"},
		{"expired", `{"id":"ap_1","state":"expired","note":""}`, 7, "expired"},
		{"unknown", `{"id":"ap_1","state":"unknown","note":""}`, 6, "unknown_outcome"},
		{"a state of the future", `{"id":"ap_1","state":"paused","note":""}`, 6, "paused"},
	} {
		t.Run("wait "+c.name, func(t *testing.T) {
			rounds, final = 0, c.final
			f.run("call", "delete_file", "path=a", "--wait", "10s").wants(t, c.code, c.says)
			rounds = 0
			var r op.Reply
			if out := f.run("call", "delete_file", "path=a", "--wait", "10s", "--json").wants(t, c.code).out; json.Unmarshal([]byte(out), &r) != nil {
				t.Errorf("no Reply: %s", out)
			}
		})
	}
	t.Run("time over", func(t *testing.T) {
		rounds, final = 0, `{"id":"ap_1","state":"pending"}`
		f.run("call", "delete_file", "path=a", "--wait", "600ms").wants(t, 3, "Waiting for a person", "ap_1")
	})
}

func TestViewFileGivesTheBytes(t *testing.T) {
	f := newFake(t)
	text := "a\r\nb\x1b[2J\u202e\n"
	quoted, _ := json.Marshal(text)
	f.answer("POST /v1/call", 200, `{"status":"done","op":"view_file","effects":[],"effects_executed":false,"result":{"content":`+string(quoted)+`,"truncated":""}}`)
	if r := f.run("call", "view_file", "path=a"); r.out != text || r.err != "" {
		t.Errorf("got %q, %q", r.out, r.err)
	}
	r := f.runWith(with{tty: true}, "call", "view_file", "path=a").wants(t, 0, `b\u{001B}[2J\u{202E}`, "do not show")
	clean(t, r)
}

func TestBytesThatAreNoText(t *testing.T) {
	f := newFake(t)
	f.answer("POST /v1/call", 200, `{"status":"done","op":"view_file","effects":[],"effects_executed":false,"result":{"content_base64":"/wAK"}}`)
	if r := f.run("call", "view_file", "path=a"); r.out != "\xff\x00\n" {
		t.Errorf("got %q", r.out)
	}
}

func TestPreflight(t *testing.T) {
	f := newFake(t)
	facts := `"facts":{"workspace_bound":true,"available":true,"planned":true,"targets":[{"path":".env","role":"target","kind":"file","size":3,"protected":true,"protected_by":".env","protected_from":"builtin"}]}`
	review := `{"decision":{"verdict":"review","reason":"protected_target","also":["overwrite"],"tier":"T2","mandatory":true},` + facts + `,"preview":"-a\n+b\n","pins":"sealed","warnings":[]}`
	var body string
	f.mux.HandleFunc("POST /v1/preflight", func(w http.ResponseWriter, _ *http.Request) { send(w, 200, body) })
	body = review
	f.run("preflight", "write_file", "path=.env", "content=b").wants(t, 3, "would wait for a person", "protected_target", "overwrite", "protected by .env (builtin)", "  | +b", "pins: sealed")
	sameJSON(t, f.run("preflight", "write_file", "path=.env", "content=b", "--json").wants(t, 3).out, review)
	f.run("policy", "explain", "write_file", "path=.env", "content=b").wants(t, 0, "would wait", "protected_target", ".env is protected by .env (builtin)")
	body = `{"decision":{"verdict":"auto","reason":"trusted_automation","also":[],"tier":"T4","trusted_policy_id":"nightly"},"preview":{"diff":"x"}}`
	f.run("preflight", "delete_file", "path=a").wants(t, 0, "would run by itself", "nightly", "  | x")
	body = `{"decision":{"verdict":"auto","reason":"low_impact_scoped_change","also":[],"tier":"T2"},"error":{"code":"no_match","message":"old text is absent"}}`
	f.run("preflight", "edit_file", "path=a").wants(t, 6, "no_match")
	body = `{"decision":{"verdict":"refuse","reason":"operation_disabled","also":[],"tier":"T2"}}`
	f.run("preflight", "edit_file", "path=a").wants(t, 4, "would be refused")
}

func TestInProcess(t *testing.T) {
	root := t.TempDir()
	state := t.TempDir()
	closed := 0
	engine := func(_ context.Context, o localOptions) (http.Handler, func() error, error) {
		if o.Root != root || o.State != state {
			t.Errorf("opened %+v", o)
		}
		mux := http.NewServeMux()
		mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) {
			send(w, 200, map[string]any{"roots": []rootInfo{{Name: "r", Key: "k", Dir: root}}})
		})
		mux.HandleFunc("POST /v1/call", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer t" {
				t.Errorf("headers %v", r.Header)
			}
			send(w, 202, heldCall)
		})
		return mux, func() error { closed++; return nil }, nil
	}
	w := with{env: map[string]string{"HOLDPOINT_STATE": state, "HOLDPOINT_TOKEN": "t"}, local: engine}
	runLine(t, w, "call", "delete_file", "path=a", "--root", root).wants(t, 3, "Delete 1 file", "review approve ap_1 --root "+root)
	runLine(t, w, "call", "delete_file", "path=a").wants(t, 1, "not_ready", state, "holdpoint serve", "--root DIR")
	runLine(t, w, "call", "delete_file", "path=a", "--root", "name").wants(t, 1, "not_ready")
	if closed != 1 {
		t.Errorf("closed %d times", closed)
	}
}
