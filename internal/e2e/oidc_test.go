package e2e

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
	"golang.org/x/text/language"

	"holdpoint/internal/ports"
)

// people are the accounts of the provider in these tests.
type people map[string]*storage.User

func (p people) GetUserByID(id string) *storage.User { return p[id] }
func (p people) GetUserByUsername(name string) *storage.User {
	for _, u := range p {
		if u.Username == name {
			return u
		}
	}
	return nil
}
func (p people) ExampleClientID() string { return "service" }

// grouped adds the claim of groups, which the library's own store does not have.
type grouped struct{ *storage.Storage }

func (g grouped) SetUserinfoFromScopes(ctx context.Context, info *oidc.UserInfo, user, client string, scopes []string) error {
	info.AppendClaims("groups", []string{"everybody", "group-of-" + user})
	return g.Storage.SetUserinfoFromScopes(ctx, info, user, client, scopes)
}

func (g grouped) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, token op.IDTokenRequest, scopes []string) error {
	info.AppendClaims("groups", []string{"everybody", "group-of-" + token.GetSubject()})
	return g.Storage.SetUserinfoFromRequest(ctx, info, token, scopes)
}

func (g grouped) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, token, subject, origin string) error {
	info.AppendClaims("groups", []string{"everybody", "group-of-" + subject})
	return g.Storage.SetUserinfoFromToken(ctx, info, token, subject, origin)
}

// provider runs an OpenID provider of a library's own, and gives its address.
func provider(t *testing.T, back string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	issuer := "http://localhost:" + port
	user := func(name string, verified bool) *storage.User {
		return &storage.User{ID: name, Username: name, Password: "secret", Email: name + "@Example.org", EmailVerified: verified, PreferredLanguage: language.English}
	}
	store := storage.NewStorageWithClients(people{"ada": user("ada", true), "bob": user("bob", true), "eve": user("eve", true), "liar": user("liar", false)},
		map[string]*storage.Client{"holdpoint": storage.WebClient("holdpoint", "client secret", back)})
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: exampleop.SetupServer(issuer, grouped{store}, quiet, false)}}
	srv.Start()
	t.Cleanup(srv.Close)
	return issuer
}

