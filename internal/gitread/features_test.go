package gitread

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// features of repositories, and what becomes of each: "equal" to git's answer for status
// and log, an error code with a word of its sentence, or "undecided" for one path.
var features = []struct {
	name, want string
	make       func(*work)
}{
	{"packed objects, commit graph and multi-pack index", "equal", func(w *work) {
		history(w)
		w.git("gc", "-q")
		w.git("commit-graph", "write", "--reachable")
		w.git("multi-pack-index", "write")
	}},
	{"index version 4", "equal", func(w *work) { history(w); w.git("update-index", "--index-version", "4"); w.write("noeol", "x") }},
	{"index with untracked cache and end marks", "equal", func(w *work) {
		history(w)
		w.git("-c", "index.threads=4", "update-index", "--force-untracked-cache")
		w.git("status")
		w.write("u/v", "x")
	}},
	{"index without a checksum", "equal", func(w *work) { history(w); w.git("-c", "index.skipHash=true", "add", "-A") }},
	{"sparse checkout with a full index", "equal", func(w *work) {
		history(w)
		w.git("sparse-checkout", "set", "--no-cone", "/src/", "/docs/")
		w.write("src/main.go", "x\n")
	}},
	{"sparse checkout, once used", "equal", func(w *work) { history(w); w.git("sparse-checkout", "set", "src"); w.git("sparse-checkout", "disable") }},
	{"files to be taken as unchanged", "equal", func(w *work) { history(w); w.git("update-index", "--assume-unchanged", "noeol"); w.write("noeol", "x") }},
	{"no executable bits", "equal", func(w *work) {
		history(w)
		w.git("config", "core.fileMode", "false")
		os.Chmod(filepath.Join(w.dir, "tool.sh"), 0o644)
	}},
	{"shallow clone", "equal", func(w *work) {
		w.git("init", "-q", "up")
		for _, text := range []string{"1", "2", "3"} {
			w.write("up/a", text)
			w.git("-C", "up", "add", "a")
			w.git("-C", "up", "commit", "-q", "-m", text)
		}
		w.git("clone", "-q", "--depth", "2", "file://"+w.dir+"/up", "c")
		w.remove("up/a")
		os.Rename(filepath.Join(w.dir, "c"), filepath.Join(w.dir, "..", "c"))
		os.RemoveAll(w.dir + "/up")
		for _, f := range []string{".git", "a"} {
			if err := os.Rename(filepath.Join(w.dir, "..", "c", f), filepath.Join(w.dir, f)); err != nil {
				w.t.Fatal(err)
			}
		}
	}},
	{"objects borrowed inside the workspace", "equal", func(w *work) {
		w.git("init", "-q", "up")
		w.write("up/a", "a")
		w.git("-C", "up", "add", "a")
		w.git("-C", "up", "commit", "-q", "-m", "a")
		w.git("clone", "-q", "-s", "up", "c")
		os.Rename(filepath.Join(w.dir, "c", ".git"), filepath.Join(w.dir, ".git"))
		os.Rename(filepath.Join(w.dir, "c", "a"), filepath.Join(w.dir, "a"))
		w.remove("c")
	}},
	{"filter", "undecided", func(w *work) {
		history(w)
		w.write(".gitattributes", "noeol filter=f\n")
		w.git("config", "filter.f.clean", "touch "+w.dir+"/../canary; cat")
		w.write("noeol", "no line end\nbut new\nagain none")
	}},
	{"ident", "undecided", func(w *work) { history(w); w.write(".gitattributes", "noeol ident\n"); w.write("noeol", "x") }},
	{"another encoding in the work tree", "undecided", func(w *work) {
		history(w)
		w.write(".gitattributes", "noeol working-tree-encoding=UTF-16\n")
		w.write("noeol", "x")
	}},
	{"SHA-256", "git_unsupported sha256", func(w *work) { w.git("init", "-q", "--object-format=sha256") }},
	{"reftable", "git_unsupported reftable", func(w *work) {
		history(w)
		w.git("config", "core.repositoryFormatVersion", "1")
		w.git("config", "extensions.refStorage", "reftable")
	}},
	{"an extension that is not known", "git_unsupported extension", func(w *work) { history(w); w.git("config", "extensions.somethingNew", "true") }},
	{"a format that is not known", "git_unsupported format", func(w *work) { history(w); w.git("config", "core.repositoryFormatVersion", "7") }},
	{"a split index", "git_unsupported split", func(w *work) { history(w); w.git("update-index", "--split-index") }},
	{"a sparse index", "git_unsupported sparse", func(w *work) { history(w); w.git("sparse-checkout", "set", "--cone", "--sparse-index", "src") }},
	{"an included configuration", "git_unsupported includes", func(w *work) { history(w); w.git("config", "include.path", "/etc/other") }},
	{"folded case", "git_unsupported ignorecase", func(w *work) { history(w); w.git("config", "core.ignoreCase", "true") }},
	{"replaced objects, in a log", "git_unsupported replaced", func(w *work) {
		history(w)
		w.git("replace", strings.TrimSpace(w.git("rev-parse", "HEAD")), strings.TrimSpace(w.git("rev-parse", "HEAD~1")))
	}},
	{"grafts, in a log", "git_unsupported grafts", func(w *work) { history(w); w.write(".git/info/grafts", w.git("rev-parse", "HEAD")) }},
	{"an object that a partial clone left out", "git_unsupported not in the repository", func(w *work) {
		history(w)
		h := strings.TrimSpace(w.git("rev-parse", "HEAD^{tree}"))
		w.write("noeol", "x")
		w.remove(".git/objects/" + h[:2] + "/" + h[2:])
		w.remove(".git/index")
	}},
	{"a damaged index", "git_unsupported index", func(w *work) {
		history(w)
		w.write(".git/index", "DIRC\x00\x00\x00\x02\x00\x00\xff\xff and so on, for longer than that")
	}},
	{"a directory that looks like a bare repository", "not_found", func(w *work) { w.git("init", "-q", "--bare", ".") }},
	{"a git directory outside", "outside_workspace", func(w *work) {
		w.git("init", "-q", "--separate-git-dir", "../elsewhere.git")
	}},
	{"a git directory outside, by a link", "outside_workspace", func(w *work) {
		w.git("init", "-q", "../far")
		os.Symlink("../far/.git", filepath.Join(w.dir, ".git"))
	}},
	{"a common directory outside", "outside_workspace", func(w *work) {
		history(w)
		w.write(".git/commondir", "../../far/.git\n")
	}},
	{"objects borrowed outside", "outside_workspace", func(w *work) {
		history(w)
		w.write(".git/objects/info/alternates", "/etc/objects\n")
	}},
	{"a git directory outside that the operator named", "equal", func(w *work) {
		w.git("init", "-q", "--separate-git-dir", "../elsewhere/x.git")
		w.write("a", "a")
		w.commit("a")
		w.write("a", "b")
		w.more = append(w.more, openRoot(w.t, filepath.Join(filepath.Dir(w.dir), "elsewhere")))
	}},
}

