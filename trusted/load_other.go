//go:build !unix

package trusted

import (
	"os"

	"holdpoint/op"
)

type facts struct {
	mode  os.FileMode
	uid   int
	links uint64
	identity
}

// openPlain never opens: without owners and modes nobody can tell who wrote the file.
func openPlain(string) (*os.File, facts, error) {
	return nil, facts{}, op.Fail(op.UnsupportedPlatform, "a trusted-automation policy needs file owners and modes, which this system does not have")
}
