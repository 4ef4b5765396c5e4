package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestThreatsNameTests holds docs/threats.md to its word: every test it names exists, and
// every numbered guarantee names one.
func TestThreatsNameTests(t *testing.T) {
	top := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(top, "docs", "threats.md"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	list, err := exec.Command("git", "-C", top, "ls-files", "-co", "--exclude-standard", "*_test.go").Output()
	if err != nil {
		t.Fatal(err)
	}
	test := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	for _, f := range strings.Fields(string(list)) {
		b, err := os.ReadFile(filepath.Join(top, f))
		if err != nil {
			continue // deleted and not yet committed
		}
		for _, m := range test.FindAllSubmatch(b, -1) {
			known[string(m[1])] = true
		}
	}
	named := regexp.MustCompile("`(Test\\w+)`")
	rows := 0
	for _, line := range strings.Split(string(text), "\n") {
		tests := named.FindAllStringSubmatch(line, -1)
		if regexp.MustCompile(`^\| \d+ \|`).MatchString(line) {
			if rows++; len(tests) == 0 {
				t.Errorf("a guarantee without a test: %s", line)
			}
		}
		for _, m := range tests {
			if !known[m[1]] {
				t.Errorf("there is no %s", m[1])
			}
		}
	}
	if rows < 10 {
		t.Errorf("only %d guarantees were read", rows)
	}
}
