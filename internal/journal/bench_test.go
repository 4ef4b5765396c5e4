package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkBegin prints medians of Begin and Commit beside the bare promise: append 200
// bytes and fdatasync, in the same directory and the same run.
func BenchmarkBegin(b *testing.B) {
	j := fresh(b)
	bare, err := os.OpenFile(filepath.Join(filepath.Dir(j.Dir()), "bare"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	defer bare.Close()
	var begin, commit, floor []time.Duration
	line := make([]byte, 200)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		if _, err := bare.Write(line); err != nil {
			b.Fatal(err)
		}
		if err := datasync(bare); err != nil {
			b.Fatal(err)
		}
		floor = append(floor, time.Since(start))
		o := sample(j, fmt.Sprintf("r%d", i))
		o.Diff = make([]byte, 600)
		o.AuditLine = line
		start = time.Now()
		if err := j.Begin(b.Context(), o); err != nil {
			b.Fatal(err)
		}
		begin = append(begin, time.Since(start))
		start = time.Now()
		if err := j.Commit(b.Context(), o.ID, line, ""); err != nil {
			b.Fatal(err)
		}
		commit = append(commit, time.Since(start))
		if err := j.ClearAudit(b.Context(), string(o.ID)); err != nil {
			b.Fatal(err)
		}
	}
	for _, m := range []struct {
		name string
		all  []time.Duration
	}{{"begin", begin}, {"commit", commit}, {"append+fdatasync", floor}} {
		slices.Sort(m.all)
		b.ReportMetric(float64(m.all[len(m.all)/2].Microseconds()), m.name+"-p50-us")
		b.ReportMetric(float64(m.all[len(m.all)*99/100].Microseconds()), m.name+"-p99-us")
	}
}

// BenchmarkBeginMany shows what one flush for many callers gives.
func BenchmarkBeginMany(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("callers %d", callers), func(b *testing.B) {
			j := fresh(b)
			var n atomic.Int64
			var all sync.WaitGroup
			start := time.Now()
			for range callers {
				all.Go(func() {
					for n.Add(1) <= int64(b.N) {
						o := sample(j, "")
						if err := j.Begin(b.Context(), o); err != nil {
							b.Error(err)
							return
						}
						if err := j.Commit(b.Context(), o.ID, []byte("{}"), ""); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "begins/s")
		})
	}
}
