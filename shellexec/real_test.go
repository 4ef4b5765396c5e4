//go:build linux

package shellexec

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestRealTools runs what people run, confined and not, and wants the same of both.
func TestRealTools(t *testing.T) {
	for _, c := range []struct {
		name, tool, script string
		files              map[string]string
		made               []string
	}{
		{"make", "make", "make -s all && cat out/b", map[string]string{"Makefile": "all: out/b\nout/a: src\n\tmkdir -p out && cp src out/.a.new && mv out/.a.new out/a\nout/b: out/a\n\ttr a-z A-Z < out/a > $@\n", "src": "hello\n"}, []string{"out/a", "out/b"}},
		{"npm install of a local folder", "npm", "npm install --offline --no-audit --no-fund --silent ./dep && node -e 'console.log(require(\"dep\"))'", map[string]string{
			"package.json": `{"name":"m","version":"1.0.0"}`, "dep/package.json": `{"name":"dep","version":"1.0.0","main":"i.js"}`, "dep/i.js": "module.exports='from dep'\n"}, []string{"node_modules/dep", "package-lock.json"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := exec.LookPath(c.tool); err != nil {
				t.Skip("there is no " + c.tool + " here")
			}
			var outs []string
			for _, confined := range []bool{true, false} {
				s := shell(t, c.script)
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
						t.Errorf("confined %v: %v", confined, err)
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
