package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdpoint/op"
)

func TestArgumentWords(t *testing.T) {
	files := map[string]string{"new.txt": "line\n", "bin": "\xff\x00", "-": "from stdin"}
	read := func(name string) ([]byte, error) { return []byte(files[name]), nil }
	for _, c := range []struct {
		name, op string
		words    []string
		want     string
		code     op.Code // of the error; empty with an empty want is a usage error
		hint     string
	}{
		{name: "types come from the table", op: "view_file", words: []string{"path=a", "start_line=3"}, want: `{"path":"a","start_line":3}`},
		{name: "a number as text stays text", op: "edit_file", words: []string{"path=a", "old_string=12", "new_string=true"}, want: `{"path":"a","old_string":"12","new_string":"true"}`},
		{name: "the first = divides", op: "edit_file", words: []string{"path=a=b", "old_string==", "new_string="}, want: `{"path":"a=b","old_string":"=","new_string":""}`},
		{name: "@ is literal", op: "view_file", words: []string{"path=@types/a"}, want: `{"path":"@types/a"}`},
		{name: "flags of the embedded struct", op: "delete_file", words: []string{"path=a", "recursive=true", "allow_ignored=false"}, want: `{"path":"a","recursive":true,"allow_ignored":false}`},
		{name: "JSON value", op: "edit_file", words: []string{"path=a", `edits:=[{"old_string":"x","new_string":"y"}]`}, want: `{"path":"a","edits":[{"old_string":"x","new_string":"y"}]}`},
		{name: "JSON value of a key we do not know is the daemon's to judge", op: "view_file", words: []string{"path=a", "newer:=1"}, want: `{"path":"a","newer":1}`},
		{name: "text of a file", op: "write_file", words: []string{"path=a", "content@=new.txt"}, want: `{"path":"a","content":"line\n"}`},
		{name: "standard input", op: "write_file", words: []string{"path=a", "content@=-"}, want: `{"path":"a","content":"from stdin"}`},
		{name: "bytes become base64", op: "write_file", words: []string{"path=a", "content@=bin"}, want: `{"path":"a","content_base64":"/wA="}`},
		{name: "bytes elsewhere are refused", op: "edit_file", words: []string{"path=a", "old_string@=bin"}, code: op.BadRequest},
		{name: "names of other tools keep their type", op: "edit_file", words: []string{"filePath=a", "oldText=1", "newText=2", "replaceAll=true"}, want: `{"filePath":"a","oldText":"1","newText":"2","replaceAll":true}`},
		{name: "a path of odd bytes is escaped", op: "view_file", words: []string{"path=a\xff%"}, want: `{"path":"raw:%a%FF%25"}`},
		{name: "an escaped path stays", op: "view_file", words: []string{"path=raw:%a%FF"}, want: `{"path":"raw:%a%FF"}`},
		{name: "odd bytes in a text are refused", op: "write_file", words: []string{"path=a", "content=\xff"}, code: op.BadRequest, hint: "content@=FILE"},
		{name: "an unknown key names the nearest", op: "delete_file", words: []string{"path=a", "recursiv=true"}, code: op.BadRequest, hint: "did you mean recursive?"},
		{name: "an unknown key lists all", op: "file_info", words: []string{"zzzzzzzzzzzz=1"}, code: op.BadRequest, hint: "its arguments are path"},
		{name: "not a number", op: "view_file", words: []string{"path=a", "start_line=1.5"}, code: op.BadRequest},
		{name: "not a bool", op: "delete_file", words: []string{"path=a", "recursive=yes"}, code: op.BadRequest},
		{name: "a list needs JSON", op: "edit_file", words: []string{"path=a", "edits=x"}, code: op.BadRequest},
		{name: "bad JSON", op: "edit_file", words: []string{"edits:=[}"}, code: op.BadRequest},
		{name: "twice", op: "view_file", words: []string{"path=a", "path=b"}},
		{name: "twice in two forms", op: "view_file", words: []string{`path:="a"`, "path=b"}},
		{name: "no key", op: "view_file", words: []string{"a.go"}},
		{name: "an operation we do not know takes texts", op: "newer_op", words: []string{"n=1"}, want: `{"n":"1"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := argWords(op.Name(c.op), c.words, read)
			var usage usageError
			switch {
			case c.want != "" && err != nil:
				t.Fatal(err)
			case c.want != "":
				sameJSON(t, string(got), c.want)
			case c.code == "" && !errors.As(err, &usage):
				t.Errorf("got %v, want a usage error", err)
			case c.code != "" && (!errors.Is(err, c.code) || !strings.Contains(op.AsError(err).Hint, c.hint)):
				t.Errorf("got %v, hint %q", err, op.AsError(err).Hint)
			}
		})
	}
}

// The alias table is private to op; each alias that its parser takes must be found here.
func TestAliasesKeepTheirType(t *testing.T) {
	for alias, want := range map[string]string{"file_path": `"1"`, "target_file": `"1"`, "if_match": `"1"`, "create_backup": "bad", "allow_multiple": "bad"} {
		got, err := argWords(op.EditFile, []string{alias + "=1"}, nil)
		if want == "bad" {
			if !errors.Is(err, op.BadRequest) || !strings.Contains(err.Error(), "true or false") {
				t.Errorf("%s: got %s, %v; want it typed as a flag", alias, got, err)
			}
			continue
		}
		if string(got) != `{"`+alias+`":`+want+`}` {
			t.Errorf("%s: got %s, %v", alias, got, err)
		}
	}
}

func TestArgsFlagReachesTheDaemonAsWritten(t *testing.T) {
	f := newFake(t)
	f.answer("POST /v1/call", 400, `{"status":"failed","op":"view_file","effects":[],"effects_executed":false,"error":{"code":"bad_request","message":"key \"path\" appears twice"}}`)
	file := filepath.Join(f.dir, "args.json")
	if err := os.WriteFile(file, []byte(`{"path":"a","path":"b"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string]struct {
		arg, in string
	}{"text": {`{"path":"a","path":"b"}`, ""}, "file": {"@" + file, ""}, "stdin": {"-", `{"path":"a","path":"b"}`}} {
		t.Run(name, func(t *testing.T) {
			f.runWith(with{in: w.in}, "call", "view_file", "--args", w.arg).wants(t, 6, "bad_request", "appears twice")
			if got := f.last("/v1/call").body; !strings.Contains(got, `{"path":"a","path":"b"}`) {
				t.Errorf("the daemon got %s", got)
			}
		})
	}
	for _, bad := range []string{`[]`, `{"a":1},"dry_run":true`, `{`, ` `, `"x"`} {
		before := len(f.requests())
		f.run("call", "view_file", "--args", bad).wants(t, 6, "bad_request")
		if len(f.requests()) != before {
			t.Errorf("%s was sent", bad)
		}
	}
	f.run("call", "view_file", "path=a", "--args", "{}").wants(t, 2, "not both")
}
