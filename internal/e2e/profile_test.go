package e2e

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const profileConf = `
[profiles.web]
about = "may fetch"
visible = true
require_approval = false
allow_delete = false
mode = "prompt"

[profiles.secret]
about = "not for agents to see"
require_approval = false

[profiles.elsewhere]
visible = true
roots = ["two"]

[profiles.small]
visible = true
max_change = 10
max_targets = 1
max_timeout = "2s"

[profiles.fixed]
[profiles.fixed.set.edit_file]
backup = false
[profiles.fixed.set.list_directory]
show_hidden = true
`

func TestProfiles(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	second := filepath.Join(filepath.Dir(root), "second")
	write(t, filepath.Join(root, "f"), "one\n")
	write(t, filepath.Join(root, ".hidden"), "x\n")
	write(t, filepath.Join(second, "f"), "two\n")
	d := quickOn(t, root, state, profileConf, nil, "--root", "two="+second)
	ask := func(token, name string) (int, M) {
		return d.send(token, M{"op": "request_profile_switch", "args": M{"profile": name}})
	}
	agent := func(name string, more M) string {
		return d.token(merge(M{"name": name, "role": "agent", "root": "ws"}, more))
	}
	current := func(token string) string {
		_, r := d.send(token, M{"op": "list_profiles"})
		return text(must(t, r, "done"), "result", "current")
	}

	t.Run("C128 an agent lists the visible profiles of its own roots, and cannot tell the others from none", func(t *testing.T) {
		a := agent("lister", nil)
		_, r := d.send(a, M{"op": "list_profiles"})
		var names []string
		for _, p := range objects(object(must(t, r, "done")["result"])["profiles"]) {
			names = append(names, text(p, "name"))
		}
		if !reflect.DeepEqual(names, []string{"small", "web"}) || text(r, "result", "current") != "default" || text(r, "decision", "reason") != "read_only" {
			t.Fatalf("got %v", r)
		}
		s1, one := ask(a, "secret")
		s2, two := ask(a, "nothing")
		s3, three := ask(a, "elsewhere")
		if s1 != 404 || s2 != 404 || s3 != 404 || !reflect.DeepEqual(one, two) || !reflect.DeepEqual(two, three) {
			t.Errorf("got %d %v, %d %v, %d %v", s1, one, s2, two, s3, three)
		}
	})
	t.Run("C132 a profile of another workspace cannot be asked for: refused, no row", func(t *testing.T) {
		a := agent("elsewhere", nil)
		before := len(d.cards(""))
		if s, r := ask(a, "elsewhere"); s != 404 || len(d.cards("")) != before {
			t.Errorf("got %d %v", s, r)
		}
		there := d.token(M{"name": "there", "role": "agent", "root": "two"})
		s, r := ask(there, "elsewhere")
		if s != 202 {
			t.Errorf("in that workspace: got %d %v", s, r)
		}
		d.http("POST", "/v1/approvals/"+idOf(r)+"/cancel", there, M{})
	})
	t.Run("C129, C130, C131 a switch waits with a parameter diff, and counts only once a person approved", func(t *testing.T) {
		a := agent("switcher", nil)
		s, held := ask(a, "web")
		if s != 202 || text(held, "decision", "reason") != "profile_switch" || held["effects_executed"] != false {
			t.Fatalf("got %d %v", s, held)
		}
		card := object(d.row(idOf(held))["card"])
		lines := fmt.Sprint(card["lines"])
		for _, want := range []string{"require_approval: true -> false", "allow_delete: true -> false", "mode: auto -> prompt"} {
			if !strings.Contains(lines, want) {
				t.Errorf("the card does not say %q: %v", want, lines)
			}
		}
		if strings.Contains(lines, "allow_read") || !strings.Contains(text(card, "title"), "web") {
			t.Errorf("card %v", card)
		}
		for _, r := range [][3]any{{"PUT", "/v1/profiles/web/agents", M{"agent": "switcher"}}, {"PUT", "/v1/profiles", M{"name": "mine"}}, {"GET", "/v1/profiles", nil}, {"DELETE", "/v1/profiles/web", nil}} {
			if s, out := d.http(r[0].(string), r[1].(string), a, r[2]); s != 403 || code(out) != "forbidden" {
				t.Errorf("C129: %v: got %d %v", r, s, out)
			}
		}
		if current(a) != "default" {
			t.Fatal("it counts before anybody answered")
		}
		done := must(t, d.approve(held), "done")
		if text(done, "result", "profile") != "web" || current(a) != "web" || done["effects_executed"] != true {
			t.Fatalf("got %v", done)
		}
		s, r := d.send(a, M{"op": "delete_file", "args": M{"path": "f"}})
		fails(t, s, r, 403, "operation_disabled")
		d.restart()
		d.operator()
		if current(a) != "web" {
			t.Error("it did not last over a restart")
		}
		if s, r := ask(a, "web"); s != 409 && s != 422 {
			t.Errorf("asking for what it has: %d %v", s, r)
		}
	})
	t.Run("C131 a rejected switch changes nothing, and it is never remembered", func(t *testing.T) {
		a := agent("rejected", nil)
		_, held := ask(a, "web")
		_, row := d.http("GET", "/v1/approvals/"+idOf(held), d.reviewer(), nil)
		if s, out := d.http("POST", "/v1/approvals/"+idOf(held)+"/answer", d.reviewer(), M{"answer": "approve", "remember": true, "shown_digest": text(row, "card", "shown_digest")}); s != 400 {
			t.Errorf("remember: got %d %v", s, out)
		}
		d.answer(held, "reject", "not today")
		if current(a) != "default" {
			t.Error("it counts")
		}
	})
	t.Run("C131 (part) what was shown is what is applied: a profile that changed meanwhile is stale", func(t *testing.T) {
		put := func(body M) {
			if s, out := d.http("PUT", "/v1/profiles", d.reviewer(), merge(M{"name": "made", "visible": true}, body)); s != 200 {
				t.Fatalf("got %d %v", s, out)
			}
		}
		put(M{"allow_exec": false})
		a := agent("stale", nil)
		_, held := ask(a, "made")
		put(M{"allow_exec": true, "require_approval": false})
		if r := d.approve(held); code(r) != "stale_precondition" || current(a) != "default" {
			t.Errorf("got %v, under %s", r, current(a))
		}
	})
	t.Run("no lift covers a switch: not the profile's own, not a mode", func(t *testing.T) {
		a := agent("free", M{"profile": "web"})
		s, r := ask(a, "small")
		if s != 202 || text(r, "decision", "reason") != "profile_switch" {
			t.Errorf("got %d %v", s, r["decision"])
		}
		must(t, d.approve(r), "done")
		if current(a) != "small" {
			t.Error("it does not count")
		}
		owned := agent("owned", M{"profile": "web", "clearance": 5})
		_, r = ask(owned, "small")
		if lines := fmt.Sprint(d.card(r)["lines"]); strings.Contains(lines, "clearance") {
			t.Errorf("an owner's clearance does not change with the profile: %v", lines)
		}
		must(t, d.approve(r), "done")
	})
	t.Run("C3 where the profile and the call both set an argument, the profile wins, before the decision and in what is done", func(t *testing.T) {
		a := agent("fixed", M{"profile": "fixed"})
		s, r := d.send(a, M{"op": "edit_file", "args": M{"path": "f", "old_string": "one", "new_string": "1", "create_backup": true}})
		if s != 202 || text(r, "decision", "reason") != "backup_disabled" || !strings.Contains(fmt.Sprint(d.card(r)["warnings"]), "profile_argument") {
			t.Fatalf("got %d %v %v", s, r["decision"], d.card(r)["warnings"])
		}
		if call := object(object(d.row(idOf(r))["card"])["call"]); object(call["args"])["backup"] != false {
			t.Errorf("the stored call: %v", call)
		}
		s, r = d.send(a, M{"op": "batch_file_ops", "args": M{"operations": []M{{"op": "edit_file", "args": M{"path": "f", "old_string": "one", "new_string": "1", "backup": true}}}}})
		if call := object(object(d.row(idOf(r))["card"])["call"]); s != 202 || object(objects(object(call["args"])["operations"])[0]["args"])["backup"] != false {
			t.Errorf("in a batch: %v", call)
		}
		_, r = d.send(a, M{"op": "list_directory", "args": M{"show_hidden": false}})
		if !strings.Contains(fmt.Sprint(must(t, r, "done")["result"]), ".hidden") {
			t.Errorf("a read: %v", r["result"])
		}
	})
	t.Run("X17 (part) the mode of a profile is a ceiling for the modes that people set", func(t *testing.T) {
		a := agent("ceiling", M{"profile": "web"})
		for _, mode := range []string{"auto", "deny"} {
			if s, out := d.http("PUT", "/v1/mode", d.reviewer(), M{"agent": "ceiling", "mode": mode}); s != 200 {
				t.Fatalf("got %d %v", s, out)
			}
			_, r := d.send(a, M{"op": "edit_file", "args": M{"path": "f", "old_string": "one", "new_string": "1"}})
			if text(must(t, r, "review"), "decision", "reason") != "mode_restricted" {
				t.Errorf("%s: %v", mode, r["decision"])
			}
			if _, r := d.send(a, M{"op": "view_file", "args": M{"path": "f"}}); (text(r, "status") == "done") != (mode == "auto") {
				t.Errorf("%s: a read: %v", mode, r["status"])
			}
		}
	})
	t.Run("limits of a profile are refusals, not cards", func(t *testing.T) {
		a := agent("limits", M{"profile": "small"})
		before := len(d.cards(""))
		for _, req := range []M{{"op": "write_file", "args": M{"path": "n", "content": "more than ten bytes"}}, {"op": "batch_file_ops", "args": M{"operations": []M{
			{"op": "write_file", "args": M{"path": "a", "content": "1"}}, {"op": "write_file", "args": M{"path": "b", "content": "2"}}}}}} {
			s, r := d.send(a, req)
			fails(t, s, r, 413, "too_large")
		}
		s, r := d.send(a, M{"op": "workspace_shell", "args": M{"command": "true", "timeout_ms": 3000}})
		fails(t, s, r, 400, "bad_request")
		_, r = d.send(a, M{"op": "write_file", "args": M{"path": "n", "content": "short"}})
		must(t, r, "done")
		if len(d.cards("")) != before {
			t.Error("a card was made")
		}
	})
	t.Run("the roots of a profile narrow those of a token", func(t *testing.T) {
		a := d.token(M{"name": "both", "role": "agent", "profile": "elsewhere"})
		_, r := d.send(a, M{"op": "view_file", "args": M{"path": "f"}})
		if text(must(t, r, "done"), "result", "content") != "two\n" {
			t.Errorf("got %v", r["result"])
		}
		s, r := d.send(a, M{"op": "view_file", "root": "ws", "args": M{"path": "f"}})
		fails(t, s, r, 404, "unknown_root")
		none := d.token(M{"name": "none", "role": "agent", "root": "ws", "profile": "elsewhere"})
		s, r = d.send(none, M{"op": "view_file", "args": M{"path": "f"}})
		fails(t, s, r, 404, "unknown_root")
	})
	t.Run("profiles by command line: an operator lists, makes, uses and removes", func(t *testing.T) {
		a := agent("handled", nil)
		for _, c := range [][]string{{"profile", "set", "ci", "require_approval=false", "allow_exec=false", "max_change=4096", "about=nightly jobs"}, {"profile", "use", "ci", "--agent", "handled"}} {
			if rc, out, errs := d.cli(c...); rc != 0 {
				t.Fatalf("%v: %d %s %s", c, rc, out, errs)
			}
		}
		if current(a) != "ci" {
			t.Error("not under ci")
		}
		if rc, out, _ := d.cli("profile", "list"); rc != 0 || !strings.Contains(out, "nightly jobs") || !strings.Contains(out, "handled") {
			t.Errorf("list: %d %s", rc, out)
		}
		if rc, out, _ := d.cli("profile", "show", "ci"); rc != 0 || !strings.Contains(out, "4096") {
			t.Errorf("show: %d %s", rc, out)
		}
		for words, want := range map[string]string{"remove ci": "exists", "remove web": "exists", "set web allow_read=false": "exists", "set default mode=deny": "exists", "set x mode=yolo": "bad_request",
			"set x allow_raed=true": "bad_request", "set x clearance=0": "bad_request", "remove none": "not_found", "use none --agent handled": "not_found"} {
			if rc, _, errs := d.cli(append([]string{"profile"}, strings.Fields(words)...)...); rc == 0 || !strings.Contains(errs, want) {
				t.Errorf("%s: %d %s", words, rc, errs)
			}
		}
		d.cli("profile", "use", "default", "--agent", "handled")
		if rc, out, errs := d.cli("profile", "remove", "ci"); rc != 0 || current(a) != "default" {
			t.Errorf("remove: %d %s %s", rc, out, errs)
		}
		if !strings.Contains(fmt.Sprint(d.records()), "profile_removed") {
			t.Error("the change of profiles is not on record")
		}
	})
}
