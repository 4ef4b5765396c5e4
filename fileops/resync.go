package fileops

import (
	"bytes"
	"hash/maphash"
)

const (
	nearWindow  = 64       // lines looked ahead on each side for the texts to agree again
	nearRun     = 4        // lines that must agree there
	smallChange = 1 << 20  // bytes between first and last change up to which both ways are tried
	largeRest   = 32 << 20 // bytes that agree nowhere near and are shown as replaced as a whole
)

// changes finds the ranges that differ. Lines that are unique on both sides make the
// clearest anchors, but a text that repeats itself has none between two changes and would
// read as replaced between them, and a large one costs too much memory. So the texts are
// also walked side by side; the result with fewer changed lines counts.
func changes(x, y [][]byte) []change {
	walked := walk(x, y)
	if sizeOf(x)+sizeOf(y) > smallChange {
		return walked
	}
	if best := anchored(x, y); extent(best) <= extent(walked) {
		return best
	}
	return walked
}

// walk goes through both sides and, at a difference, looks for the nearest lines from
// which they agree again. Its work is bounded by the number of lines.
func walk(x, y [][]byte) []change {
	seed := maphash.MakeSeed()
	w := walker{x: hashes(seed, x), y: hashes(seed, y), budget: 1<<20 + 64*(len(x)+len(y))}
	var out []change
	i, j := 0, 0
	for {
		for i < len(x) && j < len(y) && bytes.Equal(x[i], y[j]) {
			i, j = i+1, j+1
		}
		if i == len(x) && j == len(y) {
			return out
		}
		di, dj, ok := w.next(i, j)
		if !ok {
			di, dj = len(x)-i, len(y)-j
		}
		part := []change{{0, di, 0, dj}}
		if di > 0 && dj > 0 && di+dj > 2 && sizeOf(x[i:i+di])+sizeOf(y[j:j+dj]) <= largeRest {
			part = anchored(x[i:i+di], y[j:j+dj])
		}
		for _, c := range part {
			out = append(out, change{c.x0 + i, c.x1 + i, c.y0 + j, c.y1 + j})
		}
		i, j = i+di, j+dj
	}
}

// walker compares lines by hash. Two lines of one hash would only make a worse diff, as
// what counts as equal is compared byte by byte.
type walker struct {
	x, y   []uint64
	budget int // of comparisons, as each difference could cost the whole window
}

// next gives how far to go on each side, the smallest sum first.
func (w *walker) next(i, j int) (di, dj int, ok bool) {
	for sum := 1; sum <= 2*nearWindow && w.budget > 0; sum++ {
		for di := max(0, sum-nearWindow); di <= min(sum, nearWindow); di++ {
			w.budget--
			if w.agree(i+di, j+sum-di, nearRun) {
				return di, sum - di, true
			}
		}
	}
	for d := 1; d <= nearWindow && w.budget > 0; d++ {
		w.budget--
		if w.agree(i+d, j+d, 1) {
			return d, d, true
		}
	}
	return 0, 0, false
}

// agree reports whether run lines from i and j are equal, or both texts end before.
func (w *walker) agree(i, j, run int) bool {
	for k := range run {
		a, b := i+k, j+k
		switch {
		case a >= len(w.x) || b >= len(w.y):
			return a == len(w.x) && b == len(w.y)
		case w.x[a] != w.y[b]:
			return false
		}
	}
	return true
}

func hashes(seed maphash.Seed, lines [][]byte) []uint64 {
	out := make([]uint64, len(lines))
	for i, l := range lines {
		out[i] = maphash.Bytes(seed, l)
	}
	return out
}

func sizeOf(lines [][]byte) int {
	n := 0
	for _, l := range lines {
		n += len(l)
	}
	return n
}

func extent(list []change) int {
	n := 0
	for _, c := range list {
		n += c.x1 - c.x0 + c.y1 - c.y0
	}
	return n
}
