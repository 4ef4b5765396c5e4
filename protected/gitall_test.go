package protected

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

// Global excludes, exclude file and nested files together, as the guard asks (Ignorer) and
// as searches and trees ask on their way down (Scope): both equal to git's own verdict.
func TestAllSourcesEqualGit(t *testing.T) {
	r := seed(t)
	wrong, ignored, total := 0, 0, 0
	var byGlobal int
	for range max(1, caseCount(t)/2000) {
		dir := gitRepo(t)
		dirs := map[string]bool{}
		var paths []string
		for i := range 300 {
			p := aPath(r)
			if i%2 == 0 {
				if err := os.MkdirAll(filepath.Join(dir, p), 0o700); err != nil {
					t.Fatal(err)
				}
				for end := range ends(p) {
					dirs[p[:end]] = true
				}
			}
			paths = append(paths, p)
		}
		some := func() (lines []string) {
			for range 1 + r.IntN(3) {
				lines = append(lines, aLine(r))
			}
			return lines
		}
		write := func(name string, lines []string) {
			if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		global, exclude := some(), some()
		outside := filepath.Join(t.TempDir(), "global")
		write(outside, global)
		write(filepath.Join(dir, ".git/info/exclude"), exclude)
		files := []IgnoreFile{{".", global}, {".", exclude}}
		nested := map[string][]string{}
		deep := []string{}
		for d := range dirs {
			deep = append(deep, d)
		}
		slices.Sort(deep)
		for _, d := range append([]string{""}, deep...) {
			if d == "" && r.IntN(2) == 0 || d != "" && r.IntN(12) == 0 {
				nested[d] = some()
				write(filepath.Join(dir, d, ".gitignore"), nested[d])
				files = append(files, IgnoreFile{op.Path("./" + d), nested[d]})
			}
		}
		below := files[2:] // the order in which files below one another are found is not theirs to matter
		r.Shuffle(len(below), func(i, j int) { below[i], below[j] = below[j], below[i] })
		guard := NewIgnorer(files)
		var none *Scope
		// walked goes down to a path as a walk does: an ignored directory takes all below.
		walked := func(path string, isDir bool) bool {
			s := none.Within("", global).Within("", exclude).Within("", nested[""])
			for end := range ends(path) {
				if s.Ignores(path[:end], isDir || end < len(path)) {
					return true
				}
				if lines := nested[path[:end]]; lines != nil {
					s = s.Within(path[:end], lines)
				}
			}
			return false
		}
		cmd := exec.Command("git", "-c", "core.excludesFile="+outside, "check-ignore", "--no-index", "-v", "-n", "-z", "--stdin")
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(strings.Join(paths, "\x00")+"\x00")
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_DIR="+filepath.Join(dir, ".git"))
		out, err := cmd.Output()
		if err != nil && cmd.ProcessState.ExitCode() != 1 {
			t.Fatalf("git check-ignore: %v", err)
		}
		fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		if len(fields) != 4*len(paths) {
			t.Fatalf("git answered %d fields for %d paths", len(fields), len(paths))
		}
		for i, p := range paths {
			pattern := fields[4*i+2]
			want := pattern != "" && pattern[0] != '!'
			total++
			if want {
				ignored++
			}
			if fields[4*i] == outside {
				byGlobal++
			}
			for by, got := range map[string]bool{"guard": guard.Ignored(op.Path(p), dirs[p]), "walk": walked(p, dirs[p])} {
				if got != want {
					if wrong++; wrong < 10 {
						t.Errorf("%s, path %q (directory %v): got %v, git says %s; files %s", by, p, dirs[p], got, fmt.Sprintf("%q", fields[4*i:4*i+3]), fmt.Sprintf("%q", files))
					}
				}
			}
		}
	}
	t.Logf("%d cases, each for guard and walk, %d ignored, %d decided by the global file, %d wrong", total, ignored, byGlobal, wrong)
	if ignored == 0 || byGlobal == 0 {
		t.Error("nothing was ignored, or nothing by the global file: the test shows too little")
	}
}
