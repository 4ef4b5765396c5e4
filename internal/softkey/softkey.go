// Package softkey is a passkey in a few lines, for tests: one ES256 key that answers as a
// browser and an authenticator together would, and lies where a test wants it to.
//
// It keeps its key in memory, asks nobody, and is in no build that ships.
package softkey

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
)

// Flags of what an authenticator says of the person.
const (
	Present  = 0x01
	Verified = 0x04
	attested = 0x40 // a key comes along
)

// Key is one passkey. Its fields may be changed between uses.
type Key struct {
	Site   string // the relying party it speaks for
	Origin string // the page it says it was asked on
	Flags  byte
	Count  uint32 // grows by one with each use
	ID     []byte
	key    *ecdsa.PrivateKey
}

// New makes a passkey for a site, whose person is present and verified.
func New(site, origin string) *Key {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic("softkey: " + err.Error())
	}
	id := make([]byte, 16)
	rand.Read(id)
	return &Key{Site: site, Origin: origin, Flags: Present | Verified, ID: id, key: key}
}

// Copy is the same passkey a second time, as a thief would have it.
func (k *Key) Copy() *Key { c := *k; return &c }

// options is what both kinds of exchange begin with.
type options struct {
	PublicKey struct {
		Challenge string `json:"challenge"`
	} `json:"publicKey"`
}

// Challenge gives the challenge of options.
func Challenge(asked []byte) string {
	var o options
	if err := json.Unmarshal(asked, &o); err != nil {
		panic("softkey: these are no options: " + string(asked))
	}
	return o.PublicKey.Challenge
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func (k *Key) client(kind, challenge string) []byte {
	b, _ := json.Marshal(map[string]any{"type": kind, "challenge": challenge, "origin": k.Origin, "crossOrigin": false})
	return b
}

// data is the authenticator's half of what is signed.
func (k *Key) data(flags byte) []byte {
	sum := sha256.Sum256([]byte(k.Site))
	return binary.BigEndian.AppendUint32(append(sum[:], flags), k.Count)
}

func (k *Key) answer(response map[string]any) []byte {
	b, _ := json.Marshal(map[string]any{"id": b64(k.ID), "rawId": b64(k.ID), "type": "public-key", "clientExtensionResults": map[string]any{}, "response": response})
	return b
}

// made is the authenticator's half of a registration, with the key.
func (k *Key) made() []byte {
	point, err := k.key.PublicKey.Bytes()
	if err != nil {
		panic("softkey: " + err.Error())
	}
	// COSE: {1: 2, 3: -7, -1: 1, -2: x, -3: y}
	cose := append([]byte{0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20}, point[1:33]...)
	cose = append(append(cose, 0x22, 0x58, 0x20), point[33:]...)
	data := append(k.data(k.Flags|attested), make([]byte, 16)...)
	data = append(binary.BigEndian.AppendUint16(data, uint16(len(k.ID))), k.ID...)
	return append(data, cose...)
}

// Text is the passkey as the page of a hub shows it.
func (k *Key) Text() string { return "passkey:" + b64(k.made()) + "@" + k.Origin }

// Create answers the options of a registration.
func (k *Key) Create(asked []byte) []byte {
	data := k.made()
	// CBOR: {"fmt": "none", "attStmt": {}, "authData": data}
	object := append([]byte("\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x58"), byte(len(data)))
	object = append(object, data...)
	return k.answer(map[string]any{"clientDataJSON": b64(k.client("webauthn.create", Challenge(asked))), "attestationObject": b64(object), "transports": []string{"internal"}})
}

// Get answers the options of an assertion.
func (k *Key) Get(asked []byte) []byte {
	k.Count++
	client, data := k.client("webauthn.get", Challenge(asked)), k.data(k.Flags)
	sum := sha256.Sum256(client)
	digest := sha256.Sum256(append(data[:len(data):len(data)], sum[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, k.key, digest[:])
	if err != nil {
		panic("softkey: " + err.Error())
	}
	return k.answer(map[string]any{"clientDataJSON": b64(client), "authenticatorData": b64(data), "signature": b64(signature)})
}
