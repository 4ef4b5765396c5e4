package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// What the contract says in so many words, read as somebody does who has nothing else.

func TestContractRoutes(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	write(t, filepath.Join(d.Root, "a.txt"), "one\n")
	person := d.reviewer()
	ids := func(path, list string) (out []string) {
		_, got := d.http("GET", path, person, nil)
		for _, v := range got[list].([]any) {
			if m := v.(M); m["revoked"] != true {
				out = append(out, text(m, "id"))
			}
		}
		return out
	}
	t.Run("X29 (part) a rule is ended by its id in the path, in the query or in the body", func(t *testing.T) {
		for _, end := range []func(id string) (int, M){
			func(id string) (int, M) { return d.http("DELETE", "/v1/rules/"+id, person, nil) },
			func(id string) (int, M) { return d.http("DELETE", "/v1/rules?id="+id, person, nil) },
			func(id string) (int, M) { return d.http("DELETE", "/v1/rules", person, M{"id": id}) },
		} {
			_, made := d.http("PUT", "/v1/rules", person, M{"scope": "project", "root": "ws", "agent": "agent"})
			if status, got := end(text(made, "id")); status != 200 || got["revoked"] != true || len(ids("/v1/rules", "rules")) != 0 {
				t.Errorf("got %d %v, left %v", status, got, ids("/v1/rules", "rules"))
			}
		}
		for _, body := range []any{nil, M{}, M{"id": "ru_x", "all": true}, M{"id": 1}} {
			if status, got := d.http("DELETE", "/v1/rules", person, body); status != 400 || code(got) != "bad_request" {
				t.Errorf("%v: got %d %v", body, status, got)
			}
		}
	})
	t.Run("X16 (part) a mode is ended by its id, or by whom it was given to", func(t *testing.T) {
		set := func(session string) M {
			_, made := d.http("PUT", "/v1/mode", person, M{"mode": "prompt", "agent": "agent", "session": session})
			return made
		}
		set("")
		set("s1")
		if status, got := d.http("DELETE", "/v1/mode", person, M{"agent": "agent"}); status != 200 || len(got["rules"].([]any)) != 1 {
			t.Errorf("got %d %v", status, got)
		}
		if left := ids("/v1/mode", "rules"); len(left) != 1 {
			t.Errorf("the session's went as well: %v", left)
		}
		if status, got := d.http("DELETE", "/v1/mode?agent=agent&session=s1", person, nil); status != 200 {
			t.Errorf("got %d %v", status, got)
		}
		if status, got := d.http("DELETE", "/v1/mode", person, M{"agent": "agent"}); status != 404 {
			t.Errorf("none is set: got %d %v", status, got)
		}
		if status, got := d.http("DELETE", "/v1/mode", person, M{"id": text(set(""), "id")}); status != 200 || len(ids("/v1/mode", "rules")) != 0 {
			t.Errorf("got %d %v", status, got)
		}
		must(t, d.call("write_file", M{"path": "after.txt", "content": "x"}), "done")
	})
	t.Run("tokens and profiles are made by PUT and ended without a path", func(t *testing.T) {
		status, made := d.http("PUT", "/v1/tokens", person, M{"name": "put", "role": "agent"})
		if status != 200 || text(made, "token") == "" {
			t.Fatalf("got %d %v", status, made)
		}
		if status, got := d.http("DELETE", "/v1/tokens", person, M{"id": made["id"]}); status != 200 {
			t.Errorf("got %d %v", status, got)
		}
		if status, _ := d.send(text(made, "token"), M{"op": "list_directory"}); status != 401 {
			t.Errorf("the token is good: %d", status)
		}
		d.http("PUT", "/v1/profiles", person, M{"name": "gone", "mode": "prompt"})
		if status, got := d.http("DELETE", "/v1/profiles?name=gone", person, nil); status != 200 {
			t.Errorf("got %d %v", status, got)
		}
		if status, got := d.http("DELETE", "/v1/profiles/gone", person, nil); status != 404 {
			t.Errorf("it is there: %d %v", status, got)
		}
	})
	t.Run("a card is withdrawn without a body, and not by one that asks for more", func(t *testing.T) {
		held := must(t, d.call("delete_file", M{"path": "a.txt"}), "review")
		path := "/v1/approvals/" + idOf(held) + "/cancel"
		for _, body := range []any{M{"force": true}, "[]", `{"a":1,"a":1}`} {
			if status, got := d.http("POST", path, d.Agent, body); status != 400 || code(got) != "bad_request" {
				t.Errorf("%v: got %d %v", body, status, got)
			}
		}
		if status, got := d.http("POST", path, d.Agent, nil); status != 200 || got["state"] != "cancelled" {
			t.Errorf("got %d %v", status, got)
		}
	})
}

