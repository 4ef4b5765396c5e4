package shellexec

import (
	"regexp"
	"strconv"
	"strings"
)

// Counts finds how many tests passed and failed in what a test runner printed. It says
// false where it knows none of the forms: go test, pytest, node and cargo.
func Counts(output string) (passed, failed int, known bool) {
	for _, line := range strings.Split(output, "\n") {
		line = strings.TrimRight(line, "\r")
		switch {
		case goResult.MatchString(line):
			known = true
			if strings.HasPrefix(strings.TrimSpace(line), "--- PASS") {
				passed++
			} else if strings.HasPrefix(strings.TrimSpace(line), "--- FAIL") || goBroken.MatchString(line) {
				failed++ // a package that does not compile tells of no test
			}
		case cargoResult.MatchString(line):
			m := cargoResult.FindStringSubmatch(line)
			passed, failed, known = passed+number(m[1]), failed+number(m[2]), true
		case nodeResult.MatchString(line):
			m := nodeResult.FindStringSubmatch(line)
			if known = true; m[1] == "pass" {
				passed += number(m[2])
			} else {
				failed += number(m[2])
			}
		case pytestTime.MatchString(line) && pytestPart.MatchString(line):
			for _, m := range pytestPart.FindAllStringSubmatch(line, -1) {
				if known = true; m[2] == "passed" {
					passed += number(m[1])
				} else {
					failed += number(m[1])
				}
			}
		}
	}
	return passed, failed, known
}

var (
	goResult    = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): \S+ \(|^(ok  |FAIL)\t\S+[\t ]`)
	goBroken    = regexp.MustCompile(`^FAIL\t\S+ \[(build|setup) failed\]`)
	cargoResult = regexp.MustCompile(`^test result: \w+\. (\d+) passed; (\d+) failed;`)
	nodeResult  = regexp.MustCompile(`^(?:#|ℹ) (pass|fail) (\d+)$`)
	pytestTime  = regexp.MustCompile(` in \d+(\.\d+)?s\b`)
	pytestPart  = regexp.MustCompile(`(\d+) (passed|failed|errors?)\b`)
)

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}
