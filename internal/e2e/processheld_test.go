//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestProcessHeld(t *testing.T) {
	t.Parallel()
	d := startOn(t, shortDir(t), shortDir(t), []string{"AWS_SECRET_ACCESS_KEY=canary1", "GITHUB_TOKEN=canary2", "HOLDPOINT_TOKEN=canary3"})
	t.Run("S79 a program sees the listed names alone, on pipes and on a terminal, and so does who looks at it from outside", func(t *testing.T) {
		allowed := strings.Fields("PATH HOME USER LOGNAME LANG TZ TERM TMPDIR XDG_CACHE_HOME npm_config_cache GIT_TERMINAL_PROMPT GIT_EDITOR EDITOR GIT_PAGER PAGER GIT_ASKPASS SSH_ASKPASS DEBIAN_FRONTEND HOLDPOINT_RUN")
		for _, more := range []M{{"background": true}, {"pty": true}} {
			r := d.approve(d.call("workspace_shell", M{"command": "sleep", "args": []string{"80.5"}, "background": more["background"] == true, "pty": more["pty"] == true}))
			until(t, "its start", func() bool { return len(running("80.5")) == 1 })
			seen := read(t, filepath.Join(filepath.Dir(running("80.5")[0]), "environ"))
			for _, kv := range strings.Split(strings.Trim(seen, "\x00"), "\x00") {
				if name, _, _ := strings.Cut(kv, "="); !slices.Contains(allowed, name) {
					t.Errorf("%v: %s is there", more, name)
				}
			}
			if strings.Contains(seen, "canary") || strings.Contains(seen, passphrase) || !strings.Contains(seen, "PATH=") {
				t.Errorf("%v: got %q", more, seen)
			}
			d.http("POST", "/v1/runs/"+text(r, "result", "run_id")+"/stop", d.Agent, M{})
			until(t, "its end", func() bool { return len(running("80.5")) == 0 })
		}
		if own := read(t, fmt.Sprintf("/proc/%d/environ", d.cmd.Process.Pid)); !strings.Contains(own, "AWS_SECRET_ACCESS_KEY=canary1") {
			t.Error("the daemon has no secret in its environment, so this proves nothing")
		}
	})
	t.Run("S106 protected names that are not there cannot be made, nor written through a link; what a pattern finds elsewhere is told by name", func(t *testing.T) {
		script := `mkdir .git; mkdir -p .codex/x; mkdir -p .vscode && echo {} > .vscode/tasks.json; mkdir real; ln -s real .git && echo x > .git/config; ln -s .env way; echo x > way; mv real .claude
mkdir sub && mkdir sub/.git && echo key > server.pem; echo plain > plain; echo end`
		names := []string{".git", ".codex", ".vscode", ".env", ".claude"}
		held := d.shell(script)
		l := lines(d.card(held))
		if !strings.Contains(l, "protected names that are not there cannot be made at the top of the root") || !strings.Contains(l, "is not held shut: if it appears, the answer says so") {
			t.Errorf("got %s", l)
		}
		r := d.approve(held)
		if text(r, "result", "stdout") != "end\n" || strings.Count(text(r, "result", "stderr"), "ermission denied") < 6 {
			t.Errorf("got %v", r)
		}
		for _, n := range names {
			if d.has(n) {
				t.Errorf("%s is there", n)
			}
		}
		told := fmt.Sprint(r["warnings"])
		if !d.has("sub/.git") || !d.has("server.pem") || !strings.Contains(told, "sub/.git, which .git protects, was created") || !strings.Contains(told, "server.pem, which *.pem protects, was created") {
			t.Errorf("got %s", told)
		}
		row := fmt.Sprint(d.rowOf(held)["reply"])
		if !strings.Contains(row, "server.pem, which *.pem protects") {
			t.Errorf("the row does not keep it: %s", row)
		}
		// A person's leave for protected paths is what it takes.
		if d.approve(d.shell(script, M{"write_protected": true})); !d.has(".vscode/tasks.json") || !d.has(".codex/x") {
			t.Error("with leave they are not made either, so this proves nothing")
		}
		os.RemoveAll(filepath.Join(d.Root, ".git"))
		os.Remove(filepath.Join(d.Root, ".git"))
	})
	t.Run("S53 a script that changed after it was shown does not run; the new row shows what changed in it", func(t *testing.T) {
		d.put("s.sh", "echo one\necho two\ntouch good\n", 0o644)
		ask := func() M { return d.call("workspace_shell", M{"command": "sh", "args": []string{"./s.sh"}}) }
		held := ask()
		d.put("s.sh", "echo one\necho two\ntouch evil\n", 0o644)
		r := d.approve(held)
		if code(r) != "stale_precondition" || d.has("evil") || d.has("good") || !strings.Contains(text(r, "error", "diff"), "+touch evil") {
			t.Errorf("got %v", r)
		}
		if row := d.rowOf(held); text(row, "state") != "failed" {
			t.Errorf("the row is not closed: %v", row["state"])
		}
		again := ask()
		c := d.card(again)
		if idOf(again) == idOf(held) || !strings.Contains(text(c, "diff"), "-touch good\n+touch evil") || strings.Contains(text(c, "diff"), "-echo one") ||
			!strings.Contains(lines(c), "was approved before as "+idOf(held)) || !strings.Contains(lines(c), "changed since that approval: s.sh") {
			t.Errorf("got %s\n%s", text(c, "diff"), lines(c))
		}
		if r := d.approve(again); text(r, "status") != "done" || !d.has("evil") {
			t.Errorf("got %v", r)
		}
		if c := d.card(ask()); text(c, "diff") != "" || strings.Contains(lines(c), "was approved before") {
			t.Errorf("after it ran there is nothing to compare with: %s", text(c, "diff"))
		}
	})
}

