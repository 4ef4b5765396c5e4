package review

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"holdpoint/op"
)

func TestSigned(t *testing.T) {
	public, private, _ := ed25519.GenerateKey(rand.Reader)
	_, foreign, _ := ed25519.GenerateKey(rand.Reader)
	now := time.Now()
	ada := Reviewer{ID: "rv_ada", Name: "ada", Kind: Ed25519, Public: public}
	said := Statement{Card: "ap_1", ShownDigest: "blake3:1", Answer: "approve", Note: "words"}
	sign := func(s Statement) Proof { return Proof{Reviewer: ada.ID, Signature: ed25519.Sign(private, s.Digest())} }
	t.Run("a signature over the card and the words tells who answered", func(t *testing.T) {
		if who, err := (Roster{ada}).Signed(said, sign(said), now); err != nil || who.Name != "ada" {
			t.Fatalf("got %v %v", who, err)
		}
	})
	t.Run("it is good for no other card, digest, answer, words or memory, and no part runs into the next", func(t *testing.T) {
		for what, s := range map[string]Statement{
			"card":     {Card: "ap_2", ShownDigest: "blake3:1", Answer: "approve", Note: "words"},
			"digest":   {Card: "ap_1", ShownDigest: "blake3:2", Answer: "approve", Note: "words"},
			"answer":   {Card: "ap_1", ShownDigest: "blake3:1", Answer: "reject", Note: "words"},
			"words":    {Card: "ap_1", ShownDigest: "blake3:1", Answer: "approve", Note: "word"},
			"remember": {Card: "ap_1", ShownDigest: "blake3:1", Answer: "approve", Note: "words", Remember: true},
			"shifted":  {Card: "ap_1b", ShownDigest: "lake3:1", Answer: "approve", Note: "words"},
			"no card":  {},
		} {
			if _, err := (Roster{ada}).Signed(s, sign(said), now); !errors.Is(err, op.ProofInvalid) {
				t.Errorf("another %s: got %v", what, err)
			}
		}
	})
	t.Run("an entry that ended, expired or is of another kind proves nothing, nor does another key", func(t *testing.T) {
		ended, late, kind := ada, ada, ada
		ended.Revoked, late.Expires, kind.Kind = now, now, OIDC
		for what, r := range map[string]Roster{"ended": {ended}, "expired": {late}, "kind": {kind}, "nobody": {}} {
			if _, err := r.Signed(said, sign(said), now); !errors.Is(err, op.ProofInvalid) {
				t.Errorf("%s: got %v", what, err)
			}
		}
		if _, err := (Roster{ada}).Signed(said, Proof{Reviewer: ada.ID, Signature: ed25519.Sign(foreign, said.Digest())}, now); !errors.Is(err, op.ProofInvalid) {
			t.Errorf("another key: got %v", err)
		}
	})
}
