package e2e

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
)

// TestGitPatches makes random pairs of trees, lets git write the patch between them, and
// compares what patch_file makes of it with what git apply does. HOLDPOINT_PATCHES says
// how many; every fourth is applied to a tree that moved on meanwhile.
func TestGitPatches(t *testing.T) {
	t.Parallel()
	seed, n := seedOf(t), 120
	if v, err := strconv.Atoi(os.Getenv("HOLDPOINT_PATCHES")); err == nil {
		n = v
	}
	conf := filepath.Join(t.TempDir(), "c.toml")
	write(t, conf, "[profiles.default]\nrequire_approval = false\n")
	d := start(t, "--config", conf, "--review-auth=token")
	d.reviewerToken = strings.TrimSpace(read(t, filepath.Join(d.State, "tokens", "operator")))
	g := &gitPair{t: t, repo: t.TempDir(), rng: rand.New(rand.NewPCG(seed, 17))}
	g.git("init", "-q")
	same, refused := map[string]int{}, map[string]int{}
	for i := range n {
		g.pair()
		drift := i%4 == 3
		if drift {
			g.drift()
		}
		want, gitSays := g.apply()
		d.fill(g.old)
		before := digest(t, d.Root)
		r := d.call("patch_file", M{"patch_base64": base64.StdEncoding.EncodeToString(g.patch)})
		if r["status"] == "review" {
			r = d.approve(r)
		}
		kind := g.kind()
		fail := func(what string) {
			os.WriteFile(filepath.Join(os.TempDir(), "failed.patch"), g.patch, 0o644)
			t.Fatalf("seed %d, patch %d (%s, drift %v): %s\ngit: %s\nours: %v %v\n%s", seed, i, kind, drift, what, gitSays, r["status"], r["error"], g.patch)
		}
		if r["status"] != "done" {
			if digest(t, d.Root) != before {
				fail("it failed and something changed")
			}
			switch c := code(r); {
			case want == nil:
				same["refused by both: "+c]++
			case c == "symlink_refused" && g.links, c == "patch_parse" && g.links:
				refused[c+": links are never made or changed"]++
			case drift && (c == "ambiguous_match" || c == "patch_mismatch"):
				refused[c+": the place is not unique"]++
			case c == "bad_request" && strings.Contains(text(r, "error", "message"), "changes nothing"):
				refused[c+": nothing to change"]++
			default:
				fail("git applies it")
			}
			continue
		}
		if want == nil {
			fail("git refuses it")
		} else if got := g.tree(d.Root); !maps.Equal(got, want) {
			fail(fmt.Sprintf("the trees differ:\n got %q\nwant %q", got, want))
		} else {
			same["applied: "+kind]++
		}
		must(t, d.undo(r), "done")
		if digest(t, d.Root) != before {
			fail("its undo does not bring the start back")
		}
	}
	t.Logf("%d patches, seed %d", n, seed)
	for _, list := range []struct {
		what string
		n    map[string]int
	}{{"as git", same}, {"refused where git applies", refused}} {
		for _, k := range slices.Sorted(maps.Keys(list.n)) {
			t.Logf("%s: %s: %d", list.what, k, list.n[k])
		}
	}
	if len(same) < 5 {
		t.Error("hardly any kind of patch was compared")
	}
}

// fill puts a tree into the workspace in place of what is there.
func (d *daemon) fill(tree map[string]string) {
	d.fresh(nil)
	putTree(d.t, d.Root, tree)
}

