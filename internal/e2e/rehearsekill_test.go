//go:build linux

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestRehearseKill ends the daemon with SIGKILL as it enters calls to the system, while it
// rehearses and while it lands what was rehearsed. HOLDPOINT_KILL=all takes every call;
// else a random one of each name.
func TestRehearseKill(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(seedOf(t), 1))
	bin, err := plain()
	if err != nil {
		t.Fatal(err)
	}
	root, state := dirs(t)
	for i := range 6 {
		write(t, filepath.Join(root, "d", fmt.Sprintf("f%d", i)), "old\n")
		write(t, filepath.Join(root, "gone", fmt.Sprintf("f%d", i)), "gone\n")
	}
	d := &daemon{t: t, Root: root, State: state, Socket: filepath.Join(state, "holdpoint.sock"), args: []string{"--review-auth=token"}, bin: bin}
	t.Cleanup(func() { d.stop(syscall.SIGTERM) })
	up := func() {
		d.run()
		d.reviewerToken = strings.TrimSpace(read(t, filepath.Join(state, "tokens", "operator")))
	}
	up()
	const script = "sed -i s/old/new/ d/*; rm -r gone; mkdir -p made/deep; echo x > made/deep/f; echo y > y"
	answer := func(id string) (string, M) {
		_, row := d.http("GET", "/v1/approvals/"+id, d.reviewerToken, nil)
		return "/v1/approvals/" + id + "/answer", M{"answer": "approve", "shown_digest": text(row, "card", "shown_digest")}
	}
	rejectAll := func() {
		for _, c := range d.cards("pending") {
			d.http("POST", "/v1/approvals/"+text(c, "id")+"/answer", d.reviewerToken, M{"answer": "reject"})
		}
	}
	// killed approves a row under the tracer and leaves the daemon dead.
	killed := func(id, kind string, n int) counted {
		path, body := answer(id)
		tr := trace(t, d.cmd.Process.Pid, kind, n)
		d.tryHTTP("POST", path, d.reviewerToken, body)
		syscall.Kill(d.cmd.Process.Pid, syscall.SIGKILL)
		c := tr.wait(t)
		d.cmd.Wait()
		return c
	}
	before := digest(t, root)
	_, set := d.rehearsal(script)
	done := d.land(set)
	must(t, done, "done")
	after := digest(t, root)
	must(t, d.undo(done), "done")
	if digest(t, root) != before || before == after {
		t.Fatal("the landing or its undo is not whole")
	}
	kinds := []string{"openat2", "pwrite64", "fdatasync", "rename*", "unlink*", "mkdirat", "write", "fsync"}
	numbers := func(made int) (out []int) {
		if os.Getenv("HOLDPOINT_KILL") != "all" {
			return []int{1 + rng.IntN(max(made, 1))}
		}
		for n := 1; n <= made; n++ {
			out = append(out, n)
		}
		return out
	}
	leftovers := func(what string) {
		t.Helper()
		rejectAll()
		if left, _ := filepath.Glob(filepath.Join(state, "store", "*", "cs_*.[vs]*")); len(left) > 0 {
			t.Errorf("%s: left %v", what, left)
		}
	}
	t.Run("a rehearsal killed at any call leaves the workspace as it was", func(t *testing.T) {
		count := killed(text(d.call("workspace_shell", M{"script": script, "rehearse": true}), "approval", "id"), "", 0)
		up()
		rejectAll()
		kills := 0
		for _, kind := range kinds {
			for _, n := range numbers(count.Calls[kind]) {
				what := fmt.Sprintf("killed at %s %d of %d", kind, n, count.Calls[kind])
				c := killed(text(d.call("workspace_shell", M{"script": script, "rehearse": true}), "approval", "id"), kind, n)
				if digest(t, root) != before {
					t.Fatalf("%s: the workspace changed", what)
				}
				up()
				if digest(t, root) != before {
					t.Fatalf("%s: the restart changed the workspace", what)
				}
				if c.Killed {
					kills++
				}
				leftovers(what)
			}
		}
		t.Logf("%d kills, calls %v", kills, count.Calls)
		if kills == 0 {
			t.Error("nothing was killed")
		}
	})
	t.Run("a landing killed at any call is whole or absent", func(t *testing.T) {
		_, set := d.rehearsal(script)
		count := killed(text(set, "approval_id"), "", 0)
		up()
		kills, whole := 0, 0
		back := func(what string) {
			t.Helper()
			switch digest(t, root) {
			case before:
			case after:
				whole++
				_, log := d.http("GET", "/v1/operations?limit=1000", d.reviewerToken, nil)
				id := ""
				for _, o := range objects(log["operations"]) {
					if text(o, "op") == "workspace_shell" && text(o, "state") == "committed" {
						id = text(o, "id")
					}
				}
				_, r := d.http("POST", "/v1/undo", d.Agent, M{"operation_id": id})
				if text(r, "status") != "done" || digest(t, root) != before {
					t.Fatalf("%s: the undo: %v", what, r)
				}
			default:
				t.Fatalf("%s: neither whole nor absent", what)
			}
			leftovers(what)
		}
		back("killed behind the answer")
		for _, kind := range kinds {
			for _, n := range numbers(count.Calls[kind]) {
				_, set := d.rehearsal(script)
				c := killed(text(set, "approval_id"), kind, n)
				up()
				if c.Killed {
					kills++
				}
				back(fmt.Sprintf("killed at %s %d of %d", kind, n, count.Calls[kind]))
			}
		}
		t.Logf("%d kills, %d whole, calls %v", kills, whole, count.Calls)
		if kills == 0 {
			t.Error("nothing was killed")
		}
	})
}
