package bridge

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"holdpoint/op"
)

// SignIn is how an identity provider signs people in.
type SignIn struct {
	Name   string // what a person knows it by
	Begin  func(ctx context.Context) (at, browser string, err error)
	Finish func(ctx context.Context, browser string, q url.Values) (by op.Caller, entry op.ID, err error)
}

// browserCookie binds a sign-in to the browser that began it. It is no credential: without
// the code that the same browser was sent back with, it gives nothing.
const browserCookie = "holdpoint_signin"

// doorTime is how long a page has to fetch the session of a sign-in that was completed.
const doorTime = time.Minute

// doors are sign-ins that are complete, by the code that the page fetches them with. Each
// is good once, and for the browser that signed in.
type doors struct {
	mu   sync.Mutex // guards held
	held map[string]door
}

type door struct {
	by      op.Caller
	entry   op.ID
	browser string
	ends    time.Time
}

func (d *doors) open(one door) string {
	code := newCode() + newCode() + newCode()
	one.ends = time.Now().Add(doorTime)
	d.mu.Lock()
	defer d.mu.Unlock()
	for c, old := range d.held {
		if !time.Now().Before(old.ends) {
			delete(d.held, c)
		}
	}
	if d.held == nil {
		d.held = map[string]door{}
	}
	d.held[code] = one
	return code
}

func (d *doors) claim(code, browser string) (door, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	one, ok := d.held[code]
	delete(d.held, code)
	return one, ok && time.Now().Before(one.ends) && one.browser == browser && browser != ""
}

// getLogin tells a page how people sign in here.
func (s *Server) getLogin(w http.ResponseWriter, _ *http.Request) {
	out := map[string]any{"passphrase": true}
	if s.SignIn != nil {
		out["provider"] = s.SignIn.Name
	}
	if s.Answers != nil {
		out["hub"] = true // its passphrase is not that of a machine, and answers nothing
	}
	reply(w, http.StatusOK, out)
}

// getSignIn sends the browser to the provider.
func (s *Server) getSignIn(w http.ResponseWriter, r *http.Request) {
	if s.SignIn == nil {
		fail(w, op.Fail(op.NotAvailable, "no identity provider is configured").Do("sign in with the passphrase"))
		return
	}
	at, browser, err := s.SignIn.Begin(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	s.setBrowser(w, browser, 600)
	http.Redirect(w, r, at, http.StatusFound)
}

func (s *Server) setBrowser(w http.ResponseWriter, value string, age int) {
	http.SetCookie(w, &http.Cookie{Name: browserCookie, Value: value, Path: "/v1/login", MaxAge: age, HttpOnly: true,
		SameSite: http.SameSiteLaxMode, Secure: strings.HasPrefix(s.PublicURL, "https:")})
}

func browserOf(r *http.Request) string {
	c, err := r.Cookie(browserCookie)
	if err != nil {
		return ""
	}
	return c.Value
}

// getSignedIn is where the provider sends the browser back to. The page gets a code behind
// the #, which no server and no log sees, and fetches the session with it.
func (s *Server) getSignedIn(w http.ResponseWriter, r *http.Request) {
	if s.SignIn == nil {
		fail(w, op.Fail(op.NotAvailable, "no identity provider is configured"))
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	browser := browserOf(r)
	by, entry, err := s.SignIn.Finish(r.Context(), browser, r.URL.Query())
	if err != nil {
		s.Engine.Denied("provider", err)
		http.Redirect(w, r, "/#/signin/refused", http.StatusFound)
		return
	}
	http.Redirect(w, r, "/#/signin/"+s.doors.open(door{by: by, entry: entry, browser: browser}), http.StatusFound)
}

// postSignedIn gives the session of a completed sign-in to the page of the same browser.
func (s *Server) postSignedIn(w http.ResponseWriter, r *http.Request) {
	if notJSON(w, r) {
		return
	}
	code, err := codeOf(w, r)
	if err != nil {
		fail(w, err)
		return
	}
	in, ok := s.doors.claim(code, browserOf(r))
	if !ok {
		err := op.Fail(op.Unauthenticated, "this sign-in is not good").Do("sign in again").Because(errors.New("door"))
		s.Engine.Denied("provider", err)
		fail(w, err)
		return
	}
	s.setBrowser(w, "", -1)
	secret, ends := s.sessions.open(in.by, in.entry)
	reply(w, http.StatusOK, map[string]any{"token": secret, "role": in.by.Role, "name": in.by.Name, "expires_at": ends.UTC()})
}

// fromLink lets a person follow a link to the page, or come back from the provider, from
// another site: both are opened as a document, show no data and do nothing by themselves.
func fromLink(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" &&
		(r.URL.Path == "/" || r.URL.Path == "/v1/login/provider/done")
}