func TestContractStrictBodies(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	person := d.reviewer()
	t.Run("U41 (part) a token whose roots are no list of names is not made: it would be bound to none", func(t *testing.T) {
		for field, wrong := range map[string][]any{"roots": {"ws", M{}, []any{1}, []any{"ws", nil}}, "clearance": {"3", -5, 0, M{}}} {
			for _, v := range wrong {
				status, got := d.http("POST", "/v1/tokens", person, M{"name": "loose", "role": "agent", field: v})
				if status != 400 || code(got) != "bad_request" || text(got, "error", "field") != field {
					t.Errorf("%s %v: got %d %v", field, v, status, got)
				}
			}
		}
	})
	t.Run("C34 (part) what stands at fault is named by its whole place", func(t *testing.T) {
		for raw, field := range map[string]string{
			`{"op":"view_file","args":{"path":"a","path":"b"}}`:                                             "args.path",
			`{"op":"edit_file","args":{"path":"a","edits":[{"old_string":"a","old_string":"b"}]}}`:          "args.edits[0].old_string",
			`{"op":"view_file","args":{"path":"a","start_line":9007199254740992}}`:                          "args.start_line",
			`{"op":"view_file","op":"view_file"}`:                                                           "op",
			`{"op":"batch_file_ops","args":{"operations":[{"op":"file_info"},{"args":{"path":"\ud800"}}]}}`: "args.operations[1].args.path",
		} {
			if status, got := d.http("POST", "/v1/call", d.Agent, raw); status != 400 || code(got) != "bad_request" || text(got, "error", "field") != field {
				t.Errorf("%s: got %d %v", raw, status, got)
			}
		}
		for field, args := range map[string]M{"args.glob": {"pattern": "a", "glob": "["}, "args.include": {"pattern": "a", "include": []string{"["}}} {
			if r := d.call("search_files", args); code(r) != "bad_request" || text(r, "error", "field") != field {
				t.Errorf("%v: %v", args, r)
			}
		}
		for depth, want := range map[int]string{62: "args.path", 63: "nested too deeply"} { // the call and its arguments are two more
			_, got := d.http("POST", "/v1/call", d.Agent, `{"op":"view_file","args":{"path":`+strings.Repeat("[", depth)+strings.Repeat("]", depth)+`}}`)
			if said := fmt.Sprint(got); code(got) != "bad_request" || !strings.Contains(said, want) || strings.Contains(said, "nested") != (depth == 63) {
				t.Errorf("%d: got %v", depth, got)
			}
		}
	})
	t.Run("the routes without a token take JSON and nothing else, and audit verify a head or nothing", func(t *testing.T) {
		for _, path := range []string{"/v1/login", "/v1/pair/claim", "/v1/login/provider/claim"} {
			got := d.raw("POST " + path + " HTTP/1.1\r\nHost: holdpoint\r\nContent-Type: text/plain\r\nContent-Length: 34\r\nConnection: close\r\n\r\n" + `{"passphrase":"only for tests 1"} `)
			if !strings.HasPrefix(got, "415 ") || strings.Contains(got, "hps_") {
				t.Errorf("%s: %s", path, got)
			}
		}
		for _, body := range []M{{"head": 1}, {"head": "x"}, {"tail": M{}}} {
			if status, got := d.http("POST", "/v1/audit/verify", person, body); status != 400 {
				t.Errorf("%v: got %d %v", body, status, got)
			}
		}
	})
	t.Run("the word Bearer has no case", func(t *testing.T) {
		got := d.raw("GET /v1/status HTTP/1.1\r\nHost: holdpoint\r\nAuthorization: bearer " + d.Agent + "\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(got, "200 ") {
			t.Error(got)
		}
	})
}

