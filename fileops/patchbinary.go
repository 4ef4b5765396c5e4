package fileops

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"

	"holdpoint/op"
)

// binaryPatch is a whole new content, or a delta against the old one.
type binaryPatch struct {
	delta bool
	data  []byte
}

// maxBinary bounds what one binary part unpacks to.
const maxBinary = MaxEdit

// binaryOf reads the forward data and passes over the way back that git adds.
func (r *patchReader) binaryOf(f *filePatch) error {
	forward, err := r.binaryChunk()
	if err != nil {
		return err
	}
	if forward == nil {
		return r.bad("binary data is missing")
	}
	f.binary = forward
	_, err = r.binaryChunk()
	return err
}

func (r *patchReader) binaryChunk() (*binaryPatch, error) {
	word, count, ok := strings.Cut(bare(r.peek()), " ")
	if !ok || word != "literal" && word != "delta" {
		return nil, nil
	}
	size, err := strconv.ParseInt(count, 10, 64)
	if err != nil || size < 0 || size > maxBinary {
		return nil, r.bad("a malformed or too large size of binary data")
	}
	r.i++
	var packed []byte
	for {
		l := bare(r.peek())
		if l == "" {
			break
		}
		part, err := base85Line(l)
		if err != nil {
			return nil, r.bad(err.Error())
		}
		packed = append(packed, part...)
		r.i++
	}
	if r.peek() != nil {
		r.i++ // the empty line that ends it
	}
	z, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, r.bad("binary data that does not unpack")
	}
	data, err := io.ReadAll(io.LimitReader(z, size+1))
	if err != nil || int64(len(data)) != size {
		return nil, r.bad("binary data that does not unpack to its size")
	}
	return &binaryPatch{delta: word == "delta", data: data}, nil
}

const base85Digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// base85Line decodes one line: a letter for how many bytes, then five digits for each four.
func base85Line(l string) ([]byte, error) {
	bad := fmt.Errorf("malformed binary data")
	n := 0
	switch c := l[0]; {
	case c >= 'A' && c <= 'Z':
		n = int(c-'A') + 1
	case c >= 'a' && c <= 'z':
		n = int(c-'a') + 27
	}
	digits := l[1:]
	if n == 0 || len(digits) != (n+3)/4*5 {
		return nil, bad
	}
	out := make([]byte, 0, n+3)
	for ; len(digits) > 0; digits = digits[5:] {
		var v uint64
		for i := range 5 {
			d := strings.IndexByte(base85Digits, digits[i])
			if d < 0 {
				return nil, bad
			}
			v = v*85 + uint64(d)
		}
		if v > 0xffffffff {
			return nil, bad
		}
		out = append(out, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
	}
	return out[:n], nil
}

// applyBinary gives the new content. The patch says of what by the blob's id; without a
// whole id there is no telling whether the old content is the one that was meant.
func (f filePatch) applyBinary(old []byte, exists bool) ([]byte, error) {
	if f.oldID == "" {
		return nil, op.Fail(op.PatchParse, "a binary part without whole blob ids").In("args.patch").Do("make the patch with git diff --binary --full-index")
	}
	if exists && !isBlob(old, f.oldID) {
		return nil, op.Fail(op.PatchMismatch, "the file is not the blob that the binary patch changes").Do("view the file and make the patch anew on what is there")
	}
	out := f.binary.data
	if f.binary.delta {
		var err error
		if out, err = applyDelta(old, f.binary.data); err != nil {
			return nil, op.Fail(op.PatchParse, err.Error()).In("args.patch")
		}
	}
	if strings.Trim(f.newID, "0") != "" && !isBlob(out, f.newID) {
		return nil, op.Fail(op.PatchParse, "the binary data does not make the blob that the patch names").In("args.patch")
	}
	return out, nil
}

// isBlob compares content with git's name for it, in either hash.
func isBlob(b []byte, id string) bool {
	if strings.Trim(id, "0") == "" {
		return len(b) == 0
	}
	head := fmt.Appendf(nil, "blob %d\x00", len(b))
	if len(id) == 64 {
		sum := sha256.Sum256(append(head, b...))
		return hex.EncodeToString(sum[:]) == id
	}
	sum := sha1.Sum(append(head, b...))
	return hex.EncodeToString(sum[:]) == id
}

// applyDelta follows git's copy and insert instructions.
func applyDelta(old, delta []byte) ([]byte, error) {
	bad := fmt.Errorf("a malformed binary delta")
	size := func() int64 {
		var n int64
		for shift := 0; len(delta) > 0 && shift < 56; shift += 7 {
			c := delta[0]
			delta = delta[1:]
			n |= int64(c&0x7f) << shift
			if c&0x80 == 0 {
				return n
			}
		}
		return -1
	}
	from, to := size(), size()
	if from != int64(len(old)) || to < 0 || to > maxBinary {
		return nil, bad
	}
	out := make([]byte, 0, min(to, 1<<20))
	for len(delta) > 0 {
		c := delta[0]
		delta = delta[1:]
		if c&0x80 == 0 {
			if c == 0 || int(c) > len(delta) {
				return nil, bad
			}
			out, delta = append(out, delta[:c]...), delta[c:]
			continue
		}
		var at, n int
		for i := range 7 {
			if c&(1<<i) == 0 {
				continue
			}
			if len(delta) == 0 {
				return nil, bad
			}
			if i < 4 {
				at |= int(delta[0]) << (8 * i)
			} else {
				n |= int(delta[0]) << (8 * (i - 4))
			}
			delta = delta[1:]
		}
		if n == 0 {
			n = 0x10000
		}
		if at+n > len(old) || int64(len(out)+n) > to {
			return nil, bad
		}
		out = append(out, old[at:at+n]...)
	}
	if int64(len(out)) != to {
		return nil, bad
	}
	return out, nil
}
