package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGlobalExcludes(t *testing.T) {
	home := t.TempDir()
	put := func(name, text string) {
		os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o755)
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	vars := map[string]string{"HOME": home}
	want := func(what, line string) {
		t.Helper()
		if got := strings.Join(globalExcludes(func(k string) string { return vars[k] }), "|"); got != line {
			t.Errorf("%s: %q, want %q", what, got, line)
		}
	}
	want("nothing is there", "")
	put(".config/git/ignore", "*.usual\n")
	want("the usual place", "*.usual|")
	put(".gitconfig", "[user]\n\texcludesFile = /no\n[core] # x\n\tExcludesFile = ~/mine ; why\n")
	put("mine", "*.mine")
	want("the configuration names one", "*.mine")
	put("other config", "[core]\nexcludesfile=\""+home+"/my other\"\n")
	put("my other", "*.other")
	vars["GIT_CONFIG_GLOBAL"] = filepath.Join(home, "other config")
	want("another configuration", "*.other")
	vars["GIT_CONFIG_GLOBAL"] = "/dev/null"
	want("no configuration", "*.usual|")
	vars = map[string]string{}
	want("no home", "")
}
