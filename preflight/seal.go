package preflight

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/zeebo/blake3"

	"holdpoint/op"
)

// Sealer makes and checks pin tokens. A token says "only if all of this still holds"; it
// carries no right, and is good for one root.
type Sealer struct{ key [32]byte }

// NewSealer derives its key from the daemon's.
func NewSealer(key []byte) *Sealer {
	s := &Sealer{}
	blake3.DeriveKey("holdpoint 2026 preflight pin token", key, s.key[:])
	return s
}

type sealed struct {
	Root string   `json:"root"`
	Pins []op.Pin `json:"pins"`
}

// Seal gives the token for what was seen.
func (s *Sealer) Seal(rootKey string, pins []op.Pin) string {
	body, err := json.Marshal(sealed{rootKey, pins})
	if err != nil {
		panic("preflight: internal error: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(body) + "." + base64.RawURLEncoding.EncodeToString(s.mac(body))
}

// Sum digests pins in their order: two answers with the same sum stand on the same facts.
func Sum(pins []op.Pin) op.Digest {
	h := blake3.New()
	var b []byte
	field := func(s string) { b = append(binary.BigEndian.AppendUint64(b, uint64(len(s))), s...) }
	field("holdpoint facts 1")
	for _, p := range pins {
		field(string(p.Path))
		field(string(p.Kind))
		field(string(p.Hash))
		_, _ = h.Write(b)
		b = b[:0]
	}
	_, _ = h.Write(b)
	return op.Digest("blake3:" + hex.EncodeToString(h.Sum(nil)))
}

// Open gives back the pins of a token; bad_request when it is none of ours, or of another root.
func (s *Sealer) Open(rootKey, token string) ([]op.Pin, error) {
	bad := op.Fail(op.BadRequest, "the pin token does not hold").In("pins").Do("call preflight again and send its pins as they are")
	text, mac, ok := strings.Cut(token, ".")
	body, err1 := base64.RawURLEncoding.DecodeString(text)
	sum, err2 := base64.RawURLEncoding.DecodeString(mac)
	if !ok || err1 != nil || err2 != nil || !hmac.Equal(sum, s.mac(body)) {
		return nil, bad
	}
	var v sealed
	if json.Unmarshal(body, &v) != nil || v.Root != rootKey {
		return nil, bad
	}
	return v.Pins, nil
}

func (s *Sealer) mac(body []byte) []byte {
	h, err := blake3.NewKeyed(s.key[:])
	if err != nil {
		panic("preflight: internal error: " + err.Error())
	}
	h.Write(body)
	return h.Sum(nil)
}

// Drift compares pins with what is seen now and names the first that does not hold:
// stale_precondition with the current hash. A path that is pinned but not looked at, or
// looked at but not pinned, is drift as well. A directory that was to be made on the way to
// a path and stands by now is none: the path is the same, and one thing less has to be done.
func Drift(pins []op.Pin, now op.Facts) *op.Error {
	was := make(map[op.Path]op.Pin, len(pins))
	for _, p := range pins {
		was[p.Path] = p
	}
	seen := map[op.Path]bool{}
	for _, p := range now.Pins() {
		seen[p.Path] = true
		if old, ok := was[p.Path]; !ok || old != p {
			e := op.Fail(op.Stale, staleMessage(old, p, ok)).At(p.Path).Do("look again, then decide again: nothing was changed")
			e.CurrentHash, e.Retry = p.Hash, "corrected"
			return e
		}
	}
	for _, p := range pins {
		if !seen[p.Path] && !onTheWay(p, seen) {
			return op.Fail(op.Stale, "the call now resolves to other paths than before").At(p.Path)
		}
	}
	return nil
}

// onTheWay reports an absent directory through which a path that is seen leads now. What is
// seen has its canonical path, so that every part of it is a directory and no link.
func onTheWay(p op.Pin, seen map[op.Path]bool) bool {
	if p.Kind != op.Absent {
		return false
	}
	for at := range seen {
		if at != p.Path && at.Within(p.Path) {
			return true
		}
	}
	return false
}

func staleMessage(old, now op.Pin, known bool) string {
	switch {
	case !known:
		return "this path was not part of what was looked at"
	case old.Kind != now.Kind:
		return "was " + string(old.Kind) + ", is " + string(now.Kind) + " now"
	}
	return "changed since it was looked at"
}
