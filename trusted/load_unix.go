//go:build unix

package trusted

import (
	"errors"
	"os"
	"syscall"

	"holdpoint/op"
)

// facts is what fstat says of the opened file, so that what is checked is what is read.
type facts struct {
	mode  os.FileMode
	uid   int
	links uint64
	identity
}

// openPlain opens without following a link and without waiting for a fifo's writer.
func openPlain(file string) (*os.File, facts, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.EMLINK):
		return nil, facts{}, unsafe("the policy file is a link").Because(err)
	case errors.Is(err, syscall.ENXIO):
		return nil, facts{}, unsafe("the policy file is no regular file").Because(err)
	case err != nil:
		return nil, facts{}, op.Fail(op.PolicyInvalid, "the policy file cannot be read: "+err.Error()).Because(err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, facts{}, op.Fail(op.PolicyInvalid, "the policy file cannot be read: "+err.Error()).Because(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	return f, facts{mode: info.Mode(), uid: int(st.Uid), links: uint64(st.Nlink), identity: identify(info)}, nil
}
