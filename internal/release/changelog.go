package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const changelogHead = "# Changes\n\nNewest first. Each paragraph says what was wrong or missing, and what holds now.\n"

// assemble moves the files of changes/unreleased into a section of CHANGELOG.md. The files
// go only when the log is written.
func assemble(top, version, date string) error {
	if !regexp.MustCompile(`^v?[0-9]+\.[0-9]+\.[0-9]+([-.+][0-9A-Za-z.-]+)?$`).MatchString(version) {
		return fmt.Errorf("%q is no version", version)
	}
	files, err := filepath.Glob(filepath.Join(top, "changes", "unreleased", "*.md"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("nothing is unreleased")
	}
	slices.Sort(files)
	var section strings.Builder
	fmt.Fprintf(&section, "\n## %s, %s\n", version, date)
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		fmt.Fprintf(&section, "\n### %s\n\n%s\n", strings.ReplaceAll(strings.TrimSuffix(filepath.Base(f), ".md"), "-", " "), strings.TrimSpace(string(text)))
	}
	name := filepath.Join(top, "CHANGELOG.md")
	old, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	before := strings.TrimPrefix(string(old), changelogHead)
	if strings.Contains(before, "\n## "+version+", ") {
		return fmt.Errorf("%s is in the changelog already", version)
	}
	if err := os.WriteFile(name, []byte(changelogHead+section.String()+before), 0o644); err != nil {
		return err
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			return err
		}
	}
	return nil
}
