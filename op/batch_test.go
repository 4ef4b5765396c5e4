package op

import (
	"errors"
	"testing"
)

func TestBatchArgs(t *testing.T) {
	spec, _ := Lookup(BatchFileOps)
	parse := func(text string) (any, Object, []Warning, error) {
		t.Helper()
		o, err := ParseJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return ParseArgs(spec, o)
	}
	args, named, warnings, err := parse(`{"operations":[{"op":"view_file","args":{"file_path":"a"}},{"op":"delete_file","args":{"path":"b","allow_ignored":true}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	a := args.(*BatchArgs)
	if v, ok := a.Operations[0].Parsed().(*ViewArgs); !ok || v.Path != "a" {
		t.Errorf("item 0 is %#v", a.Operations[0].Parsed())
	}
	if len(warnings) != 1 || warnings[0].Code != "alias" {
		t.Errorf("warnings %v", warnings)
	}
	if got, want := string(Canonical(named)), `{"operations":[{"args":{"path":"a"},"op":"view_file"},{"args":{"allow_ignored":true,"path":"b"},"op":"delete_file"}]}`; got != want {
		t.Errorf("canonical\n got %s\nwant %s", got, want)
	}
	if terms := TermsOf(BatchFileOps, false, a); !terms.AllowIgnored || terms.ForceOverwrite || !terms.Backup {
		t.Errorf("terms %+v", terms)
	}
	for text, field := range map[string]string{
		`{"operations":[]}`: "args.operations",
		`{"operations":[{"op":"batch_file_ops","args":{"operations":[]}}]}`:                           "args.operations[0].op",
		`{"operations":[{"op":"undo","args":{}}]}`:                                                    "args.operations[0].op",
		`{"operations":[{"op":"view_file","args":{"path":"a"}},{"op":"view_file","args":{"x":"a"}}]}`: "args.operations[1].args.x",
		`{"operations":[{"op":"view_file","args":{"path":"a"},"dry_run":true}]}`:                      "args.operations[0].dry_run",
		`{"operations":[{"op":"view_file"}]}`:                                                         "args.operations[0].args",
	} {
		if _, _, _, err := parse(text); !errors.Is(err, BadRequest) || AsError(err).Field != field {
			t.Errorf("%s: got %v in %s, want %s", text, err, AsError(err).Field, field)
		}
	}
}

// The value of a pointer operation stays the text that was sent, also in the canonical
// form, and only there.
func TestRawValue(t *testing.T) {
	text := `{"args":{"operations":[{"op":"set","path":"/a","value":{"b": [1.50, 1e2 ],"a":"x \" y","value":2.0}}]}}`
	o, err := ParseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"args":{"operations":[{"op":"set","path":"/a","value":{"b":[1.50,1e2],"a":"x \" y","value":2.0}}]}}`
	once := Canonical(o)
	if string(once) != want {
		t.Errorf("got  %s\nwant %s", once, want)
	}
	again, err := ParseJSON(once)
	if err != nil || string(Canonical(again)) != want {
		t.Errorf("not the same twice: %v", err)
	}
	spec, _ := Lookup(PatchFile)
	args, named, _, err := ParseArgs(spec, o["args"].(Object))
	if err != nil || args.(*PatchArgs).Operations[0].Value != `{"b":[1.50,1e2],"a":"x \" y","value":2.0}` {
		t.Errorf("got %v %v", args, err)
	}
	if got := string(Canonical(named)); got != want[len(`{"args":`):len(want)-1] {
		t.Errorf("arguments %s", got)
	}
	for _, bad := range []string{
		`{"value":1.5}`, `{"operations":[{"path":1.5}]}`, `{"operations":{"value":1.5}}`, `{"operations":[{"value":01}]}`,
		`{"operations":[{"value":{"a":1,"a":2}}]}`, `{"operations":[{"value":1.}]}`, `{"other":[{"value":1.5}]}`,
		`{"a":[{"operations":{}},[{"value":1.5}]]}`, `{"operations":[[{"value":1.5}]]}`, `{"operations":[{"value":1.5}],"n":1.5}`,
	} {
		if o, err := ParseJSON([]byte(bad)); !errors.Is(err, BadRequest) {
			t.Errorf("%s: got %v", bad, o)
		}
	}
}
