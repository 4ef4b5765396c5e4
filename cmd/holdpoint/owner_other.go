//go:build !unix

package main

import (
	"io/fs"

	"holdpoint/op"
)

// ownerOf has no answer here, so a socket must be named to be trusted.
func ownerOf(fs.FileInfo) (int, error) {
	return 0, op.Fail(op.UnsupportedPlatform, "the owner of the socket's directory cannot be told on this platform").
		Do("name the socket with --socket or HOLDPOINT_SOCKET")
}
