//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// put writes a file into the root.
func (d *daemon) put(name, content string, mode os.FileMode) {
	d.t.Helper()
	p := filepath.Join(d.Root, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), mode); err != nil {
		d.t.Fatal(err)
	}
}

func (d *daemon) has(name string) bool {
	_, err := os.Lstat(filepath.Join(d.Root, name))
	return err == nil
}

func lines(card M) string {
	var out []string
	list, _ := card["lines"].([]any)
	for _, l := range list {
		s, _ := l.(string)
		out = append(out, s)
	}
	return strings.Join(out, "\n")
}

// shell holds a script and returns the held reply.
func (d *daemon) shell(script string, more ...M) M {
	d.t.Helper()
	args := M{"script": script}
	for _, m := range more {
		for k, v := range m {
			args[k] = v
		}
	}
	held := d.call("workspace_shell", args)
	if text(held, "status") != "review" || text(held, "decision", "reason") != "process_execution" {
		d.t.Fatalf("%q was not held as a process: %v", script, held)
	}
	return held
}

func TestProcess(t *testing.T) {
	d := startOn(t, shortDir(t), shortDir(t), []string{"AWS_SECRET_ACCESS_KEY=canary1", "BASH_ENV=/nowhere", "ENV=/nowhere"})
	t.Run("C116 every program waits, however harmless, and its tests too", func(t *testing.T) {
		for _, argv := range [][]string{{"ls"}, {"true"}, {"go", "version"}} {
			for _, name := range []string{"workspace_shell", "workspace_tests"} {
				r := d.call(name, M{"command": argv[0], "args": argv[1:]})
				if text(r, "status") != "review" || text(r, "decision", "reason") != "process_execution" || r["effects_executed"] != false {
					t.Errorf("%v: %v", argv, r)
				}
				d.cancel(r)
			}
		}
	})
	t.Run("C117 the card says on which host and in which directory", func(t *testing.T) {
		d.put("sub/x", "", 0o644)
		held := d.call("workspace_shell", M{"command": "pwd", "cwd": "sub"})
		c := d.card(held)
		host, _ := os.Hostname()
		dir, _ := filepath.EvalSymlinks(d.Root)
		if !strings.Contains(lines(c), "on "+host+" as ") || !strings.Contains(lines(c), "in "+dir+"/sub") || text(c, "host") != host {
			t.Errorf("got %s", lines(c))
		}
		if r := d.approve(held); text(r, "result", "stdout") != dir+"/sub\n" {
			t.Errorf("got %v", r)
		}
	})
	t.Run("X49 the card holds the exact words and shows what does not show", func(t *testing.T) {
		c := d.card(d.call("workspace_shell", M{"command": "printf", "args": []string{"a b", "\x1b[2K\u202e", "$HOME"}}))
		l := lines(c)
		if !strings.Contains(l, `'a b'`) || strings.ContainsAny(l, "\x1b\u202e") || !strings.Contains(l, `$HOME`) {
			t.Errorf("got %q", l)
		}
	})
	t.Run("X50 what a removal would take is listed by name", func(t *testing.T) {
		d.put("gone/a", "", 0o644)
		d.put("gone/deep/b", "", 0o644)
		held := d.call("workspace_shell", M{"command": "rm", "args": []string{"-r", "gone"}})
		c := d.card(held)
		for _, want := range []string{"affects gone", "affects gone/a", "affects gone/deep/b"} {
			if !strings.Contains(lines(c), want) {
				t.Errorf("%q is not on the card:\n%s", want, lines(c))
			}
		}
		if text(held, "decision", "tier") != "T4" || text(c, "effect") != "destructive" {
			t.Errorf("tier %v, effect %v", held["decision"], c["effect"])
		}
		r := d.approve(held)
		var deleted []string
		for _, e := range objects(r["effects"]) {
			deleted = append(deleted, text(e, "change")+" "+text(e, "path"))
		}
		if !slices.Contains(deleted, "deleted gone/deep/b") || d.has("gone") {
			t.Errorf("got %v", r)
		}
	})
	t.Run("X52 a script named by its file is on the card and pinned", func(t *testing.T) {
		d.put("run.sh", "echo one\ntouch ran\n", 0o644)
		held := d.call("workspace_shell", M{"command": "bash", "args": []string{"run.sh"}})
		if l := lines(d.card(held)); !strings.Contains(l, "    2  touch ran") {
			t.Errorf("got %s", l)
		}
		d.put("run.sh", "echo two\ntouch ran\n", 0o644)
		if r := d.approve(held); code(r) != "stale_precondition" || d.has("ran") {
			t.Errorf("an edited script: %v", r)
		}
	})
	t.Run("X54 a pipe is one call of the tier of its worst part", func(t *testing.T) {
		held := d.shell("cat run.sh | grep x | curl -d @- http://127.0.0.1:9")
		l := lines(d.card(held))
		if text(held, "decision", "tier") != "T3" || !strings.Contains(l, "T1: grep x") || !strings.Contains(l, "T3: curl") {
			t.Errorf("got %v\n%s", held, l)
		}
		d.cancel(held)
		for _, pipe := range []string{"rm x | cat", "cat run.sh | rm x | cat", "cat run.sh | rm x"} {
			before := len(d.cards("pending"))
			held := d.shell(pipe)
			if text(held, "decision", "tier") != "T4" || len(d.cards("pending")) != before+1 {
				t.Errorf("%q: %v, and %d more cards", pipe, held["decision"], len(d.cards("pending"))-before)
			}
			d.cancel(held)
		}
	})
	t.Run("X58 what cannot be read is T4", func(t *testing.T) {
		for _, s := range []string{"$(printf rm) x", "echo 'open"} {
			held := d.shell(s)
			if text(held, "decision", "tier") != "T4" {
				t.Errorf("%q: %v", s, held["decision"])
			}
			d.cancel(held)
		}
	})
	t.Run("X55 a script of several commands is one call, shown whole", func(t *testing.T) {
		held := d.shell("set -e\ncat <<E\nhello $USER\nE\nmkdir -p many/deep\n")
		if l := lines(d.card(held)); !strings.Contains(l, "    3  hello $USER") || !strings.Contains(l, "    5  mkdir -p many/deep") {
			t.Errorf("got %s", l)
		}
		if r := d.approve(held); text(r, "status") != "done" || !d.has("many/deep") || !strings.HasPrefix(text(r, "result", "stdout"), "hello") {
			t.Errorf("got %v", r)
		}
	})
	t.Run("S38 (part) nothing of a chained line runs before a person says so", func(t *testing.T) {
		for _, s := range []string{"echo x; touch c", `echo "$(touch c)"`, "echo `touch c`", "echo$IFS-x;touch$IFS''c", "cd sub && touch c", "ls\ntouch c", "a='$(touch c)'; echo ${a@P}"} {
			d.cancel(d.shell(s))
		}
		if d.has("c") || d.has("sub/c") {
			t.Error("c was made")
		}
	})
	t.Run("S50 literal words stay literal", func(t *testing.T) {
		r := d.approve(d.call("workspace_shell", M{"command": "printf", "args": []string{"%s\n", "*", "$HOME/x", "~/x", "a | b; c"}}))
		if got := text(r, "result", "stdout"); got != "*\n$HOME/x\n~/x\na | b; c\n" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("S51 a start-up variable waits in sight of a person, and none of the daemon's reaches a program", func(t *testing.T) {
		held := d.call("workspace_shell", M{"command": "ls", "env": M{"BASH_ENV": "./x"}})
		if l := lines(d.card(held)); text(held, "status") != "review" || text(held, "decision", "tier") != "T4" || !strings.Contains(l, "sets BASH_ENV=./x") {
			t.Errorf("got %v\n%s", held, l)
		}
		d.cancel(held)
		r := d.approve(d.shell("env"))
		if out := text(r, "result", "stdout"); strings.Contains(out, "BASH_ENV") || strings.Contains(out, "\nENV=") || !strings.Contains(out, "PATH=") {
			t.Errorf("got %s", out)
		}
	})
	t.Run("S79 (part) no secret of the daemon's environment reaches a program", func(t *testing.T) {
		r := d.approve(d.shell("env; cat /proc/self/environ; cat /proc/1/environ /proc/$PPID/environ"))
		if out := text(r, "result", "stdout") + text(r, "result", "stderr"); strings.Contains(out, "canary") || strings.Contains(out, passphrase) {
			t.Errorf("got %s", out)
		}
	})
	t.Run("C124 further variables are on the card; the loader's and the path's are refused", func(t *testing.T) {
		for _, name := range []string{"LD_PRELOAD", "PATH", "DYLD_INSERT_LIBRARIES"} {
			if r := d.call("workspace_shell", M{"command": "ls", "env": M{name: "x"}}); code(r) != "bad_request" {
				t.Errorf("%s: %v", name, r)
			}
		}
		held := d.shell("echo $GREETING", M{"env": M{"GREETING": "hi there"}})
		if l := lines(d.card(held)); !strings.Contains(l, "sets GREETING=hi there") {
			t.Errorf("got %s", l)
		}
		if r := d.approve(held); text(r, "result", "stdout") != "hi there\n" {
			t.Errorf("got %v", r)
		}
	})
	t.Run("C126 how it ended: exited, signalled, timed_out, spawn_failed", func(t *testing.T) {
		r := d.approve(d.shell("exit 3"))
		if res := object(r["result"]); res["exit_code"] != 3.0 || res["termination"] != "exited" || text(r, "status") != "done" {
			t.Errorf("got %v", r)
		}
		r = d.approve(d.shell("kill -9 $$"))
		if res := object(r["result"]); res["exit_code"] != nil || res["termination"] != "signalled" || res["signal"] != "SIGKILL" {
			t.Errorf("got %v", r)
		}
		d.put("broken", "not a program", 0o755)
		r = d.approve(d.call("workspace_shell", M{"command": "./broken"}))
		if code(r) != "spawn_failed" || r["effects_executed"] != false {
			t.Errorf("got %v", r)
		}
		if r := d.call("workspace_shell", M{"command": "no-such-program"}); code(r) != "spawn_failed" {
			t.Errorf("got %v", r)
		}
	})
	t.Run("C125 (part) a deadline ends all of it and what was printed is kept", func(t *testing.T) {
		begin := time.Now()
		r := d.approve(d.shell("echo before; (setsid sleep 62.5 &); sleep 62.5", M{"timeout_ms": 500}))
		if code(r) != "timed_out" || text(r, "result", "termination") != "timed_out" || text(r, "result", "stdout") != "before\n" || object(r["result"])["exit_code"] != nil {
			t.Errorf("got %v", r)
		}
		if d := time.Since(begin); d > 30*time.Second {
			t.Errorf("took %v", d)
		}
		if got := running("62.5"); len(got) > 0 {
			t.Errorf("left behind: %v", got)
		}
		if r := d.call("workspace_shell", M{"command": "ls", "timeout_ms": 600_001}); code(r) != "bad_request" {
			t.Errorf("over the longest: %v", r)
		}
	})
	t.Run("S88 nothing waits for input", func(t *testing.T) {
		r := d.approve(d.shell("cat; read x; echo $?", M{"timeout_ms": 10000}))
		if text(r, "result", "stdout") != "1\n" || text(r, "result", "termination") != "exited" {
			t.Errorf("got %v", r)
		}
	})
	t.Run("S87 (part) long output is cut in the answer, and all of it can be had", func(t *testing.T) {
		r := d.approve(d.shell("echo first; yes | head -c 3000000; echo last"))
		out := text(r, "result", "stdout")
		if object(r["result"])["truncated"] != true || object(r["result"])["total_bytes"] != 3000011.0 || !strings.HasPrefix(out, "first\ny\n") || !strings.HasSuffix(out, "last\n") || len(out) > 70<<10 {
			t.Fatalf("got %d bytes, %v", len(out), object(r["result"])["total_bytes"])
		}
		all, at := 0, 0.0
		for {
			_, piece := d.http("GET", fmt.Sprintf("/v1/runs/%s/output?offset=%.0f", text(r, "result", "run_id"), at), d.Agent, nil)
			all += len(text(piece, "content"))
			next, more := piece["next"].(float64)
			if !more {
				break
			}
			at = next
		}
		if all != 3000011 {
			t.Errorf("%d bytes could be had", all)
		}
		_, tok := d.http("POST", "/v1/tokens", d.reviewer(), M{"name": "other", "role": "agent"})
		if secret := text(tok, "token"); secret == "" {
			t.Errorf("no second token: %v", tok)
		} else if c, _ := d.http("GET", "/v1/runs/"+text(r, "result", "run_id")+"/output", secret, nil); c != 404 {
			t.Errorf("another agent reads it: %d", c)
		}
	})
	t.Run("S53 (part) the script's bytes are what was approved", func(t *testing.T) {
		d.put("s.sh", "#!/bin/sh\ntouch good\n", 0o755)
		held := d.call("workspace_shell", M{"command": "./s.sh"})
		d.put("s.sh", "#!/bin/sh\ntouch evil\n", 0o755)
		if r := d.approve(held); code(r) != "stale_precondition" || d.has("evil") || d.has("good") {
			t.Errorf("got %v", r)
		}
		if r := d.approve(d.call("workspace_shell", M{"command": "./s.sh"})); !d.has("evil") || len(objects(r["effects"])) != 1 {
			t.Errorf("without a change it does not run either: %v", r)
		}
	})
	t.Run("a build file that appears or changes is drift", func(t *testing.T) {
		held := d.call("workspace_shell", M{"command": "make", "args": []string{"x"}})
		if text(held, "status") != "review" {
			t.Fatalf("make is needed for this test: %v", held)
		}
		d.put("GNUmakefile", "x:\n\ttouch evil2\n", 0o644)
		if r := d.approve(held); code(r) != "stale_precondition" || d.has("evil2") {
			t.Errorf("got %v", r)
		}
	})
	t.Run("protected paths are read-only inside, and what appears is told", func(t *testing.T) {
		d.put(".env", "S=1\n", 0o600)
		r := d.approve(d.shell("echo x > .env; rm -f .env; mkdir .vscode; mkdir -p deep/.vscode; echo plain > plain"))
		b, _ := os.ReadFile(filepath.Join(d.Root, ".env"))
		if string(b) != "S=1\n" || !d.has("plain") {
			t.Errorf("got %q %v", b, r)
		}
		if !strings.Contains(fmt.Sprint(r["warnings"]), "deep/.vscode, which .vscode protects, was created") || d.has(".vscode") {
			t.Errorf("the new protected name is not told, or one at the top was made: %v", r["warnings"])
		}
		held := d.shell("echo S=2 > .env", M{"write_protected": true})
		if l := lines(d.card(held)); !strings.Contains(l, "protected paths CAN be changed") || !strings.Contains(fmt.Sprint(object(held["decision"])["also"]), "safety_override") {
			t.Errorf("got %v %s", held, l)
		}
		d.approve(held)
		if b, _ := os.ReadFile(filepath.Join(d.Root, ".env")); string(b) != "S=2\n" {
			t.Errorf("with leave it is not written: %q", b)
		}
	})
	t.Run("S48 (part) a protected working directory is a reason of its own", func(t *testing.T) {
		d.put(".git/config", "", 0o644)
		held := d.call("workspace_shell", M{"command": "ls", "cwd": ".git"})
		if !strings.Contains(fmt.Sprint(object(held["decision"])["also"]), "protected_target") {
			t.Errorf("got %v", held)
		}
		d.cancel(held)
		if r := d.call("workspace_shell", M{"command": "ls", "cwd": "../"}); code(r) != "outside_workspace" {
			t.Errorf("got %v", r)
		}
	})
	t.Run("S49 (part) too many words are refused", func(t *testing.T) {
		if r := d.call("workspace_shell", M{"command": "echo", "args": slices.Repeat([]string{"a"}, 10_000)}); code(r) != "too_large" {
			t.Errorf("got %v", r)
		}
		if r := d.call("workspace_shell", M{"command": "echo", "args": []string{strings.Repeat("a", 2<<20)}}); code(r) != "too_large" {
			t.Errorf("got %v", code(r))
		}
	})
	t.Run("S58 (part) a released program reaches neither socket nor token", func(t *testing.T) {
		r := d.approve(d.shell(fmt.Sprintf("cat %s/tokens/agent; ls %s; curl -s --unix-socket %s http://x/readyz; echo end", d.State, d.State, d.Socket)))
		if out := text(r, "result", "stdout"); out != "end\n" {
			t.Errorf("got %q", out)
		}
	})
	t.Run("C122 a remembered call asks again for other words and another script", func(t *testing.T) {
		d.put("Mk/Makefile", "test:\n\t@echo one $(FOO)\n", 0o644)
		ask := M{"command": "make", "args": []string{"test"}, "cwd": "Mk"}
		held := d.call("workspace_shell", ask)
		_, row := d.http("GET", "/v1/approvals/"+text(held, "approval", "id"), d.reviewer(), nil)
		_, out := d.http("POST", "/v1/approvals/"+text(held, "approval", "id")+"/answer", d.reviewer(), M{"answer": "approve", "remember": true, "shown_digest": text(row, "card", "shown_digest")})
		if text(out, "reply", "status") != "done" {
			t.Fatalf("got %v", out)
		}
		if r := d.call("workspace_shell", ask); text(r, "status") != "done" || text(r, "decision", "reason") != "remembered_rule" {
			t.Errorf("the same call: %v", r)
		}
		for name, other := range map[string]M{"words": {"command": "make", "args": []string{"test", "FOO=1"}, "cwd": "Mk"}, "environment": {"command": "make", "args": []string{"test"}, "cwd": "Mk", "env": M{"FOO": "1"}},
			"directory": {"command": "make", "args": []string{"test"}}} {
			if r := d.call("workspace_shell", other); text(r, "status") != "review" {
				t.Errorf("other %s: %v", name, r)
			} else {
				d.cancel(r)
			}
		}
		d.put("Mk/Makefile", "test:\n\t@touch evil3\n", 0o644)
		if r := d.call("workspace_shell", ask); text(r, "status") != "review" {
			t.Errorf("another Makefile: %v", r)
		}
	})
	t.Run("tests are counted", func(t *testing.T) {
		d.put("t.sh", "echo '--- PASS: TestA (0.00s)'\necho '--- FAIL: TestB (0.00s)'\nexit 1\n", 0o644)
		r := d.approve(d.call("workspace_tests", M{"command": "sh", "args": []string{"t.sh"}}))
		if res := object(r["result"]); res["passed"] != 1.0 || res["failed"] != 1.0 || res["exit_code"] != 1.0 {
			t.Errorf("got %v", r)
		}
	})
	t.Run("what does not go together or is not built is refused by name", func(t *testing.T) {
		for field, args := range map[string]M{"stdin": {"pty": true, "stdin": "x"}, "whole_session": {"whole_session": true}, "rows": {"rows": 3}, "run_id": {"run_id": "run_x"}} {
			args["command"] = "ls"
			if r := d.call("workspace_shell", args); code(r) != "bad_request" || text(r, "error", "field") != "args."+field {
				t.Errorf("%s: %v", field, r)
			}
		}
		if _, r := d.http("POST", "/v1/call", d.Agent, M{"op": "workspace_shell", "args": M{"command": "ls"}, "dry_run": true}); code(r) != "rehearsal_unsupported" {
			t.Errorf("got %v", r)
		}
	})
	t.Run("C127 the caller's purpose is on the card, apart and without control characters", func(t *testing.T) {
		_, held := d.http("POST", "/v1/call", d.Agent, M{"op": "workspace_shell", "args": M{"command": "ls", "args": []string{"-l"}}, "intent": "look \x1b[31maround"})
		if c := d.card(held); !strings.Contains(text(c, "intent"), "look ") || strings.Contains(text(c, "intent"), "\x1b") || strings.Contains(lines(c), "around") {
			t.Errorf("got %v", c)
		}
	})
}

// running lists processes that have a word in their command line.
func running(word string) []string {
	var out []string
	list, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range list {
		if b, _ := os.ReadFile(p); strings.Contains(string(b), "sleep\x00"+word) {
			out = append(out, p)
		}
	}
	return out
}

func TestProcessSwitch(t *testing.T) {
	t.Run("C121 only the operator's exact word switches the asking off, for all, and loudly", func(t *testing.T) {
		for _, word := range []string{"1", "TRUE ", "", "True"} {
			d := startOn(t, shortDir(t), shortDir(t), []string{"HOLDPOINT_PROCESS_APPROVAL_DISABLED=" + word})
			if r := d.call("workspace_shell", M{"command": "true"}); text(r, "status") != "review" {
				t.Errorf("%q: %v", word, r)
			}
			d.stop(syscall.SIGTERM)
		}
		for _, name := range []string{"HOLDPOINT_PROCESS_APPROVAL_DISABLED", "CHENG_WORKSPACE_PROCESS_APPROVAL_DISABLED"} {
			d := startOn(t, shortDir(t), shortDir(t), []string{name + "=true"})
			r := d.call("workspace_shell", M{"script": "echo hi > made; echo hi"})
			if text(r, "status") != "done" || text(r, "decision", "reason") != "process_approval_disabled" || text(r, "result", "stdout") != "hi\n" || !d.has("made") {
				t.Errorf("%s: %v", name, r)
			}
			_, s := d.http("GET", "/v1/status", d.Agent, nil)
			if !strings.Contains(fmt.Sprint(s["warnings"]), "process_approval_disabled") || !strings.Contains(d.Log.String(), "WITHOUT ASKING ANYBODY") {
				t.Errorf("%s is quiet: %v\n%s", name, s["warnings"], d.Log)
			}
			if r := d.call("delete_file", M{"path": "made"}); text(r, "status") != "review" {
				t.Errorf("it lifts more than programs: %v", r)
			}
			d.stop(syscall.SIGTERM)
			if n := strings.Count(strings.Join(d.auditLines(), "\n"), "process_approval_disabled"); n != 2 {
				t.Errorf("%d audit lines tell it, want started and done", n)
			}
		}
	})
	t.Run("C120 no field of a call switches it off", func(t *testing.T) {
		d := start(t)
		for _, field := range []string{"process_approval_disabled", "require_approval", "approved", "mode", "yolo", "confinement", "sandbox"} {
			if r := d.call("workspace_shell", M{"command": "true", field: false}); code(r) != "bad_request" {
				t.Errorf("%s: %v", field, r)
			}
			_, r := d.http("POST", "/v1/call", d.Agent, M{"op": "workspace_shell", "args": M{"command": "true"}, field: true})
			if text(r, "error", "code") != "bad_request" {
				t.Errorf("%s beside the arguments: %v", field, r)
			}
		}
	})
}

func TestProcessDaemonKilled(t *testing.T) {
	d := start(t)
	held := d.shell("touch began; trap '' TERM; setsid sleep 63.5 & sleep 63.5; touch late")
	done := make(chan struct{})
	_, row := d.http("GET", "/v1/approvals/"+text(held, "approval", "id"), d.reviewer(), nil)
	digest, token := text(row, "card", "shown_digest"), d.reviewer()
	go func() {
		defer close(done)
		d.tryHTTP("POST", "/v1/approvals/"+text(held, "approval", "id")+"/answer", token, M{"answer": "approve", "shown_digest": digest})
	}()
	for end := time.Now().Add(time.Minute); !d.has("began") && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
	}
	// Only the daemon itself: what it started must end with it all the same.
	syscall.Kill(d.cmd.Process.Pid, syscall.SIGKILL)
	d.cmd.Wait()
	<-done
	for end := time.Now().Add(3 * time.Second); len(running("63.5")) > 0 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
	}
	if got := running("63.5"); len(got) > 0 {
		t.Errorf("alive after the daemon: %v", got)
	}
	d.run()
	_, row = d.http("GET", "/v1/approvals/"+text(held, "approval", "id"), d.Agent, nil)
	if text(row, "state") != "unknown" || text(row, "reply", "error", "code") != "unknown_outcome" || !d.has("began") || d.has("late") {
		t.Errorf("got %v", row)
	}
}
