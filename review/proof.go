package review

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"time"

	"holdpoint/op"
)

// Kinds of entries of the roster.
const (
	Passkey = "passkey" // signs through a browser, by touch
	Ed25519 = "ed25519" // signs by itself: a hub's reviewer, a hardware token
	OIDC    = "oidc"    // signs nothing: an identity provider says who somebody is
)

// Reviewer is one entry of the roster: one way in which a person shows to be that person.
// Entries of one name are one person, however many they have.
type Reviewer struct {
	ID      op.ID     `json:"id"` // rv_...
	Name    string    `json:"name"`
	Kind    string    `json:"kind"`
	Public  []byte    `json:"public,omitempty"`  // ed25519: the 32 bytes; passkey: the COSE key
	Account string    `json:"account,omitempty"` // oidc: what the provider knows the person by
	Roots   []string  `json:"roots,omitempty"`   // keys of the roots the person reviews; empty: all
	Device  string    `json:"device,omitempty"`  // what the person calls it
	By      string    `json:"by"`                // who enrolled it
	Created time.Time `json:"created_at"`
	Expires time.Time `json:"expires_at,omitzero"`
	Revoked time.Time `json:"revoked_at,omitzero"`
	EndedBy string    `json:"revoked_by,omitempty"`
	Used    time.Time `json:"used_at,omitzero"`
	// Credential is all that the passkey's verification keeps; nobody is shown it.
	Credential json.RawMessage `json:"credential,omitempty"`
}

// Live reports whether the entry counts at a moment.
func (r Reviewer) Live(now time.Time) bool {
	return r.ID != "" && r.Revoked.IsZero() && (r.Expires.IsZero() || now.Before(r.Expires))
}

// Signs reports whether answers of the entry carry a signature.
func (r Reviewer) Signs() bool { return r.Kind == Passkey || r.Kind == Ed25519 }

// Statement is what a reviewer signs: one answer, all of its words, to exactly one card as
// it was shown. The card's digest covers its id, machine, root, call and what was shown.
type Statement struct {
	Card        op.ID
	ShownDigest string
	Answer      string // approve, reject
	Remember    bool
	Note        string
	// Nonce makes the challenge of a passkey good once. A key that signs by itself leaves it
	// empty: a card takes one answer, so the same signature counts once.
	Nonce []byte
}

// statementDomain keeps these signatures apart from all others of the same key.
const statementDomain = "holdpoint answer 1"

// Digest is what is signed, and the challenge that a passkey is given: SHA-256 over the
// parts, each after its length, so that no two answers read alike.
func (s Statement) Digest() []byte {
	remember := "false"
	if s.Remember {
		remember = "true"
	}
	h := sha256.New()
	for _, part := range [][]byte{[]byte(statementDomain), []byte(s.Card), []byte(s.ShownDigest), []byte(s.Answer), []byte(remember), []byte(s.Note), s.Nonce} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	return h.Sum(nil)
}

// Proof travels with an answer and shows that a person of the roster gave exactly it.
type Proof struct {
	Reviewer  op.ID  `json:"reviewer,omitempty"`  // the entry; empty is whichever fits: one key has another id on each machine
	Signature []byte `json:"signature,omitempty"` // ed25519, over Statement.Digest; base64 in JSON
	// Assertion is a passkey's, as the browser gives it (PublicKeyCredential.toJSON).
	Assertion json.RawMessage `json:"assertion,omitempty"`
	// Nonce is on record with an assertion, so that it can be checked again later.
	Nonce []byte `json:"nonce,omitempty"`
}

// signedWith gives the kind of key behind a recorded proof; empty where there is none.
func signedWith(recorded json.RawMessage) string {
	var p Proof
	switch {
	case len(recorded) == 0 || json.Unmarshal(recorded, &p) != nil:
		return ""
	case len(p.Assertion) > 0:
		return Passkey
	}
	return Ed25519
}

// Roster is everybody who may answer by a proof, ended entries too.
type Roster []Reviewer

// Find gives an entry that counts at a moment.
func (r Roster) Find(id op.ID, now time.Time) (Reviewer, bool) {
	for _, one := range r {
		if one.ID == id && one.Live(now) {
			return one, true
		}
	}
	return Reviewer{}, false
}

// Signers gives the entries of a person that sign and count at a moment; of everybody
// where no name is given.
func (r Roster) Signers(name string, now time.Time) (out []Reviewer) {
	for _, one := range r {
		if (name == "" || one.Name == name) && one.Signs() && one.Live(now) {
			out = append(out, one)
		}
	}
	return out
}

// People gives the names that count at a moment, whatever shows them.
func (r Roster) People(now time.Time) map[string]bool {
	out := map[string]bool{}
	for _, one := range r {
		if one.Live(now) {
			out[one.Name] = true
		}
	}
	return out
}

// Signed checks a signature of a key that signs by itself, and gives whose it is. Every
// refusal is proof_invalid in the same words.
func (r Roster) Signed(s Statement, p Proof, now time.Time) (Reviewer, error) {
	if s.ShownDigest == "" || len(s.Nonce) > 0 {
		return Reviewer{}, NoProof()
	}
	digest := s.Digest()
	for _, who := range r {
		if (p.Reviewer == "" || who.ID == p.Reviewer) && who.Kind == Ed25519 && who.Live(now) && len(who.Public) == ed25519.PublicKeySize &&
			ed25519.Verify(who.Public, digest, p.Signature) {
			return who, nil
		}
	}
	return Reviewer{}, NoProof()
}

// NoProof is the one refusal of a proof that does not hold, whatever is wrong with it.
func NoProof() *op.Error {
	return op.Fail(op.ProofInvalid, "the answer is not signed by a reviewer of the roster for this card and these words").
		Do("open the card again and answer it with your own key; nothing was answered")
}
