package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
)

// reasonOf is the leading reason that a write to a path would get; nothing is done.
func (d *daemon) reasonOf(t testing.TB, path string) string {
	t.Helper()
	look := d.preflight("write_file", M{"path": path, "content": "x"})
	if code(look) != "" {
		return code(look)
	}
	return text(look, "decision", "reason")
}

func TestProtected(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	in := func(p string) string { return filepath.Join(d.Root, p) }
	const guard, free = "protected_target", "low_impact_scoped_change"
	for _, c := range []struct {
		name string
		want string
		list []string
	}{
		{"C78 the ten defaults hold at any depth", guard, []string{".git", ".git/config", "sub/.git/hooks/pre-commit", ".env", "sub/.env", ".env.local", "a/b/.env.production", "server.pem", "x/server.key", "id_rsa", "id_rsa.pub",
			"x/id_ed25519_work", ".ssh/config", "x/.ssh/a/b", ".github/workflows/ci.yml", ".gitlab-ci.yml"}},
		{"C78 near misses are free", free, []string{".environment", "env", "key.txt", "pem", "my_id_rsa", "ssh/config", "github/workflows/x", "gitlab-ci.yml", ".gitx/config", ".github/CONTRIBUTING.md"}},
		{"C80 (part) a directory covers all below it, also as a plain file", guard, []string{".git/objects/00/x", ".claude/settings.json", ".vscode/tasks.json", ".husky/pre-commit", ".env/x"}},
		{"S18 other spellings of git's folder", guard, []string{".GIT/config", ".Git/hooks/post-checkout", ".g\u200cit/config", "sub/.giT/config", ".git./config", ".git /config", "git~1/config", ".git::$INDEX_ALLOCATION/config"}},
		{"S19 case does not matter", guard, []string{".cUrSoR/mcp.json", ".VSCODE/settings.json", ".Env", "server.PEM", ".GitHub/Workflows/x.yml"}},
		{"S26 git's file of a worktree at any depth", guard, []string{"sub/.git", "a/b/c/.git"}},
		{"S31 editor settings", guard, []string{".vscode/settings.json", "x.code-workspace"}},
		{"S32 an agent's server lists, absent before", guard, []string{".cursor/mcp.json", ".mcp.json", ".claude/settings.local.json"}},
		{"S36 (part) instruction files", guard, []string{"AGENTS.md", ".cursorrules", "CLAUDE.md", "sub/GEMINI.md"}},
		{"S28 (part) hooks", guard, []string{".git/hooks/pre-commit", ".githooks/x"}},
		{"S29 (part) submodules", guard, []string{".gitmodules"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, p := range c.list {
				if got := d.reasonOf(t, p); got != c.want {
					t.Errorf("%q: got %s, want %s", p, got, c.want)
				}
			}
		})
	}
	t.Run("C79 (part) the pipeline at the root is there by the policy's own list", func(t *testing.T) {
		for path, by := range map[string]string{".github/workflows/x": "/.github/workflows", ".gitlab-ci.yml": "/.gitlab-ci.yml"} {
			target := firstTarget(t, d.preflight("write_file", M{"path": path, "content": "x"}))
			if target["protected_by"] != by || target["protected_from"] != "builtin" {
				t.Errorf("%s: got %v from %v", path, target["protected_by"], target["protected_from"])
			}
		}
	})
	t.Run("S18, S65 (part) the card shows an ignorable character", func(t *testing.T) {
		held := must(t, d.call("write_file", M{"path": ".g\u200cit/config", "content": "x"}), "review")
		if lines := strings.Join(words(d.card(held)["lines"]), "\n"); !strings.Contains(lines, `.g\u{200C}it`) {
			t.Errorf("got %s", lines)
		}
		d.cancel(held)
	})
	t.Run("C86 both ends, what lies below, and parents to be made are looked at", func(t *testing.T) {
		write(t, in(".env"), "A=1\n")
		write(t, in("f"), "x\n")
		write(t, in("deep/a/.git/config"), "[core]\n")
		for _, c := range []struct {
			op   string
			args M
			lead string
			also []string
		}{
			{"copy_file", M{"source": ".env", "destination": "x"}, guard, nil},
			{"copy_file", M{"source": "f", "destination": ".env.bak"}, guard, nil},
			{"move_file", M{"source": "f", "destination": "sub/.git"}, "destructive_operation", []string{guard}},
			{"move_file", M{"source": ".env", "destination": "env"}, "destructive_operation", []string{guard}},
			{"create_directory", M{"path": ".ssh/new"}, guard, nil},
			{"create_directory", M{"path": "n/.git"}, guard, nil},
			{"create_directory", M{"path": ".cursor"}, guard, nil},
			{"write_file", M{"path": ".ssh/new/file", "content": "x"}, guard, nil},
			{"delete_file", M{"path": "deep", "recursive": true}, "destructive_operation", []string{guard}},
			{"move_file", M{"source": "deep", "destination": "deeper"}, "destructive_operation", []string{guard}},
			{"move_file", M{"source": "f", "destination": "y/.git"}, "destructive_operation", []string{guard}},
		} {
			held := must(t, d.call(c.op, c.args), "review")
			dec := object(held["decision"])
			if dec["reason"] != c.lead || len(c.also) > 0 && !reflect.DeepEqual(words(dec["also"]), c.also) || dec["mandatory"] != true {
				t.Errorf("%s %v: got %v", c.op, c.args, dec)
			}
			if c.args["path"] == "deep" || c.args["source"] == "deep" {
				if lines := strings.Join(words(d.card(held)["lines"]), "\n"); !strings.Contains(lines, "deep/a/.git") {
					t.Errorf("the card does not name what is protected below: %s", lines)
				}
			}
			d.cancel(held)
		}
	})
	t.Run("S30 making, moving in and carrying along a git folder always asks", func(t *testing.T) {
		for _, c := range []struct {
			op   string
			args M
		}{{"create_directory", M{"path": "n/.git"}}, {"move_file", M{"source": "f", "destination": "y/.git"}}, {"move_file", M{"source": "deep", "destination": "moved"}}, {"delete_file", M{"path": "deep/a", "recursive": true}}} {
			held := must(t, d.call(c.op, c.args), "review")
			reasons := append(words(object(held["decision"])["also"]), text(held, "decision", "reason"))
			if !strings.Contains(strings.Join(reasons, " "), guard) || !strings.Contains(strings.Join(words(d.card(held)["lines"]), "\n"), ".git") {
				t.Errorf("%s %v: got %v, %v", c.op, c.args, reasons, d.card(held)["lines"])
			}
			d.cancel(held)
		}
	})
	t.Run("S25 a folder that git would take for a repository is protected from the write that completes it", func(t *testing.T) {
		for _, f := range []string{"v/objects/x", "v/refs/x"} {
			must(t, d.call("write_file", M{"path": f, "content": "x"}), "done")
		}
		for _, f := range []string{"v/HEAD"} {
			held := must(t, d.call("write_file", M{"path": f, "content": "ref: refs/heads/x\n"}), "review")
			if text(held, "decision", "reason") != guard || firstTargetOf(d.card(held))["protected_from"] != "shape" {
				t.Fatalf("got %v", held["decision"])
			}
			must(t, d.approve(held), "done")
		}
		if got := d.reasonOf(t, "v/config"); got != guard {
			t.Errorf("v/config: got %s", got)
		}
		// One that has its objects elsewhere, and one whose HEAD a folding file system would find.
		write(t, in("elsewhere/HEAD"), "ref: refs/heads/x\n")
		write(t, in("elsewhere/commondir"), "../v\n")
		write(t, in("folded/objects/x"), "x")
		write(t, in("folded/refs/x"), "x")
		for _, f := range []string{"elsewhere/config.worktree", "elsewhere/hooks/pre-commit", "folded/head", "folded/Head"} {
			if got := d.reasonOf(t, f); got != guard {
				t.Errorf("%s: got %s", f, got)
			}
		}
	})
	t.Run("C85 (part) protected, approved, done: and the undo of an agent asks as well", func(t *testing.T) {
		done := must(t, d.approve(must(t, d.call("edit_file", M{"path": ".env", "old_string": "A", "new_string": "B"}), "review")), "done")
		held := must(t, d.undo(done), "review")
		if text(held, "decision", "reason") != guard {
			t.Fatalf("got %v", held["decision"])
		}
		must(t, d.approve(held), "done")
		if read(t, in(".env")) != "A=1\n" {
			t.Errorf("got %q", read(t, in(".env")))
		}
	})
	t.Run("the undo of a person does not", func(t *testing.T) {
		done := must(t, d.approve(must(t, d.call("edit_file", M{"path": ".env", "old_string": "A", "new_string": "B"}), "review")), "done")
		_, u := d.http("POST", "/v1/undo", d.reviewer(), M{"operation_id": done["operation_id"]})
		must(t, u, "done")
	})
	t.Run("S93 a forced undo over later work waits for a person, and can itself be taken back", func(t *testing.T) {
		write(t, in("w"), "one\n")
		r := must(t, d.call("edit_file", M{"path": "w", "old_string": "one", "new_string": "two"}), "done")
		write(t, in("w"), "theirs\n")
		u := d.undo(r)
		if msg := text(u, "error", "message"); code(u) != "undo_conflict" || !strings.Contains(msg, hashOf("two\n")) || !strings.Contains(msg, hashOf("theirs\n")) || read(t, in("w")) != "theirs\n" {
			t.Fatalf("got %v", u["error"])
		}
		_, held := d.http("POST", "/v1/undo", d.Agent, M{"credential": r["undo_credential"], "force": true})
		must(t, held, "review")
		if text(held, "decision", "reason") != "safety_override" || read(t, in("w")) != "theirs\n" {
			t.Fatalf("got %v", held["decision"])
		}
		done := must(t, d.approve(held), "done")
		if read(t, in("w")) != "one\n" {
			t.Fatalf("got %q", read(t, in("w")))
		}
		must(t, d.undo(done), "done")
		if read(t, in("w")) != "theirs\n" {
			t.Fatalf("the later work did not come back: %q", read(t, in("w")))
		}
		r = must(t, d.call("edit_file", M{"path": "w", "old_string": "theirs", "new_string": "three"}), "done")
		write(t, in("w"), "again\n")
		_, forced := d.http("POST", "/v1/undo", d.reviewer(), M{"operation_id": r["operation_id"], "force": true})
		must(t, forced, "done")
		if read(t, in("w")) != "theirs\n" {
			t.Errorf("a person's force: got %q", read(t, in("w")))
		}
	})
	t.Run("protect test and protect list say which pattern it is and where it comes from", func(t *testing.T) {
		exit, out, _ := d.cli("protect", "test", "sub/.env.local", "--json")
		got := M{}
		if json.Unmarshal([]byte(out), &got); exit != 0 || got["protected"] != true || got["protected_by"] != ".env.*" || got["protected_from"] != "builtin" {
			t.Errorf("exit %d: %s", exit, out)
		}
		exit, out, _ = d.cli("protect", "list")
		for _, p := range []string{".git", ".env.*", "*.pem", "/.gitlab-ci.yml", ".mcp.json", ".holdpoint-protect"} {
			if exit != 0 || !strings.Contains(out, p) {
				t.Errorf("%s is not in the list", p)
			}
		}
	})
}

