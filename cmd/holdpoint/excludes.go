package main

import (
	"path/filepath"
	"strings"
)

// globalExcludes gives the lines of the user's own ignore file, as git finds it: what
// core.excludesFile of the user's configuration names, else git/ignore in the
// configuration directory. Included configuration files and the system's are not read.
func globalExcludes(env func(string) string) []string {
	home, config := env("HOME"), env("XDG_CONFIG_HOME")
	if config == "" && home != "" {
		config = filepath.Join(home, ".config")
	}
	name := ""
	if config != "" {
		name = filepath.Join(config, "git", "ignore")
	}
	places := []string{env("GIT_CONFIG_GLOBAL")}
	if places[0] == "" {
		places = []string{filepath.Join(config, "git", "config"), filepath.Join(home, ".gitconfig")}
	}
	for _, at := range places {
		if !filepath.IsAbs(at) {
			continue
		}
		b, err := readSmall(at)
		if err != nil {
			continue
		}
		if v, ok := excludesFile(string(b)); ok {
			name = v
		}
	}
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		name = filepath.Join(home, rest)
	}
	if !filepath.IsAbs(name) {
		return nil
	}
	b, err := readSmall(name)
	if err != nil {
		return nil
	}
	return strings.Split(string(b), "\n")
}

// excludesFile reads the last core.excludesFile of a git configuration.
func excludesFile(text string) (value string, ok bool) {
	core := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if rest, is := strings.CutPrefix(line, "["); is {
			head, tail, _ := strings.Cut(rest, "]")
			core = strings.EqualFold(strings.TrimSpace(head), "core")
			line = strings.TrimSpace(tail)
		}
		key, v, is := strings.Cut(line, "=")
		if !core || !is || !strings.EqualFold(strings.TrimSpace(key), "excludesfile") {
			continue
		}
		v = strings.TrimSpace(v)
		if quoted, is := strings.CutPrefix(v, `"`); is {
			v, _, _ = strings.Cut(quoted, `"`)
		} else if i := strings.IndexAny(v, "#;"); i >= 0 {
			v = strings.TrimSpace(v[:i])
		}
		value, ok = strings.ReplaceAll(v, `\\`, `\`), true
	}
	return value, ok
}
