package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdpoint/op"
)

// hostileFields puts hostile text into each further field of a card that a caller, a file
// name or a person can fill, and looks at page, terminal and command line.
func hostileFields(t *testing.T, d *daemon, b *tab, calm func(t *testing.T, where string)) {
	const bad = "<img src=x onerror=window.pwned=1>\u202e\u200b\u2066\u00ad\ufeff\x1b[2K\r\x07\u009b31m```"
	file := "bad\u202e\u200b\x1b[2K\r.sh"
	write(t, filepath.Join(d.Root, file), "echo "+bad+"\n")
	if err := os.Symlink(file, filepath.Join(d.Root, "by\u2067link")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(d.Root, "dir\u200f<b>"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(d.Root, "dir\u200f<b>", "in\u202eside<script>"), "x")
	ask := func(op string, args M) M {
		_, r := d.http("POST", "/v1/call", d.Agent, M{"op": op, "args": args, "intent": bad})
		return must(t, r, "review")
	}
	cards := map[string]M{
		"words, environment, input and directory of a program": ask("workspace_shell", M{"command": "echo", "args": []any{bad, "x" + bad}, "env": M{"NAME": bad}, "stdin": bad, "cwd": "dir\u200f<b>"}),
		"a script":                       ask("workspace_shell", M{"script": "echo '" + bad + "'\n# " + bad}),
		"a script by its file":           ask("workspace_shell", M{"command": "sh", "args": []any{file}}),
		"a link, its name and target":    ask("write_file", M{"path": "by\u2067link", "content": bad}),
		"a directory and what is in it":  ask("delete_file", M{"path": "dir\u200f<b>", "recursive": true}),
		"both names of a move":           ask("move_file", M{"source": op.Escape(file), "destination": op.Escape("to\u202a" + file)}),
		"the items of a batch":           ask("batch_file_ops", M{"operations": []M{item("delete_file", M{"path": op.Escape(file)}), item("write_file", M{"path": op.Escape("new" + file), "content": bad})}}),
		"a label and the words of a key": ask("write_file", M{"path": op.Escape(file), "content": bad + "\n" + bad, "overwrite": true}),
	}
	for name, held := range cards {
		t.Run("S65 (part), S66 (part), S67 (part) hostile text in "+name+" is shown as text on page, terminal and command line", func(t *testing.T) {
			b.to("#/approvals/" + idOf(held))
			b.shows("They asked")
			b.keys("e")
			calm(t, "the page")
			if shown := b.get(`document.querySelector('article.card').innerText`); !strings.Contains(shown, `\u{202E}`) && !strings.Contains(shown, `\u{200F}`) && !strings.Contains(shown, `\u{2067}`) {
				t.Errorf("the page hides what does not show: %.300s", shown)
			}
			for _, args := range [][]string{{"review", "show", idOf(held)}, {"review", "show", idOf(held), "--exact"}, {"review", "show", idOf(held), "--json"}} {
				exit, out, errs := d.cli(args...)
				if exit != 0 || len(out) < 100 {
					t.Errorf("%v: exit %d, %s", args, exit, errs)
				}
				noHidden(t, strings.Join(args, " "), out)
			}
		})
	}
	t.Run("S66 (part) the lists and the log of the command line", func(t *testing.T) {
		d.answer(cards["both names of a move"], "approve", bad)
		d.answer(cards["a script"], "reject", bad)
		for _, args := range [][]string{{"review", "list"}, {"review", "list", "--state", "all"}, {"review", "list", "--json", "--state", "all"}, {"log"}, {"log", "--json"}, {"review", "show", idOf(cards["a script"])}, {"audit", "tail"}} {
			exit, out, errs := d.cli(args...)
			if exit != 0 || out == "" {
				t.Errorf("%v: exit %d, %s", args, exit, errs)
			}
			noHidden(t, strings.Join(args, " "), out)
		}
	})
	t.Run("S65 (part), S66 (part) the whole list on a terminal", func(t *testing.T) {
		v := d.terminal("review")
		v.shows("Waiting for a person")
		for range len(d.cards("pending")) {
			v.press("\r")
			v.shows("asked by")
			noHidden(t, "the terminal", strings.ReplaceAll(v.text(), "\r", ""))
			v.press("\x7f") // back
			v.shows("Waiting for a person")
			v.press("j")
		}
	})
	for _, held := range cards {
		if d.state(idOf(held)) == "pending" {
			d.answer(held, "reject", "")
		}
	}
}
