//go:build shots

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"holdpoint/internal/ports"
)

// TestShots writes pictures of the review page into the directory HOLDPOINT_SHOTS: at two
// widths, light and dark, over TLS; the narrow one is a phone that is paired. make shots runs it; among the tests of every day it has nothing to prove.
func TestShots(t *testing.T) {
	dir := os.Getenv("HOLDPOINT_SHOTS")
	if dir == "" {
		t.Fatal("HOLDPOINT_SHOTS names no directory")
	}
	addr := ports.Addr(t)
	root, state := dirs(t)
	ws := filepath.Join(filepath.Dir(root), "shop")
	if err := os.Rename(root, ws); err != nil {
		t.Fatal(err)
	}
	cert, key := filepath.Join(filepath.Dir(state), "tls.pem"), filepath.Join(filepath.Dir(state), "tls.key")
	certify(t, cert, key, 1, "localhost")
	d := startOn(t, ws, state, nil, "--listen", addr, "--tls-cert", cert, "--tls-key", key)
	source := "package prices\n\nimport \"math\"\n\n// Total adds up a basket in cents.\nfunc Total(items []Item) int {\n\tsum := 0\n\tfor _, i := range items {\n\t\tsum += i.Cents\n\t}\n\treturn sum\n}\n"
	write(t, filepath.Join(ws, "src/prices.go"), source)
	write(t, filepath.Join(ws, "build/old-release.tar"), "bytes of an old release")
	write(t, filepath.Join(ws, "README.md"), "# Shop\n\nPrices in cents.\n")
	must(t, d.call("edit_file", M{"path": "README.md", "old_string": "cents", "new_string": "euro cents"}), "done")
	changed := strings.Replace(strings.Replace(source, "sum += i.Cents", "sum += i.Cents * i.Count", 1), "return sum\n", "return int(math.Max(0, float64(sum))) // \u202etnuocsid on\u202c \n", 1)
	held := func(op string, args M, intent string) string {
		_, out := d.http("POST", "/v1/call", d.Agent, M{"op": op, "args": args, "intent": intent, "session": "fix-prices"})
		return text(must(t, out, "review"), "approval", "id")
	}
	card := held("write_file", M{"path": "src/prices.go", "content": changed}, "Count every item of the basket, and never charge less than nothing.")
	gone := held("delete_file", M{"path": "build", "recursive": true}, "Free some space: the old builds are not needed any more.")
	held("write_file", M{"path": ".github/workflows/ci.yml", "content": "on: push\n"}, "")
	var notes []string
	for i := range 9 {
		name := fmt.Sprintf("notes/%02d.md", i)
		write(t, filepath.Join(ws, name), "note\n")
		notes = append(notes, held("delete_file", M{"path": name}, "Tidy up the notes."))
	}
	b := openBrowser(t, addr, "ignore-certificate-errors")
	_, port, _ := strings.Cut(addr, ":")
	b.at = "https://localhost:" + port // an address has no passkeys
	b.authenticator()
	shot := func(name string) {
		time.Sleep(250 * time.Millisecond)
		ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
		defer cancel()
		png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct {
		name          string
		width, height int64
	}{{"1280", 1280, 900}, {"390", 390, 844}} {
		for i, theme := range []string{"light", "dark"} {
			at := v.name + "-" + theme
			b.size(v.width, v.height)
			b.do("open", chromedp.Navigate("about:blank"), chromedp.Navigate(b.at+"/"))
			b.run(fmt.Sprintf(`localStorage.setItem('theme', %q)`, theme))
			b.do("again", chromedp.Reload())
			b.visible("#passphrase")
			shot("login-" + at)
			if v.name == "390" {
				d.reviewerToken = "" // who pairs has just signed in
				_, got := d.http("POST", "/v1/pair", d.reviewer(), M{"name": "ada-phone"})
				b.do("the link", chromedp.Navigate("about:blank"), chromedp.Navigate(text(got, "url")))
				b.visible("#login-form button")
				shot("pair-" + at)
				b.click("#login-form button")
			} else {
				b.fill("#passphrase", passphrase+"\r")
			}
			b.lists(3 + len(notes))
			shot("list-" + at)
			b.to("#/approvals/" + card)
			b.visible("#approve")
			shot("card-" + at)
			b.to("#/approvals/" + gone)
			b.shows("build")
			b.click("#approve")
			b.visible("#confirm")
			shot("confirm-" + at)
			b.click("#who")
			if i == 0 {
				b.click("#register")
			}
			b.waits("a passkey is listed", `document.querySelectorAll('#mine-keys li').length === 1`)
			shot("passkey-" + at)
			b.click("#mine-close")
			b.to("#/approvals/" + notes[0])
			b.shows("notes/")
			b.click("#approve")
			b.click("#confirm")
			b.shows("with a passkey")
			shot("signed-" + at)
			notes = notes[1:]
			b.to("#/history")
			b.waits("history is listed", `document.querySelector('#list li:last-child .title')?.textContent === 'Edit README.md'`)
			b.click("#list li:last-child a.row")
			b.shows("can be undone")
			shot("history-" + at)
		}
	}
}