func TestContractReplies(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	write(t, filepath.Join(d.Root, "crlf.txt"), "a\r\nb\r\n")
	write(t, filepath.Join(d.Root, "twice.txt"), "x\nx\n")
	t.Run("I65 (part) what is turned away before it is read is a Reply too, which says that nothing was done", func(t *testing.T) {
		call := M{"op": "list_directory"}
		for name, c := range map[string]struct {
			token string
			path  string
			body  any
			want  int
		}{
			"not an agent's":  {d.reviewer(), "/v1/call", call, 403},
			"an undo":         {d.token(M{"name": "looks", "role": "observer"}), "/v1/undo", M{"operation_id": "op_x"}, 403},
			"a cleanup":       {d.reviewer(), "/v1/clean", M{"policy_id": "x"}, 403},
			"not understood":  {d.Agent, "/v1/call", "[]", 400},
			"not what it was": {d.Agent, "/v1/call", M{"op": "view_file", "args": M{"path": "none"}}, 404},
		} {
			status, got := d.http("POST", c.path, c.token, c.body)
			e, _ := got["error"].(M)
			if status != c.want || got["effects_executed"] != false || got["effects"] == nil || got["status"] != map[bool]string{true: "refused", false: "failed"}[status == 403] || text(e, "code") == "" || text(e, "retry") == "" {
				t.Errorf("%s: got %d %v", name, status, got)
			}
		}
	})
	t.Run("every error says whether it may be sent again", func(t *testing.T) {
		for _, path := range []string{"/v1/nothing", "/v1/approvals/ap_none", "/v1/operations?limit=0", "/v1/approvals"} {
			if _, got := d.http("GET", path, d.Agent, nil); text(got, "error", "retry") == "" {
				t.Errorf("%s: %v", path, got)
			}
		}
		for _, body := range []M{{"op": "edit_file", "args": M{"path": "crlf.txt", "old_string": "none", "new_string": "x"}}, {"paths": []string{"a"}, "root": "none"}} {
			if _, got := d.http("POST", "/v1/preflight", d.Agent, body); text(got, "error", "retry") == "" || text(got, "error", "hint") == "" {
				t.Errorf("%v: %v", body, got)
			}
		}
	})
	t.Run("U32 (part) the same id gives the same reply, to its last byte", func(t *testing.T) {
		batch := M{"operations": []M{{"op": "write_file", "args": M{"path": "b1", "content": "1\n"}}, {"op": "edit_file", "args": M{"path": "twice.txt", "old_string": "x", "new_string": "y", "replace_all": true}}}}
		free := d.token(M{"name": "free", "role": "agent", "profile": d.profile("free", M{"require_approval": false})})
		for i, req := range []M{
			{"op": "write_file", "args": M{"path": "n.txt", "content": "n\n"}},
			{"op": "edit_file", "args": M{"path": "n.txt", "old_string": "n", "new_string": "m"}},
			{"op": "copy_file", "args": M{"source": "n.txt", "destination": "c.txt"}},
			{"op": "view_file", "args": M{"path": "n.txt"}},
			{"op": "write_file", "args": M{"path": "dry.txt", "content": "d"}, "dry_run": true},
			{"op": "write_file", "args": M{"path": "n.txt", "content": "over\n"}},
			{"op": "batch_file_ops", "args": batch},
			{"op": "batch_file_ops", "args": M{"atomic": false, "operations": []M{{"op": "write_file", "args": M{"path": "b3", "content": "3\n"}}, {"op": "view_file", "args": M{"path": "none"}}}}},
		} {
			req["request_id"] = fmt.Sprint("same-", i)
			_, first := d.send(free, req)
			_, second := d.send(free, req)
			if first["status"] != "done" || !reflect.DeepEqual(first, second) {
				a, _ := json.Marshal(first)
				b, _ := json.Marshal(second)
				t.Errorf("%s:\n%s\n%s", req["op"], a, b)
			}
		}
		held := must(t, d.call("write_file", M{"path": "crlf.txt", "content": "one\r\n"}), "review")
		answered := d.approve(held)
		if text(answered, "result", "diff") == "" {
			t.Errorf("the reply after the answer has no diff: %v", answered)
		}
		if row := d.row(idOf(held)); text(row, "reply", "result", "diff") != text(answered, "result", "diff") {
			t.Errorf("the row says another: %v", row)
		}
	})
	t.Run("C23 (part) the reply of a held call says which names it took for others, and what the change would do to the file", func(t *testing.T) {
		write(t, filepath.Join(d.Root, "ends.txt"), "a\r\n")
		want := func(held M, codes ...string) {
			t.Helper()
			must(t, held, "review")
			if said := fmt.Sprint(held["warnings"]); !containsAll(said, codes) {
				t.Errorf("want %v: %s", codes, said)
			}
		}
		want(d.call("write_file", M{"path": "ends.txt", "content": "a\n"}), "eol_change")
		want(d.call("write_file", M{"file_path": "ends.txt", "contents": "a\n"}), "eol_change", "alias", "contents")
		held := d.call("workspace_shell", M{"cmd": "true", "timeout_s": 90})
		want(held, "alias", "timeout_s")
		if said := fmt.Sprint(d.row(idOf(held))["card"]); !strings.Contains(said, "timeout_ms:90000") {
			t.Errorf("the card has no limit of 90 seconds: %s", said)
		}
	})
	t.Run("C127 (part) what a command is said to be for stands on the card, and is no part of what runs", func(t *testing.T) {
		held := must(t, d.call("workspace_shell", M{"command": "true", "args": []string{"1"}, "description": "looks\u202e once"}), "review")
		card, _ := d.row(idOf(held))["card"].(M)
		if text(card, "intent") != `looks\u{202E} once` || strings.Contains(fmt.Sprint(card["call"]), "once") {
			t.Errorf("the card: %v", card)
		}
		if again := d.call("workspace_shell", M{"command": "true", "args": []string{"1"}, "description": "looks twice"}); idOf(again) != idOf(held) {
			t.Errorf("other words make another row: %v", again)
		}
		if r := d.call("workspace_tests", M{"command": "true", "description": strings.Repeat("x", 4097)}); code(r) != "too_large" || text(r, "error", "field") != "args.description" {
			t.Errorf("too long: %v", r)
		}
		_, both := d.send(d.Agent, M{"op": "workspace_shell", "args": M{"command": "true", "description": "two"}, "intent": "one"})
		if card, _ := d.row(idOf(both))["card"].(M); text(card, "intent") != "one\ntwo" {
			t.Errorf("with an intent: %v", card["intent"])
		}
	})
	t.Run("D15 (part) several places are ambiguous whenever their number is not the one that was given", func(t *testing.T) {
		write(t, filepath.Join(d.Root, "three.txt"), "x\nx\n")
		for _, n := range []int{1, 3} {
			if r := d.call("edit_file", M{"path": "three.txt", "old_string": "x", "new_string": "y", "expected_replacements": n}); code(r) != "ambiguous_match" || !strings.Contains(text(r, "error", "message"), "lines 1 and 2") {
				t.Errorf("%d: %v", n, r)
			}
		}
		if r := d.call("edit_file", M{"path": "three.txt", "old_string": "x\nx", "new_string": "y", "expected_replacements": 2}); code(r) != "no_match" {
			t.Errorf("one of two: %v", r)
		}
	})
}

