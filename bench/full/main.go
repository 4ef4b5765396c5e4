// Command full times Holdpoint, started as its users start it, beside the programs that are
// best at each kind of work and beside the bare system calls, in turn in one run, and writes
// a table of ratios with what it was measured on. It is no test: a row that misses its figure
// says so and the run goes on. A row whose changes do not verify, or cannot be undone, is void.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"holdpoint/bench/drive"
)

// side is one of those compared. do is timed, before is not.
type side struct {
	name   string
	before func(i int) error
	do     func(i int) error
	apart  bool // it disturbs the others: run a little of it at the end, to be shown
}

// row is one line of the table: the first side is ours, the second the one it is held to.
type row struct {
	work      string
	must, aim float64 // ratio of the medians; of a row with one side, milliseconds or the unit
	tail      float64 // must of the ratio of the 99th percentiles; 0: none is asked
	less      bool    // the third side is a part of ours that does not count
	unit      string
	n         int
	value     func() (float64, error) // instead of sides
	sides     []side
	later     func() ([]side, error) // sides that are made when their turn comes
	after     func() error           // void when it fails
	lacking   string                 // why the row is not there
}

func main() {
	c := &course{}
	flag.StringVar(&c.binary, "holdpoint", "bin/holdpoint", "the binary")
	flag.StringVar(&c.fsServer, "fs", "", "index.js of the reference file server")
	flag.StringVar(&c.dcServer, "dc", "", "index.js of desktop-commander; empty leaves it out")
	flag.IntVar(&c.files, "files", 100_000, "files of the large tree")
	flag.Int64Var(&c.big, "big", 1<<30, "bytes of the large file")
	flag.Uint64Var(&c.seed, "seed", 7, "of what is generated")
	flag.StringVar(&c.out, "out", "bench/results", "where the rows and the table go")
	flag.StringVar(&c.plots, "plots", "docs/shots", "where the plots go")
	flag.StringVar(&c.only, "only", "", "only rows whose name this regular expression matches; plots are drawn where it matches \"plots\"")
	flag.Parse()
	if err := c.run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (c *course) run() error {
	work, err := os.MkdirTemp("", "holdpoint-full")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := c.ready(work); err != nil {
		return err
	}
	defer c.stop()
	if err := os.MkdirAll(c.out, 0o755); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(c.out, "full.jsonl"))
	if err != nil {
		return err
	}
	defer log.Close()
	only, err := regexp.Compile(c.only)
	if err != nil {
		return err
	}
	table := &strings.Builder{}
	fmt.Fprintf(table, "%s\n\n| work | ours | held to | others | ratio | must | aim | met | fsync here | load |\n|---|---|---|---|---|---|---|---|---|---|\n", machine())
	for _, r := range append(c.rows(), c.grownRows()...) {
		if !only.MatchString(r.work) {
			continue
		}
		res := c.measure(r)
		line, _ := json.Marshal(res)
		fmt.Fprintf(log, "%s\n", line)
		fmt.Fprint(os.Stdout, res.line())
		table.WriteString(res.line())
	}
	if err := os.WriteFile(filepath.Join(c.out, "full.md"), []byte(table.String()), 0o644); err != nil || !only.MatchString("plots") {
		return err
	}
	return c.grow()
}

// result is a row as measured; times are medians in microseconds.
type result struct {
	Work      string             `json:"work"`
	P50       map[string]float64 `json:"p50_us,omitempty"`
	P99       map[string]float64 `json:"p99_us,omitempty"`
	Min       map[string]float64 `json:"min_us,omitempty"`
	Order     []string           `json:"order,omitempty"`
	Ratio     float64            `json:"ratio,omitempty"`
	Tail      float64            `json:"p99_ratio,omitempty"`
	TailMust  float64            `json:"p99_must,omitempty"`
	Value     float64            `json:"value,omitempty"`
	Unit      string             `json:"unit,omitempty"`
	Must, Aim float64
	Met       string  `json:"met"`
	Fsync     float64 `json:"fsync_us"`
	Load      string  `json:"load"`
	Why       string  `json:"why,omitempty"`
	Time      time.Time
}

