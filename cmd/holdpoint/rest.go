package main

import (
	"runtime/debug"
	"runtime/metrics"
)

// rest gives memory back when work has ended: the runtime keeps what the busiest moment
// needed for long, and the kernel shows every page of the program that was ever used.
type rest struct {
	allocated uint64 // bytes, as of the last look
	worked    bool   // since memory was given back
}

// restful is how many bytes may be allocated between two looks by a daemon that is at rest:
// what it does by itself.
const restful = 1 << 20

// look is called now and then. It does nothing while there is work, and nothing twice.
func (r *rest) look() {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	now := sample[0].Value.Uint64()
	if now-r.allocated > restful {
		r.allocated, r.worked = now, true
		return
	}
	if r.worked {
		debug.FreeOSMemory()
		dropProgram()
		metrics.Read(sample)
		now, r.worked = sample[0].Value.Uint64(), false
	}
	r.allocated = now
}
