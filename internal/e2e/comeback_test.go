package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestComeback shows what an undo brings back, what it leaves alone, and when it refuses.
func TestComeback(t *testing.T) {
	t.Parallel()
	d := start(t)
	at := func(p string) string { return filepath.Join(d.Root, p) }
	edit := func(t *testing.T, p, from, to string) M {
		t.Helper()
		return must(t, d.call("edit_file", M{"path": p, "old_string": from, "new_string": to}), "done")
	}
	conflict := func(t *testing.T, r M) {
		t.Helper()
		before := stats(t, d.Root, "")
		got := d.undo(r)
		if code(got) != "undo_conflict" || got["effects_executed"] == true {
			t.Fatalf("got %v, want undo_conflict", got["error"])
		}
		if text(got, "error", "message") == "" || text(got, "error", "path") == "" {
			t.Errorf("the refusal does not say what differs: %v", got["error"])
		}
		same(t, before, stats(t, d.Root, ""))
	}

	t.Run("D52 an undo keeps what was written since; a forced one gives it a credential of its own", func(t *testing.T) {
		write(t, at("d52"), "v1\n")
		u := edit(t, "d52", "v1", "v2")
		write(t, at("d52"), "v3\n")
		conflict(t, u)
		got := d.undo(u)
		after := u["effects"].([]any)[0].(M)["after"].(M)
		if m := text(got, "error", "message"); !strings.Contains(m, text(after, "hash")) || !strings.Contains(m, text(got, "error", "current_hash")) || text(got, "error", "current_hash") == "" {
			t.Errorf("the refusal names not both hashes: %v", got["error"])
		}
		if exit, _, _ := d.cli("undo", text(u, "operation_id")); exit != 5 {
			t.Errorf("on the command line: exit %d, want 5", exit)
		}
		_, held := d.http("POST", "/v1/undo", d.Agent, M{"credential": u["undo_credential"], "force": true})
		if text(must(t, held, "review"), "decision", "reason") != "safety_override" {
			t.Errorf("an agent's force: %v, want safety_override", held["decision"])
		}
		forced := must(t, d.approve(held), "done")
		if read(t, at("d52")) != "v1\n" {
			t.Fatalf("forced: %q, want v1", read(t, at("d52")))
		}
		must(t, d.undo(forced), "done")
		if read(t, at("d52")) != "v3\n" {
			t.Fatalf("the forced undo undone: %q, want v3", read(t, at("d52")))
		}
	})
	t.Run("D53 a created file goes with its directories; an empty one comes back as it was", func(t *testing.T) {
		r := must(t, d.call("write_file", M{"path": "n/m/n.go", "content": "package n\n"}), "done")
		must(t, d.undo(r), "done")
		if _, err := os.Lstat(at("n")); !os.IsNotExist(err) {
			t.Errorf("the directories that the write made are still there: %v", err)
		}
		write(t, at("e.txt"), "")
		if err := os.Chmod(at("e.txt"), 0o604); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Setxattr(at("e.txt"), "user.k", []byte("v"), 0); err != nil {
			t.Fatal(err)
		}
		before := stats(t, at("e.txt"), "mtime")
		r = must(t, d.approve(must(t, d.call("write_file", M{"path": "e.txt", "content": "x"}), "review")), "done")
		must(t, d.undo(r), "done")
		same(t, before, stats(t, at("e.txt"), "mtime"))
		if x := xattrs(at("e.txt")); len(x) != 1 || x[0] != "user.k=v" {
			t.Errorf("attributes %q", x)
		}
	})
	t.Run("D54 what changed nothing has no credential and no undo", func(t *testing.T) {
		write(t, at("d54"), "dirty\n")
		before := stats(t, d.Root, "")
		_, log := d.http("GET", "/v1/operations", d.Agent, nil)
		session := "d54"
		for _, req := range []M{
			{"op": "edit_file", "args": M{"path": "d54", "old_string": "absent", "new_string": "x"}, "session": session},
			{"op": "view_file", "args": M{"path": "d54"}, "session": session},
			{"op": "create_directory", "args": M{"path": "."}, "session": session},
		} {
			_, r := d.http("POST", "/v1/call", d.Agent, req)
			if r["undo_credential"] != nil || r["operation_id"] != nil || r["effects_executed"] == true {
				t.Errorf("%v: got a credential, an operation or effects: %v", req["op"], r)
			}
		}
		if _, now := d.http("GET", "/v1/operations", d.Agent, nil); encode(t, now) != encode(t, log) {
			t.Error("the log grew")
		}
		exit, _, stderr := d.cli("undo", "--session", session)
		if exit != 6 || !strings.Contains(stderr, "undo_unknown") && !strings.Contains(stderr, "nothing") {
			t.Errorf("undo of the session: exit %d, %s", exit, stderr)
		}
		same(t, before, stats(t, d.Root, ""))
	})
	t.Run("D55 a file that was only looked for is not undone when somebody makes it", func(t *testing.T) {
		if _, r := d.http("POST", "/v1/call", d.Agent, M{"op": "view_file", "args": M{"path": "d55"}, "session": "d55"}); code(r) != "not_found" {
			t.Fatalf("view: %v", r)
		}
		write(t, at("d55"), "mine\n")
		before := stats(t, d.Root, "")
		if exit, _, _ := d.cli("undo", "--session", "d55"); exit != 6 {
			t.Errorf("exit %d, want 6", exit)
		}
		same(t, before, stats(t, d.Root, ""))
	})
	t.Run("D57 the undo of a move takes back what was moved, not what stands there since", func(t *testing.T) {
		write(t, at("d57a"), "moved\n")
		r := must(t, d.approve(must(t, d.call("move_file", M{"source": "d57a", "destination": "d57b"}), "review")), "done")
		if err := os.Remove(at("d57b")); err != nil {
			t.Fatal(err)
		}
		write(t, at("d57b"), "another\n")
		conflict(t, r)
		if _, err := os.Lstat(at("d57a")); !os.IsNotExist(err) {
			t.Errorf("the source was made: %v", err)
		}
	})
	t.Run("D61 a created file that somebody added to stays", func(t *testing.T) {
		r := must(t, d.call("write_file", M{"path": "d61", "content": "A\n"}), "done")
		write(t, at("d61"), "A\nB\n")
		conflict(t, r)
		if read(t, at("d61")) != "A\nB\n" {
			t.Errorf("got %q", read(t, at("d61")))
		}
	})
	t.Run("D58 of 1,000 files an undo touches the one, and gives it its old time back", func(t *testing.T) {
		for i := range 1000 {
			write(t, at(fmt.Sprintf("many/%02d/f%03d", i%50, i)), fmt.Sprintf("number %d.\n", i))
		}
		one := at("many/07/f507")
		if err := os.Chmod(one, 0o751); err != nil {
			t.Fatal(err)
		}
		others, old := stats(t, at("many"), "ctime", one), stats(t, one, "mtime")
		must(t, d.undo(edit(t, "many/07/f507", "507.", "five hundred and seven")), "done")
		same(t, others, stats(t, at("many"), "ctime", one))
		same(t, old, stats(t, one, "mtime"))
	})
}

