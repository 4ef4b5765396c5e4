//go:build !unix

package main

import "os"

// resized is nil where no signal tells a new size of the terminal.
var resized os.Signal
