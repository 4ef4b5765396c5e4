package rooted

import (
	"golang.org/x/sys/unix"
)

// probe finds out by doing it, with two files of its own in the store.
func (s *Store) probe() (f Features, err error) {
	const one, two = "probe.one", "probe.two"
	defer func() {
		_ = s.Drop(one)
		_ = s.Drop(two)
	}()
	_, _ = s.Drop(one), s.Drop(two) // of a probe that was interrupted
	a, err := s.create(one, 0o600)
	if err != nil {
		return f, err
	}
	defer closeFD(a)
	b, err := s.create(two, 0o600)
	if err != nil {
		return f, err
	}
	_, _ = unix.Write(b, []byte("probe"))
	f.FineTimes = fineTimes(b)
	f.Exchange = rename(s.fd, one, s.fd, two, unix.RENAME_EXCHANGE) == nil
	f.Reflink = unix.IoctlFileClone(a, b) == nil
	closeFD(b)
	if t, err := unix.Openat(s.fd, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600); err == nil {
		f.TmpFile = true
		closeFD(t)
	}
	if r, err := unix.Openat(s.fd, one, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0); err == nil { // b's file by now
		f.Lease = lease(r) == nil
		closeFD(r)
	}
	return f, nil
}

// create makes a new empty file in the store. Its mode is under the umask, which is what
// a plain create in the workspace would give.
func (s *Store) create(slot string, mode uint32) (fd int, err error) {
	flags := unix.O_RDWR | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	err = retry(func() error { fd, err = unix.Openat(s.fd, slot, flags, mode); return err })
	if err != nil {
		return none, err
	}
	return fd, nil
}
