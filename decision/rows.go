package decision

import (
	"bufio"
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"holdpoint/op"
)

// Row is one judgement as data: the four inputs and, in a table, the answer wanted.
type Row struct {
	Name        string         `json:"name"`
	Request     op.Terms       `json:"request"`
	Profile     op.Profile     `json:"profile"`
	Facts       op.Facts       `json:"facts"`
	Environment op.Environment `json:"environment"`
	Want        *op.Decision   `json:"want,omitempty"`
}

// JudgeRows judges rows, given as JSON lines or as one JSON array, and writes one
// decision a line. It stops at the first row that is not well formed, with the line and
// the field; the decisions before it have been written by then.
//
// A fact that a row leaves out is a missing fact, not a false one. What it leaves out of
// the profile takes the strict value.
func JudgeRows(r io.Reader, w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	return eachRow(r, func(line int, text []byte) error {
		row, err := parseRow(text)
		if err != nil {
			return atLine(line, err)
		}
		if err := out.Encode(Judge(row.Request, row.Profile, row.Facts, row.Environment)); err != nil {
			return op.Fail(op.IOError, "the decision could not be written").Because(err)
		}
		return nil
	})
}

func atLine(line int, err error) error {
	e := *op.AsError(err)
	e.Message = fmt.Sprintf("line %d: %s", line, e.Message)
	return &e
}

// eachRow calls do with each JSON object of the input and the line on which it begins.
func eachRow(r io.Reader, do func(line int, text []byte) error) error {
	in := bufio.NewReader(r)
	for line := 1; ; line++ {
		text, err := in.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return op.Fail(op.IOError, "the rows could not be read").Because(err)
		}
		atEnd := err == io.EOF
		switch trimmed := bytes.TrimSpace(text); {
		case len(trimmed) == 0:
		case trimmed[0] == '[':
			return eachElement(line, io.MultiReader(bytes.NewReader(text), in), do)
		default:
			if err := do(line, trimmed); err != nil {
				return err
			}
		}
		if atEnd {
			return nil
		}
	}
}

func eachElement(line int, r io.Reader, do func(int, []byte) error) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return op.Fail(op.IOError, "the rows could not be read").Because(err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	lineAt := func(offset int64) int { return line + bytes.Count(data[:offset], []byte("\n")) }
	bad := func(what string, err error) error {
		offset := dec.InputOffset()
		if s := (*json.SyntaxError)(nil); errors.As(err, &s) {
			offset = min(s.Offset, int64(len(data)))
		}
		return atLine(lineAt(offset), op.Fail(op.BadRequest, what).Because(err))
	}
	if _, err := dec.Token(); err != nil {
		return bad("the array is not well-formed JSON", err)
	}
	for dec.More() {
		var text json.RawMessage
		if err := dec.Decode(&text); err != nil {
			return bad("the array is not well-formed JSON", err)
		}
		if err := do(lineAt(dec.InputOffset()-int64(len(text))), text); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return bad("the array is not closed", err)
	}
	if rest := data[dec.InputOffset():]; len(bytes.TrimSpace(rest)) > 0 {
		return bad("data after the array", nil)
	}
	return nil
}

// parseRow reads one row strictly: unknown, repeated and mistyped fields are errors that
// name the field. encoding/json alone would fold case and keep the last of two.
func parseRow(text []byte) (Row, error) {
	o, err := op.ParseJSON(text)
	if err != nil {
		return Row{}, err
	}
	if err := conform(reflect.TypeFor[Row](), o, ""); err != nil {
		return Row{}, err
	}
	row := Row{Profile: op.Profile{RequireApproval: true}, Facts: op.Facts{ChangeBytes: -1}}
	if err := json.Unmarshal(text, &row); err != nil {
		e := op.Fail(op.BadRequest, "a value cannot be read: "+err.Error()).Because(err)
		if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
			e.Field = wrong.Field
		}
		return Row{}, e
	}
	if row.Request.Op == "" {
		return Row{}, op.Fail(op.BadRequest, "the operation is missing").In("request.op")
	}
	if facts, _ := o["facts"].(op.Object); !complete(facts) {
		row.Facts.Available = false
	}
	return row, nil
}

// complete reports whether all facts are given; those that concern only some calls
// (deletes, contains_protected, sizes, hashes) may be left out.
func complete(facts op.Object) bool {
	targets, _ := facts["targets"].([]any)
	all := has(facts, "workspace_bound", "available", "planned", "mutates", "process_tier", "confined_rehearsal",
		"change_bytes", "overwrites", "creates", "targets")
	for _, t := range targets {
		o, _ := t.(op.Object)
		all = all && has(o, "path", "role", "exists", "kind", "protected", "sensitive", "ignored")
	}
	return all
}

func has(o op.Object, names ...string) bool {
	for _, n := range names {
		if o[n] == nil {
			return false
		}
	}
	return true
}

// conform checks a decoded value against a Go type, by the exact names of its json tags.
// null stands for a value that was left out.
func conform(t reflect.Type, v any, at string) error {
	wrong := func(want string) error {
		return op.Fail(op.BadRequest, at+" must be "+want).In(at)
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if v == nil {
		return nil
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) || t.Kind() == reflect.String {
		if _, ok := v.(string); !ok {
			return wrong("a string")
		}
		return nil
	}
	switch t.Kind() {
	case reflect.Bool:
		if _, ok := v.(bool); !ok {
			return wrong("true or false")
		}
	case reflect.Slice:
		list, ok := v.([]any)
		if !ok {
			return wrong("a list")
		}
		for i, e := range list {
			here := fmt.Sprintf("%s[%d]", at, i)
			if e == nil {
				return op.Fail(op.BadRequest, here+" must not be null").In(here)
			}
			if err := conform(t.Elem(), e, here); err != nil {
				return err
			}
		}
	case reflect.Struct:
		o, ok := v.(op.Object)
		if !ok {
			return wrong("an object")
		}
		return conformFields(t, o, at)
	default:
		if _, ok := v.(int64); !ok {
			return wrong("a whole number")
		}
	}
	return nil
}

func conformFields(t reflect.Type, o op.Object, at string) error {
	var names []string
	types := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
		types[name] = f.Type
	}
	for name := range o {
		here := strings.TrimPrefix(at+"."+name, ".")
		if types[name] == nil {
			return op.Fail(op.BadRequest, fmt.Sprintf("unknown field %q", here)).In(here).Do("the fields are " + strings.Join(names, ", "))
		}
	}
	for _, name := range names {
		if err := conform(types[name], o[name], strings.TrimPrefix(at+"."+name, ".")); err != nil {
			return err
		}
	}
	return nil
}
