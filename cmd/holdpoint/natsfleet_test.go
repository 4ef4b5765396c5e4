package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/zeebo/blake3"

	"holdpoint/bridge"
	natsbridge "holdpoint/bridge/nats"
	"holdpoint/internal/flow"
	"holdpoint/op"
	"holdpoint/review"
)

// machine is one daemon in this process: its own root, state, journal, key and connection.
type machine struct {
	t           testing.TB
	root, state string
	o           *opened
	server      *bridge.Server
	link        *natsbridge.Link
	key         string // of the root
	agent       string // token
}

// hashed is the passphrase's hash, made once: it is slow on purpose.
var hashed = sync.OnceValue(func() string {
	h, err := flow.HashPassphrase("only for tests 1")
	if err != nil {
		panic(err)
	}
	return h
})

func newMachine(t testing.TB, dir string) *machine {
	t.Helper()
	m := &machine{t: t, root: filepath.Join(dir, "ws"), state: filepath.Join(dir, "state")}
	if err := os.MkdirAll(m.root, 0o755); err != nil {
		t.Fatal(err)
	}
	m.openState()
	ctx := context.Background()
	if err := m.o.engine.SetPassphraseHash(ctx, hashed()); err != nil {
		t.Fatal(err)
	}
	_, secret, err := m.o.engine.CreateToken(ctx, flow.TokenSpec{Name: "agent", Role: op.Agent})
	if err != nil {
		t.Fatal(err)
	}
	m.agent = secret
	return m
}

func (m *machine) openState() {
	m.t.Helper()
	ctx := context.Background()
	o, err := openEngine(ctx, setup{state: m.state, env: func(string) string { return "" }, reviewAuth: "passphrase", version: "test", warn: func(string) {}})
	if err == nil {
		m.o = o
		err = o.addRoots(ctx, []flow.RootSpec{{Dir: m.root}})
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.key = o.engine.Roots()[0].Key
	m.server = bridge.New(adapter{o})
}

// connect links the machine to servers; creds may be empty.
func (m *machine) connect(url, creds string, hub natsbridge.HubKey, change ...func(*natsbridge.Config)) {
	m.t.Helper()
	c := m.o.linkConfig(m.server, hub, "host-"+m.key[:6])
	c.Beat = 300 * time.Millisecond
	for _, f := range change {
		f(&c)
	}
	l, err := natsbridge.Open(natsbridge.Options{URL: url, Creds: creds, Name: "test", Say: func(s string) {
		if os.Getenv("HOLDPOINT_FLEET_TALK") != "" {
			m.t.Log(m.key[:6], s)
		}
	}}, c)
	if err != nil {
		m.t.Fatal(err)
	}
	m.link = l
	m.o.link.Store(l)
}

func (m *machine) close() {
	if m.link != nil {
		m.link.Close()
		m.link = nil
	}
	if m.o != nil {
		if err := m.o.close(); err != nil {
			m.t.Error(err)
		}
		m.o = nil
	}
}

func (m *machine) write(name, text string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.root, name), []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) has(name string) bool {
	_, err := os.Lstat(filepath.Join(m.root, name))
	return err == nil
}

// local asks the machine itself, as a person there does.
func (m *machine) local(method, path, token string, body any) (int, map[string]any) {
	m.t.Helper()
	b, _ := json.Marshal(body)
	r, err := http.NewRequest(method, "http://localhost"+path, bytes.NewReader(b))
	if err != nil {
		m.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := &recorded{header: http.Header{}}
	m.server.Handler().ServeHTTP(w, r.WithContext(bridge.WithSocket(r.Context())))
	var out map[string]any
	json.Unmarshal(w.body.Bytes(), &out)
	return max(w.status, 200), out
}

type recorded struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorded) Header() http.Header         { return r.header }
func (r *recorded) WriteHeader(s int)           { r.status = s }
func (r *recorded) Write(b []byte) (int, error) { return r.body.Write(b) }

// signer is a reviewer with a key of their own.
type signer struct {
	name string
	key  ed25519.PrivateKey
}

func newSigner(t testing.TB, name string) signer {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return signer{name, key}
}

