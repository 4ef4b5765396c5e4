package review

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"sync"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"holdpoint/op"
)

const (
	touchTime = 2 * time.Minute // how long a person has to touch
	maxTouch  = 4096            // exchanges under way at once
)

// Site is the relying party: the name that passkeys are bound to, and the one address from
// which they are used. The zero value takes none.
type Site struct {
	ID     string // localhost, or the host of the public address; never an IP address
	Origin string // http://localhost:7117
}

// Passkeys holds the exchanges with browsers that are under way. Each challenge is good
// once, for a short while, for the person who asked, and for exactly what it was made for.
// They live in memory only.
type Passkeys struct {
	Now func() time.Time

	mu   sync.Mutex // guards the rest
	site Site
	open map[string]exchange // by challenge, as it travels
}

type exchange struct {
	person  string // "" where the passkey itself says who it is
	purpose string
	nonce   []byte
	session webauthn.SessionData
	ends    time.Time
}

// What an exchange is for.
const (
	forAnswer = "answer"
	forKey    = "register"
	forLogin  = "login"
)

// Serve says where the page is reached; known only when the daemon listens.
func (k *Passkeys) Serve(s Site) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.site = s
}

// Site gives where passkeys work; a zero Site is nowhere.
func (k *Passkeys) Site() Site {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.site
}

// stored is what is kept of a passkey: where it works, and all that the library asks back.
type stored struct {
	Site       string              `json:"site"`
	Origin     string              `json:"origin,omitempty"` // of the page of a hub, where the passkey was made there; it is used nowhere else
	Credential webauthn.Credential `json:"credential"`
}

// person is a reviewer as the library knows one: a handle that tells no name, and keys.
type person struct {
	name string
	keys []webauthn.Credential
}

func (p person) WebAuthnID() []byte                         { return handle(p.name) }
func (p person) WebAuthnName() string                       { return p.name }
func (p person) WebAuthnDisplayName() string                { return p.name }
func (p person) WebAuthnCredentials() []webauthn.Credential { return p.keys }

func handle(name string) []byte {
	sum := sha256.Sum256([]byte("holdpoint reviewer\x00" + name))
	return sum[:]
}

// personOf takes the passkeys of entries that work at a site.
func personOf(name, site string, entries []Reviewer) person {
	p := person{name: name}
	for _, r := range entries {
		var s stored
		if r.Kind == Passkey && json.Unmarshal(r.Credential, &s) == nil && s.Site == site && s.Origin == "" {
			p.keys = append(p.keys, s.Credential)
		}
	}
	return p
}

// Works tells whether any of a person's entries is a passkey that this page can ask.
func (k *Passkeys) Works(name string, entries []Reviewer) bool {
	return len(personOf(name, k.Site().ID, entries).keys) > 0
}

// party makes the library's view of the site. A person is verified, by a finger, a face or
// a PIN, each time: possession of an unlocked device is not enough.
func (k *Passkeys) party() (*webauthn.WebAuthn, Site, error) {
	site := k.Site()
	nowhere := op.Fail(op.NotAvailable, "passkeys need a page that is reached by a name").
		Do("start serve with --listen 127.0.0.1:7117, or with --public-url and a host name: an address cannot be what a passkey is bound to")
	if site.ID == "" {
		return nil, site, nowhere
	}
	w, err := webauthn.New(&webauthn.Config{RPID: site.ID, RPDisplayName: "Holdpoint", RPOrigins: []string{site.Origin}, AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{UserVerification: protocol.VerificationRequired, ResidentKey: protocol.ResidentKeyRequirementPreferred}})
	if err != nil {
		return nil, site, nowhere.Because(err)
	}
	return w, site, nil
}

// Register begins to enroll a passkey: what the browser is to be given. One that the
// person has already is not made again.
func (k *Passkeys) Register(name string, has []Reviewer) (json.RawMessage, error) {
	w, site, err := k.party()
	if err != nil {
		return nil, err
	}
	who := personOf(name, site.ID, has)
	options, session, err := w.BeginRegistration(who, webauthn.WithExclusions(webauthn.Credentials(who.keys).CredentialDescriptors()))
	if err != nil {
		return nil, op.Fail(op.Internal, "the passkey's options cannot be made").Because(err)
	}
	return k.begin(options, exchange{person: name, purpose: forKey, session: *session})
}

