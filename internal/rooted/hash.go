package rooted

import (
	"encoding/binary"
	"encoding/hex"
	"hash"

	"github.com/zeebo/blake3"

	"holdpoint/op"
)

const digestPrefix = "blake3:"

// HashBytes gives the digest of b in its wire form.
func HashBytes(b []byte) op.Digest {
	sum := blake3.Sum256(b)
	return op.Digest(digestPrefix + hex.EncodeToString(sum[:]))
}

func wireDigest(h hash.Hash) op.Digest {
	return op.Digest(digestPrefix + hex.EncodeToString(h.Sum(nil)))
}

// manifestHash digests a sequence of fields so that no two sequences look alike: each
// field goes in after its length, and the first one names what is being digested.
type manifestHash struct{ h *blake3.Hasher }

func newManifestHash() manifestHash {
	m := manifestHash{blake3.New()}
	m.text("holdpoint directory manifest 1")
	return m
}

func (m manifestHash) number(n uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	_, _ = m.h.Write(b[:])
}

func (m manifestHash) text(s string) {
	m.number(uint64(len(s)))
	_, _ = m.h.WriteString(s)
}

// entry adds one thing found below the directory. The size of a directory says something
// about the file system only, so it stays out.
func (m manifestHash) entry(below string, i Info, content op.Digest) {
	size := i.Size
	if i.Kind == op.Directory {
		size = 0
	}
	m.text(below)
	m.text(string(i.Kind))
	m.number(uint64(i.Mode))
	m.number(uint64(size))
	m.text(string(content))
}
