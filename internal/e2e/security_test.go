//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ordinary starts a daemon as uid 65534, with a workspace and a state of that user's.
func ordinary(t *testing.T, root, state string) *daemon {
	t.Helper()
	const user = 65534
	if err := os.Chmod(filepath.Dir(binary), 0o755); err != nil {
		t.Fatal(err)
	}
	os.Chmod(filepath.Dir(root), 0o755)
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{root, state} {
		if err := exec.Command("chown", "-R", "-h", "65534:65534", p).Run(); err != nil {
			t.Fatal(err)
		}
	}
	d := underOn(t, root, state, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "HOME=/nonexistent")
	if st := mustStat(t, d.Socket); st.Uid != user {
		t.Fatalf("the daemon runs as %d", st.Uid)
	}
	return d
}

func mustStat(t *testing.T, p string) *syscall.Stat_t {
	t.Helper()
	info, err := os.Lstat(p)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t)
}

// asBoth runs a case as root and as an ordinary user; where the tests themselves run as one,
// as that. plant fills the workspace before the daemon starts.
func asBoth(t *testing.T, plant func(t *testing.T, root string), run func(t *testing.T, d *daemon)) {
	if uid := os.Geteuid(); uid != 0 {
		t.Run(fmt.Sprint("as uid ", uid, ", tests and all"), func(t *testing.T) {
			root, state := dirs(t)
			plant(t, root)
			run(t, underOn(t, root, state))
		})
		return
	}
	for _, who := range []string{"root", "uid 65534"} {
		t.Run("as "+who, func(t *testing.T) {
			root, state := dirs(t)
			plant(t, root)
			if who == "root" {
				run(t, underOn(t, root, state))
				return
			}
			run(t, ordinary(t, root, state))
		})
	}
}