// Commands name files in more ways than as a word of their own that is read from the call's
// directory. Each of these is run once as it was shown, and not when it changed after that.
func TestProcessNamedFiles(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	back := filepath.Join(filepath.Dir(d.Root), "back")
	if err := os.Symlink(d.Root, back); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, file string
		args       M
	}{
		{"S53 (part) a script that a shell is fed by a redirection", "s.sh", M{"script": "sh < s.sh"}},
		{"S53 (part) a script in a directory that the commands change to", "sub/s.sh", M{"script": "cd sub && sh s.sh"}},
		{"S53 (part) a program in a directory that the commands change to", "sub/s.sh", M{"script": "cd sub && ./s.sh"}},
		{"S5 (part) a script by a magic link that leads back into the root", "s.sh", M{"command": "sh", "args": []string{"/proc/self/root" + d.Root + "/s.sh"}}},
		{"S6 (part) a script by a link that leads into the root", "s.sh", M{"command": "sh", "args": []string{back + "/s.sh"}}},
		{"S54 (part) a program that takes the place of the script", "s.sh", M{"script": "exec ./s.sh"}},
		{"S35 (part) a makefile in a directory that the commands change to", "sub/Makefile", M{"script": "cd sub && make -n"}},
		{"S35 (part) a makefile in a directory that make is told", "sub/Makefile", M{"command": "make", "args": []string{"-n", "-C", "sub"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d.put(c.file, "#!/bin/sh\n", 0o755)
			held := d.call("workspace_shell", c.args)
			d.put(c.file, "#!/bin/sh\n# touch evil\n", 0o755)
			if r := d.approve(held); code(r) != "stale_precondition" || text(r, "error", "path") != c.file {
				t.Errorf("it changed after it was shown: %v", r)
			}
			if r := d.approve(d.call("workspace_shell", c.args)); text(r, "status") != "done" {
				t.Errorf("as it was shown: %v", r)
			}
		})
	}
	t.Run("S49 (part) many commands before it do not leave a script unpinned, and the same command many times opens nothing many times", func(t *testing.T) {
		pad := ""
		for i := range 40 {
			pad += fmt.Sprintf("type c%d || c%d; ", i, i)
		}
		d.put("s.sh", "true\n", 0o755)
		held := d.shell(pad + "sh s.sh")
		d.put("s.sh", "touch evil\n", 0o755)
		if r := d.approve(held); code(r) != "stale_precondition" || text(r, "error", "path") != "s.sh" {
			t.Errorf("got %v", r)
		}
		if r := d.shell(strings.Repeat("make;", 9000)); text(r, "status") != "review" {
			t.Errorf("one command, many times: %v", r)
		}
		for i := range 600 {
			d.put(fmt.Sprintf("many/%d", i), "x\n", 0o644)
			pad += fmt.Sprintf("cat many/%d; ", i)
		}
		if r := d.call("workspace_shell", M{"script": pad}); code(r) != "too_large" {
			t.Errorf("more files than are pinned: %v", r)
		}
	})
	t.Run("S35 (part) a remembered rule holds no more when a makefile of such a directory is edited", func(t *testing.T) {
		d.put("m/Makefile", "all:\n\techo one\n", 0o644)
		args := M{"script": "cd m && make -n"}
		held := d.call("workspace_shell", args)
		d.http("POST", "/v1/approvals/"+idOf(held)+"/answer", d.reviewer(), M{"answer": "approve", "remember": true, "shown_digest": text(d.card(held), "shown_digest")})
		if r := d.call("workspace_shell", args); text(r, "decision", "reason") != "remembered_rule" {
			t.Errorf("nothing was remembered, so this proves nothing: %v", r)
		}
		d.call("edit_file", M{"path": "m/Makefile", "old_string": "one", "new_string": "two"})
		if r := d.call("workspace_shell", args); text(r, "status") != "review" {
			t.Errorf("got %v", r)
		}
	})
}

