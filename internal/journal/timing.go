package journal

import (
	"sync"
	"time"
)

// timeBounds are the upper ends of a histogram's buckets, in seconds.
var timeBounds = [...]float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// Times counts lengths of time in buckets. Its zero value is ready, and it is safe for
// concurrent use.
type Times struct {
	mu     sync.Mutex // guards the rest
	counts [len(timeBounds) + 1]uint64
	sum    time.Duration
}

// Add counts one.
func (t *Times) Add(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, s := 0, d.Seconds()
	for i < len(timeBounds) && s > timeBounds[i] {
		i++
	}
	t.counts[i]++
	t.sum += d
}

// TimesRead is a histogram at one moment: how many took at most Bounds[i] seconds.
type TimesRead struct {
	Bounds     []float64
	UpTo       []uint64
	Count      uint64
	SumSeconds float64
}

// Read gives the counts so far.
func (t *Times) Read() TimesRead {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := TimesRead{Bounds: timeBounds[:], SumSeconds: t.sum.Seconds()}
	for i, n := range t.counts {
		r.Count += n
		if i < len(timeBounds) {
			r.UpTo = append(r.UpTo, r.Count)
		}
	}
	return r
}

// FlushTimes tells how long the flushes of the journal took.
func (j *Journal) FlushTimes() TimesRead { return j.w.flushes.Read() }
