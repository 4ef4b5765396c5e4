package op

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Argument structs. A field's tags are its whole definition: `json` the name, `doc` the
// sentence for help and schemas, `req` when it must be there, `min` and `max` the limits of a
// number. Pointers tell "not given" from a zero.

// Safety holds the flags by which a call turns a safety net off; each sends it to review.
type Safety struct {
	AllowSensitive bool   `json:"allow_sensitive" doc:"go on although the target looks like a secret (needs a person)"`
	AllowIgnored   bool   `json:"allow_ignored" doc:"go on although git ignores the target (needs a person)"`
	ForceOverwrite bool   `json:"force_overwrite" doc:"replace whatever is there (needs a person)"`
	HardLinks      string `json:"hard_links" doc:"\"break\" gives this name a file of its own when others share it (needs a person)" enum:"break"`
}

// ViewArgs asks for lines, for bytes, for the tail, or for all of a file.
type ViewArgs struct {
	Path      string `json:"path" req:"true" doc:"the file"`
	StartLine *int64 `json:"start_line" min:"1" doc:"first line, from 1"`
	EndLine   *int64 `json:"end_line" min:"1" doc:"last line, included"`
	Offset    *int64 `json:"offset" min:"0" doc:"first byte, from 0"`
	Limit     *int64 `json:"limit" min:"1" max:"1048576" doc:"bytes at most"`
	TailLines *int64 `json:"tail_lines" min:"1" max:"100000" doc:"the last lines"`
	KnownHash string `json:"known_hash" doc:"answer only unchanged: true when the file still has this hash"`
	Mark      bool   `json:"mark_invisible" doc:"write characters that do not show as \\u{...}; for looking only, never as a base for an edit"`
}

// ListArgs asks for a page of a directory.
type ListArgs struct {
	Path       string `json:"path" doc:"the directory; the root when absent"`
	Depth      *int64 `json:"depth" min:"1" max:"5" doc:"levels to go down; 1 when absent"`
	Pattern    string `json:"pattern" doc:"a glob that the name must match"`
	ShowHidden bool   `json:"show_hidden" doc:"also names that begin with a dot"`
	Page       string `json:"page" doc:"next of the page before"`
	PageSize   *int64 `json:"page_size" min:"1" max:"1000" doc:"entries at most; 200 when absent"`
}

// TreeArgs asks for what lies below a directory.
type TreeArgs struct {
	Path           string   `json:"path" doc:"the directory; the root when absent"`
	Depth          *int64   `json:"depth" min:"1" max:"256" doc:"levels to go down; all when absent"`
	Pattern        string   `json:"pattern" doc:"a glob that the name must match"`
	Include        []string `json:"include" doc:"show only what one of these patterns covers, in the syntax of .gitignore"`
	Exclude        []string `json:"exclude" doc:"leave out what these patterns cover, in the syntax of .gitignore"`
	ShowHidden     bool     `json:"show_hidden" doc:"also names that begin with a dot"`
	IncludeIgnored bool     `json:"include_ignored" doc:"also what git ignores"`
	Stats          bool     `json:"stats" doc:"add mode and time to each entry, and totals of all of them"`
	NamesOnly      bool     `json:"names_only" doc:"no sizes"`
	MaxFiles       *int64   `json:"max_files" min:"1" max:"5000000" doc:"names to look at; 1,000,000 when absent"`
	TimeoutMS      *int64   `json:"timeout_ms" min:"1" max:"60000" doc:"time to take; 10,000 when absent"`
	Page           string   `json:"page" doc:"next of the page before"`
	PageSize       *int64   `json:"page_size" min:"1" max:"10000" doc:"entries at most; 1,000 when absent"`
}

