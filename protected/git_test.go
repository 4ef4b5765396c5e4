package protected

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// gitAsks runs one `git check-ignore` over paths in dir and returns the deciding pattern
// of each, "" for none.
func gitAsks(t *testing.T, dir string, paths []string) map[string]string {
	t.Helper()
	cmd := exec.Command("git", "-c", "core.excludesFile=", "check-ignore", "--no-index", "-v", "-n", "-z", "--stdin")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_DIR="+filepath.Join(dir, ".git"))
	cmd.Stdin = strings.NewReader(strings.Join(paths, "\x00") + "\x00")
	var faults bytes.Buffer
	cmd.Stderr = &faults
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState.ExitCode() != 1 { // 1: no path is ignored
		t.Fatalf("git check-ignore: %v: %s", err, faults.String())
	}
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(fields) != 4*len(paths) {
		t.Fatalf("git answered %d fields for %d paths", len(fields), len(paths))
	}
	answers := map[string]string{}
	for i := 0; i < len(fields); i += 4 {
		answers[fields[i+3]] = fields[i+2]
	}
	return answers
}

func gitRepo(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	return dir
}

var names = []string{"a", "b", "c", "foo", "bar", "key.pem", ".env", "x.key", "c++", "f(1).txt", "a|b", "x$y", "a{b}", "sp ", "#x",
	"!x", "a.b", "A", "Foo", "fo?", "[a]", `a\b`, "foo-bar", "f*o", "]x", "a\r", "é", "^", "a,b", " l", "5", "foobar", "-", "\\", "\x01", "\xff"}

// aName gives mostly the first few, so that patterns and paths meet.
func aName(r *rand.Rand) string {
	if r.IntN(3) > 0 {
		return names[r.IntN(8)]
	}
	return names[r.IntN(len(names))]
}

func aPath(r *rand.Rand) string {
	parts := make([]string, 1+r.IntN(5))
	for i := range parts {
		parts[i] = aName(r)
	}
	return strings.Join(parts, "/")
}

