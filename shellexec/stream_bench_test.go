//go:build linux

package shellexec

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// BenchmarkStream tells what 64 MiB of output cost, kept whole in a file, beside a bare pipe
// of the same program that is read and forgotten. The two take turns; medians and least.
func BenchmarkStream(b *testing.B) {
	const script, size = "yes 'the quick brown fox jumps over the lazy dog' | head -c 67108864", 64 << 20
	s := shell(b, script)
	s.Timeout = time.Minute
	var of [2][]time.Duration
	for range max(b.N, 5) {
		begin := time.Now()
		cmd := exec.Command("/bin/sh", "-c", script)
		out, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		n, _ := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{out}, make([]byte, 64<<10))
		if err := cmd.Wait(); err != nil || n != size {
			b.Fatal(err, n)
		}
		of[0] = append(of[0], time.Since(begin))
		run := s
		run.Name, run.Spill = "run_s", b.TempDir()
		begin = time.Now()
		r, err := Run(context.Background(), run)
		if err != nil || r.Exit == nil || *r.Exit != 0 || r.Stdout.Total != size || r.Stdout.Lost > 0 {
			b.Fatalf("%v %+v", err, r.Failure)
		}
		of[1] = append(of[1], time.Since(begin))
	}
	for i, name := range [2]string{"bare pipe", "kept whole"} {
		slices.Sort(of[i])
		m := of[i][len(of[i])/2]
		fmt.Printf("%-12s median %7.3f s, least %7.3f s, %5.2f times\n", name, m.Seconds(), of[i][0].Seconds(), m.Seconds()/of[0][len(of[0])/2].Seconds())
	}
}
