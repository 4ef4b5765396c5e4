//go:build linux

package shellexec

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCountsMore(t *testing.T) {
	for _, c := range []struct {
		name, output   string
		passed, failed int
		known          bool
	}{
		{"go test -v", "=== RUN   TestA\n--- PASS: TestA (0.00s)\n    --- PASS: TestA/sub (0.00s)\n--- FAIL: TestB (0.01s)\n--- SKIP: TestC (0.00s)\nFAIL\nFAIL\texample/m\t0.012s\n", 2, 1, true},
		{"go test of packages", "ok  \texample/m/a\t0.012s\nok  \texample/m/b\t(cached)\n?   \texample/m/c\t[no test files]\nFAIL\texample/m/d [build failed]\nFAIL\n", 0, 1, true},
		{"pytest", "..F.                                                    [100%]\n=========================== short test summary info ============================\nFAILED test_a.py::test_b - assert 1 == 2\n========================= 1 failed, 3 passed in 0.05s ==========================\n", 3, 1, true},
		{"pytest -q with errors and more", "3 passed, 2 failed, 1 skipped, 4 errors, 5 warnings in 1.20s\n", 3, 6, true},
		{"pytest, one error", "=== 1 error in 0.10s ===\n", 0, 1, true},
		{"node --test, tap", "# tests 4\n# suites 0\n# pass 3\n# fail 1\n# cancelled 0\n", 3, 1, true},
		{"node --test, spec", "ℹ tests 4\nℹ pass 3\nℹ fail 1\n", 3, 1, true},
		{"cargo", "running 3 tests\ntest a ... ok\ntest b ... FAILED\n\ntest result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\n   Doc-tests m\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n", 3, 1, true},
		{"carriage returns", "test result: ok. 1 passed; 0 failed; 0 ignored\r\n", 1, 0, true},
		{"none of them", "all good, 3 passed in my head\nOK\n", 0, 0, false},
		{"nothing", "", 0, 0, false},
	} {
		passed, failed, known := Counts(c.output)
		if passed != c.passed || failed != c.failed || known != c.known {
			t.Errorf("%s: %d passed, %d failed, known %v; want %d, %d, %v", c.name, passed, failed, known, c.passed, c.failed, c.known)
		}
	}
}

// TestCountsReal counts what runners print themselves.
func TestCountsReal(t *testing.T) {
	for tool, c := range map[string]struct {
		script         string
		files          map[string]string
		passed, failed int
	}{
		"node": {"node --test", map[string]string{"a.test.js": "const t = require('node:test');\nt('one', () => {});\nt('two', () => { throw new Error('no'); });\nt('three', () => {});\n"}, 2, 1},
		"cargo": {"HOME=$TMPDIR CARGO_HOME=$TMPDIR/c RUSTUP_HOME=@RUSTUP cargo test --offline --quiet; true", map[string]string{"Cargo.toml": "[package]\nname = \"m\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
			"src/lib.rs": "#[test]\nfn one() {}\n#[test]\nfn two() { assert!(false); }\n"}, 1, 1},
	} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(tool); err != nil {
				t.Skip("there is no " + tool + " here")
			}
			home := os.Getenv("RUSTUP_HOME")
			if home == "" {
				home = os.Getenv("HOME") + "/.rustup"
			}
			s := shell(t, strings.ReplaceAll(c.script, "@RUSTUP", home))
			s.Timeout = time.Minute
			for name, text := range c.files {
				p := filepath.Join(s.Root, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			r := mustRun(t, s)
			passed, failed, known := Counts(all(r.Stdout) + "\n" + all(r.Stderr))
			if !known || passed != c.passed || failed != c.failed {
				t.Errorf("%d passed, %d failed, known %v\n%s\n%s", passed, failed, known, all(r.Stdout), all(r.Stderr))
			}
		})
	}
}
