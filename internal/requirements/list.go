package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

// requirement is one row: what the lists say and what the tests claim.
type requirement struct {
	id, tag, title string
	not            string // why it does not apply
	whole, part    []claim
}

type lists struct {
	rows []*requirement // in the order of the file
	byID map[string]*requirement
}

// origins in the order of the report.
var origins = []struct{ letter, name string }{
	{"C", "tool-call approval policy"},
	{"I", "destructive calls through a queue"},
	{"U", "writes confirmed by a person"},
	{"X", "tiers, modes, grants"},
	{"D", "data cases"},
	{"S", "security cases"},
}

func readLists(dir string) (*lists, error) {
	l := &lists{byID: map[string]*requirement{}}
	err := lines(filepath.Join(dir, "ids.txt"), 3, func(f []string) error {
		if l.byID[f[0]] != nil || ids.FindString(f[0]) != f[0] {
			return fmt.Errorf("%q is twice in the list, or no id", f[0])
		}
		r := &requirement{id: f[0], tag: f[1], title: f[2]}
		l.rows, l.byID[f[0]] = append(l.rows, r), r
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l, lines(filepath.Join(dir, "not-applicable.txt"), 2, func(f []string) error {
		r := l.byID[f[0]]
		if r == nil || r.not != "" {
			return fmt.Errorf("%q is twice here, or not in the list of ids", f[0])
		}
		r.not = f[1]
		return nil
	})
}

// lines reads rows of tab-separated fields, none empty; # begins a comment line.
func lines(path string, fields int, row func([]string) error) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for n, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		for _, v := range f {
			if len(f) != fields || strings.TrimSpace(v) == "" {
				return fmt.Errorf("%s:%d: want %d fields separated by tabs", path, n+1, fields)
			}
		}
		if err := row(f); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n+1, err)
		}
	}
	return nil
}

// join gives each row its claims and returns what contradicts the lists.
func (l *lists) join(claims []claim) (faults []string) {
	for _, c := range claims {
		r := l.byID[c.id]
		switch {
		case r == nil:
			faults = append(faults, fmt.Sprintf("%s: %q names %s, which is no requirement", c.at, c.name, c.id))
		case r.not != "":
			faults = append(faults, fmt.Sprintf("%s: %q covers %s, which is listed as not applicable (%s)", c.at, c.name, c.id, r.not))
		case c.part:
			r.part = append(r.part, c)
		default:
			r.whole = append(r.whole, c)
		}
	}
	sort.Strings(faults)
	return faults
}

func (r *requirement) state() string {
	switch {
	case r.not != "":
		return "n/a"
	case len(r.whole) > 0:
		return "covered"
	case len(r.part) > 0:
		return "in part"
	}
	return "open"
}

func (l *lists) printCounts(out io.Writer) {
	for _, o := range origins {
		n := map[string]int{}
		for _, r := range l.rows {
			if strings.HasPrefix(r.id, o.letter) {
				n[r.state()]++
				n["all"]++
			}
		}
		fmt.Fprintf(out, "%s %-34s %4d: %3d covered, %3d in part, %3d not applicable, %3d open\n",
			o.letter, o.name, n["all"], n["covered"], n["in part"], n["n/a"], n["open"])
	}
	for _, r := range l.rows {
		if r.not != "" {
			fmt.Fprintf(out, "%-5s not applicable: %s\n", r.id, r.not)
		}
	}
}

// printKinds counts the security cases by their tag, which is their kind, and the tests.
func (l *lists) printKinds(out io.Writer) {
	var order []string
	n := map[string]map[string]int{}
	for _, r := range l.rows {
		if !strings.HasPrefix(r.id, "S") {
			continue
		}
		for _, kind := range []string{r.tag, "all"} {
			if n[kind] == nil {
				order, n[kind] = append(order, kind), map[string]int{}
			}
			n[kind]["cases"]++
			n[kind][r.state()]++
			n[kind]["tests"] += len(r.whole) + len(r.part)
		}
	}
	order = append(slices.DeleteFunc(order, func(k string) bool { return k == "all" }), "all")
	fmt.Fprintf(out, "%-11s %5s %8s %8s %5s %6s\n", "kind", "cases", "covered", "in part", "open", "tests")
	for _, kind := range order {
		c := n[kind]
		fmt.Fprintf(out, "%-11s %5d %8d %8d %5d %6d\n", kind, c["cases"], c["covered"], c["in part"], c["open"], c["tests"])
	}
}

func (l *lists) printAll(out io.Writer) {
	for _, r := range l.rows {
		fmt.Fprintf(out, "%-5s %-8s %s\n", r.id, r.state(), r.title)
		if r.not != "" {
			fmt.Fprintf(out, "      because %s\n", r.not)
		}
		for _, c := range append(r.whole, r.part...) {
			fmt.Fprintf(out, "      %s %s\n", c.at, c.name)
		}
	}
}

func (l *lists) printOpen(out io.Writer) {
	for _, r := range l.rows {
		if s := r.state(); s == "open" || s == "in part" {
			fmt.Fprintf(out, "%-5s %-8s %-9s %s\n", r.id, s, r.tag, r.title)
		}
	}
}
