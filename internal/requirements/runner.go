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
	"regexp"
	"slices"
	"strings"
)

// runner runs tests on the product without one of its guards. What was built and run for
// a guard serves all ids that stand on it.
type runner struct {
	root, dir string
	driver    string // the tests of internal/e2e, built once: they drive a program that is given to them
	whole     *bare  // with every guard
	last      *bare
	alone     map[string]bool // patterns of subtests, and whether they pass alone
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
type event struct{ Action, Test, Output string }

// Tests in this directory drive the program that a variable of the environment names.
const (
	driven   = "internal/e2e"
	inPlace  = "HOLDPOINT_E2E_APART"
	runLimit = "600s"
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

// notices runs the subtest of a claim, or all of its function where the subtest does not
// stand alone, and tells whether it was red, or was never reached because something before
// it was.
func (b *bare) notices(c claim) (bool, error) {
	pkg, pattern := path.Dir(strings.SplitN(c.at, ":", 2)[0]), b.narrow(c)
	events, err := b.run(pkg, pattern)
	if err != nil {
		return false, err
	}
	return told(events, c) != green, nil
}

// What an account says of the subtest of a claim.
type account int

const (
	red account = iota
	green
)

// told reads it. A subtest that was not reached is red when its function was, or did not end.
func told(events []event, c claim) account {
	name := begins(c.name)
	reached, topRed, ended := false, false, false
	for _, e := range events {
		at := strings.HasPrefix(e.Test, c.test+"/") && strings.Contains(e.Test, name)
		switch {
		case at && e.Action == "fail":
			return red
		case at && e.Action == "pass":
			reached = true
		case e.Test == c.test && (e.Action == "fail" || e.Action == "pass"):
			topRed, ended = e.Action == "fail", true
		}
	}
	if reached || ended && !topRed {
		return green
	}
	return red
}

// begins is the part of a test's name that does not hang on values, as go test writes it.
func begins(name string) string {
	name, _, _ = strings.Cut(strings.ReplaceAll(name, " ", "_"), "%")
	return strings.TrimRight(name, "_")
}

// narrow gives the pattern that runs the subtest of a claim alone, if it passes so on the
// product as it is; else that of its whole function.
func (r *runner) narrow(c claim) string {
	whole := "^" + c.test + "$"
	alone := whole + "/^" + strings.ReplaceAll(regexp.QuoteMeta(begins(c.name)), "/", "$/^")
	if r.alone == nil {
		r.alone = map[string]bool{}
	}
	ok, asked := r.alone[alone]
	if !asked {
		events, err := r.complete().run(path.Dir(strings.SplitN(c.at, ":", 2)[0]), alone)
		ok = err == nil && told(events, c) == green && reached(events, c)
		r.alone[alone] = ok
	}
	if ok {
		return alone
	}
	return whole
}

func reached(events []event, c claim) bool {
	return slices.ContainsFunc(events, func(e event) bool {
		return e.Action == "pass" && strings.HasPrefix(e.Test, c.test+"/") && strings.Contains(e.Test, begins(c.name))
	})
}

// complete is the product with all its guards.
func (r *runner) complete() *bare {
	if r.whole == nil {
		r.whole = &bare{runner: r, dir: filepath.Join(r.dir, "whole"), env: os.Environ(), ran: map[string][]event{}}
	}
	return r.whole
}

// run gives the account of the tests of a package that a pattern names.
func (b *bare) run(pkg, pattern string) ([]event, error) {
	key := pkg + " " + pattern
	if events, ran := b.ran[key]; ran {
		return events, nil
	}
	cmd := exec.Command("go", "test", "-json", "-count=1", "-timeout="+runLimit, "-run", pattern, "./"+pkg)
	cmd.Dir, cmd.Env = b.root, b.env
	if pkg == driven {
		if err := b.build(); err != nil {
			return nil, err
		}
		cmd = exec.Command("go", "tool", "test2json", "-p", pkg, b.driver, "-test.v=test2json", "-test.timeout="+runLimit, "-test.run", pattern)
		cmd.Dir, cmd.Env = filepath.Join(b.root, filepath.FromSlash(pkg)), append(b.env, inPlace+"="+b.program)
	}
	out, _ := cmd.Output() // the events tell how it ended
	var events []event
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		// A slow machine ends so as well: it is no sign that a guard was missed.
		if strings.HasPrefix(e.Output, "panic: test timed out") {
			return nil, fmt.Errorf("%s did not end within %s without the guard", pattern, runLimit)
		}
		if e.Test != "" {
			events = append(events, e)
		}
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("%s did not run without the guard: it does not compile, or nothing starts", pattern)
	}
	b.ran[key] = events
	return events, nil
}

// build makes the program without the guard, and once the tests that drive it.
func (b *bare) build() error {
	if b.program != "" {
		return nil
	}
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return err
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