func TestSecurityGit(t *testing.T) {
	t.Parallel()
	t.Run("S24 no command that a repository's own configuration names is ever run", func(t *testing.T) {
		asBoth(t, func(t *testing.T, root string) {
			write(t, filepath.Join(root, "f"), "one\n")
			gitIn(t, root, "init", "-q")
			gitIn(t, root, "add", "f")
			gitIn(t, root, "commit", "-qm", "first")
			evil := filepath.Join(root, "evil")
			write(t, evil, "#!/bin/sh\n: > "+filepath.Join(root, "canary")+"\n")
			os.Chmod(evil, 0o755)
			for _, k := range []string{"core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "diff.external", "diff.x.textconv", "diff.x.command", "filter.x.clean", "filter.x.smudge", "filter.x.process", "gpg.program", "core.hooksPath"} {
				gitIn(t, root, "config", k, evil)
			}
			write(t, filepath.Join(root, ".gitattributes"), "* filter=x diff=x\n")
			for _, hook := range []string{"post-checkout", "post-index-change", "fsmonitor-watchman"} {
				write(t, filepath.Join(root, ".git/hooks", hook), read(t, evil))
				os.Chmod(filepath.Join(root, ".git/hooks", hook), 0o755)
			}
		}, func(t *testing.T, d *daemon) {
			var c *mcpTools
			if int(mustStat(t, d.Socket).Uid) == os.Geteuid() {
				c = d.stdio("", nil)
			}
			for _, q := range []struct {
				op   string
				args M
			}{{"git_status", M{}}, {"git_diff", M{}}, {"git_log", M{}}, {"git_show", M{}}, {"git_blame", M{"path": "f"}}, {"diff_file", M{"path": "f", "content": "two\n"}}, {"detect_tests", M{}}, {"file_tree", M{}}} {
				d.call(q.op, q.args)
				if c != nil { // as the other user, only that user's programs may trust the socket
					c.try(q.op, q.args)
				}
			}
			if dec := object(d.preflight("edit_file", M{"path": "f", "old_string": "one", "new_string": "two"})["decision"]); dec["verdict"] != "auto" {
				t.Errorf("got %v", dec)
			}
			must(t, d.undo(must(t, d.call("edit_file", M{"path": "f", "old_string": "one", "new_string": "two"}), "done")), "done")
			must(t, d.undo(must(t, d.approve(must(t, d.call("delete_file", M{"path": "f"}), "review")), "done")), "done")
			if c != nil {
				c.done("edit_file", M{"path": "f", "old_string": "one", "new_string": "two"})
			}
			if _, err := os.Lstat(filepath.Join(d.Root, "canary")); !os.IsNotExist(err) {
				t.Error("a command of the repository's configuration ran")
			}
			// The negative: git itself runs it.
			exec.Command("git", "-c", "safe.directory=*", "-C", d.Root, "status").Run()
			if _, err := os.Lstat(filepath.Join(d.Root, "canary")); err != nil {
				t.Error("git did not run it either, so this shows nothing")
			}
		})
	})

	base, state := dirs(t)
	one, two := filepath.Join(base, "one"), filepath.Join(base, "two")
	write(t, filepath.Join(one, "f"), "one\n")
	gitIn(t, one, "init", "-q")
	gitIn(t, one, "add", "f")
	gitIn(t, one, "commit", "-qm", "first")
	linked := filepath.Join(base, "linked")
	gitIn(t, one, "worktree", "add", "-q", linked)
	write(t, filepath.Join(two, "f"), "two\n")
	write(t, filepath.Join(two, ".git"), "gitdir: "+filepath.Join(two, "fake")+"\n")
	write(t, filepath.Join(two, "fake", "commondir"), filepath.Join(one, ".git")+"\n")
	write(t, filepath.Join(two, "fake", "gitdir"), filepath.Join(one, ".git")+"\n")
	write(t, filepath.Join(two, "fake", "HEAD"), "ref: refs/heads/x\n")
	policy := policyFile(t, filepath.Dir(state), M{"id": "trusted", "workflow_ids": []string{"w"}, "operations": []string{"delete_file"}, "roots": []string{one}})
	d := quickOn(t, one, state, "[profiles.bot]\nrequire_approval = false\n", []string{"HOLDPOINT_TRUSTED_AUTOMATION_POLICY_FILE=" + policy}, "--root", "two="+two, "--root", "linked="+linked)
	bot := d.token(M{"name": "bot", "role": "agent", "workflow": "w", "profile": "bot"})
	verdict := func(root, op string, args M) M {
		_, r := d.http("POST", "/v1/preflight", bot, M{"op": op, "root": root, "args": args})
		if dec := object(r["decision"]); dec != nil {
			return dec
		}
		return r
	}
	t.Run("S27 a root that says it belongs to a trusted one inherits nothing, and a worktree's git data is outside", func(t *testing.T) {
		if got := verdict("one", "delete_file", M{"path": "f"}); got["verdict"] != "auto" {
			t.Fatalf("the trusted root is not: %v", got)
		}
		for _, root := range []string{"two", "linked"} {
			if got := verdict(root, "delete_file", M{"path": "f"}); got["verdict"] != "review" || got["trusted_policy_id"] != "" && got["trusted_policy_id"] != nil {
				t.Errorf("%s: %v", root, got)
			}
		}
		for _, p := range []string{"../one/.git/worktrees/linked/config", "../one/.git/config", filepath.Join(one, ".git/worktrees/linked/HEAD")} {
			if r := (M{"error": verdict("linked", "write_file", M{"path": p, "content": "x"})["error"]}); code(r) != "outside_workspace" {
				t.Errorf("%s: %v", p, r)
			}
		}
		_, held := d.http("POST", "/v1/call", d.Agent, M{"op": "workspace_shell", "root": "linked", "args": M{"command": "git", "args": []string{"config", "core.hooksPath", "x"}}})
		if text(held, "status") != "review" {
			t.Fatalf("got %v", held)
		}
		if all := strings.Join(words(d.card(held)["lines"]), "\n"); !strings.Contains(all, "git data lies outside") {
			t.Errorf("the card does not say where the setting would land:\n%s", all)
		}
		d.cancel(held)
	})
	t.Run("S28 hooks and git's configuration wait for a person whatever the set-up allows", func(t *testing.T) {
		write(t, filepath.Join(one, ".git/hooks/commit-msg"), "#!/bin/sh\n")
		for _, c := range []struct {
			op   string
			args M
		}{
			{"write_file", M{"path": ".git/hooks/pre-commit", "content": "x"}},
			{"write_file", M{"path": ".git/hooks/pre-push", "content": "x", "mode": "0755"}},
			{"edit_file", M{"path": ".git/config", "old_string": "[core]", "new_string": "[core]\n\tpager = x"}},
			{"copy_file", M{"source": "f", "destination": ".git/hooks/post-merge"}},
			{"move_file", M{"source": "f", "destination": ".git/hooks/post-merge"}},
			{"delete_file", M{"path": ".git/hooks/commit-msg"}},
			{"batch_file_ops", M{"operations": []M{{"op": "write_file", "args": M{"path": "h", "content": "x"}}, {"op": "move_file", "args": M{"source": "h", "destination": ".git/hooks/x"}}}}},
		} {
			got := verdict("one", c.op, c.args)
			if why := append(words(got["also"]), text(got, "reason")); got["verdict"] != "review" || !strings.Contains(strings.Join(why, " "), "protected_target") {
				t.Errorf("%s %v: %v", c.op, c.args, got)
			}
		}
	})
	t.Run("S29 a submodule's path with a carriage return is protected, marked and visible", func(t *testing.T) {
		write(t, filepath.Join(one, ".gitmodules"), "[submodule \"s\"]\n")
		edit := func(args M) M {
			_, r := d.http("POST", "/v1/call", d.Agent, M{"op": "edit_file", "root": "one", "args": args})
			return must(t, r, "review")
		}
		for _, bad := range []string{"\tpath = \"x\r\"\n", "\tpath = x\u200b\n", "\tpath = \"..\u2060/.git\"\n"} {
			held := edit(M{"path": ".gitmodules", "old_string": "[submodule \"s\"]\n", "new_string": "[submodule \"s\"]\n" + bad})
			c := d.card(held)
			if text(held, "decision", "reason") != "protected_target" || !strings.Contains(fmt.Sprint(c["warnings"]), "hidden_characters") || !strings.Contains(text(c, "diff"), `\u{`) {
				t.Errorf("%q: %v %v %q", bad, held["decision"], c["warnings"], text(c, "diff"))
			}
			d.cancel(held)
		}
	})
}

