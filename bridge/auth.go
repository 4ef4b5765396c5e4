package bridge

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

// sessionLife is how long a login holds.
const sessionLife = 12 * time.Hour

// sessions keeps the tokens of people who logged in. They are gone with the process.
type sessions struct {
	mu   sync.Mutex // guards held
	held map[string]session
}

type session struct {
	caller op.Caller
	entry  op.ID // of the roster, which must go on to count; empty for the passphrase
	ends   time.Time
}

// open begins a session of somebody who has just shown who they are.
func (s *sessions) open(caller op.Caller, entry op.ID) (string, time.Time) {
	caller.LoggedIn = time.Now()
	b := make([]byte, 32)
	rand.Read(b)
	secret, ends := "hps_"+base64.RawURLEncoding.EncodeToString(b), time.Now().Add(sessionLife)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		s.held = map[string]session{}
	}
	for k, v := range s.held {
		if time.Now().After(v.ends) {
			delete(s.held, k)
		}
	}
	s.held[secret] = session{caller, entry, ends}
	return secret, ends
}

func (s *sessions) find(secret string) (session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.held[secret]
	return v, ok && time.Now().Before(v.ends)
}

// onSocket marks requests that came over the unix socket or in process.
type onSocket struct{}

// WithSocket marks a connection's context as local: tokens that are good on the socket
// only count there.
func WithSocket(ctx context.Context) context.Context { return context.WithValue(ctx, onSocket{}, true) }

// caller finds out who asks, by the bearer token alone. The body is not read before.
func (s *Server) caller(r *http.Request) (op.Caller, error) {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || secret == "" { // the scheme has no case (RFC 9110)
		return op.Caller{}, op.Fail(op.Unauthenticated, "a token is needed").Do("send it as Authorization: Bearer TOKEN")
	}
	if in, ok := s.sessions.find(secret); ok {
		if _, err := carried(r.Context(), in.caller); err != nil {
			return op.Caller{}, err
		}
		if in.entry != "" {
			if _, err := s.Engine.Person(r.Context(), in.entry); err != nil {
				return op.Caller{}, err
			}
		}
		return in.caller, asPerson(r.Context(), in.caller.Role)
	}
	by, token, err := s.Engine.Caller(r.Context(), secret)
	if err != nil {
		return op.Caller{}, err
	}
	if local, _ := r.Context().Value(onSocket{}).(bool); token.SocketOnly && !local {
		return op.Caller{}, journal.NotValid("socket_only", by.Name)
	}
	if by, err = carried(r.Context(), by); err != nil {
		return by, err
	}
	return by, asPerson(r.Context(), by.Role)
}

var errNotJSON = op.Fail(op.BadRequest, "the content type must be application/json").Do("send Content-Type: application/json")

func isJSON(r *http.Request) bool {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.TrimSpace(strings.ToLower(kind)) == "application/json"
}

// emptyRoutes take no field, so that a request without a body is a whole one.
var emptyRoutes = map[string]bool{"POST /v1/approvals/{id}/cancel": true, "POST /v1/runs/{id}/stop": true}

// carriesBody reports whether a request must say that it is JSON.
func carriesBody(r *http.Request) bool {
	switch {
	case r.ContentLength == 0 && emptyRoutes[r.Pattern]:
		return r.Header.Get("Content-Type") != ""
	case r.Method == http.MethodDelete:
		return r.ContentLength != 0
	}
	return r.Method == http.MethodPost || r.Method == http.MethodPut
}

// notJSON turns a body away that does not say that it is JSON, on routes without a token.
func notJSON(w http.ResponseWriter, r *http.Request) bool {
	if isJSON(r) {
		return false
	}
	failStatus(w, http.StatusUnsupportedMediaType, errNotJSON)
	return true
}

type handler func(w http.ResponseWriter, r *http.Request, by op.Caller)

// anyRole lets every valid token in; the handler scopes what it shows.
func (s *Server) anyRole(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		by, err := s.caller(r)
		if err != nil {
			s.Engine.Denied("no_valid_token", err)
			fail(w, err) // one and the same on every route, so that it tells nothing
			return
		}
		if carriesBody(r) && !isJSON(r) {
			turnAway(w, r, http.StatusUnsupportedMediaType, errNotJSON)
			return
		}
		if r.ContentLength > MaxBody {
			// Not kept, but passed over as far as is reasonable: a client that is cut off
			// while it sends does not get to read why.
			io.CopyN(io.Discard, r.Body, 2*MaxBody)
			turnAway(w, r, op.HTTPStatus(op.TooLarge), errTooLarge)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, MaxBody)
		h(w, r, by)
	}
}

// role lets one role in, and those that include it.
func (s *Server) role(want op.Role, h handler) http.HandlerFunc {
	return s.anyRole(func(w http.ResponseWriter, r *http.Request, by op.Caller) {
		if !by.Role.Includes(want) {
			turnAway(w, r, http.StatusForbidden, op.Fail(op.Forbidden, "this needs the role "+string(want)+"; the token has "+string(by.Role)).Do("whoever asks cannot answer: use a token of that role"))
			return
		}
		h(w, r, by)
	})
}

// unbound refuses tokens of some roots what tells of all of them.
func unbound(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request, by op.Caller) {
		if len(by.Roots) > 0 {
			fail(w, op.Fail(op.Forbidden, "this tells of every root, and the token is bound to some").Do("use a token without a root"))
			return
		}
		h(w, r, by)
	}
}

// postLogin takes the reviewer's passphrase and opens a session with the operator's
// role, which includes the reviewer's.
func (s *Server) postLogin(w http.ResponseWriter, r *http.Request) {
	if notJSON(w, r) {
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 4096)
	o, err := body(r)
	if err != nil {
		fail(w, err)
		return
	}
	if err := only(o, "passphrase"); err != nil {
		fail(w, err)
		return
	}
	pass, _ := o["passphrase"].(string)
	if pass == "" {
		fail(w, op.Fail(op.BadRequest, "the body is {\"passphrase\": \"...\"}").In("passphrase"))
		return
	}
	if err := asPerson(r.Context(), op.Operator); err != nil {
		fail(w, err)
		return
	}
	s.login.Lock()
	defer s.login.Unlock()
	if err := s.Engine.CheckPassphrase(r.Context(), pass); err != nil {
		// A wrong guess costs a second, whoever else guesses.
		time.Sleep(time.Second)
		s.Engine.Denied("login", err)
		fail(w, err)
		return
	}
	secret, ends := s.sessions.open(op.Caller{Token: "session", Name: "reviewer", Role: op.Operator}, "")
	reply(w, http.StatusOK, map[string]any{"token": secret, "role": op.Operator, "expires_at": ends.UTC()})
}

// Guard is for listeners that a browser can reach: a foreign Host or Origin is refused
// before any route, so that no web page can speak through a visitor's browser.
func Guard(allowed func(host string) bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ok := allowed(r.Host)
		for _, origin := range r.Header.Values("Origin") {
			u, err := url.Parse(origin)
			ok = ok && (origin == "" || err == nil && u.Host == r.Host)
		}
		if !ok || r.Header.Get("Sec-Fetch-Site") == "cross-site" && !fromLink(r) {
			fail(w, op.Fail(op.BadOrigin, "requests from this host or origin are not served"))
			return
		}
		next.ServeHTTP(w, r)
	})
}
