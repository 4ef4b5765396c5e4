package e2e

import (
	"testing"

	"github.com/chromedp/chromedp"

	"holdpoint/internal/ports"
)

func TestPagePairs(t *testing.T) {
	t.Parallel()
	addr := ports.Addr(t)
	d := quick(t, "", "--listen", addr)
	_, got := d.http("POST", "/v1/pair", d.reviewerToken, M{"name": "phone"})
	b := openBrowser(t, addr)
	t.Run("I112 (part) a phone-sized browser that opens the link is a reviewer after one touch, and the code leaves the address", func(t *testing.T) {
		b.do("a phone", chromedp.EmulateViewport(390, 844))
		b.do("the link", chromedp.Navigate(text(got, "url")))
		b.waits("it asks to pair", `document.querySelector('#login-form button').textContent === 'Pair this device' && document.getElementById('passphrase').hidden && document.getElementById('login-text').hidden`)
		b.waits("the code has left the address", `location.hash === '' && !document.documentElement.outerHTML.includes('`+text(got, "code")+`')`)
		if _, m := d.http("GET", "/v1/tokens", d.reviewerToken, nil); len(objects(m["tokens"])) != 2 {
			t.Errorf("opening the link is enough: %v", m)
		}
		b.click("#login-form button")
		b.waits("the queue shows", `!document.getElementById('desk').hidden`)
		b.do("the link again", chromedp.Navigate("about:blank"), chromedp.Navigate(text(got, "url")))
		b.click("#login-form button")
		b.waits("it is good once", `document.getElementById('login-error').textContent.includes('not good') && !document.getElementById('passphrase').hidden`)
	})
}