func containsAll(s string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(s, w) {
			return false
		}
	}
	return true
}

// profile makes a profile and gives its name.
func (d *daemon) profile(name string, parameters M) string {
	d.t.Helper()
	parameters["name"] = name
	if status, out := d.http("PUT", "/v1/profiles", d.reviewer(), parameters); status != 200 {
		d.t.Fatalf("profile %v: %d %v", parameters, status, out)
	}
	return name
}

func TestContractSessions(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	write(t, filepath.Join(d.Root, "a.txt"), "one\n")
	other := d.token(M{"name": "other", "role": "agent"})
	_, done := d.send(d.Agent, M{"op": "write_file", "args": M{"path": "n.txt", "content": "n"}, "session": "morning"})
	d.send(d.Agent, M{"op": "write_file", "args": M{"path": "m.txt", "content": "m"}, "session": "morning"})
	d.send(d.Agent, M{"op": "delete_file", "args": M{"path": "a.txt"}, "session": "evening"})
	d.send(d.Agent, M{"op": "write_file", "args": M{"path": "k.txt", "content": "k"}})
	d.send(other, M{"op": "write_file", "args": M{"path": "o.txt", "content": "o"}, "session": "morning"})
	d.send(d.Agent, M{"op": "undo", "args": M{"operation_id": done["operation_id"]}})
	list := func(args ...string) (out []M) {
		t.Helper()
		rc, stdout, errs := d.cli(append([]string{"sessions", "--json"}, args...)...)
		if rc != 0 || json.Unmarshal([]byte(stdout), &out) != nil {
			t.Fatalf("exit %d %s %s", rc, stdout, errs)
		}
		return out
	}
	t.Run("what each did under its label, what of it stands and what waits, the latest first", func(t *testing.T) {
		got := ""
		for _, s := range list() {
			got += fmt.Sprintf("%v %v: %v of %v, %v waiting\n", s["agent"], s["session"], s["standing"], s["operations"], s["waiting"])
		}
		if want := "other morning: 1 of 1, 0 waiting\nagent evening: 0 of 0, 1 waiting\nagent morning: 1 of 2, 0 waiting\n"; got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		for n, args := range map[int][]string{3: {"--since", "1h"}, 2: {"--agent", "agent"}, 0: {"--agent", "nobody"}} {
			if got := list(args...); len(got) != n {
				t.Errorf("%v: %v", args, got)
			}
		}
		if rc, out, _ := d.cli("sessions"); rc != 0 || !strings.Contains(out, "morning") || !strings.Contains(out, "1 waiting") {
			t.Errorf("exit %d %s", rc, out)
		}
	})
	t.Run("U42 (part) a label is its token's own: another agent's session of the same name is not among them", func(t *testing.T) {
		_, got := d.http("GET", "/v1/sessions", other, nil)
		if l, _ := got["sessions"].([]any); len(l) != 1 || fmt.Sprint(l[0].(M)["operations"]) != "1" {
			t.Errorf("%v", got)
		}
		_, got = d.http("GET", "/v1/sessions?root=ws", d.reviewer(), nil)
		if l, _ := got["sessions"].([]any); len(l) != 3 {
			t.Errorf("a person sees %v", got)
		}
		for _, path := range []string{"/v1/sessions?root=none", "/v1/sessions?since=yesterday"} {
			if status, got := d.http("GET", path, d.reviewer(), nil); status < 400 {
				t.Errorf("%s: %d %v", path, status, got)
			}
		}
	})
}