func TestFeatures(t *testing.T) {
	for _, f := range features {
		t.Run(f.name, func(t *testing.T) {
			w := newWork(t)
			if strings.Contains(f.name, "elsewhere") || strings.Contains(f.name, "named") {
				if err := os.Mkdir(filepath.Join(w.dir, "..", "elsewhere"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			f.make(w)
			out, err := w.read(&op.GitStatusArgs{Untracked: "all"}, ".")
			if err == nil && strings.Contains(f.name, "log") {
				_, err = w.read(&op.GitLogArgs{}, ".")
			}
			if code, word, _ := strings.Cut(f.want, " "); strings.Contains(code, "_") {
				if e := op.AsError(err); err == nil || string(e.Code) != code || !strings.Contains(e.Message, word) {
					t.Fatalf("got %v, want %s", err, f.want)
				}
				t.Logf("%-60s refused: %v", f.name, err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if f.want == "undecided" {
				if got, _ := out["undecided"].([]string); !slices.Equal(got, []string{"noeol"}) {
					t.Errorf("undecided: got %q", got)
				}
				if _, err := os.Stat(filepath.Join(w.dir, "..", "canary")); err == nil {
					t.Error("a program of the configuration ran")
				}
				t.Logf("%-60s undecided", f.name)
				return
			}
			if got, want := asGit(t, out, "."), porcelain(w.git("status", "--porcelain", "-z", "--untracked-files=all")); !slices.Equal(got, want) {
				t.Errorf("status\ngot  %q\nwant %q", got, want)
			}
			if got, want := w.pages(op.GitLogArgs{}, "."), fromGit(w.git("log", format)); !slices.Equal(got, want) {
				t.Errorf("log\ngot  %q\nwant %q", got, want)
			}
			t.Logf("%-60s equal", f.name)
		})
	}
}

// TestConfined: a pointer that leads about never reads what lies outside, whatever it says.
func TestConfined(t *testing.T) {
	w := newWork(t)
	history(w)
	o := Options{Root: w.root, Others: []*rooted.Root(nil), Rules: rules{}}
	for _, to := range []string{"..", "../..", "/", "/etc", w.dir + "-evil", w.dir + "/../x", "../ws-evil/.git"} {
		if at, err := o.resolve(place{w.root, "."}, to); err == nil || op.AsError(err).Code != op.OutsideWorkspace {
			t.Errorf("%s: got %v %v", to, at.path, err)
		}
	}
	for _, to := range []string{".", "x", "x/../y", w.dir, w.dir + "/.git"} {
		if _, err := o.resolve(place{w.root, "."}, to); err != nil {
			t.Errorf("%s: %v", to, err)
		}
	}
}
