package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// reachOnPage looks at cards that reach far, and at all that a card may hold.
func reachOnPage(t *testing.T, d *daemon, b *tab) {
	t.Run("S63 a delete of two names that take 1,900 files says so, lists the first and gives all, and one more makes it stale", func(t *testing.T) {
		for i := range 1900 {
			write(t, filepath.Join(d.Root, fmt.Sprintf("reach/%02d/%04d.o", i%20, i)), "12345")
		}
		write(t, filepath.Join(d.Root, "named.txt"), "x")
		if err := os.Symlink("00/0000.o", filepath.Join(d.Root, "reach/link")); err != nil {
			t.Fatal(err)
		}
		git := func(args ...string) {
			t.Helper()
			if out, err := exec.Command("git", append([]string{"-C", d.Root, "-c", "index.version=4"}, args...)...).CombinedOutput(); err != nil {
				t.Fatalf("git %v: %v\n%s", args, err, out)
			}
		}
		git("init", "-q")
		git("add", "reach/07")
		held := must(t, d.call("batch_file_ops", M{"operations": []M{item("delete_file", M{"path": "named.txt"}), item("delete_file", M{"path": "reach", "recursive": true})}}), "review")
		card := object(d.row(idOf(held))["card"])
		lines := fmt.Sprint(card["lines"])
		for _, want := range []string{"1,900 files, 20 directories, 1 other", "9500 bytes", "git tracks 95 of these 1902 files", "takes reach/link, symlink", "takes reach/19/1899.o, 5 bytes"} {
			if !strings.Contains(lines, want) {
				t.Errorf("the card lacks %q: %.300s", want, lines)
			}
		}
		if undo := text(card, "undo"); !strings.Contains(undo, "reversible") {
			t.Errorf("undo: %q", undo)
		}
		alone := must(t, d.call("delete_file", M{"path": "reach", "recursive": true}), "review")
		if got := text(object(d.row(idOf(alone))["card"]), "title"); got != "Delete 1 directory with 1,900 files, 20 directories, 1 other" {
			t.Errorf("title %q", got)
		}
		b.to("#/approvals/" + idOf(alone))
		b.shows("Delete 1 directory with 1,900 files")
		b.shows("git tracks 95 of these 1901 files")
		b.shows("takes reach/00/0000.o, 5 bytes")
		b.shows("not shown here.")
		if got := b.get(`document.querySelectorAll('.items li').length < 60 && !document.querySelector('.items').innerText.includes('reach/10/0910.o')`); got != "true" {
			t.Error("all of it is shown at once")
		}
		b.run(`[...document.querySelectorAll('.items .gap button')].pop().click()`)
		for _, i := range []int{0, 910, 1234, 1899} {
			b.shows(fmt.Sprintf("takes reach/%02d/%04d.o, 5 bytes", i%20, i))
		}
		if got := b.get(`document.querySelectorAll('.items li').length`); got != "1924" { // 1,900 + 20 + 1, the act, recursive, git
			t.Errorf("%s lines", got)
		}
		write(t, filepath.Join(d.Root, "reach/07/late.o"), "late")
		if r := d.approve(alone); code(r) != "stale_precondition" && text(r, "error", "code") != "stale_precondition" || !there(filepath.Join(d.Root, "reach/07/late.o")) {
			t.Errorf("got %v %v", r["status"], r["error"])
		}
		d.answer(held, "reject", "")
		if status, r := d.http("POST", "/v1/call", d.Agent, M{"op": "move_file", "args": M{"source": "named.txt", "destination": "reach"}}); code(r) != "exists" {
			t.Errorf("a move over a directory: %d %v", status, r["error"])
		}
	})
	t.Run("S64 a word of 20,000 bytes is on the card to its end, and no other card's digest approves it", func(t *testing.T) {
		long := strings.Repeat("0123456789", 2000) + "; touch c"
		held := must(t, d.call("workspace_shell", M{"command": "echo", "args": []any{long}}), "review")
		b.to("#/approvals/" + idOf(held))
		b.shows("Run echo")
		if got := b.get(`document.querySelector('article.card').innerText.replace(/\s/g, '')`); !strings.Contains(got, strings.ReplaceAll(long, " ", "")) {
			t.Errorf("the page does not show it whole: %d bytes", len(got))
		}
		if _, out, _ := d.cli("review", "show", idOf(held)); !strings.Contains(out, long) {
			t.Error("the terminal does not show it whole")
		}
		other := must(t, d.call("workspace_shell", M{"command": "echo", "args": []any{"0123456789"}}), "review")
		if _, r := d.http("POST", "/v1/approvals/"+idOf(held)+"/answer", d.reviewer(), M{"answer": "approve", "shown_digest": text(d.card(other), "shown_digest")}); code(r) != "stale_precondition" || d.state(idOf(held)) != "pending" {
			t.Errorf("got %v", r)
		}
		d.answer(held, "reject", "")
		d.answer(other, "reject", "")
	})
	t.Run("S68 every field of a program's card and of a change stands on the page", func(t *testing.T) {
		write(t, filepath.Join(d.Root, "real/x"), "x")
		if err := os.Symlink("real", filepath.Join(d.Root, "through")); err != nil {
			t.Fatal(err)
		}
		args := M{"command": "cat", "args": []any{"-", "a b"}, "stdin": "typed by nobody\n", "env": M{"FIRST": "1st", "SECOND": "2nd"}, "timeout_ms": 4321, "cwd": "through", "network": true}
		_, held := d.http("POST", "/v1/call", d.Agent, M{"op": "workspace_shell", "args": args, "session": "s-68", "intent": "the intent"})
		must(t, held, "review")
		b.to("#/approvals/" + idOf(held))
		b.shows("Run cat")
		shown := b.get(`document.querySelector('article.card').innerText`)
		for _, want := range []string{"cat", "a b", "typed by nobody", "FIRST", "1st", "SECOND", "2nd", "4.321", "through", "network", "the intent", "s-68", "agent", d.Root, "T3"} {
			if !strings.Contains(shown, want) && !(want == "4.321" && strings.Contains(shown, "4321")) {
				t.Errorf("the card lacks %q:\n%s", want, shown)
			}
		}
		// Whatever field a card has, in the daemon's own answer, is on the page or is one of those
		// that other fields tell.
		told := map[string]string{"id": "", "op": "", "title": "", "lines": "", "reasons": "", "tier": "", "diff": "", "undo": "", "intent": "", "agent": "", "session": "", "host": "", "dir": "",
			"root_name": "", "identity": "", "call": "", "warnings": "", "workflow": "", "reviewer_note": "", "expires_at": "counted down", "created_at": "as a date", "effect": "the badge", "mandatory": "the badge",
			"one_shot": "no box to remember", "needs": "the badge", "approved_by": "the badge", "drifted": "the badge", "state": "pending", "answered_by": "", "note": "",
			"shown_digest": "sent with the answer", "targets": "their paths are lines", "root": "its name and directory"}
		for name := range object(d.row(idOf(held))["card"]) {
			if _, known := told[name]; !known {
				t.Errorf("the card has a field %s that the page does not show", name)
			}
		}
		b.keys("e")
		b.shows(`"timeout_ms": 4321`)
		d.answer(held, "reject", "")
		write(t, filepath.Join(d.Root, "crlf.txt"), "a\r\nb\r\n")
		edit := must(t, d.call("write_file", M{"path": "crlf.txt", "content": "a\nb\n", "mode": "0755", "overwrite": true}), "review")
		b.to("#/approvals/" + idOf(edit))
		b.shows("Overwrite 1 file")
		for _, want := range []string{"eol_change", "0755", `\u{000D}`} {
			b.shows(want)
		}
		d.answer(edit, "reject", "")
	})
}
