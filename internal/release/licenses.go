package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licensesFile is what `holdpoint version --licenses` prints.
const licensesFile = "cmd/holdpoint/licenses.txt.gz"

var licenseName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|unlicense)([-._].*)?$`)

// licenses gives the text: each module's own files, equal texts once, with all who use them.
func licenses(top string) ([]byte, error) {
	list, err := modules(top)
	if err != nil {
		return nil, err
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	list = append(list, module{Path: "the Go standard library", Dir: strings.TrimSpace(string(root))})
	users := map[string][]string{}
	for _, m := range list {
		entries, err := os.ReadDir(m.Dir)
		if err != nil {
			return nil, fmt.Errorf("%s is not in the module cache: %w", m.Path, err)
		}
		any := false
		for _, e := range entries {
			if !e.Type().IsRegular() || !licenseName.MatchString(e.Name()) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(m.Dir, e.Name()))
			if err != nil {
				return nil, err
			}
			key := strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n"))
			users[key] = append(users[key], m.Path+" ("+e.Name()+")")
			any = any || !strings.HasPrefix(strings.ToLower(e.Name()), "patents")
		}
		if !any {
			return nil, fmt.Errorf("%s has no licence file", m.Path)
		}
	}
	var texts []string
	for text := range users {
		texts = append(texts, text)
	}
	slices.SortFunc(texts, func(a, b string) int { return strings.Compare(users[a][0], users[b][0]) })
	var b bytes.Buffer
	b.WriteString("Holdpoint is under the Apache License 2.0. It is built of the modules below, each under its own terms.\n")
	for _, text := range texts {
		fmt.Fprintf(&b, "\n%s\n%s\n%s\n", strings.Repeat("=", 80), strings.Join(users[text], "\n"), strings.Repeat("-", 80))
		b.WriteString(text + "\n")
	}
	return b.Bytes(), nil
}

func writeLicenses(top string) error {
	text, err := licenses(top)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if _, err := z.Write(text); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(top, licensesFile), b.Bytes(), 0o644)
}