// Registered checks what the browser made, and gives it as an entry without name and id.
func (k *Passkeys) Registered(name string, made []byte) (Reviewer, error) {
	w, site, err := k.party()
	if err != nil {
		return Reviewer{}, err
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(made)
	if err != nil {
		return Reviewer{}, notMade(err)
	}
	x, ok := k.take(parsed.Response.CollectedClientData.Challenge, name, forKey)
	if !ok {
		return Reviewer{}, notMade(nil)
	}
	c, err := w.CreateCredential(person{name: name}, x.session, parsed)
	if err != nil {
		return Reviewer{}, notMade(err)
	}
	kept, err := json.Marshal(stored{Site: site.ID, Credential: *c})
	return Reviewer{Kind: Passkey, Public: c.PublicKey, Credential: kept}, err
}

func notMade(err error) error {
	return op.Fail(op.ProofInvalid, "the passkey was not made for this page and this person").Because(err).Do("register it again")
}

// Challenge asks for a touch over one answer. The challenge is the statement's digest with
// a nonce in it, so that what is signed can be nothing else and counts once.
func (k *Passkeys) Challenge(name string, entries []Reviewer, s Statement) (json.RawMessage, error) {
	s.Nonce = make([]byte, 32)
	rand.Read(s.Nonce)
	return k.ask(name, entries, exchange{person: name, purpose: forAnswer, nonce: s.Nonce}, webauthn.WithChallenge(s.Digest()))
}

func (k *Passkeys) ask(name string, entries []Reviewer, x exchange, options ...webauthn.LoginOption) (json.RawMessage, error) {
	w, site, err := k.party()
	if err != nil {
		return nil, err
	}
	who := personOf(name, site.ID, entries)
	if len(who.keys) == 0 {
		return nil, op.Fail(op.PasskeyNeeded, "no passkey of "+name+" works at "+site.ID).Do("register one here, or open the page where the others were registered")
	}
	asked, session, err := w.BeginLogin(who, options...)
	if err != nil {
		return nil, op.Fail(op.Internal, "the passkey's options cannot be made").Because(err)
	}
	x.session = *session
	return k.begin(asked, x)
}

// Proven checks an assertion over an answer by the entries of one person, and gives the
// entry as it is to be kept from now on: with its counter gone forward. Every refusal is
// proof_invalid in the same words, and ends the challenge.
func (k *Passkeys) Proven(name string, entries []Reviewer, s Statement, p Proof) (Reviewer, Proof, error) {
	parsed, err := protocol.ParseCredentialRequestResponseBytes(p.Assertion)
	if err != nil {
		return Reviewer{}, p, NoProof().Because(err)
	}
	challenge := parsed.Response.CollectedClientData.Challenge
	x, ok := k.take(challenge, name, forAnswer)
	if s.Nonce = x.nonce; !ok || s.ShownDigest == "" || base64.RawURLEncoding.EncodeToString(s.Digest()) != challenge {
		return Reviewer{}, p, NoProof()
	}
	r, err := k.check(name, entries, x, parsed)
	p.Reviewer, p.Nonce = r.ID, x.nonce
	return r, p, err
}

// check is the library's part, and the counter's: one that does not go forward is a copy.
func (k *Passkeys) check(name string, entries []Reviewer, x exchange, parsed *protocol.ParsedCredentialAssertionData) (Reviewer, error) {
	w, site, err := k.party()
	if err != nil {
		return Reviewer{}, err
	}
	c, err := w.ValidateLogin(personOf(name, site.ID, entries), x.session, parsed)
	if err != nil {
		return Reviewer{}, NoProof().Because(err)
	}
	if c.Authenticator.CloneWarning {
		return Reviewer{}, NoProof().Because(errCopied)
	}
	for _, r := range entries {
		var s stored
		if r.Kind == Passkey && json.Unmarshal(r.Credential, &s) == nil && s.Site == site.ID && s.Origin == "" && string(s.Credential.ID) == string(c.ID) {
			s.Credential, r.Used = *c, k.Now().UTC()
			r.Credential, err = json.Marshal(s)
			return r, err
		}
	}
	return Reviewer{}, NoProof()
}

// errCopied is why a passkey whose counter went back proves nothing.
var errCopied = op.Fail(op.ProofInvalid, "the passkey's counter did not go forward: there is a copy of it")

// Copied reports whether a proof failed because the passkey seems to exist twice.
func Copied(err error) bool { e := op.AsError(err); return e != nil && e.Err == errCopied }

// begin keeps an exchange and words its options for the browser.
func (k *Passkeys) begin(options any, x exchange) (json.RawMessage, error) {
	body, err := json.Marshal(options)
	if err != nil {
		return nil, op.Fail(op.Internal, "the passkey's options cannot be written").Because(err)
	}
	now := k.Now()
	x.ends = now.Add(touchTime)
	k.mu.Lock()
	defer k.mu.Unlock()
	for c, old := range k.open {
		if !now.Before(old.ends) {
			delete(k.open, c)
		}
	}
	if len(k.open) >= maxTouch {
		return nil, op.Fail(op.QueueFull, "too many passkeys are being asked for").Do("wait two minutes")
	}
	if k.open == nil {
		k.open = map[string]exchange{}
	}
	k.open[x.session.Challenge] = x
	return body, nil
}

// take ends an exchange, whoever asks for it: a challenge is good once.
func (k *Passkeys) take(challenge, name, purpose string) (exchange, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	x, ok := k.open[challenge]
	delete(k.open, challenge)
	return x, ok && x.person == name && x.purpose == purpose && k.Now().Before(x.ends)
}
