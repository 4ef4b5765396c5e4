package mcp

import (
	"reflect"
	"slices"
	"strings"

	"holdpoint/op"
)

// Schemas are written small, because each client pays for them in every conversation: no
// word is said that the name of an argument says already.

// style says how much a schema tells. The zero style tells all.
type style struct {
	mute bool // no sentences about arguments
	bare bool // nor limits, nor names of facts
	slim bool // nor arguments that bound the work or are seldom wanted, nor dry_run, for which preflight is there
}

// styles in the order in which a list of tools that is too long tries them.
var styles = []style{{}, {mute: true}, {mute: true, bare: true}, {mute: true, bare: true, slim: true}}

// inputSchema is made from the one definition of an operation's arguments.
func (st style) inputSchema(spec op.Spec) []byte {
	b := []byte(`{"type":"object","properties":{`)
	var required []string
	fields := slices.DeleteFunc(slices.Clone(op.Fields(spec.Args)), func(f op.Field) bool {
		return st.unlisted(f) || st.slim && spec.Class == op.Read && f.Name == "timeout_ms"
	})
	for i, f := range fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(op.AppendString(b, f.Name), ':')
		b = st.appendField(b, f)
		if f.Required {
			required = append(required, f.Name)
		}
	}
	if spec.Class != op.Read {
		if len(fields) > 0 {
			b = append(b, ',')
		}
		if !st.slim {
			b = append(b, `"dry_run":{"type":"boolean"},`...)
		}
		b = append(b, `"intent":{"type":"string"}`...)
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

func (st style) appendField(b []byte, f op.Field) []byte {
	b = append(b, '{')
	b = appendType(b, f.Type)
	if f.Min != "" && f.Min != "0" && !st.bare {
		b = append(append(b, `,"minimum":`...), f.Min...)
	}
	if f.Max != "" && !st.bare {
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
	if f.Name == "operation_id" {
		f.Doc = "the undo id (un_...) or operation id of a change"
	}
	if tells(f) && !st.mute {
		b = op.AppendString(append(b, `,"description":`...), f.Doc)
	}
	return append(b, '}')
}

func appendType(b []byte, t reflect.Type) []byte {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[op.Raw]() {
		return b // any value of a document
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

// unlisted arguments are taken but not offered: those that turn a safety net off, which
// send a call to a person anyway, and the few that only say what holds already.
func (st style) unlisted(f op.Field) bool {
	switch f.Name {
	case "page_size", "max_files", "max_bytes", "max_results", "mark_invisible", "include_ignored", "snapshot", "patch_base64", "expected_replacements":
		return st.slim
	case "backup", "backup_root", "create_dirs", "credential", "rows", "cols", "description": // intent says it
		return true
	}
	return strings.HasSuffix(f.Doc, "(needs a person)")
}

// spoken are names that every model knows; a sentence would say nothing more.
var spoken = strings.Fields("path compare_path source destination content old_string new_string replace_all expected_hash edits start_line end_line " +
	"offset limit tail_lines depth pattern show_hidden page page_size context_lines append recursive parents regex ignore_case glob context mode " +
	"command args script cwd env stdin timeout_ms background operations patch format commit revision ref staged max_count")

// tells reports whether an argument's sentence says more than its name does.
func tells(f op.Field) bool { return f.Doc != "" && !slices.Contains(spoken, f.Name) }

// outputSchema names the facts that structuredContent may hold. Only status is always
// there: the same tool answers a held call and a failed one.
func (st style) outputSchema(spec op.Spec) []byte {
	if st.slim {
		return []byte(`{"type":"object"}`)
	}
	if st.bare {
		return schemaOf("")
	}
	return schemaOf(outputs[spec.Name])
}

var outputs = map[op.Name]string{
	op.ViewFile:      "hash total_lines next eof",
	op.ListDirectory: "total next",
	op.FileInfo:      "exists type size hash",
	op.DiffFile:      "added removed",
	op.WriteFile:     "hash undo approval_id",
	op.EditFile:      "hash undo approval_id",
}

// schemaOf names facts of any type.
func schemaOf(facts string) []byte {
	if facts == "" {
		return []byte(`{"type":"object","required":["status"]}`)
	}
	b := []byte(`{"type":"object","properties":{"status":{}`)
	for _, f := range strings.Fields(facts) {
		b = append(op.AppendString(append(b, ','), f), `:{}`...)
	}
	return append(b, `},"required":["status"]}`...)
}
