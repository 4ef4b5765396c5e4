package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const top = "../.."

// TestLicenses: each module that the program is built of is named, with its text.
func TestLicenses(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(top, licensesFile))
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	list, err := modules(top)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 20 {
		t.Errorf("only %d modules were found", len(list))
	}
	for _, m := range list {
		if !strings.Contains(string(text), "\n"+m.Path+" (") {
			t.Errorf("%s is not named: make licenses", m.Path)
		}
	}
}

func TestSBOM(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sbom.json")
	if err := writeSBOM(top, file, "v1.2.3"); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		BomFormat, SpecVersion string
		Components             []struct{ Name, Version, PURL string }
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if got.BomFormat != "CycloneDX" || len(got.Components) < 20 {
		t.Errorf("got %s with %d components", got.BomFormat, len(got.Components))
	}
	for _, c := range got.Components {
		if !strings.HasPrefix(c.Version, "v") || c.PURL != "pkg:golang/"+c.Name+"@"+c.Version {
			t.Errorf("%+v", c)
		}
	}
}

func TestChangelog(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		name = filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(name), 0o755)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("changes/unreleased/undo-words.md", "Undo said nothing. It speaks.\n")
	put("changes/unreleased/a.md", "A was wrong.\n")
	if err := assemble(dir, "latest", "2026-12-01"); err == nil {
		t.Error("a word was taken for a version")
	}
	if err := assemble(dir, "v0.1.0", "2026-12-01"); err != nil {
		t.Fatal(err)
	}
	if err := assemble(dir, "v0.2.0", "2026-12-02"); err == nil {
		t.Error("a release of nothing")
	}
	put("changes/unreleased/b.md", "B.\n")
	if err := assemble(dir, "v0.1.0", "2026-12-02"); err == nil {
		t.Error("one version twice")
	}
	if err := assemble(dir, "v0.2.0", "2026-12-02"); err != nil {
		t.Fatal(err)
	}
	got, _ := os.ReadFile(filepath.Join(dir, "CHANGELOG.md"))
	want := changelogHead + "\n## v0.2.0, 2026-12-02\n\n### b\n\nB.\n\n## v0.1.0, 2026-12-01\n\n### a\n\nA was wrong.\n\n### undo words\n\nUndo said nothing. It speaks.\n"
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "changes/unreleased/*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
