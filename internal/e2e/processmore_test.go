//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// copied puts a program of the machine under another name.
func copied(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(to) // it may be running
	program(t, to, b)
}

// program writes one that is to be run. No process begins meanwhile: it would hold the file
// open for writing until its own program runs, and nobody can run such a file.
func program(t *testing.T, at string, b []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(at, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestProcessPinned(t *testing.T) {
	t.Parallel()
	bins := shortDir(t)
	for _, dir := range []string{"bin0", "bin1"} {
		if err := os.Mkdir(filepath.Join(bins, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	first, second := filepath.Join(bins, "bin0", "tool"), filepath.Join(bins, "bin1", "tool")
	d := startOn(t, shortDir(t), shortDir(t), []string{"PATH=" + bins + "/bin0:" + bins + "/bin1:" + os.Getenv("PATH")})
	t.Run("S54 a name that leads to another program by the time it runs is stale; the card shows where it leads", func(t *testing.T) {
		ask := func() M { return d.call("workspace_shell", M{"command": "tool", "args": []string{"made"}}) }
		copied(t, "/bin/echo", second)
		held := ask()
		l := lines(d.card(held))
		real, _ := filepath.EvalSymlinks(second)
		if !strings.Contains(l, "executes "+real+" blake3:") {
			t.Errorf("got %s", l)
		}
		copied(t, "/bin/touch", first) // earlier on the search path
		if r := d.approve(held); code(r) != "stale_precondition" || d.has("made") || r["effects_executed"] != false {
			t.Errorf("another program earlier on the path: %v", r)
		}
		os.Remove(first)
		held = ask()
		copied(t, "/bin/touch", second)
		if r := d.approve(held); code(r) != "stale_precondition" || d.has("made") {
			t.Errorf("another program in its place: %v", r)
		}
		copied(t, "/bin/echo", second)
		if r := d.approve(ask()); text(r, "result", "stdout") != "made\n" {
			t.Errorf("unchanged it runs: %v", r)
		}
		copied(t, "/bin/touch", second)
		if r := d.approve(ask()); text(r, "status") != "done" || !d.has("made") {
			t.Errorf("the other one works as well, else this proves nothing: %v", r)
		}
	})
	t.Run("C123 words are literal; a line for a shell is another argument, shown whole, and shell_string is refused", func(t *testing.T) {
		r := d.approve(d.call("workspace_shell", M{"command": "echo", "args": []string{"a | b", ">", "c", "$(touch c)"}}))
		if text(r, "result", "stdout") != "a | b > c $(touch c)\n" || d.has("c") {
			t.Errorf("got %v", r)
		}
		if r := d.call("workspace_shell", M{"command": "echo a | cat"}); code(r) != "spawn_failed" {
			t.Errorf("a command is no line: %v", r)
		}
		for _, args := range []M{{"shell_string": "ls | wc"}, {"command": "ls", "shell_string": "ls | wc"}, {"command": "ls", "allow_shell_string": true}, {"command": "ls", "shell": true}} {
			if r := d.call("workspace_shell", args); code(r) != "bad_request" || !strings.HasPrefix(text(r, "error", "field"), "args.") {
				t.Errorf("%v: %v", args, r)
			}
		}
		held := d.shell("ls | wc -l")
		if l := lines(d.card(held)); !strings.Contains(l, "runs this script:") || !strings.Contains(l, "    1  ls | wc -l") {
			t.Errorf("got %s", l)
		}
		d.cancel(held)
	})
}

func TestProcessKilledWhole(t *testing.T) {
	t.Parallel()
	d := quickOn(t, shortDir(t), shortDir(t)+"/state", "[process]\nconfinement = \"off\"\n", []string{"HOLDPOINT_PROCESS_APPROVAL_DISABLED=true"})
	t.Run("a daemon that is killed: its helper ends the unconfined program too", func(t *testing.T) {
		d.call("workspace_shell", M{"script": "trap '' TERM; setsid sleep 75.5 & sleep 75.5", "background": true})
		until(t, "its start", func() bool { return len(running("75.5")) == 2 })
		syscall.Kill(d.cmd.Process.Pid, syscall.SIGKILL)
		d.cmd.Wait()
		until(t, "the end of all of it", func() bool { return len(running("75.5")) == 0 })
		d.run()
	})
	t.Run("killed with its helper: the next daemon ends what is left and names it in log, status and audit", func(t *testing.T) {
		r := d.call("workspace_shell", M{"script": "setsid sleep 76.5 & sleep 76.5", "background": true})
		id := text(r, "result", "run_id")
		until(t, "its start", func() bool { return len(running("76.5")) == 2 })
		helpers := helpersOf(t, d.cmd.Process.Pid)
		for _, pid := range append(helpers, d.cmd.Process.Pid) {
			syscall.Kill(pid, syscall.SIGSTOP) // else the first to go would be seen by the others
		}
		for _, pid := range append(helpers, d.cmd.Process.Pid) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		d.cmd.Wait()
		if len(helpers) == 0 || len(running("76.5")) != 2 {
			t.Fatalf("%d helpers, alive %v: this proves nothing", len(helpers), running("76.5"))
		}
		d.run()
		d.operator()
		if got := running("76.5"); len(got) > 0 {
			t.Errorf("alive: %v", got)
		}
		_, s := d.http("GET", "/v1/status", d.Agent, nil)
		if w := fmt.Sprint(s["warnings"]); !strings.Contains(w, "descendants_survived") || !strings.Contains(w, "sleep of "+id) || !strings.Contains(d.Log.String(), "sleep of "+id) {
			t.Errorf("got %v\n%s", w, d.Log)
		}
		if a := strings.Join(d.auditLines(), "\n"); !strings.Contains(a, id) || !strings.Contains(a, "descendants_survived") {
			t.Errorf("got %s", a)
		}
	})
}

// helpersOf lists the children of a process.
func helpersOf(t *testing.T, pid int) []int {
	t.Helper()
	var out []int
	list, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range list {
		for _, f := range strings.Fields(read(t, name)) {
			var n int
			fmt.Sscan(f, &n)
			out = append(out, n)
		}
	}
	return out
}
