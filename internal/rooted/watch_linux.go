package rooted

import (
	"bytes"
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// Watch tells of changes in the directories given to it. What it tells is a reason to look
// and nothing else: the kernel loses events when nobody takes them in time, and a write
// through a shared mapping makes none.
//
// A directory is watched by the handle that a walk holds on it, never by its path: one that
// is swapped for a link is not found, so that no name from outside is ever told.
type Watch struct {
	below *Below
	queue *os.File

	mu   sync.Mutex     // guards all below
	dirs map[int]string // of each watch: the directory, relative to below
	ids  map[string]int // the other way round
	max  int
}

// Hint is one thing that may have changed. The zero value says that anything may have.
type Hint struct {
	Dir  string // the watched directory, relative
	Name string // in it; empty is the directory itself
	Came bool   // a name that was not there before, or that something else was moved to
	Gone bool   // a name that went away
	Tree bool   // it is a directory
	Lost bool   // events were lost: anything may have changed
}

// inotifyMask is all that changes what a read could answer.
const inotifyMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK

// Watch makes a watch of at most max directories below b, which it needs as long as it
// lives. None is watched yet. Where none can be had, WatchLimit tells of the error why.
func (b *Below) Watch(max int) (*Watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	return &Watch{below: b, queue: os.NewFile(uintptr(fd), "inotify"), dirs: map[int]string{}, ids: map[string]int{}, max: max}, nil
}

// ErrWatched says that as many directories are watched as were allowed.
const ErrWatched = op.Code("watched")

// Add watches a directory that a walk opened under this name. It may be called by several
// goroutines, beside Take. Of one that is watched already only the name is taken.
func (w *Watch) Add(rel string, d *Dir) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.ids[rel]; !known && len(w.dirs) >= w.max {
		return ErrWatched
	}
	raw, err := w.queue.SyscallConn()
	if err != nil {
		return err
	}
	var id int
	if out := raw.Control(func(fd uintptr) {
		id, err = unix.InotifyAddWatch(int(fd), "/proc/self/fd/"+strconv.Itoa(d.fd), inotifyMask)
	}); out != nil {
		return out
	}
	if err != nil {
		return err
	}
	if was, known := w.dirs[id]; known && was != rel {
		delete(w.ids, was)
	}
	w.dirs[id], w.ids[rel] = rel, id
	return nil
}

// Drop ends the watch of a directory and of all below it.
func (w *Watch) Drop(rel string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, at := range w.dirs {
		if at == rel || rel == "" || strings.HasPrefix(at, rel+"/") {
			delete(w.dirs, id)
			delete(w.ids, at)
			w.remove(id)
		}
	}
}

// remove ends one watch in the kernel; the caller holds mu.
func (w *Watch) remove(id int) {
	if raw, err := w.queue.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_, _ = unix.InotifyRmWatch(int(fd), uint32(id)) // EINVAL: the directory went away, and its watch with it
		})
	}
}

// Len tells how many directories are watched.
func (w *Watch) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.dirs)
}

// Close ends the watch and a Wait.
func (w *Watch) Close() { _ = w.queue.Close() }

// Wait blocks until there is something to take; an error is the end.
func (w *Watch) Wait() error {
	raw, err := w.queue.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool {
		n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		return err != nil || n > 0
	})
}

// Take appends what the kernel has so far to list and does not wait: what was changed
// before the call is in it. One goroutine at a time. buf is room for events, 4 KiB or more.
func (w *Watch) Take(buf []byte, list []Hint) ([]Hint, error) {
	raw, err := w.queue.SyscallConn()
	if err != nil {
		return list, err
	}
	for {
		n := 0
		if out := raw.Control(func(fd uintptr) {
			err = retry(func() error { n, err = unix.Read(int(fd), buf); return err })
		}); out != nil {
			return list, out
		}
		if err == unix.EAGAIN || err == nil && n == 0 {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		list = w.hints(buf[:n], list)
	}
}

// hints words events; those of directories that are watched no longer are left out.
func (w *Watch) hints(events []byte, list []Hint) []Hint {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(events) >= unix.SizeofInotifyEvent {
		id, mask := int(int32(binary.NativeEndian.Uint32(events))), binary.NativeEndian.Uint32(events[4:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(events[12:]))
		name := events[unix.SizeofInotifyEvent:end]
		events = events[end:]
		if i := bytes.IndexByte(name, 0); i >= 0 {
			name = name[:i]
		}
		if mask&unix.IN_Q_OVERFLOW != 0 {
			list = append(list, Hint{Lost: true})
			continue
		}
		dir, known := w.dirs[id]
		if mask&unix.IN_IGNORED != 0 { // the directory is gone
			if delete(w.dirs, id); w.ids[dir] == id {
				delete(w.ids, dir)
			}
			continue
		}
		if !known || w.below.hides != nil && w.below.hides(w.below.at(inDir(dir, string(name)))) {
			continue
		}
		list = append(list, Hint{Dir: dir, Name: string(name), Came: mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0,
			Gone: mask&(unix.IN_DELETE|unix.IN_MOVED_FROM|unix.IN_DELETE_SELF|unix.IN_MOVE_SELF) != 0, Tree: mask&unix.IN_ISDIR != 0})
	}
	return list
}

func inDir(dir, name string) string {
	switch {
	case dir == "":
		return name
	case name == "":
		return dir
	}
	return dir + "/" + name
}
