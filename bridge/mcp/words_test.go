package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"holdpoint/op"
)

func TestToolsets(t *testing.T) {
	for _, c := range []struct {
		tools  string
		compat bool
		has    []string
		lacks  []string
	}{
		{"", false, []string{"view_file", "edit_file", "undo", "preflight", "approval_wait"}, []string{"read_text_file", "approve"}},
		{"read", false, []string{"view_file", "preflight"}, []string{"edit_file", "undo", "approval_wait"}},
		{"edit", false, []string{"write_file", "delete_file", "approval_cancel"}, []string{"view_file"}},
		{"read,edit", true, []string{"read_text_file", "search_files", "list_allowed_directories"}, []string{"workspace_shell"}},
	} {
		o, err := ParseOptions(c.tools, c.compat)
		if err != nil {
			t.Fatal(err)
		}
		s := newToolset(o)
		for _, n := range c.has {
			if s.byName[n] == nil {
				t.Errorf("%q: no %s", c.tools, n)
			}
		}
		for _, n := range c.lacks {
			if s.byName[n] != nil {
				t.Errorf("%q: has %s", c.tools, n)
			}
		}
	}
	if _, err := ParseOptions("read,write", false); !errors.Is(err, op.BadRequest) {
		t.Errorf("an unknown group: %v", err)
	}
}

func TestSchemas(t *testing.T) {
	for _, st := range styles {
		for _, tool := range append(st.toolset(All()).list, st.toolset(Options{Compat: true}).list...) {
			for _, schema := range [][]byte{tool.input, tool.output} {
				var v struct {
					Type       string
					Properties map[string]struct{ Type string }
					Required   []string
				}
				if err := json.Unmarshal(schema, &v); err != nil || v.Type != "object" {
					t.Fatalf("%s: %v: %s", tool.name, err, schema)
				}
				for name, p := range v.Properties {
					if p.Type == "" && name != "status" && !strings.Contains(string(tool.output), `"`+name+`"`) {
						t.Errorf("%s does not say what %s is: some clients take no such tool", tool.name, name)
					}
				}
				for _, r := range v.Required {
					if _, ok := v.Properties[r]; !ok && r != "status" {
						t.Errorf("%s asks for %s and does not say what it is", tool.name, r)
					}
				}
			}
			if tool.title == "" || tool.about == "" {
				t.Errorf("%s has no title or no description", tool.name)
			}
			if tool.readOnly && (tool.destructive || tool.changes) {
				t.Errorf("%s is read-only and changes something", tool.name)
			}
		}
	}
	t.Run("each built operation is a tool with its own arguments", func(t *testing.T) {
		s := newToolset(All())
		for _, spec := range op.Operations() {
			tool := s.byName[string(spec.Name)]
			if (tool != nil) != spec.Built {
				t.Errorf("%s: built %v, a tool %v", spec.Name, spec.Built, tool != nil)
			}
			if tool == nil {
				continue
			}
			for _, f := range op.Fields(spec.Args) {
				if f.Required && !strings.Contains(string(tool.input), `"`+f.Name+`"`) {
					t.Errorf("%s does not offer %s", spec.Name, f.Name)
				}
			}
		}
		if n := s.size(); n > maxList {
			t.Errorf("the list takes %d bytes", n)
		}
	})
}

func TestHints(t *testing.T) {
	for _, code := range codesIn(t) {
		a := failed(op.Fail(code, "why"))
		if !a.isError || strings.Count(a.text, "Next: ") != 1 || !strings.HasPrefix(a.text, string(code)+": why.") {
			t.Errorf("%s: %q", code, a.text)
		}
	}
	if a := failed(op.Fail(op.NotFound, "why").Do("do this")); !strings.Contains(a.text, "Next: do this.") {
		t.Errorf("the maker's own hint is lost: %q", a.text)
	}
}

// codesIn reads the codes where they are defined, so that none is forgotten.
func codesIn(t *testing.T) []op.Code {
	t.Helper()
	source, err := os.ReadFile("../../op/error.go")
	if err != nil {
		t.Fatal(err)
	}
	var out []op.Code
	for _, m := range regexp.MustCompile(`Code = "([a-z_]+)"`).FindAllSubmatch(source, -1) {
		out = append(out, op.Code(m[1]))
	}
	if len(out) < 60 {
		t.Fatalf("only %d codes were found", len(out))
	}
	return out
}

