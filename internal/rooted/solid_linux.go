package rooted

import (
	"sync"

	"golang.org/x/sys/unix"
)

// solid remembers the files that changes of this run put in place, as they stood afterwards:
// their bytes were flushed before they got their names. While nobody touched one since, the
// change that puts it away need not flush it once more.
//
// Whether somebody did shows in the time of its last change, so this is used only where the
// file system gives two changes two times, however soon one follows the other.
type solid struct {
	mu    sync.Mutex
	files map[inode]Info // guarded by mu
}

// maxSolid bounds what is remembered; past it all is forgotten, and flushed once more.
const maxSolid = 4096

func (s *solid) add(i Info) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files == nil || len(s.files) >= maxSolid {
		s.files = map[inode]Info{}
	}
	s.files[inode{i.Dev, i.Ino}] = i
}

// has reports whether what stands open is as it was when it was added.
func (s *solid) has(now Info) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, known := s.files[inode{now.Dev, now.Ino}]
	return known && was.untouched(now)
}

// fineTimes reports whether changes of a file that follow one another at once get different
// times. A clock that ticks slowly gives several of them the same one.
func fineTimes(fd int) bool {
	before, _, err := lookAt(fd, "")
	for range 8 {
		if err != nil {
			return false
		}
		if _, err := unix.Pwrite(fd, []byte("."), 0); err != nil {
			return false
		}
		var now Info
		if now, _, err = lookAt(fd, ""); err != nil || !now.Ctime.After(before.Ctime) {
			return false
		}
		before = now
	}
	return true
}

// isSolid reports whether the bytes of the file that a step puts away are on the disk. It is
// asked under the lease, so that nobody is writing.
func (h *Held) isSolid(a *act) bool {
	if !a.leased || !h.s.features.FineTimes {
		return false
	}
	now, _, err := lookAt(a.file, "")
	return err == nil && h.s.solid.has(now)
}

// settled remembers what steps that stand have put in place.
func (h *Held) settled() {
	if h.s.relaxed || h.inPieces || h.far != nil {
		return
	}
	for _, a := range h.acts {
		if a.stands != nil {
			h.s.solid.add(*a.stands)
		}
	}
}
