package flow

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"

	"golang.org/x/crypto/argon2"

	"holdpoint/op"
)

// HashPassphrase gives what is kept of a passphrase: a salt and its Argon2id hash, which
// answer nothing by themselves.
func HashPassphrase(passphrase string) (string, error) {
	if len(passphrase) < 8 {
		return "", op.Fail(op.BadRequest, "the passphrase must have at least 8 characters")
	}
	salt := make([]byte, 16)
	rand.Read(salt)
	sum := argon2.IDKey([]byte(passphrase), salt, argonTime, argonMemory, argonThreads, argonKey)
	return hex.EncodeToString(salt) + ":" + hex.EncodeToString(sum), nil
}

// PassphraseHash gives what is kept of this state's passphrase; empty when none is set.
func (e *Engine) PassphraseHash(ctx context.Context) (string, error) {
	return e.jrn.Meta(ctx, metaPassphrase)
}

// SetPassphraseHash takes a hash over from another state of the same person.
func (e *Engine) SetPassphraseHash(ctx context.Context, hash string) error {
	salt, sum, _ := strings.Cut(hash, ":")
	s, err1 := hex.DecodeString(salt)
	h, err2 := hex.DecodeString(sum)
	if err1 != nil || err2 != nil || len(s) != 16 || len(h) != argonKey {
		return op.Fail(op.StateCorrupt, "the reviewer's hash cannot be read").Do("set the passphrase again with holdpoint init")
	}
	return e.jrn.SetMeta(ctx, metaPassphrase, hash)
}
