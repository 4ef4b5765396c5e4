package review

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"holdpoint/internal/softkey"
	"holdpoint/op"
)

const hubPage = "https://hub.example.org"

// touch is what the page of a hub has a passkey sign.
func touch(k *softkey.Key, s Statement) Proof {
	return Proof{Assertion: k.Get([]byte(`{"publicKey":{"challenge":"` + base64.RawURLEncoding.EncodeToString(s.Digest()) + `"}}`))}
}

func carried(t *testing.T, name string, k *softkey.Key) Reviewer {
	t.Helper()
	r, err := ParsePasskey(k.Text())
	if err != nil {
		t.Fatal(err)
	}
	r.ID, r.Name = op.ID("rv_"+name), name
	return r
}

func TestCarried(t *testing.T) {
	now := time.Now()
	said := Statement{Card: "ap_1", ShownDigest: "blake3:1", Answer: "approve", Note: "words"}
	k := softkey.New("hub.example.org", hubPage)
	list := Roster{carried(t, "ada", k)}
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, op.ProofInvalid) || op.AsError(err).Message != NoProof().Message {
			t.Errorf("%s: got %v", what, err)
		}
	}
	try := func(s Statement, p Proof, list Roster) error { _, err := list.Touched(s, p, now); return err }

	t.Run("a touch proves the answer, and the counter goes forward", func(t *testing.T) {
		p := touch(k, said)
		who, err := list.Touched(said, p, now)
		if err != nil || who.ID != "rv_ada" || !list.Carried(p, now) || string(who.Credential) == string(list[0].Credential) {
			t.Fatal(who, err)
		}
		// With the entry as it is kept from now on, the same touch is a copy's.
		if err := try(said, p, Roster{who}); !Copied(err) {
			t.Errorf("replayed: %v", err)
		}
	})
	t.Run("a touch is good for one card, answer and text", func(t *testing.T) {
		p := touch(k, said)
		for what, change := range map[string]func(*Statement){
			"card": func(s *Statement) { s.Card = "ap_2" }, "digest": func(s *Statement) { s.ShownDigest = "blake3:2" }, "answer": func(s *Statement) { s.Answer = "reject" },
			"remember": func(s *Statement) { s.Remember = true }, "words": func(s *Statement) { s.Note = "" }, "nonce": func(s *Statement) { s.Nonce = []byte("x") }, "no digest": func(s *Statement) { s.ShownDigest = "" },
		} {
			s := said
			change(&s)
			refused(what, try(s, p, list))
		}
		if err := try(said, p, list); err != nil {
			t.Error(err)
		}
	})
	t.Run("another key, page or site, nobody verified, or an ended entry proves nothing", func(t *testing.T) {
		refused("a key nobody enrolled", try(said, touch(softkey.New("hub.example.org", hubPage), said), list))
		thief := softkey.New("hub.example.org", hubPage)
		thief.ID = k.ID
		refused("another key of the same id", try(said, touch(thief, said), list))
		for what, change := range map[string]func(*softkey.Key){
			"another page": func(k *softkey.Key) { k.Origin = "https://evil.test" }, "another port": func(k *softkey.Key) { k.Origin = hubPage + ":8443" },
			"another site": func(k *softkey.Key) { k.Site = "evil.test" }, "nobody verified": func(k *softkey.Key) { k.Flags = softkey.Present }, "nobody there": func(k *softkey.Key) { k.Flags = 0 },
		} {
			other := k.Copy()
			change(other)
			refused(what, try(said, touch(other, said), list))
		}
		ended := list[0]
		ended.Revoked = now
		refused("ended", try(said, touch(k, said), Roster{ended}))
		refused("another entry", func() error { p := touch(k, said); p.Reviewer = "rv_bob"; return try(said, p, list) }())
		refused("no assertion", try(said, Proof{Assertion: []byte(`{"id":"x"}`)}, list))
	})
	t.Run("a passkey of this daemon's own page proves nothing that was carried, and a carried one nothing here", func(t *testing.T) {
		d := newDesk(t)
		refused("its own, carried", try(said, touch(d.key, said), Roster{d.ada}))
		local := softkey.New("localhost", origin)
		d.ada = carried(t, "ada", local) // even where the hub's page is at the same address
		if _, err := d.k.Challenge("ada", []Reviewer{d.ada}, said); !errors.Is(err, op.PasskeyNeeded) {
			t.Errorf("it was asked for: %v", err)
		}
	})
	t.Run("what is no passkey of a page with a name is refused", func(t *testing.T) {
		good := k.Text()
		unseen := k.Copy()
		unseen.Flags = softkey.Present
		for _, text := range []string{"", "passkey:", "passkey:@" + hubPage, good[:len(good)-len(hubPage)-1], good[:40] + "@" + hubPage, strings.TrimSuffix(good, hubPage) + "https://other.example.org",
			strings.TrimSuffix(good, hubPage) + "http://hub.example.org", strings.TrimSuffix(good, hubPage) + hubPage + "/path", strings.TrimSuffix(good, hubPage) + "https://192.0.2.1", unseen.Text(),
			softkey.New("192.0.2.1", "https://192.0.2.1").Text(), good + strings.Repeat("x", 9<<10)} {
			if _, err := ParsePasskey(text); !errors.Is(err, op.BadRequest) {
				t.Errorf("%.60s…: %v", text, err)
			}
		}
		if _, err := ParsePasskey(softkey.New("localhost", "http://localhost:7118").Text() + "\n"); err != nil {
			t.Error(err)
		}
	})
}
