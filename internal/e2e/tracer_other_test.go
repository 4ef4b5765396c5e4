//go:build !amd64

package e2e

import "golang.org/x/sys/unix"

// callNames names the numbers of the traced calls on this machine, which has no older
// forms of them.
var callNames = map[uint64]string{
	unix.SYS_OPENAT2: "openat2", unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "pwrite64", unix.SYS_FSYNC: "fsync", unix.SYS_FDATASYNC: "fdatasync",
	unix.SYS_MKDIRAT: "mkdirat", unix.SYS_RENAMEAT2: "renameat2", unix.SYS_LINKAT: "linkat", unix.SYS_UNLINKAT: "unlinkat",
}
