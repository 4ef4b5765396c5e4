//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestProcessLimits(t *testing.T) {
	t.Parallel()
	d := quick(t, "[process]\nmax_processes = 320\n")
	t.Run("S85 what leaves the group, forks twice or ignores signals never gets to act after the deadline", func(t *testing.T) {
		var begin time.Time
		for _, s := range []string{`trap "" TERM; setsid sh -c "sleep 3; touch c" & sleep 60`, `(setsid sh -c "(sleep 3; touch c) & exit" &); sleep 60`, `nohup sh -c "trap '' TERM HUP; sleep 3; touch c" >/dev/null 2>&1 & sleep 60`} {
			begin = time.Now()
			r := d.approve(d.shell(s, M{"timeout_ms": 300}))
			if code(r) != "timed_out" || time.Since(begin) > 30*time.Second {
				t.Errorf("%s: %v after %v", s, r["error"], time.Since(begin))
			}
		}
		time.Sleep(3300*time.Millisecond - time.Since(begin))
		if d.has("c") {
			t.Error("c appeared")
		}
	})
	t.Run("S90 further starts fail inside, the daemon answers, and all is gone afterwards", func(t *testing.T) {
		held := d.shell("i=0; while [ $i -lt 500 ]; do sleep 77.5 & i=$((i+1)); done; echo started; sleep 77.5", M{"timeout_ms": 60000}) // it ends by the start that fails
		answer := d.letting(held)
		until(t, "many sleepers", func() bool { return len(running("77.5")) > 250 })
		begin := time.Now()
		if c, _ := d.http("GET", "/v1/status", d.Agent, nil); c != 200 || time.Since(begin) > 30*time.Second {
			t.Errorf("status %d after %v", c, time.Since(begin))
		}
		most := len(running("77.5"))
		r := <-answer
		if most > 320 || len(running("77.5")) > 0 || !strings.Contains(strings.ToLower(text(r, "reply", "result", "stderr")), "fork") {
			t.Errorf("%d ran at a time, %d are left: %q", most, len(running("77.5")), text(r, "reply", "result", "stderr"))
		}
	})
	t.Run("S87 endless output, on a pipe and on a terminal: the deadline holds, head, tail and count are kept, memory is not used", func(t *testing.T) {
		pid := d.cmd.Process.Pid
		for _, more := range []M{{}, {"pty": true}} {
			args := M{"timeout_ms": 2000}
			for k, v := range more {
				args[k] = v
			}
			held := d.shell("echo head; yes & yes >&2", args)
			rss := resident(t, pid, "VmRSS")
			if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			<-d.letting(held)
			until(t, "its end", func() bool { return text(d.rowOf(held), "state") == "executed" })
			took := time.Since(begin)
			r := object(d.rowOf(held)["reply"])
			res := object(r["result"])
			total, _ := res["total_bytes"].(float64)
			out := text(res, "stdout")
			if code(r) != "timed_out" || took > 30*time.Second || res["truncated"] != true || total < 1<<20 || !strings.Contains(out[:min(len(out), 64)], "head") || !strings.HasSuffix(strings.TrimRight(out, "\r\n"), "y") || len(out) > 70<<10 {
				t.Errorf("%v: %v after %v, %v bytes, shown %d", more, r["error"], took, total, len(out))
			}
			limit := int64(32 << 20)
			if raceEnabled {
				limit *= 4 // the detector keeps shadows of all that is touched
			}
			if grown := resident(t, pid, "VmHWM") - rss; grown > limit {
				t.Errorf("%v: memory grew %d MiB", more, grown>>20)
			}
		}
	})
	t.Run("C125 limits of time, by their usual and longest values; output is cut and says so; a cancel ends the grandchild", func(t *testing.T) {
		for name, usual := range map[string]string{"workspace_shell": "after 1m0s", "workspace_tests": "after 5m0s"} {
			held := d.call(name, M{"command": "true"})
			if l := lines(d.card(held)); !strings.Contains(l, usual) {
				t.Errorf("%s: %s", name, l)
			}
			d.cancel(held)
			if r := d.call(name, M{"command": "true", "timeout_ms": 600_001}); code(r) != "bad_request" || text(r, "error", "field") != "args.timeout_ms" {
				t.Errorf("%s: %v", name, r)
			}
			if r := d.call(name, M{"command": "true", "timeout_ms": 600_000}); text(r, "status") != "review" {
				t.Errorf("%s: %v", name, r)
			} else {
				d.cancel(r)
			}
		}
		r := d.approve(d.shell("echo partial; head -c 200000 /dev/zero | tr '\\0' x; (setsid sleep 78.5 &); sleep 78.5", M{"timeout_ms": 700}))
		if res := object(r["result"]); code(r) != "timed_out" || !strings.HasPrefix(text(res, "stdout"), "partial\nxxx") || res["truncated"] != true || res["total_bytes"] != 200008.0 || len(running("78.5")) > 0 {
			t.Errorf("got %v, alive %v", r["error"], running("78.5"))
		}
		held := d.shell("echo partial; (setsid sleep 79.5 &); sleep 79.5")
		answer := d.letting(held)
		until(t, "its start", func() bool { return len(running("79.5")) == 2 })
		d.cancel(held)
		if r := <-answer; text(r, "reply", "result", "termination") != "cancelled" || text(r, "reply", "result", "stdout") != "partial\n" || len(running("79.5")) > 0 {
			t.Errorf("got %v, alive %v", r, running("79.5"))
		}
	})
}

