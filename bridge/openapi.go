package bridge

import (
	"encoding"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"holdpoint/op"
)

// routes is a mux that remembers what it routes, so that the document of the API lists
// what is served and nothing else.
type routes struct {
	*http.ServeMux
	patterns []string
}

func (m *routes) HandleFunc(pattern string, h http.HandlerFunc) {
	m.patterns = append(m.patterns, pattern)
	m.ServeMux.HandleFunc(pattern, h)
}

// getOpenAPI describes the routes and the operations. It holds nothing of this daemon but
// its version, and needs no token.
func (s *Server) getOpenAPI(w http.ResponseWriter, _ *http.Request) {
	s.describe.Do(func() { s.description = s.openAPI(s.patterns) })
	reply(w, http.StatusOK, s.description)
}

type object = map[string]any

// openAPI is the document, of version 3.1. Arguments come from the table of operations,
// answers from the types that are written, words about routes from routeDocs.
func (s *Server) openAPI(patterns []string) object {
	d := shapes{defs: object{}, named: map[string]reflect.Type{}}
	d.operations()
	d.of(reflect.TypeFor[op.Reply]())
	d.defs["Failure"] = object{"type": "object", "required": []string{"error"}, "properties": object{"error": d.of(reflect.TypeFor[op.Error]())}}
	d.defs["Preflight"] = object{"anyOf": []object{ref("Request"), {"type": "object", "required": []string{"paths"}, "additionalProperties": false,
		"properties": object{"root": fieldType(""), "paths": object{"type": "array", "items": fieldType(""), "maxItems": 10_000},
			"page_size": object{"type": "integer", "minimum": 1, "maximum": maxPage}, "page": fieldType("")}}}}
	d.defs["ProfileBody"] = object{"type": "object", "required": []string{"name"}, "properties": object{"name": fieldType("")}}
	paths := object{}
	for _, p := range patterns {
		method, path, found := strings.Cut(p, " ")
		doc, known := routeDocs[p]
		if !found || !known {
			continue // pages, MCP and the answer to what is no route
		}
		item, ok := paths[path].(object)
		if !ok {
			item = object{}
			paths[path] = item
		}
		item[strings.ToLower(method)] = d.route(p, path, doc, s.Shapes[p])
	}
	return object{
		"openapi": "3.1.0",
		"info": object{"title": "Holdpoint", "version": s.Version, "description": "File operations and commands for agents: looked at, judged, held for a person where that is due, and taken back exactly. " +
			"POST /v1/call is the one entry for every operation."},
		"paths": paths,
		"components": object{"schemas": d.defs, "securitySchemes": object{"token": object{"type": "http", "scheme": "bearer",
			"description": "a token of the roster, or the session that POST /v1/login opens; each has one role"}}},
	}
}

// route words one route.
func (d shapes) route(pattern, path string, doc routeDoc, shape any) object {
	method, _, _ := strings.Cut(pattern, " ")
	out := object{"summary": doc.does, "operationId": operationID(method, path)}
	var params []object
	for _, name := range strings.Split(path, "/") {
		if strings.HasPrefix(name, "{") {
			params = append(params, object{"name": strings.Trim(name, "{}"), "in": "path", "required": true, "schema": object{"type": "string"}})
		}
	}
	for _, q := range strings.Fields(doc.query) {
		name, t, _ := strings.Cut(q, ":")
		params = append(params, object{"name": name, "in": "query", "required": false, "schema": fieldType(t)})
	}
	if params != nil {
		out["parameters"] = params
	}
	statuses := []int{500, 503}
	if doc.role != "" {
		out["security"] = []object{{"token": []string{}}}
		out["x-role"] = doc.role
		statuses = append(statuses, 401, 403)
	} else {
		out["security"] = []object{}
	}
	if doc.query != "" {
		statuses = append(statuses, 400)
	}
	if method == "POST" || method == "PUT" {
		statuses = append(statuses, 400, 413, 415)
		out["requestBody"] = object{"required": doc.body != "", "content": object{"application/json": object{"schema": bodyOf(doc.body)}}}
	}
	answers := object{}
	for _, n := range append(statuses, doc.fails...) {
		answers[fmt.Sprint(n)] = object{"description": http.StatusText(n), "content": asJSON(ref("Failure"))}
	}
	good := object{"description": "done"}
	switch {
	case doc.kind != "":
		good["content"] = object{doc.kind: object{"schema": object{"type": "string"}}}
	case doc.reply:
		// A call that fails is a Reply too; what never got as far is a Failure.
		good["content"] = asJSON(ref("Reply"))
		for n, a := range answers {
			a.(object)["content"] = asJSON(object{"anyOf": []object{ref("Reply"), ref("Failure")}})
			answers[n] = a
		}
		answers["202"] = object{"description": "held: a person decides", "content": asJSON(ref("Reply"))}
	case shape != nil:
		schema := d.of(reflect.TypeOf(shape))
		good["content"] = asJSON(schema)
		if doc.both {
			for n, a := range answers {
				a.(object)["content"] = asJSON(object{"anyOf": []any{schema, ref("Failure")}})
				answers[n] = a
			}
		}
	}
	if doc.row {
		// Who answers second learns of the first: the row as it is recorded.
		answers["409"] = object{"description": http.StatusText(http.StatusConflict), "content": asJSON(object{"type": "object", "required": []string{"error"},
			"properties": object{"error": ref("Error"), "approval": good["content"].(object)["application/json"].(object)["schema"]}})}
	}
	answers["200"] = good
	out["responses"] = answers
	return out
}

