// Command safety makes one table of what the tests of `make safety` did. It reads what
// `go test -v` printed: the rows that the tests tell, each with its own counts, the cases by the
// requirement that their name begins with, and the draws that properties were checked on.
//
//	safety LOG
//
// It ends with 1 where something was lost, half-done or failed, or where nothing was tried.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "safety LOG")
		os.Exit(2)
	}
	f, err := os.Open(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer f.Close()
	r, err := read(f)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	r.print(os.Stdout)
	if !r.good() {
		os.Exit(1)
	}
}

// row is what a test tells of one operation on one filesystem.
type row struct {
	What, On, Of                             string
	Tried, Acknowledged, Lost, Half, Refused int
}

type report struct {
	rows                    []row
	cases, skipped, checked int
	failed                  []string
}

var (
	told   = regexp.MustCompile(`^\s+\w+_test\.go:\d+: safety: (\{.*\})$`)
	ended  = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+)`)
	aCase  = regexp.MustCompile(`/[A-Z][0-9]+[_,]`) // a subtest that names a requirement
	checks = regexp.MustCompile(`\[rapid\] OK, passed (\d+) tests`)
	broken = regexp.MustCompile(`^(FAIL|panic:|fatal error:)`) // of a package
)

func read(from io.Reader) (*report, error) {
	r := &report{}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if err := r.line(lines.Text()); err != nil {
			return nil, err
		}
	}
	return r, lines.Err()
}

func (r *report) line(l string) error {
	if m := told.FindStringSubmatch(l); m != nil {
		var x row
		if err := json.Unmarshal([]byte(m[1]), &x); err != nil {
			return fmt.Errorf("%s: %w", l, err)
		}
		r.rows = append(r.rows, x)
		return nil
	}
	if m := checks.FindStringSubmatch(l); m != nil {
		n, err := strconv.Atoi(m[1])
		r.checked += n
		return err
	}
	if broken.MatchString(l) {
		r.failed = append(r.failed, l)
	}
	if m := ended.FindStringSubmatch(l); m != nil {
		switch {
		case m[1] == "FAIL":
			r.failed = append(r.failed, m[2])
		case m[1] == "SKIP":
			r.skipped++
		case aCase.MatchString(m[2]):
			r.cases++
		}
	}
	return nil
}

func (r *report) print(to io.Writer) {
	fmt.Fprintf(to, "cases passed        %d (failed %d, not possible here %d)\n", r.cases, len(r.failed), r.skipped)
	fmt.Fprintf(to, "properties checked  on %d draws\n\n", r.checked)
	slices.SortStableFunc(r.rows, func(a, b row) int { return cmp.Or(strings.Compare(a.What, b.What), strings.Compare(a.On, b.On)) })
	tab := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "crash or fault\tfilesystem\toperation\ttried\tacknowledged\tlost\thalf-done\trefused rightly")
	for _, x := range append(r.rows, r.sum()) {
		fmt.Fprintf(tab, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\n", x.What, x.On, x.Of, x.Tried, x.Acknowledged, x.Lost, x.Half, x.Refused)
	}
	tab.Flush()
	for _, f := range r.failed {
		fmt.Fprintln(to, "failed:", f)
	}
}

func (r *report) sum() row {
	s := row{What: "all"}
	for _, x := range r.rows {
		s.Tried += x.Tried
		s.Acknowledged += x.Acknowledged
		s.Lost += x.Lost
		s.Half += x.Half
		s.Refused += x.Refused
	}
	return s
}

func (r *report) good() bool {
	s := r.sum()
	return len(r.failed) == 0 && s.Lost == 0 && s.Half == 0 && s.Tried > 0
}
