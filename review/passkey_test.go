package review

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"holdpoint/internal/softkey"
	"holdpoint/op"
)

const origin = "http://localhost:7117"

// desk is one daemon's passkeys under a clock of the test's, with ada enrolled.
type desk struct {
	t   *testing.T
	k   *Passkeys
	at  time.Time
	key *softkey.Key
	ada Reviewer
}

func newDesk(t *testing.T) *desk {
	d := &desk{t: t, at: time.Now()}
	d.k = &Passkeys{Now: func() time.Time { return d.at }}
	d.k.Serve(Site{ID: "localhost", Origin: origin})
	d.key = softkey.New("localhost", origin)
	d.ada = d.enroll("ada", d.key)
	return d
}

func (d *desk) enroll(name string, key *softkey.Key) Reviewer {
	d.t.Helper()
	options, err := d.k.Register(name, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	r, err := d.k.Registered(name, key.Create(options))
	if err != nil {
		d.t.Fatalf("%v: %v", err, op.AsError(err).Err)
	}
	r.ID, r.Name = op.ID("rv_"+name), name
	return r
}

// asks gives the options for one answer of ada's.
func (d *desk) asks(s Statement) json.RawMessage {
	d.t.Helper()
	options, err := d.k.Challenge("ada", []Reviewer{d.ada}, s)
	if err != nil {
		d.t.Fatal(err)
	}
	return options
}

func (d *desk) proves(s Statement, assertion []byte) error {
	_, _, err := d.k.Proven("ada", []Reviewer{d.ada}, s, Proof{Assertion: assertion})
	return err
}

func TestPasskeys(t *testing.T) {
	said := Statement{Card: "ap_1", ShownDigest: "blake3:1", Answer: "approve", Note: "words"}
	refused := func(t *testing.T, err error, what string) {
		t.Helper()
		if !errors.Is(err, op.ProofInvalid) || op.AsError(err).Message != NoProof().Message {
			t.Errorf("%s: got %v", what, err)
		}
	}
	t.Run("I61 (part) a touch over the card and the words proves the answer, once", func(t *testing.T) {
		d := newDesk(t)
		assertion := d.key.Get(d.asks(said))
		who, p, err := d.k.Proven("ada", []Reviewer{d.ada}, said, Proof{Assertion: assertion})
		if err != nil || who.ID != "rv_ada" || p.Reviewer != "rv_ada" || who.Used.IsZero() || string(who.Credential) == string(d.ada.Credential) {
			t.Fatalf("got %+v %v: %v", who, err, op.AsError(err).Err)
		}
		refused(t, d.proves(said, assertion), "replayed")
		again := said
		again.Nonce = p.Nonce
		if challengeOf(t, assertion) != b64(again.Digest()) {
			t.Error("what is on record does not lead back to what was signed")
		}
	})
	t.Run("I61 (part) it proves no other card, digest, answer, words or memory", func(t *testing.T) {
		d := newDesk(t)
		for what, other := range map[string]func(*Statement){
			"card": func(s *Statement) { s.Card = "ap_2" }, "digest": func(s *Statement) { s.ShownDigest = "blake3:2" },
			"answer": func(s *Statement) { s.Answer = "reject" }, "words": func(s *Statement) { s.Note = "word" }, "memory": func(s *Statement) { s.Remember = true },
		} {
			s := said
			other(&s)
			refused(t, d.proves(s, d.key.Get(d.asks(said))), "another "+what)
		}
	})
	t.Run("I61 (part) too late, of another page or relying party, without a verified person, or from a key nobody enrolled: nothing", func(t *testing.T) {
		for what, lie := range map[string]func(*desk){
			"two minutes later": func(d *desk) { d.at = d.at.Add(touchTime) },
			"another origin":    func(d *desk) { d.key.Origin = "http://localhost:7118" },
			"an https origin":   func(d *desk) { d.key.Origin = "https://localhost:7117" },
			"another site":      func(d *desk) { d.key.Site = "evil.example" },
			"unverified":        func(d *desk) { d.key.Flags = softkey.Present },
			"absent":            func(d *desk) { d.key.Flags = softkey.Verified },
			"another key":       func(d *desk) { id := d.key.ID; d.key = softkey.New("localhost", origin); d.key.ID = id },
			"another name":      func(d *desk) { d.key.ID = []byte("sixteen bytes...") },
		} {
			d := newDesk(t)
			options := d.asks(said)
			lie(d)
			refused(t, d.proves(said, d.key.Get(options)), what)
		}
		d := newDesk(t)
		refused(t, d.proves(said, d.key.Get([]byte(`{"publicKey":{"challenge":"`+b64(said.Digest())+`"}}`))), "a challenge nobody gave")
		refused(t, d.proves(said, []byte(`{}`)), "no assertion")
		refused(t, d.proves(said, d.key.Create(mustRegister(t, d))), "a registration")
	})
	t.Run("I61 (part) one person's touch is not another's, and a passkey bound to another address is not asked for", func(t *testing.T) {
		d := newDesk(t)
		bob := d.enroll("bob", softkey.New("localhost", origin))
		assertion := d.key.Get(d.asks(said))
		_, _, err := d.k.Proven("bob", []Reviewer{bob}, said, Proof{Assertion: assertion})
		refused(t, err, "ada's touch for bob")
		d.k.Serve(Site{ID: "review.example", Origin: "https://review.example"})
		if _, err := d.k.Challenge("ada", []Reviewer{d.ada}, said); !errors.Is(err, op.PasskeyNeeded) {
			t.Errorf("got %v", err)
		}
		d.k.Serve(Site{})
		if _, err := d.k.Register("ada", nil); !errors.Is(err, op.NotAvailable) {
			t.Errorf("without a name: %v", err)
		}
	})
	t.Run("I61 (part) a counter that does not go forward is a copy, and is refused by its own cause", func(t *testing.T) {
		d := newDesk(t)
		thief := d.key.Copy()
		for range 3 {
			who, _, err := d.k.Proven("ada", []Reviewer{d.ada}, said, Proof{Assertion: d.key.Get(d.asks(said))})
			if err != nil {
				t.Fatal(err)
			}
			d.ada = who
		}
		err := d.proves(said, thief.Get(d.asks(said)))
		refused(t, err, "the copy")
		if !Copied(err) || Copied(d.proves(said, []byte("{}"))) {
			t.Errorf("the cause is %v", op.AsError(err).Err)
		}
	})
	t.Run("I61 (part) a registration is good for the person and the page it was begun for, once and for two minutes", func(t *testing.T) {
		d := newDesk(t)
		key := softkey.New("localhost", origin)
		made := key.Create(mustRegister(t, d))
		if _, err := d.k.Registered("bob", made); !errors.Is(err, op.ProofInvalid) {
			t.Errorf("for bob: %v", err)
		}
		if _, err := d.k.Registered("ada", made); !errors.Is(err, op.ProofInvalid) {
			t.Errorf("a second time: %v", err)
		}
		key.Origin = "https://evil.example"
		if _, err := d.k.Registered("ada", key.Create(mustRegister(t, d))); !errors.Is(err, op.ProofInvalid) {
			t.Errorf("another page: %v", err)
		}
		key.Origin = origin
		late := key.Create(mustRegister(t, d))
		d.at = d.at.Add(touchTime)
		if _, err := d.k.Registered("ada", late); !errors.Is(err, op.ProofInvalid) {
			t.Errorf("late: %v", err)
		}
		if _, err := d.k.Registered("ada", []byte(strings.Repeat("{", 9))); !errors.Is(err, op.ProofInvalid) {
			t.Errorf("no JSON: %v", err)
		}
	})
}

func mustRegister(t *testing.T, d *desk) []byte {
	t.Helper()
	options, err := d.k.Register("ada", nil)
	if err != nil {
		t.Fatal(err)
	}
	return options
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func unmarshal64(s string, v any) error {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// challengeOf digs the challenge out of an assertion.
func challengeOf(t *testing.T, assertion []byte) string {
	t.Helper()
	var a struct {
		Response struct {
			ClientDataJSON string `json:"clientDataJSON"`
		} `json:"response"`
	}
	var c struct {
		Challenge string `json:"challenge"`
	}
	if json.Unmarshal(assertion, &a) != nil || unmarshal64(a.Response.ClientDataJSON, &c) != nil {
		t.Fatal("no assertion")
	}
	return c.Challenge
}
