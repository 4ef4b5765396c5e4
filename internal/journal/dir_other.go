//go:build !unix

package journal

import (
	"io/fs"
	"os"

	"holdpoint/op"
)

func safeDirectory(dir string, create bool) error {
	return op.Fail(op.UnsupportedPlatform, "the state store needs owners, modes and flock").Do("run it on Linux or another Unix")
}

func safeOwner(path string, info fs.FileInfo) error {
	return op.Fail(op.UnsupportedPlatform, "owners and modes cannot be checked here")
}

func lockFile(f *os.File) error {
	return op.Fail(op.UnsupportedPlatform, "the state cannot be locked here")
}
