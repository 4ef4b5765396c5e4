package flow_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"holdpoint/decision"
	"holdpoint/internal/flow"
	"holdpoint/internal/journal"
	"holdpoint/op"
)

// recorded is a journal that holds every row of the decision table as a decision on
// record; those of alter say what alter makes of them.
func recorded(t *testing.T, alter func(n int, d op.Decision) op.Decision) (*journal.Journal, map[op.ID]decision.Row) {
	t.Helper()
	j, err := journal.Open(filepath.Join(t.TempDir(), "state"), journal.Options{CreatedOK: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	data, err := os.ReadFile("../../testdata/decisions/decision-table.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []decision.Row
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	of := map[op.ID]decision.Row{}
	for n, r := range rows {
		d := decision.Judge(r.Request, r.Profile, r.Facts, r.Environment)
		basis := flow.BasisOf(r.Request, r.Profile, r.Facts, r.Environment)
		switch d.Verdict {
		case op.Auto:
			o := journal.Operation{ID: op.ID(fmt.Sprintf("op_%03d", n)), Op: r.Request.Op, Decision: alter(n, d), Basis: basis, Created: time.Unix(int64(n), 0)}
			of[o.ID], err = r, j.Begin(t.Context(), o)
		case op.Review:
			a := journal.Approval{ID: op.ID(fmt.Sprintf("ap_%03d", n)), Op: r.Request.Op, Decision: alter(n, d), Basis: basis, Created: time.Unix(int64(n), 0)}
			of[a.ID], err = r, j.AddApproval(t.Context(), a)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return j, of
}

func asIs(_ int, d op.Decision) op.Decision { return d }

// verdicts names the records whose decision is not what their facts give.
func verdicts(r flow.Replayed) map[op.ID]bool {
	out := map[op.ID]bool{}
	for _, f := range r.Findings {
		if f.Code == "verdict" {
			out[f.Record] = true
		}
	}
	return out
}

func replay(t *testing.T, j *journal.Journal, judge flow.Judge) flow.Replayed {
	t.Helper()
	r, err := flow.ReplayJournal(t.Context(), j, judge)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReplayJournal(t *testing.T) {
	t.Run("every decision of the table is made again from what was kept", func(t *testing.T) {
		j, of := recorded(t, asIs)
		r := replay(t, j, decision.Judge)
		if bad := verdicts(r); r.Judged != len(of) || len(of) < 100 || len(bad) > 0 || r.Unjudged > 0 {
			t.Errorf("%d judged of %d, %v differ", r.Judged, len(of), bad)
		}
		if again := replay(t, j, decision.Judge); !reflect.DeepEqual(again, r) {
			t.Error("a second replay differs")
		}
	})
	t.Run("one altered verdict is found at that record", func(t *testing.T) {
		for _, field := range []func(*op.Decision){
			func(d *op.Decision) { d.Reason = op.ReasonOverwrite }, func(d *op.Decision) { d.Tier = op.T3 }, func(d *op.Decision) { d.Mandatory = !d.Mandatory },
			func(d *op.Decision) { d.Also = append([]op.Reason{}, op.ReasonTooLarge) }, func(d *op.Decision) { d.GrantID = "ru_x" },
		} {
			j, _ := recorded(t, func(n int, d op.Decision) op.Decision {
				if n == 60 {
					field(&d)
				}
				return d
			})
			if bad := verdicts(replay(t, j, decision.Judge)); len(bad) != 1 || !(bad["ap_060"] || bad["op_060"]) {
				t.Errorf("got %v", bad)
			}
		}
	})
	t.Run("a judgement with one clause changed is found at the records that it decides", func(t *testing.T) {
		j, of := recorded(t, asIs)
		// As a build whose table forgot that a change of unknown size is a missing fact.
		lax := func(q op.Terms, p op.Profile, f op.Facts, e op.Environment) op.Decision {
			if f.ChangeBytes < 0 {
				f.ChangeBytes = 0
			}
			return decision.Judge(q, p, f, e)
		}
		got, want := verdicts(replay(t, j, lax)), map[op.ID]bool{}
		for id, r := range of {
			if !reflect.DeepEqual(lax(r.Request, r.Profile, r.Facts, r.Environment), decision.Judge(r.Request, r.Profile, r.Facts, r.Environment)) {
				want[id] = true
			}
		}
		if len(want) == 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// What is kept of a decision holds nothing of content or arguments, and little else.
func TestBasisIsSmall(t *testing.T) {
	f := op.Facts{WorkspaceBound: true, Available: true, Planned: true, ChangeBytes: 12, Targets: []op.Target{{Path: "src/a.go", Asked: "./src/a.go", Role: op.RoleTarget,
		Exists: true, Kind: op.File, Size: 99, Hash: "blake3:canary", Text: &op.TextFacts{Encoding: "canary"}, ProtectedBy: "canary", Links: []op.Link{{Path: "x", Target: "canary"}}}}}
	got := string(flow.BasisOf(op.Terms{Op: op.EditFile, Backup: true}, op.DefaultProfile(), f, op.Environment{CallerRole: op.Agent, ClearanceFloor: 1}))
	const want = `"facts":{"workspace_bound":true,"available":true,"planned":true,"change_bytes":12,"targets":[{"path":"src/a.go","role":"target","exists":true,"kind":"file"}]}`
	if !strings.Contains(got, want) || strings.Contains(got, "canary") || len(got) > 800 {
		t.Errorf("got %d bytes: %s", len(got), got)
	}
}
