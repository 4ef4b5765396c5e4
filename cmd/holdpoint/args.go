package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"holdpoint/op"
)

// Arguments of an operation on the command line:
//
//	key=value    typed by the table of operations; a value is literal, "@" included
//	key:=JSON    any JSON value
//	key@=FILE    the text of a file, "-" for standard input
//
// A key of a list of texts may come several times.

// argWords turns words into arguments. read gives the bytes of a file.
func argWords(name op.Name, words []string, read func(string) ([]byte, error)) (json.RawMessage, error) {
	spec, known := op.Lookup(name)
	known = known && spec.Args != nil
	args := map[string]json.RawMessage{}
	lists := map[string][]string{}
	for _, w := range words {
		key, how, value, err := split(w)
		if err != nil {
			return nil, err
		}
		_, twice := args[key]
		if how == ":=" {
			if twice || lists[key] != nil {
				return nil, givenTwice(key)
			}
			if !json.Valid([]byte(value)) {
				return nil, op.Fail(op.BadRequest, key+" is not JSON").In("args." + key)
			}
			args[key] = json.RawMessage(value)
			continue
		}
		f := op.Field{Name: key, Type: reflect.TypeFor[string]()}
		if known {
			if f, err = field(spec, key); err != nil {
				return nil, err
			}
		}
		if how == "@=" {
			if key, value, err = fromFile(key, f, value, read); err != nil {
				return nil, err
			}
			_, twice = args[key]
		}
		if twice {
			return nil, givenTwice(key)
		}
		v, err := typed(key, f, value)
		if err != nil {
			return nil, err
		}
		if f.Type == reflect.TypeFor[[]string]() {
			lists[key] = append(lists[key], string(v))
			continue
		}
		args[key] = v
	}
	for key, list := range lists {
		args[key] = json.RawMessage("[" + strings.Join(list, ",") + "]")
	}
	return object(args), nil
}

func givenTwice(key string) error { return usagef("the argument %s is given twice", key) }

// split takes a word apart at its first "=".
func split(w string) (key, how, value string, err error) {
	key, value, ok := strings.Cut(w, "=")
	how = "="
	if ok && key != "" && (key[len(key)-1] == ':' || key[len(key)-1] == '@') {
		key, how = key[:len(key)-1], key[len(key)-1:]+"="
	}
	if !ok || key == "" || strings.Trim(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		return "", "", "", usagef("%q is no argument; write key=value, key:=JSON, key@=FILE, or all of them as --args JSON", w)
	}
	return key, how, value, nil
}

// field finds the argument that a key names, also under the names of other tools.
func field(spec op.Spec, key string) (op.Field, error) {
	fields := op.Fields(spec.Args)
	var names []string
	for _, f := range fields {
		if f.Name == key {
			return f, nil
		}
		names = append(names, f.Name)
	}
	for _, f := range fields {
		if isAlias(spec, fields, f, key) {
			return f, nil
		}
	}
	return op.Field{}, op.Fail(op.BadRequest, fmt.Sprintf("%s has no argument %q", spec.Name, key)).In("args." + key).
		Do(orNearest(key, names, "its arguments are "+strings.Join(names, ", ")))
}

// isAlias asks the parser of package op, which alone knows the other names: it takes the
// key for f if a call that is otherwise complete is accepted and gives f.
func isAlias(spec op.Spec, fields []op.Field, f op.Field, key string) bool {
	raw := op.Object{key: anyValue(f)}
	for _, other := range fields {
		if other.Required && other.Name != f.Name {
			raw[other.Name] = anyValue(other)
		}
	}
	_, named, _, err := op.ParseArgs(spec, raw)
	_, given := named[f.Name]
	return err == nil && given
}

// anyValue is some value that a field accepts.
func anyValue(f op.Field) any {
	switch base(f.Type).Kind() {
	case reflect.Bool:
		return false
	case reflect.Int64:
		n, _ := strconv.ParseInt(f.Min, 10, 64)
		return n
	case reflect.Slice:
		return []any{}
	case reflect.Map:
		return op.Object{}
	}
	word, _, _ := strings.Cut(f.Enum, "|")
	return word
}

func base(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// pathKeys name workspace paths, whose bytes may be anything and travel escaped.
var pathKeys = []string{"path", "source", "destination", "compare_path", "cwd"}

// typed gives a value the type of its argument.
func typed(key string, f op.Field, value string) (json.RawMessage, error) {
	wrong := func(want string) error {
		return op.Fail(op.BadRequest, key+" must be "+want).In("args." + key)
	}
	if !utf8.ValidString(value) {
		if !slices.Contains(pathKeys, f.Name) {
			return nil, wrong("valid UTF-8").(*op.Error).Do("give bytes as content_base64, or content@=FILE")
		}
		value = op.Escape(value)
	}
	switch t := base(f.Type); t.Kind() {
	case reflect.Bool:
		if value != "true" && value != "false" {
			return nil, wrong("true or false")
		}
		return json.RawMessage(value), nil
	case reflect.Int64:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return nil, wrong("a whole number")
		}
		return strconv.AppendInt(nil, n, 10), nil
	case reflect.String:
		return op.AppendString(nil, value), nil
	case reflect.Slice:
		if t.Elem().Kind() == reflect.String {
			return op.AppendString(nil, value), nil
		}
	}
	return nil, wrong("JSON: write " + key + ":=...").(*op.Error)
}

// fromFile reads the value of a text. Content that is not UTF-8 changes to content_base64.
func fromFile(key string, f op.Field, file string, read func(string) ([]byte, error)) (string, string, error) {
	data, err := read(file)
	if err != nil {
		return "", "", err
	}
	if utf8.Valid(data) {
		return key, string(data), nil
	}
	if f.Name == "content" {
		return "content_base64", base64.StdEncoding.EncodeToString(data), nil
	}
	return "", "", op.Fail(op.BadRequest, file+" is not valid UTF-8").In("args." + key)
}

// argsFlag reads the value of --args: JSON, @FILE or "-". Strictness is the daemon's; only
// what could change the shape of the request is refused here.
func argsFlag(value string, read func(string) ([]byte, error)) (json.RawMessage, error) {
	data := []byte(value)
	var err error
	if file, ok := strings.CutPrefix(value, "@"); ok {
		data, err = read(file)
	} else if value == "-" {
		data, err = read("-")
	}
	if err != nil {
		return nil, err
	}
	if t := strings.TrimLeft(string(data), " \t\r\n"); !json.Valid(data) || t[0] != '{' {
		return nil, op.Fail(op.BadRequest, "--args is not a JSON object").In("args")
	}
	return data, nil
}

// readInput reads a file named on the command line, or standard input for "-".
func (a *app) readInput(name string) ([]byte, error) {
	const limit = 64 << 20
	in := a.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, usagef("%s cannot be read: %v", name, err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, usagef("%s cannot be read: %v", name, err)
	}
	if len(data) > limit {
		return nil, op.Fail(op.TooLarge, fmt.Sprintf("%s is over %d bytes", name, limit))
	}
	return data, nil
}

// object writes members in the order of their names.
func object(m map[string]json.RawMessage) json.RawMessage {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	b := []byte{'{'}
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(op.AppendString(b, k), ':'), m[k]...)
	}
	return append(b, '}')
}
