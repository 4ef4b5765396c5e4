package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// TestTogether makes many calls that have a directory in common, and one that comes too
// early.
func TestTogether(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	d.operator()
	in := func(p string) string { return filepath.Join(d.Root, p) }
	t.Run("fifty files that are created at once in one missing directory all land, and go again", func(t *testing.T) {
		before := digest(t, d.Root)
		replies := make([]M, 50)
		var wg sync.WaitGroup
		for i := range replies {
			wg.Go(func() {
				_, replies[i], _ = d.tryHTTP("POST", "/v1/call", d.Agent, M{"op": "write_file", "args": M{"path": fmt.Sprintf("all/new/%d", i), "content": "x\n"}})
			})
		}
		wg.Wait()
		made := 0
		for i, r := range replies {
			must(t, r, "done")
			if made += len(objects(r["effects"])) - 1; read(t, in(fmt.Sprintf("all/new/%d", i))) != "x\n" {
				t.Errorf("%d is not there", i)
			}
		}
		if made != 2 {
			t.Errorf("the two directories were made %d times", made)
		}
		for _, r := range replies {
			must(t, d.undo(r), "done")
		}
		// The maker of a directory went first and found it full.
		for _, p := range []string{"all/new", "all"} {
			if err := os.Remove(in(p)); err != nil && !os.IsNotExist(err) {
				t.Error(err)
			}
		}
		if digest(t, d.Root) != before {
			t.Error("something stayed")
		}
	})
	t.Run("cards that make the same directory are all good, and so are pins; a link in its place is drift", func(t *testing.T) {
		put := func(p string) M { return M{"path": p, "content": "x\n", "allow_sensitive": true} }
		var held []M
		for _, n := range []string{"a", "b"} {
			held = append(held, must(t, d.call("write_file", put("held/"+n)), "review"))
		}
		through := must(t, d.call("write_file", put("linked/x")), "review")
		pins := d.preflight("write_file", M{"path": "held/c", "content": "x\n"})["pins"]
		for _, h := range held {
			must(t, d.approve(h), "done")
		}
		_, r := d.send(d.Agent, M{"op": "write_file", "args": M{"path": "held/c", "content": "x\n"}, "pins": pins})
		must(t, r, "done")
		if err := os.Symlink("held", in("linked")); err != nil {
			t.Fatal(err)
		}
		if r := d.approve(through); code(r) != "stale_precondition" {
			t.Errorf("got %v %v", r["status"], r["error"])
		}
		named := must(t, d.call("batch_file_ops", M{"operations": []any{item("create_directory", M{"path": "named"}), item("write_file", M{"path": "named/x", "content": "x\n"})}}), "review")
		if err := os.Mkdir(in("named"), 0o755); err != nil {
			t.Fatal(err)
		}
		if r := d.approve(named); code(r) != "stale_precondition" {
			t.Errorf("a directory that the call names: got %v %v", r["status"], r["error"])
		}
	})
	t.Run("a failure that says to make the same request again does not keep its id", func(t *testing.T) {
		write(t, in("busy"), "one\n")
		req := M{"op": "edit_file", "args": M{"path": "busy", "old_string": "one", "new_string": "two"}, "request_id": "early"}
		f, err := os.OpenFile(in("busy"), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, r := d.send(d.Agent, req)
		if code(r) != "busy_writer" || text(r, "error", "retry") != "same" || r["effects_executed"] != false {
			t.Fatalf("got %v", r)
		}
		f.Close()
		_, done := d.send(d.Agent, req)
		must(t, done, "done")
		_, again := d.send(d.Agent, req)
		if read(t, in("busy")) != "two\n" || again["operation_id"] != done["operation_id"] {
			t.Errorf("got %v, was %v", again, done)
		}
		other := M{"op": "edit_file", "args": M{"path": "busy", "old_string": "none", "new_string": "two"}, "request_id": "wrong"}
		_, r = d.send(d.Agent, other)
		write(t, in("busy"), "none\n")
		if _, again := d.send(d.Agent, other); code(r) != "no_match" || text(r, "error", "retry") != "corrected" || code(again) != "no_match" {
			t.Errorf("an error of the call's own: %v, then %v", r["error"], again["error"])
		}
		d.stop(syscall.SIGTERM)
		d.run()
		_, r = d.send(d.Agent, req)
		if r["operation_id"] != done["operation_id"] {
			t.Errorf("after a restart: %v", r)
		}
	})
}
