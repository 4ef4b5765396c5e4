package fileops

import (
	"bytes"
	"context"
	"strings"

	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	source "github.com/yuin/goldmark/text"

	"holdpoint/op"
)

// Heading is one line of a document's outline.
type Heading struct {
	Level int    `json:"level"`
	Text  string `json:"text"`
	ID    string `json:"id"`
	Line  int    `json:"line"`
}

// maxMarkdown bounds what is rendered, in bytes.
const maxMarkdown = 512 << 10

func markdown() goldmark.Markdown {
	return goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
}

func parseMarkdown(b []byte) ast.Node { return markdown().Parser().Parse(source.NewReader(b)) }

// preview answers preview_markdown: HTML without scripts, styles and raw HTML of the
// document, and the outline.
func preview(ctx context.Context, s Scene, _ *op.PreviewArgs) (map[string]any, error) {
	t := s.Targets[0]
	if err := regular(t); err != nil {
		return nil, err
	}
	if t.Size > maxMarkdown {
		return nil, op.Fail(op.TooLarge, "documents over 512 KiB are not rendered").At(t.Path).Do("use view_file")
	}
	raw, err := bytesOf(s, 0)
	if err != nil {
		return nil, err
	}
	b, fault := plainText(raw)
	if fault != nil {
		return nil, op.Fail(op.BadEncoding, "the document is no UTF-8 text: "+fault.Message).At(t.Path)
	}
	doc, ok := s.parse(ctx, "preview", b)
	if ctx.Err() != nil {
		return nil, op.Fail(op.Cancelled, "the preview was cancelled").Because(ctx.Err())
	}
	if !ok {
		return nil, op.Fail(op.InvalidDocument, "the document cannot be rendered").At(t.Path).Do("use view_file")
	}
	outline := doc.Outline
	if outline == nil {
		outline = []Heading{}
	}
	return map[string]any{"html": doc.HTML, "outline": outline, "hash": t.Hash}, nil
}

// rendered gives a document as HTML without scripts, styles and raw HTML of its own.
func rendered(b []byte) (out parsed) {
	doc := parseMarkdown(b)
	var html bytes.Buffer
	if err := markdown().Renderer().Render(&html, b, doc); err != nil {
		panic(err) // into a buffer: the parser gave up
	}
	return parsed{HTML: string(bluemonday.UGCPolicy().SanitizeBytes(html.Bytes())), Outline: headings(doc, b)}
}

func headings(doc ast.Node, b []byte) (list []Heading) {
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		h, ok := n.(*ast.Heading)
		if !ok || !entering {
			return ast.WalkContinue, nil
		}
		out := Heading{Level: h.Level, Text: plainOf(h, b)}
		if id, ok := h.AttributeString("id"); ok {
			if raw, ok := id.([]byte); ok {
				out.ID = string(raw)
			}
		}
		if h.Lines().Len() > 0 {
			out.Line = at(b, h.Lines().At(0).Start, "").Line
		}
		list = append(list, out)
		return ast.WalkSkipChildren, nil
	})
	return list
}

// plainOf gives the text of a node without its marks.
func plainOf(n ast.Node, b []byte) string {
	var out strings.Builder
	_ = ast.Walk(n, func(c ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := c.(*ast.Text); ok && entering {
			out.Write(t.Segment.Value(b))
		}
		return ast.WalkContinue, nil
	})
	return out.String()
}
