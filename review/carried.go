package review

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"holdpoint/op"
)

// passkeyText is how the text begins that a hub's page shows of a passkey made there, and
// that an operator enrolls on a machine: passkey:DATA@ORIGIN, where DATA is what the
// authenticator said of the new key.
const passkeyText = "passkey:"

// ParsePasskey reads a passkey that was made on the page of a hub, as an entry without name
// and id. Nothing in the text shows whose it is: that is the operator's word.
func ParsePasskey(text string) (Reviewer, error) {
	bad := func(err error) (Reviewer, error) {
		return Reviewer{}, op.Fail(op.BadRequest, "this is no passkey as the page of a hub shows it").In("passkey").Because(err).Do("register one there and copy the whole text, passkey:…@https://…")
	}
	body, found := strings.CutPrefix(strings.TrimSpace(text), passkeyText)
	encoded, origin, two := strings.Cut(body, "@")
	if !found || !two || len(text) > 8<<10 {
		return bad(nil)
	}
	site, err := siteOf(origin)
	if err != nil {
		return bad(err)
	}
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return bad(err)
	}
	var data protocol.AuthenticatorData
	if err := data.Unmarshal(raw); err != nil {
		return bad(err)
	}
	sum := sha256.Sum256([]byte(site.ID))
	switch {
	case !bytes.Equal(data.RPIDHash, sum[:]):
		return bad(op.Fail(op.BadRequest, "the passkey is for another address than it says"))
	case !data.Flags.HasAttestedCredentialData() || !data.Flags.UserVerified() || len(data.AttData.CredentialID) == 0:
		return bad(op.Fail(op.BadRequest, "no key is in it, or nobody was verified when it was made"))
	}
	kept, err := json.Marshal(stored{Site: site.ID, Origin: site.Origin, Credential: webauthn.Credential{ID: data.AttData.CredentialID, PublicKey: data.AttData.CredentialPublicKey,
		Flags: webauthn.NewCredentialFlags(data.Flags), Authenticator: webauthn.Authenticator{AAGUID: data.AttData.AAGUID, SignCount: data.Counter}}})
	return Reviewer{Kind: Passkey, Public: data.AttData.CredentialPublicKey, Credential: kept}, err
}

// siteOf takes the address of a page: a name, since an IP address cannot have passkeys.
func siteOf(origin string) (Site, error) {
	u, err := url.Parse(origin)
	if err == nil {
		if _, notOne := netip.ParseAddr(u.Hostname()); notOne == nil {
			u.Host = ""
		}
	}
	switch {
	case err != nil || u.Host == "" || u.Scheme+"://"+u.Host != origin,
		u.Scheme != "https" && (u.Scheme != "http" || u.Hostname() != "localhost"):
		return Site{}, op.Fail(op.BadRequest, "the address of the page must be https://NAME, or http://localhost:PORT")
	}
	return Site{ID: u.Hostname(), Origin: origin}, nil
}

// Carried reports whether a proof is the touch of a passkey that was made on the page of a
// hub, by an entry of the roster that counts. It checks nothing else.
func (r Roster) Carried(p Proof, now time.Time) bool {
	_, _, _, ok := r.touchedBy(p, now)
	return ok
}

func (r Roster) touchedBy(p Proof, now time.Time) (who Reviewer, s stored, parsed *protocol.ParsedCredentialAssertionData, ok bool) {
	if len(p.Assertion) == 0 {
		return who, s, nil, false
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(p.Assertion)
	if err != nil {
		return who, s, nil, false
	}
	for _, who = range r {
		if s = (stored{}); who.Kind == Passkey && who.Live(now) && (p.Reviewer == "" || who.ID == p.Reviewer) && json.Unmarshal(who.Credential, &s) == nil &&
			s.Origin != "" && bytes.Equal(s.Credential.ID, parsed.RawID) {
			return who, s, parsed, true
		}
	}
	return Reviewer{}, stored{}, nil, false
}

// Touched checks the touch of a passkey that was made on the page of a hub, and gives the
// entry as it is to be kept from now on. No daemon made its challenge: it is the statement's
// digest without a nonce, as a key signs that signs by itself, and counts once because a
// card takes one answer. Every refusal is proof_invalid in the same words; of a copied
// passkey the entry comes along.
func (r Roster) Touched(s Statement, p Proof, now time.Time) (Reviewer, error) {
	who, kept, parsed, ok := r.touchedBy(p, now)
	if !ok || s.ShownDigest == "" || len(s.Nonce) > 0 {
		return Reviewer{}, NoProof()
	}
	w, err := webauthn.New(&webauthn.Config{RPID: kept.Site, RPDisplayName: "Holdpoint", RPOrigins: []string{kept.Origin}})
	if err != nil {
		return Reviewer{}, NoProof().Because(err)
	}
	// A passkey that is found by its device alone tells a handle that the page chose: it says
	// nothing here, where the operator has said whose the key is.
	whose := visitor{person{who.Name, []webauthn.Credential{kept.Credential}}, parsed.Response.UserHandle}
	c, err := w.ValidateLogin(whose, webauthn.SessionData{Challenge: base64.RawURLEncoding.EncodeToString(s.Digest()), RelyingPartyID: kept.Site, UserID: whose.handle,
		UserVerification: protocol.VerificationRequired}, parsed)
	if err != nil {
		return Reviewer{}, NoProof().Because(err)
	}
	if c.Authenticator.CloneWarning {
		return who, NoProof().Because(errCopied)
	}
	kept.Credential, who.Used = *c, now.UTC()
	if who.Credential, err = json.Marshal(kept); err != nil {
		return Reviewer{}, NoProof().Because(err)
	}
	return who, nil
}

// visitor is a person under the handle that a page chose.
type visitor struct {
	person
	handle []byte
}

func (v visitor) WebAuthnID() []byte { return v.handle }
