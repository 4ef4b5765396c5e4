package op_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"holdpoint/op"
)

func TestStrictJSON(t *testing.T) {
	t.Run("S73 keys are compared byte for byte and never twice", func(t *testing.T) {
		for _, bad := range []string{
			`{"op":"view_file","OP":"delete_file"}`, `{"op":"view_file","op":"delete_file"}`,
			"{\"op\":\"view_file\",\"arg\u017f\":{}}", `{"Op":"view_file"}`,
		} {
			if _, _, err := op.ParseRequest([]byte(bad)); !errors.Is(err, op.BadRequest) {
				t.Errorf("%s: got %v, want bad_request", bad, err)
			}
		}
	})
	t.Run("S56 unknown fields of a request are refused", func(t *testing.T) {
		for _, field := range []string{"approved", "approval_id", "bypass", "force", "auto", "role", "user", "workflow_id", "require_approval", "risk"} {
			_, _, err := op.ParseRequest(fmt.Appendf(nil, `{"op":"write_file","args":{},%q:true}`, field))
			if !errors.Is(err, op.BadRequest) || !strings.Contains(err.Error(), field) {
				t.Errorf("%s: got %v, want bad_request naming it", field, err)
			}
		}
	})
	t.Run("S78 (part) a body of many small values is refused before it takes memory", func(t *testing.T) {
		for _, value := range []string{"[]", "{}", "1", `""`} {
			at := func(n int) []byte {
				return []byte(`{"a":[` + strings.Repeat(value+",", n-1) + value + `]}`)
			}
			if _, err := op.ParseJSON(at(249_998)); err != nil {
				t.Errorf("250,000 values: %v", err)
			}
			if _, err := op.ParseJSON(at(249_999)); !errors.Is(err, op.TooLarge) {
				t.Errorf("one more of %s: got %v, want too_large", value, err)
			}
			if _, err := op.ParseOwn(at(300_000)); err != nil {
				t.Errorf("what Holdpoint wrote itself: %v", err)
			}
		}
		long := `{"operations":[{"op":"set","path":"/a","value":[` + strings.Repeat("1,", 250_000) + `1]}]}`
		if _, err := op.ParseJSON([]byte(long)); !errors.Is(err, op.TooLarge) {
			t.Errorf("within a value that stays text: got %v, want too_large", err)
		}
	})
	bad := []string{``, `[]`, `{}x`, `{"a":1}{"b":2}`, `{"a":01}`, `{"a":-0}`, `{"a":1.0}`, `{"a":1e3}`, `{"a":9007199254740992}`,
		`{"a":"\ud800"}`, `{"a":"\udc00\ud800"}`, `{"a":"\q"}`, "{\"a\":\"\x01\"}", "{\"a\":\"\xff\"}", `{"a":tru}`, `{"a":}`, `{,}`, `{"a":[1,]}`,
		strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)}
	for _, b := range bad {
		if _, err := op.ParseJSON([]byte(b)); !errors.Is(err, op.BadRequest) {
			t.Errorf("%.40q: got %v, want bad_request", b, err)
		}
	}
	o, err := op.ParseJSON([]byte(` {"b":[1,-9007199254740991,true,null,{}], "a":"\u00e9\ud83d\ude00\"\/\n" } `))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"a":"é😀\"/\n","b":[1,-9007199254740991,true,null,{}]}`
	if got := op.Canonical(o); string(got) != want {
		t.Errorf("canonical form: got %s, want %s", got, want)
	}
}

func TestArguments(t *testing.T) {
	spec, _ := op.Lookup(op.EditFile)
	t.Run("C34 unknown arguments are refused, naming the field", func(t *testing.T) {
		_, _, _, err := op.ParseArgs(spec, op.Object{"path": "a", "alow_sensitive": true})
		var e *op.Error
		if !errors.As(err, &e) || e.Code != op.BadRequest || e.Field != "args.alow_sensitive" {
			t.Errorf("got %v, want bad_request at args.alow_sensitive", err)
		}
	})
	a, named, warnings, err := op.ParseArgs(spec, op.Object{"file_path": "a", "replacements": []any{op.Object{"old_content": "x", "new_content": "y"}}})
	if err != nil {
		t.Fatal(err)
	}
	e := a.(*op.EditArgs)
	if e.Path != "a" || len(e.Edits) != 1 || e.Edits[0] != (op.Edit{OldString: "x", NewString: "y"}) || len(warnings) != 4 {
		t.Errorf("got %+v with %d warnings", e, len(warnings))
	}
	if got := string(op.Canonical(named)); got != `{"edits":[{"new_string":"y","old_string":"x"}],"path":"a"}` {
		t.Errorf("named arguments: %s", got)
	}
	t.Run("C14 what only the daemon knows is no argument", func(t *testing.T) {
		for _, k := range []string{"approved", "trusted", "workspace_root", "risk", "workflow_id", "require_approval"} {
			for _, spec := range op.Operations() {
				args := op.Object{k: true}
				for name, v := range op.Example(spec.Name)["args"].(op.Object) {
					args[name] = v
				}
				if _, _, _, err := op.ParseArgs(spec, args); !errors.Is(err, op.BadRequest) {
					t.Errorf("%s of %s: got %v, want bad_request", k, spec.Name, err)
				}
			}
		}
	})
	for _, wrong := range []op.Object{{"path": int64(1)}, {"path": "a", "replace_all": "true"}, {"path": "a", "path2": "b"}, {"path": "a", "file": "b"}, {"old_string": "x"},
		{"path": "a", "expected_replacements": int64(0)}, {"path": "a", "edits": []any{"x"}}, {"path": "a", "hard_links": "keep"}} {
		if _, _, _, err := op.ParseArgs(spec, wrong); !errors.Is(err, op.BadRequest) {
			t.Errorf("%v: got %v, want bad_request", wrong, err)
		}
	}
}

func TestEscape(t *testing.T) {
	t.Run("D81 names that are no text travel by a reversible form", func(t *testing.T) {
		seen := map[string]string{}
		for _, name := range []string{"a", "line\nbreak", "bad\xff.txt", "raw:%41", "100%", "é", "\x1b[2K", "a\u202eb"} {
			wire := op.Escape(name)
			back, err := op.Unescape(wire)
			if err != nil || back != name {
				t.Errorf("%q: wire %q, back %q, %v", name, wire, back, err)
			}
			if other, dup := seen[wire]; dup {
				t.Errorf("%q and %q share the wire form %q", name, other, wire)
			}
			seen[wire] = name
			if strings.ContainsAny(wire, "\n\x1b\xff") {
				t.Errorf("%q: raw bytes in the wire form %q", name, wire)
			}
		}
	})
	t.Run("S65 invisible characters show as code points", func(t *testing.T) {
		for _, r := range []rune{0x200b, 0x2060, 0xad, 0xfeff, 0x180e, 0x202e, 0x7f, 0x9b, 0x1b, '\r'} {
			got := op.Visible("a"+string(r)+"b", true)
			if got != fmt.Sprintf("a\\u{%04X}b", r) {
				t.Errorf("U+%04X: got %q", r, got)
			}
		}
	})
}

func TestTable(t *testing.T) {
	t.Run("X8 every operation declares its tier, class and switch", func(t *testing.T) {
		for _, s := range op.Operations() {
			if s.Tier.Rank() > 4 || s.Class == op.NoClass || s.Switch == "" || s.Allowed == nil || s.Title == "" || s.Built != (s.Args != nil) {
				t.Errorf("%s: incomplete row %+v", s.Name, s)
			}
		}
	})
	t.Run("I10 a destructive operation names what takes it back", func(t *testing.T) {
		for _, s := range op.Operations() {
			undo, ok := op.Lookup(s.UndoWith)
			if s.Class == op.Destructive && (!ok || undo.NeedsApprovalPerCall()) {
				t.Errorf("%s: undone with %q", s.Name, s.UndoWith)
			}
		}
	})
	t.Run("I81 what undoes an operation is declared in the same table", func(t *testing.T) {
		for _, s := range op.Operations() {
			if _, ok := op.Lookup(s.UndoWith); s.UndoWith != "" && !ok {
				t.Errorf("%s names %q", s.Name, s.UndoWith)
			}
		}
	})
}

func TestInverse(t *testing.T) {
	steps := []op.Step{{Do: op.MakeDir, Path: "d"}, {Do: op.Place, Path: "d/f", Slot: "s"}, {Do: op.Move, Path: "a", To: "b"}, {Do: op.Take, Path: "x"}, {Do: op.Swap, Path: "y"}}
	twice := op.Inverse(op.Inverse(steps))
	if fmt.Sprint(twice) != fmt.Sprint(steps) {
		t.Errorf("the inverse of the inverse is\n%v, want\n%v", twice, steps)
	}
}

func FuzzCanonical(f *testing.F) {
	f.Add([]byte(`{"a":[1,"x",{"b":null}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := op.ParseJSON(data)
		if err != nil {
			return
		}
		once := op.Canonical(o)
		again, err := op.ParseJSON(once)
		if err != nil || !bytes.Equal(op.Canonical(again), once) {
			t.Fatalf("%q: canonical form %q does not come back: %v", data, once, err)
		}
	})
}
