package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestCloser holds sentences of the checklist once more, by what stands in them besides the
// one example.
func TestCloser(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	at := func(p string) string { return filepath.Join(d.Root, p) }

	t.Run("C31 (part) a delete as item 50 of 50 is named on the card and in the identity", func(t *testing.T) {
		write(t, at("last"), "x")
		var ops []M
		for i := range 49 {
			ops = append(ops, M{"op": "write_file", "args": M{"path": fmt.Sprintf("n%02d", i), "content": "1"}})
		}
		held := must(t, d.call("batch_file_ops", M{"operations": append(ops, M{"op": "delete_file", "args": M{"path": "last"}})}), "review")
		if l := lines(d.card(held)); !strings.Contains(l, "50. delete file last") {
			t.Errorf("card: %s", l)
		}
		if id := text(held, "approval", "identity"); !strings.Contains(id, ",n48,last#blake3:") {
			t.Errorf("identity: %s", id)
		}
		d.cancel(held)
	})

	t.Run("C71 (part) a rule for a file does not cover the tree that stands at its path later", func(t *testing.T) {
		remember := func(held M) {
			t.Helper()
			id := text(held, "approval", "id")
			if status, r := d.http("POST", "/v1/approvals/"+id+"/answer", d.reviewer(), M{"answer": "approve", "remember": true, "shown_digest": text(d.card(held), "shown_digest")}); status != 200 {
				t.Fatalf("%d %v", status, r)
			}
		}
		del, move := M{"path": "p"}, M{"source": "p", "destination": "q"}
		write(t, at("p"), "x")
		remember(must(t, d.call("move_file", move), "review"))
		if err := os.Rename(at("q"), at("p")); err != nil {
			t.Fatal(err)
		}
		remember(must(t, d.call("delete_file", del), "review"))
		write(t, at("p"), "another")
		if r := must(t, d.call("delete_file", del), "done"); text(r, "decision", "reason") != "remembered_rule" {
			t.Fatalf("got %v", r["decision"])
		}
		write(t, at("p/deep/f"), "x")
		for op, args := range map[string]M{"delete_file": {"path": "p", "recursive": true}, "move_file": move} {
			d.cancel(must(t, d.call(op, args), "review"))
		}
		// And a rule for the tree is one for the tree.
		write(t, at("tree/deep/f"), "x")
		remember(must(t, d.call("delete_file", M{"path": "tree", "recursive": true}), "review"))
		write(t, at("tree/other"), "x")
		must(t, d.call("delete_file", M{"path": "tree", "recursive": true}), "done")
		if code, out, errs := d.cli("replay"); code != 0 {
			t.Errorf("replay exits %d: %s %s", code, out, errs)
		}
	})

	t.Run("C91, C97 (part) an undo lists as restored what it took away, and apart what it kept", func(t *testing.T) {
		if err := os.Mkdir(at("a"), 0o755); err != nil {
			t.Fatal(err)
		}
		made := must(t, d.call("create_directory", M{"path": "a/b/c"}), "done")
		write(t, at("a/b/mine"), "x")
		u := must(t, d.undo(made), "done")
		got := object(u["result"])
		if !reflect.DeepEqual(got["restored"], []any{"a/b/c"}) || !reflect.DeepEqual(got["kept"], []any{"a/b"}) || len(objects(u["effects"])) != 1 {
			t.Errorf("got %v, effects %v", got, u["effects"])
		}
		if read(t, at("a/b/mine")) != "x" {
			t.Error("the file is gone")
		}
		must(t, d.undo(u), "done") // back comes the one that went
		if _, err := os.Stat(at("a/b/c")); err != nil {
			t.Error(err)
		}
	})

	t.Run("C127 a program's purpose is on the card as the caller's words, made visible, and makes no other call", func(t *testing.T) {
		one := must(t, d.call("workspace_shell", M{"command": "true", "description": "to see \x1b[31m whether\u202e it runs"}), "review")
		card := d.card(one)
		if card["intent"] != "to see \\u{001B}[31m whether\\u{202E} it runs" {
			t.Errorf("card: %v", card["intent"])
		}
		two := must(t, d.call("workspace_shell", M{"command": "true", "description": "for another reason"}), "review")
		if text(one, "approval", "id") != text(two, "approval", "id") || text(one, "approval", "identity") != text(two, "approval", "identity") {
			t.Errorf("%v and %v", one["approval"], two["approval"])
		}
		if r := must(t, d.approve(one), "done"); number(object(r["result"])["exit_code"]) != 0 {
			t.Errorf("got %v", r["result"])
		}
		if r := d.call("workspace_shell", M{"command": "true", "description": strings.Repeat("x", 4097)}); code(r) != "too_large" || text(r, "error", "field") != "args.description" {
			t.Errorf("got %v", r["error"])
		}
		_, both := d.http("POST", "/v1/call", d.Agent, M{"op": "workspace_shell", "args": M{"command": "false", "description": "mine"}, "intent": "the user's"})
		if got := d.card(must(t, both, "review"))["intent"]; got != "the user's\nmine" {
			t.Errorf("with an intent too: %v", got)
		}
		d.cancel(both)
	})

	t.Run("I5, I72 (part) the same request again gets the same reply, byte for byte", func(t *testing.T) {
		write(t, at("again"), "x\n")
		write(t, at("src"), "x\n")
		for id, req := range map[string]M{
			"edit":  {"op": "edit_file", "args": M{"path": "again", "old_string": "x", "new_string": "xx"}},
			"write": {"op": "write_file", "args": M{"path": "new", "content": "1\n"}},
			"patch": {"op": "patch_file", "args": M{"patch": "--- /dev/null\n+++ b/new2\n@@ -0,0 +1 @@\n+x\n"}},
			"copy":  {"op": "copy_file", "args": M{"source": "src", "destination": "new3"}},
			"dir":   {"op": "create_directory", "args": M{"path": "dir"}},
			"fails": {"op": "edit_file", "args": M{"path": "again", "old_string": "nowhere", "new_string": "y"}},
			"waits": {"op": "delete_file", "args": M{"path": "a", "recursive": true}, "session": "s"},
		} {
			req["request_id"] = id
			_, first := d.http("POST", "/v1/call", d.Agent, req)
			_, second := d.http("POST", "/v1/call", d.Agent, req)
			if !reflect.DeepEqual(first, second) {
				t.Errorf("%s:\n%v\n%v", id, first, second)
			}
			if slices.Contains([]string{"edit", "write", "patch"}, id) && text(second, "result", "diff") == "" {
				t.Errorf("%s: no diff in %v", id, second["result"])
			}
		}
		if got := read(t, at("again")); got != "xx\n" {
			t.Errorf("the edit ran twice: %q", got)
		}
	})

	t.Run("I98 (part) a second answer is told so, with and without the card's digest", func(t *testing.T) {
		write(t, at("once"), "x")
		held := must(t, d.call("delete_file", M{"path": "once"}), "review")
		must(t, d.answer(held, "reject", ""), "refused")
		path := "/v1/approvals/" + text(held, "approval", "id") + "/answer"
		for _, digest := range []string{"", "blake3:0", text(d.card(held), "shown_digest")} {
			if status, r := d.http("POST", path, d.reviewer(), M{"answer": "approve", "shown_digest": digest}); status != 409 || code(r) != "already_answered" {
				t.Errorf("%q: %d %v", digest, status, r["error"])
			}
		}
		if read(t, at("once")) != "x" {
			t.Error("it was deleted")
		}
	})
}
