package rooted

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"

	"lukechampine.com/blake3/guts"

	"holdpoint/op"
)

// A file of this size or more is digested by all cores: below, starting them costs more
// than they gain.
const parallelFrom = 32 << 20

const (
	leafBytes  = guts.MaxSIMD * guts.ChunkSize // what one call compresses
	blockBytes = 1 << 20                       // what a worker takes at a time: a power of two of chunks
	pieceBytes = 128 << 10                     // what it reads at a time, so that it hashes from the nearest cache: likewise
)

// hashTree digests size bytes of a file with one worker a core. BLAKE3 is a tree over
// chunks of 1 KiB in which the left half is the largest power of two that leaves
// something for the right, so that blocks of a power of two are whole subtrees. It is not
// ok when the file does not end at size.
func hashTree(ctx context.Context, fd int, size int64, l *watchedLease) (digest op.Digest, ok bool, err error) {
	blocks := int((size + blockBytes - 1) / blockBytes)
	values := make([][8]uint32, blocks)
	var next atomic.Int64
	var short atomic.Bool
	var first error
	var mu sync.Mutex // guards first
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), blocks) {
		wg.Go(func() {
			buf := make([]byte, pieceBytes)
			for {
				i := next.Add(1) - 1
				if i >= int64(blocks) || short.Load() {
					return
				}
				err := ctx.Err()
				if err == nil {
					values[i], err = blockValue(fd, buf, i*blockBytes, min(blockBytes, size-i*blockBytes))
				}
				if err != nil {
					mu.Lock()
					if first == nil && err != errShort {
						first = err
					}
					mu.Unlock()
					short.Store(true)
					return
				}
				if l != nil {
					l.stands()
				}
			}
		})
	}
	wg.Wait()
	switch {
	case ctx.Err() != nil:
		return "", false, op.Fail(op.Cancelled, "cancelled while hashing").Because(ctx.Err())
	case first != nil || short.Load():
		return "", false, first
	}
	var more [1]byte
	if n, err := pread(fd, more[:], size); n != 0 || err != nil {
		return "", false, err
	}
	root := join(values)
	root.Flags |= guts.FlagRoot
	words := guts.CompressNode(root)
	var sum [32]byte
	for i, w := range words[:8] {
		binary.LittleEndian.PutUint32(sum[4*i:], w)
	}
	return op.Digest(digestPrefix + hex.EncodeToString(sum[:])), true, nil
}

// blockValue gives the value of the subtree over n bytes from off on, a piece at a time.
func blockValue(fd int, buf []byte, off, n int64) ([8]uint32, error) {
	var values [blockBytes / pieceBytes][8]uint32
	pieces := 0
	for at := int64(0); at < n; at += pieceBytes {
		b := buf[:min(pieceBytes, n-at)]
		if err := fillAt(fd, b, off+at); err != nil {
			return values[0], err
		}
		values[pieces] = guts.ChainingValue(subtree(b, uint64(off+at)/guts.ChunkSize))
		pieces++
	}
	return valueOf(values[:pieces]), nil
}

const errShort = op.Code("short") // never leaves this file

func fillAt(fd int, b []byte, off int64) error {
	for len(b) > 0 {
		n, err := pread(fd, b, off)
		if err != nil {
			return err
		}
		if n == 0 {
			return errShort
		}
		b, off = b[n:], off+int64(n)
	}
	return nil
}

// subtree gives the node over b, which begins at the given chunk of the file.
func subtree(b []byte, chunk uint64) guts.Node {
	if len(b) <= leafBytes {
		var leaf [leafBytes]byte
		src := &leaf
		if len(b) == leafBytes {
			src = (*[leafBytes]byte)(b)
		} else {
			copy(leaf[:], b)
		}
		return guts.CompressBuffer(src, len(b), &guts.IV, chunk, 0)
	}
	half := leftOf((len(b) + guts.ChunkSize - 1) / guts.ChunkSize)
	l := subtree(b[:half*guts.ChunkSize], chunk)
	r := subtree(b[half*guts.ChunkSize:], chunk+uint64(half))
	return guts.ParentNode(guts.ChainingValue(l), guts.ChainingValue(r), &guts.IV, 0)
}

// join gives the node over blocks, of which there are at least two.
func join(values [][8]uint32) guts.Node {
	half := leftOf(len(values))
	return guts.ParentNode(valueOf(values[:half]), valueOf(values[half:]), &guts.IV, 0)
}

func valueOf(values [][8]uint32) [8]uint32 {
	if len(values) == 1 {
		return values[0]
	}
	return guts.ChainingValue(join(values))
}

// leftOf is the largest power of two below n, which is at least 2.
func leftOf(n int) int { return 1 << (bits.Len(uint(n-1)) - 1) }
