//go:build !linux

package journal

import "os"

// datasync makes a file durable as far as the system offers it; on Darwin Sync asks the
// device too.
func datasync(f *os.File) error { return f.Sync() }
