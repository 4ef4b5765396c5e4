package main

import (
	"path/filepath"
	"strings"
	"testing"
)

const recordings = "../../testdata/fatigue"

// The recordings are read whole, and the ten hours keep within what docs/fatigue.md says.
func TestReport(t *testing.T) {
	var out strings.Builder
	if err := report(&out, recordings); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(recordings, "*.jsonl"))
	if len(files) != 10 {
		t.Fatalf("%d hours", len(files))
	}
	cards, rehearsed := 0, 0
	for _, f := range files {
		h, err := judgeHour(f)
		if err != nil {
			t.Fatal(err)
		}
		if h.calls < 100 || h.total() == 0 {
			t.Errorf("%s: %d calls, %d cards", f, h.calls, h.total())
		}
		cards, rehearsed = cards+h.total(), rehearsed+h.withRehearsal()
	}
	if rehearsed > 6*len(files) || cards > 25*len(files) {
		t.Errorf("%d cards in ten hours, %d with rehearsal: docs/fatigue.md says fewer\n%s", cards, rehearsed, out.String())
	}
}