// SearchArgs looks for text in files.
type SearchArgs struct {
	Path           string   `json:"path" doc:"a directory or one file; the root when absent"`
	Pattern        string   `json:"pattern" req:"true" doc:"the text to look for"`
	Regex          bool     `json:"regex" doc:"pattern is a regular expression (RE2)"`
	IgnoreCase     bool     `json:"ignore_case" doc:"letters match in every case"`
	WholeWord      bool     `json:"whole_word" doc:"no letter, digit or underscore stands beside the match"`
	Multiline      bool     `json:"multiline" doc:"a match may span lines; ^ and $ stand at each line"`
	Glob           string   `json:"glob" doc:"only files that this pattern covers, in the syntax of .gitignore"`
	Include        []string `json:"include" doc:"or several such patterns"`
	Exclude        []string `json:"exclude" doc:"leave out what these patterns cover"`
	Types          []string `json:"types" doc:"only files of these kinds: go, js, ts, py, c, cpp, rust, java, md, json, yaml, ..."`
	Context        *int64   `json:"context" min:"0" max:"3" doc:"lines to show before and after a match"`
	Mode           string   `json:"mode" enum:"content|files|count" doc:"matching lines (when absent), only the files, or lines counted for each file"`
	ShowHidden     bool     `json:"show_hidden" doc:"also names that begin with a dot"`
	IncludeIgnored bool     `json:"include_ignored" doc:"also what git ignores"`
	MaxResults     *int64   `json:"max_results" min:"1" max:"1000" doc:"results at most; 200 when absent"`
	MaxFiles       *int64   `json:"max_files" min:"1" max:"5000000" doc:"files to look at; 1,000,000 when absent"`
	MaxBytes       *int64   `json:"max_bytes" min:"1" doc:"bytes to read; no limit when absent"`
	TimeoutMS      *int64   `json:"timeout_ms" min:"1" max:"60000" doc:"time to take; 10,000 when absent"`
	Page           string   `json:"page" doc:"next of the page before"`
}

// ValidateArgs checks the syntax of a file, or of text.
type ValidateArgs struct {
	Path    string  `json:"path" doc:"the file; with content it only tells the format"`
	Content *string `json:"content" doc:"the text to check instead"`
	Format  string  `json:"format" doc:"json, jsonc, yaml, toml, xml, go, shell, js, ts, jsx, tsx, css, env, csv or markdown; by the name when absent"`
}

// PreviewArgs renders a Markdown file.
type PreviewArgs struct {
	Path string `json:"path" req:"true" doc:"the Markdown file"`
}

// DetectArgs asks how a project runs its tests.
type DetectArgs struct {
	Path string `json:"path" doc:"the project's directory; the root when absent"`
}

// InfoArgs asks for facts.
type InfoArgs struct {
	Path string `json:"path" req:"true" doc:"any path in the workspace"`
}

// DiffArgs compares a file with another or with text.
type DiffArgs struct {
	Path         string  `json:"path" req:"true" doc:"the file on the left side"`
	ComparePath  *string `json:"compare_path" doc:"the file on the right side"`
	Content      *string `json:"content" doc:"the text on the right side"`
	ContextLines *int64  `json:"context_lines" min:"0" max:"100" doc:"lines around a change; 3 when absent"`
}

// WriteArgs creates or replaces a whole file.
type WriteArgs struct {
	Path          string  `json:"path" req:"true" doc:"the file"`
	Content       *string `json:"content" doc:"the text, exactly as it shall stand"`
	ContentBase64 *string `json:"content_base64" doc:"the bytes, where they are not UTF-8"`
	Append        bool    `json:"append" doc:"add at the end instead"`
	Overwrite     *bool   `json:"overwrite" doc:"false: fail when the file exists; true: also over a base of which only a part was seen"`
	CreateDirs    *bool   `json:"create_dirs" doc:"make missing parents; true when absent"`
	ExpectedHash  string  `json:"expected_hash" doc:"the hash that the file must still have"`
	Mode          string  `json:"mode" doc:"permission bits in octal, \"0755\""`
	Backup        *bool   `json:"backup" doc:"keep what was there; true when absent"`
	BackupRoot    string  `json:"backup_root" doc:"another place for the backup (needs a person)"`
	Safety
}

// Edit is one replacement.
type Edit struct {
	OldString string `json:"old_string" req:"true" doc:"the exact text to replace"`
	NewString string `json:"new_string" req:"true" doc:"the text in its place"`
}

// EditArgs replaces exact text.
type EditArgs struct {
	Path                 string  `json:"path" req:"true" doc:"the file"`
	OldString            *string `json:"old_string" doc:"the exact text to replace"`
	NewString            *string `json:"new_string" doc:"the text in its place"`
	Edits                []Edit  `json:"edits" doc:"several replacements, done in order"`
	ReplaceAll           bool    `json:"replace_all" doc:"replace every place"`
	ExpectedReplacements *int64  `json:"expected_replacements" min:"1" doc:"how many places there must be"`
	ExpectedHash         string  `json:"expected_hash" doc:"the hash that the file must still have"`
	Backup               *bool   `json:"backup" doc:"keep what was there; true when absent"`
	BackupRoot           string  `json:"backup_root" doc:"another place for the backup (needs a person)"`
	Safety
}

