package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

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
	t.Run("S65 (part), S66 (part), S67 (part) hostile text in every field that the page is given is shown as text, whoever filled it", func(t *testing.T) {
		b.to("#/")
		b.do("reload", chromedp.Reload())
		b.visible("#passphrase")
		b.run(planting)
		quoted, _ := json.Marshal(bad)
		b.run("planting(" + string(quoted) + ")")
		defer b.run(`window.fetch = window.realFetch`)
		must(t, d.call("create_directory", M{"path": "for/the/log"}), "done")
		b.fill("#passphrase", passphrase+"\r")
		b.waits("the list is planted", `document.querySelector('#list .title')?.innerText.includes('onerror')`)
		calm(t, "the list with every field hostile")
		fields := func() string { return b.get(`[...window.planted].sort().join(' ')`) }
		for _, held := range cards {
			b.to("#/approvals/" + idOf(held))
			b.waits("the card is planted", `document.querySelector('article.card[data-id="`+idOf(held)+`"] h2')?.innerText.includes('onerror')`)
			b.keys("e")
			calm(t, "a card with every field hostile")
		}
		b.to("#/history")
		b.waits("the history is planted", `document.querySelector('#list .meta')?.innerText.includes('onerror')`)
		calm(t, "the history with every field hostile")
		b.click("#list a.row")
		b.waits("the operation is planted", `document.querySelector('#detail h2') && document.getElementById('detail').innerText.includes('onerror')`)
		calm(t, "an operation with every field hostile")
		for _, want := range []string{"agent", "call", "diff", "dir", "host", "identity", "intent", "lines", "message", "path", "root_name", "sentence", "session", "title", "undo"} {
			if !strings.Contains(" "+fields()+" ", " "+want+" ") {
				t.Errorf("%s was not planted, only %s", want, fields())
			}
		}
	})
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

// planting is a script that puts hostile text behind every text of what the daemon answers,
// but for the words that the page steers by; a card also gets the fields that it lacks.
const planting = `window.planted = new Set();
window.planting = (bad) => {
  window.realFetch = window.realFetch || window.fetch;
  const kept = ['id', 'state', 'effect', 'created_at', 'expires_at', 'time', 'expires', 'shown_digest', 'root', 'approval_id', 'operation_id', 'next', 'kind', 'which', 'role'];
  const plant = (v, key) => {
    if (typeof v === 'string') { if (kept.includes(key)) return v; window.planted.add(key); return v + bad; }
    if (Array.isArray(v)) return v.map((x) => plant(x, key));
    if (v === null || typeof v !== 'object') return v;
    if ('shown_digest' in v) for (const k of ['session', 'workflow', 'reviewer_note', 'drifted', 'host', 'dir']) v[k] = v[k] || 'lacking';
    if ('shown_digest' in v) v.warnings = (v.warnings || []).concat([{ code: 'planted', message: 'planted' }]);
    return Object.fromEntries(Object.entries(v).map(([k, x]) => [k, plant(x, key === 'call' ? key : k)]));
  };
  window.fetch = async (path, options) => {
    const r = await window.realFetch(path, options);
    if (!/\/v1\/(approvals|operations|status)/.test(path) || !r.ok) return r;
    return new Response(JSON.stringify(plant(await r.json(), '')), { status: r.status, headers: r.headers });
  };
};`
