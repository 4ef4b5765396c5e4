//go:build unix

package main

import (
	"os"
	"syscall"
)

// resized is the signal that tells a new size of the terminal.
var resized os.Signal = syscall.SIGWINCH
