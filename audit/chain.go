package audit

import (
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"time"

	"github.com/zeebo/blake3"

	"holdpoint/op"
)

// Genesis stands as prev in record 1.
const Genesis = "genesis"

// Head names the last record of a log. Kept where the log's owner cannot reach it, it
// shows later whether the log was cut, replaced by an older copy or written anew.
type Head struct {
	Seq  int64     `json:"seq"`
	Hash string    `json:"hash"` // of the line; Genesis in an empty log
	Time time.Time `json:"time"` // when the head was taken
	Seal string    `json:"seal"` // keyed BLAKE3 over the three, with a key only the daemon has
}

// hashLine gives the wire form of a line's hash; its end is not part of it.
func hashLine(line []byte) string {
	sum := blake3.Sum256(line)
	return "blake3:" + hex.EncodeToString(sum[:])
}

// seal is bound to this use of the key by a context of its own.
func seal(key []byte, h Head) string {
	var derived [32]byte
	blake3.DeriveKey("holdpoint audit head, version 1", key, derived[:])
	k, err := blake3.NewKeyed(derived[:])
	if err != nil {
		panic("audit: internal error: " + err.Error())
	}
	var n [8]byte
	number := func(v int64) {
		binary.BigEndian.PutUint64(n[:], uint64(v))
		k.Write(n[:])
	}
	number(h.Seq)
	number(h.Time.UnixNano())
	number(int64(len(h.Hash)))
	k.Write([]byte(h.Hash))
	return "blake3:" + hex.EncodeToString(k.Sum(nil))
}

// checkSeal refuses a head that this daemon did not make.
func checkSeal(key []byte, h Head) error {
	if subtle.ConstantTimeCompare([]byte(seal(key, h)), []byte(h.Seal)) != 1 {
		return op.Fail(op.StateCorrupt, "the audit head does not carry this daemon's seal").
			Do("check that the head was made by holdpoint audit head on the same state directory")
	}
	return nil
}

// link is the place in the chain after a record: what the next one must say.
type link struct {
	seq  int64
	hash string
}

// next checks one line against the place before it. It returns the place after it, or the
// failure and the number of the record that is at fault.
func (at link) next(line []byte) (link, Record, *op.Error, int64) {
	r, err := Parse(line)
	return at.follow(line, r, err)
}

// follow is next for a line that was parsed already, with what that gave.
func (at link) follow(line []byte, r Record, err error) (link, Record, *op.Error, int64) {
	n := at.seq + 1
	if err != nil {
		return at, r, broken(n, "is not readable"), n
	}
	if r.Seq != n {
		return at, r, broken(n, "is missing or out of its place"), n
	}
	if r.Prev != at.hash {
		// A changed line has a wholly different hash; a damaged prev differs in a few places.
		if at.seq == 0 || len(r.Prev) != len(at.hash) || distance(r.Prev, at.hash) < len(at.hash)/4 {
			return at, r, broken(n, "does not follow the one before it"), n
		}
		return at, r, broken(n-1, "was changed: the record after it names another hash"), n - 1
	}
	return link{n, hashLine(line)}, r, nil, 0
}

func distance(a, b string) (d int) {
	for i := range len(a) {
		if a[i] != b[i] {
			d++
		}
	}
	return d
}