func TestContractCommandLine(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	t.Run("what the line itself lacks is usage", func(t *testing.T) {
		for _, args := range [][]string{{"mode", "set", "auto"}, {"rules", "grant"}, {"rules", "grant", "--scope", "project"}, {"completion", "nope"}, {"completion"}} {
			if rc, out, errs := d.cli(args...); rc != 2 || out != "" || !strings.Contains(errs, "see: holdpoint "+args[0]) {
				t.Errorf("%v: exit %d %q %q", args, rc, out, errs)
			}
		}
	})
	t.Run("a client's settings are checked and written in one JSON document", func(t *testing.T) {
		env := []string{"HOME=" + shortDir(t), "HOLDPOINT_STATE=" + shortDir(t)}
		dir := shortDir(t)
		for _, c := range []struct {
			args []string
			want int
			says string
		}{{[]string{"--check"}, 6, "not_found"}, {[]string{"--write"}, 0, `"wrote":true`}, {[]string{"--write"}, 0, `"wrote":false`}, {[]string{"--check"}, 0, `"ok":true`}} {
			rc, out, errs := outsideIn(t, dir, env, append([]string{"init", "claude", "--json"}, c.args...)...)
			if rc != c.want || !json.Valid([]byte(out)) || strings.Count(out, "\n") != 1 || !strings.Contains(out, c.says) {
				t.Errorf("%v: exit %d %q %q", c.args, rc, out, errs)
			}
		}
	})
	t.Run("a reply that was turned away still names the call", func(t *testing.T) {
		for _, token := range []string{"hp_none", d.token(M{"name": "looks", "role": "observer"})} {
			rc, out, _ := outside(t, []string{"HOLDPOINT_SOCKET=" + d.Socket, "HOLDPOINT_TOKEN=" + token, "HOME=" + shortDir(t)}, "call", "list_directory", "--json")
			if rc != 4 || !strings.Contains(out, `"op":"list_directory"`) || !strings.Contains(out, `"status":"refused"`) {
				t.Errorf("exit %d %s", rc, out)
			}
		}
	})
}

func TestContractStatus(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	said := func() string {
		_, got := d.http("GET", "/v1/status", d.Agent, nil)
		return fmt.Sprint(got["roots"])
	}
	t.Run("C84 (part) status tells of a line of the workspace's own patterns that is skipped, before any call", func(t *testing.T) {
		write(t, filepath.Join(d.Root, ".holdpoint-protect"), "*.mine\n!.env\n")
		if s := said(); !strings.Contains(s, "protect_line_skipped") || !strings.Contains(s, "line 2") {
			t.Error(s)
		}
		write(t, filepath.Join(d.Root, ".holdpoint-protect"), "*.mine\n")
		if s := said(); strings.Contains(s, "skipped") {
			t.Errorf("it is mended: %s", s)
		}
	})
	t.Run("a .holdpoint.toml that is not understood is told too, before any call", func(t *testing.T) {
		write(t, filepath.Join(d.Root, ".holdpoint.toml"), "mode = \"sometimes\"\n")
		if s := said(); !strings.Contains(s, ".holdpoint.toml") {
			t.Error(s)
		}
	})
}
