package fileops

import (
	"context"
	"fmt"
	"path"
	"sort"
	"strings"
	"unicode/utf8"

	"holdpoint/op"
)

// Fault is one thing that is wrong with a document. Line and column count from 1, the
// column in bytes; 0 is unknown.
type Fault struct {
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Message string `json:"message"`
}

const (
	maxValid  = 4 << 20 // bytes of a document that is checked
	maxFaults = 50
)

// formats says what checks a format.
var formats = map[string]func(ctx context.Context, s Scene, text []byte) []Fault{
	"json": plainly(validJSON), "jsonc": plainly(validJSONC), "yaml": aside("yaml"), "toml": aside("toml"), "xml": aside("xml"),
	"go": aside("go"), "shell": aside("shell"), "env": plainly(validEnv), "csv": plainly(validCSV), "markdown": validLinks,
	"js": aside("js"), "jsx": aside("jsx"), "ts": aside("ts"), "tsx": aside("tsx"), "css": aside("css"),
}

func plainly(f func([]byte) []Fault) func(context.Context, Scene, []byte) []Fault {
	return func(_ context.Context, _ Scene, text []byte) []Fault { return f(text) }
}

// formatOf says which format a name has.
var formatOf = map[string]string{
	".json": "json", ".jsonc": "jsonc", ".json5": "", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".xml": "xml", ".svg": "xml", ".xsd": "xml", ".go": "go",
	".sh": "shell", ".bash": "shell", ".js": "js", ".mjs": "js", ".cjs": "js", ".jsx": "jsx", ".ts": "ts", ".mts": "ts", ".cts": "ts", ".tsx": "tsx", ".css": "css",
	".env": "env", ".csv": "csv", ".md": "markdown", ".markdown": "markdown", ".webmanifest": "json", ".geojson": "json",
}

// withComments lists files named .json whose programs allow comments in them.
var withComments = map[string]bool{"tsconfig.json": true, "jsconfig.json": true, "devcontainer.json": true, "settings.json": true, "launch.json": true, "tasks.json": true}

// formatFor names the format of a call.
func formatFor(p op.Path, asked string) (string, error) {
	known := make([]string, 0, len(formats))
	for f := range formats {
		known = append(known, f)
	}
	sort.Strings(known)
	if asked != "" && asked != "auto" {
		if formats[asked] == nil {
			return "", op.Fail(op.BadRequest, "no check for the format "+op.Visible(asked, false)).In("args.format").Do("the formats are " + strings.Join(known, ", "))
		}
		return asked, nil
	}
	name := p.Base()
	switch {
	case withComments[name]:
		return "jsonc", nil
	case name == ".env" || strings.HasPrefix(name, ".env."):
		return "env", nil
	}
	if f := formatOf[strings.ToLower(path.Ext(name))]; f != "" {
		return f, nil
	}
	return "", op.Fail(op.BadRequest, "the name does not tell the format").In("args.format").At(p).Do("give format: " + strings.Join(known, ", "))
}

// validate answers validate_file.
func validate(ctx context.Context, s Scene, a *op.ValidateArgs) (map[string]any, error) {
	var text []byte
	p := op.Path(a.Path)
	switch {
	case a.Content != nil:
		text = []byte(*a.Content)
	case a.Path == "":
		return nil, op.Fail(op.BadRequest, "give path or content").In("args.path")
	default:
		t := s.Targets[0]
		if err := regular(t); err != nil {
			return nil, err
		}
		if t.Size > maxValid {
			return nil, op.Fail(op.TooLarge, "documents over 4 MiB are not checked").At(t.Path)
		}
		var err error
		if text, err = bytesOf(s, 0); err != nil {
			return nil, err
		}
		p = t.Path
	}
	if len(text) > maxValid {
		return nil, op.Fail(op.TooLarge, "documents over 4 MiB are not checked").In("args.content")
	}
	format, err := formatFor(p, a.Format)
	if err != nil {
		return nil, err
	}
	text, fault := plainText(text)
	var faults []Fault
	if fault != nil {
		faults = []Fault{*fault}
	} else {
		faults = safely(func() []Fault { return formats[format](ctx, s, text) })
	}
	if ctx.Err() != nil {
		return nil, op.Fail(op.Cancelled, "the check was cancelled").Because(ctx.Err())
	}
	out := map[string]any{"valid": len(faults) == 0, "format": format}
	if len(faults) > maxFaults {
		faults, out["truncated"] = faults[:maxFaults], "errors"
	}
	for i := range faults {
		faults[i].Message = op.Visible(faults[i].Message, false)
	}
	if faults == nil {
		faults = []Fault{}
	}
	out["errors"] = faults
	return out, nil
}

// plainText gives UTF-8 without a mark, or what is wrong.
func plainText(b []byte) ([]byte, *Fault) {
	t := split(b)
	if t.order != nil {
		s, ok := decode(t.body, t.order)
		if !ok {
			return nil, &Fault{1, 1, "the text is not well-formed UTF-16"}
		}
		return []byte(s), nil
	}
	for i := 0; i < len(t.body); {
		r, w := utf8.DecodeRune(t.body[i:])
		if r == utf8.RuneError && w == 1 {
			f := at(t.body, i, fmt.Sprintf("the byte 0x%02X is not UTF-8", t.body[i]))
			return nil, &f
		}
		i += w
	}
	return t.body, nil
}

// safely turns a panic of a parser that was given odd input into a fault: a document that
// cannot be checked is not valid.
func safely(check func() []Fault) (faults []Fault) {
	defer func() {
		if r := recover(); r != nil {
			faults = gaveUp()
		}
	}()
	return check()
}

// at words a fault at a byte offset.
func at(text []byte, off int, message string) Fault {
	off = max(0, min(off, len(text)))
	line, begin := 1, 0
	for i := 0; i < off; i++ {
		if text[i] == '\n' {
			line, begin = line+1, i+1
		}
	}
	return Fault{line, off - begin + 1, message}
}