// TestComebackBesideGit works in a repository with staged changes, untracked and ignored
// files, and repositories inside.
func TestComebackBesideGit(t *testing.T) {
	t.Parallel()
	d := start(t)
	at := func(p string) string { return filepath.Join(d.Root, p) }
	write(t, at("a.txt"), "committed\n")
	write(t, at(".gitignore"), ".env\nout/\n")
	gitIn(t, d.Root, "init", "-q")
	gitIn(t, d.Root, "add", ".")
	gitIn(t, d.Root, "commit", "-qm", "first")
	write(t, at("a.txt"), "staged\n")
	gitIn(t, d.Root, "add", "a.txt")
	write(t, at("a.txt"), "in the worktree\n")
	write(t, at("untracked/data.bin"), "\x00\x01")
	write(t, at("out/data.bin"), "built")
	write(t, at(".env"), "TOKEN=1\n")
	write(t, at("sub/f.txt"), "in a repository inside\n")
	gitIn(t, at("sub"), "init", "-q")
	write(t, at("sub2/f.txt"), "beside a pointer\n")
	write(t, at("sub2/.git"), "gitdir: ../sub/.git\n")
	changed := []string{at("a.txt"), at("sub/f.txt"), at("sub2/f.txt")}
	before := digest(t, d.Root)
	status := gitIn(t, d.Root, "--no-optional-locks", "status", "--porcelain")
	git := map[string]string{}
	for _, p := range []string{".git", "sub/.git", "sub2/.git"} {
		git[p] = stats(t, at(p), "ctime")
	}
	others := stats(t, d.Root, "files", changed...)
	untouched := func(t *testing.T, when string) {
		t.Helper()
		for p, want := range git {
			if stats(t, at(p), "ctime") != want {
				t.Fatalf("%s: %s was touched", when, p)
			}
		}
		same(t, others, stats(t, d.Root, "files", changed...))
	}

	t.Run("D51, D62, S94 50 edits, undos and refused undos leave index, objects, staged and untracked files alone", func(t *testing.T) {
		for i := range 50 {
			e := must(t, d.call("edit_file", M{"path": "a.txt", "old_string": "in the worktree", "new_string": fmt.Sprint("changed ", i)}), "done")
			untouched(t, fmt.Sprint("after edit ", i))
			must(t, d.undo(e), "done")
			if got := d.undo(e); code(got) != "undo_consumed" {
				t.Fatalf("got %v, want undo_consumed", got["error"])
			}
			if i == 25 {
				e := must(t, d.call("edit_file", M{"path": "a.txt", "old_string": "in the worktree", "new_string": "x"}), "done")
				write(t, at("a.txt"), "by hand\n")
				if got := d.undo(e); code(got) != "undo_conflict" {
					t.Fatalf("got %v, want undo_conflict", got["error"])
				}
				write(t, at("a.txt"), "in the worktree\n")
			}
			untouched(t, fmt.Sprint("after undo ", i))
		}
		if got := gitIn(t, d.Root, "--no-optional-locks", "status", "--porcelain"); got != status || gitIn(t, d.Root, "show", ":a.txt") != "staged\n" {
			t.Errorf("git status: %q, want %q", got, status)
		}
		if digest(t, d.Root) != before {
			t.Error("the tree is not what it was")
		}
	})
	t.Run("D56 (part) files in repositories inside are undoable, and no .git entry is ever touched", func(t *testing.T) {
		for _, p := range []string{"sub/f.txt", "sub2/f.txt"} {
			was := read(t, at(p))
			e := must(t, d.call("edit_file", M{"path": p, "old_string": was, "new_string": "changed\n"}), "done")
			untouched(t, "after an edit of "+p)
			must(t, d.undo(e), "done")
			untouched(t, "after the undo of "+p)
			r := must(t, d.approve(must(t, d.call("delete_file", M{"path": p}), "review")), "done")
			must(t, d.undo(r), "done")
			untouched(t, "after delete and undo of "+p)
		}
		if digest(t, d.Root) != before {
			t.Error("the tree is not what it was")
		}
	})
}

