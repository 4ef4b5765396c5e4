//go:build linux

package shellexec

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// goCache is where compiled packages lie; a confined program reads it and cannot add.
func goCache(t *testing.T) string {
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Skip("there is no go here")
	}
	return strings.TrimSpace(string(out))
}

// published gives a copy of a module that this one is built with, as its makers published
// it, with their tests.
func published(t *testing.T, module, to string) {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatalf("%s: %v", module, err)
	}
	if err := os.CopyFS(to, os.DirFS(strings.TrimSpace(string(out)))); err != nil {
		t.Fatal(err)
	}
}

// TestRealModule runs all tests of a module of others, which opens terminals, confined and
// not. HOLDPOINT_REAL_MODULES names others of those that this one is built with.
func TestRealModule(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go here")
	}
	modules, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	script := "HOME=$TMPDIR GOCACHE=" + goCache(t) + " GOMODCACHE=" + strings.TrimSpace(string(modules)) + " GOFLAGS=-mod=mod GOPROXY=off GOTELEMETRY=off " +
		`go test -count=1 -v ./... 2>&1 | grep -E '^ *--- |^(ok|FAIL|PASS)' | sed -E 's/[0-9.]+s\)?$/TIME/' | sort`
	for _, module := range strings.Fields(cmp.Or(os.Getenv("HOLDPOINT_REAL_MODULES"), "github.com/creack/pty")) {
		t.Run("go test ./... of "+module, func(t *testing.T) {
			var outs []string
			for _, confined := range []bool{true, false} {
				s := shell(t, script)
				s.Confined, s.Timeout = confined, 5*time.Minute
				published(t, module, s.Root)
				outs = append(outs, all(mustRun(t, s).Stdout))
			}
			if outs[0] != outs[1] || !strings.Contains(outs[0], "--- PASS") || strings.Contains(outs[0], "FAIL") {
				t.Errorf("confined:\n%s\nelse:\n%s", outs[0], outs[1])
			}
			t.Logf("%d tests", strings.Count(outs[0], "--- "))
		})
	}
}

// TestRealTools runs what people run, confined and not, and wants the same of both.
func TestRealTools(t *testing.T) {
	for _, c := range []struct {
		name, tool, script string
		files              map[string]string
		made               []string
	}{
		{"make", "make", "make -s all && cat out/b", map[string]string{"Makefile": "all: out/b\nout/a: src\n\tmkdir -p out && cp src out/.a.new && mv out/.a.new out/a\nout/b: out/a\n\ttr a-z A-Z < out/a > $@\n", "src": "hello\n"}, []string{"out/a", "out/b"}},
		{"go test of a module", "go", "HOME=$TMPDIR GOCACHE=@CACHE GOFLAGS=-mod=mod GOPROXY=off GOTELEMETRY=off go test ./... 2>&1 | sed 's/[0-9.]*s$/TIME/; s/(cached)/TIME/'", map[string]string{"go.mod": "module m\n\ngo 1.21\n",
			"a/a.go": "package a\n\nfunc Two() int { return 2 }\n", "a/a_test.go": "package a\n\nimport (\n\t\"net\"\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestTwo(t *testing.T) {\n\tl, err := net.Listen(\"tcp\", \"127.0.0.1:0\")\n\tif err != nil {\n\t\tt.Fatal(err)\n\t}\n\tl.Close()\n\tif err := os.WriteFile(\"made\", nil, 0o644); err != nil || Two() != 2 {\n\t\tt.Fatal(err)\n\t}\n}\n",
			"b/b.go": "package b\n\nimport \"m/a\"\n\nfunc Four() int { return a.Two() * 2 }\n"}, []string{"a/made"}},
		{"npm install of a local folder", "npm", "npm install --offline --no-audit --no-fund --silent ./dep && node -e 'console.log(require(\"dep\"))'", map[string]string{
			"package.json": `{"name":"m","version":"1.0.0"}`, "dep/package.json": `{"name":"dep","version":"1.0.0","main":"i.js"}`, "dep/i.js": "module.exports='from dep'\n"}, []string{"node_modules/dep", "package-lock.json"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := exec.LookPath(c.tool); err != nil {
				t.Skip("there is no " + c.tool + " here")
			}
			var outs []string
			for _, confined := range []bool{true, false} {
				s := shell(t, strings.ReplaceAll(c.script, "@CACHE", goCache(t)))
				s.Confined, s.Timeout = confined, 60e9
				for name, text := range c.files {
					p := filepath.Join(s.Root, name)
					if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
						t.Fatal(err)
					}
				}
				r := mustRun(t, s)
				if r.Exit == nil || *r.Exit != 0 {
					t.Fatalf("confined %v: %s %q %q", confined, r.Termination, all(r.Stdout), all(r.Stderr))
				}
				for _, name := range c.made {
					if _, err := os.Lstat(filepath.Join(s.Root, name)); err != nil {
						t.Errorf("confined %v: %v\n%s%s", confined, err, all(r.Stdout), all(r.Stderr))
					}
				}
				outs = append(outs, all(r.Stdout))
			}
			if outs[0] != outs[1] {
				t.Errorf("confined %q, else %q", outs[0], outs[1])
			}
		})
	}
}