// enroll puts the signer on a machine's roster, as its operator does.
func (s signer) enroll(m *machine) {
	m.t.Helper()
	_, err := m.o.engine.AddReviewer(context.Background(), op.Caller{Name: "operator", Role: op.Operator}, review.Reviewer{Name: s.name, Kind: review.Ed25519, Public: s.key.Public().(ed25519.PublicKey)})
	if err != nil {
		m.t.Fatal(err)
	}
}

func (s signer) signed(id op.ID, digest, answer, note string) natsbridge.Signed {
	d := review.Statement{Card: id, ShownDigest: digest, Answer: answer, Note: note}.Digest()
	proof, _ := json.Marshal(review.Proof{Signature: ed25519.Sign(s.key, d)})
	return natsbridge.Signed{Answer: answer, Note: note, ShownDigest: digest, Proof: proof}
}

// natsAgent speaks over NATS with a token.
type natsAgent struct {
	t     testing.TB
	conn  *natsgo.Conn
	root  string
	token string
}

func dial(t testing.TB, url, creds, inbox string) *natsgo.Conn {
	t.Helper()
	c, err := natsbridge.Connect(natsbridge.Options{URL: url, Creds: creds, Inbox: inbox, Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	awaitIn(t, time.Minute, c.IsConnected, "a connection to NATS")
	return c
}

// ask sends one request; err is of the way, not of the answer.
func (a natsAgent) ask(method, path string, body any) (int, map[string]any, error) {
	var r *http.Request
	if body == nil {
		r, _ = http.NewRequest(method, "http://localhost"+path, nil)
	} else {
		b, _ := json.Marshal(body)
		r, _ = http.NewRequest(method, "http://localhost"+path, bytes.NewReader(b))
	}
	if a.token != "" {
		r.Header.Set("Authorization", "Bearer "+a.token)
	}
	got, err := natsbridge.Transport{Conn: a.conn, Root: a.root, Wait: time.Minute}.RoundTrip(r)
	if err != nil {
		return 0, nil, err
	}
	b, _ := io.ReadAll(got.Body)
	var out map[string]any
	if err := json.Unmarshal(b, &out); err != nil {
		a.t.Errorf("%s %s: not JSON: %q", method, path, b)
	}
	return got.StatusCode, out, nil
}

func (a natsAgent) delete(path, requestID string) (int, map[string]any, error) {
	return a.ask("POST", "/v1/call", map[string]any{"op": "delete_file", "args": map[string]any{"path": path}, "request_id": requestID})
}

// dig reads a value of an answer by its path.
func dig(v any, path ...string) any {
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

func word(v any, path ...string) string { s, _ := dig(v, path...).(string); return s }

// desk is a hub's side without its page: what is gathered, and a way to answer.
type desk struct {
	t    testing.TB
	conn *natsgo.Conn
	g    *natsbridge.Gathering
}

func newDesk(t testing.TB, conn *natsgo.Conn, secret natsbridge.HubSecret) *desk {
	ctx, cancel := context.WithCancel(context.Background())
	g, done := natsbridge.Gather(ctx, conn, secret, func(s string) { t.Log(s) }, nil)
	t.Cleanup(func() { cancel(); <-done })
	return &desk{t, conn, g}
}

// card waits until the desk shows a card that waits.
func (d *desk) card(id op.ID, most time.Duration) (natsbridge.Seen, error) {
	for end := time.After(most); ; {
		c, known, next := d.g.One(id)
		if known && c.Open {
			return c, nil
		}
		select {
		case <-next:
		case <-end:
			return c, fmt.Errorf("no card %s: known %v, %s %q", id, known, c.State, c.Why)
		}
	}
}

// state waits until the desk has a card in one of some states.
func (d *desk) state(id op.ID, most time.Duration, states ...string) string {
	for end := time.After(most); ; {
		c, _, next := d.g.One(id)
		for _, s := range states {
			if c.State == s {
				return s
			}
		}
		select {
		case <-next:
		case <-end:
			return c.State
		}
	}
}

func (d *desk) answer(s signer, c natsbridge.Seen, says string) (map[string]any, error) {
	b, err := natsbridge.SendAnswer(context.Background(), d.conn, c.Root, c.ID, s.signed(c.ID, c.Digest, says, ""), time.Minute)
	var out map[string]any
	json.Unmarshal(b, &out)
	return out, err
}

func blake3Hex(b []byte) string {
	sum := blake3.Sum256(b)
	return hex.EncodeToString(sum[:])
}
