package e2e

import "golang.org/x/sys/unix"

// callNames names the numbers of the traced calls on this machine.
var callNames = map[uint64]string{
	unix.SYS_OPENAT2: "openat2", unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "pwrite64", unix.SYS_FSYNC: "fsync", unix.SYS_FDATASYNC: "fdatasync",
	unix.SYS_MKDIRAT: "mkdirat", unix.SYS_RENAME: "rename", unix.SYS_RENAMEAT: "renameat", unix.SYS_RENAMEAT2: "renameat2",
	unix.SYS_LINK: "link", unix.SYS_LINKAT: "linkat", unix.SYS_UNLINK: "unlink", unix.SYS_UNLINKAT: "unlinkat",
}