func TestSecurityUndo(t *testing.T) {
	t.Parallel()
	t.Run("S92 an undo takes back what it made and no file beside it", func(t *testing.T) {
		asBoth(t, func(t *testing.T, root string) {
			write(t, filepath.Join(root, "f"), "one\n")
			write(t, filepath.Join(root, "data/x"), "mine\n")
			gitIn(t, root, "init", "-q")
			gitIn(t, root, "add", "f")
			gitIn(t, root, "commit", "-qm", "first")
		}, func(t *testing.T, d *daemon) {
			before := digest(t, d.Root)
			e := must(t, d.call("edit_file", M{"path": "f", "old_string": "one", "new_string": "two"}), "done")
			g := filepath.Join(d.Root, "g")
			write(t, g, "new\n")
			stamp := mustStat(t, g).Ctim
			_, look := d.http("POST", "/v1/undo", d.Agent, M{"credential": e["undo_credential"], "dry_run": true})
			targets := objects(object(look["result"])["would"])
			if len(targets) != 1 || text(targets[0], "path") != "f" {
				t.Errorf("the preview lists %v", look)
			}
			must(t, d.undo(e), "done")
			if read(t, g) != "new\n" || mustStat(t, g).Ctim != stamp || read(t, filepath.Join(d.Root, "data/x")) != "mine\n" {
				t.Error("a file beside it was touched")
			}
			os.Remove(g)
			if digest(t, d.Root) != before {
				t.Error("not as before")
			}
		})
	})
}

