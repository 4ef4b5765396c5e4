package op

import (
	"reflect"
	"testing"
)

// Each example is a call that the operation takes, and names all that is required.
func TestExamples(t *testing.T) {
	if len(examples) != len(Operations()) {
		t.Errorf("%d examples of %d operations", len(examples), len(Operations()))
	}
	for _, spec := range Operations() {
		call := Example(spec.Name)
		if call == nil {
			t.Errorf("%s has no example", spec.Name)
			continue
		}
		req, warnings, err := RequestFrom(call)
		if err != nil || len(warnings) > 0 || req.Op != spec.Name {
			t.Errorf("%s: %v %v", spec.Name, warnings, err)
		}
		if _, _, warnings, err := ParseArgs(spec, req.Args); err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v %v", spec.Name, warnings, err)
		}
	}
	if e := Fail(BadRequest, "x").WithExample(ViewFile); e.Example == nil {
		t.Error("an error of form has none")
	}
	if e := Fail(NotFound, "x").WithExample(ViewFile); e.Example != nil {
		t.Error("another error has one")
	}
}

// TestAliases holds every other name of an argument, of every operation, to what the
// argument's own name gives: what is judged, pinned, shown and put on record is made from
// the result alone.
func TestAliases(t *testing.T) {
	t.Run("C23 every alias gives the call under its own names, and no operation has two", func(t *testing.T) {
		tried := 0
		for _, spec := range Operations() {
			own := map[string]bool{}
			for _, f := range Fields(spec.Args) {
				own[f.Name] = true
			}
			base, err := ParseJSON([]byte(examples[spec.Name]))
			if err != nil {
				t.Fatal(err)
			}
			for name, others := range aliases {
				value, given := base[name]
				if !given {
					continue
				}
				for _, other := range others {
					if own[other] {
						continue // here the word is an argument itself
					}
					raw := Object{}
					for k, v := range base {
						raw[k] = v
					}
					delete(raw, name)
					raw[other] = value
					want, wantNamed, _, err := ParseArgs(spec, base)
					got, named, warnings, bad := ParseArgs(spec, raw)
					if err != nil || bad != nil || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(named, wantNamed) || len(warnings) != 1 || warnings[0].Code != "alias" {
						t.Errorf("%s %s: %v %v %v %v", spec.Name, other, named, warnings, err, bad)
					}
					tried++
				}
			}
			if again, ok := Lookup(spec.Name); !ok || again.Name != spec.Name {
				t.Errorf("%s leads to %s", spec.Name, again.Name)
			}
		}
		for _, dry := range aliases["dry_run"] {
			one, _, err1 := RequestFrom(Object{"op": "delete_file", "args": Object{"path": "f"}, "dry_run": true})
			two, warnings, err2 := RequestFrom(Object{"op": "delete_file", "args": Object{"path": "f"}, dry: true})
			if err1 == nil && err2 == nil && (!reflect.DeepEqual(one, two) || len(warnings) != 1) {
				t.Errorf("%s: %v, not %v", dry, two, one)
			}
		}
		if len(byName) != len(Operations()) {
			t.Errorf("%d names for %d operations", len(byName), len(Operations()))
		}
		if tried < 100 {
			t.Errorf("only %d aliases were tried", tried)
		}
	})
}
