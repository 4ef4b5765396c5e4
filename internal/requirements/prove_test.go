package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A guard that is taken out is noticed by the test that looks, and survives the one that
// only carries the id.
func TestProve(t *testing.T) {
	root := t.TempDir()
	put := func(rel, text string) {
		t.Helper()
		p := filepath.Join(root, rel)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("go.mod", "module m\n\ngo 1.24\n")
	put("p/p.go", "package p\n\nfunc Allowed(n int) bool {\n\tif n > 3 {\n\t\treturn false\n\t}\n\treturn true\n}\n")
	put("p/p_test.go", `package p

import "testing"

func TestP(t *testing.T) {
	t.Run("C1 four is too many", func(t *testing.T) {
		if Allowed(4) {
			t.Error("allowed")
		}
	})
	t.Run("C2 looks the other way", func(t *testing.T) {
		if !Allowed(1) {
			t.Error("not allowed")
		}
	})
	t.Run("C3 nobody listed its guard", func(t *testing.T) {})
	t.Run("C4 its guard is gone", func(t *testing.T) {})
	t.Run("C5 without its guard nothing compiles", func(t *testing.T) {})
}
`)
	put("testdata/requirements/ids.txt", "C1\tD\tone\nC2\tD\ttwo\nC3\tD\tthree\nC4\tD\tfour\nC5\tD\tfive\n")
	put("testdata/requirements/not-applicable.txt", "")
	put("testdata/requirements/guards.txt", "# what\n\nC1 C2\np/p.go\n-\tif n > 3 {\n+\tif n > 300 {\n\nC4\np/p.go\n-\tif n > 5 {\n+\n\nC5\np/p.go\n-\treturn true\n+\treturn 1\n")
	var out, errs bytes.Buffer
	if code := run([]string{"-root", root, "-prove", "5", "-seed", "7"}, &out, &errs); code != 1 {
		t.Errorf("got exit %d, want 1: %s", code, errs.String())
	}
	for _, want := range []string{"seed 7: 5 ids", "C1    noticed", "C2    survived", "C3    unlisted", "C4    unproven", "C5    unproven", "1 noticed; uncovered: 1 survived, 1 without a listed guard, 2 not proven"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if got, _ := os.ReadFile(filepath.Join(root, "p/p.go")); !strings.Contains(string(got), "n > 3 {") {
		t.Error("the product was written to")
	}
}

// TestGuards holds the list to its form: known ids, blocks that can be read, and lines that
// the product has.
func TestGuards(t *testing.T) {
	guards, err := readGuards("../../testdata/requirements/guards.txt")
	if err != nil {
		t.Fatal(err)
	}
	l, err := readLists("../../testdata/requirements")
	if err != nil {
		t.Fatal(err)
	}
	if len(guards) < 80 {
		t.Errorf("only %d guards were read", len(guards))
	}
	for _, g := range guards {
		if g.old == g.new {
			t.Errorf("line %d: the guard is not taken out", g.line)
		}
		if _, err := g.without("../.."); err != nil {
			t.Error(err)
		}
		for _, id := range g.ids {
			if r := l.byID[id]; r == nil || r.not != "" {
				t.Errorf("line %d: %s is no requirement that applies", g.line, id)
			}
		}
	}
}
