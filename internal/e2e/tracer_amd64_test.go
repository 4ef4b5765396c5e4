package e2e

import "golang.org/x/sys/unix"

// callNames names the numbers of the traced calls on this machine.
var callNames = map[uint64]string{
	unix.SYS_OPENAT2: "openat2", unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "pwrite64", unix.SYS_FSYNC: "fsync", unix.SYS_FDATASYNC: "fdatasync",
	unix.SYS_MKDIRAT: "mkdirat", unix.SYS_RENAME: "rename", unix.SYS_RENAMEAT: "renameat", unix.SYS_RENAMEAT2: "renameat2",
	unix.SYS_LINK: "link", unix.SYS_LINKAT: "linkat", unix.SYS_UNLINK: "unlink", unix.SYS_UNLINKAT: "unlinkat",

	// These are counted for faults only.
	unix.SYS_OPENAT: "openat", unix.SYS_MKDIR: "mkdir", unix.SYS_FTRUNCATE: "ftruncate", unix.SYS_FCHMOD: "fchmod", unix.SYS_FCHMODAT: "fchmodat",
	unix.SYS_FCHOWN: "fchown", unix.SYS_FCHOWNAT: "fchownat", unix.SYS_FSETXATTR: "fsetxattr", unix.SYS_SETXATTR: "setxattr", unix.SYS_LSETXATTR: "lsetxattr",
	unix.SYS_UTIMENSAT: "utimensat", unix.SYS_COPY_FILE_RANGE: "copy_file_range", unix.SYS_GETDENTS64: "getdents64", unix.SYS_PREAD64: "pread64", unix.SYS_READ: "read",
	unix.SYS_SYMLINKAT: "symlinkat", unix.SYS_FALLOCATE: "fallocate", unix.SYS_STATX: "statx", unix.SYS_NEWFSTATAT: "newfstatat", unix.SYS_FSTAT: "fstat",
}
