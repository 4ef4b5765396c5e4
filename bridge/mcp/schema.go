package mcp

import (
	"reflect"
	"strings"

	"holdpoint/op"
)

// Schemas are written small, because each client pays for them in every conversation: no
// word is said that the name of an argument says already.

// inputSchema is made from the one definition of an operation's arguments.
func inputSchema(spec op.Spec) []byte {
	b := []byte(`{"type":"object","properties":{`)
	var required []string
	fields := op.Fields(spec.Args)
	for i, f := range fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(op.AppendString(b, f.Name), ':')
		b = appendField(b, f)
		if f.Required {
			required = append(required, f.Name)
		}
	}
	if spec.Class != op.Read {
		if len(fields) > 0 {
			b = append(b, ',')
		}
		b = append(b, `"dry_run":{"type":"boolean"},"intent":{"type":"string","description":"why, in the user's words; shown to the reviewer"}`...)
	}
	b = append(b, '}')
	b = appendRequired(b, required)
	return append(b, '}')
}

func appendRequired(b []byte, names []string) []byte {
	if len(names) == 0 {
		return b
	}
	b = append(b, `,"required":[`...)
	for i, n := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = op.AppendString(b, n)
	}
	return append(b, ']')
}

func appendField(b []byte, f op.Field) []byte {
	b = append(b, '{')
	b = appendType(b, f.Type)
	if f.Min != "" && f.Min != "0" {
		b = append(append(b, `,"minimum":`...), f.Min...)
	}
	if f.Max != "" {
		b = append(append(b, `,"maximum":`...), f.Max...)
	}
	if f.Enum != "" {
		b = append(b, `,"enum":[`...)
		for i, w := range strings.Split(f.Enum, "|") {
			if i > 0 {
				b = append(b, ',')
			}
			b = op.AppendString(b, w)
		}
		b = append(b, ']')
	}
	if tells(f) {
		b = op.AppendString(append(b, `,"description":`...), f.Doc)
	}
	return append(b, '}')
}

func appendType(b []byte, t reflect.Type) []byte {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Bool:
		return append(b, `"type":"boolean"`...)
	case reflect.Int64:
		return append(b, `"type":"integer"`...)
	case reflect.Map:
		return append(b, `"type":"object"`...)
	case reflect.Slice:
		b = append(b, `"type":"array","items":{`...)
		b = appendType(b, t.Elem())
		return append(b, '}')
	case reflect.Struct:
		b = append(b, `"type":"object","properties":{`...)
		var required []string
		for i, f := range op.Fields(t) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(op.AppendString(b, f.Name), ':', '{')
			b = append(appendType(b, f.Type), '}')
			if f.Required {
				required = append(required, f.Name)
			}
		}
		return appendRequired(append(b, '}'), required)
	case reflect.String:
		return append(b, `"type":"string"`...)
	}
	return b // anything
}

// tells reports whether an argument's sentence says more than its name does.
func tells(f op.Field) bool {
	name := strings.ReplaceAll(f.Name, "_", " ")
	for _, w := range strings.Fields(f.Doc) {
		switch w = strings.Trim(w, ",.;"); w {
		case "the", "a", "an", "of", "in", "at", "to", "its":
		default:
			if !strings.Contains(name, strings.TrimSuffix(w, "s")) {
				return true
			}
		}
	}
	return false
}

// outputSchema names the facts that structuredContent may hold. Only status is always
// there: the same tool answers a held call and a failed one.
func outputSchema(spec op.Spec) []byte {
	facts := outputs[spec.Name]
	if facts == "" {
		switch {
		case spec.Class == op.Read:
			facts = "next"
		case spec.Class == op.Process:
			facts = "exit_code# approval_id"
		default:
			facts = "undo approval_id"
		}
	}
	return schemaOf(facts)
}

// outputs: a "#" after a name is a number, a "?" a truth value.
var outputs = map[op.Name]string{
	op.ViewFile:      "hash total_lines# next# eof?",
	op.ListDirectory: "total# next",
	op.FileInfo:      "exists? type size# hash",
	op.DiffFile:      "added# removed#",
	op.WriteFile:     "hash undo approval_id",
	op.EditFile:      "hash undo approval_id",
}

func schemaOf(facts string) []byte {
	b := []byte(`{"type":"object","properties":{"status":{"type":"string"}`)
	for _, f := range strings.Fields(facts) {
		kind, name := "string", strings.TrimRight(f, "#?")
		switch f[len(f)-1] {
		case '#':
			kind = "integer"
		case '?':
			kind = "boolean"
		}
		b = append(op.AppendString(append(b, ','), name), `:{"type":"`...)
		b = append(append(b, kind...), `"}`...)
	}
	return append(b, `},"required":["status"]}`...)
}
