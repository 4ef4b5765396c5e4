//go:build linux

package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestProcessCases(t *testing.T) {
	d := start(t)
	d.put(".claude/settings.json", "{}\n", 0o644)
	d.put("f", "x\n", 0o644)
	before := walk(t, d.Root)
	held := func(t *testing.T, args M, tier string) M {
		t.Helper()
		r := d.call("workspace_shell", args)
		if text(r, "status") != "review" || text(r, "decision", "reason") != "process_execution" || tier != "" && text(r, "decision", "tier") != tier {
			t.Errorf("%v: %v", args, r)
			return nil
		}
		return d.card(r)
	}
	argv := func(s string) M {
		w := strings.Fields(s)
		return M{"command": w[0], "args": w[1:]}
	}
	// There are no rules for commands by name or beginning; what the reading says of each is
	// that it is worse than it looks.
	for id, list := range map[string][]string{
		"S43 (part)": {"find . -exec touch c ;", "find . -execdir touch c ;", "find . -ok touch c ;", "find . -delete", "find . -fprint c", "find . -fls c", "find . -fprintf c x"},
		"S44 (part)": {"sed -n 1wc f", "sed s/x/y/e f", "sed -i s/a/b/ .claude/settings.json", "sed --in-place=.bak s/a/b/ f"},
		"S45 (part)": {"sort -S 1k --compress-program=./x f"},
		"S46 (part)": {"git -c alias.status=!x status", "git -C .. status", "git --git-dir=v status", "git --exec-path=. status"},
		"S47 (part)": {"env -S touch\\ c", "env sh -c touch"},
	} {
		t.Run(id+" options that make a reader write or run are held at T4", func(t *testing.T) {
			for _, s := range list {
				tier := "T4"
				if s == "env sh -c touch" {
					tier = "T3" // it is read: a shell that runs touch
				}
				held(t, argv(s), tier)
			}
		})
	}
	t.Run("S39 (part) what is chained behind a harmless command is read as well", func(t *testing.T) {
		for _, s := range []string{"cd x && touch c", "git log; touch c", "git log | tee c", "git log > c", "git log || touch c"} {
			if c := held(t, M{"script": s}, ""); !strings.Contains(lines(c), "touch c") && !strings.Contains(lines(c), "tee c") && !strings.Contains(lines(c), "writes c") {
				t.Errorf("%q: %s", s, lines(c))
			}
		}
	})
	t.Run("S41 an expansion that runs a value is held at T4", func(t *testing.T) {
		for _, s := range []string{"a='$(touch c)'; echo ${a@P}", "a='$(touch c)'; echo ${!a}"} {
			held(t, M{"script": s}, "T4")
		}
	})
	t.Run("S42 (part) leading assignments and variables are on the card", func(t *testing.T) {
		if c := held(t, M{"script": "GIT_PAGER='touch c' git -p log"}, "T4"); !strings.Contains(lines(c), "GIT_PAGER") {
			t.Errorf("got %s", lines(c))
		}
		if c := held(t, M{"command": "git", "args": []string{"log"}, "env": M{"GIT_PAGER": "touch c"}}, "T4"); !strings.Contains(lines(c), "sets GIT_PAGER=touch c") {
			t.Errorf("got %s", lines(c))
		}
		held(t, argv("env GIT_PAGER=x git log"), "T4")
	})
	t.Run("S52 every variable waits with its value shown; what the loader reads is refused", func(t *testing.T) {
		for _, name := range []string{"VIMINIT", "LUA_INIT", "PYTHONSTARTUP", "PERL5OPT", "NODE_OPTIONS", "GIT_SSH_COMMAND", "GIT_CONFIG_COUNT", "EDITOR", "PAGER", "HOSTALIASES", "IFS", "PS4", "SHELLOPTS"} {
			if c := held(t, M{"command": "true", "env": M{name: "value of " + name}}, ""); !strings.Contains(lines(c), "sets "+name+"=value of "+name) {
				t.Errorf("%s: %s", name, lines(c))
			}
		}
		many := M{}
		for i := range 10_000 {
			many[fmt.Sprint("V", i)] = ""
		}
		for want, env := range map[string][]M{"bad_request": {{"LD_PRELOAD": "x"}, {"PATH": "."}, {"A=B": "x"}, {"A\x00": "x"}}, "too_large": {many}} {
			for _, e := range env {
				if r := d.call("workspace_shell", M{"command": "true", "env": e}); code(r) != want {
					t.Errorf("got %v, want %s", code(r), want)
				}
			}
		}
	})
	t.Run("X56 (part) an interpreter that waits for typing is T3 at least and has 30 s", func(t *testing.T) {
		for _, s := range []string{"python3 -i", "bash -i"} {
			c := held(t, argv(s), "")
			if l := lines(c); !strings.Contains(l, "after 30s") || !strings.Contains(l, "waits for somebody to type") {
				t.Errorf("%s: %s", s, l)
			}
		}
	})
	if now := walk(t, d.Root); fmt.Sprint(difference(before, now)) != fmt.Sprint(difference(before, before)) {
		t.Errorf("something ran: %v", difference(before, now))
	}
}

func TestProcessSandbox(t *testing.T) {
	t.Run("S105 (part) no field of a call lowers the confinement, and the operator's choice is on the card", func(t *testing.T) {
		d := quick(t, "[process]\nconfinement = \"off\"\n")
		held := d.shell("cat " + d.State + "/tokens/agent | head -c 3")
		if l := lines(d.card(held)); !strings.Contains(l, "NOT confined: the operator switched confinement off") {
			t.Errorf("got %s", l)
		}
		r := d.approve(held)
		if text(r, "result", "confinement", "level") != "none" || len(text(r, "result", "stdout")) != 3 {
			t.Errorf("without confinement the token is not readable either, so S58 proves nothing: %v", r)
		}
		d = quick(t, "[process]\nconfinement = \"required\"\n")
		for _, field := range []string{"confinement", "confined", "sandbox", "unconfined"} {
			if r := d.call("workspace_shell", M{"command": "true", field: "off"}); code(r) != "bad_request" {
				t.Errorf("%s: %v", field, r)
			}
		}
		if r := d.approve(d.shell("true")); text(r, "result", "confinement", "level") != "full" {
			t.Errorf("got %v", r)
		}
	})
	t.Run("a stop of the daemon ends what runs and says so", func(t *testing.T) {
		d := start(t)
		held := d.shell("touch began; sleep 64.5")
		_, row := d.http("GET", "/v1/approvals/"+text(held, "approval", "id"), d.reviewer(), nil)
		got := make(chan M, 1)
		token := d.reviewer()
		go func() {
			_, out, _ := d.tryHTTP("POST", "/v1/approvals/"+text(held, "approval", "id")+"/answer", token, M{"answer": "approve", "shown_digest": text(row, "card", "shown_digest")})
			got <- out
		}()
		for end := time.Now().Add(time.Minute); !d.has("began") && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		}
		syscall.Kill(d.cmd.Process.Pid, syscall.SIGTERM)
		out := <-got
		d.cmd.Wait()
		if text(out, "reply", "error", "code") != "cancelled" || text(out, "reply", "result", "termination") != "cancelled" || len(running("64.5")) > 0 {
			t.Errorf("got %v, alive %v", out, running("64.5"))
		}
	})
}
