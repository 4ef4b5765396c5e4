package fileops

import (
	"context"
	"encoding/json"

	"github.com/yuin/goldmark/ast"
)

// Aside runs one of the Parse parsers on a text in a process of its own, with bounds on its
// memory and time, and gives what it wrote.
//
// A parser that goes down into what it reads takes a stack as deep as the text is nested,
// and no program survives the end of its own stack; one that looks ahead and comes back may
// need longer than anybody waits. Neither can be stopped from outside in the same process.
type Aside func(ctx context.Context, parser string, text []byte) ([]byte, error)

// parsed is what a parser says of a text.
type parsed struct {
	Faults  []Fault   `json:"faults,omitempty"`
	Links   []link    `json:"links,omitempty"`
	Outline []Heading `json:"outline,omitempty"`
	HTML    string    `json:"html,omitempty"`
	Text    []byte    `json:"text,omitempty"`
	Refused *refusal  `json:"refused,omitempty"`
}

// link is one link of a Markdown document, and where it stands.
type link struct {
	To     string `json:"to"`
	Offset int    `json:"offset"`
}

var parsers = map[string]func(text []byte) parsed{
	"js": script("js"), "jsx": script("jsx"), "ts": script("ts"), "tsx": script("tsx"), "css": script("css"),
	"yaml": faultsOf(validYAML), "toml": faultsOf(validTOML), "xml": faultsOf(validXML), "go": faultsOf(validGo), "shell": faultsOf(validShell),
	"links":    links,
	"preview":  rendered,
	"pointers": pointed,
}

func faultsOf(check func([]byte) []Fault) func([]byte) parsed {
	return func(text []byte) parsed { return parsed{Faults: check(text)} }
}

// Parse is the other side of an Aside: it answers false for a parser that it does not know.
func Parse(parser string, text []byte) ([]byte, bool) {
	f := parsers[parser]
	if f == nil {
		return nil, false
	}
	b, err := json.Marshal(f(text))
	return b, err == nil
}

// parse asks a parser, aside where there is a place for that. It is not ok where the parser
// gave up.
func (s Scene) parse(ctx context.Context, parser string, text []byte) (out parsed, ok bool) {
	if s.Aside == nil {
		defer func() {
			if recover() != nil {
				out, ok = parsed{}, false
			}
		}()
		return parsers[parser](text), true
	}
	b, err := s.Aside(ctx, parser, text)
	if err != nil || json.Unmarshal(b, &out) != nil {
		return parsed{}, false
	}
	return out, true
}

// aside gives the check of a format by a parser.
func aside(parser string) func(context.Context, Scene, []byte) []Fault {
	return func(ctx context.Context, s Scene, text []byte) []Fault {
		out, ok := s.parse(ctx, parser, text)
		if !ok {
			return gaveUp()
		}
		return out.Faults
	}
}

func gaveUp() []Fault { return []Fault{{0, 0, "the parser gave up on this document"}} }

// links finds where a Markdown document leads.
func links(text []byte) (out parsed) {
	doc := parseMarkdown(text)
	out.Outline = headings(doc, text)
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		var to string
		switch l := n.(type) {
		case *ast.Link:
			to = string(l.Destination)
		case *ast.Image:
			to = string(l.Destination)
		}
		if entering && to != "" {
			out.Links = append(out.Links, link{to, linkOffset(n, text, to)})
		}
		return ast.WalkContinue, nil
	})
	return out
}
