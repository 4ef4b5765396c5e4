package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestRelaxed: an operator may give up the flushes of changes. It is said in status and in
// the log, no change is flushed, and the end of the process alone loses nothing.
func TestRelaxed(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	conf := filepath.Join(t.TempDir(), "c.toml")
	write(t, conf, "durability = \"relaxed\"\n")
	write(t, filepath.Join(root, "a.txt"), "rev 0\n")
	d := startOn(t, root, state, []string{"HOLDPOINT_CONFIG=" + conf})
	flushes := func() string {
		t.Helper()
		_, out := d.http("GET", "/metrics", d.Agent, nil)
		m := regexp.MustCompile(`(?m)^holdpoint_journal_flush_seconds_count (\d+)$`).FindStringSubmatch(text(out, "raw"))
		if m == nil {
			t.Fatalf("metrics: %.300s", out)
		}
		return m[1]
	}
	var last M
	for _, size := range []int{0, 1} { // the first edit and those after it take different ways
		before := flushes()
		for i := range 3 {
			n := 3*size + i
			last = d.call("edit_file", M{"path": "a.txt", "old_string": fmt.Sprintf("rev %d\n", n), "new_string": fmt.Sprintf("rev %d\n", n+1)})
			if last["status"] != "done" {
				t.Fatal(last)
			}
		}
		if after := flushes(); after != before {
			t.Errorf("the journal was flushed: %s, then %s", before, after)
		}
	}
	if _, status := d.http("GET", "/v1/status", d.reviewer(), nil); !strings.Contains(fmt.Sprint(status["warnings"]), "relaxed_durability") {
		t.Error("status does not say it:", status["warnings"])
	}
	if !strings.Contains(d.Log.String(), "not flushed") {
		t.Error("the start does not say it")
	}
	d.stop(syscall.SIGKILL)
	d.run()
	if u := d.undo(last); u["status"] != "done" {
		t.Error("after a kill the last edit cannot be undone:", u)
	}
	if b, err := os.ReadFile(filepath.Join(root, "a.txt")); err != nil || string(b) != "rev 5\n" {
		t.Errorf("%q %v", b, err)
	}
}