func asJSON(schema any) object    { return object{"application/json": object{"schema": schema}} }
func ref(name string) object      { return object{"$ref": "#/components/schemas/" + name} }
func textOf(format string) object { return object{"type": "string", "format": format} }

// operationID names a route for generators of clients: getApprovalsId.
func operationID(method, path string) string {
	id := strings.ToLower(method)
	for _, w := range strings.FieldsFunc(path, func(r rune) bool { return !('a' <= r && r <= 'z') }) {
		if w != "v" {
			id += strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return id
}

// bodyOf reads "name! flag:bool list:list"; a capital letter begins the name of a schema.
func bodyOf(spec string) object {
	if spec != "" && spec[0] >= 'A' && spec[0] <= 'Z' {
		return ref(spec)
	}
	props, required := object{}, []string{}
	for _, f := range strings.Fields(spec) {
		name, t, _ := strings.Cut(f, ":")
		if n, must := strings.CutSuffix(name, "!"); must {
			name, required = n, append(required, n)
		}
		props[name] = fieldType(t)
	}
	return object{"type": "object", "properties": props, "required": required, "additionalProperties": false}
}

func fieldType(t string) object {
	switch t {
	case "bool":
		return object{"type": "boolean"}
	case "int":
		return object{"type": "integer"}
	case "list":
		return object{"type": "array", "items": object{"type": "string"}}
	case "object":
		return object{"type": "object"}
	}
	if list, ok := strings.CutPrefix(t, "enum="); ok {
		return object{"type": "string", "enum": strings.Split(list, "|")}
	}
	return object{"type": "string"}
}

// shapes collects the schemas of the types that were asked for.
type shapes struct {
	defs  object
	named map[string]reflect.Type
}

// operations adds the schema of every operation's arguments, and Request over them all.
func (d shapes) operations() {
	var each []object
	for _, spec := range op.Operations() {
		if !spec.Built {
			continue
		}
		name := "args_" + string(spec.Name)
		a := argsOf(spec.Args)
		a["description"] = spec.Summary
		d.defs[name] = a
		each = append(each, object{"title": spec.Title, "properties": object{"op": object{"const": spec.Name}, "args": ref(name)}})
	}
	label := object{"type": "string", "maxLength": 64, "pattern": "^[A-Za-z0-9._:-]*$"}
	d.defs["Request"] = object{"type": "object", "required": []string{"op"}, "oneOf": each, "properties": object{
		"op": object{"type": "string"}, "root": object{"type": "string", "description": "name or key; optional when the token is bound to one"},
		"args": object{"type": "object"}, "dry_run": object{"type": "boolean"}, "pins": object{"type": "string", "description": "sealed token of a preflight"},
		"request_id": label, "session": label, "stage": label, "execution_id": label,
		"intent": object{"type": "string", "description": "what the user asked; shown on the card"}}}
}

// argsOf is the schema of an argument struct, with the limits that the checks hold it to.
func argsOf(t reflect.Type) object {
	props, required := object{}, []string{}
	for _, f := range op.Fields(t) {
		p := argType(f.Type)
		for name, limit := range map[string]string{"minimum": f.Min, "maximum": f.Max} {
			if limit != "" {
				p[name] = json.RawMessage(limit)
			}
		}
		if f.Enum != "" {
			p["enum"] = strings.Split(f.Enum, "|")
		}
		if f.Doc != "" {
			p["description"] = f.Doc
		}
		props[f.Name] = p
		if f.Required {
			required = append(required, f.Name)
		}
	}
	return object{"type": "object", "properties": props, "required": required, "additionalProperties": false}
}

func argType(t reflect.Type) object {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[op.Raw]():
		return object{}
	case t.Kind() == reflect.Struct && len(op.Fields(t)) > 0:
		return argsOf(t)
	}
	switch t.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int64:
		return object{"type": "integer"}
	case reflect.Map, reflect.Struct:
		return object{"type": "object"}
	case reflect.Slice:
		return object{"type": "array", "items": argType(t.Elem())}
	case reflect.String:
		return object{"type": "string"}
	}
	return object{}
}

// of is the schema of what encoding/json makes of a type.
func (d shapes) of(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return textOf("date-time")
	case t == reflect.TypeFor[json.RawMessage](), t.Kind() != reflect.Struct && t.Implements(reflect.TypeFor[json.Marshaler]()):
		return object{} // a struct that writes itself still writes its fields
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.of(t.Elem())
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "contentEncoding": "base64"}
		}
		return object{"type": "array", "items": d.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": d.of(t.Elem())}
	case reflect.Struct:
		return d.structOf(t)
	}
	return object{}
}

func (d shapes) structOf(t reflect.Type) object {
	name := t.Name()
	if name == "" {
		return d.fields(t)
	}
	name = strings.ToUpper(name[:1]) + name[1:]
	if other, taken := d.named[name]; taken && other != t {
		pkg := t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+1:]
		name = strings.ToUpper(pkg[:1]) + pkg[1:] + name
	}
	if d.named[name] == nil {
		d.named[name] = t // first, for types that hold themselves
		d.defs[name] = d.fields(t)
	}
	return ref(name)
}

func (d shapes) fields(t reflect.Type) object {
	props, required := object{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || f.Anonymous && name == "" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		p := d.of(f.Type)
		if strings.Contains(rest, "omit") {
			props[name] = p
			continue
		}
		switch f.Type.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			p = object{"anyOf": []any{p, object{"type": "null"}}}
		}
		props[name], required = p, append(required, name)
	}
	return object{"type": "object", "properties": props, "required": required}
}
