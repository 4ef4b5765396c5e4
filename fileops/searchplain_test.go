//go:build !race

package fileops

import "time"

// cancelLimit is what a person notices, and some room for whoever shares the machine.
const cancelLimit = 50 * time.Millisecond
