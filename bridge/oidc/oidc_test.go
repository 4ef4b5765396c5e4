package oidc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

// liar is a provider that says what a test has it say.
type liar struct {
	*httptest.Server
	key, foreign *ecdsa.PrivateKey
	claims       map[string]any // of the next token
	signed       *ecdsa.PrivateKey
	challenge    string // of PKCE, which it checks
	info         map[string]any
}

func newLiar(t *testing.T) *liar {
	l := &liar{}
	l.key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	l.foreign, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	l.signed = l.key
	say := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(v)
	}
	m := http.NewServeMux()
	m.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		say(w, map[string]any{"issuer": l.URL, "authorization_endpoint": l.URL + "/auth", "token_endpoint": l.URL + "/token", "jwks_uri": l.URL + "/keys",
			"userinfo_endpoint": l.URL + "/info", "id_token_signing_alg_values_supported": []string{"ES256"}})
	})
	m.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		say(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: l.key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}}})
	})
	m.HandleFunc("/info", func(w http.ResponseWriter, _ *http.Request) { say(w, l.info) })
	m.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		if base64.RawURLEncoding.EncodeToString(sum[:]) != l.challenge || r.FormValue("code") != "good" {
			http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
			return
		}
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: l.signed}, (&jose.SignerOptions{}).WithHeader("kid", "k"))
		if err != nil {
			t.Error(err)
		}
		body, _ := json.Marshal(l.claims)
		jws, err := signer.Sign(body)
		if err != nil {
			t.Error(err)
		}
		token, _ := jws.CompactSerialize()
		say(w, map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": token})
	})
	l.Server = httptest.NewServer(m)
	t.Cleanup(l.Close)
	return l
}

// signIn goes once through, with the claims as change leaves them.
func (l *liar) signIn(t *testing.T, conf Config, change func(claims map[string]any, q url.Values, browser *string)) (Account, error) {
	t.Helper()
	conf.Issuer, conf.ClientID, conf.Redirect = l.URL, "holdpoint", "http://localhost/done"
	p, err := New(conf)
	if err != nil {
		t.Fatal(err)
	}
	at, browser, err := p.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	u, _ := url.Parse(at)
	l.challenge, l.signed = u.Query().Get("code_challenge"), l.key
	l.info = map[string]any{"sub": "s"}
	l.claims = map[string]any{"iss": l.URL, "aud": "holdpoint", "sub": "s", "nonce": u.Query().Get("nonce"), "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(),
		"email": "Ada@Example.org", "email_verified": true, "groups": []string{"one", "two"}}
	q := url.Values{"state": {u.Query().Get("state")}, "code": {"good"}}
	if change != nil {
		change(l.claims, q, &browser)
	}
	return p.Finish(t.Context(), browser, q)
}

func TestFinish(t *testing.T) {
	l := newLiar(t)
	t.Run("a sign-in gives the address in small letters, and the groups", func(t *testing.T) {
		a, err := l.signIn(t, Config{}, nil)
		if err != nil || a.Email != "ada@example.org" || !slices.Equal(a.Groups, []string{"one", "two"}) {
			t.Fatalf("%+v %v", a, err)
		}
	})
	t.Run("each lie is refused by its own cause, and to the person in the same words", func(t *testing.T) {
		for why, lie := range map[string]func(c map[string]any, q url.Values, browser *string){
			"nonce_wrong":      func(c map[string]any, _ url.Values, _ *string) { c["nonce"] = "another" },
			"email_unverified": func(c map[string]any, _ url.Values, _ *string) { c["email_verified"] = false },
			"no_email":         func(c map[string]any, _ url.Values, _ *string) { delete(c, "email") },
			"state_unknown":    func(_ map[string]any, q url.Values, _ *string) { q.Set("state", "another") },
			"another_browser":  func(_ map[string]any, _ url.Values, b *string) { *b = "" },
			"provider_refused": func(_ map[string]any, q url.Values, _ *string) { q.Del("code"); q.Set("error", "access_denied") },
			"code_refused":     func(_ map[string]any, q url.Values, _ *string) { q.Set("code", "bad") },
		} {
			_, err := l.signIn(t, Config{}, lie)
			held(t, why, why, err)
		}
		for what, lie := range map[string]func(c map[string]any, q url.Values, browser *string){
			"another audience": func(c map[string]any, _ url.Values, _ *string) { c["aud"] = "somebody" },
			"another issuer":   func(c map[string]any, _ url.Values, _ *string) { c["iss"] = "https://evil.example" },
			"expired":          func(c map[string]any, _ url.Values, _ *string) { c["exp"] = time.Now().Add(-time.Minute).Unix() },
			"another key":      func(map[string]any, url.Values, *string) { l.signed = l.foreign },
		} {
			_, err := l.signIn(t, Config{}, lie)
			held(t, what, "token_invalid", err)
		}
		_, err := l.signIn(t, Config{}, func(map[string]any, url.Values, *string) { l.challenge = "of another verifier" })
		held(t, "PKCE", "code_refused", err)
	})
	t.Run("an address that only the provider's page of the person has is taken from there, for the same person", func(t *testing.T) {
		told := func(sub string) (Account, error) {
			return l.signIn(t, Config{}, func(c map[string]any, _ url.Values, _ *string) {
				delete(c, "email")
				delete(c, "email_verified")
				l.info = map[string]any{"sub": sub, "email": "bob@example.org", "email_verified": true}
			})
		}
		if a, err := told("s"); err != nil || a.Email != "bob@example.org" {
			t.Errorf("%+v %v", a, err)
		}
		_, err := told("somebody else")
		held(t, "another subject", "no_email", err)
	})
	t.Run("an issuer without TLS, away from this machine, is refused; one that is away is told", func(t *testing.T) {
		for _, issuer := range []string{"http://id.example.org", "ftp://id.example.org", "id.example.org", ""} {
			if _, err := New(Config{Issuer: issuer, ClientID: "c"}); !errors.Is(err, op.BadRequest) {
				t.Errorf("%q: %v", issuer, err)
			}
		}
		p, err := New(Config{Issuer: "http://127.0.0.1:1", ClientID: "c"})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := p.Begin(t.Context()); !errors.Is(err, op.NotAvailable) {
			t.Errorf("away: %v", err)
		}
	})
}

// held checks that a sign-in was refused, and why, which the record alone tells.
func held(t *testing.T, what, why string, err error) {
	t.Helper()
	var unfit *journal.Unfit
	if !errors.Is(err, op.Unauthenticated) || op.AsError(err).Message != "the sign-in was not completed" || !errors.As(err, &unfit) || unfit.Why != why {
		t.Errorf("%s: got %v because of %+v", what, err, unfit)
	}
}
