package decision

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"holdpoint/op"
)

const tableFile = "../testdata/decisions/decision-table.json"

// table reads the rows through the same strict reader that `policy judge` uses.
func table(t testing.TB) []Row {
	t.Helper()
	f, err := os.Open(filepath.FromSlash(tableFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rows []Row
	err = eachRow(f, func(line int, text []byte) error {
		row, err := parseRow(text)
		rows = append(rows, row)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) < 146 {
		t.Fatalf("the table has %d rows, want at least 146", len(rows))
	}
	return rows
}

// plain brings an answer to the table's form: nothing listed is an empty list, and
// pinned, which the table does not have, is left out.
func plain(d op.Decision) op.Decision {
	d.Also = append([]op.Reason{}, d.Also...)
	d.Pinned = false
	return d
}

func judge(r Row) op.Decision { return Judge(r.Request, r.Profile, r.Facts, r.Environment) }

func TestTable(t *testing.T) {
	for _, r := range table(t) {
		t.Run(r.Name, func(t *testing.T) {
			if r.Want == nil {
				t.Fatal("the row wants nothing")
			}
			if got, want := plain(judge(r)), plain(*r.Want); !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// The operator's command must give the same answers as the function, row by row.
func TestJudgeRowsGivesTheTable(t *testing.T) {
	data, err := os.ReadFile(filepath.FromSlash(tableFile))
	if err != nil {
		t.Fatal(err)
	}
	rows := table(t)
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	for _, r := range rows {
		r.Want = nil
		if err := enc.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	for form, in := range map[string][]byte{"array": data, "lines": lines.Bytes()} {
		t.Run(form, func(t *testing.T) {
			var out strings.Builder
			if err := JudgeRows(bytes.NewReader(in), &out); err != nil {
				t.Fatal(err)
			}
			got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if len(got) != len(rows) {
				t.Fatalf("%d lines for %d rows", len(got), len(rows))
			}
			for i, line := range got {
				want, _ := json.Marshal(judge(rows[i]))
				if line != string(want) {
					t.Errorf("%s:\ngot  %s\nwant %s", rows[i].Name, line, want)
				}
			}
		})
	}
}
