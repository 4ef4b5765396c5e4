package decision_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"holdpoint/decision"
	"holdpoint/op"
)

const tablePath = "../testdata/decisions/decision-table.json"

// tableRows gives each row of the table as plain JSON says it.
func tableRows(t *testing.T, each func(decision.Row)) int {
	t.Helper()
	data, err := os.ReadFile(tablePath)
	if err != nil {
		t.Fatal(err)
	}
	var rows []decision.Row
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		each(r)
	}
	return len(rows)
}

// One altered row of a table is found, that row and no other.
func TestCheckRows(t *testing.T) {
	data, err := os.ReadFile(tablePath)
	if err != nil {
		t.Fatal(err)
	}
	check := func(text []byte) (names []string, n int) {
		t.Helper()
		n, err := decision.CheckRows(bytes.NewReader(text), func(_ int, r decision.Row, got op.Decision) { names = append(names, r.Name) })
		if err != nil {
			t.Fatal(err)
		}
		return names, n
	}
	if names, n := check(data); len(names) > 0 || n < 146 {
		t.Fatalf("%d rows, and these differ: %v", n, names)
	}
	const from, to = `"want": {"verdict": "review", "reason": "planning_failed"`, `"want": {"verdict": "auto", "reason": "low_impact_scoped_change"`
	text := string(data)
	at := strings.Index(text, `"change size unknown counts as missing"`)
	end := at + strings.Index(text[at:], from)
	if at < 0 || end < at {
		t.Fatal("the row is not there")
	}
	altered := text[:end] + to + text[end+len(from):]
	if names, _ := check([]byte(altered)); len(names) != 1 || names[0] != "change size unknown counts as missing" {
		t.Errorf("got %q", names)
	}
}
