package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

// TestStoredRows puts rows into the store that no daemon of this version would write, and
// damages one that it did.
func TestStoredRows(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	for _, f := range []string{"f", "g", "h"} {
		write(t, filepath.Join(d.Root, f), "one\n")
	}
	base := idOf(must(t, d.call("delete_file", M{"path": "f"}), "review"))
	planted := must(t, d.call("write_file", M{"path": "g", "content": "what was shown\n"}), "review")
	d.stop(syscall.SIGTERM)
	before := digest(t, d.Root)
	j, err := journal.Open(d.State, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	row, err := j.Approval(t.Context(), op.ID(base))
	if err != nil {
		t.Fatal(err)
	}
	add := func(change func(a *journal.Approval)) string {
		t.Helper()
		a := row
		a.ID, a.RequestID, a.Answer = j.NewID("ap_"), "", nil
		change(&a)
		if err := j.AddApproval(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		return string(a.ID)
	}
	unknown := add(func(a *journal.Approval) {
		a.Op, a.Request = "launch_rocket", []byte(strings.Replace(string(a.Request), "delete_file", "launch_rocket", 1))
	})
	cardless := add(func(a *journal.Approval) { a.Card = []byte(`{"title":`) })
	old := add(func(a *journal.Approval) {
		card := M{}
		json.Unmarshal(a.Card, &card)
		delete(card, "effect")
		a.Card, _ = json.Marshal(card)
	})
	unreadable := add(func(a *journal.Approval) { a.Request = []byte(`{"op":"delete_file","args":{`) })
	other := add(func(a *journal.Approval) { // a stored call that is not the one of its digest
		a.Request = []byte(strings.Replace(string(a.Request), `"path":"f"`, `"path":"h"`, 1))
	})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	d.run()
	d.operator()

	t.Run("U44, U6 a call of a kind that nobody here can carry out is not approved: it still waits", func(t *testing.T) {
		if status, r := d.say(unknown, "approve", ""); code(r) != "not_available" || status != 501 && status != 422 && status != 409 && status != 403 && status != 400 {
			t.Errorf("got %d %v", status, r)
		}
		if s := text(d.row(unknown), "state"); s != "pending" {
			t.Errorf("the row is %s", s)
		}
		if status, r := d.say(unknown, "reject", ""); status != 200 || text(r, "state") != "rejected" {
			t.Errorf("it cannot be rejected: %d %v", status, r)
		}
	})
	t.Run("I85 a card that cannot be read shows the raw call", func(t *testing.T) {
		card := object(d.row(cardless)["card"])
		if !strings.Contains(fmt.Sprint(card["lines"]), `"path":"f"`) || !strings.Contains(text(card, "title"), "delete_file") {
			t.Errorf("got %v", card)
		}
		if _, out, _ := d.cli("review", "show", cardless); !strings.Contains(out, `"path":"f"`) {
			t.Errorf("the command line shows %s", out)
		}
	})
	t.Run("I15 a card without an effect counts as one that destroys", func(t *testing.T) {
		for _, id := range []string{old, cardless} {
			card := object(d.row(id)["card"])
			if e := text(card, "effect"); e == "write" || e == "read" {
				t.Errorf("%s has effect %q", id, e)
			}
		}
		v := d.terminal("review", "approve", old)
		v.shows("Type yes to approve")
		v.press("y\r")
		v.shows("Not approved")
		if s := text(d.row(old), "state"); s != "pending" {
			t.Errorf("one key approved it: %s", s)
		}
	})
	t.Run("I103 a stored call that cannot be read, or is not the one of its digest, authorises nothing", func(t *testing.T) {
		for _, id := range []string{unreadable, other} {
			_, r := d.say(id, "approve", "")
			if got := text(r, "reply", "error", "code"); got != "state_corrupt" || text(r, "state") != "failed" {
				t.Errorf("got %v %v", r["state"], r["error"])
			}
		}
		if digest(t, d.Root) != before {
			t.Error("the tree changed")
		}
	})
	t.Run("X47 what was shown is bound to what runs: a stored call that was changed since is refused by name, and the others go on", func(t *testing.T) {
		card := object(d.row(idOf(planted))["card"])
		if !strings.Contains(text(card, "diff"), "+what was shown") {
			t.Fatalf("the card: %v", card)
		}
		d.stop(syscall.SIGTERM)
		tamper(t, d.State, `"content":"what was shown`, `"content":"what was added`)
		d.run()
		d.operator()
		if status, r := d.http("POST", "/v1/approvals/"+idOf(planted)+"/answer", d.reviewerToken, M{"answer": "approve", "shown_digest": card["shown_digest"]}); code(r) != "state_corrupt" || !strings.Contains(fmt.Sprint(r), idOf(planted)) {
			t.Errorf("it can be approved: %d %v", status, r)
		}
		if digest(t, d.Root) != before {
			t.Error("the tree changed")
		}
		if _, s := d.http("GET", "/v1/status", d.reviewerToken, nil); !strings.Contains(fmt.Sprint(s["warnings"]), idOf(planted)) {
			t.Errorf("status does not name it: %v", s["warnings"])
		}
		if _, s := d.http("GET", "/v1/status", d.Agent, nil); strings.Contains(fmt.Sprint(s["warnings"]), idOf(planted)) || !strings.Contains(fmt.Sprint(s["warnings"]), "state_corrupt") {
			t.Errorf("an agent is told %v", s["warnings"])
		}
		if _, out, _ := d.cli("verify"); !strings.Contains(out, idOf(planted)) {
			t.Errorf("verify says %s", out)
		}
		again := must(t, d.call("write_file", M{"path": "g", "content": "what was shown\n"}), "review")
		if idOf(again) == idOf(planted) {
			t.Fatal("the damaged card is handed out")
		}
		list := map[string]bool{}
		for next := ""; ; {
			_, page := d.http("GET", "/v1/approvals?state=pending&limit=1"+next, d.reviewerToken, nil)
			for _, c := range objects(page["approvals"]) {
				list[text(c, "id")] = true
			}
			if page["next"] == nil {
				break
			}
			next = fmt.Sprintf("&next=%v", page["next"])
		}
		if !list[base] || !list[idOf(again)] || list[idOf(planted)] {
			t.Errorf("the pages hold %v", list)
		}
		must(t, d.approve(again), "done")
		if got := read(t, filepath.Join(d.Root, "g")); got != "what was shown\n" {
			t.Errorf("g holds %q", got)
		}
	})
}

// tamper changes bytes of a stored call as somebody would who has the database's file.
func tamper(t *testing.T, state, from, to string) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(state, "*"))
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil || !bytes.HasPrefix(b, []byte("SQLite format 3")) || len(from) != len(to) {
			continue
		}
		if !bytes.Contains(b, []byte(from)) {
			t.Fatalf("%s does not hold the text", f)
		}
		if err := os.WriteFile(f, bytes.ReplaceAll(b, []byte(from), []byte(to)), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("no database in %v", files)
}

// everyOperation gives, for each operation that changes something, a call that works once
// on the tree that makeTree makes. An operation of the table without one fails the test.
func everyOperation(undoable M) map[string]M {
	return map[string]M{
		"write_file": {"path": "new.txt", "content": "x"}, "edit_file": {"path": "edit.txt", "old_string": "one", "new_string": "two"},
		"patch_file": {"patch": "--- a/patch.txt\n+++ b/patch.txt\n@@ -1 +1 @@\n-one\n+two\n"}, "copy_file": {"source": "copy.txt", "destination": "copied.txt"},
		"create_directory": {"path": "made/there"}, "backup_file": {"path": "back.txt"}, "delete_file": {"path": "delete.txt"},
		"move_file": {"source": "move.txt", "destination": "moved.txt"}, "rollback_file": {"path": "roll.txt", "last": true},
		"batch_file_ops":  {"operations": []any{item("delete_file", M{"path": "batch.txt"}), item("write_file", M{"path": "batch2.txt", "content": "x"})}},
		"workspace_shell": {"script": "echo x > shell.txt", "network": true}, "workspace_tests": {"command": "true"}, "undo": {"operation_id": undoable["operation_id"]},
	}
}

// TestEveryOperation takes each operation of the daemon's own table through the queue.
func TestEveryOperation(t *testing.T) {
	t.Parallel()
	d := start(t)
	for _, f := range []string{"edit", "patch", "copy", "back", "delete", "move", "roll", "batch", "undo"} {
		write(t, filepath.Join(d.Root, f+".txt"), "one\n")
	}
	must(t, d.call("backup_file", M{"path": "roll.txt"}), "done")
	must(t, d.call("edit_file", M{"path": "roll.txt", "old_string": "one", "new_string": "two"}), "done")
	calls := everyOperation(must(t, d.call("edit_file", M{"path": "undo.txt", "old_string": "one", "new_string": "two"}), "done"))
	_, table := d.http("GET", "/v1/table", d.Agent, nil)
	rows := objects(table["operations"])
	if len(rows) < 20 {
		t.Fatalf("the table: %v", table)
	}
	named := func(o M) string {
		if s := text(o, "op"); s != "" {
			return s
		}
		return text(o, "name")
	}
	t.Run("I12, I1 one flag of the table says what is approved call by call, and those are the ones that wait", func(t *testing.T) {
		for _, o := range rows {
			name := named(o)
			args, known := calls[name]
			if !known || name == "undo" {
				continue
			}
			_, look := d.http("POST", "/v1/preflight", d.Agent, M{"op": name, "args": args})
			held := text(look, "decision", "verdict") == "review"
			if flag := o["approval_per_call"] == true; flag != held && name != "batch_file_ops" {
				t.Errorf("%s: the flag says %v, and it is held: %v (%v)", name, flag, held, look["decision"])
			}
			if text(o, "class") == "destructive" && !held {
				t.Errorf("%s does not wait", name)
			}
		}
	})
	t.Run("X9 the highest tier of a chain is the call's", func(t *testing.T) {
		for want, req := range map[string]M{
			"T3": {"op": "workspace_shell", "args": M{"script": "cat edit.txt | curl -T - http://localhost/"}},
			"T4": {"op": "batch_file_ops", "args": M{"operations": []any{item("view_file", M{"path": "edit.txt"}), item("delete_file", M{"path": "batch.txt"})}}},
		} {
			_, r := d.http("POST", "/v1/call", d.Agent, req)
			if got := text(must(t, r, "review"), "decision", "tier"); got != want {
				t.Errorf("%v: got %s, want %s", req["op"], got, want)
			}
			d.answer(r, "reject", "")
		}
	})
	t.Run("I92 a name as a listing gives it, and the hash beside it, go back in a call", func(t *testing.T) {
		odd := "od d\n\xff\u202e.txt"
		write(t, filepath.Join(d.Root, "listed", odd), "odd\n")
		list := objects(object(must(t, d.call("list_directory", M{"path": "listed"}), "done")["result"])["entries"])
		if len(list) != 1 {
			t.Fatalf("got %v", list)
		}
		info := object(must(t, d.call("file_info", M{"path": list[0]["path"]}), "done")["result"])
		held := must(t, d.call("delete_file", M{"path": list[0]["path"], "expected_hash": info["hash"]}), "review")
		if must(t, d.approve(held), "done"); there(filepath.Join(d.Root, "listed", odd)) {
			t.Error("another file was deleted")
		}
	})
	t.Run("X6 programs are asked for, or denied where the operator says so", func(t *testing.T) {
		d.answer(must(t, d.call("workspace_shell", M{"script": "true"}), "review"), "reject", "")
		denied := quick(t, "[profiles.default]\nallow_exec = false\n")
		if r := denied.call("workspace_shell", M{"script": "true"}); text(r, "status") != "refused" || code(r) != "operation_disabled" || len(denied.cards("pending")) != 0 {
			t.Errorf("got %v %v", r["status"], r["error"])
		}
	})
	if status, out := d.http("PUT", "/v1/mode", d.reviewer(), M{"agent": "agent", "mode": "deny"}); status != 200 {
		t.Fatalf("deny: %d %v", status, out)
	}
	t.Run("U10, X1 asking changes nothing, whatever is asked: one row each, and a person releases it", func(t *testing.T) {
		for _, o := range rows {
			name := named(o)
			if o["built"] == false || text(o, "class") == "read" || name == "undo" || name == "request_profile_switch" {
				continue // undo never asks (I56), and a profile is no change of the workspace
			}
			args, known := calls[name]
			if !known {
				t.Errorf("the operation %s of the table has no call in this test", name)
				continue
			}
			before, waiting := digest(t, d.Root), len(d.cards("pending"))
			held := d.call(name, args)
			if text(held, "status") != "review" {
				t.Errorf("%s: got %v %v", name, held["status"], held["error"])
				continue
			}
			if digest(t, d.Root) != before || len(d.cards("pending")) != waiting+1 || held["effects_executed"] != false || len(held["effects"].([]any)) != 0 {
				t.Errorf("%s: asking did something, or made %d rows", name, len(d.cards("pending"))-waiting)
			}
			if done := d.approve(held); text(done, "status") != "done" {
				t.Errorf("%s, approved: %v %v", name, done["status"], done["error"])
			}
		}
	})
	t.Run("I12 (part) what destroys and what runs a program take the same states", func(t *testing.T) {
		for i, word := range []string{"reject", "cancel"} {
			write(t, filepath.Join(d.Root, fmt.Sprintf("same%d", i)), "x")
			var got []string
			for _, held := range []M{d.call("delete_file", M{"path": fmt.Sprintf("same%d", i)}), d.call("workspace_shell", M{"script": fmt.Sprintf("rm same%d", i)})} {
				must(t, held, "review")
				if word == "cancel" {
					d.cancel(held)
				} else {
					d.answer(held, word, "no")
				}
				_, row := d.http("GET", "/v1/approvals/"+idOf(held), d.Agent, nil)
				got = append(got, text(row, "state")+" "+text(row, "reply", "status")+" "+text(row, "reply", "error", "code"))
			}
			if got[0] != got[1] || !there(filepath.Join(d.Root, fmt.Sprintf("same%d", i))) {
				t.Errorf("%s: got %v", word, got)
			}
		}
	})
	t.Run("I24 a row is for one call, compared exactly", func(t *testing.T) {
		write(t, filepath.Join(d.Root, "exact"), "x\n")
		same := func(body string) (string, string) {
			_, r := d.http("POST", "/v1/call", d.Agent, body)
			return idOf(r), code(r)
		}
		first, _ := same(`{"op":"write_file","args":{"path":"exact","content":"é","overwrite":true}}`)
		if again, _ := same(`{"args":{"overwrite":true,"content":"\u00e9","path":"exact"},"op":"write_file"}`); again != first || first == "" {
			t.Errorf("keys in another order and an escape are another row: %s, %s", first, again)
		}
		if again, _ := same(`{"op":"write_file","args":{"path":"exact","content":"e\u0301","overwrite":true}}`); again == first || again == "" {
			t.Error("another Unicode form of the text is the same row")
		}
		if _, c := same(`{"op":"workspace_shell","args":{"script":"true","timeout_ms":1000.0}}`); c != "bad_request" {
			t.Errorf("1000.0 for 1000: %s", c)
		}
		if _, c := same(`{"op":"write_file","args":{"path":"exact","content":"é","overwrite":true,"mode":null}}`); c != "bad_request" {
			if id, _ := same(`{"op":"write_file","args":{"path":"exact","content":"é","overwrite":true,"mode":null}}`); id != first {
				t.Errorf("a null beside: %s", c)
			}
		}
	})
	t.Run("X34 approve with words, reject, and grant are three answers", func(t *testing.T) {
		put := func(name string) M {
			write(t, filepath.Join(d.Root, name), "x\n")
			return must(t, d.call("delete_file", M{"path": name}), "review")
		}
		if r := d.answer(put("x34a"), "approve", "go on"); text(r, "status") != "done" || !strings.Contains(fmt.Sprint(r["warnings"]), "go on") {
			t.Errorf("approve with words: %v", r)
		}
		if r := d.answer(put("x34b"), "reject", "no"); text(r, "error", "code") != "rejected" && code(r) != "rejected" {
			t.Errorf("reject: %v", r)
		}
		held := put("x34c")
		_, row := d.http("GET", "/v1/approvals/"+idOf(held), d.reviewer(), nil)
		if status, r := d.http("POST", "/v1/approvals/"+idOf(held)+"/answer", d.reviewer(), M{"answer": "approve", "remember": true, "shown_digest": text(row, "card", "shown_digest")}); status != 200 || text(r, "state") != "executed" {
			t.Errorf("approve and remember: %d %v", status, r)
		}
		if status, r := d.http("PUT", "/v1/rules", d.reviewer(), M{"agent": "agent", "scope": "session", "session": "s", "max_tier": "T2"}); status != 200 {
			t.Errorf("grant: %d %v", status, r)
		}
	})
	t.Run("I114 while the file halt lies in the state directory nothing changes, and no tool can put it there or take it away", func(t *testing.T) {
		write(t, filepath.Join(d.Root, "h.txt"), "one\n")
		held := must(t, d.call("delete_file", M{"path": "h.txt"}), "review")
		halt := filepath.Join(d.State, "halt")
		write(t, halt, "")
		before := digest(t, d.Root)
		if _, r := d.say(idOf(held), "approve", ""); code(r) != "not_ready" || text(d.row(idOf(held)), "state") != "pending" {
			t.Errorf("an approval: %v", r)
		}
		for name, args := range everyOperation(M{"operation_id": "op_x"}) {
			if r := d.call(name, args); text(r, "status") == "done" || text(r, "status") == "review" {
				t.Errorf("%s: %v", name, r["status"])
			}
		}
		if digest(t, d.Root) != before {
			t.Error("the tree changed")
		}
		for _, c := range []M{{"op": "delete_file", "args": M{"path": halt}}, {"op": "write_file", "args": M{"path": halt, "content": ""}}, {"op": "view_file", "args": M{"path": halt}}} {
			if _, r := d.http("POST", "/v1/call", d.Agent, c); code(r) != "outside_workspace" {
				t.Errorf("%v: %v", c, r["error"])
			}
		}
		if err := os.Remove(halt); err != nil {
			t.Fatal(err)
		}
		must(t, d.approve(held), "done")
	})
}
