package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdpoint/op"
)

// gitAt runs the git program in a directory, away from the machine's own configuration.
func gitAt(t testing.TB, dir string, args ...string) string {
	t.Helper()
	c := exec.Command("git", append([]string{"-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always"}, args...)...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_OPTIONAL_LOCKS=0")
	out, err := c.Output()
	if err != nil {
		t.Fatalf("git %s: %v %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// hostileRepo makes a repository whose configuration names a program wherever git would start
// one; each makes a file of its own in the directory of canaries.
func hostileRepo(t testing.TB, dir, canaries string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(canaries, 0o755))
	gitAt(t, dir, "init", "-q")
	for i := range 20 {
		write(t, filepath.Join(dir, "src", fmt.Sprintf("f%02d.txt", i)), strings.Repeat(fmt.Sprintf("line %d\n", i), 10))
	}
	write(t, filepath.Join(dir, "old.txt"), strings.Repeat("to be renamed\n", 10))
	gitAt(t, dir, "add", "-A")
	gitAt(t, dir, "commit", "-q", "-m", "first")
	gitAt(t, dir, "mv", "old.txt", "new.txt")
	gitAt(t, dir, "commit", "-q", "-am", "second")
	bird := func(name string) string { return "touch " + filepath.Join(canaries, name) + "; cat" }
	hooks := filepath.Join(dir, ".git", "hooks")
	for _, h := range []string{"post-index-change", "pre-commit", "post-checkout", "reference-transaction", "fsmonitor-watchman", "pre-auto-gc"} {
		write(t, filepath.Join(hooks, h), "#!/bin/sh\ntouch "+filepath.Join(canaries, "hook-"+h)+"\n")
		must(os.Chmod(filepath.Join(hooks, h), 0o755))
	}
	for key, name := range map[string]string{
		"core.fsmonitor": "fsmonitor", "core.pager": "pager", "pager.log": "pager-log", "core.editor": "editor", "core.sshCommand": "ssh", "core.askPass": "askpass",
		"core.gitProxy": "proxy", "core.alternateRefsCommand": "alternates", "credential.helper": "credential", "diff.external": "external", "diff.x.command": "command", "diff.x.textconv": "textconv",
		"diff.x.cachetextconv": "true", "filter.f.clean": "clean", "filter.f.smudge": "smudge", "filter.f.process": "process", "filter.f.required": "true", "gpg.program": "gpg", "log.showSignature": "true",
		"uploadpack.packObjectsHook": "pack", "interactive.diffFilter": "filter", "merge.x.driver": "merge", "trailer.x.command": "trailer", "alias.status": "!alias", "remote.origin.vcs": "vcs",
		"remote.origin.url": "ext::sh -c touch", "remote.origin.promisor": "true", "extensions.partialClone": "origin",
	} {
		value := name
		if name != "true" {
			value = bird(name)
		}
		gitAt(t, dir, "config", key, value)
	}
	gitAt(t, dir, "config", "core.repositoryFormatVersion", "1")
	write(t, filepath.Join(dir, ".gitattributes"), "src/f00.txt filter=f\nsrc/f01.txt diff=x\n*.txt merge=x\n")
	for _, n := range []string{"f00", "f01", "f02"} {
		write(t, filepath.Join(dir, "src", n+".txt"), "changed\n"+strings.Repeat("line\n", 9))
	}
	write(t, filepath.Join(dir, "untracked"), "x\n")
}

// sung lists which canaries there are.
func sung(t testing.TB, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestGitReads(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	canaries := filepath.Join(filepath.Dir(root), "canaries")
	hostileRepo(t, root, canaries)
	before := digest(t, filepath.Join(root, ".git"))
	for _, n := range sung(t, canaries) { // what the making itself started
		os.Remove(filepath.Join(canaries, n))
	}
	elsewhere := filepath.Join(filepath.Dir(root), "elsewhere")
	if err := os.MkdirAll(elsewhere, 0o755); err != nil {
		t.Fatal(err)
	}
	gitAt(t, elsewhere, "init", "-q")
	write(t, filepath.Join(root, "spoof", ".git"), "gitdir: ../../elsewhere/.git\n")
	write(t, filepath.Join(root, "common", ".git", "HEAD"), "ref: refs/heads/main\n")
	write(t, filepath.Join(root, "common", ".git", "commondir"), "../../../elsewhere/.git\n")
	for _, p := range []string{"HEAD", "config", "objects/x", "refs/x"} {
		write(t, filepath.Join(root, "bare", p), "ref: refs/heads/main\n")
	}
	d := startOn(t, root, state, nil)
	done := func(t *testing.T, name string, args M) M {
		t.Helper()
		r := d.call(name, args)
		must(t, r, "done")
		result, _ := r["result"].(M)
		return result
	}
	t.Run("S24 C119 no program that a repository names starts in any reading, and the answers are right", func(t *testing.T) {
		status := done(t, "git_status", M{"paths": []string{":!spoof", ":!common", ":!bare"}})
		var got []string
		for _, e := range status["entries"].([]any) {
			got = append(got, text(e.(M), "status")+" "+text(e.(M), "path"))
		}
		if want := []string{"?? .gitattributes", " M src/f01.txt", " M src/f02.txt", "?? untracked"}; !slices.Equal(got, want) {
			t.Errorf("status: got %q, want %q", got, want)
		}
		if u, _ := status["undecided"].([]any); len(u) != 1 || u[0] != "src/f00.txt" {
			t.Errorf("undecided: got %v", u)
		}
		diff := done(t, "git_diff", M{"paths": []string{"src/f01.txt", "src/f02.txt"}})
		if s := text(diff, "diff"); !strings.Contains(s, "+changed\n") || strings.Count(s, "diff --git") != 2 {
			t.Errorf("diff: got %s", s)
		}
		done(t, "git_diff", M{"staged": true})
		done(t, "git_diff", M{"from": "HEAD~1", "to": "HEAD"})
		if log := done(t, "git_log", M{}); len(log["commits"].([]any)) != 2 {
			t.Errorf("log: got %v", log)
		}
		show := done(t, "git_show", M{})
		if f := show["files"].([]any); len(f) != 1 || text(f[0].(M), "status") != "R" || text(f[0].(M), "from") != "old.txt" {
			t.Errorf("show: got %v", show)
		}
		if b := done(t, "git_blame", M{"path": "src/f02.txt"}); b["total_lines"].(float64) != 10 {
			t.Errorf("blame: got %v", b)
		}
		r := d.call("git_show", M{"rev": strings.Repeat("1", 40)})
		if code(r) != "git_unsupported" {
			t.Errorf("an object that a lazy fetch would bring: got %v", r)
		}
		for _, args := range [][]string{{"call", "git_status"}, {"call", "git_log"}, {"call", "git_diff", "paths=src/f01.txt"}, {"call", "git_blame", "path=new.txt"}} {
			if status, out, errs := d.cli(args...); status != 0 || out == "" {
				t.Errorf("%v: exit %d\n%s%s", args, status, out, errs)
			}
		}
		done(t, "backup_file", M{"path": "untracked"})
		must(t, d.undo(must(t, d.call("write_file", M{"path": "made", "content": "x\n"}), "done")), "done")
		if status, r := d.http("POST", "/v1/preflight", d.Agent, M{"paths": []string{"src/f00.txt", "src/f01.txt"}}); status != 200 {
			t.Errorf("preflight: %d %v", status, r)
		}
		if list := sung(t, canaries); len(list) > 0 {
			t.Errorf("programs of the repository ran: %v", list)
		}
		if after := digest(t, filepath.Join(root, ".git")); after != before {
			t.Error("a reading changed the git directory")
		}
	})
	t.Run("C118 no reading of git, preview or detection of tests makes a row for a person", func(t *testing.T) {
		write(t, filepath.Join(root, "R.md"), "# Title\n")
		done(t, "preview_markdown", M{"path": "R.md"})
		done(t, "detect_tests", M{})
		done(t, "validate_file", M{"path": "R.md"})
		_, rows := d.http("GET", "/v1/approvals", d.reviewer(), nil)
		if list, _ := rows["approvals"].([]any); len(list) != 0 {
			t.Errorf("got %v", rows)
		}
	})
	t.Run("S24 (part) no read operation at all starts a program of the repository, nor does a watch", func(t *testing.T) {
		rows := map[op.Name]M{"view_file": {"path": "src/f01.txt"}, "list_directory": {"depth": 3, "show_hidden": true}, "file_tree": {"include_ignored": true, "show_hidden": true},
			"search_files": {"pattern": "line", "include_ignored": true, "show_hidden": true}, "file_info": {"path": "src/f00.txt"}, "diff_file": {"path": "src/f00.txt", "compare_path": "src/f01.txt"},
			"validate_file": {"path": "src/f01.txt", "format": "env"}, "preview_markdown": {"path": "R.md"}, "detect_tests": {}, "list_backups": {}, "list_profiles": {},
			"git_status": {"paths": []string{":!spoof", ":!common", ":!bare"}}, "git_diff": {"from": "HEAD~1"}, "git_log": {"paths": []string{"new.txt"}}, "git_show": {"rev": "HEAD~1"}, "git_blame": {"path": "src/f01.txt"}}
		d.changes(t, "", "")
		for _, spec := range op.Operations() {
			if spec.Class != op.Read || !spec.Built {
				continue
			}
			args, ok := rows[spec.Name]
			if !ok {
				t.Fatalf("no row for %s", spec.Name)
			}
			done(t, string(spec.Name), args)
			if list := sung(t, canaries); len(list) > 0 {
				t.Fatalf("%s: programs of the repository ran: %v", spec.Name, list)
			}
		}
		if git := object(done(t, "file_info", M{"path": "src/f00.txt"})["git"]); git["state"] != "undecided" {
			t.Errorf("what only a filter could tell: got %v", git)
		}
		if git := object(done(t, "file_info", M{"path": "src/f01.txt"})["git"]); git["state"] != "changed" || git["status"] != " M" {
			t.Errorf("a changed file: got %v", git)
		}
	})
	t.Run("S25 (part) a directory that looks like a bare repository is none for reading", func(t *testing.T) {
		r := d.call("git_status", M{"path": "bare"})
		if got := text(r, "result", "repository"); got != "." {
			t.Errorf("got %v", r)
		}
	})
	t.Run("S26 (part) S27 (part) a .git file or a commondir that leads out is refused, and nothing outside is told", func(t *testing.T) {
		for _, p := range []string{"spoof", "common"} {
			for _, name := range []string{"git_status", "git_log", "git_diff", "git_show"} {
				if r := d.call(name, M{"path": p}); code(r) != "outside_workspace" || strings.Contains(fmt.Sprint(r), elsewhere) {
					t.Errorf("%s %s: got %v", name, p, r)
				}
			}
		}
	})
	t.Run("the same repository starts programs under git, so that the canaries would sing", func(t *testing.T) {
		c := exec.Command("git", "status")
		c.Dir = root
		if out, err := c.CombinedOutput(); err != nil {
			t.Logf("git status: %v %s", err, out)
		}
		if len(sung(t, canaries)) == 0 {
			t.Error("no canary sings under git")
		}
	})
}
