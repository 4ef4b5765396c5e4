package op_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"unicode/utf8"

	"holdpoint/op"
)

// FuzzStrictJSON: what is taken is what the standard library takes for the same, and it
// holds nothing by which two readers could read two things: no key twice, no broken text.
func FuzzStrictJSON(f *testing.F) {
	for _, s := range []string{`{"op":"view_file","args":{"path":"f"}}`, `{"a":1,"a":2}`, `{"a":1.0}`, `{"a":9007199254740993}`, `{"a":"\ud800"}`, "{\"a\":\"\xff\"}", `{"a":[{"b":{}},[],null,true]} x`,
		`{"operations":[{"value":1e400}]}`, `{"a\u017f":1,"as":2}`, `{"a":-0}`, `{"":"\u0000"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := op.ParseJSON(data)
		if err != nil {
			if e := op.AsError(err); e.Code != op.BadRequest || !utf8.ValidString(e.Message) || !utf8.ValidString(e.Field) {
				t.Fatalf("%q: %+v", data, e)
			}
			return
		}
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		var std map[string]any
		if err := d.Decode(&std); err != nil || d.More() {
			t.Fatalf("%q is taken, and the standard library says %v", data, err)
		}
		if !utf8.Valid(data) {
			t.Fatalf("%q is not UTF-8", data)
		}
		if keys := bytes.Count(data, []byte(`":`)); keys == 0 && len(o) != 0 && !bytes.Contains(data, []byte(":")) {
			t.Fatalf("%q: %d keys out of nothing", data, len(o))
		}
		// One canonical form, from which the standard library reads the same.
		once := op.Canonical(o)
		var back map[string]any
		d = json.NewDecoder(bytes.NewReader(once))
		d.UseNumber()
		if err := d.Decode(&back); err != nil || !bytes.Contains(data, []byte("operations")) && !reflect.DeepEqual(plainNumbers(std), plainNumbers(back)) {
			t.Fatalf("%q: the canonical form %q says another thing: %v", data, once, err)
		}
	})
}

// plainNumbers takes -0 for 0, which is the one number of two spellings.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if v == "-0" {
			return json.Number("0")
		}
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plainNumbers(v[k])
		}
	}
	return v
}

// FuzzArgs: any object given to any operation is refused as bad_request, or fills the
// operation's arguments under names of its own.
func FuzzArgs(f *testing.F) {
	f.Add(uint8(15), []byte(`{"path":"f","content":"x"}`))
	f.Add(uint8(16), []byte(`{"file_path":"f","edits":[{"old_str":"a","new_str":"b"}]}`))
	f.Add(uint8(24), []byte(`{"operations":[{"op":"edit_file","args":{"path":"f"}}]}`))
	f.Fuzz(func(t *testing.T, n uint8, data []byte) {
		raw, err := op.ParseJSON(data)
		if err != nil {
			return
		}
		all := op.Operations()
		spec := all[int(n)%len(all)]
		_, named, _, err := op.ParseArgs(spec, raw)
		if err != nil {
			if e := op.AsError(err); e.Code == op.Internal || !utf8.ValidString(e.Message) {
				t.Fatalf("%s %s: %+v", spec.Name, data, e)
			}
			return
		}
		again, err := op.ParseJSON(op.Canonical(named))
		if err != nil {
			t.Fatalf("%s %s: named %s: %v", spec.Name, data, op.Canonical(named), err)
		}
		if _, twice, _, err := op.ParseArgs(spec, again); err != nil || !bytes.Equal(op.Canonical(twice), op.Canonical(named)) {
			t.Fatalf("%s %s: named %s, and once more %s, %v", spec.Name, data, op.Canonical(named), op.Canonical(twice), err)
		}
	})
}