func TestProcessTraces(t *testing.T) {
	t.Parallel()
	d := start(t)
	t.Run("S14 a link that an approved program left is no way out", func(t *testing.T) {
		out := shortDir(t)
		if r := d.approve(d.shell("ln -s ../OUT d; ln -s " + out + " e")); text(r, "status") != "done" || !d.has("d") || !d.has("e") {
			t.Fatalf("got %v", r)
		}
		for _, path := range []string{"d/x", "e/x"} {
			if r := d.call("write_file", M{"path": path, "content": "x\n"}); code(r) != "outside_workspace" && code(r) != "symlink_refused" {
				t.Errorf("%s: %v", path, r)
			}
		}
		left, _ := os.ReadDir(out)
		if _, err := os.Lstat(filepath.Join(filepath.Dir(d.Root), "OUT")); err == nil || len(left) > 0 {
			t.Error("something was made outside")
		}
	})
	t.Run("S34 looking at a program first starts nothing", func(t *testing.T) {
		d.put(".yarnrc.yml", "yarnPath: ./canary.sh\n", 0o644)
		d.put("canary.sh", "#!/bin/sh\ntouch canary\n", 0o755)
		d.put("tool", "#!/bin/sh\ntouch canary\n", 0o755)
		// A helper that is being started bears the daemon's name for a moment.
		until(t, "no program", func() bool { return len(programs(t, d.cmd.Process.Pid)) == 0 })
		for _, words := range [][]string{{"./tool", "--version"}, {"npm", "--version"}, {"node", "--version"}, {"make", "--version"}} {
			_, p := d.http("POST", "/v1/preflight", d.Agent, M{"op": "workspace_shell", "args": M{"command": words[0], "args": words[1:]}})
			if text(p, "decision", "verdict") != "review" || text(p, "decision", "reason") != "process_execution" {
				t.Errorf("%v: %v", words, p)
			}
		}
		if after := programs(t, d.cmd.Process.Pid); len(after) > 0 || d.has("canary") {
			t.Errorf("something was started: %v, canary %v", after, d.has("canary"))
		}
		// The same program does it when it runs.
		if d.approve(d.call("workspace_shell", M{"command": "./tool", "args": []string{"--version"}})); !d.has("canary") {
			t.Error("it does nothing when it runs either, so this proves nothing")
		}
	})
	t.Run("S38, S40 a rule for words never covers a line for a shell, however it is broken", func(t *testing.T) {
		ask := M{"command": "echo", "args": []string{"x"}}
		held := d.call("workspace_shell", ask)
		_, row := d.http("GET", "/v1/approvals/"+text(held, "approval", "id"), d.reviewer(), nil)
		d.http("POST", "/v1/approvals/"+text(held, "approval", "id")+"/answer", d.reviewer(), M{"answer": "approve", "remember": true, "shown_digest": text(row, "card", "shown_digest")})
		if r := d.call("workspace_shell", ask); text(r, "decision", "reason") != "remembered_rule" {
			t.Fatalf("the rule does not hold, so this proves nothing: %v", r)
		}
		for _, s := range []string{"echo x", "echo x; touch c", `echo "$(touch c)"`, "echo `touch c`", "echo$IFS-x;touch$IFS''c", "echo x\ntouch c", "echo x\r\ntouch c", "echo x #\ntouch c", "sh <<E\ntouch c\nE"} {
			held := d.shell(s)
			l := lines(d.card(held))
			for i, part := range strings.Split(s, "\n") {
				if !strings.Contains(l, fmt.Sprintf("%5d  %s", i+1, strings.TrimSuffix(part, "\r"))) {
					t.Errorf("%q: line %d is not one of its own:\n%s", s, i+1, l)
				}
			}
			d.cancel(held)
		}
		if d.has("c") {
			t.Error("c was made")
		}
	})
}

// programs lists what descends from a daemon and is not its own helper, which may stand
// ready without a program.
func programs(t testing.TB, pid int) []string {
	t.Helper()
	var out []string
	for _, child := range children(t, pid) {
		var n int
		fmt.Sscan(child, &n)
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", n))
		if !strings.HasSuffix(string(name), "\x00confine\x00") {
			out = append(out, child)
		}
		out = append(out, programs(t, n)...)
	}
	return out
}
