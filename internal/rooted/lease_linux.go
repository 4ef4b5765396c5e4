package rooted

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// lease asks to be told of writers of the file that fd reads. EAGAIN: somebody has it open
// for writing, or mapped. Any other failure: no lease can be had here, by this user.
func lease(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
	return err
}

// leaseStands reports whether nobody asked to write since; one who did is made to wait
// by the kernel until the lease is given back.
func leaseStands(fd int) bool {
	t, err := unix.FcntlInt(uintptr(fd), unix.F_GETLEASE, 0)
	return err == nil && t == unix.F_RDLCK
}

func unlease(fd int) {
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
}

// leaseWithin tries until wait is over.
func leaseWithin(ctx context.Context, fd int, wait time.Duration) error {
	end := time.Now().Add(wait)
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		err := lease(fd)
		if err != unix.EAGAIN || time.Now().After(end) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// pause sleeps in the kernel: the runtime's own timers count in milliseconds when nothing
// else runs, ten times as long as is needed here.
func pause(d time.Duration) {
	for t := unix.NsecToTimespec(int64(d)); d > 0 && unix.Nanosleep(&t, &t) == unix.EINTR; {
	}
}
