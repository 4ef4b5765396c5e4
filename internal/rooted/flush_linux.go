package rooted

import (
	"golang.org/x/sys/unix"
)

// flush is a flush under way. A change waits for those of its own before its first rename;
// until then they run beside one another and beside the journal's, since what has to be on
// the disk before a rename need not get there in any order of its own.
type flush struct {
	done chan struct{}
	err  error // good when done is closed
}

// maxFlushes bounds the flushes under way in one store: each occupies a thread.
const maxFlushes = 16

// begin starts a flush, or does it where enough are under way.
func (s *Store) begin(do func() error) *flush {
	f := &flush{done: make(chan struct{})}
	select {
	case s.flushes <- struct{}{}:
		go func() {
			f.err = do()
			<-s.flushes
			close(f.done)
		}()
	default:
		f.err = do()
		close(f.done)
	}
	return f
}

// wait gives how the flush ended; the nil flush is done.
func (f *flush) wait() error {
	if f == nil {
		return nil
	}
	<-f.done
	return f.err
}

// staging remembers the flush of what was staged in a slot until somebody asks.
func (s *Store) staging(slot string, f *flush) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending[slot] = f
}

// Flushed returns when what was staged in a slot is durable. Apply asks for what it is
// about to put in place.
func (s *Store) Flushed(slot string) error {
	s.mu.Lock()
	f := s.pending[slot]
	s.mu.Unlock()
	err := f.wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.pending[slot] == f { // a failure is told to everybody who asks
		delete(s.pending, slot)
	}
	return err
}

// flushed waits for all that must be on the disk before the first rename.
func (h *Held) flushed() error {
	if h.inPieces {
		if err := retry(func() error { return unix.Syncfs(h.s.fd) }); err != nil {
			return fail(err, "")
		}
	}
	for _, a := range h.acts {
		err := a.flush.wait()
		if err == nil {
			err = h.s.Flushed(a.step.Slot)
		}
		if err != nil {
			return fail(err, a.step.Path)
		}
	}
	return nil
}

// syncData makes a file's bytes durable, and of its inode what is needed to read them.
func syncData(fd int) error {
	err := retry(func() error { return unix.Fdatasync(fd) })
	if err == unix.EINVAL || err == unix.EROFS {
		return nil
	}
	return err
}
