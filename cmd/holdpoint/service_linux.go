package main

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// journalled reports whether standard error is the journal's own stream: JOURNAL_STREAM
// alone is inherited by whatever a service starts (systemd.exec(5)).
func journalled(env func(string) string) bool {
	info, err := os.Stderr.Stat()
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && env("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

// monotonic is the clock that a manager compares the beginning of a reload with.
func monotonic() string {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return "MONOTONIC_USEC=0"
	}
	return fmt.Sprintf("MONOTONIC_USEC=%d", ts.Nano()/1000)
}

// checkSocketMode refuses a socket that others may connect to.
func checkSocketMode(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		return op.Fail(op.StateUnsafe, fmt.Sprintf("others may connect to %s (mode %04o)", path, info.Mode().Perm())).Do("SocketMode=0600 in the socket unit")
	}
	return err
}
