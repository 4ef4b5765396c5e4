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

func (m manifestHash) text(s string) { _, _ = m.h.Write(appendText(nil, s)) }

func appendNumber(b []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(b, n) }

func appendText(b []byte, s string) []byte { return append(appendNumber(b, uint64(len(s))), s...) }

// entry adds one thing found below the directory.
func (m manifestHash) entry(below string, i Info, content op.Digest) {
	m.entryIn("", below, i, content)
}

// entryIn adds one name of a directory below, "" for the one digested. The size of a
// directory says something about the file system only, so it stays out. All of it goes in
// at once: a call of the hasher costs more than it digests.
func (m manifestHash) entryIn(dir, name string, i Info, content op.Digest) {
	var room [512]byte
	b := room[:0]
	if dir == "" {
		b = appendText(b, name)
	} else {
		b = appendNumber(b, uint64(len(dir)+1+len(name)))
		b = append(append(append(b, dir...), '/'), name...)
	}
	size := i.Size
	if i.Kind == op.Directory {
		size = 0
	}
	b = appendText(b, string(i.Kind))
	b = appendNumber(appendNumber(b, uint64(i.Mode)), uint64(size))
	_, _ = m.h.Write(appendText(b, string(content)))
}