func TestOtherWays(t *testing.T) {
	r := op.Reply{Status: op.Held, Approval: &op.Approval{ID: "ap_1", Title: "Replace 1 file"}, Decision: &op.Decision{Reason: op.ReasonOverwrite}}
	if a := worded(r, ""); !strings.Contains(a.text, "edit_file") || !strings.Contains(a.text, "approval_wait") {
		t.Errorf("an overwrite: %q", a.text)
	}
	r.Decision.Reason = op.ReasonDestructive
	if a := worded(r, ""); strings.Contains(a.text, "another time") {
		t.Errorf("a delete has no other way: %q", a.text)
	}
}

func TestBounds(t *testing.T) {
	long := strings.Repeat("\u4e16", 40_000)
	for _, n := range []int{100, 599, 600, maxText} {
		for _, s := range []string{cut(long, n), short(long, n)} {
			if len(s) > n || !utf8.ValidString(s) {
				t.Errorf("%d: %d bytes, valid %v", n, len(s), utf8.ValidString(s))
			}
		}
	}
	var effects []op.Effect
	for i := range 500 {
		effects = append(effects, op.Effect{Path: op.Path(strings.Repeat("p", 300) + fmt.Sprint(i)), Change: "modified"})
	}
	r := op.Reply{Status: op.Done, OperationID: "op_x", Effects: effects, UndoCredential: &op.Credential{ID: "un_x"},
		Result: map[string]any{"hash": "blake3:" + strings.Repeat("a", 64), "diff": long}, Warnings: []op.Warning{{Code: "x", Message: long}}}
	a := worded(r, long)
	if len(a.text) > maxSummary || !strings.Contains(a.text, "Undo: un_x") || a.facts["undo"] != "un_x" {
		t.Errorf("%d bytes: %q", len(a.text), a.text)
	}
	if b := a.structured(); len(b) > maxFacts || !json.Valid(b) || !strings.Contains(string(b), `"undo":"un_x"`) {
		t.Errorf("%d bytes of facts", len(b))
	}
}

// quiet answers nothing.
type quiet struct{ Engine }

func (quiet) Approval(context.Context, op.Caller, op.ID, time.Duration) (Approval, error) {
	return Approval{ID: "ap_x", State: "pending", Reply: op.Reply{Status: op.Held, Approval: &op.Approval{ID: "ap_x", Title: "Delete\u202e 1 file"}}}, nil
}

func TestWaitArguments(t *testing.T) {
	c := &caller{engine: quiet{}}
	for _, args := range []op.Object{{}, {"approval_id": ""}, {"approval_id": int64(1)}, {"approval_id": "ap_x", "timeout_seconds": int64(0)},
		{"approval_id": "ap_x", "timeout_seconds": int64(601)}, {"approval_id": "ap_x", "timeout_seconds": "1"}, {"approval_id": "ap_x", "answer": "approve"}} {
		if a := c.wait(t.Context(), args); !a.isError || a.facts["error"].(*op.Error).Code != op.BadRequest {
			t.Errorf("%v: %v", args, a.facts)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if a := c.wait(ctx, op.Object{"approval_id": "ap_x"}); a.isError || a.facts["state"] != "pending" || strings.Contains(a.text, "\u202e") {
		t.Errorf("%q %v", a.text, a.facts)
	}
}

func TestUnfit(t *testing.T) {
	for _, fine := range []string{`{}`, `{"a":1.5,"b":[-1e9,{"c":"1.5 \" 2","d":12345678901234567890}]}`, `{"a":-0}`, "{\"a\":1}\n"} {
		if err := unfit([]byte(fine)); err != nil {
			t.Errorf("%s: %v", fine, err)
		}
	}
	for _, bad := range []string{``, `[]`, `{"a":1,"a":2}`, `{"a":1.5,"b":{"c":1,"c":2}}`, `{"a":1.5,"\u0061":2}`, `{"a":1}{}`, "{\"a\":\"\xff\"}", `{"a":1.5`, `{"a":"`, `{"a":"\`} {
		if err := unfit([]byte(bad)); !errors.Is(err, op.BadRequest) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
