package rooted

import (
	"context"
	"io"
	"strconv"
	"sync"

	"holdpoint/op"
)

// blanks are empty files in a store whose inodes and names are on the disk already, made
// while nobody waits. What is staged in one costs a flush of its bytes alone; a new file
// costs its directory's as well, and on ext4 the search for an inode. They go when the
// store is closed, and after a kill with whatever else no operation names.
type blanks struct {
	mu    sync.Mutex
	on    bool            // guarded by mu, as all below: this store keeps some
	ready []blank         // to be taken
	names map[string]bool // of those that are ready or being made
	seed  string          // begins the names of the next ones; empty once it was used
	busy  bool            // somebody makes some
	work  sync.WaitGroup
}

// blank is one of them, open for writing.
type blank struct {
	slot string
	fd   int
}

// Blanks are made when fewer than lowBlanks are left, up to maxBlanks. Calls that come
// faster than that make their own files.
const lowBlanks, maxBlanks = 4, 8

// StageNew is Stage under any name: it fills a blank where one is ready, and tells its
// name. slot must be one that nothing has had; names of blanks to come begin with it.
func (s *Store) StageNew(ctx context.Context, slot string, content io.Reader, m Meta) (Staged, error) {
	b, ok := s.blanks.take(slot)
	if ok && m.Like == nil && !m.Exact {
		// Its mode is for the umask to say, which only a create asks.
		s.blanks.giveBack(b)
		ok = false
	}
	if !ok {
		return s.Stage(ctx, slot, content, m)
	}
	return s.stageIn(b.fd, b.slot, m, func(fd int) (op.Digest, int64, error) { return pour(ctx, fd, content) })
}

func (b *blanks) take(seed string) (blank, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seed = seed
	if len(b.ready) == 0 {
		return blank{}, false
	}
	last := b.ready[len(b.ready)-1]
	b.ready = b.ready[:len(b.ready)-1]
	delete(b.names, last.slot)
	return last, true
}

func (b *blanks) giveBack(one blank) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ready, b.names[one.slot] = append(b.ready, one), true
}

// makeBlanks sees to it that there are enough, in the background, where nothing is being
// flushed: a busy store has better things to do.
func (s *Store) makeBlanks() {
	b := &s.blanks
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.on || b.busy || b.seed == "" || len(b.ready) >= lowBlanks || len(s.flushes) > 0 {
		return
	}
	var slots []string
	for i := range maxBlanks - len(b.ready) {
		slots = append(slots, b.seed+"-"+strconv.Itoa(i))
		b.names[slots[i]] = true
	}
	b.seed, b.busy = "", true
	b.work.Go(func() { s.fillBlanks(slots) })
}

// fillBlanks makes the files first and flushes then: the first flush takes most names along.
func (s *Store) fillBlanks(slots []string) {
	b := &s.blanks
	fds := make([]int, len(slots))
	for i, slot := range slots {
		var err error
		if fds[i], err = s.create(slot, 0o600); err != nil {
			fds[i] = none
		}
	}
	for i, slot := range slots {
		ok := fds[i] >= 0 && s.sync(fds[i]) == nil
		b.mu.Lock()
		if ok {
			b.ready = append(b.ready, blank{slot, fds[i]})
		} else {
			delete(b.names, slot)
		}
		b.mu.Unlock()
		if !ok && fds[i] >= 0 {
			closeFD(fds[i])
			_ = s.Drop(slot)
		}
	}
	b.mu.Lock()
	b.busy = false
	b.mu.Unlock()
}

// dropBlanks ends them; the store is being closed.
func (s *Store) dropBlanks() {
	b := &s.blanks
	b.mu.Lock()
	b.on = false
	b.mu.Unlock()
	b.work.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.ready {
		closeFD(one.fd)
		_ = s.Drop(one.slot)
	}
	b.ready = nil
}

// isBlank reports whether a slot is one that waits to be used.
func (b *blanks) isBlank(slot string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.names[slot]
}
