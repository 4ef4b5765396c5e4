//go:build !linux

package shellexec

// RunVariable names the run in the environment of everything that belongs to it.
const RunVariable = "HOLDPOINT_RUN"

// Leftover finds nothing: this build starts no programs.
func Leftover([]string) []string { return nil }
