// Package undo keeps the way back: sealed credentials, who may use one, and the steps
// that revert an operation.
//
// It trusts no credential that it did not seal, and a credential alone moves nothing: a
// revert is a call like any other, looked at, judged, pinned, recorded and undoable.
package undo

import (
	"bytes"
	"crypto/hmac"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/zeebo/blake3"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

// Keeper seals credentials and opens them again. Now may not be nil.
type Keeper struct {
	key  [32]byte
	Now  func() time.Time
	Keep time.Duration // how long a credential lives
}

// DefaultKeep is the life of a credential unless configured.
const DefaultKeep = 30 * 24 * time.Hour

// New derives the sealing key from the daemon's.
func New(key []byte, now func() time.Time, keep time.Duration) *Keeper {
	k := &Keeper{Now: now, Keep: keep}
	blake3.DeriveKey("holdpoint 2026 undo credential", key, k.key[:])
	return k
}

// Credential gives the sealed right to take o back.
func (k *Keeper) Credential(o journal.Operation) *op.Credential {
	c := op.Credential{ID: "un_" + o.ID[len("op_"):], Operation: o.ID, Op: o.Op, Root: o.Root,
		Effects: op.Effects(o.Steps), ExpiresAt: o.Expires.UTC().Truncate(time.Second)}
	c.Effects, c.More = carried(c.Effects)
	c.Seal = k.seal(c)
	return &c
}

// What a credential names of many effects: it has to travel, and its operation is what is
// taken back, whole.
const (
	maxNamed   = 500
	maxCarried = 256 << 10 // bytes of their names
)

func carried(all []op.Effect) (first []op.Effect, more int) {
	size := 0
	for i, e := range all {
		size += len(e.Path) + len(e.To) + len(e.Before.Target) + len(e.After.Target)
		if i == maxNamed || size > maxCarried {
			return all[:i], len(all) - i
		}
	}
	return all, 0
}

// seal is a keyed BLAKE3 over the canonical form of all other fields.
func (k *Keeper) seal(c op.Credential) string {
	c.Seal = ""
	body, err := json.Marshal(c)
	if err != nil {
		panic("undo: internal error: " + err.Error())
	}
	h, err := blake3.NewKeyed(k.key[:])
	if err != nil {
		panic("undo: internal error: " + err.Error())
	}
	h.Write(without(body, `,"size":0`))
	return hex.EncodeToString(h.Sum(nil))
}

var errForged = op.Fail(op.UndoForged, "this credential was not made by this daemon, or was changed since").Do("send it exactly as the reply gave it, or name the operation id")

// Read checks a credential as it came over the wire and gives the operation that it
// names. Any byte that the seal does not cover is undo_forged.
func (k *Keeper) Read(wire op.Object) (op.ID, error) {
	raw := op.Canonical(wire)
	var c op.Credential
	if len(raw) > 1<<20 || json.Unmarshal(raw, &c) != nil {
		return "", errForged
	}
	if !hmac.Equal([]byte(k.seal(c)), []byte(c.Seal)) {
		return "", errForged
	}
	// What was sealed must be all that was sent: a further or a changed field would
	// otherwise ride along unseen.
	back, err := json.Marshal(c)
	if err != nil {
		return "", errForged
	}
	same, err := op.ParseJSON(back)
	if err != nil {
		return "", errForged
	}
	whole := op.Canonical(same)
	if !bytes.Equal(whole, raw) && !bytes.Equal(without(whole, `"size":0,`), raw) {
		return "", errForged
	}
	return c.Operation, nil
}

// without leaves out the sizes of empty files, which credentials did not name once: those
// are good until they end. No text of a path or link can look so, its quotes being escaped.
func without(body []byte, size string) []byte { return bytes.ReplaceAll(body, []byte(size), nil) }

// Usable tells whether o may be taken back by caller, in root, now. An operation of
// somebody else, or of another root, looks like one that never was.
func (k *Keeper) Usable(o journal.Operation, caller op.Caller, rootKey string) error {
	unknown := op.Fail(op.UndoUnknown, "no such operation to undo").Do("list your operations with log")
	switch {
	case o.Root != rootKey:
		return unknown
	case caller.Role == op.Agent && o.Token != caller.Token:
		return unknown
	case o.State == journal.Undone || o.UndoneBy != "":
		return op.Fail(op.UndoConsumed, "this operation was undone already").Do("undo the undo to bring it back")
	case o.State != journal.Committed:
		return unknown
	case o.Dropped:
		return op.Fail(op.UndoExpired, "what this operation kept for its undo is gone: its credential was ended")
	case !k.Now().Before(o.Expires):
		return op.Fail(op.UndoExpired, "the way back was kept until "+o.Expires.UTC().Format(time.RFC3339))
	case len(o.Steps) == 0:
		return op.Fail(op.UndoUnknown, "this operation changed nothing, so there is nothing to undo")
	}
	return nil
}