// measure runs the sides of a row in turn.
func (c *course) measure(r row) result {
	res := result{Work: r.work, Must: r.must, Aim: r.aim, TailMust: r.tail, Unit: r.unit, Met: "not there", Why: r.lacking, Time: time.Now().UTC(),
		P50: map[string]float64{}, P99: map[string]float64{}, Min: map[string]float64{}}
	if r.lacking != "" {
		return res
	}
	res.Fsync, res.Load = c.fsync(), drive.Load()
	if err := c.times(r, &res); err != nil {
		res.Met, res.Why = "void", err.Error()
		return res
	}
	got := res.Ratio
	if r.unit != "" {
		got = res.Value
	}
	res.Met = "no"
	switch {
	case r.must == 0:
		res.Met = "-"
	case r.aim > 0 && got <= r.aim:
		res.Met = "aim"
	case got <= r.must:
		res.Met = "yes"
	}
	return res
}

func (c *course) times(r row, res *result) (err error) {
	if r.value != nil {
		res.Value, err = r.value()
		return err
	}
	if r.later != nil {
		if r.sides, err = r.later(); err != nil {
			return err
		}
	}
	got := make([]drive.Samples, len(r.sides))
	block := max(1, r.n/10) // calls in a row, as a user's come; the first block warms up
	for from := 0; from < r.n+block; from += block {
		for k, s := range r.sides {
			if s.apart && from < r.n {
				continue
			}
			for i := from; i < from+block; i++ {
				if s.before != nil {
					if err := s.before(i); err != nil {
						return fmt.Errorf("%s: %w", s.name, err)
					}
				}
				began := time.Now()
				if err := s.do(i); err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				if from > 0 {
					got[k] = append(got[k], float64(time.Since(began).Nanoseconds())/1e3)
				}
			}
		}
	}
	for k, s := range r.sides {
		res.Order = append(res.Order, s.name)
		res.P50[s.name], res.P99[s.name], res.Min[s.name] = got[k].At(.5), got[k].At(.99), got[k].At(0)
	}
	res.Value = got[0].At(.5) / 1e3
	if len(got) > 1 {
		ours := got[0].At(.5)
		if r.less {
			ours -= got[2].At(.5)
		}
		res.Ratio, res.Tail = ours/got[1].At(.5), got[0].At(.99)/got[1].At(.99)
	}
	if r.after != nil {
		return r.after()
	}
	return nil
}

func (r result) line() string {
	cell := func(k int) string {
		if k >= len(r.Order) {
			return ""
		}
		n := r.Order[k]
		return fmt.Sprintf("%s: %s (%s, p99 %s)", n, drive.US(r.P50[n]), drive.US(r.Min[n]), drive.US(r.P99[n]))
	}
	var more []string
	for k := 2; k < len(r.Order); k++ {
		more = append(more, cell(k))
	}
	ours, ratio := cell(0), fmt.Sprintf("%.2f", r.Ratio)
	switch {
	case r.Unit != "":
		ratio = fmt.Sprintf("%.2f %s", r.Value, r.Unit)
	case r.Ratio < .02:
		ratio = fmt.Sprintf("%.4f", r.Ratio)
	}
	if r.TailMust > 0 {
		word := "yes"
		if r.Tail > r.TailMust {
			word = "no"
		}
		ratio += fmt.Sprintf("; p99 %.2f (must %.3g: %s)", r.Tail, r.TailMust, word)
	}
	if r.Met == "void" || r.Met == "not there" {
		ratio = r.Why
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %.3g | %.3g | %s | %.0f us | %s |\n", r.Work, ours, cell(1), strings.Join(more, "; "), ratio, r.Must, r.Aim, r.Met, r.Fsync, r.Load)
}

// machine says what the figures are of.
func machine() string {
	out := func(words ...string) string {
		b, _ := exec.Command(words[0], words[1:]...).Output()
		return strings.TrimSpace(string(b))
	}
	cpu := out("sh", "-c", "sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1")
	disk := out("stat", "-f", "-c", "%T", os.TempDir())
	return fmt.Sprintf("%s: %d cores (%s), %s, Linux %s, %s, node %s, load %s", time.Now().UTC().Format("2 January 2006 15:04 UTC"), runtime.NumCPU(), cpu, disk,
		out("uname", "-r"), runtime.Version(), out("node", "--version"), drive.Load())
}
