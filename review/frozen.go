package review

import (
	"bytes"

	"holdpoint/internal/journal"
)

// Frozen gives the very bytes of a row's card that its digest is of, so that whoever gets
// both can check one by the other, also with another version of this program. They are the
// kept ones without the digest, which cannot be part of what it is of.
func Frozen(a journal.Approval) []byte {
	return bytes.Replace(a.Card, []byte(`"shown_digest":"`+a.ShownDigest+`"`), []byte(`"shown_digest":""`), 1)
}
