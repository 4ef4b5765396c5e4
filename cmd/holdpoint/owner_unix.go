//go:build unix

package main

import (
	"io/fs"
	"syscall"

	"holdpoint/op"
)

// ownerOf is the user id of a file's owner.
func ownerOf(info fs.FileInfo) (int, error) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, op.Fail(op.UnsupportedPlatform, "the owner of "+info.Name()+" cannot be told")
	}
	return int(s.Uid), nil
}
