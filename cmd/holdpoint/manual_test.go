package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func wholeTree() *cobra.Command {
	a := &app{Streams: Streams{Env: func(string) string { return "" }}, extra: commands}
	return a.rootCommand()
}

// everyCommand visits all that a person may type.
func everyCommand(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		if documented(sub) {
			everyCommand(sub, visit)
		}
	}
}

// TestManual: each command, flag, argument and key is described, in its page.
func TestManual(t *testing.T) {
	root := wholeTree()
	root.InitDefaultCompletionCmd()
	pages := manual(root)
	everyCommand(root, func(c *cobra.Command) {
		if c.Short == "" {
			t.Errorf("%s says nothing of itself", c.CommandPath())
		}
		name := "holdpoint.1"
		if words := strings.Fields(c.CommandPath()); len(words) > 1 {
			name = "holdpoint-" + words[1] + ".1"
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			if f.Usage == "" {
				t.Errorf("%s --%s is not described", c.CommandPath(), f.Name)
			}
			if f.Name != "help" && !strings.Contains(pages[name], literal("--"+f.Name)) {
				t.Errorf("%s --%s is not in %s", c.CommandPath(), f.Name, name)
			}
		})
	})
	keys := map[string]bool{}
	for _, k := range configKeys() {
		keys[k.name] = true
		if configWords[k.name] == "" || !strings.Contains(pages["holdpoint.toml.5"], ".B "+literal(k.name)+"\n") {
			t.Errorf("the key %s is not described", k.name)
		}
	}
	for k := range configWords {
		if !keys[k] {
			t.Errorf("%s is described and is no key", k)
		}
	}
	if !keys["profiles.NAME.allow_exec"] || !keys["notify[].url"] || !keys["process.max_cpu"] || usualOf("keep") != `"30d"` || usualOf("profiles.NAME.mode") != `"auto"` {
		t.Errorf("keys were not found: %v", keys)
	}
	if !strings.Contains(pages["holdpoint-call.1"], ".B edit_file\n") || !strings.Contains(pages["holdpoint-call.1"], "old_string text") {
		t.Error("the operations are not in the page of call")
	}
	for name, text := range pages {
		for i, l := range strings.Split(text, "\n") {
			if strings.HasPrefix(l, ".") && !regexp.MustCompile(`^\.(TH|SH|TP|B|PP|IP|RS|RE)( |$)`).MatchString(l) {
				t.Errorf("%s:%d is no request of ours: %s", name, i+1, l)
			}
		}
	}
}

// TestDocumentsNameCommands: what the documents quote in running text exists.
func TestDocumentsNameCommands(t *testing.T) {
	root := wholeTree()
	root.InitDefaultCompletionCmd()
	make, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`((?:holdpoint|make) [^`]+)`")
	for _, dir := range []string{"../../", "../../docs/", "../../examples/"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), ".md") {
				continue
			}
			text, err := os.ReadFile(dir + e.Name())
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range quoted.FindAllStringSubmatch(strings.ReplaceAll(string(text), "\n", " "), -1) {
				if fault := notACommand(root, string(make), strings.Fields(m[1])); fault != "" {
					t.Errorf("%s: `%s`: %s", e.Name(), m[1], fault)
				}
			}
		}
	}
	for _, bad := range []string{"holdpoint frobnicate", "holdpoint undo --lsat 3", "make nothing-like-it", "holdpoint review aprove ID"} {
		if notACommand(root, string(make), strings.Fields(bad)) == "" {
			t.Errorf("%s was taken for a command", bad)
		}
	}
}

// notACommand says what of a quoted command line is not there; placeholders count for nothing.
func notACommand(root *cobra.Command, makefile string, words []string) string {
	if words[0] == "make" {
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(words[1]) + `:`).MatchString(makefile) {
			return "no such target"
		}
		return ""
	}
	c := root
	for _, w := range words[1:] {
		if w == "|" {
			return "" // one of several, which are not told apart here
		}
		if name, ok := strings.CutPrefix(w, "--"); ok {
			name, _, _ = strings.Cut(strings.Trim(name, "[].,"), "=")
			if c.Flags().Lookup(name) == nil && c.InheritedFlags().Lookup(name) == nil && root.PersistentFlags().Lookup(name) == nil && name != "help" && name != "version" {
				return "no flag --" + name
			}
			continue
		}
		if len(c.Commands()) == 0 || strings.ToLower(w) != w || strings.ContainsAny(w, "[.|@=") {
			continue
		}
		i := slices.IndexFunc(c.Commands(), func(s *cobra.Command) bool { return s.Name() == w })
		if i < 0 {
			return "no command " + w
		}
		c = c.Commands()[i]
	}
	return ""
}
