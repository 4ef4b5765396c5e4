package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

// rootOnly stands in the log of a test before the reason why an ordinary user cannot show
// something. Nothing else excuses a step of a case that was not run.
const rootOnly = "as root only: "

// ran is what a log of tests says of one test or subtest.
type ran struct {
	verdict string // PASS, FAIL or SKIP
	left    []string
}

var (
	dirLine = regexp.MustCompile(`^== (\S+)$`)
	nowLine = regexp.MustCompile(`^\s*=== (?:RUN|PAUSE|CONT|NAME) +(\S+)$`)
	endLine = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+) \([0-9.]+s\)$`)
)

// readLog takes the plain words of go test -v, of one package after the other with a line
// "== directory" before each, and keys them by directory and name. A test that ran a second
// time, in a place of its own, is judged by all it said.
func readLog(file string) (map[string]*ran, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out := map[string]*ran{}
	of := func(test string) *ran {
		if out[test] == nil {
			out[test] = &ran{}
		}
		return out[test]
	}
	dir, now := "", ""
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		line := lines.Text()
		if m := dirLine.FindStringSubmatch(line); m != nil {
			dir = m[1]
		} else if m := nowLine.FindStringSubmatch(line); m != nil {
			now = m[1]
		} else if m := endLine.FindStringSubmatch(line); m != nil {
			if r := of(dir + " " + m[2]); r.verdict != "FAIL" {
				r.verdict = m[1]
			}
		} else if _, why, ok := strings.Cut(line, rootOnly); ok {
			r := of(dir + " " + now)
			r.left = append(r.left, why)
		}
	}
	return out, lines.Err()
}

// shown is what a log says of one case.
type shown struct {
	passed, whole int
	left          []string // why something was left to root
	faults        []string
}

// judge finds what was run of each id of the letter. A test that was skipped as a whole has
// no subtests in the log: the claims say of which ids it was.
func (l *lists) judge(letter string, tests map[string]*ran, claims []claim) map[string]*shown {
	out := map[string]*shown{}
	for _, r := range l.rows {
		if strings.HasPrefix(r.id, letter) && r.not == "" {
			out[r.id] = &shown{}
		}
	}
	for name := range tests {
		for _, c := range named(name) {
			if s := out[c.id]; s != nil {
				s.add(tests, name, c.part)
			}
		}
	}
	for _, c := range claims {
		file, _, _ := strings.Cut(c.at, ":")
		name := path.Dir(file) + " " + c.test
		if s, r := out[c.id], tests[name]; s != nil && r != nil && r.verdict == "SKIP" {
			s.add(tests, name, c.part)
		}
	}
	for _, s := range out {
		slices.Sort(s.left)
		s.left = slices.Compact(s.left)
		slices.Sort(s.faults)
		s.faults = slices.Compact(s.faults)
		if s.passed == 0 && len(s.faults) == 0 {
			s.faults = []string{"no test of it passed"}
		}
	}
	return out
}

// named takes the ids of a subtest's name as the log spells it, of its own part of the name.
func named(test string) (claims []claim) {
	_, name, _ := strings.Cut(test, " ")
	parts := strings.Split(name, "/")
	for _, p := range parts[1:] {
		claims = append(claims, parse(strings.ReplaceAll(p, "_", " "), test)...)
	}
	return claims
}

// add takes what the log says of a test that names the id, and of what runs within it.
func (s *shown) add(tests map[string]*ran, name string, part bool) {
	verdict, left := tests[name].verdict, 0
	for other, r := range tests {
		if other != name && !strings.HasPrefix(other, name+"/") {
			continue
		}
		left += len(r.left)
		s.left = append(s.left, r.left...)
		if r.verdict == "SKIP" && len(r.left) == 0 {
			s.faults = append(s.faults, other+" was skipped and does not say that it is for root only")
		}
	}
	switch verdict {
	case "SKIP":
	case "PASS":
		s.passed++
		if !part && left == 0 {
			s.whole++
		}
	default:
		s.faults = append(s.faults, name+" did not pass")
	}
}

// missing names the tests that should be in a log and are not.
func missing(tests map[string]*ran, wanted map[string][]string) (faults []string) {
	for dir, names := range wanted {
		for _, name := range names {
			if r := tests[dir+" "+name]; r == nil || r.verdict == "" {
				faults = append(faults, dir+" "+name+" was not run to its end")
			}
		}
	}
	slices.Sort(faults)
	return faults
}

// printRan tells what a log shows of each case, and reports whether every one was run and
// all passed.
func (l *lists) printRan(out io.Writer, letter, file string, wanted map[string][]string, claims []claim) (bool, error) {
	tests, err := readLog(file)
	if err != nil {
		return false, err
	}
	cases, all, whole, passed, faults := l.judge(letter, tests, claims), 0, 0, 0, missing(tests, wanted)
	for _, r := range l.rows {
		s := cases[r.id]
		if s == nil {
			continue
		}
		all, whole, passed = all+1, whole+min(s.whole, 1), passed+s.passed
		for _, why := range s.left {
			fmt.Fprintf(out, "%-5s %s%s\n", r.id, rootOnly, why)
		}
		for _, f := range s.faults {
			faults = append(faults, r.id+": "+f)
		}
	}
	for _, f := range faults {
		fmt.Fprintln(out, f)
	}
	fmt.Fprintf(out, "%d cases, %d of them whole; %d subtests that name one passed, %d faults\n", all, whole, passed, len(faults))
	return len(faults) == 0, nil
}