// gitIn runs git in a directory, without the configuration of whoever runs the tests.
func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "safe.directory=*"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// stats writes down a tree with bytes, one entry a line. times is "" for none, "mtime", or
// "ctime" for inode and both times; "files" is "ctime" for files alone. Entries named in
// but are left out, and then the times of directories too: a change moves them.
func stats(t *testing.T, root, times string, but ...string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		for _, x := range but {
			if p == x {
				return nil
			}
		}
		var st syscall.Stat_t
		if err := syscall.Lstat(p, &st); err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %o %d %d", p, st.Mode, st.Uid, st.Gid)
		if times == "mtime" {
			fmt.Fprint(&b, " ", st.Mtim)
		}
		if times == "ctime" && !(e.IsDir() && len(but) > 0) || times == "files" && !e.IsDir() {
			fmt.Fprint(&b, " ", st.Ino, st.Mtim, st.Ctim)
		}
		if e.Type().IsRegular() {
			c, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %q", c)
		}
		fmt.Fprintln(&b)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// same compares two of those and shows the first line that differs.
func same(t *testing.T, want, got string) {
	t.Helper()
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			t.Fatalf("got %s, want %s", g[i], w[i])
		}
	}
	if len(w) != len(g) {
		t.Fatalf("%d entries, want %d", len(g), len(w))
	}
}
