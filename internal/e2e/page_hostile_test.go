package e2e

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"holdpoint/internal/ports"
)

// TestPageHostile puts text that wants to be more than text into every field of a card
// that a caller or a file can fill, and looks at what the page makes of it.
func TestPageHostile(t *testing.T) {
	addr := ports.Addr(t)
	d := start(t, "--listen", addr)
	b := openBrowser(t, addr)
	get := func(path string, more ...string) (*http.Response, string) {
		t.Helper()
		req, _ := http.NewRequest("GET", "http://"+addr+path, nil)
		for i := 0; i+1 < len(more); i += 2 {
			req.Header.Set(more[i], more[i+1])
		}
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, _ := io.ReadAll(r.Body)
		return r, string(body)
	}
	t.Run("S67 (part) the page allows no inline script, no frame, no foreign host, and holds no data", func(t *testing.T) {
		r, body := get("/")
		csp := r.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("the policy lacks %s: %s", want, csp)
			}
		}
		if strings.Contains(csp, "unsafe") || strings.Contains(csp, "http:") || strings.Contains(csp, "*") {
			t.Errorf("the policy is wide: %s", csp)
		}
		if r.Header.Get("X-Frame-Options") != "DENY" || len(r.Header["Set-Cookie"]) > 0 || strings.Contains(body, d.Root) || strings.Contains(body, " style=") || strings.Contains(body, "onclick") {
			t.Errorf("got %v", r.Header)
		}
		if r, _ := get("/", "Origin", "http://evil.example"); r.StatusCode != 403 {
			t.Errorf("a foreign origin got %d", r.StatusCode)
		}
		if r, _ := get("/page/nothing.js"); r.StatusCode != 404 {
			t.Errorf("an unknown file got %d", r.StatusCode)
		}
	})
	const script = `<img src=x onerror="window.pwned=1"><script>window.pwned=1</script></script>"'><svg onload=window.pwned=1>`
	const hidden = "a\u200bb\u2060c\u00add\ufeffe\u180ef\u202eg\u2066h\u2069i"
	const terminal = "bad\r\x1b[2K   command: ls\x07\u009b31m"
	all := script + hidden + terminal + "[x](javascript:window.pwned=1) ![y](http://evil.example/p.png) ```\n# not a heading\n"
	name := "<img src=x onerror=window.pwned=1>\u202e\u200b.txt"
	write(t, filepath.Join(d.Root, name), all+"\n")
	_, del := d.http("POST", "/v1/call", d.Agent, M{"op": "delete_file", "args": M{"path": name}, "intent": all})
	_, put := d.http("POST", "/v1/call", d.Agent, M{"op": "write_file", "args": M{"path": name, "content": all + "more\n" + all}, "intent": all})
	must(t, del, "review")
	must(t, put, "review")
	b.signIn("#/")
	b.lists(2)
	calm := func(t *testing.T, where string) {
		t.Helper()
		if got := b.get(`window.pwned === undefined && !document.querySelector('#desk img, #desk script, #desk svg, #desk iframe, #desk a[href^="javascript"]')`); got != "true" {
			t.Errorf("%s: text became markup", where)
		}
		noHidden(t, where, b.get(`document.body.innerText + document.title + [...document.querySelectorAll('*')].flatMap((n) => [...n.attributes].map((a) => a.value)).join('\n')`))
	}
	t.Run("S67 scripts in names, diffs and intents are text", func(t *testing.T) {
		calm(t, "the list")
		for i, held := range []M{del, put} {
			b.to("#/approvals/" + text(held, "approval", "id"))
			b.shows([]string{"Delete 1 file", "Overwrite 1 file"}[i])
			b.shows(`<img src=x onerror="window.pwned=1">`)
			b.keys("e") // the exact call too
			calm(t, fmt.Sprint("card ", i))
			b.keys("d") // the other form of the diff
			calm(t, fmt.Sprint("card ", i, ", the other diff"))
		}
	})
	t.Run("S65 (part), S66 (part) what does not show is spelled out and marked", func(t *testing.T) {
		for _, want := range []string{`\u{200B}`, `\u{2060}`, `\u{00AD}`, `\u{FEFF}`, `\u{180E}`, `\u{202E}`, `\u{2066}`, `\u{001B}`, `\u{000D}`, `\u{009B}`} {
			b.shows(want)
		}
		if got := b.get(`document.querySelectorAll('#detail .inv').length > 10`); got != "true" {
			t.Error("they are not marked")
		}
		b.shows("hidden_characters")
	})
	t.Run("S67 (part), X36 (part) a person's words, too, come back as text", func(t *testing.T) {
		b.to("#/approvals/" + text(put, "approval", "id"))
		b.shows("Overwrite 1 file")
		b.fill("#words", `<script>window.pwned=1</script>`)
		b.click("#reject")
		b.shows("This card is rejected.")
		b.shows("<script>window.pwned=1</script>")
		calm(t, "the rejected card")
	})
	t.Run("S67 (part) hostile names in the history are text", func(t *testing.T) {
		must(t, d.approve(del), "done")
		b.to("#/history")
		b.lists(1)
		b.click("#list a.row")
		b.shows("deleted")
		calm(t, "the history")
	})
	t.Run("S64 (part) of a change of 9,000 lines the page shows head and tail, counts the rest, and gives all of it", func(t *testing.T) {
		var old, now strings.Builder
		for i := range 9000 {
			fmt.Fprintf(&old, "line %d\n", i)
			if i == 4500 {
				now.WriteString("THE BAD LINE\n")
			}
			fmt.Fprintf(&now, "Line %d\n", i)
		}
		write(t, filepath.Join(d.Root, "long.txt"), old.String())
		held := must(t, d.call("write_file", M{"path": "long.txt", "content": now.String()}), "review")
		b.to("#/approvals/" + text(held, "approval", "id"))
		b.shows("not shown here.")
		if got := b.get(`document.querySelector('.change .meta').textContent`); !strings.HasPrefix(got, "+9,001 −9,000") {
			t.Errorf("the change is counted as %q", got)
		}
		shown := b.get(`document.querySelectorAll('.diff tr').length`)
		if strings.Contains(b.get(`document.getElementById('detail').innerText`), "THE BAD LINE") {
			t.Fatal("it is shown at once: the case proves nothing")
		}
		b.run(`[...document.querySelectorAll('.diff .gap button')].pop().click()`)
		b.shows("THE BAD LINE")
		if got := b.get(`document.querySelector('.diff .gap') === null`); got != "true" {
			t.Error("a part is still not shown")
		}
		t.Logf("%s rows at first", shown)
		d.answer(held, "reject", "")
	})
	t.Run("S63 (part), I27 (part) a long list of lines shows the first, counts the rest and gives all", func(t *testing.T) {
		var items []any
		for i := range 60 {
			write(t, filepath.Join(d.Root, fmt.Sprintf("many/%02d.txt", i)), "x")
			items = append(items, M{"op": "delete_file", "args": M{"path": fmt.Sprintf("many/%02d.txt", i)}})
		}
		held := must(t, d.call("batch_file_ops", M{"operations": items}), "review")
		b.to("#/approvals/" + text(held, "approval", "id"))
		b.shows("not shown here.")
		b.shows("many/00.txt")
		b.run(`[...document.querySelectorAll('.items .gap button')].pop().click()`)
		for _, i := range []string{"25", "40", "59"} {
			b.shows("many/" + i + ".txt")
		}
	})
	hostileFields(t, d, b, calm)
	reachOnPage(t, d, b)
}
