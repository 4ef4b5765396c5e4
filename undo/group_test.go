package undo

import (
	"slices"
	"testing"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

func operation(id string, steps ...op.Step) journal.Operation {
	return journal.Operation{ID: op.ID(id), Steps: steps}
}

var (
	aFile = op.State{Kind: op.File, Hash: "blake3:1"}
	aDir  = op.State{Kind: op.Directory}
	none  = op.State{Kind: op.Absent}
)

func TestPartsHangTogetherByPath(t *testing.T) {
	swap := func(p op.Path) op.Step { return op.Step{Do: op.Swap, Path: p, Before: aFile, After: aFile} }
	mkdir := func(p op.Path) op.Step { return op.Step{Do: op.MakeDir, Path: p, Before: none, After: aDir} }
	for _, c := range []struct {
		name string
		ops  []journal.Operation
		want [][]op.ID
	}{
		{"one path", []journal.Operation{operation("2", swap("a")), operation("1", swap("a"))}, [][]op.ID{{"2", "1"}}},
		{"two paths", []journal.Operation{operation("2", swap("a")), operation("1", swap("b"))}, [][]op.ID{{"2"}, {"1"}}},
		{"a directory that both made ties nothing", []journal.Operation{operation("2", mkdir("d"), swap("d/a")), operation("1", mkdir("d"), swap("d/b"))}, [][]op.ID{{"2"}, {"1"}}},
		{"a moved directory ties what lies in it", []journal.Operation{
			operation("4", swap("z")), operation("3", swap("to/x/a")), operation("2", op.Step{Do: op.Move, Path: "from", To: "to", Before: aDir, After: aDir}), operation("1", mkdir("from/sub"))},
			[][]op.ID{{"4"}, {"3", "2", "1"}}},
		{"a name that only begins alike is another", []journal.Operation{operation("2", swap("ab")), operation("1", op.Step{Do: op.Take, Path: "a", Before: aDir, After: none})}, [][]op.ID{{"2"}, {"1"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got [][]op.ID
			for _, part := range parts(c.ops) {
				var ids []op.ID
				for _, o := range part {
					ids = append(ids, o.ID)
				}
				got = append(got, ids)
			}
			if !slices.EqualFunc(got, c.want, slices.Equal[[]op.ID]) {
				t.Fatalf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestOrderRemovesDirectoriesLast(t *testing.T) {
	back := func(do op.Act, p op.Path) Back { return Back{Step: op.Step{Do: do, Path: p}} }
	move := Back{Step: op.Step{Do: op.Move, Path: "d/x", To: "x"}}
	got := Order([]Unit{
		{Backs: []Back{back(op.Take, "d/a"), back(op.RemoveDir, "d")}},
		{Backs: []Back{back(op.Take, "d/e/b"), back(op.RemoveDir, "d/e"), back(op.RemoveDir, "d"), back(op.MakeDir, "old")}},
		{Backs: []Back{move, back(op.RemoveDir, "d"), back(op.RemoveDir, "q"), back(op.Place, "q")}},
	})
	var words []string
	for _, b := range got {
		words = append(words, string(b.Step.Do)+" "+string(b.Step.Path))
	}
	want := []string{"mkdir old", "take d/a", "take d/e/b", "move d/x", "rmdir q", "place q", "rmdir d/e", "rmdir d"}
	if !slices.Equal(words, want) {
		t.Fatalf("got %q, want %q", words, want)
	}
}
