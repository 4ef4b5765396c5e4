//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// project makes a repository with what the commands below work on: two branches, files to
// rewrite, packages to install, code to format.
func project(t *testing.T, root string, files int) {
	t.Helper()
	for i := range files {
		write(t, filepath.Join(root, "text", fmt.Sprintf("d%d", i%7), fmt.Sprintf("f%d.txt", i)), fmt.Sprintf("old %d\nline\n", i))
	}
	for i := range 20 {
		write(t, filepath.Join(root, "code", fmt.Sprintf("p%d", i), "p.go"), fmt.Sprintf("package p%d\nfunc  F( ) int {\nreturn %d }\n", i, i))
	}
	write(t, filepath.Join(root, "go.mod"), "module example.test/m\n\ngo 1.21\n")
	write(t, filepath.Join(root, "gen", "gen.go"), "package gen\n\n//go:generate sh -c \"echo package gen > made.go; echo // $GOFILE >> made.go\"\n")
	write(t, filepath.Join(root, "package.json"), `{"name":"app","version":"1.0.0","dependencies":{"one":"file:local/one","two":"file:local/two"}}`)
	for _, n := range []string{"one", "two"} {
		write(t, filepath.Join(root, "local", n, "package.json"), `{"name":"`+n+`","version":"1.0.0"}`)
		write(t, filepath.Join(root, "local", n, "index.js"), "module.exports = 1\n")
	}
	for _, argv := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "-m", "one"}, {"checkout", "-q", "-b", "other"}} {
		git(t, root, argv...)
	}
	write(t, filepath.Join(root, "text", "d0", "f0.txt"), "of the other branch\n")
	write(t, filepath.Join(root, "only", "there"), "x\n")
	os.RemoveAll(filepath.Join(root, "text", "d1"))
	git(t, root, "add", "-A")
	git(t, root, "commit", "-q", "-m", "two")
	git(t, root, "checkout", "-q", "main")
}

func git(t *testing.T, dir string, argv ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.test", "-c", "gc.auto=0"}, argv...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", argv, err, out)
	}
}

// treeCommand is a script, and a name that is there when it has landed, if it makes one.
type treeCommand struct{ name, script, want string }

// quietTools keeps the tools of Go and node to themselves.
const quietTools = "export HOME=/tmp GOCACHE=/tmp/c GOPATH=/tmp/p GOFLAGS=-mod=mod GOTOOLCHAIN=local GOPROXY=off; "

// commands are what people run over whole trees.
func commands(build int) []treeCommand {
	return []treeCommand{
		{"go generate", quietTools + "go generate ./...", "gen/made.go"},
		{"sed -i over all files", "sed -i s/old/new/ text/*/*.txt", ""},
		{"git checkout of another branch", "git -c core.fileMode=true checkout -q other", "only/there"},
		{"npm install of local packages", quietTools + "npm install --offline --no-audit --no-fund --loglevel=error", "node_modules/one"},
		{"rm -rf of half the tree", "rm -rf text/d2 text/d3 text/d4 code", ""},
		{"a formatter over everything", quietTools + "gofmt -w .", ""},
		building(build),
	}
}

// building makes so many files in a hundred directories.
func building(build int) treeCommand {
	return treeCommand{fmt.Sprintf("a build that makes %d files", build), fmt.Sprintf(`awk 'BEGIN { for (d = 0; d < 100; d++) { system("mkdir -p build/d" d); for (i = 0; i < %d; i++) { f = "build/d" d "/o" i ".o"; printf "object %%d %%d\n", d, i > f; close(f) } } }'`, build/100), "build/d99"}
}

