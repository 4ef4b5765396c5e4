//go:build race

package fileops

import "time"

// cancelLimit is wide here: the race detector makes everything many times slower.
const cancelLimit = time.Second