// BackupArgs keeps a snapshot of one file.
type BackupArgs struct {
	Path           string `json:"path" req:"true" doc:"the file"`
	Label          string `json:"label" doc:"what to call the snapshot; at most 64 of A-Z a-z 0-9 . _ : -"`
	BackupRoot     string `json:"backup_root" doc:"a directory of the workspace to put it in instead (needs a person)"`
	AllowSensitive bool   `json:"allow_sensitive" doc:"go on although the file looks like a secret (needs a person)"`
	AllowIgnored   bool   `json:"allow_ignored" doc:"go on although git ignores the file (needs a person)"`
}

// BackupsArgs lists snapshots and kept versions.
type BackupsArgs struct {
	Path     string `json:"path" doc:"the file, or a directory for all below it; the root when absent"`
	Page     string `json:"page" doc:"next of the page before"`
	PageSize *int64 `json:"page_size" min:"1" max:"1000" doc:"backups at most; 200 when absent"`
}

// RollbackArgs brings a kept version back.
type RollbackArgs struct {
	Path     string `json:"path" req:"true" doc:"the file"`
	BackupID string `json:"backup_id" doc:"of list_backups, or of a reply"`
	Last     bool   `json:"last" doc:"the newest snapshot that backup_file made of this file"`
	Safety
}

// CopyArgs copies one file, or a directory with all below it.
type CopyArgs struct {
	Source      string `json:"source" req:"true" doc:"the file or directory to copy"`
	Destination string `json:"destination" req:"true" doc:"the new path"`
	Recursive   bool   `json:"recursive" doc:"copy a directory with all below it"`
	Overwrite   bool   `json:"overwrite" doc:"replace the destination (needs a person)"`
	CreateDirs  *bool  `json:"create_dirs" doc:"make missing parents; true when absent"`
	Safety
}

// MakeDirArgs creates a directory.
type MakeDirArgs struct {
	Path    string `json:"path" req:"true" doc:"the directory"`
	Parents *bool  `json:"parents" doc:"make missing parents; true when absent"`
}

// DeleteArgs moves to quarantine.
type DeleteArgs struct {
	Path         string `json:"path" req:"true" doc:"the file, link or directory"`
	Recursive    bool   `json:"recursive" doc:"must be true for a directory"`
	ExpectedHash string `json:"expected_hash" doc:"the hash that it must still have"`
	Safety
}

// MoveArgs moves or renames; the destination must be absent.
type MoveArgs struct {
	Source      string `json:"source" req:"true" doc:"what to move"`
	Destination string `json:"destination" req:"true" doc:"the new path; must not exist"`
	CreateDirs  *bool  `json:"create_dirs" doc:"make missing parents; true when absent"`
	Safety
}

// UndoArgs names what to take back.
type UndoArgs struct {
	Credential  Object   `json:"credential" doc:"the undo_credential of a reply"`
	OperationID string   `json:"operation_id" doc:"or its operation id"`
	Operations  []string `json:"operations" doc:"or several operation ids, taken back as one"`
	Merge       bool     `json:"merge" doc:"with operations: keep what others changed elsewhere in the same files"`
	KeepGoing   bool     `json:"keep_going" doc:"with operations: leave out those that cannot be taken back"`
	Force       bool     `json:"force" doc:"also over later changes, which are kept under a new credential (needs a person)"`
}

// Or gives the value of an optional flag, or def.
func Or[T any](p *T, def T) T {
	if p == nil {
		return def
	}
	return *p
}

// Bytes returns what shall be written.
func (a WriteArgs) Bytes() ([]byte, error) {
	switch {
	case a.Content != nil && a.ContentBase64 != nil:
		return nil, Fail(BadRequest, "content and content_base64 are both given").In("args.content_base64")
	case a.Content != nil:
		return []byte(*a.Content), nil
	case a.ContentBase64 != nil:
		b, err := base64.StdEncoding.DecodeString(*a.ContentBase64)
		if err != nil {
			return nil, Fail(BadRequest, "content_base64 is not base64").In("args.content_base64")
		}
		return b, nil
	}
	return nil, Fail(BadRequest, "content is missing").In("args.content").Do("give content, or content_base64 for bytes that are not UTF-8")
}

