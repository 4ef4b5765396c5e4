package main

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// checked gives what config check would say of a text.
func checked(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "holdpoint.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readConfig(file, func(string) string { return "" }); err != nil {
		return err.Error()
	}
	return ""
}

func TestConfigFaults(t *testing.T) {
	for text, want := range map[string]string{
		"keep = 3\n": "line 1",
		"keep = \n":  "line 1",
		"[profiles.a.set.edit_file]\nbackups = true\n":         "profiles.a",
		"[profiles.a.set.edit_file]\nbackup = \"yes\"\n":       "true or false",
		"[profiles.a]\nmode = \"yolo\"\n":                      "never by a profile",
		"[on_timeout]\nT3 = \"auto\"\n":                        "approve by waiting",
		"[floors]\nformat_disk = 2\n":                          "floors.format_disk",
		"[serve]\nlisen = \"127.0.0.1:1\"\n":                   "did you mean listen?",
		"[profiles.a]\nmax_change = -1\n":                      "negative",
		"[profiles.a]\nclearance = 0\n":                        "at least 1",
		"[deadlines]\nT9 = \"1m\"\n":                           "deadlines.T9",
		"store_max = \"ten\"\n":                                "store_max",
		"[profiles.a.set.format_disk]\nx = 1\n":                "no operation format_disk",
		"[profiles.a]\nmax_timeout = \"soon\"\n":               "max_timeout",
		"[two_reviewers]\nfiles = -1\n":                        "negative",
		"store = \"elsewhere\"\n":                              "in-root",
		"[profiles.default]\nallow_delete = \"no\"\n":          "line 2",
		"[process]\nmax_timeout = \"-1m\"\n":                   "max_timeout",
		"keep = \"1d\"\nkeep = \"2d\"\n":                       "line 2",
		"[profiles.a]\nrequire_approval = false\n[profiles.a]": "line 3",
	} {
		if got := checked(t, text); !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %s", text, got, want)
		}
	}
}

// The template that config init writes names every key there is.
func TestConfigTemplate(t *testing.T) {
	var walk func(typ reflect.Type, at string)
	walk = func(typ reflect.Type, at string) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct {
			return
		}
		for i := range typ.NumField() {
			name := typ.Field(i).Tag.Get("toml")
			if at == "notify" && name != "kind" && name != "command" {
				continue // of other kinds of targets
			}
			if !strings.Contains(configTemplate, "\n#"+name+" = ") && !strings.Contains(configTemplate, "\n#["+name) && !strings.Contains(configTemplate, "\n#[["+name) && !strings.Contains(configTemplate, "."+name+".") && !strings.Contains(configTemplate, "\n#["+at+"."+name+"]") {
				t.Errorf("%s.%s is not in the template", at, name)
			}
			walk(typ.Field(i).Type, name)
		}
	}
	walk(reflect.TypeFor[fileConfig](), "")
}

func TestOverlay(t *testing.T) {
	weak := map[string]any{"keep": "1d", "protected": []any{"a"}, "profiles": map[string]any{"x": map[string]any{"mode": "auto", "allow_exec": true}, "y": map[string]any{}}}
	strong := map[string]any{"protected": []any{"b"}, "profiles": map[string]any{"x": map[string]any{"allow_exec": false}}}
	got := overlay(weak, strong, "")
	want := map[string]any{"keep": "1d", "protected": []any{"a", "b"}, "profiles": map[string]any{"x": map[string]any{"mode": "auto", "allow_exec": false}, "y": map[string]any{}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if !reflect.DeepEqual(weak["protected"], []any{"a"}) || slices.Sorted(maps.Keys(strong))[0] != "profiles" {
		t.Error("the layers themselves changed")
	}
}
