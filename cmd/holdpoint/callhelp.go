package main

import (
	"fmt"
	"io"
	"reflect"

	"holdpoint/op"
)

func operationsHelp(w io.Writer) {
	fmt.Fprint(w, "\nArguments:\n")
	table(w, [][]string{
		{"  key=value", "typed by the operation; the value is literal"},
		{"  key:=JSON", "any JSON value, for lists and objects"},
		{"  key@=FILE", "the text of a file, - for standard input"},
	})
	fmt.Fprint(w, "\nOperations (add one before --help for its arguments):\n")
	var rows [][]string
	for _, s := range op.Operations() {
		if s.Built {
			rows = append(rows, []string{"  " + string(s.Name), s.Summary})
		}
	}
	table(w, rows)
}

func operationHelp(w io.Writer, s op.Spec) {
	fmt.Fprintf(w, "%s: %s\n", s.Name, s.Summary)
	if s.Args == nil {
		fmt.Fprintln(w, "This version knows the name and does not do it.")
		return
	}
	fmt.Fprintf(w, "\nArguments:\n")
	var rows [][]string
	for _, f := range op.Fields(s.Args) {
		need := ""
		if f.Required {
			need = "required"
		}
		rows = append(rows, []string{"  " + f.Name, typeWord(f), need, f.Doc})
	}
	for _, r := range rows { // an empty column in the middle would be dropped
		if r[2] == "" {
			r[2] = "-"
		}
	}
	table(w, rows)
}

func typeWord(f op.Field) string {
	switch base(f.Type).Kind() {
	case reflect.Bool:
		return "true|false"
	case reflect.Int64:
		return "number"
	case reflect.Slice:
		if f.Type.Elem().Kind() == reflect.String {
			return "texts"
		}
		return "list (JSON)"
	case reflect.Map:
		return "object (JSON)"
	}
	return "text"
}