// inSeconds is the one alias whose number counts something else: a thousand of ours.
const inSeconds = "timeout_s"

// aliases maps names that other tools taught agents to ours.
var aliases = map[string][]string{
	"path":          {"file_path", "filePath", "target_file", "file", "dir_path", "directory_path", "search_path", "root_path"},
	"old_string":    {"old_str", "oldText", "old_text", "old_content", "oldString", "search_text"},
	"new_string":    {"new_str", "newText", "new_text", "new_content", "newString", "replace_text"},
	"replace_all":   {"replaceAll", "allow_multiple"},
	"expected_hash": {"if_match", "hash"},
	"known_hash":    {"if_match", "hash"},
	"content":       {"file_text", "contents"},
	"source":        {"source_path", "sourcePath"},
	"destination":   {"destination_path", "destinationPath"},
	"dry_run":       {"dryRun"},
	"command":       {"cmd"},
	"timeout_ms":    {"timeout", inSeconds},
	"edits":         {"replacements"},
	"backup":        {"create_backup"},
	"pattern":       {"query"},
}

// Warning is one thing that a caller should know although the call goes on.
type Warning struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// ParseArgs checks raw against the operation's argument struct and returns a pointer to a
// filled one, the arguments under their own names, and a warning for each alias used.
// Unknown, mistyped and missing arguments are bad_request naming the field.
func ParseArgs(spec Spec, raw Object) (any, Object, []Warning, error) {
	out := reflect.New(spec.Args)
	named, warnings, err := fill(out.Elem(), raw, "args")
	if batch, ok := out.Interface().(*BatchArgs); ok && err == nil {
		var more []Warning
		more, err = batch.items(named)
		warnings = append(warnings, more...)
	}
	return out.Interface(), named, warnings, err
}

// Field is one argument, for help and schemas.
type Field struct {
	Name, Doc string
	Type      reflect.Type
	Required  bool
	Min, Max  string
	Enum      string
	Index     []int
}

// Fields lists the arguments of a struct in order, embedded ones included. The caller
// must not change the list.
func Fields(t reflect.Type) []Field {
	if list, ok := fieldsOf[t]; ok {
		return list
	}
	return readFields(t)
}

// fieldsOf holds the lists of the table's own structs, read once.
var fieldsOf = func() map[reflect.Type][]Field {
	m := map[reflect.Type][]Field{}
	for _, s := range table {
		if s.Args != nil {
			m[s.Args] = readFields(s.Args)
		}
	}
	return m
}()

func readFields(t reflect.Type) []Field {
	var out []Field
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || !f.IsExported() {
			continue
		}
		out = append(out, Field{Name: f.Tag.Get("json"), Doc: f.Tag.Get("doc"), Type: f.Type, Required: f.Tag.Get("req") != "",
			Min: f.Tag.Get("min"), Max: f.Tag.Get("max"), Enum: f.Tag.Get("enum"), Index: f.Index})
	}
	return out
}

func fill(dst reflect.Value, raw Object, at string) (Object, []Warning, error) {
	fields := Fields(dst.Type())
	named, warnings, err := rename(fields, raw, at)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range fields {
		v, given := named[f.Name]
		if !given {
			if f.Required {
				return nil, nil, Fail(BadRequest, "the argument "+f.Name+" is missing").In(at + "." + f.Name)
			}
			continue
		}
		more, err := set(dst.FieldByIndex(f.Index), v, f, at+"."+f.Name, named)
		if err != nil {
			return nil, nil, err
		}
		warnings = append(warnings, more...)
	}
	return named, warnings, nil
}

