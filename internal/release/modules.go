package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// module is one that the program is built of, on any of the platforms that are released.
type module struct {
	Path, Version, Dir, Sum string
}

// platforms are those of the release.
var platforms = []string{"linux", "darwin", "windows"}

// modules lists what `go list -deps` names for the program, without the program's own.
func modules(top string) ([]module, error) {
	found := map[string]module{}
	for _, goos := range platforms {
		cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}", "./cmd/holdpoint")
		cmd.Dir, cmd.Env = top, append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
		var faults bytes.Buffer
		cmd.Stderr = &faults
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list for %s: %w: %s", goos, err, faults.Bytes())
		}
		for _, l := range strings.Split(string(out), "\n") {
			if f := strings.Split(l, "\t"); len(f) == 3 && f[1] != "" {
				found[f[0]] = module{Path: f[0], Version: f[1], Dir: f[2]}
			}
		}
	}
	sums, err := os.ReadFile(filepath.Join(top, "go.sum"))
	if err != nil {
		return nil, err
	}
	list := []module{}
	for _, m := range found {
		for _, l := range strings.Split(string(sums), "\n") {
			if f := strings.Fields(l); len(f) == 3 && f[0] == m.Path && f[1] == m.Version {
				m.Sum = f[2]
			}
		}
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	return list, nil
}

// writeSBOM writes the bill of materials, CycloneDX 1.5 in JSON. It has no date and no
// serial number of its own: the same source gives the same bytes.
func writeSBOM(top, file, version string) error {
	list, err := modules(top)
	if err != nil {
		return err
	}
	type component struct {
		Type    string           `json:"type"`
		Ref     string           `json:"bom-ref"`
		Name    string           `json:"name"`
		Version string           `json:"version"`
		PURL    string           `json:"purl"`
		Hashes  []map[string]any `json:"hashes,omitempty"`
	}
	components, refs := []component{}, []string{}
	for _, m := range list {
		purl := "pkg:golang/" + m.Path + "@" + m.Version
		components = append(components, component{Type: "library", Ref: purl, Name: m.Path, Version: m.Version, PURL: purl})
		refs = append(refs, purl)
	}
	self := "pkg:golang/holdpoint@" + version
	b, err := json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"metadata":     map[string]any{"component": map[string]any{"type": "application", "bom-ref": self, "name": "holdpoint", "version": version, "purl": self}},
		"components":   components,
		"dependencies": []map[string]any{{"ref": self, "dependsOn": refs}},
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o644)
}
