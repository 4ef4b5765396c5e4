package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// runner runs tests on the product without one of its guards. What was built and run for
// a guard serves all ids that stand on it.
type runner struct {
	root, dir string
	driver    string // the tests of internal/e2e, built once: they drive a program that is given to them
	last      *bare
}

// bare is the product without one guard.
type bare struct {
	*runner
	guard   int
	dir     string
	env     []string // carries the overlay to all builds, also those that tests start themselves
	program string   // the built product; empty until it is needed
	ran     map[string][]event
}

// event is a line of a test's account.
type event struct{ Action, Test string }

// Tests in this directory drive the program that a variable of the environment names.
const (
	driven   = "internal/e2e"
	inPlace  = "HOLDPOINT_E2E_APART"
	runLimit = "180s"
)

func newRunner(root string) (*runner, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "prove")
	return &runner{root: root, dir: dir}, err
}

func (r *runner) close() { os.RemoveAll(r.dir) }

// without makes the product without a guard, or gives the one that was made last.
func (r *runner) without(g guard) (*bare, error) {
	if r.last != nil && r.last.guard == g.line {
		return r.last, nil
	}
	text, err := g.without(r.root)
	if err != nil {
		return nil, err
	}
	b := &bare{runner: r, guard: g.line, dir: filepath.Join(r.dir, fmt.Sprint(g.line)), ran: map[string][]event{}}
	other, overlay := filepath.Join(b.dir, "x.go"), filepath.Join(b.dir, "overlay.json")
	body, _ := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(r.root, filepath.FromSlash(g.file)): other}})
	if err := errors.Join(os.MkdirAll(b.dir, 0o700), os.WriteFile(other, []byte(text), 0o600), os.WriteFile(overlay, body, 0o600)); err != nil {
		return nil, err
	}
	b.env = append(os.Environ(), strings.TrimSpace("GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay))
	if r.last != nil {
		os.RemoveAll(r.last.dir)
	}
	r.last = b
	return b, nil
}

// notices runs the function of a claim and tells whether the subtest that makes the claim
// was red, or was never reached because something before it was.
func (b *bare) notices(c claim) (bool, error) {
	events, err := b.run(path.Dir(strings.SplitN(c.at, ":", 2)[0]), c.test)
	if err != nil {
		return false, err
	}
	name, _, _ := strings.Cut(strings.ReplaceAll(c.name, " ", "_"), "%")
	name = strings.TrimRight(name, "_")
	reached, red, topRed, ended := false, false, false, false
	for _, e := range events {
		at := strings.HasPrefix(e.Test, c.test+"/") && strings.Contains(e.Test, name)
		switch {
		case at && e.Action == "fail":
			red = true
		case at && e.Action == "pass":
			reached = true
		case e.Test == c.test && e.Action == "fail":
			topRed, ended = true, true
		case e.Test == c.test && e.Action == "pass":
			ended = true
		}
	}
	return red || !reached && (topRed || !ended), nil
}

// run gives the account of one test function of a package.
func (b *bare) run(pkg, test string) ([]event, error) {
	key := pkg + " " + test
	if events, ran := b.ran[key]; ran {
		return events, nil
	}
	cmd := exec.Command("go", "test", "-json", "-count=1", "-timeout="+runLimit, "-run", "^"+test+"$", "./"+pkg)
	cmd.Dir, cmd.Env = b.root, b.env
	if pkg == driven {
		if err := b.build(); err != nil {
			return nil, err
		}
		cmd = exec.Command("go", "tool", "test2json", "-p", pkg, b.driver, "-test.v=test2json", "-test.timeout="+runLimit, "-test.run", "^"+test+"$")
		cmd.Dir, cmd.Env = filepath.Join(b.root, filepath.FromSlash(pkg)), append(b.env, inPlace+"="+b.program)
	}
	out, _ := cmd.Output() // the events tell how it ended
	var events []event
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Test != "" {
			events = append(events, e)
		}
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("%s did not run without the guard: it does not compile, or nothing starts", test)
	}
	b.ran[key] = events
	return events, nil
}

// build makes the program without the guard, and once the tests that drive it.
func (b *bare) build() error {
	if b.program != "" {
		return nil
	}
	program := filepath.Join(b.dir, "holdpoint")
	if err := b.goBuild(b.env, "build", "-ldflags=-s -w", "-o", program, "./cmd/holdpoint"); err != nil {
		return err
	}
	if b.driver == "" {
		driver := filepath.Join(b.runner.dir, "driver")
		if err := b.goBuild(os.Environ(), "test", "-c", "-o", driver, "./"+driven); err != nil {
			return err
		}
		b.driver = driver
	}
	b.program = program
	return nil
}

func (b *bare) goBuild(env []string, args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = b.root, env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("it does not compile without the guard: %.200s", out)
	}
	return nil
}
