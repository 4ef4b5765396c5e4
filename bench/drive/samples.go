package drive

import (
	"fmt"
	"os"
	"sort"
	"strings"
)

// Samples are microseconds.
type Samples []float64

// At gives a quantile, 0 of none.
func (s Samples) At(q float64) float64 {
	if len(s) == 0 {
		return 0
	}
	v := append(Samples(nil), s...)
	sort.Float64s(v)
	return v[min(len(v)-1, int(q*float64(len(v))))]
}

// US words microseconds.
func US(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.2fs", v/1e6)
	case v >= 1e3:
		return fmt.Sprintf("%.2fms", v/1e3)
	}
	return fmt.Sprintf("%.0fus", v)
}

// Load is the load of the last minute.
func Load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "?"
	}
	return strings.Fields(string(b))[0]
}
