package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const caseFiles = `package p
var rows = map[string]string{"S2 a table of all": "x"}
func TestOne(t *testing.T) { t.Run("S1 a", f) }
func TestTable(t *testing.T) { for n := range rows { t.Run(n, f) } }
func TestHelped(t *testing.T) { middle(t) }
func TestOther(t *testing.T) { t.Run("C1 a", f) }
func middle(t *testing.T) { y.deep(t) }
func (y yard) deep(t *testing.T) { t.Run("S3 (part) in a helper", f) }
`

// caseTree is a module with tests of a few ids, and another's that no machine builds.
func caseTree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for rel, text := range map[string]string{
		"testdata/requirements/ids.txt":            "C1\tD\tone\nS1\tpaths\tfive\nS2\tpaths\tsix\nS3\tlinks\tseven\n",
		"testdata/requirements/not-applicable.txt": "",
		"p/x_test.go": caseFiles,
		"p/y_test.go": "//go:build never\n\npackage p\nfunc TestNever(t *testing.T) { t.Run(\"S1 (part) b\", f) }\n",
	} {
		p := filepath.Join(root, rel)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestCases(t *testing.T) {
	root := caseTree(t)
	var out, errs bytes.Buffer
	if code := run([]string{"-root", root, "-cases", "S"}, &out, &errs); code != 0 || out.String() != "p ^(TestHelped|TestOne|TestTable)$\n" {
		t.Errorf("exit %d: %q %q", code, out.String(), errs.String())
	}
}

func TestRan(t *testing.T) {
	root := caseTree(t)
	good := []string{
		"=== RUN   TestOne\n=== RUN   TestOne/S1_a\n    x_test.go:3: as root only: a second uid\n--- PASS: TestOne (0.10s)\n    --- PASS: TestOne/S1_a (0.00s)\n",
		"=== RUN   TestTable\n--- PASS: TestTable (0.10s)\n    --- PASS: TestTable/S2_a_table_of_all (0.00s)\n",
		"=== RUN   TestHelped\n        --- PASS: TestHelped/S3_(part)_in_a_helper/#01 (0.00s)\n    --- PASS: TestHelped/S3_(part)_in_a_helper (0.00s)\n--- PASS: TestHelped (0.10s)\n",
	}
	const all = "3 cases, "
	for name, c := range map[string]struct {
		at       int
		old, new string
		code     int
		say      string
	}{
		"all ran":                {0, "", "", 0, "S1    as root only: a second uid\n3 cases, 1 of them whole; 4 subtests that name one passed, 0 faults\n"},
		"one was skipped in two": {1, "PASS: TestTable/", "SKIP: TestTable/", 1, "S2: p TestTable/S2_a_table_of_all was skipped and does not say that it is for root only"},
		"a skip with its reason": {1, "--- PASS: TestTable (0.10s)\n    --- PASS: TestTable/", "=== NAME  TestTable/S2_a_table_of_all\n    x_test.go:4: as root only: it mounts\n--- PASS: TestTable (0.10s)\n    --- SKIP: TestTable/", 1, "S2    as root only: it mounts\n"},
		"one failed":             {0, "PASS: TestOne/", "FAIL: TestOne/", 1, "S1: p TestOne/S1_a did not pass"},
		"one was not reached":    {2, good[2], "=== RUN   TestHelped\n--- PASS: TestHelped (0.10s)\n", 1, "S3: no test of it passed"},
		"a test was not run":     {1, good[1], "", 1, "p TestTable was not run to its end"},
		"all of it was skipped":  {2, good[2], "=== RUN   TestHelped\n--- SKIP: TestHelped (0.10s)\n", 1, "S3: no test of it passed"},
		"a whole test skipped":   {0, good[0], "=== RUN   TestOne\n--- SKIP: TestOne (0.10s)\n", 1, "S1: p TestOne was skipped and does not say"},
		"it came to a bad end":   {0, "--- PASS: TestOne (0.10s)\n    --- PASS: TestOne/S1_a (0.00s)\n", "panic: x\n", 1, "p TestOne was not run to its end"},
	} {
		t.Run(name, func(t *testing.T) {
			parts := append([]string{}, good...)
			if parts[c.at] = strings.Replace(parts[c.at], c.old, c.new, 1); c.old != "" && parts[c.at] == good[c.at] {
				t.Fatal("nothing was replaced")
			}
			log := filepath.Join(root, "log")
			if err := os.WriteFile(log, []byte("== p\n"+strings.Join(parts, "")), 0o600); err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			if code := run([]string{"-root", root, "-cases", "S", "-ran", log}, &out, &errs); code != c.code || !strings.Contains(out.String(), c.say) || !strings.Contains(out.String(), all) {
				t.Errorf("exit %d: %q %q, want %d and %q", code, out.String(), errs.String(), c.code, c.say)
			}
		})
	}
}
