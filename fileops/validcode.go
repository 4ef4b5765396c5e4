package fileops

import (
	"bytes"
	"context"
	"errors"
	"go/parser"
	"go/scanner"
	"go/token"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/goccy/go-yaml"
	"github.com/yuin/goldmark/ast"
	"mvdan.cc/sh/v3/syntax"

	"holdpoint/op"
)

func validGo(text []byte) []Fault {
	_, err := parser.ParseFile(token.NewFileSet(), "", text, parser.AllErrors|parser.SkipObjectResolution)
	var list scanner.ErrorList
	if !errors.As(err, &list) {
		return nil
	}
	faults := make([]Fault, 0, len(list))
	for _, e := range list {
		faults = append(faults, Fault{e.Pos.Line, e.Pos.Column, e.Msg})
	}
	return faults
}

// maxShell bounds a script and shellTime its check: nested brackets cost the parser much.
const (
	maxShell  = 1 << 20
	shellTime = 2 * time.Second
)

func validShell(text []byte) []Fault {
	switch {
	case bytes.IndexByte(text, 0) >= 0:
		return []Fault{at(text, bytes.IndexByte(text, 0), "a NUL byte stands in the script")}
	case len(text) > maxShell:
		return []Fault{{0, 0, "scripts over 1 MiB are not checked"}}
	}
	ctx, cancel := context.WithTimeout(context.Background(), shellTime)
	defer cancel()
	variant := syntax.LangBash
	if first, _, _ := bytes.Cut(text, []byte("\n")); bytes.HasPrefix(first, []byte("#!")) && (bytes.HasSuffix(first, []byte("/sh")) || bytes.HasSuffix(first, []byte(" sh"))) {
		variant = syntax.LangPOSIX
	}
	_, err := syntax.NewParser(syntax.Variant(variant)).Parse(&lasting{ctx, bytes.NewReader(text)}, "")
	var bad syntax.ParseError
	var lang syntax.LangError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &bad):
		return []Fault{{int(bad.Pos.Line()), int(bad.Pos.Col()), bad.Text}}
	case errors.As(err, &lang):
		return []Fault{{int(lang.Pos.Line()), int(lang.Pos.Col()), lang.Feature + " is not of this shell"}}
	}
	return []Fault{{0, 0, "the check took too long"}}
}

// lasting reads in small pieces until a call ends.
type lasting struct {
	ctx context.Context
	r   io.Reader
}

func (l *lasting) Read(b []byte) (int, error) {
	if err := l.ctx.Err(); err != nil {
		return 0, err
	}
	return l.r.Read(b[:min(len(b), 1024)])
}

// script checks what esbuild knows. It only parses: nothing is resolved, read or written.
func script(kind string) func([]byte) parsed {
	loader := map[string]api.Loader{"js": api.LoaderJS, "jsx": api.LoaderJSX, "ts": api.LoaderTS, "tsx": api.LoaderTSX, "css": api.LoaderCSS}[kind]
	return func(text []byte) (out parsed) {
		r := api.Transform(string(text), api.TransformOptions{Loader: loader, LogLevel: api.LogLevelSilent, LogLimit: maxFaults + 1, TsconfigRaw: "{}",
			MinifyWhitespace: true}) // what it prints is not used, and indented it would grow with the square of the depth
		list := r.Errors
		if kind == "css" {
			list = append(list, r.Warnings...) // CSS has no errors, only what a browser passes over
		}
		for _, m := range list {
			f := Fault{Message: m.Text}
			if m.Location != nil {
				f.Line, f.Column = m.Location.Line, m.Location.Column+1
			}
			out.Faults = append(out.Faults, f)
		}
		return out
	}
}

func yamlPlace(err error) (line, column int) {
	var placed yaml.Error
	if errors.As(err, &placed) && placed.GetToken() != nil && placed.GetToken().Position != nil {
		return placed.GetToken().Position.Line, placed.GetToken().Position.Column
	}
	return 0, 0
}

// validLinks finds links of a Markdown document that lead to no file of the workspace and
// to no heading of the document. What lies elsewhere is not asked.
func validLinks(ctx context.Context, s Scene, text []byte) (faults []Fault) {
	doc, ok := s.parse(ctx, "links", text)
	if !ok {
		return gaveUp()
	}
	ids := map[string]bool{}
	for _, h := range doc.Outline {
		ids[h.ID] = true
	}
	for _, l := range doc.Links {
		if ctx.Err() != nil {
			break
		}
		if why := dangling(ctx, s, l.To, ids); why != "" {
			faults = append(faults, at(text, l.Offset, why))
		}
	}
	return faults
}

func dangling(ctx context.Context, s Scene, to string, ids map[string]bool) string {
	u, err := url.Parse(to)
	if err != nil {
		return "the link " + to + " is malformed"
	}
	switch {
	case u.Scheme != "" || u.Host != "":
		return ""
	case u.Path == "":
		if u.Fragment != "" && !ids[u.Fragment] {
			return "no heading here is called #" + u.Fragment
		}
		return ""
	case s.Root == nil || len(s.Targets) == 0:
		return ""
	}
	asked := u.Path
	if !strings.HasPrefix(asked, "/") {
		asked = string(s.Targets[0].Path.Parent().Join(asked))
	} else {
		asked = strings.TrimLeft(asked, "/")
	}
	p, err := s.Root.Clean(asked)
	if err != nil {
		return "the link " + to + " leads out of the workspace"
	}
	n, err := s.Root.Look(ctx, p, true)
	if err != nil {
		return "the link " + to + " leads nowhere"
	}
	defer n.Close()
	if n.Info.Kind == op.Absent {
		return "nothing is at " + to
	}
	return ""
}

// linkOffset finds where a link's destination stands: behind its own text, or after the
// block began.
func linkOffset(n ast.Node, text []byte, to string) int {
	from := 0
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			from = t.Segment.Stop
		}
	}
	for b := n; b != nil && from == 0; b = b.Parent() {
		if b.Type() == ast.TypeBlock && b.Lines() != nil && b.Lines().Len() > 0 {
			from = b.Lines().At(0).Start
		}
	}
	if i := bytes.Index(text[from:], []byte(to)); i >= 0 {
		return from + i
	}
	return from
}
