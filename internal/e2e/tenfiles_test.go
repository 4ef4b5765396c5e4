package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"
)

// tenSteps are the calls that make a change last: the journal's writes, all flushes, and
// what gives and takes names.
var tenSteps = []string{"pwrite64", "write", "fsync", "fdatasync", "rename*", "link*", "unlink*", "mkdir*"}

// tenEnds are the failures that the case names; killed is the end of the process.
var tenEnds = []string{killed, "ENOSPC", "EIO", "EROFS"}

const killed = "kill"

// tenFiles is a batch over ten files.
func tenFiles() scene {
	files := map[string]string{"acked.txt": "old\n"}
	var items []any
	for i := range 3 {
		name := fmt.Sprintf("edit%d", i)
		files[name] = "old\n"
		items = append(items, item("edit_file", M{"path": name, "old_string": "old", "new_string": "new"}))
	}
	for i := range 2 {
		name := fmt.Sprintf("gone%d", i)
		files[name] = "gone\n"
		items = append(items, item("delete_file", M{"path": name}), item("write_file", M{"path": fmt.Sprintf("made/%d", i), "content": "made\n"}))
		files["from"+name] = "moved\n"
		items = append(items, item("move_file", M{"source": "from" + name, "destination": "to/" + name}))
	}
	files["over"] = "as it was\n"
	items = append(items, item("write_file", M{"path": "over", "content": "written over\n", "overwrite": true}))
	return scene{short: "ten", op: "batch_file_ops", args: M{"operations": items}, held: true, files: files}
}

// TestTenFiles lets each step of a batch over ten files be the last one, or fail, in turn
// with each failure. HOLDPOINT_FAULTS=all lets each step end in every way.
func TestTenFiles(t *testing.T) {
	t.Parallel()
	if !faultsHere {
		t.Skip("the tracer can let calls fail on amd64 only")
	}
	seed := seedOf(t)
	bin, err := plain()
	if err != nil {
		t.Fatal(err)
	}
	f := &faults{codes: map[string]int{}, of: map[[2]string]*faultCount{}, row: &tried{What: "step of ten files"}}
	t.Run("S100 a batch of ten files is whole or absent whichever step of journal, flush or name is the last or fails, and an edit that was acknowledged before stands and is undone", func(t *testing.T) {
		f.kills = newKills(t, bin, tenFiles(), rand.New(rand.NewPCG(seed, 100)))
		at := "the beginning"
		defer func() {
			if t.Failed() {
				t.Logf("at %s; the daemon says: %s", at, f.d.Log)
			}
		}()
		f.kills.s.kept = f.keeps()
		first := f.before
		edit := must(t, f.d.call("edit_file", M{"path": "acked.txt", "old_string": "old", "new_string": "new"}), "done")
		f.before = digest(t, f.d.Root)
		done := must(t, f.whole(), "done")
		f.after = digest(t, f.d.Root)
		must(t, f.d.undo(done), "done")
		f.same(f.before, "after the batch and its undo")
		made := f.made()
		tried := map[string]int{}
		turn := int(seed % 12)
		for _, kind := range tenSteps {
			ends := slices.DeleteFunc(slices.Clone(tenEnds), func(end string) bool { return end != killed && !slices.Contains(faultsOf[kind], end) })
			for n := 1; n <= made[kind]; n++ {
				turn++
				for i, end := range ends {
					if os.Getenv("HOLDPOINT_FAULTS") == "all" || i == turn%len(ends) {
						at = fmt.Sprintf("%s %d %s", kind, n, end)
						f.ends(kind, n, end)
						tried[kind+" "+end]++
					}
				}
			}
		}
		for _, kind := range []string{"pwrite64", "fsync", "fdatasync", "rename*"} {
			if made[kind] == 0 {
				t.Errorf("no %s was seen, which cannot be: %v", kind, made)
			}
		}
		must(t, f.d.undo(edit), "done")
		f.same(first, "after the undo of the edit that was acknowledged first")
		f.inOrder()
		t.Logf("steps of the batch %v; ended by %v", made, tried)
	})
	if !t.Failed() {
		t.Logf("faults:\n%s", f.table())
	}
}

// made counts the steps of the request, and starts the daemon again.
func (f *faults) made() map[string]int {
	f.t.Helper()
	a := f.prepare()
	tr := startTracer(f.t, fmt.Sprintf("%d faults", f.d.cmd.Process.Pid))
	f.d.http(a.method, a.path, a.token, a.body)
	syscall.Kill(f.d.cmd.Process.Pid, syscall.SIGKILL)
	made := tr.wait(f.t).Calls
	f.d.cmd.Wait()
	f.start()
	f.check(a, "behind the answer")
	return made
}

// ends makes one step the last, or lets it fail.
func (f *faults) ends(kind string, n int, end string) {
	f.t.Helper()
	if end != killed {
		f.one(fault{kind, n, end})
		return
	}
	if kind == "mkdir*" {
		kind = "mkdirat" // as the killing tracer calls it
	}
	a := f.prepare()
	c := f.run(a, kind, n)
	f.start()
	when := fmt.Sprintf("after a kill at %s %d", kind, n)
	if !c.Killed {
		when += " (which this request did not come to)"
	}
	f.check(a, when)
}