// A tree is a map of names to contents: "x" before the content marks an executable, "l" a
// link, "f" any other file.
func putTree(t testing.TB, dir string, tree map[string]string) {
	t.Helper()
	for name, v := range tree {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		switch v[0] {
		case 'l':
			err = os.Symlink(v[1:], p)
		case 'x':
			err = os.WriteFile(p, []byte(v[1:]), 0o755)
		default:
			err = os.WriteFile(p, []byte(v[1:]), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

type gitPair struct {
	t        *testing.T
	repo     string
	rng      *rand.Rand
	old, new map[string]string
	patch    []byte
	links    bool
}

func (g *gitPair) git(args ...string) []byte {
	g.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", g.repo, "-c", "core.autocrlf=false", "-c", "core.safecrlf=false", "-c", "core.fileMode=true"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		g.t.Fatalf("git %v: %v\n%s", args, err, errs.String())
	}
	return out
}

// tree reads a directory back.
func (g *gitPair) tree(dir string) map[string]string {
	g.t.Helper()
	out := map[string]string{}
	filepath.Walk(dir, func(p string, info os.FileInfo, err error) error {
		rel, _ := filepath.Rel(dir, p)
		switch {
		case err != nil:
			g.t.Fatal(err)
		case rel == ".git":
			return filepath.SkipDir
		case info.Mode()&os.ModeSymlink != 0:
			to, _ := os.Readlink(p)
			out[rel] = "l" + to
		case info.Mode().IsRegular() && info.Mode()&0o100 != 0:
			out[rel] = "x" + read(g.t, p)
		case info.Mode().IsRegular():
			out[rel] = "f" + read(g.t, p)
		}
		return nil
	})
	return out
}

// stage puts a tree into the index and gives its id.
func (g *gitPair) stage(tree map[string]string) string {
	entries, _ := os.ReadDir(g.repo)
	for _, e := range entries {
		if e.Name() != ".git" {
			os.RemoveAll(filepath.Join(g.repo, e.Name()))
		}
	}
	putTree(g.t, g.repo, tree)
	g.git("add", "-A", "-f", ".")
	return strings.TrimSpace(string(g.git("write-tree")))
}

var gitNames = []string{"a.txt", "src/main.go", "src/b c.txt", "docs/caf\u00e9.md", "d/e/f", "q\"x", "tab\tname", "bin/run", "Makefile", "z\xffraw", "b/a", "a/b"}

func (g *gitPair) pair() {
	g.old, g.new = map[string]string{}, map[string]string{}
	for g.patch = nil; len(g.patch) == 0; {
		g.old = map[string]string{}
		for range 1 + g.rng.IntN(5) {
			g.old[g.name(g.old)] = g.file()
		}
		g.new = maps.Clone(g.old)
		for range 1 + g.rng.IntN(3) {
			g.change()
		}
		was := g.stage(g.old)
		is := g.stage(g.new)
		args := []string{"diff", "--binary", "--full-index", was, is}
		switch g.rng.IntN(6) {
		case 0:
			args = append(args, "-U0")
		case 1:
			args = append(args, "-U1", "-M")
		case 2:
			args = append(args, "--no-renames")
		case 3:
			args = append(args, "-M20%", "-C20%", "--find-copies-harder")
		case 4:
			args = append(args, "-M", "--patience", "-U10")
		case 5:
			args = append(args, "-B", "-M")
		}
		g.patch = g.git(args...)
	}
	g.links = false // a rename of a link shows no mode
	for _, tree := range []map[string]string{g.old, g.new} {
		for _, v := range tree {
			g.links = g.links || v[0] == 'l'
		}
	}
}

// name gives one that fits beside what is there.
func (g *gitPair) name(tree map[string]string) string {
	for {
		n := gitNames[g.rng.IntN(len(gitNames))]
		if g.rng.IntN(3) == 0 {
			n += strconv.Itoa(g.rng.IntN(5))
		}
		fits := true
		for have := range tree {
			fits = fits && have != n && !strings.HasPrefix(have, n+"/") && !strings.HasPrefix(n, have+"/")
		}
		if fits {
			return n
		}
	}
}

func (g *gitPair) file() string {
	if g.rng.IntN(25) == 0 {
		return "l" + gitNames[g.rng.IntN(4)]
	}
	return string("fffx"[g.rng.IntN(4)]) + g.content()
}

var gitWords = []string{"", "", "x := 1", "}", "{", "  a=1", "-- comment", "++ plus", "@@ -1 +1 @@", "--- a/x", "\\ No newline at end of file", "caf\u00e9", "\t\ttabs", " ", "a\x0cb\u2028c", "latin \xe9", "diff --git a/x b/x", "end"}

func (g *gitPair) content() string {
	switch g.rng.IntN(12) {
	case 0:
		return ""
	case 1:
		b := make([]byte, 1+g.rng.IntN(3000))
		for i := range b {
			b[i] = byte(g.rng.Uint32())
		}
		return string(b) + "\x00"
	}
	eol := "\n"
	if g.rng.IntN(5) == 0 {
		eol = "\r\n"
	}
	var b strings.Builder
	for i := range 1 + g.rng.IntN(40) {
		b.WriteString(gitWords[g.rng.IntN(len(gitWords))])
		if g.rng.IntN(2) == 0 {
			fmt.Fprintf(&b, " %d", i)
		}
		b.WriteString(eol)
	}
	s := b.String()
	if g.rng.IntN(4) == 0 {
		s = strings.TrimSuffix(s, eol)
	}
	return s
}

func (g *gitPair) pick() string {
	names := make([]string, 0, len(g.new))
	for n := range g.new {
		names = append(names, n)
	}
	sort.Strings(names)
	if len(names) == 0 {
		return ""
	}
	return names[g.rng.IntN(len(names))]
}

// change does something to the new tree.
func (g *gitPair) change() {
	n := g.pick()
	if n == "" {
		g.new[g.name(g.new)] = g.file()
		return
	}
	v := g.new[n]
	switch g.rng.IntN(12) {
	case 0:
		delete(g.new, n)
	case 1:
		g.new[g.name(g.new)] = g.file()
	case 2:
		delete(g.new, n)
		g.new[g.name(g.new)] = v
	case 3:
		delete(g.new, n)
		g.new[g.name(g.new)] = g.edited(v)
	case 4:
		if v[0] != 'l' {
			g.new[n] = map[byte]string{'f': "x", 'x': "f"}[v[0]] + v[1:]
		}
	case 5:
		g.new[g.name(g.new)] = g.edited(v)
	case 6:
		g.new[n] = g.file()
	default:
		g.new[n] = g.edited(v)
	}
}

// edited changes lines here and there, or bytes.
func (g *gitPair) edited(v string) string {
	if v[0] == 'l' {
		return v
	}
	lines := strings.SplitAfter(v[1:], "\n")
	for range 1 + g.rng.IntN(4) {
		i := g.rng.IntN(len(lines))
		switch g.rng.IntN(4) {
		case 0:
			lines = slices.Delete(lines, i, i+1)
			if len(lines) == 0 {
				lines = []string{""}
			}
		case 1:
			lines = slices.Insert(lines, i, gitWords[g.rng.IntN(len(gitWords))]+"\n")
		case 2:
			lines[i] = "changed " + lines[i]
		case 3:
			lines[len(lines)-1] = strings.TrimSuffix(lines[len(lines)-1], "\n") + map[bool]string{true: "\n", false: ""}[g.rng.IntN(2) == 0]
		}
	}
	return v[:1] + strings.Join(lines, "")
}

// drift lets the old tree move on after the patch was made.
func (g *gitPair) drift() {
	g.old = maps.Clone(g.old)
	for n, v := range g.old {
		if v[0] == 'l' || strings.Contains(v, "\x00") || len(v) < 3 {
			continue
		}
		g.old[n] = v[:1] + strings.Repeat(fmt.Sprintf("moved on %d\n", g.rng.IntN(1000)), 1+g.rng.IntN(4)) + v[1:]
	}
}

// apply gives the tree that git apply makes of the old one; nil when it refuses.
func (g *gitPair) apply() (map[string]string, string) {
	dir := filepath.Join(g.t.TempDir(), "x")
	os.Mkdir(dir, 0o755)
	defer os.RemoveAll(dir)
	putTree(g.t, dir, g.old)
	args := []string{"-C", dir, "apply", "--whitespace=nowarn"}
	if !bytes.Contains(g.patch, []byte("\n ")) { // no context anywhere: git wants to be told
		args = append(args, "--unidiff-zero")
	}
	cmd := exec.Command("git", args...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	cmd.Stdin = bytes.NewReader(g.patch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, string(out)
	}
	return g.tree(dir), "applied"
}

// kind names what is in the patch.
func (g *gitPair) kind() string {
	var out []string
	for _, k := range []struct{ what, mark string }{{"rename", "\nrename from "}, {"copy", "\ncopy from "}, {"mode", "\nold mode "}, {"new", "\nnew file mode "}, {"delete", "\ndeleted file mode "}, {"binary", "\nGIT binary patch"}} {
		if bytes.Contains(g.patch, []byte(k.mark)) {
			out = append(out, k.what)
		}
	}
	if len(out) == 0 {
		return "edits"
	}
	return strings.Join(out, ", ")
}