func firstTargetOf(card M) M { return objects(card["targets"])[0] }

func TestPatterns(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"HOLDPOINT_PROTECTED_PATTERNS", "CHENG_FILE_OPS_PROTECTED_PATTERNS"} {
		t.Run("C83 "+name+" only adds", func(t *testing.T) {
			root, state := dirs(t)
			d := quickOn(t, root, state, "", []string{name + "=*.sql, /deploy/ ,docs/*.md"})
			for path, want := range map[string]string{"db/x.sql": "protected_target", "deploy/x": "protected_target", "docs/a.md": "protected_target", "sub/deploy/x": "low_impact_scoped_change", ".env": "protected_target", "docs/sub/a.md": "low_impact_scoped_change"} {
				if got := d.reasonOf(t, path); got != want {
					t.Errorf("%s: got %s, want %s", path, got, want)
				}
			}
			if target := firstTarget(t, d.preflight("write_file", M{"path": "x.sql", "content": "x"})); target["protected_from"] != "operator" || target["protected_by"] != "*.sql" {
				t.Errorf("got %v", target)
			}
		})
	}
	t.Run("C84 an operator's negation, or a line that cannot be read, stops the start", func(t *testing.T) {
		for _, v := range []string{"!.env", "*.sql,!.git", "[", "a\\"} {
			root, state := dirs(t)
			if exit, out := refuses(t, root, state, []string{"HOLDPOINT_PROTECTED_PATTERNS=" + v}); exit == 0 {
				t.Errorf("%q: started: %s", v, out)
			}
		}
	})
	t.Run("S23, C84 the workspace's own list only adds: a negated line is skipped and status says so", func(t *testing.T) {
		d := quick(t, "")
		in := func(p string) string { return filepath.Join(d.Root, p) }
		if got := d.reasonOf(t, "config/a.key2"); got != "low_impact_scoped_change" {
			t.Fatalf("before: %s", got)
		}
		write(t, in(".holdpoint-protect"), "# ours\n!.env\n/config/*.key2\nnotes/\n[\n")
		for path, want := range map[string]string{".env": "protected_target", "sub/.env": "protected_target", "config/a.key2": "protected_target", "sub/config/a.key2": "low_impact_scoped_change", "notes/x": "protected_target",
			".env.local": "protected_target", ".env/x": "protected_target", ".holdpoint-protect": "protected_target"} {
			if got := d.reasonOf(t, path); got != want {
				t.Errorf("%s: got %s, want %s", path, got, want)
			}
		}
		if target := firstTarget(t, d.preflight("write_file", M{"path": "config/a.key2", "content": "x"})); target["protected_from"] != "workspace" {
			t.Errorf("got %v", target)
		}
		_, status := d.http("GET", "/v1/status", d.Agent, nil)
		if warnings := objects(objects(status["roots"])[0]["warnings"]); len(warnings) != 2 {
			t.Errorf("warnings: %v", warnings)
		}
		write(t, in(".holdpoint-protect"), "")
		if got := d.reasonOf(t, "config/a.key2"); got != "low_impact_scoped_change" {
			t.Errorf("the list was not read anew: %s", got)
		}
	})
}