var classes = []string{"[a-c]", "[!a]", "[^a]", "[a", "[]x]", "[!]]", "[[:alpha:]]", "[[:upper:][:digit:]]", "[![:space:]]", "[[:x:]]", "[a/b]",
	`[\]]`, `[a\-z]`, "[z-a]", "[-a]", "[a-]", "[[:]a]", "[[a]", `[\a-\c]`, "[!-~]", "[[::]]", "[]-a]", "[a-c-e]", `[a\`, "[[:alpha:]-z]", "[é]", "[f]", "[.]"}

// aLine makes a pattern of the whole grammar, well-formed or not.
func aLine(r *rand.Rand) string {
	var b strings.Builder
	if r.IntN(5) == 0 {
		b.WriteByte('!')
	}
	if r.IntN(4) == 0 {
		b.WriteByte('/')
	}
	for i, n := 0, 1+r.IntN(4)*r.IntN(2); i < n; i++ {
		if i > 0 {
			b.WriteString([]string{"/", "/", "/", "/", "/", "/", "/", `\/`, "//", "**/"}[r.IntN(10)])
		}
		switch r.IntN(6) {
		case 0:
			b.WriteString("**")
		case 1:
			b.WriteString("*")
		case 2, 3:
			b.WriteString(aName(r))
		default:
			b.WriteString(mutated(r, aName(r)))
		}
	}
	if r.IntN(4) == 0 {
		b.WriteByte('/')
	}
	if r.IntN(12) == 0 {
		b.WriteString([]string{" ", "  ", `\ `, "\r", " \r", `\`, "***", `\ \ `, "\t", "\x00z", `\  `}[r.IntN(11)])
	}
	return b.String()
}

// mutated replaces some bytes of a name by wildcards.
func mutated(r *rand.Rand, name string) string {
	var b strings.Builder
	for i := range len(name) {
		switch r.IntN(8) {
		case 0:
			b.WriteByte('?')
		case 1:
			b.WriteString(strings.Repeat("*", 1+r.IntN(3)))
		case 2:
			b.WriteString(classes[r.IntN(len(classes))])
		case 3:
			b.WriteString(`\` + name[i:i+1])
		case 4:
			b.WriteString(name[i:i+1] + "*")
		default:
			b.WriteByte(name[i])
		}
	}
	return b.String()
}

// caseCount is how many verdicts are compared with git's own.
func caseCount(t *testing.T) int {
	n := 6000
	if s := os.Getenv("HOLDPOINT_GITIGNORE_CASES"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatalf("HOLDPOINT_GITIGNORE_CASES: %v", err)
		}
	}
	return n
}

// seed is the same in every run unless HOLDPOINT_SEED names another.
func seed(t *testing.T) *rand.Rand {
	t.Helper()
	n, err := strconv.ParseUint(os.Getenv("HOLDPOINT_SEED"), 10, 64)
	if err != nil {
		n = 77
	}
	t.Logf("seed %d (set HOLDPOINT_SEED for another)", n)
	return rand.New(rand.NewPCG(n, 1))
}

// written is a list with the cases that a random one seldom is.
var written = [][]string{
	{`foo**/bar`}, {`/foo**`, `!foobar`}, {`a\/b`}, {`a[/]b`}, {`a[!x]b`}, {`/a[.-0]b`}, {`**`}, {`**/**`}, {`/**/`}, {`/`}, {`//`}, {`!`}, {`!/`}, {`\`}, {`\\`},
	{`*`, `!*/`, `!*.pem`}, {`foo/`, `!foo/bar`}, {`#x`, `\#x`}, {`\!x`}, {`sp\ `}, {`sp `}, {"foo\r"}, {"\ufefffoo"}, {"foo", "\ufeffbar"},
	{`?**/x`}, {`a/**/**/b`}, {`a/***/b`}, {`**foo`}, {`**/`}, {`foo/**/`}, {`*/`}, {`/*/*`}, {`[[:alpha:]`}, {`[`}, {`[]`}, {`[]]x`}, {`[!]`},
	{`**\/foo`}, {`foo\`}, {`foo\/`}, {"foo\x00bar"}, {"\x00"}, {``, ` `, "\r"}, {`./foo`}, {`../a`}, {`a//b`}, {`a/`, `!a/foo`, `a/foo`},
	{`*a*b*c*a*b*`}, {`d/`, `!d/sub/*`}, {`[a-`}, {`[a-]`}, {`[\`}, {`!!x`}, {`! x`}, {` foo`}, {`foo/*`, `!foo/bar/`}, {`**/a`, `!/a`},
	{`**//c/*/`}, {`*/**//*/x.key`},
}

// common paths stand in each list.
var common = []string{"a/b", "foo/bar", "foox/bar", "foobar", "foo/x/bar", "a", "a/x/b", "xfoo", "a/xb"}

func TestMatchEqualsGit(t *testing.T) {
	r := seed(t)
	const perList = 60
	var ignored, wrong, missed, extra int
	for left, list := caseCount(t), 0; left > 0; {
		dir := gitRepo(t)
		type job struct {
			own   *List
			lines []string
			dirs  map[string]bool
			paths []string
		}
		var jobs []job
		var all []string
		for ; left > 0 && len(jobs) < 100; left, list = left-perList, list+1 {
			j := job{dirs: map[string]bool{}}
			if list < len(written) {
				j.lines = written[list]
			} else {
				for range 1 + r.IntN(4) {
					j.lines = append(j.lines, aLine(r))
				}
			}
			base := fmt.Sprintf("L%d", len(jobs))
			for i := range min(perList, left) {
				p := aPath(r)
				if i < len(common) {
					p = common[i]
				} else if i%4 == 0 {
					j.dirs[p] = true
					if err := os.MkdirAll(filepath.Join(dir, base, p), 0o700); err != nil {
						t.Fatal(err)
					}
				}
				j.paths = append(j.paths, p)
				all = append(all, base+"/"+p)
			}
			// A path that stands as a parent of another is a directory too.
			for d := range j.dirs {
				for end := range ends(d) {
					j.dirs[d[:end]] = true
				}
			}
			os.MkdirAll(filepath.Join(dir, base), 0o700)
			if err := os.WriteFile(filepath.Join(dir, base, ".gitignore"), []byte(strings.Join(j.lines, "\n")), 0o600); err != nil {
				t.Fatal(err)
			}
			var err error
			if j.own, err = Compile(j.lines, "test"); err != nil {
				t.Fatal(err)
			}
			jobs = append(jobs, j)
		}
		git := gitAsks(t, dir, all)
		for i, j := range jobs {
			only := compileAdditions(j.lines)
			for _, p := range j.paths {
				want := git[fmt.Sprintf("L%d/%s", i, p)]
				wantIgnored := want != "" && want[0] != '!'
				gotIgnored, got := j.own.Match(p, j.dirs[p])
				if wantIgnored {
					ignored++
				}
				if got != want || gotIgnored != wantIgnored {
					if wrong++; wrong < 20 {
						t.Errorf("list %q, path %q (directory %v): got %v %q, git says %q", j.lines, p, j.dirs[p], gotIgnored, got, want)
					}
				}
				second := slices.ContainsFunc(only.seconds, func(s second) bool { return s.covers(p) })
				if second && !wantIgnored {
					extra++
				}
				if !second && wantIgnored && ascii(p) {
					if missed++; missed < 20 {
						t.Errorf("list %q, path %q: the second opinion misses what git ignores by %q", j.lines, p, want)
					}
				}
			}
		}
	}
	t.Logf("%d cases, %d ignored; own: %d wrong; second opinion: %d missed, %d more than git", caseCount(t), ignored, wrong, missed, extra)
	if ignored == 0 {
		t.Error("no path was ignored: the test shows nothing")
	}
}

func compileAdditions(lines []string) matchers {
	var m matchers
	for i, line := range lines {
		if i == 0 {
			line = strings.TrimPrefix(line, utf8BOM)
		}
		m.add(line, i, false)
	}
	return m
}

// Every byte against every named class and some others, as git has them.
func TestClassesEqualGit(t *testing.T) {
	dir := gitRepo(t)
	var lines []string
	for name := range posix {
		lines = append(lines, "q[[:"+name+":]]", "q[![:"+name+":]]")
	}
	for _, c := range classes {
		lines = append(lines, "q"+c)
	}
	var paths []string
	for i, line := range lines {
		base := fmt.Sprintf("L%d", i)
		if err := os.Mkdir(filepath.Join(dir, base), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, base, ".gitignore"), []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		for b := 1; b < 256; b++ {
			if b != '/' {
				paths = append(paths, base+"/q"+string([]byte{byte(b)}))
			}
		}
	}
	git := gitAsks(t, dir, paths)
	for i, line := range lines {
		own, err := Compile([]string{line}, "test")
		if err != nil {
			t.Fatal(err)
		}
		for b := 1; b < 256; b++ {
			name := "q" + string([]byte{byte(b)})
			if got, _ := own.Match(name, false); b != '/' && got != (git[fmt.Sprintf("L%d/%s", i, name)] != "") {
				t.Errorf("%s on byte %#x: got %v", line, b, got)
			}
		}
	}
}