func TestProcessCeilings(t *testing.T) {
	t.Parallel()
	memory := "256MiB"
	if raceEnabled { // the helper is this program, and its detector wants more
		memory = "2GiB"
	}
	d := quick(t, "[process]\nmax_memory = \""+memory+"\"\nmax_cpu = \"1s\"\n")
	t.Run("S86 more memory or processor time than the operator set is not had, and said; a run whose caller went away goes on to its end", func(t *testing.T) {
		held := d.shell("dd if=/dev/zero of=/dev/null bs=3G count=1 || echo none; while :; do :; done", M{"timeout_ms": 60000})
		if l := lines(d.card(held)); !strings.Contains(l, "memory_limit holds of each process") || !strings.Contains(l, "cpu_limit holds of each process") {
			t.Errorf("got %s", l)
		}
		before := resident(t, d.cmd.Process.Pid, "VmRSS")
		r := d.approve(held)
		res := object(r["result"])
		if text(res, "stdout") != "none\n" || text(res, "termination") != "signalled" || text(res, "signal") != "SIGXCPU" || text(res, "limit") != "cpu_limit" {
			t.Errorf("got %v", r)
		}
		if levels := fmt.Sprint(res["confinement"]); !strings.Contains(levels, "memory_limit") || !strings.Contains(levels, "cpu_limit") {
			t.Errorf("got %s", levels)
		}
		if grown := resident(t, d.cmd.Process.Pid, "VmRSS") - before; grown > 32<<20 {
			t.Errorf("the daemon grew by %d MiB", grown>>20)
		}
		// Who waits for the answer hangs up: the program is neither ended nor run again.
		held = d.shell("echo x >> times; while ! test -e go; do sleep 0.02; done; echo y >> times")
		_, row := d.http("GET", "/v1/approvals/"+idOf(held), d.reviewer(), nil)
		d.hangUp("/v1/approvals/"+idOf(held)+"/answer", d.reviewer(), M{"answer": "approve", "shown_digest": text(row, "card", "shown_digest")}, func() bool { return d.has("times") })
		d.put("go", "", 0o644)
		until(t, "its end", func() bool { return text(d.rowOf(held), "state") == "executed" })
		if got := read(t, filepath.Join(d.Root, "times")); got != "x\ny\n" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("S105 what the operator requires and the machine does not give runs nothing", func(t *testing.T) {
		d := quick(t, "[process]\nconfinement = \"required\"\nmax_memory = \""+memory+"\"\ncgroup = \"/proc\"\n")
		if r := d.call("workspace_shell", M{"script": "touch ran"}); code(r) != "sandbox_unavailable" || !strings.Contains(text(r, "error", "message"), "memory_limit") || d.has("ran") {
			t.Errorf("got %v", r)
		}
		if r := d.call("workspace_shell", M{"script": "touch ran", "confinement": "off"}); code(r) != "bad_request" {
			t.Errorf("got %v", r)
		}
	})
}

// hangUp sends a request and closes its connection, unanswered, once seen says so.
func (d *daemon) hangUp(path, token string, body M, seen func() bool) {
	d.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		c := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", d.Socket)
		}}}
		b, _ := json.Marshal(body)
		req, _ := http.NewRequestWithContext(ctx, "POST", "http://x"+path, bytes.NewReader(b))
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		if res, err := c.Do(req); err == nil {
			res.Body.Close()
			d.t.Error("it was answered before anybody hung up")
		}
	}()
	until(d.t, "its start", seen)
	stop()
	<-gone
}
