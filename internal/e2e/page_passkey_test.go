package e2e

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"

	"holdpoint/internal/ports"
)

// authenticator gives a tab a passkey device of its own, whose person always touches it.
func (b *tab) authenticator() {
	b.t.Helper()
	b.do("a virtual authenticator", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		if _, err := cdp.Call(ctx, t, webauthn.Enable, webauthn.EnableParams{}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, t, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
			Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal, HasResidentKey: true, HasUserVerification: true,
			IsUserVerified: true, AutomaticPresenceSimulation: true}})
		return err
	}))
}

// TestPagePasskey is a phone over TLS: paired, with a passkey, answering.
func TestPagePasskey(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	cert, key := filepath.Join(filepath.Dir(state), "tls.pem"), filepath.Join(filepath.Dir(state), "tls.key")
	certify(t, cert, key, 1, "localhost")
	addr := ports.Addr(t)
	_, port, _ := strings.Cut(addr, ":")
	d := startOn(t, root, state, nil, "--listen", addr, "--tls-cert", cert, "--tls-key", key)
	_, got := d.http("POST", "/v1/pair", d.reviewer(), M{"name": "ada-phone"})
	b := openBrowser(t, addr, "ignore-certificate-errors")
	b.at = "https://localhost:" + port
	b.size(390, 844)
	b.authenticator()
	if !strings.HasPrefix(text(got, "url"), b.at+"/#/pair/") {
		t.Fatalf("the link is %v", got)
	}
	hold := func(name string) M {
		write(t, filepath.Join(root, name), "x\n")
		return must(t, d.call("delete_file", M{"path": name}), "review")
	}
	first := hold("first")
	b.do("the link", chromedp.Navigate(text(got, "url")))
	b.click("#login-form button")
	b.lists(1)
	t.Run("I61 (part), I112 (part) a phone that was paired registers a passkey by one touch", func(t *testing.T) {
		b.click("#who")
		b.waits("the dialog offers it", `document.getElementById('mine').open && !document.getElementById('register').hidden`)
		b.click("#register")
		b.waits("the key is listed", `document.querySelectorAll('#mine-keys li').length === 1`)
		b.click("#mine-close")
		_, list := d.http("GET", "/v1/reviewers", d.reviewer(), nil)
		if r := objects(list["reviewers"]); len(r) != 1 || r[0]["name"] != "ada-phone" || r[0]["kind"] != "passkey" || r[0]["live"] != true {
			t.Errorf("the roster is %v", list)
		}
	})
	t.Run("I61 (part) an answer on the page takes the touch and runs the call; two presses as before", func(t *testing.T) {
		b.to("#/approvals/" + idOf(first))
		b.click("#approve")
		b.click("#confirm")
		b.shows("This card is done.")
		b.shows("Answered by ada-phone with a passkey.")
		if d.has("first") {
			t.Error("it did not run")
		}
		b.to("#/history")
		b.waits("the history says who approved", `document.querySelector('#list .meta')?.innerText.includes('approved by ada-phone')`)
	})
	t.Run("I61 (part) a touch that is declined answers nothing and says so", func(t *testing.T) {
		second := hold("second")
		b.to("#/approvals/" + idOf(second))
		b.visible("#approve")
		b.run(`navigator.credentials.get = async () => { throw Object.assign(new Error('x'), { name: 'NotAllowedError' }); }`)
		b.click("#reject")
		b.waits("it says so", `document.querySelector('form.answer .error').textContent.includes('No passkey was used')`)
		if d.state(idOf(second)) != "pending" {
			t.Errorf("it is %s", d.state(idOf(second)))
		}
	})
	t.Run("I61 (part) after the operator took the passkey away, the phone cannot answer", func(t *testing.T) {
		if exit, _, errs := d.cli("reviewer", "revoke", "ada-phone"); exit != 0 {
			t.Fatal(errs)
		}
		b.click("#reject")
		b.waits("the session is over", `document.getElementById('login-error').textContent.includes('session is over')`)
	})
}
