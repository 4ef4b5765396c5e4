package nats

import (
	"crypto/rand"
	"encoding/base64"
	"strings"

	"golang.org/x/crypto/curve25519"
	"golang.org/x/crypto/nacl/box"

	"holdpoint/op"
)

// HubKey is the public half of a hub's key: cards are sealed for it, so that the servers
// that carry them cannot read them. Zero is none.
type HubKey [32]byte

const hubKeyWord = "hub:"

// ParseHubKey reads what String wrote; nothing is no key.
func ParseHubKey(s string) (k HubKey, err error) {
	if s == "" {
		return k, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(s, hubKeyWord))
	if err != nil || len(b) != len(k) || !strings.HasPrefix(s, hubKeyWord) {
		return k, op.Fail(op.BadRequest, "a hub's key is the word hub: and 43 characters").In("nats-hub-key").Do("holdpoint hub prints it when it starts")
	}
	return HubKey(b), nil
}

func (k HubKey) String() string { return hubKeyWord + base64.RawURLEncoding.EncodeToString(k[:]) }

// seal locks b for the hub alone. Who sealed it does not show: what is inside is believed
// no more than what lies open, until a machine has taken an answer to it.
func (k HubKey) seal(b []byte) ([]byte, error) {
	return box.SealAnonymous(nil, b, (*[32]byte)(&k), rand.Reader)
}

// HubSecret opens what was sealed for a hub.
type HubSecret [32]byte

// NewHubSecret makes one of 256 random bits.
func NewHubSecret() (s HubSecret) {
	rand.Read(s[:])
	return s
}

// Key is its public half.
func (s HubSecret) Key() (k HubKey) {
	b, err := curve25519.X25519(s[:], curve25519.Basepoint)
	if err != nil {
		panic("nats: internal error: " + err.Error()) // the base point is no low-order one
	}
	return HubKey(b)
}

func (s HubSecret) open(b []byte) ([]byte, bool) {
	public := s.Key()
	return box.OpenAnonymous(nil, b, (*[32]byte)(&public), (*[32]byte)(&s))
}
