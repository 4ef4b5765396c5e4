//go:build linux

package shellexec

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// BenchmarkStart tells what a program costs from its start to its end: `true` by sh alone,
// and by a run without and with confinement, taking turns. The medians are what is compared.
func BenchmarkStart(b *testing.B) {
	confined, plain := shell(b, ""), shell(b, "")
	truth, err := Find("true", "/usr/bin:/bin", "/")
	if err != nil {
		b.Fatal(err)
	}
	p, err := Open("true", truth)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	for _, s := range []*Spec{&confined, &plain} {
		s.Program, s.Argv = p.File, []string{"true"}
	}
	plain.Confined = false
	spares := &Spares{}
	defer spares.Close()
	ready := func(s Spec) Spec { s.Spares = spares; return s }
	var of [5][]time.Duration
	names := [5]string{"sh -c true", "plain", "confined", "plain without a spare", "confined without a spare"}
	run := func(s Spec) func() {
		return func() {
			if r, err := Run(context.Background(), s); err != nil || r.Exit == nil || *r.Exit != 0 {
				b.Fatal(err, r.Failure)
			}
		}
	}
	todo := [5]func(){func() {
		if err := exec.Command("/bin/sh", "-c", "true").Run(); err != nil {
			b.Fatal(err)
		}
	}, run(ready(plain)), run(ready(confined)), run(plain), run(confined)}
	rounds := max(b.N, 40)
	for range rounds {
		for i, do := range todo {
			for (i == 1 || i == 2) && len(of[0]) > 1 && spares.Ready() < 2 {
				time.Sleep(time.Millisecond)
			}
			begin := time.Now()
			do()
			of[i] = append(of[i], time.Since(begin))
		}
	}
	for i := range of {
		slices.Sort(of[i])
		m := of[i][len(of[i])/2]
		fmt.Printf("%-26s %8.3f ms  %5.2f times\n", names[i], m.Seconds()*1e3, m.Seconds()/of[0][len(of[0])/2].Seconds())
	}
}
