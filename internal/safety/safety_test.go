package main

import (
	"strings"
	"testing"
)

// A run as go test prints it, shortened.
const run = `=== RUN   TestKill/D34_an_edit_is_whole
    kill_test.go:60: seed 7 (HOLDPOINT_SEED repeats it)
    kill_test.go:170: safety: {"what":"kill","on":"ext4","of":"edit","tried":51,"acknowledged":9,"lost":0,"half":0,"refused":0}
--- PASS: TestKill (3.00s)
    --- PASS: TestKill/D34_an_edit_is_whole (1.00s)
    --- PASS: TestKill/I62,_I74_a_new_file (1.00s)
        --- PASS: TestKill/I62,_I74_a_new_file/openat_3_EIO (1.00s)
    --- SKIP: TestKill/S100_(part)_on_xfs (0.00s)
    model_test.go:44: [rapid] OK, passed 20 tests (3s)
    powercut_test.go:99: safety: {"what":"power cut","on":"xfs","of":"edit","tried":30,"acknowledged":40,"lost":0,"half":0,"refused":2}
PASS
ok  	holdpoint/internal/e2e	9.000s
`

func reported(t *testing.T, log string) (*report, string) {
	t.Helper()
	r, err := read(strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	r.print(&out)
	return r, out.String()
}

func TestTable(t *testing.T) {
	r, out := reported(t, run)
	if !r.good() {
		t.Errorf("a run without fault is not good:\n%s", out)
	}
	for _, want := range []string{
		"cases passed        3 (failed 0, not possible here 1)", "on 20 draws",
		"power cut       xfs         edit       30     40            0     0          2",
		"all                                    81     49            0     0          2",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the table lacks %q:\n%s", want, out)
		}
	}
}

func TestTableOfABadRun(t *testing.T) {
	for name, log := range map[string]string{
		"lost":            strings.Replace(run, `"lost":0`, `"lost":1`, 1),
		"half-done":       strings.Replace(run, `"half":0`, `"half":1`, 1),
		"a failing test":  strings.Replace(run, "--- PASS: TestKill (", "--- FAIL: TestKill (", 1),
		"a broken build":  run + "FAIL	holdpoint/fileops [build failed]\n",
		"nothing tried":   strings.ReplaceAll(run, "safety:", "said:"),
		"a run cut short": run + "panic: test timed out after 1m0s\n",
	} {
		if r, out := reported(t, log); r.good() {
			t.Errorf("%s: the run counts as good:\n%s", name, out)
		}
	}
	if _, err := read(strings.NewReader("    kill_test.go:1: safety: {oops}\n")); err == nil {
		t.Error("a row that cannot be read is passed over")
	}
}
