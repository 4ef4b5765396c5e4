package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestForgetCards has the cards of held calls forgotten, in every state that they can be in.
func TestForgetCards(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	at := func(name string) string { return filepath.Join(d.Root, name) }
	const secret = "correct-horse-battery-staple-9135"
	body := strings.Repeat("padding of the file "+secret+"\n", 200)

	t.Run("forget PATH ends what every card showed of it, withdraws those that wait, and leaves no byte in the state directory", func(t *testing.T) {
		write(t, at("leak.txt"), "one\n")
		put := func(path string) M { return M{"path": path, "content": body} }
		executed := must(t, d.call("write_file", put("leak.txt")), "review")
		done := must(t, d.approve(executed), "done")
		rejected := must(t, d.call("write_file", M{"path": "leak.txt", "content": body + "more\n"}), "review")
		d.answer(rejected, "reject", "no")
		pending := must(t, d.call("delete_file", M{"path": "leak.txt"}), "review")
		edit := must(t, d.call("edit_file", M{"path": "leak.txt", "old_string": secret, "new_string": "gone", "replace_all": true, "backup": false}), "review")
		undo := d.undo(done) // its card shows the diff
		if undo["status"] == "review" {
			d.answer(undo, "reject", "")
		} else {
			must(t, undo, "done")
		}
		d.call("edit_file", M{"path": "leak.txt", "old_string": secret + "!", "new_string": "x"}) // no match: its hint quotes the file
		d.http("POST", "/v1/call", d.Agent, M{"op": "view_file", "args": M{"path": "leak.txt"}, "request_id": "kept"})
		other := must(t, d.call("write_file", M{"path": "keep.txt", "content": "kept\n"}), "done")
		waiting := must(t, d.call("delete_file", M{"path": "keep.txt"}), "review")
		os.Remove(at("leak.txt"))
		if len(holds(t, secret, d.State)) == 0 {
			t.Fatal("nothing to forget: the test shows nothing")
		}
		exit, out, errs := d.cli("--json", "forget", "leak.txt")
		if exit != 0 {
			t.Fatalf("exit %d: %s%s", exit, out, errs)
		}
		var got M
		if err := json.Unmarshal([]byte(out), &got); err != nil || len(got["approvals"].([]any)) < 4 {
			t.Errorf("it says %s", out)
		}
		if found := holds(t, secret, d.State); len(found) > 0 {
			t.Errorf("still in %v", found)
		}
		for _, c := range []struct {
			held  M
			state string
		}{{executed, "executed"}, {rejected, "rejected"}, {pending, "cancelled"}, {edit, "cancelled"}} {
			row := d.row(idOf(c.held))
			card := object(row["card"])
			if row["state"] != c.state || card["forgotten"] != true || !strings.Contains(fmt.Sprint(card["title"], card["lines"]), "forgotten") {
				t.Errorf("the card of a call that is %s: %v %v", c.state, row["state"], card)
			}
		}
		status, r := d.say(idOf(pending), "approve", "")
		if status == 200 || code(r) != "cancelled" || !strings.Contains(text(r, "error", "message"), "forgotten") {
			t.Errorf("an approval of what nobody can read: %d %v", status, r)
		}
		if exit, out, errs := d.cli("review", "show", idOf(executed)); exit != 0 || !strings.Contains(out, "forgotten") {
			t.Errorf("review show: %d %s%s", exit, out, errs)
		}
		if r := d.undo(done); code(r) != "undo_expired" && code(r) != "undo_consumed" {
			t.Errorf("its undo: %v", r)
		}
		// What was about something else is as it was.
		if c := d.card(waiting); c["forgotten"] != nil || len(words(c["lines"])) == 0 {
			t.Errorf("another card: %v", c)
		}
		must(t, d.approve(waiting), "done")
		if other["undo_credential"] == nil {
			t.Error("no credential")
		}
		if exit, out, errs := d.cli("verify"); exit != 0 {
			t.Errorf("verify: %d %s%s", exit, out, errs)
		}
		d.restart()
		d.operator()
		if c := object(d.row(idOf(executed))["card"]); c["forgotten"] != true {
			t.Errorf("after a restart: %v", c)
		}
	})

	t.Run("forget APPROVAL_ID ends one held call, and the output of the program that it ran", func(t *testing.T) {
		held := d.shell("for i in $(seq 20000); do echo " + secret + "; done")
		if held["status"] == "review" {
			must(t, d.approve(held), "done")
		}
		if len(holds(t, secret, d.State)) == 0 {
			t.Fatal("nothing to forget: the test shows nothing")
		}
		if exit, out, errs := d.cli("forget", idOf(held)); exit != 0 || !strings.Contains(out, "1 card") {
			t.Fatalf("exit %d: %s%s", exit, out, errs)
		}
		if found := holds(t, secret, d.State); len(found) > 0 {
			t.Errorf("still in %v", found)
		}
		if c := object(d.row(idOf(held))["card"]); c["forgotten"] != true {
			t.Errorf("the card: %v", c)
		}
		if exit, _, errs := d.cli("forget", "ap_nosuchapproval"); exit == 0 || !strings.Contains(errs, "not_found") && !strings.Contains(errs, "no operation") {
			t.Errorf("of none: %d %s", exit, errs)
		}
	})
}
