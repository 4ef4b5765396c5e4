package fileops

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// docFormat edits one kind of document in its text. An edit touches the value it is about
// and what separates it from its neighbours, nothing else. Path leads to a place that is
// there; what does not fit its kind was refused before.
type docFormat interface {
	// decode gives what the text means; two texts that mean the same are DeepEqual.
	decode(text []byte) (any, error)
	// value gives what a value of the call means in this format.
	value(raw op.Raw) (any, error)
	replace(text []byte, path []string, raw op.Raw) ([]byte, error)
	addKey(text []byte, path []string, key string, raw op.Raw) ([]byte, error)
	insert(text []byte, path []string, i int, raw op.Raw) ([]byte, error)
	remove(text []byte, path []string) ([]byte, error)
}

// docFormatOf chooses by the argument, else by the name.
func docFormatOf(a *op.PatchArgs, p op.Path) (docFormat, error) {
	name := a.Format
	if name == "" {
		base := p.Base()
		name = strings.ToLower(base[strings.LastIndexByte(base, '.')+1:])
	}
	switch name {
	case "json", "jsonc":
		return jsonFormat{}, nil
	case "yaml", "yml":
		return yamlFormat{}, nil
	case "toml":
		return tomlFormat{}, nil
	}
	return nil, op.Fail(op.BadRequest, "the kind of this document is not known by its name").In("args.format").Do("say format: json, yaml or toml")
}

// checkPointers refuses what is wrong whatever the document says.
func checkPointers(a *op.PatchArgs) error {
	switch a.Format {
	case "", "json", "yaml", "toml":
	default:
		return op.Fail(op.BadRequest, "format must be json, yaml or toml").In("args.format")
	}
	for i, o := range a.Operations {
		at := fmt.Sprintf("args.operations[%d]", i)
		needs := o.Op != "remove"
		switch o.Op {
		case "set", "add", "replace", "remove", "append", "insert", "test":
		default:
			return op.Fail(op.BadRequest, "op must be set, add, replace, remove, append, insert or test").In(at + ".op")
		}
		if needs == (o.Value == "") {
			if needs {
				return op.Fail(op.BadRequest, "the value is missing").In(at + ".value")
			}
			return op.Fail(op.BadRequest, "remove takes no value").In(at + ".value")
		}
		if _, err := pointer(o.Path); err != nil {
			return op.AsError(err).In(at + ".path")
		}
	}
	return nil
}

