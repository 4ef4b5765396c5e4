//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestProcessRules puts commands before the most permissive daemon that there is: approval
// off for the caller, a grant for the whole project, and a remembered rule for the nearest
// harmless call of each. A person is asked all the same.
func TestProcessRules(t *testing.T) {
	t.Parallel()
	d := quick(t, "[profiles.default]\nrequire_approval = false\n")
	d.put("f", "x\n", 0o644)
	d.put("sub/g", "x\n", 0o644)
	d.put(".git/config", "", 0o644)
	d.put(".claude/settings.json", "{}\n", 0o644)
	if s, out := d.http("PUT", "/v1/rules", d.reviewer(), M{"agent": "agent", "scope": "project", "root": filepath.Base(d.Root)}); s != 200 {
		t.Fatalf("%d %v", s, out)
	}
	argv := func(words ...string) M { return M{"command": words[0], "args": words[1:]} }
	for _, near := range []M{argv("git", "status"), argv("git", "log"), argv("find", "."), argv("sed", "-n", "1p", "f"), argv("sort", "f"), argv("env"), argv("ls"), argv("cd", "sub"), argv("head", "f")} {
		held := d.call("workspace_shell", near)
		if code(held) == "spawn_failed" { // cd is no program, so that no rule can be for it
			continue
		}
		_, row := d.http("GET", "/v1/approvals/"+idOf(held), d.reviewer(), nil)
		d.http("POST", "/v1/approvals/"+idOf(held)+"/answer", d.reviewer(), M{"answer": "approve", "remember": true, "shown_digest": text(row, "card", "shown_digest")})
		if r := d.call("workspace_shell", near); text(r, "decision", "reason") != "remembered_rule" {
			t.Fatalf("%v is not remembered, so this proves nothing: %v", near, r)
		}
	}
	if r := d.call("write_file", M{"path": "f", "content": "x\n"}); text(r, "status") != "done" {
		t.Fatalf("the permissive profile does not let a write through: %v", r)
	}
	before := walk(t, d.Root)
	asked := func(t *testing.T, args M, also ...string) {
		t.Helper()
		r := d.call("workspace_shell", args)
		reasons := append(also, "process_execution")
		have := fmt.Sprint(object(r["decision"])["reason"], object(r["decision"])["also"])
		if text(r, "status") != "review" || slices.ContainsFunc(reasons, func(s string) bool { return !strings.Contains(have, s) }) {
			t.Errorf("%v: %v", args, r)
			return
		}
		d.cancel(r)
	}
	for id, list := range map[string][]M{
		"S39 what is chained behind a remembered command":   {{"script": "cd x && touch c"}, {"script": "git log; touch c"}, {"script": "git log | tee c"}, {"script": "git log > c"}, {"script": "git log || touch c"}},
		"S42 assignments before a remembered command":       {{"script": "GIT_PAGER='touch c' git -p log"}, {"command": "git", "args": []string{"log"}, "env": M{"GIT_PAGER": "touch c"}}, argv("env", "GIT_PAGER=x", "git", "log")},
		"S43 options of find that run or write":             {argv("find", ".", "-exec", "touch", "c", ";"), argv("find", ".", "-execdir", "touch", "c", ";"), argv("find", ".", "-ok", "touch", "c", ";"), argv("find", ".", "-delete"), argv("find", ".", "-fprint", "c"), argv("find", ".", "-fls", "c"), argv("find", ".", "-fprintf", "c", "x")},
		"S44 sed that writes or runs":                       {argv("sed", "-n", "1w c", "f"), argv("sed", "s/x/y/e", "f"), argv("sed", "-i", "s/a/b/", ".claude/settings.json"), argv("sed", "--in-place=.bak", "s/a/b/", "f")},
		"S46 options of git before its command":             {argv("git", "-c", "alias.status=!x", "status"), argv("git", "-C", "..", "status"), argv("git", "--git-dir=v", "status"), argv("git", "--exec-path=.", "status")},
		"S47 (part) launchers":                              {argv("env", "-S", "sh -c 'touch c'"), argv("env", "sh", "-c", "touch c")},
		"S48 (part) a remembered command in another place":  {{"command": "ls", "cwd": "sub"}, {"command": "head", "args": []string{"g"}, "cwd": "sub"}},
		"S45 (part) sort with a program of the caller's":    {argv("sort", "-S", "1k", "--compress-program=./x", "f")},
		"S49 (part) sixty parts of which the last is worst": {{"script": strings.Repeat("ls && ", 59) + "touch c"}},
	} {
		t.Run(id+" is asked for all the same", func(t *testing.T) {
			for _, args := range list {
				asked(t, args)
			}
		})
	}
	t.Run("S48 a protected working directory is asked for by two reasons, also for what is remembered elsewhere", func(t *testing.T) {
		asked(t, M{"command": "ls", "cwd": ".git"}, "protected_target")
		asked(t, M{"command": "head", "args": []string{"config"}, "cwd": ".git"}, "protected_target")
	})
	t.Run("S49 the last of sixty parts is on the card and counts; too many words are refused and nothing gives up into yes", func(t *testing.T) {
		held := d.shell(strings.Repeat("ls && ", 59) + "rm -rf c")
		if l := lines(d.card(held)); strings.Count(l, "T1: ls") != 59 || !strings.Contains(l, "T4: rm -rf c") || text(held, "decision", "tier") != "T4" {
			t.Errorf("%v: %s", held["decision"], l)
		}
		d.cancel(held)
		for _, args := range []M{{"command": "ls", "args": slices.Repeat([]string{"a"}, 10_000)}, {"command": "ls", "args": []string{strings.Repeat("a", 2<<20)}}} {
			if r := d.call("workspace_shell", args); code(r) != "too_large" || r["effects_executed"] == true {
				t.Errorf("got %v", r["error"])
			}
		}
	})
	t.Run("S45, S47 there is no key for programs that are safe by name, nor one for launchers", func(t *testing.T) {
		root, state := dirs(t)
		file := filepath.Join(filepath.Dir(state), "holdpoint.toml")
		for _, key := range []string{"safe_binaries = [\"sort\"]", "allow = [[\"env\"]]", "launchers = [\"sh\"]"} {
			write(t, file, "[process]\n"+key+"\n")
			if exit, out := refuses(t, root, state, nil, "--config", file); exit == 0 || !strings.Contains(out, strings.Fields(key)[0]) {
				t.Errorf("%s: exit %d %s", key, exit, out)
			}
		}
		for _, body := range []M{{"kind": "allow", "command": "env"}, {"scope": "project", "root": filepath.Base(d.Root), "agent": "agent", "programs": []string{"env"}}} {
			if s, out := d.http("PUT", "/v1/rules", d.reviewer(), body); s == 200 {
				t.Errorf("%v: %v", body, out)
			}
		}
	})
	if now := walk(t, d.Root); fmt.Sprint(difference(before, now)) != fmt.Sprint(difference(before, before)) {
		t.Errorf("something ran: %v", difference(before, now))
	}
	t.Run("S35 an edited build file asks again for the remembered command that would run it", func(t *testing.T) {
		d.put("b/Makefile", "test:\n\t@echo one\n", 0o644)
		d.put("b/package.json", `{"scripts":{"test":"echo one"}}`+"\n", 0o644)
		for name, to := range map[string]string{"make": "b/Makefile", "npm": "b/package.json"} {
			ask := M{"command": name, "args": []string{"test"}, "cwd": "b"}
			held := d.call("workspace_shell", ask)
			_, row := d.http("GET", "/v1/approvals/"+idOf(held), d.reviewer(), nil)
			d.http("POST", "/v1/approvals/"+idOf(held)+"/answer", d.reviewer(), M{"answer": "approve", "remember": true, "shown_digest": text(row, "card", "shown_digest")})
			if r := d.call("workspace_shell", ask); text(r, "decision", "reason") != "remembered_rule" || !strings.Contains(text(r, "result", "stdout"), "one") {
				t.Fatalf("%s is not remembered, so this proves nothing: %v", name, r)
			}
			if r := d.call("edit_file", M{"path": to, "old_string": "echo one", "new_string": "touch c"}); text(r, "status") != "done" {
				t.Fatalf("the edit: %v", r)
			}
			asked(t, ask)
			if d.has("b/c") {
				t.Errorf("%s ran what was edited", name)
			}
		}
		os.RemoveAll(filepath.Join(d.Root, "b"))
	})
}