func TestSecurityState(t *testing.T) {
	t.Parallel()
	socket := func(t *testing.T) []string {
		return []string{"HOLDPOINT_SOCKET=" + filepath.Join(shortDir(t), "s.sock")}
	}
	t.Run("S83 state, configuration and policy that others made or may write are not used", func(t *testing.T) {
		for what, spoil := range map[string]func(base, state, file string){
			"state group-writable":      func(_, s, _ string) { os.Mkdir(s, 0o700); os.Chmod(s, 0o770) },
			"state of another owner":    func(_, s, _ string) { os.Mkdir(s, 0o700) },
			"state a link":              func(b, s, _ string) { os.Mkdir(b+"/real", 0o700); os.Symlink("real", s) },
			"parent open to all":        func(b, _, _ string) { os.Chmod(b, 0o777) },
			"configuration group-write": func(_, _, f string) { os.Chmod(f, 0o660) },
			"configuration of another":  func(_, _, f string) {},
			"configuration a pipe":      func(_, _, f string) { os.Remove(f); syscall.Mkfifo(f, 0o600) },
		} {
			root, state := dirs(t)
			base := filepath.Dir(root)
			file := filepath.Join(base, "c.toml")
			write(t, file, "keep = \"30d\"\n")
			os.Chmod(file, 0o600)
			spoil(base, state, file)
			if what == "state of another owner" && !anothers(t, &state) || what == "configuration of another" && !anothers(t, &file) {
				continue
			}
			exit, out := refuses(t, root, state, socket(t), "--config", file)
			os.Chmod(base, 0o755)
			if exit == 0 || !strings.Contains(out, "state_unsafe") || !strings.Contains(out, base) && !strings.Contains(out, state) && !strings.Contains(out, file) {
				t.Errorf("%s: exit %d, %s", what, exit, out)
			}
			if strings.HasPrefix(what, "state") && len(entriesOf(t, state)) != 0 {
				t.Errorf("%s: something was made inside: %v", what, entriesOf(t, state))
			}
		}
		for what, spoil := range map[string]func(f string){
			"policy a link":        func(f string) { os.Rename(f, f+".real"); os.Symlink(f+".real", f) },
			"policy a pipe":        func(f string) { os.Remove(f); syscall.Mkfifo(f, 0o600) },
			"policy of another":    func(f string) {},
			"policy group-written": func(f string) { os.Chmod(f, 0o660) },
		} {
			root, state := dirs(t)
			file := policyFile(t, filepath.Dir(root), M{"id": "p", "workflow_ids": []string{"w"}, "operations": []string{"delete_file"}, "roots": []string{root}})
			if spoil(file); what == "policy of another" && !anothers(t, &file) {
				continue
			}
			exit, out := refuses(t, root, state, append(socket(t), "HOLDPOINT_TRUSTED_AUTOMATION_POLICY_FILE="+file))
			if exit == 0 || !strings.Contains(out, "policy") || !strings.Contains(out, file) {
				t.Errorf("%s: exit %d, %s", what, exit, out)
			}
		}
	})
	t.Run("S37 state, policy or socket inside a root stop the start, also when they are moved there later", func(t *testing.T) {
		root, state := dirs(t)
		d := underOn(t, root, state)
		d.stop(syscall.SIGTERM)
		inside := filepath.Join(root, "s")
		if err := os.Rename(state, inside); err != nil {
			t.Fatal(err)
		}
		lnk := filepath.Join(filepath.Dir(root), "lnk")
		os.Symlink("ws", lnk)
		for _, s := range []string{inside, filepath.Join(lnk, "s")} {
			if exit, out := refuses(t, root, s, socket(t)); exit == 0 || !strings.Contains(out, "state") {
				t.Errorf("%s: exit %d, %s", s, exit, out)
			}
		}
		if err := os.Rename(inside, state); err != nil {
			t.Fatal(err)
		}
		policy := policyFile(t, root, M{"id": "p", "workflow_ids": []string{"w"}, "operations": []string{"delete_file"}, "roots": []string{root}})
		if exit, out := refuses(t, root, state, append(socket(t), "HOLDPOINT_TRUSTED_AUTOMATION_POLICY_FILE="+policy)); exit == 0 || !strings.Contains(out, "inside a workspace") {
			t.Errorf("policy: exit %d, %s", exit, out)
		}
		if exit, out := refuses(t, root, state, []string{"HOLDPOINT_SOCKET=" + filepath.Join(root, "s.sock")}); exit == 0 {
			t.Errorf("socket: exit %d, %s", exit, out)
		}
	})
	t.Run("S104 as root it says so, keeps owners, follows no user's link and leaves shared names alone", func(t *testing.T) {
		asRoot := rootToo(t, "owners that are kept, and the word that the daemon runs as root: an ordinary user's daemon does not")
		root, state := dirs(t)
		write(t, filepath.Join(root, "mine"), "one\n")
		write(t, filepath.Join(filepath.Dir(root), "OUT/secret"), "outside\n")
		os.Symlink("../OUT/secret", filepath.Join(root, "l"))
		user, group := os.Geteuid(), os.Getegid()
		if asRoot {
			user, group = 65534, 65534
			if err := exec.Command("chown", "-R", "-h", "65534:65534", root).Run(); err != nil {
				t.Fatal(err)
			}
		}
		secret := filepath.Join(filepath.Dir(root), "OUT/secret")
		os.Link(secret, filepath.Join(root, "h"))
		d := underOn(t, root, state)
		_, s := d.http("GET", "/v1/status", d.reviewer(), nil)
		if strings.Contains(fmt.Sprint(s["warnings"]), "running_as_root") != asRoot || strings.Contains(d.Log.String(), "running as root") != asRoot {
			t.Errorf("root %v, and it says: %v\n%s", asRoot, s["warnings"], d.Log)
		}
		must(t, d.call("edit_file", M{"path": "mine", "old_string": "one", "new_string": "two"}), "done")
		must(t, d.call("write_file", M{"path": "new/file", "content": "x"}), "done")
		for _, p := range []string{"mine", "new", "new/file"} {
			if st := mustStat(t, filepath.Join(root, p)); int(st.Uid) != user || int(st.Gid) != group {
				t.Errorf("%s belongs to %d:%d", p, st.Uid, st.Gid)
			}
		}
		for p, want := range map[string]string{"l": "outside_workspace", "h": "hard_linked"} {
			if r := d.call("edit_file", M{"path": p, "old_string": "outside", "new_string": "x"}); code(r) != want {
				t.Errorf("%s: %v", p, r)
			}
		}
		if st := mustStat(t, secret); int(st.Uid) != os.Geteuid() || read(t, secret) != "outside\n" {
			t.Errorf("the outside file: uid %d", st.Uid)
		}
	})
}

