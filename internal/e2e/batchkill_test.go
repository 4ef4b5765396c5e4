package e2e

import (
	"fmt"
	"os"
	"testing"
)

// hundred is a batch of 100 edits, creates, moves and deletes that get in each other's
// way, and the files that it begins with.
func hundred() (files map[string]string, items []M) {
	files = map[string]string{}
	add := func(op string, args M) { items = append(items, item(op, args)) }
	for i := range 24 {
		name := fmt.Sprintf("edit/%02d", i)
		files[name] = fmt.Sprintf("old %d\nrest\n", i)
		add("edit_file", M{"path": name, "old_string": "old", "new_string": "new"})
	}
	for i := range 17 {
		add("write_file", M{"path": fmt.Sprintf("made/%d/%02d", i%3, i), "content": "made\n"})
	}
	for i := range 20 {
		name := fmt.Sprintf("gone/%02d", i)
		files[name] = "gone\n"
		add("delete_file", M{"path": name})
	}
	for i := range 16 {
		name := fmt.Sprintf("from/%02d", i)
		files[name] = fmt.Sprintf("moved %d\n", i)
		add("move_file", M{"source": name, "destination": fmt.Sprintf("to/%02d", i)})
	}
	// A directory moves and is changed inside, gives one thing up and takes one in.
	for i := range 4 {
		d, e := fmt.Sprintf("dir%d", i), fmt.Sprintf("moved/dir%d", i)
		files[d+"/in"], files[d+"/out"], files[d+"/sub/deep"] = "in\n", "out\n", "deep\n"
		add("move_file", M{"source": d, "destination": e})
		add("edit_file", M{"path": e + "/in", "old_string": "in", "new_string": "inside"})
	}
	add("move_file", M{"source": "moved/dir0/out", "destination": "out0"})
	add("move_file", M{"source": "to/00", "destination": "moved/dir1/taken"})
	add("delete_file", M{"path": "moved/dir2/sub", "recursive": true})
	add("write_file", M{"path": "moved/dir3/sub/new", "content": "new\n"})
	// What goes is saved from, and names are used again.
	files["box/save"], files["box/lose"], files["x"], files["y"] = "save\n", "lose\n", "1\n", "2\n"
	add("move_file", M{"source": "box/save", "destination": "saved"})
	add("delete_file", M{"path": "box", "recursive": true})
	add("write_file", M{"path": "box", "content": "now a file\n"})
	add("move_file", M{"source": "x", "destination": "t"})
	add("move_file", M{"source": "y", "destination": "x"})
	add("move_file", M{"source": "t", "destination": "y"})
	files["left/in"], files["right/in"] = "l\n", "r\n"
	add("move_file", M{"source": "left", "destination": "aside"})
	add("move_file", M{"source": "right", "destination": "left"})
	add("move_file", M{"source": "aside", "destination": "right"})
	add("delete_file", M{"path": "edit/00"})
	add("write_file", M{"path": "edit/00", "content": "again\n"})
	return files, items
}

// TestKillBatch is TestKill for a batch of a hundred operations and for its undo.
// HOLDPOINT_KILL=all takes every call, HOLDPOINT_KILL=names every one that changes a name;
// else one of each name.
func TestKillBatch(t *testing.T) {
	t.Parallel()
	table := newKillTable(t)
	files, items := hundred()
	if len(items) != 100 {
		t.Fatalf("%d items", len(items))
	}
	for i, s := range []scene{
		{name: "I74 (part) a batch of 100 is whole or absent after a kill at any call, and is undone as one", short: "batch", held: true},
		{name: "D56 (part) the undo of a batch of 100 is whole or absent after a kill at any call", short: "undo", undo: true},
	} {
		t.Run(s.name, func(t *testing.T) {
			s.only = func(kind string, numbers []int, made int) []int {
				switch os.Getenv("HOLDPOINT_KILL") {
				case "all":
					return numbers
				case "names":
					numbers = nil
					for n := 1; n <= made && (kind == "rename*" || kind == "mkdirat" || kind == "unlink*"); n++ {
						numbers = append(numbers, n)
					}
					return numbers
				}
				return numbers[:min(len(numbers), 1)]
			}
			s.op, s.args, s.files = "batch_file_ops", M{"operations": items}, files
			s.kept = asCounted
			table.row(t, i, s)
		})
	}
	table.end(t)
}

// keeps counts by how much the store grows when the request of the scene is done.
func (k *kills) keeps() int {
	k.t.Helper()
	before := len(k.slots())
	r := k.whole()
	if text(r, "status") == "review" {
		r = k.d.approve(r)
	}
	must(k.t, r, "done")
	done := len(k.slots())
	must(k.t, k.d.undo(r), "done")
	if k.s.undo {
		return len(k.slots()) - done
	}
	return done - before
}
