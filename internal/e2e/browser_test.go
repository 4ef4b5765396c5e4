package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// browser finds Debian's Chromium. Where CI runs it must be there.
func browser(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("no Chromium is installed: the review page is driven by a real one (Debian: apt-get install chromium)")
	}
	t.Skip("SKIPPED: no Chromium is installed, so the review page was not driven (Debian: apt-get install chromium)")
	return ""
}

// tab is one page of a browser that is signed in to nothing yet.
type tab struct {
	t   testing.TB
	ctx context.Context
	at  string // http://localhost:PORT
}

// openBrowser starts one Chromium with a profile of its own; it ends with the test.
func openBrowser(t testing.TB, addr string, flags ...string) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browser(t)), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox, chromedp.DisableGPU)
	for _, flag := range append([]string{"disable-quic", "disable-component-update", "hide-scrollbars"}, flags...) {
		options = append(options, chromedp.Flag(flag, true))
	}
	alloc, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(alloc)
	t.Cleanup(func() {
		bound, done := context.WithTimeout(ctx, 10*time.Second)
		chromedp.Cancel(bound)
		done()
		end()
		stop()
	})
	b := &tab{t: t, ctx: ctx, at: "http://" + addr}
	b.begin()
	return b
}

// another opens a second tab of the same browser.
func (b *tab) another() *tab {
	ctx, end := chromedp.NewContext(b.ctx)
	b.t.Cleanup(end)
	o := &tab{t: b.t, ctx: ctx, at: b.at}
	o.begin()
	return o
}

// begin is the first action of a tab; a deadline of its own would end the browser with it.
func (b *tab) begin() {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(1280, 900)); err != nil {
		b.t.Fatalf("the browser does not start: %v", err)
	}
}

type step = chromedp.Action[chromedp.Void]

// do runs actions within a bound, and shows the page's text when one fails.
func (b *tab) do(what string, actions ...step) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 90*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.lost(what, err)
	}
}

func (b *tab) lost(what string, err error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + '\n' + document.body.innerText`))
	b.t.Fatalf("%s: %v\nthe page shows:\n%s", what, err, text)
}

// signIn opens an address of the page and gives the passphrase.
func (b *tab) signIn(hash string) {
	b.t.Helper()
	b.do("open the page", chromedp.Navigate("about:blank"), chromedp.Navigate(b.at+"/"+hash))
	b.fill("#passphrase", passphrase+"\r")
	b.visible("#desk")
	b.visible("#live.on")
}

func (b *tab) to(hash string) {
	b.t.Helper()
	b.do("go to "+hash, chromedp.Evaluate[chromedp.Void](fmt.Sprintf("location.hash = %q", hash)))
}

func (b *tab) run(script string) {
	b.t.Helper()
	b.do(script, chromedp.Evaluate[chromedp.Void](script))
}

func (b *tab) size(width, height int64) {
	b.t.Helper()
	b.do("size", chromedp.EmulateViewport(width, height))
}

func (b *tab) visible(selector string) {
	b.t.Helper()
	b.do("wait for "+selector, chromedp.WaitVisible(chromedp.CSS(selector)))
}

func (b *tab) click(selector string) {
	b.t.Helper()
	b.do("click "+selector, chromedp.WaitVisible(chromedp.CSS(selector)), chromedp.Click(chromedp.CSS(selector)))
}

func (b *tab) fill(selector, text string) {
	b.t.Helper()
	b.do("type into "+selector, chromedp.WaitVisible(chromedp.CSS(selector)), chromedp.SendKeys(chromedp.CSS(selector), text))
}

func (b *tab) keys(keys string) {
	b.t.Helper()
	b.do("press "+keys, chromedp.KeyEvent(keys))
}

// get evaluates an expression and gives its text.
func (b *tab) get(expression string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 90*time.Second)
	defer cancel()
	s, err := chromedp.Run(ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		b.lost(expression, err)
	}
	return s
}

// waits until an expression is true. It asks from outside: the page's policy lets no text
// become code, not even a test's.
func (b *tab) waits(what, expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 90*time.Second)
	defer cancel()
	for {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if ok {
			return
		}
		if ctx.Err() != nil {
			b.lost("waited until "+what, fmt.Errorf("it never came (%v)", err))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// shows waits until the open card, or what stands in its place, has a text.
func (b *tab) shows(want string) {
	b.t.Helper()
	b.waits("the card shows "+want, fmt.Sprintf("document.getElementById('detail').innerText.includes(%q)", want))
}

// lists waits until the list has so many rows.
func (b *tab) lists(n int) {
	b.t.Helper()
	b.waits(fmt.Sprint(n, " rows are listed"), fmt.Sprintf("document.querySelectorAll('#list > li').length === %d", n))
}

// noHidden fails when shown text has a character that is not to be shown raw.
func noHidden(t testing.TB, what, shown string) {
	t.Helper()
	for _, r := range shown {
		switch {
		case r == '\n', r == '\t':
		case r < 0x20, r >= 0x7f && r <= 0x9f, strings.ContainsRune("\u200b\u200c\u200d\u200e\u200f\u2060\u00ad\ufeff\u180e\u202a\u202b\u202d\u202e\u202c\u2066\u2067\u2068\u2069", r):
			t.Errorf("%s shows the character %U raw: %q", what, r, shown)
			return
		}
	}
}