func TestSecurityStored(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	d := underOn(t, root, state)
	var edits []M
	for i := range 5 {
		p := fmt.Sprintf("f%d", i)
		write(t, filepath.Join(root, p), fmt.Sprintf("old %d\n", i))
		edits = append(edits, must(t, d.call("edit_file", M{"path": p, "old_string": "old", "new_string": "new"}), "done"))
	}
	_, early, _ := d.cli("audit", "head")
	old := read(t, auditLog(t, state))
	must(t, d.call("edit_file", M{"path": "f0", "old_string": "new", "new_string": "newer"}), "done")
	_, head, _ := d.cli("audit", "head")
	if head == early || head == "" {
		t.Fatalf("heads: %q, %q", early, head)
	}
	d.stop(syscall.SIGTERM)
	whole := read(t, auditLog(t, state))
	t.Run("S97 what was changed in the stored records, or put back to an older state, is noticed and not mended", func(t *testing.T) {
		lines := strings.SplitAfter(strings.TrimSuffix(whole, "\n"), "\n")
		n := len(lines)
		flip := []byte(whole)
		flip[strings.Index(whole, `"outcome"`)+2] ^= 1
		swapped := append([]string{}, lines...)
		swapped[1], swapped[2] = swapped[2], swapped[1]
		for what, bad := range map[string]string{"a flipped byte": string(flip), "the last three cut": strings.Join(lines[:n-3], ""), "two swapped": strings.Join(swapped, ""), "an older copy": old} {
			write(t, auditLog(t, state), bad)
			exit, out := refuses(t, root, state, nil, "--review-auth", "token")
			if exit == 0 || !strings.Contains(out, "state_corrupt") || !strings.Contains(out, "record") {
				t.Errorf("%s: exit %d, %s", what, exit, out)
			}
			if read(t, auditLog(t, state)) != bad {
				t.Errorf("%s: the file was rewritten", what)
			}
		}
		write(t, auditLog(t, state), whole)
	})
	t.Run("S98 (part) a pre-image that is gone or altered costs its own undo alone, and a torn last record is dropped and said", func(t *testing.T) {
		kept := holding(t, state, "old 2\n")
		altered := holding(t, state, "old 3\n")
		if kept == "" || altered == "" {
			t.Fatal("no pre-image found in the store")
		}
		os.Remove(kept)
		write(t, altered, "OLD 3\n")
		write(t, auditLog(t, state), whole+`{"n":99,"ki`)
		d.run()
		d.operator()
		for i, e := range edits[1:] {
			r := d.undo(e)
			if bad := i == 1 || i == 2; bad != (r["status"] != "done") {
				t.Errorf("undo of f%d: %v %v", i+1, r["status"], r["error"])
			}
			want := fmt.Sprintf("old %d\n", i+1)
			if i == 1 || i == 2 {
				want = fmt.Sprintf("new %d\n", i+1)
			}
			if got := read(t, filepath.Join(root, fmt.Sprintf("f%d", i+1))); got != want {
				t.Errorf("f%d holds %q", i+1, got)
			}
		}
		if exit, out, errs := d.cli("audit", "verify"); exit != 0 {
			t.Errorf("%d %s %s", exit, out, errs)
		}
	})
}

