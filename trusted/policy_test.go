package trusted

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"holdpoint/op"
)

const good = `{
  "policies": [
    {
      "id": "nightly",
      "workflow_ids": ["wf-1", "wf-2"],
      "operations": ["delete_file", "batch_file_ops"],
      "roots": ["/srv/a/build", "client:0123456789abcdef0123456789abcdef"],
      "select": {"include": ["**/*.o"], "older_than": "30d", "max_files": 100, "max_bytes": 1048576}
    },
    {
      "id": "mover",
      "workflow_ids": ["wf-1"],
      "operations": ["move_file"],
      "roots": ["/srv/a"]
    }
  ]
}`

func TestParse(t *testing.T) {
	t.Run("C108 entries have id, workflow_ids, operations and roots, and no other key", func(t *testing.T) {
		got, err := Parse([]byte(good))
		if err != nil {
			t.Fatal(err)
		}
		want := []Policy{
			{"nightly", []string{"wf-1", "wf-2"}, []op.Name{op.DeleteFile, op.BatchFileOps}, []string{"/srv/a/build", "client:0123456789abcdef0123456789abcdef"},
				&Select{[]string{"**/*.o"}, "30d", 100, 1 << 20}},
			{"mover", []string{"wf-1"}, []op.Name{op.MoveFile}, []string{"/srv/a"}, nil},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		if age := got[0].Select.Age(); age != 30*24*time.Hour {
			t.Errorf("age %v", age)
		}
		// Each key misspelled, and one left out, stops loading.
		for _, key := range []string{"policies", "id", "workflow_ids", "operations", "roots", "select", "include", "older_than", "max_files", "max_bytes"} {
			faulty(t, strings.Replace(good, `"`+key+`"`, `"`+strings.ToUpper(key)+`"`, 1), "unknown key")
			faulty(t, strings.Replace(good, `"`+key+`"`, `"x`+key+`"`, 1), "unknown key")
		}
		for _, key := range []string{"id", "workflow_ids", "operations", "roots"} {
			faulty(t, dropMember(t, key), key+": is missing")
		}
	})
	t.Run("C109 there is no form for all workflows, operations or roots", func(t *testing.T) {
		for _, list := range []string{`"workflow_ids": ["wf-1", "wf-2"]`, `"operations": ["delete_file", "batch_file_ops"]`,
			`"roots": ["/srv/a/build", "client:0123456789abcdef0123456789abcdef"]`} {
			key, _, _ := strings.Cut(list, ":")
			for _, all := range []string{`[]`, `["*"]`, `["**"]`, `"*"`, `null`, `true`, `[""]`, `["wf-*"]`, `[null]`, `{}`} {
				text := strings.Replace(good, list, key+": "+all, 1)
				if text == good {
					t.Fatal("the case changes nothing")
				}
				faulty(t, text, strings.Trim(key, `"`))
			}
		}
		faulty(t, strings.Replace(good, `"/srv/a"`, `"/"`, 1), "policies[1].roots[0]")
		faulty(t, strings.Replace(good, `"/srv/a"`, `"//"`, 1), "policies[1].roots[0]")
		faulty(t, `{}`, "policies: is missing")
	})
	t.Run("C111 after client: stands a key, never a path", func(t *testing.T) {
		const key = "client:0123456789abcdef0123456789abcdef"
		for _, bad := range []string{"client:", "client:/srv/a", "client:.", "client:build", "client:0123456789ABCDEF0123456789ABCDEF",
			"client:0123", "client:0123456789abcdef0123456789abcdef/x", "Client:0123456789abcdef0123456789abcdef", "client: 0123456789abcdef"} {
			faulty(t, strings.Replace(good, key, bad, 1), "line 7: policies[0].roots[1]:")
		}
	})
	t.Run("C115 no entry may name a process, or anything but the four", func(t *testing.T) {
		for _, spec := range op.Operations() {
			text := strings.Replace(good, `"move_file"`, `"`+string(spec.Name)+`"`, 1)
			_, err := Parse([]byte(text))
			may := spec.Class == op.Destructive || spec.Class == op.Batch
			if (err == nil) != may {
				t.Errorf("%s: %v", spec.Name, err)
			}
			if !may {
				faulty(t, text, "line 13: policies[1].operations[0]:")
			}
		}
		faulty(t, strings.Replace(good, `"move_file"`, `"Delete_File"`, 1), "policies[1].operations[0]")
	})
	t.Run("S22 a key that tries to allow or deny paths is unknown, and roots hold no patterns", func(t *testing.T) {
		for _, key := range []string{"allow", "deny", "paths", "review", "commands", "tools", "bypass"} {
			faulty(t, strings.Replace(good, `"id": "mover",`, `"id": "mover", "`+key+`": ["src/*.go", "src/?/x", "Docs/**"],`, 1), fmt.Sprintf("line 11: policies[1].%s: unknown key", key))
			faulty(t, strings.Replace(good, `"policies"`, `"`+key+`": ["**"], "policies"`, 1), "line 2: "+key+": unknown key")
		}
		set := newSet([]Policy{{ID: "p", WorkflowIDs: []string{"w"}, Operations: []op.Name{op.DeleteFile}, Roots: []string{"/srv/src/?", "/srv/Docs", "/srv/[ab]"}}}, nil)
		for path, want := range map[op.Path]bool{"src/a": false, "src/a/b/x": false, "docs/x": false, "a/x": false, "src/?/x": true, "Docs/x": true, "[ab]/x": true} {
			if got := covers(set, "", "/srv", path); got != want {
				t.Errorf("%s: covered %v, want %v", path, got, want)
			}
		}
	})
}

// Faults that have no requirement of their own.
func TestParseRefuses(t *testing.T) {
	replaced := func(from, to string) string {
		if !strings.Contains(good, from) {
			t.Fatalf("%q is not in the good text", from)
		}
		return strings.Replace(good, from, to, 1)
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty file":               {"", "line 1"},
		"half a file":              {good[:200], "line 7"},
		"brace only":               {"{", "line 1"},
		"a list on top":            {"[]", "line 1"},
		"null":                     {"null", "line 1"},
		"data after the object":    {good + "\n{}", "line 18"},
		"comment":                  {"// all\n" + good, "line 1"},
		"trailing comma":           {replaced(`"roots": ["/srv/a"]`, `"roots": ["/srv/a"],`), "line 15"},
		"key twice":                {replaced(`"id": "mover",`, "\"id\": \"mover\",\n\"id\": \"mover\","), `line 12: policies[1].id: the key "id" appears twice`},
		"escaped key twice":        {replaced(`"id": "mover",`, "\"id\": \"mover\",\n\"i\\u0064\": \"mover\","), `line 12: policies[1].id: the key "id" appears twice`},
		"policies twice":           {replaced(`"policies": [`, `"policies": [], "policies": [`), "line 2: policies: the key"},
		"id twice":                 {replaced(`"id": "mover"`, `"id": "nightly"`), `line 11: policies[1].id: the id "nightly" stands at line 4 already`},
		"id empty":                 {replaced(`"id": "mover"`, `"id": ""`), "line 11: policies[1].id"},
		"id a number":              {replaced(`"id": "mover"`, `"id": 7`), "line 11: policies[1].id: must be a string"},
		"id with a line break":     {replaced(`"id": "mover"`, `"id": "mo\nver"`), "line 11: policies[1].id"},
		"id with a lone surrogate": {replaced(`"id": "mover"`, `"id": "mo\ud800ver"`), "line 11: policies[1].id"},
		"bytes that are not UTF-8": {replaced(`"id": "mover"`, "\"id\": \"mo\xffver\""), "line 11: the file is not valid UTF-8"},
		"root relative":            {replaced(`"/srv/a"`, `"srv/a"`), "line 14: policies[1].roots[0]"},
		"root from home":           {replaced(`"/srv/a"`, `"~/a"`), "line 14: policies[1].roots[0]"},
		"root with ..":             {replaced(`"/srv/a"`, `"/srv/a/../b"`), "line 14: policies[1].roots[0]"},
		"entry no object": {replaced(`{
      "id": "mover"`, `7, {
      "id": "mover"`), "line 10: policies[1]: must be an object"},
		"select without delete": {replaced(`["delete_file", "batch_file_ops"]`, `["move_file"]`), "line 8: policies[0].select"},
		"select with no limit":  {replaced(`, "max_files": 100`, ``), "line 8: policies[0].select.max_files: is missing"},
		"select of nothing":     {replaced(`["**/*.o"]`, `[]`), "line 8: policies[0].select.include"},
		"select of elsewhere":   {replaced(`**/*.o`, `../*.o`), "line 8: policies[0].select.include[0]"},
		"select by negation":    {replaced(`**/*.o`, `!keep`), "line 8: policies[0].select.include[0]"},
		"select null":           {replaced(`{"include": ["**/*.o"], "older_than": "30d", "max_files": 100, "max_bytes": 1048576}`, `null`), "line 8: policies[0].select"},
		"age without unit":      {replaced(`"30d"`, `"30"`), "line 8: policies[0].select.older_than"},
		"age negative":          {replaced(`"30d"`, `"-1h"`), "line 8: policies[0].select.older_than"},
		"age zero":              {replaced(`"30d"`, `"0d"`), "line 8: policies[0].select.older_than"},
		"count zero":            {replaced(`"max_files": 100`, `"max_files": 0`), "line 8: policies[0].select.max_files"},
		"count a fraction":      {replaced(`"max_files": 100`, `"max_files": 1.5`), "line 8: policies[0].select.max_files"},
		"count a text":          {replaced(`"max_files": 100`, `"max_files": "100"`), "line 8: policies[0].select.max_files"},
		"bytes negative":        {replaced(`1048576`, `-1`), "line 8: policies[0].select.max_bytes"},
		"nested without end":    {replaced(`["wf-1"]`, strings.Repeat("[", 5000)+strings.Repeat("]", 5000)), "line 12"},
	} {
		t.Run(name, func(t *testing.T) { faulty(t, c.text, c.want) })
	}
}

// Whatever is done to a good file, what still loads grants nothing that no entry of the
// good file grants: all operations are of the four and no list is empty.
func TestParseNeverWidens(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	loaded := 0
	for range 5000 {
		text := []byte(good)
		for range 1 + rng.IntN(3) {
			i, j := rng.IntN(len(text)), rng.IntN(len(text))
			switch rng.IntN(3) {
			case 0:
				text[i] = text[j]
			case 1:
				text = append(text[:min(i, j):min(i, j)], text[max(i, j):]...)
			case 2:
				text[i] = byte(rng.IntN(256))
			}
			if len(text) == 0 {
				break
			}
		}
		got, err := Parse(text)
		if err != nil {
			if !errors.Is(err, op.PolicyInvalid) || !strings.HasPrefix(op.AsError(err).Message, "line ") {
				t.Fatalf("%v", err)
			}
			continue
		}
		loaded++
		for _, p := range got {
			if p.ID == "" || len(p.WorkflowIDs) == 0 || len(p.Operations) == 0 || len(p.Roots) == 0 {
				t.Fatalf("%+v of\n%s", p, text)
			}
			for _, o := range p.Operations {
				if o != op.DeleteFile && o != op.MoveFile && o != op.RollbackFile && o != op.BatchFileOps {
					t.Fatalf("%s of\n%s", o, text)
				}
			}
		}
	}
	if loaded == 0 {
		t.Error("no changed text loaded, so that nothing was tested")
	}
}

func faulty(t *testing.T, text, want string) {
	t.Helper()
	got, err := Parse([]byte(text))
	if !errors.Is(err, op.PolicyInvalid) {
		t.Errorf("loaded %+v, %v; want policy_invalid with %q", got, err, want)
		return
	}
	if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "line ") {
		t.Errorf("got %q, want %q in it", err, want)
	}
}

// dropMember takes the line of a key out of the second entry.
func dropMember(t *testing.T, key string) string {
	t.Helper()
	head, tail, _ := strings.Cut(good, `"id": "mover"`)
	tail = `"id": "mover"` + tail
	i := strings.Index(tail, `"`+key+`"`)
	j := strings.IndexByte(tail[i:], '\n') + i
	out := tail[:i] + tail[j+1:]
	if key == "roots" {
		out = strings.Replace(out, `["move_file"],`, `["move_file"]`, 1)
	}
	return head + out
}

func covers(s *Set, key, dir string, paths ...op.Path) bool {
	var targets []op.Target
	for _, p := range paths {
		targets = append(targets, op.Target{Path: p, Role: op.RoleTarget})
	}
	got := s.For("w", key, dir, op.DeleteFile, targets, nil)
	return len(got) == 1 && got[0].CoversAllTargets
}
