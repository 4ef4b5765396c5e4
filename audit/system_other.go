//go:build !linux

package audit

import (
	"io/fs"
	"os"

	"holdpoint/op"
)

const openFlags = 0

type identity struct{}

// supported ends Open before it touches anything; nothing below is reached.
func supported() error {
	return op.Fail(op.UnsupportedPlatform, "the audit log is built for linux")
}

func identify(*os.File) (identity, error)                   { return identity{}, supported() }
func look(*os.File, string, identity, int64) (int64, error) { return 0, supported() }
func allocate(*os.File, int64, int64) error                 { return supported() }
func lock(*os.File) error                                   { return supported() }
func ownedByUs(fs.FileInfo) bool                            { return true }
func codeOf(error) op.Code                                  { return op.IOError }