func TestStateInsideRoot(t *testing.T) {
	t.Parallel()
	t.Run("S37 (part) a root that holds the state, or lies in it, is refused at start, by every spelling", func(t *testing.T) {
		base := t.TempDir()
		ws := filepath.Join(base, "ws")
		write(t, filepath.Join(ws, "state", "keep"), "")
		os.Remove(filepath.Join(ws, "state", "keep"))
		os.Chmod(filepath.Join(ws, "state"), 0o700)
		os.Symlink("ws", filepath.Join(base, "lnk"))
		os.Symlink("ws/state", filepath.Join(base, "st"))
		for _, c := range [][2]string{{ws, filepath.Join(ws, "state")}, {filepath.Join(base, "lnk"), filepath.Join(ws, "state")}, {ws, filepath.Join(base, "st")},
			{filepath.Join(ws, "state"), filepath.Join(ws, "state")}, {base, filepath.Join(ws, "state")}} {
			if exit, out := refuses(t, c[0], c[1], []string{"HOLDPOINT_SOCKET=" + filepath.Join(base, "s.sock")}); exit != 6 && exit != 1 {
				t.Errorf("root %s, state %s: exit %d, %s", c[0], c[1], exit, out)
			}
		}
	})
	t.Run("C87, I110 where the operator insists, the state is out of reach of every operation and in no listing", func(t *testing.T) {
		root, _ := dirs(t)
		state := filepath.Join(root, "inner", "state")
		if err := os.MkdirAll(filepath.Dir(state), 0o700); err != nil {
			t.Fatal(err)
		}
		d := quickOn(t, root, state, "", nil, "--allow-broad-root")
		y := yard{daemon: d}
		os.Symlink("inner/state", filepath.Join(root, "st"))
		for _, p := range []string{"inner/state", "inner/state/journal.db", "inner/state/tokens/agent", "st/tokens/operator", "inner/../inner/state/audit", state + "/tokens/operator"} {
			for o, r := range y.each(t, p, reaching...) {
				if p == "inner/state" && o == "create_directory" {
					continue
				}
				if code(r) != "outside_workspace" {
					t.Errorf("%s %s: got %v %v", o, p, r["status"], r["error"])
				}
			}
		}
		list := fmt.Sprint(must(t, d.call("list_directory", M{"depth": 5, "show_hidden": true}), "done")["result"])
		if strings.Contains(list, "inner/state") || strings.Contains(list, "journal") {
			t.Errorf("it is listed: %s", list)
		}
		for _, c := range []struct {
			op   string
			args M
		}{{"delete_file", M{"path": "inner", "recursive": true}}, {"move_file", M{"source": "inner", "destination": "other"}}} {
			r := d.call(c.op, c.args)
			if r["status"] == "review" {
				r = d.approve(r)
			}
			if r["status"] == "done" {
				t.Errorf("%s of the folder that holds the state: %v", c.op, r)
			}
		}
		if status, _ := d.http("GET", "/v1/status", d.Agent, nil); status != 200 {
			t.Errorf("status: %d", status)
		}
	})
}

