package rooted

import (
	"errors"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// Sentences of errors, by what the kernel said. Where a call site knows better, it says
// its own before it comes here.
var errnos = map[unix.Errno]op.Error{
	unix.ENOENT:       {Code: op.NotFound, Message: "nothing is there"},
	unix.EEXIST:       {Code: op.Exists, Message: "something is there already"},
	unix.ENOTDIR:      {Code: op.NotADirectory, Message: "a name on the way is not a directory"},
	unix.EISDIR:       {Code: op.NotAFile, Message: "a directory is there"},
	unix.ENOTEMPTY:    {Code: op.NotEmpty, Message: "the directory is not empty"},
	unix.ELOOP:        {Code: op.SymlinkRefused, Message: "a symbolic link is in the way"},
	unix.EXDEV:        {Code: op.CrossesMount, Message: "another file system or mount lies there", Hint: "ask the operator to register it as a root of its own"},
	unix.EBUSY:        {Code: op.CrossesMount, Message: "it is a mount point and cannot be replaced", Hint: "ask the operator to register it as a root of its own"},
	unix.ENAMETOOLONG: {Code: op.InvalidPath, Message: "the name is too long for this file system"},
	unix.EILSEQ:       {Code: op.InvalidPath, Message: "the file system does not take this name"},
	unix.EINVAL:       {Code: op.InvalidPath, Message: "the file system does not take this name or act"},
	unix.EACCES:       {Code: op.PermissionDenied, Message: "the daemon's user has no permission"},
	unix.EPERM:        {Code: op.PermissionDenied, Message: "the system does not permit it"},
	unix.EROFS:        {Code: op.ReadOnlyFilesystem, Message: "the file system is read-only"},
	unix.ENOSPC:       {Code: op.NoSpace, Message: "no space is left on the file system"},
	unix.EDQUOT:       {Code: op.NoSpace, Message: "the disk quota is used up"},
	unix.EFBIG:        {Code: op.NoSpace, Message: "the file would be larger than the system allows"},
	unix.EAGAIN:       {Code: op.BusyWriter, Message: "the place is changing too fast", Retry: "same"},
	unix.ETXTBSY:      {Code: op.BusyWriter, Message: "the file is in use", Retry: "same"},
	unix.EIO:          {Code: op.IOError, Message: "the disk reported a failure"},
	unix.EOVERFLOW:    {Code: op.PermissionDenied, Message: "its owner is not known on this side"},
}

// fail words what the kernel said about p; what already is an op.Error stays as it is.
func fail(err error, p op.Path) error {
	if err == nil {
		return nil
	}
	var known *op.Error
	if errors.As(err, &known) {
		return err
	}
	var no unix.Errno
	if errors.As(err, &no) {
		if e, ok := errnos[no]; ok {
			return e.At(p).Because(err)
		}
	}
	return op.Fail(op.IOError, "the file system answered "+errText(err)).At(p).Because(err)
}

func errText(err error) string {
	var no unix.Errno
	if errors.As(err, &no) {
		return no.Error()
	}
	return "with an unknown failure"
}

// stale says that p is no longer what was looked at.
func stale(p op.Path, why string) *op.Error {
	e := op.Fail(op.Stale, why).At(p).Do("look again and decide anew")
	e.Retry = "corrected"
	return e
}