// rename maps aliases and refuses what is unknown.
func rename(fields []Field, raw Object, at string) (Object, []Warning, error) {
	known := map[string]bool{}
	for _, f := range fields {
		known[f.Name] = true
	}
	other := map[string]string{}
	for name, list := range aliases {
		for _, a := range list {
			if known[name] && !known[a] {
				other[a] = name
			}
		}
	}
	named, warnings := Object{}, []Warning(nil)
	for _, k := range sortedKeys(raw) {
		name := k
		if !known[k] {
			if other[k] == "" {
				return nil, nil, Fail(BadRequest, fmt.Sprintf("unknown argument %q", k)).In(at + "." + k).Do(nearest(k, fields))
			}
			name = other[k]
			warnings = append(warnings, Warning{"alias", fmt.Sprintf("%s is %s here", k, name)})
		}
		if _, twice := named[name]; twice {
			return nil, nil, Fail(BadRequest, "the argument "+name+" is given twice, once under another name").In(at + "." + name)
		}
		named[name] = raw[k]
		if k == inSeconds {
			n, ok := raw[k].(int64)
			if !ok {
				return nil, nil, Fail(BadRequest, k+" must be a whole number").In(at + "." + k)
			}
			named[name] = max(min(n, MaxInteger/1000), -MaxInteger/1000) * 1000
		}
	}
	return named, warnings, nil
}

func set(dst reflect.Value, v any, f Field, at string, named Object) ([]Warning, error) {
	wrong := func(want string) error {
		return Fail(BadRequest, f.Name+" must be "+want).In(at)
	}
	if dst.Kind() == reflect.Pointer {
		p := reflect.New(dst.Type().Elem())
		dst.Set(p)
		dst = p.Elem()
	}
	if dst.Type() == reflect.TypeFor[Raw]() {
		text, ok := v.(Raw)
		if !ok {
			text = Raw(Canonical(v))
		}
		named[f.Name] = text
		dst.SetString(string(text))
		return nil, nil
	}
	switch dst.Kind() {
	case reflect.String:
		s, ok := v.(string)
		if !ok {
			return nil, wrong("a string")
		}
		if f.Enum != "" && !slices.Contains(strings.Split(f.Enum, "|"), s) {
			return nil, wrong(`"` + strings.ReplaceAll(f.Enum, "|", `", "`) + `" or absent`)
		}
		dst.SetString(s)
	case reflect.Bool:
		b, ok := v.(bool)
		if !ok {
			return nil, wrong("true or false")
		}
		dst.SetBool(b)
	case reflect.Int64:
		n, ok := v.(int64)
		if !ok {
			return nil, wrong("a whole number")
		}
		if lo, err := strconv.ParseInt(f.Min, 10, 64); err == nil && n < lo {
			return nil, wrong("at least " + f.Min)
		}
		if hi, err := strconv.ParseInt(f.Max, 10, 64); err == nil && n > hi {
			return nil, wrong("at most " + f.Max)
		}
		dst.SetInt(n)
	case reflect.Map:
		o, ok := v.(Object)
		if !ok {
			return nil, wrong("an object")
		}
		dst.Set(reflect.ValueOf(o))
	case reflect.Slice:
		return setList(dst, v, f, at, named)
	default:
		panic("op: internal error: no rule for an argument of type " + dst.Type().String())
	}
	return nil, nil
}

func setList(dst reflect.Value, v any, f Field, at string, named Object) ([]Warning, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, Fail(BadRequest, f.Name+" must be a list").In(at)
	}
	var warnings []Warning
	renamed := make([]any, len(list))
	for i, e := range list {
		here := fmt.Sprintf("%s[%d]", at, i)
		item := reflect.New(dst.Type().Elem()).Elem()
		if item.Kind() == reflect.String {
			s, ok := e.(string)
			if !ok {
				return nil, Fail(BadRequest, "each of "+f.Name+" must be a string").In(here)
			}
			item.SetString(s)
			renamed[i] = s
		} else {
			o, ok := e.(Object)
			if !ok {
				return nil, Fail(BadRequest, "each of "+f.Name+" must be an object").In(here)
			}
			n, more, err := fill(item, o, here)
			if err != nil {
				return nil, err
			}
			renamed[i] = n
			warnings = append(warnings, more...)
		}
		dst.Set(reflect.Append(dst, item))
	}
	named[f.Name] = renamed
	return warnings, nil
}

func nearest(k string, fields []Field) string {
	var names []string
	for _, f := range fields {
		if strings.EqualFold(f.Name, k) {
			return "names are lower case: " + f.Name
		}
		names = append(names, f.Name)
	}
	return "the arguments are " + strings.Join(names, ", ")
}

func sortedKeys(o Object) []string {
	keys := make([]string, 0, len(o))
	for k := range o {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
