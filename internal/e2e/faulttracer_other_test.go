//go:build !amd64

package e2e

import "golang.org/x/sys/unix"

// faultsHere says whether this machine's tracer can make calls fail.
const faultsHere = false

func deny(int) error          { return unix.ENOSYS }
func giveBack(int, int) error { return unix.ENOSYS }
func shorten(int) error       { return unix.ENOSYS }
