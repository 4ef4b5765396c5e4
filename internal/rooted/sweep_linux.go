package rooted

import (
	"context"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// Sweep looks at many files of one call by their paths. It holds the directory that it came
// through last, so that of files that lie beside one another the way is walked once, and a
// file whose bytes are known is not even opened. One goroutine uses it; Close it.
type Sweep struct {
	r   *Root
	dir op.Path // that fd holds
	fd  int
}

// Sweep begins a sweep.
func (r *Root) Sweep() *Sweep { return &Sweep{r: r, fd: none} }

// Close lets the directory go.
func (s *Sweep) Close() {
	closeFD(s.fd)
	s.fd = none
}

// File tells of a regular file on whose way no link lies what Look and Known would: it is
// not ok where only they can tell, or where the file changed while it was read. What study
// is shown is its own only until it returns.
func (s *Sweep) File(ctx context.Context, p op.Path, small int64, study func(head []byte, whole bool) any) (i Info, k Known, ok bool) {
	if ctx.Err() != nil || !s.r.in.openat2 || p == "." || p == "" || s.r.hides(p) || !s.through(p.Parent()) {
		return i, k, false
	}
	name := p.Base()
	i, is, err := inspect(s.fd, name)
	if err != nil || i.Kind != op.File || is.mount != s.r.in.mount {
		return i, k, false
	}
	if s.r.known.sound {
		if k, ok = s.r.known.get(is); ok && (study == nil || k.Note != nil) {
			return i, k, true
		}
	}
	fd, err := s.r.in.open(s.fd, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return i, k, false
	}
	defer closeFD(fd)
	k, _, after, _, err := s.r.known.fromFD(ctx, fd, i, is, small, study)
	return i, k, err == nil && after.Kind == op.File && i.untouched(after)
}

// through holds a directory to which no link leads.
func (s *Sweep) through(dir op.Path) bool {
	if s.fd != none && s.dir == dir {
		return true
	}
	s.Close()
	err := s.r.use(func(root int) (err error) {
		s.fd, err = s.r.in.open(root, string(dir), unix.O_PATH|unix.O_DIRECTORY)
		return err
	})
	s.dir = dir
	return err == nil
}
