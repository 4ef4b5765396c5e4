package e2e

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestHourKilled ends the daemon while it takes many operations back as one: afterwards
// all of them are taken back, or none is.
func TestHourKilled(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 5))
	d := start(t)
	for i := range 12 {
		write(t, filepath.Join(d.Root, fmt.Sprintf("d%d/f.txt", i)), fmt.Sprintf("zero\n%d\nlast\n", i))
	}
	before := digest(t, d.Root)
	var list []M
	for i := range 12 {
		p := fmt.Sprintf("d%d/f.txt", i)
		for _, e := range [][2]string{{"zero", "one"}, {"one", "two"}} {
			list = append(list, must(t, d.call("edit_file", M{"path": p, "old_string": e[0], "new_string": e[1]}), "done"))
		}
		list = append(list, must(t, d.call("write_file", M{"path": fmt.Sprintf("d%d/new/n.txt", i), "content": "n\n"}), "done"))
	}
	after := digest(t, d.Root)
	start := time.Now()
	u := must(t, d.undoAll(M{"operations": ids(list...)}), "done")
	took := time.Since(start)
	if digest(t, d.Root) != before {
		t.Fatal("the undo is not what was there")
	}
	must(t, d.undo(u), "done") // the redo, which is what the next rounds undo
	whole, absent := 0, 0
	for round := range 8 {
		_, page := d.http("GET", "/v1/operations?limit=1", d.Agent, nil)
		last := page["operations"].([]any)[0].(M)
		done := make(chan bool)
		go func() {
			d.tryHTTP("POST", "/v1/undo", d.Agent, M{"operations": []any{last["id"]}})
			close(done)
		}()
		time.Sleep(time.Duration(r.Int64N(3 * int64(took))))
		d.stop(syscall.SIGKILL)
		<-done
		d.run()
		switch digest(t, d.Root) {
		case before:
			whole++
			_, page := d.http("GET", "/v1/operations?limit=1", d.Agent, nil)
			must(t, d.undoAll(M{"operations": []any{page["operations"].([]any)[0].(M)["id"]}}), "done")
			if digest(t, d.Root) != after {
				t.Fatalf("seed %d round %d: the redo is not what was there", seed, round)
			}
		case after:
			absent++
		default:
			t.Fatalf("seed %d round %d: neither before nor after: %v", seed, round, tree(t, d.Root))
		}
	}
	t.Logf("whole %d, absent %d", whole, absent)
	if exit, out, errs := d.cli("verify"); exit != 0 {
		t.Errorf("verify: %s%s", out, errs)
	}
}
