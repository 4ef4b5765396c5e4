//go:build !linux

package main

// terminal needs a pseudo terminal, which only the linux helper opens.
func (f *fake) terminal(env []string, dialog [][2]string, args ...string) ran {
	f.t.Helper()
	f.t.Skip("no pseudo terminal on this platform: what a terminal shows is not tested here")
	return ran{}
}
