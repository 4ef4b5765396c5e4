package e2e

import (
	"fmt"
	"testing"
	"time"
)

func TestZZBig(t *testing.T) {
	d := start(t)
	files := map[string]string{}
	var edits, moves []M
	for i := range 1000 {
		n := fmt.Sprintf("dir%d/f%d", i%20, i)
		files[n] = fmt.Sprintf("old %d\n", i)
		edits = append(edits, item("edit_file", M{"path": n, "old_string": "old", "new_string": "new"}))
		moves = append(moves, item("move_file", M{"source": n, "destination": n + "x"}))
	}
	for what, items := range map[string][]M{"edits": edits, "moves": moves} {
		d.fresh(files)
		t0 := time.Now()
		r := d.batch(items...)
		t1 := time.Now()
		r = d.approve(must(t, r, "review"))
		must(t, r, "done")
		t2 := time.Now()
		must(t, d.undo(r), "done")
		t.Logf("%s: look %v, approve and run %v, undo %v", what, t1.Sub(t0), t2.Sub(t1), time.Since(t2))
	}
}
