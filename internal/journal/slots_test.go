package journal

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"holdpoint/op"
)

// slotted is an operation that names two slots.
func slotted(j *Journal, n int) Operation {
	o := sample(j, fmt.Sprintf("slots-%d", n))
	o.Steps = []op.Step{{Do: op.Swap, Path: "f", Slot: fmt.Sprintf("sl_%d", n), Copy: fmt.Sprintf("sl_%d.pre", n),
		Before: op.State{Kind: op.File, Hash: "blake3:aa"}, After: op.State{Kind: op.File, Hash: "blake3:bb"}}}
	return o
}

func TestNamesSlot(t *testing.T) {
	j := fresh(t)
	ctx := t.Context()
	o, gone, dropped := slotted(j, 1), slotted(j, 2), slotted(j, 3)
	for _, o := range []Operation{o, gone, dropped} {
		if err := j.Begin(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Abort(ctx, gone.ID, "stale"); err != nil {
		t.Fatal(err)
	}
	if err := j.Commit(ctx, dropped.ID, nil, ""); err != nil {
		t.Fatal(err)
	}
	if err := j.Dropped(ctx, dropped.ID); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		root, slot string
		want       bool
	}{{o.Root, "sl_1", true}, {o.Root, "sl_1.pre", true}, {"another", "sl_1", false}, {o.Root, "sl_2", false}, {o.Root, "sl_3", false}, {o.Root, "sl_9", false}} {
		got, err := j.NamesSlot(ctx, c.root, c.slot)
		if err != nil || got != c.want {
			t.Errorf("%s of %s: got %v %v, want %v", c.slot, c.root, got, err, c.want)
		}
	}
}

// Of many slots at once the answer is that of one after the other.
func TestUnnamed(t *testing.T) {
	j := fresh(t)
	ctx := t.Context()
	var slots []string
	for n := range manySlots {
		o := slotted(j, n)
		if n%10 == 3 {
			o.Root = "another"
		}
		if err := j.Begin(ctx, o); err != nil {
			t.Fatal(err)
		}
		var err error
		switch n % 10 {
		case 1:
			err = j.Abort(ctx, o.ID, "stale")
		case 2:
			if err = j.Commit(ctx, o.ID, nil, ""); err == nil {
				err = j.Dropped(ctx, o.ID)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		slots = append(slots, fmt.Sprintf("sl_%d", n), fmt.Sprintf("nobody_%d", n))
	}
	root := sample(j, "any").Root
	var want []string
	for _, s := range slots {
		named, err := j.NamesSlot(ctx, root, s)
		if err != nil {
			t.Fatal(err)
		}
		if !named {
			want = append(want, s)
		}
	}
	got, err := j.Unnamed(ctx, root, slots)
	if err != nil || !slices.Equal(got, want) || len(want) != manySlots*13/10 {
		t.Errorf("%v: %d unnamed, one by one %d", err, len(got), len(want))
	}
	few := []string{"sl_0", "nobody_0"}
	if got, err := j.Unnamed(ctx, root, few); err != nil || !slices.Equal(got, few) {
		t.Errorf("few are left to be asked for: got %v %v", got, err)
	}
}

// A state of schema 1 gets its index from the steps that it has.
func TestSlotsOfOldState(t *testing.T) {
	dir := t.TempDir() + "/state"
	j := open(t, dir)
	o := slotted(j, 1)
	if err := j.Begin(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	raw(t, j, "DELETE FROM op_slots")
	if named, err := j.NamesSlot(t.Context(), o.Root, "sl_1"); err != nil || named {
		t.Fatalf("the index is still there: %v %v", named, err)
	}
	raw(t, j, slotFill)
	for _, slot := range []string{"sl_1", "sl_1.pre"} {
		if named, err := j.NamesSlot(t.Context(), o.Root, slot); err != nil || !named {
			t.Errorf("%s: %v %v", slot, named, err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkNamesSlot asks for the 100 slots of a store after histories of several lengths,
// as a start does, beside the reading of all operations that it took before.
func BenchmarkNamesSlot(b *testing.B) {
	for _, history := range []int{100, 1000, 5000} {
		j := fresh(b)
		for n := range history {
			if err := j.Begin(b.Context(), slotted(j, n)); err != nil {
				b.Fatal(err)
			}
		}
		root := sample(j, "x").Root
		b.Run(fmt.Sprintf("history %d", history), func(b *testing.B) {
			var all time.Duration
			for b.Loop() {
				for n := range 100 {
					if named, err := j.NamesSlot(b.Context(), root, fmt.Sprintf("sl_%d", n)); err != nil || !named {
						b.Fatal(named, err)
					}
				}
			}
			start := time.Now()
			if _, err := j.Operations(b.Context(), Filter{Root: root}); err != nil {
				b.Fatal(err)
			}
			all = time.Since(start)
			b.ReportMetric(float64(all.Microseconds()), "all-operations-us")
		})
	}
}

// The state that a program of schema 1 left behind opens, has its rows as they were, and
// knows the slots that they name. The daemon had edited one file.
func TestStateOfSchema1(t *testing.T) {
	dir := t.TempDir() + "/state"
	unpack(t, "testdata/schema1.tar.gz", dir)
	j := open(t, dir)
	defer j.Close()
	ops, err := j.Operations(t.Context(), Filter{})
	if err != nil || len(ops) != 1 || ops[0].Op != op.EditFile || ops[0].State != Committed {
		t.Fatalf("got %v %v", ops, err)
	}
	if named, err := j.NamesSlot(t.Context(), ops[0].Root, ops[0].Steps[0].Slot); err != nil || !named {
		t.Errorf("its slot is not in the index: %v %v", named, err)
	}
	if bad, err := j.Check(t.Context()); err != nil || len(bad) != 0 {
		t.Errorf("check: %v %v", bad, err)
	}
}

func unpack(t *testing.T, file, dir string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	err = os.Mkdir(dir, 0o700)
	for r := tar.NewReader(z); err == nil; {
		var h *tar.Header
		if h, err = r.Next(); err != nil {
			break
		}
		to := filepath.Join(dir, filepath.Clean("/"+h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.Mkdir(to, 0o700)
			continue
		}
		var b []byte
		if b, err = io.ReadAll(r); err == nil {
			err = os.WriteFile(to, b, 0o600)
		}
	}
	if err != io.EOF {
		t.Fatal(err)
	}
}

// What others changed is told by paths, without what is named, undos, directories on the way
// and what does not stand.
func TestChangedSince(t *testing.T) {
	j := fresh(t)
	ctx := t.Context()
	add := func(n int, name op.Name, steps []op.Step, stands bool) op.ID {
		t.Helper()
		o := slotted(j, n)
		o.Op, o.Steps = name, append(steps, op.Step{Do: op.MakeDir, Path: "way"})
		if err := j.Begin(ctx, o); err != nil {
			t.Fatal(err)
		}
		if stands {
			if err := j.Commit(ctx, o.ID, nil, ""); err != nil {
				t.Fatal(err)
			}
		}
		return o.ID
	}
	swap := func(p op.Path) []op.Step {
		return []op.Step{{Do: op.Swap, Path: p, Before: op.State{Kind: op.File}, After: op.State{Kind: op.File}}}
	}
	before := add(0, op.EditFile, swap("before"), true)
	mine := add(1, op.EditFile, swap("mine"), true)
	add(2, op.EditFile, swap("theirs\xff"), true)
	add(3, op.Undo, swap("back"), true)
	add(4, op.EditFile, swap("open"), false)
	first, err := j.Operation(ctx, before)
	if err != nil {
		t.Fatal(err)
	}
	got, err := j.ChangedSince(ctx, first.Root, first.Seq, map[op.ID]bool{mine: true})
	if err != nil || len(got) != 1 || !got["theirs\xff"] {
		t.Errorf("got %v %v", got, err)
	}
	if got, err := j.ChangedSince(ctx, "another", 0, nil); err != nil || len(got) != 0 {
		t.Errorf("another root: got %v %v", got, err)
	}
}
