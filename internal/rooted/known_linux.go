package rooted

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// What was found out from the bytes of a file may be told again without reading them, as
// long as its inode says the same, if three things held when they were read. The file had
// not been changed within two ticks of the coarsest clock, so that any later change has
// another ctime. It was read under a lease, so that nobody had it open for writing or
// mapped: a write through a mapping whose page is dirty already moves no time at all. And
// the filesystem is one whose times were seen to move at each change.
//
// It serves looks. What is replaced is always read again, by Hold.

// Known is what was found out from the bytes of a regular file.
type Known struct {
	Digest op.Digest
	Size   int64
	Note   any // what the study of the bytes gave; must not be changed
}

// imprint is what an inode says of its own bytes. Equal imprints are of equal bytes only
// under the conditions above.
type imprint struct {
	dev, ino, mount     uint64
	size                int64
	mtime, ctime, btime int64 // in nanoseconds
}

// knownFiles is how many files are remembered: two generations of half as many.
const knownFiles = 32 << 10

// knowledge remembers files by their imprints. Its size has a bound that no workspace moves.
type knowledge struct {
	sound bool // of the filesystem; set once

	mu       sync.Mutex // guards what follows
	new, old map[imprint]Known
}

func (k *knowledge) get(s imprint) (Known, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if v, ok := k.new[s]; ok {
		return v, true
	}
	v, ok := k.old[s]
	if ok {
		k.put(s, v)
	}
	return v, ok
}

// put remembers; the caller holds mu.
func (k *knowledge) put(s imprint, v Known) {
	if k.new == nil || len(k.new) >= knownFiles/2 {
		k.new, k.old = map[imprint]Known{}, k.new
	}
	k.new[s] = v
}

func (k *knowledge) set(s imprint, v Known) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.put(s, v)
}

// soundTimes reports whether fd lies on a filesystem whose change times were seen to move
// at each change. Those over a network or in a program's hands, and overlays, are not among
// them, and neither is tmpfs: a page that a program has mapped for writing and read first is
// changed there without the kernel being told, and no time moves.
func soundTimes(fd int) bool {
	var st unix.Statfs_t
	if retry(func() error { return unix.Fstatfs(fd, &st) }) != nil {
		return false
	}
	switch uint32(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC:
		return true
	}
	return false
}

func imprintOf(fd int) (imprint, error) {
	_, s, err := inspect(fd, "")
	return s, err
}

// racy is how long after its last change a file is not yet remembered: more than two ticks
// of the coarsest clock that stamps files.
const racy = 50 * time.Millisecond

// watchedLease is a lease that a reading looks after: whoever wants to write meanwhile
// waits for it in the kernel, so it is given back as soon as somebody does.
type watchedLease struct {
	fd   int
	lost atomic.Bool
}

// stands reports whether nobody wanted to write so far.
func (l *watchedLease) stands() bool {
	if l.lost.Load() {
		return false
	}
	if leaseStands(l.fd) {
		return true
	}
	if !l.lost.Swap(true) {
		unlease(l.fd)
	}
	return false
}

// Digest gives the digest and size of a regular file, from memory where that is sound.
func (n *Node) Digest(ctx context.Context) (op.Digest, int64, error) {
	k, err := n.Known(ctx, 0, nil)
	return k.Digest, k.Size, err
}

// Known gives what is known of a regular file, from memory where that is sound. Of a file
// of at most small bytes study sees all of them, of a larger one the first; it may be nil.
func (n *Node) Known(ctx context.Context, small int64, study func(head []byte, whole bool) any) (Known, error) {
	if n.known == nil || !n.known.sound || n.Info.Kind != op.File {
		return n.learn(ctx, small, study)
	}
	before, err := imprintOf(n.self)
	if err != nil {
		return Known{}, fail(err, n.Path)
	}
	if k, ok := n.known.get(before); ok && (study == nil || k.Note != nil) {
		return k, nil
	}
	if time.Since(time.Unix(0, before.ctime)) < racy { // also of a clock that was set back
		return n.learn(ctx, small, study)
	}
	fd, err := reopen(n.self, unix.O_RDONLY)
	if err != nil {
		return Known{}, fail(err, n.Path)
	}
	defer closeFD(fd)
	if lease(fd) != nil { // somebody writes, or leases are not for this user
		return n.learn(ctx, small, study)
	}
	l := &watchedLease{fd: fd}
	k, err := studied(ctx, fd, before.size, small, study, l)
	after, gone := imprintOf(fd)
	held := l.stands()
	if held {
		unlease(fd)
	}
	switch {
	case err != nil:
		return Known{}, fail(err, n.Path)
	case gone != nil || after != before: // it changed under the reading
		return n.learn(ctx, small, study)
	case held:
		n.known.set(before, k)
	}
	return k, nil
}

// headBytes is how much of a large file is studied.
const headBytes = 64 << 10

// learn reads the file until it did not change meanwhile, and remembers nothing.
func (n *Node) learn(ctx context.Context, small int64, study func(head []byte, whole bool) any) (k Known, err error) {
	err = n.stably(func(fd int, now Info) error {
		k, err = studied(ctx, fd, now.Size, small, study, nil)
		return err
	})
	return k, err
}

// studied reads a file once. l, which may be nil, is looked after between the pieces. What
// study is shown is its own only until it returns.
func studied(ctx context.Context, fd int, size, small int64, study func(head []byte, whole bool) any, l *watchedLease) (k Known, err error) {
	var head []byte
	whole := size <= small
	if whole {
		kept := readers.Get().(*reader)
		defer readers.Put(kept)
		if head, err = readInto(kept.buffer[:], fd, 0, int(size)); err == nil {
			k.Digest, k.Size = HashBytes(head), int64(len(head))
		}
	} else if k.Digest, k.Size, err = hashing(ctx, fd, size, l); err == nil && study != nil {
		head, err = readAt(fd, 0, headBytes)
	}
	if err == nil && study != nil {
		k.Note = study(head, whole)
	}
	return k, err
}

// fromFD reads what fd reads once, and remembers it where that is sound: before and s are
// what its inode said. It tells what the inode says afterwards, and whether somebody had the
// file open for writing.
func (k *knowledge) fromFD(ctx context.Context, fd int, before Info, s imprint, small int64, study func(head []byte, whole bool) any) (got Known, busy bool, after Info, now imprint, err error) {
	var l *watchedLease
	if k != nil && k.sound && time.Since(before.Ctime) >= racy { // also of a clock that was set back
		err := lease(fd)
		if busy = err == unix.EAGAIN; err == nil {
			l = &watchedLease{fd: fd}
		}
	}
	if got, err = studied(ctx, fd, before.Size, small, study, l); err == nil {
		after, now, err = inspect(fd, "")
	}
	if l != nil && l.stands() {
		if err == nil && now == s && after.Kind == op.File {
			k.set(s, got)
		}
		unlease(fd)
	}
	return got, busy, after, now, err
}
