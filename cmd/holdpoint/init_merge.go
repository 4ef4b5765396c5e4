package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"holdpoint/op"
)

// obj is a JSON object.
type obj = map[string]any

// tomlString writes a TOML basic string; its escapes are those of JSON.
func tomlString(s string) string { return string(op.AppendString(nil, s)) }

// rendered is how a setting looks in a file of its own.
func (s setting) rendered() string {
	switch {
	case s.json != nil:
		return string(indented(s.json))
	case s.toml != "":
		return s.toml
	}
	return s.text
}

func indented(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		panic("init: internal error: " + err.Error())
	}
	return b.Bytes()
}

// merged puts a setting into what stands in its file and loses nothing of that. It is an
// error where that cannot be promised: a file with comments would come back without them.
func (s setting) merged(old []byte) ([]byte, error) {
	if s.lacks(old) == "" {
		return old, nil
	}
	if len(bytes.TrimSpace(old)) == 0 {
		return []byte(s.rendered()), nil
	}
	switch {
	case s.json != nil:
		have, err := jsonObject(old)
		if err != nil {
			return nil, err
		}
		out, err := together(have, s.json, "")
		if err != nil {
			return nil, err
		}
		return indented(out), nil
	case s.toml != "":
		return mergedTOML(old, s.toml)
	}
	return nil, errors.New("another file of this name is there")
}

// jsonObject reads strict JSON with numbers as they are written.
func jsonObject(b []byte) (obj, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var o obj
	if err := d.Decode(&o); err != nil {
		return nil, errors.New("it is no plain JSON (comments?)")
	}
	if d.More() {
		return nil, errors.New("it holds more than one JSON value")
	}
	return o, nil
}

// together adds want to have: objects key by key, lists by what they lack.
func together(have, want obj, at string) (obj, error) {
	out := obj{}
	for k, v := range have {
		out[k] = v
	}
	for k, w := range want {
		h, there := out[k]
		switch w := w.(type) {
		case obj:
			inner, ok := h.(obj)
			if there && !ok {
				return nil, fmt.Errorf("%s%s is no object", at, k)
			}
			v, err := together(inner, w, at+k+".")
			if err != nil {
				return nil, err
			}
			out[k] = v
		case []any:
			list, ok := h.([]any)
			if there && !ok {
				return nil, fmt.Errorf("%s%s is no list", at, k)
			}
			if k == "args" { // a command line is one thing
				list = nil
			}
			list = slices.Clone(list)
			for _, e := range w {
				if !slices.ContainsFunc(list, func(x any) bool { return reflect.DeepEqual(x, e) }) {
					list = append(list, e)
				}
			}
			out[k] = list
		default:
			out[k] = w
		}
	}
	return out, nil
}

// lacks names what a file does not say yet; empty when it says all.
func (s setting) lacks(old []byte) string {
	if len(bytes.TrimSpace(old)) == 0 {
		return "the file"
	}
	want, have := s.json, obj(nil)
	switch {
	case s.json != nil:
		var err error
		if have, err = jsonObject(old); err != nil {
			return "a plain JSON object"
		}
	case s.toml != "":
		want = obj{}
		if toml.Unmarshal([]byte(s.toml), &want) != nil || toml.Unmarshal(old, &have) != nil {
			return "a TOML document"
		}
	default:
		if string(old) != s.text {
			return "the same text"
		}
		return ""
	}
	return lacking(have, want, "")
}

func lacking(have, want obj, at string) string {
	keys := make([]string, 0, len(want))
	for k := range want {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		switch w := want[k].(type) {
		case obj:
			inner, _ := have[k].(obj)
			if what := lacking(inner, w, at+k+"."); what != "" {
				return what
			}
		case []any:
			list, _ := have[k].([]any)
			for _, e := range w {
				if !slices.ContainsFunc(list, func(x any) bool { return reflect.DeepEqual(x, e) }) {
					return fmt.Sprintf("%s%s: %v", at, k, e)
				}
			}
		default:
			if !reflect.DeepEqual(have[k], w) {
				return at + k
			}
		}
	}
	return ""
}

// mergedTOML adds tables and keys to a document and keeps each byte of it. A key that is
// there with another value is the person's, so it is an error.
func mergedTOML(old []byte, add string) ([]byte, error) {
	var have obj
	if err := toml.Unmarshal(old, &have); err != nil {
		return nil, errors.New("it is no TOML")
	}
	text, table := string(old), ""
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	for _, l := range strings.Split(strings.TrimSpace(add), "\n") {
		switch {
		case l == "":
		case strings.HasPrefix(l, "["):
			table = l
		default:
			key, _, _ := strings.Cut(l, " ")
			if _, there := at(have, table)[key]; there {
				continue // looked at below
			}
			text = withKey(text, table, l)
		}
	}
	s := setting{toml: add}
	if what := s.lacks([]byte(text)); what != "" {
		return nil, fmt.Errorf("it says something else for %s", what)
	}
	return []byte(text), nil
}

// at finds a table of a document by its heading.
func at(o obj, heading string) obj {
	for _, k := range strings.FieldsFunc(heading, func(r rune) bool { return strings.ContainsRune("[].", r) }) {
		o, _ = o[k].(obj)
	}
	return o
}

// withKey puts a line under its heading, adding the heading where there is none.
func withKey(text, heading, l string) string {
	if heading == "" {
		return l + "\n" + text
	}
	if i := strings.Index("\n"+text, "\n"+heading+"\n"); i >= 0 {
		end := i + len(heading) + 1
		return text[:end] + l + "\n" + text[end:]
	}
	return text + "\n" + heading + "\n" + l + "\n"
}