// auditLog is the file that the chain of records lies in.
func auditLog(t *testing.T, state string) string {
	t.Helper()
	list, _ := filepath.Glob(filepath.Join(state, "audit", "*.jsonl"))
	if len(list) != 1 {
		t.Fatalf("logs: %v", list)
	}
	return list[0]
}

// holding finds the stored file with these bytes.
func holding(t *testing.T, state, content string) (found string) {
	filepath.Walk(state, func(p string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() && info.Size() == int64(len(content)) && read(t, p) == content {
			found = p
		}
		return nil
	})
	return found
}

func TestSecurityWatch(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	base := filepath.Dir(root)
	conf := filepath.Join(base, "policy")
	os.Mkdir(conf, 0o755)
	entry := M{"id": "p", "workflow_ids": []string{"w"}, "operations": []string{"delete_file"}, "roots": []string{root}}
	file := policyFile(t, conf, entry)
	d := quickOn(t, root, state, "[profiles.bot]\nrequire_approval = false\n", []string{"HOLDPOINT_TRUSTED_AUTOMATION_POLICY_FILE=" + file})
	bot := d.token(M{"name": "bot", "role": "agent", "workflow": "w", "profile": "bot"})
	write(t, filepath.Join(root, "f"), "one\n")
	write(t, filepath.Join(root, ".env"), "A=1\n")
	t.Run("S102 with the kernel's queue of events overflown, every decision still sees the files as they are", func(t *testing.T) {
		held := must(t, d.call("edit_file", M{"path": ".env", "old_string": "A", "new_string": "B"}), "review")
		ask := func() string {
			_, look := d.http("POST", "/v1/preflight", bot, M{"op": "delete_file", "args": M{"path": "f"}})
			return text(look, "decision", "verdict")
		}
		if ask() != "auto" {
			t.Fatal("the policy does not hold at first")
		}
		b, _ := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
		limit := 0
		fmt.Sscan(string(b), &limit)
		if limit == 0 || limit > 100_000 {
			t.Fatalf("the queue holds %d", limit)
		}
		syscall.Kill(d.cmd.Process.Pid, syscall.SIGSTOP)
		for i := range limit/2 + 1000 { // each makes at least two events in each watched folder
			for _, dir := range []string{conf, root} {
				p := filepath.Join(dir, "noise"+fmt.Sprint(i%2))
				if f, err := os.Create(p); err == nil {
					f.Close()
				}
				os.Remove(p)
			}
		}
		entry["roots"] = []string{filepath.Join(root, "none")}
		enc, _ := json.Marshal(M{"policies": []M{entry}})
		os.WriteFile(file, bytes.TrimSpace(enc), 0o600)
		write(t, filepath.Join(root, ".env"), "A=2\n")
		syscall.Kill(d.cmd.Process.Pid, syscall.SIGCONT)
		if got := ask(); got != "review" {
			t.Errorf("the old policy still holds: %s", got)
		}
		if r := d.approve(held); r["status"] == "done" || code(r) != "stale_precondition" && code(r) != "already_answered" {
			t.Errorf("the pending change went through: %v %v", r["status"], r["error"])
		}
		if read(t, filepath.Join(root, ".env")) != "A=2\n" {
			t.Error("the protected file was changed")
		}
		until := time.Now().Add(5 * time.Second)
		for ; ask() != "review" && time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		}
	})
}
