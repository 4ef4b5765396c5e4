//go:build filesystems

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// suites are the tests that a filesystem could make go otherwise, by what they are about.
var suites = []struct{ name, tests string }{
	{"write", "MainJob|DataCases|Metadata|KindsOfData|Batch|BatchPlaces|BatchRandom|Patch|CopyTree|Links|Outside|Backups|LateWrite|Owners"},
	{"undo", "UndoAsked|Hour|SecurityUndo|Walk|Credential|Quarantine|Clean"},
	{"crash", "Kill|KillBatch|KillAnswer|HourKilled|Faults|Damage|Model|RehearseKill"},
}

// TestSuites runs whole suites of this package, and the tests of internal/rooted, with
// workspace and state on each filesystem. HOLDPOINT_ON names some of them.
func TestSuites(t *testing.T) {
	smallDisk, diskSize = "3g", 4<<30 // some suites build programs there, and put other filesystems into it
	engine := filepath.Join(t.TempDir(), "rooted.test")
	if out, err := exec.Command("go", "test", "-c", "-o", engine, "../rooted").CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	logs := os.Getenv("HOLDPOINT_LOGS")
	table := &strings.Builder{}
	tab := tabwriter.NewWriter(table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "filesystem\tsuite\tcases passed\tfailed\tnot possible there\ttook")
	for _, f := range filesystems {
		if only := os.Getenv("HOLDPOINT_ON"); f.no != "" || only != "" && !slices.Contains(strings.Split(only, ","), f.kind) {
			continue // where nothing can be changed TestFilesystems says how that is refused
		}
		t.Run(f.kind, func(t *testing.T) {
			dir := f.make(t)
			for p := dir; p != "/" && p != os.TempDir(); p = filepath.Dir(p) { // some tests are other users
				if err := os.Chmod(p, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			run := func(name, in string, argv ...string) {
				began := time.Now()
				cmd := exec.Command(argv[0], append(argv[1:], "-test.v", "-test.timeout=60m", "-test.parallel=3")...)
				cmd.Dir = in
				cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOLDPOINT_TEST_DIR="+dir, "GOTMPDIR="+os.TempDir(), apartBinary+"="+binary)
				out, err := cmd.CombinedOutput()
				if logs != "" {
					os.WriteFile(filepath.Join(logs, f.kind+"-"+name+".log"), out, 0o644)
				}
				passed, failed, skipped := ended(out, "PASS"), ended(out, "FAIL"), ended(out, "SKIP")
				fmt.Fprintf(tab, "%s\t%s\t%d\t%d\t%d\t%v\n", f.kind, name, passed, failed, skipped, time.Since(began).Round(time.Second))
				if err != nil || passed == 0 {
					t.Errorf("%s on %s: %v\n%s", name, f.kind, err, failures(out))
				}
			}
			run("engine", "../rooted", engine, "-test.run=.")
			for _, s := range suites {
				run(s.name, ".", os.Args[0], "-test.run=^Test("+s.tests+")$")
			}
		})
	}
	tab.Flush()
	t.Logf("suites:\n%s", table)
}

// ended counts the tests and subtests of one end.
func ended(out []byte, how string) int { return bytes.Count(out, []byte("--- "+how+":")) }

var failing = regexp.MustCompile(`(?m)^\s+[a-z_0-9]+_test\.go:\d+: .*$|^\s*--- FAIL.*$`)

func failures(out []byte) string {
	lines := failing.FindAll(out, 60)
	return string(bytes.Join(lines, []byte("\n")))
}
