package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"holdpoint/internal/ports"
)

// held makes a file, asks to delete it, and gives the id of the card.
func (d *daemon) held(name, content string) string {
	d.t.Helper()
	write(d.t, filepath.Join(d.Root, name), content)
	return text(must(d.t, d.call("delete_file", M{"path": name}), "review"), "approval", "id")
}

func (d *daemon) state(id string) string {
	d.t.Helper()
	_, row := d.http("GET", "/v1/approvals/"+id, d.reviewer(), nil)
	return text(row, "state")
}

func there(path string) bool { _, err := os.Lstat(path); return err == nil }

// TestPage drives the review page as a person does, with clicks and keys in a real browser.
func TestPage(t *testing.T) {
	addr := ports.Addr(t)
	b := openBrowser(t, addr)
	d := start(t, "--listen", addr)
	file := func(name string) string { return filepath.Join(d.Root, name) }

	t.Run("I90, U37 the link of a held call opens its card, after signing in", func(t *testing.T) {
		write(t, file("one.txt"), "one\ntwo\n")
		held := must(t, d.call("delete_file", M{"path": "one.txt"}), "review")
		link := text(held, "approval", "review_url")
		at := strings.TrimPrefix(link, strings.Replace(b.at, "127.0.0.1", "localhost", 1)+"/")
		if !strings.HasPrefix(at, "#/approvals/ap_") {
			t.Fatalf("got link %q", link)
		}
		b.signIn(at)
		b.shows("Delete 1 file")
		b.shows("one.txt")
		if got := b.get(`document.activeElement.tagName + ' ' + document.activeElement.textContent`); got != "H2 Delete 1 file" {
			t.Errorf("the focus is on %q, want the card's title", got)
		}
	})
	t.Run("I87, I91 (part) the button names the act, and destroying takes a second one", func(t *testing.T) {
		if got := b.get(`document.getElementById('approve').textContent`); got != "Approve: Delete 1 file" {
			t.Errorf("got button %q", got)
		}
		b.click("#approve")
		b.visible("#confirm")
		if got := b.get(`document.getElementById('confirm').textContent + '|' + document.activeElement.id`); got != "Yes: Delete 1 file|not-yet" {
			t.Errorf("got second step and focus %q", got)
		}
		if !there(file("one.txt")) {
			t.Fatal("one press deleted the file")
		}
		b.click("#confirm")
		b.shows("This card is done.")
		if there(file("one.txt")) {
			t.Error("the file is still there")
		}
		b.lists(0)
	})
	t.Run("I87 (part), X36 (part), I38 (part) rejecting takes one press, and the words arrive as typed", func(t *testing.T) {
		id := d.held("two.txt", "x")
		b.lists(1) // by itself
		b.click("#list a.row")
		b.fill("#words", `not <b>this</b> one & "why"?`)
		b.click("#reject")
		b.shows("This card is rejected.")
		_, row := d.http("GET", "/v1/approvals/"+id, d.Agent, nil)
		if text(row, "state") != "rejected" || text(row, "note") != `not <b>this</b> one & "why"?` {
			t.Errorf("the agent got %v", row)
		}
		if !there(file("two.txt")) {
			t.Error("the rejected call ran")
		}
	})
	t.Run("what only creates takes one press", func(t *testing.T) {
		must(t, d.call("write_file", M{"path": ".env", "content": "A=1\n"}), "review")
		b.lists(1)
		b.click("#list a.row")
		b.shows("protected")
		b.click("#approve")
		b.shows("This card is done.")
		if read(t, file(".env")) != "A=1\n" {
			t.Error("it was not written")
		}
	})
	t.Run("undo from the history, in two presses; a later version is not lost", func(t *testing.T) {
		write(t, file("edit.txt"), "old\n")
		must(t, d.call("edit_file", M{"path": "edit.txt", "old_string": "old", "new_string": "new"}), "done")
		b.to("#/history")
		b.waits("the edit is listed", `document.querySelector('#list .title')?.textContent === 'Edit edit.txt'`)
		b.click("#list a.row")
		b.shows("can be undone")
		b.click("#undo")
		b.click("#undo-yes")
		b.shows("Undone by")
		if got := read(t, file("edit.txt")); got != "old\n" {
			t.Errorf("got %q", got)
		}
		must(t, d.call("edit_file", M{"path": "edit.txt", "old_string": "old", "new_string": "new"}), "done")
		write(t, file("edit.txt"), "theirs\n")
		b.to("#/history")
		b.waits("the newer edit is listed", `document.querySelector('#list .badge.good')`)
		b.click("#list li:first-child a.row")
		b.click("#undo")
		b.click("#undo-yes")
		b.shows("undo_conflict")
		if got := read(t, file("edit.txt")); got != "theirs\n" {
			t.Errorf("a conflict changed the file to %q", got)
		}
	})
	t.Run("a card that drifts while it is open says so, and is not approved", func(t *testing.T) {
		id := d.held("drift.txt", "as asked\n")
		b.to("#/approvals/" + id)
		b.shows("Delete 1 file")
		if b.get(`document.getElementById('approve').disabled`) != "false" {
			t.Fatal("the button is not there to press")
		}
		write(t, file("drift.txt"), "another\n")
		b.shows("Changed since this was asked")
		if b.get(`document.getElementById('approve').disabled`) != "true" {
			t.Error("a drifted card can be approved on the page")
		}
		b.waits("the list says so too", `document.querySelector('#list .badge.warn')?.textContent === 'changed since'`)
		write(t, file("drift.txt"), "as asked\n")
		b.waits("the mark goes when the bytes are back", `!document.getElementById('detail').innerText.includes('Changed since')`)
		b.click("#reject")
		b.shows("This card is rejected.")
	})
	t.Run("a second reviewer answers first: the open card says who, and asks no more", func(t *testing.T) {
		id := d.held("race.txt", "x")
		b.to("#/approvals/" + id)
		b.visible("#approve")
		other := b.another()
		other.signIn("#/approvals/" + id)
		other.fill("#words", "mine first")
		other.click("#reject")
		other.shows("This card is rejected.")
		b.shows("This card is rejected.")
		b.shows("Answered by reviewer")
		b.shows("mine first")
		if b.get(`document.getElementById('approve') === null`) != "true" {
			t.Error("the button is still there")
		}
	})
	t.Run("X34 (part), S59 (part) an answer that comes second is told the first, word by word", func(t *testing.T) {
		id := d.held("late.txt", "x")
		b.to("#/approvals/" + id)
		b.visible("#reject")
		// The page does not hear of it: as when the stream is late.
		b.run(`window.realFetch = window.fetch; window.fetch = (u, o) => (/approvals\/ap_[a-z0-9]+$/.test(u) ? new Promise(() => {}) : window.realFetch(u, o))`)
		d.answer(M{"approval": M{"id": id}}, "reject", "I was first")
		b.fill("#words", "second")
		b.click("#reject")
		b.shows("I was first")
		b.run(`window.fetch = window.realFetch`)
		if got := d.state(id); got != "rejected" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("I25 (part) several shown cards are answered together, in two steps", func(t *testing.T) {
		var ids []string
		for i := range 3 {
			ids = append(ids, d.held(fmt.Sprintf("many%d.txt", i), fmt.Sprint("content ", i)))
		}
		b.to("#/")
		b.lists(3)
		for _, id := range ids[:2] {
			b.click("#row-" + id + " input")
		}
		b.click("#together")
		b.shows("2 cards to answer together")
		b.shows("many0.txt")
		b.shows("many1.txt")
		b.click("#approve")
		b.click("#confirm")
		b.shows("This card is done.")
		b.lists(1)
		if there(file("many0.txt")) || there(file("many1.txt")) || !there(file("many2.txt")) {
			t.Error("not exactly the two chosen files are gone")
		}
	})
	t.Run("keys alone: choose, open, approve in two steps", func(t *testing.T) {
		b.to("#/")
		b.waits("the card is left", `!document.getElementById('approve')`)
		b.keys("j")
		b.keys(kb.Enter)
		b.visible("#approve")
		b.waits("the title has the focus", `document.activeElement.tagName === 'H2'`)
		b.keys("a")
		b.keys(kb.Enter)
		b.visible("#confirm")
		b.keys(kb.Enter) // on "Not yet": a second Enter by mistake approves nothing
		b.visible("#approve")
		if !there(file("many2.txt")) {
			t.Fatal("two Enters in a row approved")
		}
		b.keys(kb.Enter)
		b.visible("#confirm")
		b.do("to the yes", chromedp.Focus(chromedp.CSS("#confirm")))
		b.keys(kb.Enter)
		b.shows("This card is done.")
		if there(file("many2.txt")) {
			t.Error("the file is still there")
		}
		b.keys("h")
		b.waits("history is open", `location.hash === '#/history' && document.querySelectorAll('#list > li').length > 3`)
		b.keys("w")
		b.waits("the queue is open", `location.hash === '#/'`)
	})
	t.Run("everything to press or fill in has a name for screen readers", func(t *testing.T) {
		id := d.held("label.txt", "x")
		b.to("#/approvals/" + id)
		b.visible("#approve")
		if got := b.get(`[...document.querySelectorAll('button, a[href], input, textarea, summary')].filter((n) => !(n.textContent.trim() || n.getAttribute('aria-label') || (n.labels && n.labels.length))).map((n) => n.outerHTML).join()`); got != "" {
			t.Errorf("without a name: %s", got)
		}
		if got := b.get(`['header', 'main', 'nav', '[aria-live]', 'h1', 'h2'].filter((s) => !document.querySelector(s)).join() + document.documentElement.lang`); got != "en" {
			t.Errorf("missing: %s", got)
		}
		d.answer(M{"approval": M{"id": id}}, "reject", "")
	})
	t.Run("nothing is wider than a phone of 390 pixels", func(t *testing.T) {
		write(t, file("long.txt"), strings.Repeat("a very long line without an end ", 40)+"\n"+strings.Repeat("x", 900)+"\n")
		held := must(t, d.call("write_file", M{"path": "long.txt", "content": strings.Repeat("y", 900) + "\n"}), "review")
		b.size(390, 844)
		for _, at := range []string{"#/", "#/approvals/" + text(held, "approval", "id"), "#/history"} {
			b.to(at)
			time.Sleep(200 * time.Millisecond)
			if got := b.get(`document.documentElement.scrollWidth`); got != "390" {
				t.Errorf("%s is %s wide", at, got)
			}
		}
		b.size(1280, 900)
		d.answer(held, "reject", "")
	})
	t.Run("S67 (part) the token is in memory alone: no cookie, no store, no address", func(t *testing.T) {
		if got := b.get(`document.cookie + '|' + Object.keys(sessionStorage) + '|' + Object.keys(localStorage) + '|' + /hps_/.test(location.href + document.documentElement.outerHTML + JSON.stringify(localStorage))`); got != "||theme|false" {
			t.Errorf("got %q", got)
		}
		b.do("reload", chromedp.Reload())
		b.visible("#passphrase")
		if got := b.get(`document.getElementById('desk').hidden`); got != "true" {
			t.Error("a reload stayed signed in")
		}
	})
	t.Run("a wrong passphrase says so and opens nothing", func(t *testing.T) {
		b.fill("#passphrase", "not this one 1\r")
		b.waits("it is refused", `document.getElementById('login-error').textContent.includes('not right')`)
	})
}