// ownRepository gives a clone of the repository that this test is of, with the branch "other"
// some way back where it has a history, packages to install, something to generate, and code without its indents.
func ownRepository(t *testing.T, root string) []treeCommand {
	t.Helper()
	here, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("git", "clone", "-q", "--depth", "60", "file://"+here, root).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	list, err := exec.Command("git", "-C", root, "rev-list", "--first-parent", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	if commits := strings.Fields(string(list)); len(commits) > 1 {
		git(t, root, "branch", "other", commits[len(commits)-1])
	} else { // a checkout without history gets another branch of its own
		git(t, root, "checkout", "-q", "-b", "other")
		git(t, root, "rm", "-q", "-r", "docs", "review")
		git(t, root, "commit", "-q", "-m", "the other branch")
		git(t, root, "checkout", "-q", "-")
	}
	write(t, filepath.Join(root, "gen", "gen.go"), "package gen\n\n//go:generate sh -c \"echo package gen > made.go; echo // $GOFILE >> made.go\"\n")
	write(t, filepath.Join(root, "package.json"), `{"name":"app","version":"1.0.0","dependencies":{"one":"file:local/one","two":"file:local/two"}}`)
	for _, n := range []string{"one", "two"} {
		write(t, filepath.Join(root, "local", n, "package.json"), `{"name":"`+n+`","version":"1.0.0"}`)
	}
	indent := exec.Command("sh", "-c", `git ls-files -z '*.go' | xargs -0 sed -i 's/^\t*//'`)
	indent.Dir = root
	if out, err := indent.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	git(t, root, "add", "-A")
	git(t, root, "commit", "-q", "-m", "to work on")
	modules, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return []treeCommand{
		{"go generate", quietTools + "export GOMODCACHE=" + strings.TrimSpace(string(modules)) + "; go generate ./...", "gen/made.go"},
		{"sed -i over 500 files", "git ls-files '*.go' | head -500 | xargs sed -i 's/e/E/'", ""},
		{"git checkout of another branch", "git checkout -q other", ""},
		{"npm install of local packages", quietTools + "npm install --offline --no-audit --no-fund --loglevel=error", "node_modules/one"},
		{"rm -rf of half the tree", "rm -rf internal docs", ""},
		{"a formatter over everything", quietTools + "gofmt -w .", ""},
	}
}

// wholeTrees runs each command as a rehearsal, lands it and undoes it.
// without leaves some out by the beginning of their names.
func wholeTrees(t *testing.T, d *daemon, commands []treeCommand, without ...string) {
	before := digest(t, d.Root)
	for _, c := range commands {
		if slices.ContainsFunc(without, func(w string) bool { return strings.HasPrefix(c.name, w) }) {
			continue
		}
		t.Run(c.name+" is rehearsed, landed and undone, digests equal at each end", func(t *testing.T) {
			d := on(d, t)
			held := d.call("workspace_shell", M{"script": c.script, "rehearse": true, "write_protected": true, "timeout_ms": 600000})
			must(t, held, "review")
			begin := time.Now()
			r := d.approve(held)
			card := time.Since(begin)
			set := object(object(r["result"])["change_set"])
			if text(set, "status") != "held" || text(r, "status") != "done" || object(r["result"])["exit_code"] != 0.0 {
				t.Fatalf("got %.3000v", r)
			}
			if digest(t, d.Root) != before {
				t.Fatal("the rehearsal changed the workspace")
			}
			ran, _ := object(r["result"])["duration_ms"].(float64)
			begin = time.Now()
			done := d.land(set)
			landing := time.Since(begin)
			if text(done, "status") != "done" {
				t.Fatalf("landing: %.3000v", done)
			}
			if digest(t, d.Root) == before || c.want != "" && !d.has(c.want) {
				t.Fatal("nothing landed")
			}
			copied := time.Duration(0)
			if strings.HasPrefix(c.name, "a build") {
				begin = time.Now()
				if out, err := exec.Command("cp", "-a", filepath.Join(d.Root, "build"), filepath.Join(filepath.Dir(d.Root), "copy")).CombinedOutput(); err != nil {
					t.Fatalf("%v %s", err, out)
				}
				copied = time.Since(begin)
				os.RemoveAll(filepath.Join(filepath.Dir(d.Root), "copy"))
			}
			begin = time.Now()
			undone := d.undo(done)
			if text(undone, "status") == "review" {
				undone = d.approve(undone)
			}
			must(t, undone, "done")
			if digest(t, d.Root) != before {
				t.Fatal("the undo did not bring it back")
			}
			t.Logf("ran %v, card %v after it, landed in %v, undone in %v, cp -a of the same %v; counts %v", time.Duration(ran)*time.Millisecond, card-time.Duration(ran)*time.Millisecond, landing, time.Since(begin), copied, set["counts"])
		})
	}
}

// TestRehearseReal is lean; HOLDPOINT_REHEARSE_BIG=1 makes it 500 files and a build of
// 20,000.
func TestRehearseReal(t *testing.T) {
	t.Parallel()
	files, build := 60, 200
	if os.Getenv("HOLDPOINT_REHEARSE_BIG") != "" {
		files, build = 500, 20_000
	}
	root, state := dirs(t)
	project(t, root, files)
	wholeTrees(t, startOn(t, root, state, nil), commands(build))
}

// TestRehearseRepository does the same in a clone of this repository.
func TestRehearseRepository(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	os.Remove(root)
	list := ownRepository(t, root)
	if os.Getenv("HOLDPOINT_REHEARSE_BIG") != "" {
		list = append(list, building(20_000))
	}
	wholeTrees(t, startOn(t, root, state, nil), list)
}

// plainly runs a daemon as a user without powers, on a root of theirs.
func plainly(t *testing.T, fill func(root string)) *daemon {
	t.Helper()
	const user = 65534
	root, state := dirs(t)
	base := filepath.Dir(root)
	os.Chmod(filepath.Dir(binary), 0o755)
	for p := base; p != "/" && p != os.TempDir(); p = filepath.Dir(p) {
		os.Chmod(p, 0o755)
	}
	os.Mkdir(state, 0o700)
	fill(root)
	for _, dir := range []string{root, state} {
		filepath.Walk(dir, func(p string, _ os.FileInfo, err error) error {
			if err == nil {
				err = os.Lchown(p, user, user)
			}
			return err
		})
	}
	return underOn(t, root, state, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "HOME=/nonexistent")
}

// TestRehearsePlainUser leaves out what takes longest, but with HOLDPOINT_REHEARSE_BIG=1.
func TestRehearsePlainUser(t *testing.T) {
	t.Parallel()
	var without []string
	if os.Getenv("HOLDPOINT_REHEARSE_BIG") == "" {
		without = []string{"npm", "go generate"}
	}
	d := plainly(t, func(root string) { project(t, root, 30) })
	wholeTrees(t, d, commands(200), without...)
}

func TestRehearseWithoutReview(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	conf := filepath.Join(filepath.Dir(root), "holdpoint.toml")
	write(t, conf, "[process]\nrehearse_without_review = true\nrehearse_outputs = [\"out/**\", \"*.log\"]\n")
	write(t, filepath.Join(root, "a"), "one\n")
	os.Mkdir(filepath.Join(root, "out"), 0o755)
	d := startOn(t, root, state, []string{"HOLDPOINT_CONFIG=" + conf})
	before := digest(t, root)
	run := func(t *testing.T, args M) (M, M) {
		t.Helper()
		on(d, t)
		r := d.call("workspace_shell", args)
		return r, object(object(r["result"])["change_set"])
	}
	t.Run("a rehearsal that changes nothing runs without a card, and the audit says why", func(t *testing.T) {
		r, set := run(t, M{"script": "cat a", "rehearse": true})
		if text(r, "status") != "done" || text(r, "decision", "reason") != "confined_rehearsal" || text(set, "status") != "empty" || text(r, "result", "stdout") != "one\n" {
			t.Fatalf("got %v", r)
		}
		if last := d.last(); text(last, "reason") != "confined_rehearsal" {
			t.Errorf("the audit: %v", last)
		}
	})
	t.Run("what the operator lists as outputs asks nobody", func(t *testing.T) {
		r, set := run(t, M{"script": "echo x > out/o; echo y > run.log", "rehearse": true})
		if text(r, "status") != "done" || text(set, "status") != "outputs" || len(d.cards("pending")) != 0 {
			t.Fatalf("got %v", r)
		}
	})
	t.Run("anything else is one card", func(t *testing.T) {
		r, set := run(t, M{"script": "echo x > out/o; echo two > a", "rehearse": true})
		if text(r, "status") != "done" || text(set, "status") != "held" || len(d.cards("pending")) != 1 {
			t.Fatalf("got %v", r)
		}
		if done := d.land(set); text(done, "status") != "done" {
			t.Fatalf("got %v", done)
		} else {
			must(t, d.undo(done), "done")
		}
	})
	t.Run("with the network, and without rehearse, a person is asked", func(t *testing.T) {
		for _, args := range []M{{"script": "cat a", "rehearse": true, "network": true}, {"script": "cat a"}} {
			r, _ := run(t, args)
			if text(r, "status") != "review" {
				t.Errorf("%v: got %v", args, r)
			}
			d.cancel(r)
		}
	})
	if digest(t, root) != before {
		t.Error("the workspace changed")
	}
}
