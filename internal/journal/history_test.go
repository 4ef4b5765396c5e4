package journal

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/op"
)

// touched is an operation that swaps a file, or keeps a snapshot of it.
func touched(j *Journal, n int, do op.Act, path op.Path) Operation {
	o := sample(j, fmt.Sprintf("touched-%d", n))
	o.Steps = []op.Step{{Do: do, Path: path, Slot: fmt.Sprintf("sl_%d", n), Before: op.State{Kind: op.File, Hash: "blake3:aa"}, After: op.State{Kind: op.File, Hash: "blake3:bb"}}}
	return o
}

// seqsOf walks a filter by pages and gives the numbers.
func seqsOf(t testing.TB, j *Journal, f Filter) (out []int64) {
	t.Helper()
	if err := j.WalkOperations(t.Context(), f, func(o Operation) bool { out = append(out, o.Seq); return true }); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestOperationsOfOneThing(t *testing.T) {
	j := fresh(t)
	const many = 3*aPage + 5
	for n := range many {
		do, path := op.Swap, op.Path("f")
		switch {
		case n == 1 || n == 7:
			do = op.Keep
		case n%10 == 4:
			path = "g"
		case n == 12:
			do, path = op.Keep, "d/x"
		}
		done(t, j, touched(j, n, do, path))
	}
	var ofF, ofG []int64
	for n := many; n > 0; n-- {
		switch i := n - 1; {
		case i == 12:
		case i%10 == 4:
			ofG = append(ofG, int64(n))
		default:
			ofF = append(ofF, int64(n))
		}
	}
	for name, c := range map[string]struct {
		f    Filter
		want []int64
	}{
		"a file":                            {Filter{Path: "f"}, ofF},
		"another":                           {Filter{Path: "g", State: Committed, Root: "root1"}, ofG},
		"a directory":                       {Filter{Path: "d"}, []int64{13}},
		"snapshots of a file":               {Filter{Snapshot: "f"}, []int64{8, 2}},
		"of one without":                    {Filter{Snapshot: "g"}, nil},
		"not of what lies below":            {Filter{Snapshot: "d"}, nil},
		"a slot":                            {Filter{Slot: "sl_30", State: Committed}, []int64{31}},
		"no slot":                           {Filter{Slot: "sl_"}, nil},
		"a slot of an operation in a state": {Filter{Slot: "sl_30", State: Undone}, nil},
		"a file, between two numbers":       {Filter{Path: "f", After: 2, Before: 7}, []int64{6, 4, 3}},
		"a file, since":                     {Filter{Path: "f", Since: time.Now()}, nil},
	} {
		if got := seqsOf(t, j, c.f); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
	t.Run("a page goes along the index from where it begins, and sorts and collects nothing", func(t *testing.T) {
		for _, f := range []Filter{{Path: "f"}, {Snapshot: "f"}, {Slot: "sl_1"}} {
			f.Root, f.State, f.Limit, f.Before = "root1", Committed, aPage, 100
			if plan := planOf(t, j, f); strings.Contains(plan, "B-TREE") || strings.Contains(plan, "SCAN") || strings.Contains(plan, "LIST SUBQUERY") ||
				!strings.Contains(plan, "=? AND seq<?)") {
				t.Errorf("%+v:\n%s", f, plan)
			}
		}
		if plan := planOf(t, j, Filter{Path: "d"}); !strings.Contains(plan, "LIST SUBQUERY") {
			t.Errorf("a directory, which collects, is not seen to:\n%s", plan)
		}
	})
	t.Run("what is damaged elsewhere in a file's history does not stop the search for its snapshot", func(t *testing.T) {
		raw(t, j, "DROP TRIGGER operations_terms")
		raw(t, j, "UPDATE operations SET agent = 'x' WHERE seq = 50")
		raw(t, j, operations.termsTrigger())
		if _, err := j.Operations(t.Context(), Filter{Path: "f"}); !errors.Is(err, op.StateCorrupt) {
			t.Fatalf("it is not damaged: %v", err)
		}
		if got := seqsOf(t, j, Filter{Snapshot: "f"}); !slices.Equal(got, []int64{8, 2}) {
			t.Errorf("got %v", got)
		}
	})
}

// planOf is what the database means to do for a filter.
func planOf(t *testing.T, j *Journal, f Filter) string {
	t.Helper()
	rest, args, err := j.picks(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := j.readers.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+operations.selectSQL(rest), args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&plan, detail)
	}
	return plan.String()
}

// A state of an older schema gets the index of snapshots from the steps that it has.
func TestSnapshotsOfOldState(t *testing.T) {
	j := fresh(t)
	done(t, j, touched(j, 0, op.Keep, "f\xff"))
	done(t, j, touched(j, 1, op.Swap, "f\xff"))
	raw(t, j, "DELETE FROM op_snapshots")
	if got := seqsOf(t, j, Filter{Snapshot: "f\xff"}); got != nil {
		t.Fatalf("the index is still there: %v", got)
	}
	raw(t, j, snapshotFill)
	if got := seqsOf(t, j, Filter{Snapshot: "f\xff"}); !slices.Equal(got, []int64{1}) {
		t.Errorf("got %v", got)
	}
}

// BenchmarkSnapshot finds the newest snapshot of a file after histories of several lengths,
// beside the walk over all that happened to it.
func BenchmarkSnapshot(b *testing.B) {
	for _, history := range []int{100, 1000, 10000} {
		j := fresh(b)
		j.relaxed = true
		for n := range history {
			do := op.Swap
			if n == 0 {
				do = op.Keep
			}
			o := touched(j, n, do, "f")
			if err := errors.Join(j.Begin(b.Context(), o), j.Commit(b.Context(), o.ID, nil, "")); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(fmt.Sprintf("history %d", history), func(b *testing.B) {
			for b.Loop() {
				if got := seqsOf(b, j, Filter{Snapshot: "f", State: Committed}); len(got) != 1 {
					b.Fatal(got)
				}
			}
			start := time.Now()
			seqsOf(b, j, Filter{Path: "f", State: Committed})
			b.ReportMetric(float64(time.Since(start).Microseconds()), "whole-walk-us")
		})
	}
}
