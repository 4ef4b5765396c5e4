package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestKillAnswer ends the daemon between each two steps from a person's answer to the
// result: at each flush of a record or of a change, and at each rename. What lies between
// two of these is not on disk yet, or is on disk already. HOLDPOINT_KILL=all does not rest
// on that, and takes every call to the system that TestKill knows.
func TestKillAnswer(t *testing.T) {
	t.Parallel()
	table := newKillTable(t)
	for i, s := range []scene{
		{name: "S60 (part) an approved move, killed between any two steps, is whole once or absent, and its result is kept", short: "move", op: "move_file",
			args: M{"source": "sub/f.txt", "destination": "there/g.txt"}},
		{name: "S60 (part), I74 (part) so is an approved batch", short: "some", op: "batch_file_ops", args: M{"operations": []M{
			item("write_file", M{"path": "made.txt", "content": "made\n"}), item("delete_file", M{"path": "gone.txt"}), item("move_file", M{"source": "sub/f.txt", "destination": "f.txt"})}},
			files: map[string]string{"gone.txt": "gone\n"}},
	} {
		t.Run(s.name, func(t *testing.T) {
			s.held = true
			s.only = func(kind string, numbers []int, made int) []int {
				if !everyCall() && kind != "fdatasync" && kind != "fsync" && kind != "rename*" {
					return nil
				}
				numbers = nil
				for n := 1; n <= made; n++ {
					numbers = append(numbers, n)
				}
				return numbers
			}
			s.kept = asCounted
			table.row(t, i, s)
		})
	}
	t.Run("I106 an approved program, killed between any two steps, runs at most once: what did not begin has failed, what may have is unknown, what ended is executed", func(t *testing.T) {
		killedProcess(t, table)
	})
	table.end(t)
}

// everyCall reports whether each call to the system is met, which takes its time.
func everyCall() bool { return os.Getenv("HOLDPOINT_KILL") == "all" }

// killedProcess interrupts the answer that releases a program which leaves one line behind
// each time it runs.
func killedProcess(t *testing.T, table *killTable) {
	root, state := dirs(t)
	d := &daemon{t: t, Root: root, State: state, Socket: filepath.Join(state, "holdpoint.sock"), args: []string{"--review-auth=token"}, bin: table.bin}
	t.Cleanup(func() { d.stop(syscall.SIGTERM) })
	k := &kills{t: t, d: d}
	k.start()
	seen := map[string]int{}
	// one kills at the nth call of a kind; 0 is after the answer, and reports the calls.
	one := func(kind string, n int) counted {
		t.Helper()
		k.tries++
		name := fmt.Sprintf("runs-%d", k.tries)
		held := must(t, d.call("workspace_shell", M{"script": "echo ran >> " + name}), "review")
		id := text(held, "approval", "id")
		_, row := d.http("GET", "/v1/approvals/"+id, d.reviewerToken, nil)
		body := M{"answer": "approve", "shown_digest": text(row, "card", "shown_digest")}
		tr := trace(t, d.cmd.Process.Pid, kind, n)
		d.tryHTTP("POST", "/v1/approvals/"+id+"/answer", d.reviewerToken, body)
		syscall.Kill(d.cmd.Process.Pid, syscall.SIGKILL)
		c := tr.wait(t)
		d.cmd.Wait()
		k.start()
		when := fmt.Sprintf("after a kill at %s %d", kind, n)
		k.settled(when)
		ran := func() int {
			if !there(filepath.Join(root, name)) {
				return 0
			}
			return strings.Count(read(t, filepath.Join(root, name)), "ran\n")
		}
		_, row = d.http("GET", "/v1/approvals/"+id, d.reviewerToken, nil)
		before := ran()
		now := text(row, "state")
		if before > 1 || (now == "pending" || now == "failed") && before != 0 || now == "executed" && (before != 1 || text(row, "reply", "status") != "done") ||
			now != "pending" && now != "failed" && now != "executed" && now != "unknown" {
			t.Errorf("%s: the row is %s, it ran %d times, the reply is %v", when, now, before, row["reply"])
		}
		if now == "unknown" && (text(row, "reply", "error", "code") != "unknown_outcome" || row["reply"].(M)["status"] != "failed") {
			t.Errorf("%s: an unknown outcome is told as %v", when, row["reply"])
		}
		seen[now]++
		_, again := d.http("POST", "/v1/approvals/"+id+"/answer", d.reviewerToken, body)
		if now != "pending" && (code(again) != "already_answered" || ran() != before) {
			t.Errorf("%s: a second answer to a row that is %s: %v, and it ran %d times", when, now, again["error"], ran())
		}
		if now == "pending" && ran() != 1 {
			t.Errorf("%s: the answer that was lost, given again: %v, and it ran %d times", when, again["state"], ran())
		}
		return c
	}
	made := one("", 0).Calls
	kinds := []string{"fdatasync", "fsync", "rename*", "pwrite64"}
	if everyCall() {
		kinds = tracedKinds
	}
	for _, kind := range kinds {
		met, step := 0, 1
		if kind == "pwrite64" && !everyCall() {
			step = 7 // a record's pages are one step, whichever of them the kill meets
		}
		for n := 1; n <= made[kind]; n += step {
			if one(kind, n).Killed {
				met++
			}
		}
		fmt.Fprintf(table.tab, "program\t%s\t%d\t\t%d\t\t\t\n", kind, made[kind], met)
		if made[kind] > 0 && met == 0 && kind != "mkdirat" { // a folder that the first program made is there for the others
			t.Errorf("no kill at %s", kind)
		}
	}
	if seen["pending"] == 0 || seen["unknown"] == 0 || seen["executed"] == 0 {
		t.Errorf("the kills met %v; want some before the answer, some between, and some after the result", seen)
	}
	// And one in the middle of the run.
	held := must(t, d.call("workspace_shell", M{"script": "echo ran >> middle; sleep 47.25"}), "review")
	_, row := d.http("GET", "/v1/approvals/"+idOf(held), d.reviewerToken, nil)
	done := make(chan struct{})
	go func() {
		d.tryHTTP("POST", "/v1/approvals/"+idOf(held)+"/answer", d.reviewerToken, M{"answer": "approve", "shown_digest": text(row, "card", "shown_digest")})
		close(done)
	}()
	for end := time.Now().Add(time.Minute); !there(filepath.Join(root, "middle")) && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
	}
	d.stop(syscall.SIGKILL)
	<-done
	k.start()
	if _, row = d.http("GET", "/v1/approvals/"+idOf(held), d.reviewerToken, nil); text(row, "state") != "unknown" {
		t.Errorf("killed in the middle of a run: the row is %v", row["state"])
	}
	t.Logf("states met: %v", seen)
}