// pointer splits a JSON Pointer (RFC 6901).
func pointer(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	if text[0] != '/' {
		return nil, op.Fail(op.PointerError, `a pointer is empty or begins with "/"`)
	}
	out := strings.Split(text[1:], "/")
	for i, t := range out {
		plain := strings.NewReplacer("~0", "", "~1", "").Replace(t)
		if strings.Contains(plain, "~") {
			return nil, op.Fail(op.PointerError, `"~" stands for itself as ~0, and for "/" as ~1`)
		}
		out[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(t)
	}
	return out, nil
}

func planPointers(ctx context.Context, s Scene, a *op.PatchArgs) (*Plan, error) {
	t, n := s.Targets[0], s.Nodes[0]
	if err := regular(t); err != nil {
		return nil, err
	}
	if _, err := expect(t, a.ExpectedHash); err != nil {
		return nil, err
	}
	format, err := docFormatOf(a, t.Path)
	if err != nil {
		return nil, err
	}
	old, err := bytesOf(s, 0)
	if err != nil {
		return nil, err
	}
	text, err := s.pointers(ctx, format, old, a.Operations)
	if err != nil {
		return nil, placed(err, t.Path)
	}
	if bytes.Equal(text, old) {
		return nil, op.Fail(op.BadRequest, "the operations change nothing").At(t.Path).In("args.operations")
	}
	if err := hardLinks(t, n, a.Safety); err != nil {
		return nil, err
	}
	p := &Plan{Title: "Patch 1 file", BreakLinks: a.HardLinks == "break", Warnings: WriteWarnings(old, text)}
	for _, o := range a.Operations {
		p.Lines = append(p.Lines, fmt.Sprintf("%s %s in %s", o.Op, op.Visible(o.Path, false), op.Escape(string(t.Path))))
	}
	p.replace(s, 0, text, rooted.Meta{})
	p.Diff = Unified(t.Path, old, text, true, true)
	p.ChangeBytes = p.Diff.Bytes
	p.Result = map[string]any{"hash": rooted.HashBytes(text), "size": len(text), "diff": p.Diff.Text, "operations": len(a.Operations)}
	return p, nil
}

// applyPointers does the operations in order on the text, and after each one compares what
// the text means now with what it should: an edit that would mean anything else is refused
// rather than written.
func applyPointers(f docFormat, old []byte, ops []op.PointerOp) ([]byte, error) {
	if len(ops) > maxEdits {
		return nil, op.Fail(op.TooLarge, fmt.Sprintf("more than %d operations in one call", maxEdits)).In("args.operations").Do("send them in several calls, or write the whole file")
	}
	text := old
	doc, err := f.decode(text)
	if err != nil {
		return nil, op.Fail(op.InvalidDocument, "the document cannot be read: "+firstLine(err)).Do("mend it with edit_file first")
	}
	for i, o := range ops {
		fail := func(code op.Code, what string) error {
			return op.Fail(code, fmt.Sprintf("operation %d (%s %s): %s", i+1, o.Op, op.Visible(o.Path, false), what)).In(fmt.Sprintf("args.operations[%d]", i)).
				Do("nothing was changed; view the file for what is there")
		}
		next, want, err := doPointer(f, text, doc, o)
		if err != nil {
			return nil, fail(op.AsError(err).Code, op.AsError(err).Message)
		}
		is, err := f.decode(next)
		if err != nil || !reflect.DeepEqual(is, want) {
			return nil, fail(op.PointerError, "this place cannot be changed without rewriting its surroundings; change it with edit_file")
		}
		text, doc = next, is
	}
	return text, nil
}

func firstLine(err error) string {
	text, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	return op.Visible(text, false)
}

// doPointer does one operation on the text and on its meaning.
func doPointer(f docFormat, text []byte, doc any, o op.PointerOp) ([]byte, any, error) {
	path, err := pointer(o.Path)
	if err != nil {
		return nil, nil, err
	}
	var v any
	if o.Value != "" {
		if v, err = f.value(o.Value); err != nil {
			return nil, nil, op.Fail(op.PointerError, "the value has no form in this format: "+firstLine(err))
		}
	}
	here, there := find(doc, path)
	switch o.Op {
	case "test":
		if !there || !reflect.DeepEqual(here, v) {
			return nil, nil, op.Fail(op.PointerError, "the value there is another")
		}
		return text, doc, nil
	case "append":
		list, ok := here.([]any)
		if !ok {
			return nil, nil, op.Fail(op.PointerError, "no list is there")
		}
		next, err := f.insert(text, path, len(list), o.Value)
		return next, put(doc, path, append(append([]any(nil), list...), v)), err
	case "replace", "remove":
		if !there {
			return nil, nil, op.Fail(op.PointerError, "nothing is there")
		}
	}
	if len(path) == 0 {
		if o.Op == "remove" || o.Op == "insert" {
			return nil, nil, op.Fail(op.PointerError, "the document itself cannot be removed or inserted")
		}
		next, err := f.replace(text, nil, o.Value)
		return next, v, err
	}
	if o.Op == "remove" {
		next, err := f.remove(text, path)
		return next, without(doc, path), err
	}
	up, key := path[:len(path)-1], path[len(path)-1]
	parent, ok := find(doc, up)
	if !ok {
		return nil, nil, op.Fail(op.PointerError, "what it should stand in is not there")
	}
	switch p := parent.(type) {
	case map[string]any:
		switch {
		case o.Op == "insert":
			return nil, nil, op.Fail(op.PointerError, "insert is for lists, and this is no list")
		case there:
			next, err := f.replace(text, path, o.Value)
			return next, put(doc, path, v), err
		}
		next, err := f.addKey(text, up, key, o.Value)
		return next, put(doc, path, v), err
	case []any:
		i, err := index(key, len(p), o.Op != "replace")
		if err != nil {
			return nil, nil, err
		}
		if i < len(p) && (o.Op == "set" || o.Op == "replace") {
			next, err := f.replace(text, path, o.Value)
			return next, put(doc, path, v), err
		}
		next, err := f.insert(text, up, i, o.Value)
		grown := append(append(append([]any(nil), p[:i]...), v), p[i:]...)
		return next, put(doc, up, grown), err
	}
	return nil, nil, op.Fail(op.PointerError, "what it should stand in is neither a list nor an object")
}

// index reads a place in a list; "-" is behind the last.
func index(key string, n int, end bool) (int, error) {
	if key == "-" && end {
		return n, nil
	}
	i, err := strconv.Atoi(key)
	if err != nil || strconv.Itoa(i) != key || i < 0 || i > n || i == n && !end {
		return 0, op.Fail(op.PointerError, fmt.Sprintf("the list has %d entries, counted from 0, and %q is none of them", n, key))
	}
	return i, nil
}