// TestProvider has people sign in by OpenID Connect.
func TestProvider(t *testing.T) {
	t.Parallel()
	addr := ports.Addr(t)
	_, port, _ := strings.Cut(addr, ":")
	page := "http://localhost:" + port
	issuer := provider(t, page+"/v1/login/provider/done")
	root, state := dirs(t)
	base := filepath.Dir(state)
	write(t, filepath.Join(base, "secret"), "client secret\n")
	write(t, filepath.Join(base, "c.toml"), fmt.Sprintf("[oidc]\nissuer = %q\nclient_id = \"holdpoint\"\nclient_secret_file = %q\n[oidc.people]\n\"ada@example.org\" = \"ada\"\n\"group:group-of-bob\" = \"*\"\n\"liar@example.org\" = \"liar\"\n", issuer, filepath.Join(base, "secret")))
	d := startOn(t, root, state, nil, "--listen", addr, "--config", filepath.Join(base, "c.toml"))
	// visit follows a sign-in as a browser would, and gives the code that the page gets.
	visit := func(t *testing.T, jar http.CookieJar, user string) (code string, done *url.URL) {
		t.Helper()
		web := &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
			if r.URL.Path == "/v1/login/provider/done" {
				done = r.URL
			}
			if r.URL.Port() == port && r.URL.Path == "/" {
				return http.ErrUseLastResponse
			}
			return nil
		}}
		r, err := web.Get(page + "/v1/login/provider")
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		r, err = web.PostForm(issuer+"/login/username", url.Values{"id": {r.Request.URL.Query().Get("authRequestID")}, "username": {user}, "password": {"secret"}})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		_, code, _ = strings.Cut(r.Header.Get("Location"), "/#/signin/")
		if code == "" {
			b, _ := io.ReadAll(r.Body)
			t.Fatalf("no way back: %d %s", r.StatusCode, b)
		}
		return code, done
	}
	claim := func(t *testing.T, jar http.CookieJar, code string) (int, string) {
		t.Helper()
		r, err := (&http.Client{Jar: jar}).Post(page+"/v1/login/provider/claim", "application/json", strings.NewReader(`{"code":"`+code+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, _ := io.ReadAll(r.Body)
		_, token, _ := strings.Cut(string(b), `"token":"`)
		token, _, _ = strings.Cut(token, `"`)
		return r.StatusCode, token
	}
	jar := func() http.CookieJar { j, _ := cookiejar.New(nil); return j }
	var ada string
	t.Run("an account that the configuration names signs in as that person, and answers by that name", func(t *testing.T) {
		j := jar()
		code, _ := visit(t, j, "ada")
		var status int
		if status, ada = claim(t, j, code); status != 200 || ada == "" {
			t.Fatalf("status %d", status)
		}
		if _, me := d.http("GET", "/v1/me", ada, nil); me["name"] != "ada" || me["role"] != "reviewer" {
			t.Errorf("me is %v", me)
		}
		write(t, filepath.Join(root, "f"), "x\n")
		held := must(t, d.call("delete_file", M{"path": "f"}), "review")
		if status, got := d.http("POST", "/v1/approvals/"+idOf(held)+"/answer", ada, d.says(held, "approve", "")); status != 200 || text(got, "card", "answered_by") != "ada" {
			t.Errorf("%d %v", status, got)
		}
		if status, _ := d.http("POST", "/v1/tokens", ada, M{"role": "reviewer", "name": "x"}); status != 403 {
			t.Errorf("a reviewer made a token: %d", status)
		}
		if status, _ := claim(t, j, code); status != 401 {
			t.Errorf("the code a second time: %d", status)
		}
	})
	t.Run("a member of a named group keeps the own name; an account that is not named, or not verified, is nobody", func(t *testing.T) {
		j := jar()
		code, _ := visit(t, j, "bob")
		status, bob := claim(t, j, code)
		if _, me := d.http("GET", "/v1/me", bob, nil); status != 200 || me["name"] != "bob:example.org" {
			t.Errorf("%d: me is %v", status, me)
		}
		for _, user := range []string{"eve", "liar"} {
			if code, _ := visit(t, jar(), user); code != "refused" {
				t.Errorf("%s got in: %s", user, code)
			}
		}
		_, tail := d.http("GET", "/v1/audit?n=5", d.reviewer(), nil)
		if s := string(asJSON(tail)); !strings.Contains(s, `"reason":"provider"`) || !strings.Contains(s, "email_unverified") {
			t.Errorf("the audit: %s", s)
		}
	})
	t.Run("what another browser began, a state that was used or never given, and a code of another sign-in are refused", func(t *testing.T) {
		mine, theirs := jar(), jar()
		code, done := visit(t, mine, "ada")
		if status, _ := claim(t, theirs, code); status != 401 {
			t.Errorf("another browser took the session: %d", status)
		}
		follow := func(j http.CookieJar, at string) string {
			web := &http.Client{Jar: j, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			r, err := web.Get(at)
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			_, code, _ := strings.Cut(r.Header.Get("Location"), "/#/signin/")
			return code
		}
		if got := follow(mine, done.String()); got != "refused" {
			t.Errorf("a used state: %s", got)
		}
		// A stranger begins, and has somebody else's browser end it.
		web := &http.Client{Jar: theirs, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		r, err := web.Get(page + "/v1/login/provider")
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		begun, _ := url.Parse(r.Header.Get("Location"))
		q := begun.Query()
		if q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" || q.Get("nonce") == "" || len(q.Get("state")) < 40 {
			t.Errorf("the provider is asked %s", begun)
		}
		stolen := page + "/v1/login/provider/done?state=" + url.QueryEscape(q.Get("state")) + "&code=x"
		visit(t, mine, "ada") // has a cookie of its own again
		if got := follow(mine, stolen); got != "refused" {
			t.Errorf("another browser's state: %s", got)
		}
		if got := follow(theirs, stolen); got != "refused" {
			t.Errorf("and after that its own: %s", got)
		}
		if got := follow(theirs, page+"/v1/login/provider/done?state=none&code=x"); got != "refused" {
			t.Errorf("no state: %s", got)
		}
	})
	t.Run("a revoked person is out at once, with every session, and stays out", func(t *testing.T) {
		if exit, _, errs := d.cli("reviewer", "revoke", "ada"); exit != 0 {
			t.Fatal(errs)
		}
		if status, _ := d.http("GET", "/v1/me", ada, nil); status != 401 {
			t.Errorf("the session: %d", status)
		}
		if code, _ := visit(t, jar(), "ada"); code != "refused" {
			t.Errorf("signed in again: %s", code)
		}
		if exit, out, errs := d.cli("reviewer", "add", "--name", "ada", "--account", "Ada@example.org"); exit != 0 {
			t.Fatal(out, errs)
		}
		if code, _ := visit(t, jar(), "ada"); code == "refused" {
			t.Error("enrolled again, and still refused")
		}
	})
	t.Run("on the page, the link signs in and comes back to the card that was asked for", func(t *testing.T) {
		write(t, filepath.Join(root, "g"), "x\n")
		held := must(t, d.call("delete_file", M{"path": "g"}), "review")
		b := openBrowser(t, "localhost:"+port)
		b.do("the card's link", chromedp.Navigate(page+"/#/approvals/"+idOf(held)))
		b.waits("the provider is offered", `document.getElementById('provider').textContent === 'Sign in with localhost'`)
		b.click("#provider")
		b.fill("#username", "ada")
		b.fill("#password", "secret\r")
		b.shows("Delete 1 file")
		b.click("#reject")
		b.shows("Answered by ada.")
	})
}
