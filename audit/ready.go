package audit

import (
	"errors"
	"math"
	"path/filepath"

	"holdpoint/op"
)

// Ready reports whether the log can take lines now: the file is where it was, of the size
// it had, writable, and owns room for at least 64 KiB more, so that a full disk cannot stop
// the line of a call that was let through. To be asked before every effect. It is
// no_space, read_only_filesystem, state_corrupt (somebody else wrote to it) or io_error.
func (l *Log) Ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	free, err := look(l.f, filepath.Join(l.dir, FileName), l.file, l.size)
	if err != nil {
		return err
	}
	return l.reserve(free)
}

// usable is called with mu held.
func (l *Log) usable() error {
	if l.f == nil {
		return op.Fail(op.IOError, "the audit log is closed")
	}
	return l.failed
}

const (
	reserveMin  = 64 << 10  // Ready promises this much
	reserveLow  = 256 << 10 // below this more is asked for
	reserveStep = 1 << 20
)

// reserve asks the file system for room behind the end; called with mu held. free is what
// the file system says it has left, for those that cannot reserve.
func (l *Log) reserve(free int64) error {
	if l.reserved-l.size >= reserveLow {
		return nil
	}
	var err error
	for _, step := range []int64{reserveStep, reserveLow, reserveMin} {
		end := l.size + step
		if end <= l.reserved {
			break
		}
		if err = allocate(l.f, l.size, step); err == nil {
			l.reserved = end
			return nil
		}
		if errors.Is(err, errors.ErrUnsupported) {
			if free >= reserveMin {
				return nil
			}
			err = op.Fail(op.NoSpace, "there is no room for the audit log")
			break
		}
	}
	if l.reserved-l.size >= reserveMin {
		return nil
	}
	return systemError(err, "there is no room for the audit log")
}

// fits makes sure of room for one line, for a caller that did not ask Ready. Past the
// process's limit on file sizes a write would end the daemon, so that is asked first.
func (l *Log) fits(length int64) error {
	if l.size+length <= l.reserved || l.reserve(math.MaxInt64) == nil {
		return nil
	}
	return systemError(allocate(l.f, l.size, length), "there is no room for the audit record")
}