// policyFile writes a trusted-automation file beside the workspace.
func policyFile(t testing.TB, d string, policies ...M) string {
	t.Helper()
	b, err := json.Marshal(M{"policies": policies})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(d, "policy.json")
	write(t, file, string(b))
	os.Chmod(file, 0o600)
	return file
}

func TestTrusted(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	base := filepath.Dir(root)
	entry := M{"id": "nightly", "workflow_ids": []string{"clean"}, "operations": []string{"delete_file"}, "roots": []string{filepath.Join(root, "out")}}
	file := policyFile(t, base, entry)
	d := quickOn(t, root, state, "[profiles.bot]\nrequire_approval = false\n", []string{"HOLDPOINT_TRUSTED_AUTOMATION_POLICY_FILE=" + file})
	in := func(p string) string { return filepath.Join(d.Root, p) }
	bot := d.token(M{"name": "bot", "role": "agent", "workflow": "clean", "profile": "bot"})
	write(t, in("out/a"), "a\n")
	write(t, in("outer/a"), "a\n")
	write(t, in("src/a"), "a\n")
	write(t, in("out/.env"), "A=1\n")
	write(t, in("out/deep/.env"), "A=1\n")
	ask := func(t *testing.T, token, o string, args M) M {
		t.Helper()
		_, look := d.http("POST", "/v1/preflight", token, M{"op": o, "args": args})
		return object(look["decision"])
	}
	t.Run("C63, C113 both keys turned, a delete runs by itself, on record with the entry's id, and can be undone", func(t *testing.T) {
		before := digest(t, d.Root)
		_, r := d.send(bot, M{"op": "delete_file", "args": M{"path": "out/a"}, "execution_id": "x7"})
		must(t, r, "done")
		dec, rec := object(r["decision"]), d.last()
		if dec["reason"] != "trusted_automation" || dec["trusted_policy_id"] != "nightly" || dec["tier"] != "T4" || dec["pinned"] != true {
			t.Errorf("got %v", dec)
		}
		if rec["trusted_policy_id"] != "nightly" || rec["reason"] != "trusted_automation" || rec["decision"] != "auto_execute" || rec["workflow_id"] != "clean" || rec["execution_id"] != "x7" || rec["agent"] != "bot" {
			t.Errorf("audit: %v", rec)
		}
		if _, err := os.Lstat(in("out/a")); !os.IsNotExist(err) || len(d.cards("")) != 0 {
			t.Errorf("%v", err)
		}
		_, u := d.http("POST", "/v1/undo", bot, M{"credential": r["undo_credential"]})
		must(t, u, "done")
		if digest(t, d.Root) != before {
			t.Error("not as before")
		}
	})
	t.Run("C112, C106, C110 each key alone, another operation, place or workflow: it asks", func(t *testing.T) {
		for name, c := range map[string]struct {
			token, op string
			args      M
		}{
			"no opt-out":       {d.token(M{"name": "t1", "role": "agent", "workflow": "clean"}), "delete_file", M{"path": "out/a"}},
			"no workflow":      {d.token(M{"name": "t2", "role": "agent", "profile": "bot"}), "delete_file", M{"path": "out/a"}},
			"another workflow": {d.token(M{"name": "t3", "role": "agent", "workflow": "clean2", "profile": "bot"}), "delete_file", M{"path": "out/a"}},
			"another place":    {bot, "delete_file", M{"path": "src/a"}},
			"a longer name":    {bot, "delete_file", M{"path": "outer/a"}},
			"another op":       {bot, "move_file", M{"source": "out/a", "destination": "out/b"}},
			"the default":      {d.Agent, "delete_file", M{"path": "out/a"}},
		} {
			if dec := ask(t, c.token, c.op, c.args); dec["verdict"] != "review" || dec["reason"] != "destructive_operation" || dec["trusted_policy_id"] != "" {
				t.Errorf("%s: got %v", name, dec)
			}
		}
	})
	t.Run("C115 an entry covers no protected target, no safety flag and no drift", func(t *testing.T) {
		for _, args := range []M{{"path": "out/.env"}, {"path": "out/deep", "recursive": true}, {"path": "out/a", "force_overwrite": true}} {
			if dec := ask(t, bot, "delete_file", args); dec["verdict"] != "review" {
				t.Errorf("%v: got %v", args, dec)
			}
		}
		_, look := d.http("POST", "/v1/preflight", bot, M{"op": "delete_file", "args": M{"path": "out/a"}})
		write(t, in("out/a"), "changed\n")
		status, r := d.send(bot, M{"op": "delete_file", "args": M{"path": "out/a"}, "pins": look["pins"]})
		fails(t, status, r, 409, "stale_precondition")
		write(t, in("out/a"), "a\n")
	})
	t.Run("C107 an entry in the workspace or in the call has no effect", func(t *testing.T) {
		b, _ := os.ReadFile(file)
		for _, name := range []string{"policy.json", "trusted.json", ".holdpoint/policy.json", "holdpoint.toml"} {
			write(t, in(name), strings.ReplaceAll(string(b), "/out", ""))
		}
		if dec := ask(t, bot, "delete_file", M{"path": "src/a"}); dec["verdict"] != "review" {
			t.Errorf("got %v", dec)
		}
		for _, k := range []string{"policies", "trusted_policy_id", "workflow_id"} {
			status, r := d.send(d.Agent, M{"op": "delete_file", "args": M{"path": "out/a"}, k: "nightly"})
			fails(t, status, r, 400, "bad_request")
		}
	})
	t.Run("C114 on a bad reload trust is dropped, not kept, and status says so; mended it is back", func(t *testing.T) {
		policy := func() M {
			_, s := d.http("GET", "/v1/status", d.reviewer(), nil)
			return object(s["policy"])
		}
		until := func(what string, ok func() bool) {
			t.Helper()
			for end := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%s: not within 10 s: %v", what, policy())
				}
			}
		}
		good := read(t, file)
		trusts := func() bool { return ask(t, bot, "delete_file", M{"path": "out/a"})["verdict"] == "auto" }
		for what, spoil := range map[string]func(){
			"half a file":     func() { os.WriteFile(file, []byte(`{"policies":[`), 0o600) },
			"group may write": func() { os.Chmod(file, 0o660) },
			"gone":            func() { os.Rename(file, file+".away") },
		} {
			spoil()
			until(what, func() bool { return !trusts() })
			if p := policy(); text(p, "error") == "" {
				t.Errorf("%s: status says %v", what, p)
			}
			os.Remove(file + ".away")
			os.Remove(file)
			write(t, file, good)
			os.Chmod(file, 0o600)
			until(what+", mended", trusts)
		}
	})
	t.Run("C114 a policy that is missing, invalid, writable by others, or inside the workspace stops the start", func(t *testing.T) {
		good := read(t, file)
		place := func(name, content string, mode os.FileMode) string {
			p := filepath.Join(base, name)
			write(t, p, content)
			os.Chmod(p, mode)
			return p
		}
		pipe := filepath.Join(base, "pipe.json")
		syscall.Mkfifo(pipe, 0o600)
		os.Symlink("ok.json", filepath.Join(base, "link.json"))
		place("ok.json", good, 0o600)
		inside := filepath.Join(root, "inside.json")
		write(t, inside, good)
		os.Chmod(inside, 0o600)
		for what, p := range map[string]string{"missing": filepath.Join(base, "none.json"), "half": place("half.json", `{"policies":[`, 0o600), "wildcard": place("wild.json", strings.Replace(good, "clean", "*", 1), 0o600),
			"unknown key": place("key.json", strings.Replace(good, `"id"`, `"all":true,"id"`, 1), 0o600), "process": place("proc.json", strings.Replace(good, "delete_file", "workspace_shell", 1), 0o600),
			"group writes": place("group.json", good, 0o620), "others write": place("other.json", good, 0o602), "a pipe": pipe, "inside": inside} {
			state := filepath.Join(t.TempDir(), "state")
			exit, out := refuses(t, root, state, []string{"HOLDPOINT_TRUSTED_AUTOMATION_POLICY_FILE=" + p})
			if exit == 0 || !strings.Contains(out, "policy") {
				t.Errorf("%s: exit %d, %s", what, exit, out)
			}
		}
	})
	t.Run("the other name of the variable is taken too", func(t *testing.T) {
		root, state := dirs(t)
		write(t, filepath.Join(root, "out", "a"), "a\n")
		file := policyFile(t, filepath.Dir(root), merge(entry, M{"roots": []string{root}}))
		d := quickOn(t, root, state, "[profiles.bot]\nrequire_approval = false\n", []string{"CHENG_TRUSTED_AUTOMATION_POLICY_FILE=" + file})
		bot := d.token(M{"name": "bot", "role": "agent", "workflow": "clean", "profile": "bot"})
		_, r := d.send(bot, M{"op": "delete_file", "args": M{"path": "out/a"}})
		must(t, r, "done")
	})
}
