package gitread

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdpoint/internal/rooted"
	"holdpoint/op"
	"holdpoint/protected"
)

// rules shows package protected to the package under test, as flow does.
type rules struct{ s *protected.Scope }

func (r rules) Within(dir string, lines []string) Rules { return rules{r.s.Within(dir, lines)} }
func (r rules) Ignores(p string, d bool) bool           { return r.s.Ignores(p, d) }

// work is a repository that the git program makes, in a workspace of its own.
type work struct {
	t    *testing.T
	dir  string
	root *rooted.Root
	more []*rooted.Root
	at   int64 // date of the next commit
}

func newWork(t *testing.T) *work {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &work{t: t, dir: filepath.Join(dir, "ws"), at: 1700000000}
	if err := os.Mkdir(w.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	w.root = openRoot(t, w.dir)
	return w
}

func openRoot(t testing.TB, dir string) *rooted.Root {
	t.Helper()
	root, err := rooted.Open(dir, rooted.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

// env keeps the machine's own configuration out of both sides.
func (w *work) env() []string {
	w.at += 60
	date := time.Unix(w.at, 0).UTC().Format("2006-01-02T15:04:05 +0000")
	return append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "HOME="+w.dir, "GIT_AUTHOR_NAME=A U Thor", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=C O Mitter", "GIT_COMMITTER_EMAIL=c@example.com", "GIT_AUTHOR_DATE="+date, "GIT_COMMITTER_DATE="+date, "GIT_OPTIONAL_LOCKS=0")
}

func (w *work) try(args ...string) (string, error) {
	c := exec.Command("git", append([]string{"-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main", "-c", "commit.gpgSign=false"}, args...)...)
	c.Dir, c.Env = w.dir, w.env()
	out, err := c.Output()
	var e *exec.ExitError
	if errors.As(err, &e) {
		err = errors.New(err.Error() + ": " + string(e.Stderr) + string(out))
	}
	return string(out), err
}

func (w *work) git(args ...string) string {
	w.t.Helper()
	out, err := w.try(args...)
	if err != nil {
		w.t.Fatalf("git %s: %v", strings.Join(args, " "), err)
	}
	return out
}

func (w *work) write(name, text string) {
	w.t.Helper()
	p := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *work) remove(name string) {
	w.t.Helper()
	if err := os.RemoveAll(filepath.Join(w.dir, name)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *work) commit(text string) {
	w.t.Helper()
	w.git("add", "-A")
	w.git("commit", "-q", "--allow-empty", "-m", text)
}

func (w *work) read(args any, path string) (map[string]any, error) {
	return Read(context.Background(), Options{Root: w.root, Others: w.more, Path: op.Path(path), Rules: rules{}}, args)
}

func (w *work) must(args any, path string) map[string]any {
	w.t.Helper()
	out, err := w.read(args, path)
	if err != nil {
		w.t.Fatalf("%T: %v", args, err)
	}
	return out
}

// lines numbers lines of text that differ from each other.
func lines(from, to int, mark string) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		b.WriteString(strings.Repeat("\t", i%3) + mark + " line " + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + "\n")
		if i%5 == 0 {
			b.WriteString("\n")
		}
	}
	return b.String()
}

// kinds are the repositories on which every answer is compared with git's.
var kinds = []struct {
	name string
	make func(*work)
}{
	{"empty repository", func(w *work) { w.git("init", "-q"); w.write("a", "a\n"); w.write("s/b", "b\n"); w.git("add", "a") }},
	{"plain", func(w *work) {
		history(w)
		w.write("src/main.go", lines(1, 60, "go")+"more\n")
		w.write("new.txt", "new\n")
		w.write("dir/deep/new.txt", "new\n")
		w.write("build/out.o", "ignored\n")
		w.write("x.log", "ignored\n")
		w.write("dir/kept.log", "not ignored\n")
		w.remove("docs/b.md")
		w.write("staged.txt", "staged\n")
		w.git("add", "staged.txt")
		w.write("staged.txt", "staged\nand changed\n")
	}},
	{"renames", func(w *work) {
		history(w)
		w.git("mv", "src/main.go", "src/renamed.go")
		w.git("mv", "docs/a.md", "docs/c.md")
		w.write("docs/c.md", lines(1, 40, "doc")+"a tail\n")
		w.git("mv", "tool.sh", "bin-tool.sh")
		w.git("add", "-A")
		w.write("src/renamed.go", lines(2, 60, "go"))
	}},
	{"modes and types", func(w *work) {
		history(w)
		os.Chmod(filepath.Join(w.dir, "tool.sh"), 0o644)
		os.Chmod(filepath.Join(w.dir, "docs/a.md"), 0o755)
		w.remove("link")
		w.write("link", "a file now\n")
		w.remove("docs/b.md")
		os.Symlink("a.md", filepath.Join(w.dir, "docs/b.md"))
		w.git("rm", "-q", "--cached", "src/util.go")
		w.remove("empty")
		w.write("empty/in", "a directory in the place of a file\n")
	}},
	{"merges, packed refs, detached", func(w *work) {
		history(w)
		w.git("checkout", "-q", "-b", "side", "HEAD~2")
		w.write("side.txt", "side\n")
		w.write("docs/a.md", lines(5, 40, "doc")+"at the end\n")
		w.commit("on the side")
		w.git("checkout", "-q", "main")
		w.git("merge", "-q", "--no-ff", "-m", "merge the side", "side")
		w.git("tag", "-a", "-m", "a tag", "v1")
		w.write("src/util.go", lines(3, 30, "util"))
		w.commit("after")
		w.git("pack-refs", "--all")
		w.git("gc", "-q")
		w.git("checkout", "-q", "--detach", "HEAD~1")
		w.write("src/util.go", lines(1, 33, "util"))
	}},
	{"conflicts", func(w *work) {
		history(w)
		w.git("checkout", "-q", "-b", "other")
		w.write("src/util.go", "theirs\n"+lines(2, 30, "util"))
		w.write("both", "theirs\n")
		w.git("rm", "-q", "docs/b.md")
		w.write("tool.sh", "theirs\n")
		w.commit("theirs")
		w.git("checkout", "-q", "main")
		w.write("src/util.go", "ours\n"+lines(2, 30, "util"))
		w.write("both", "ours\n")
		w.write("docs/b.md", "ours\n")
		w.git("rm", "-q", "tool.sh")
		w.commit("ours")
		if _, err := w.try("merge", "other"); err == nil {
			w.t.Fatal("the merge was to conflict")
		}
		w.write("loose", "untracked\n")
	}},
	{"line ends", func(w *work) {
		w.git("init", "-q")
		w.write(".gitattributes", "*.txt text\n*.auto text=auto\n*.bin binary\n*.crlf text eol=crlf\nsub/*.txt -text\n")
		for _, n := range []string{"a.txt", "b.auto", "c.bin", "d.crlf", "sub/e.txt", "f.plain"} {
			w.write(n, "one\ntwo\nthree\n")
		}
		w.commit("first")
		for _, n := range []string{"a.txt", "b.auto", "c.bin", "d.crlf", "sub/e.txt", "f.plain"} {
			w.write(n, "one\r\ntwo\r\nTHREE\r\n")
		}
	}},
	{"submodule", func(w *work) {
		w.git("init", "-q", "lib")
		w.write("lib/l.c", "l\n")
		w.git("-C", "lib", "add", "-A")
		w.git("-C", "lib", "commit", "-q", "-m", "lib")
		w.git("init", "-q")
		w.write("a", "a\n")
		w.git("submodule", "--quiet", "add", "./lib", "sub")
		w.git("submodule", "--quiet", "add", "./lib", "still")
		w.git("add", "a", "sub", "still")
		w.git("commit", "-q", "-m", "with a submodule")
		w.write("sub/l.c", "changed\n")
		w.write("other/.keep", "")
		w.git("init", "-q", "nested")
		w.write("nested/n", "n\n")
	}},
	{"worktree", func(w *work) {
		w.git("init", "-q", "main")
		w.write("main/a", "a\n")
		w.git("-C", "main", "add", "-A")
		w.git("-C", "main", "commit", "-q", "-m", "first")
		w.git("-C", "main", "worktree", "add", "-q", "-b", "wt", "../tree")
		w.write("tree/a", "changed\n")
		w.write("tree/b", "b\n")
		w.git("-C", "tree", "add", "b")
	}},
	{"odd names and intents", func(w *work) {
		w.git("init", "-q")
		for _, n := range []string{"sp ace", "tab\tname", "ünï", "-dash", "q\"uote", "d/a", "d-x", "d.y", "bytes\xff"} {
			w.write(n, n+"\n")
		}
		w.commit("odd")
		w.git("update-index", "--index-version", "4")
		for _, n := range []string{"sp ace", "ünï", "d/a", "bytes\xff"} {
			w.write(n, n+"\nchanged\n")
		}
		w.write("meant", "to be added\n")
		w.git("add", "-N", "meant")
	}},
}

// history makes six commits over some files.
func history(w *work) {
	w.git("init", "-q")
	w.write(".gitignore", "*.log\n/build/\n!dir/*.log\n")
	w.write("src/main.go", lines(1, 50, "go"))
	w.write("src/util.go", lines(1, 30, "util"))
	w.write("docs/a.md", lines(1, 40, "doc"))
	w.write("docs/b.md", "b\n")
	w.write("empty", "")
	w.write("tool.sh", "#!/bin/sh\necho one\necho two\necho three\n")
	os.Chmod(filepath.Join(w.dir, "tool.sh"), 0o755)
	os.Symlink("docs/a.md", filepath.Join(w.dir, "link"))
	w.commit("first\n\nwith a body\nof two lines")
	w.write("src/main.go", strings.Replace(lines(1, 50, "go"), "xx", "yy", 4))
	w.commit("second")
	w.write("src/util.go", lines(1, 10, "util")+"inserted\n"+lines(11, 30, "util"))
	w.write("docs/a.md", lines(5, 40, "doc"))
	w.commit("third")
	w.write("src/util.go", lines(1, 30, "util"))
	w.write("bin.dat", "\x00\x01\x02")
	w.commit("fourth")
	w.write("bin.dat", "\x00\x01\x03")
	w.write("src/main.go", lines(1, 60, "go"))
	w.write("noeol", "no line end")
	w.commit("fifth")
	w.write("noeol", "no line end\nbut now\nagain none")
	w.write("docs/a.md", lines(1, 40, "doc"))
	w.commit("sixth")
}

// tops are the work trees of a repository's kind.
func tops(kind string) []string {
	if kind == "worktree" {
		return []string{"main", "tree"}
	}
	return []string{"."}
}
