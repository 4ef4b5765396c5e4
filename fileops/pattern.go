package fileops

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"holdpoint/op"
)

// pattern is what a search looks for. It never changes and is safe for concurrent use.
type pattern struct {
	plain   []byte // the text itself, where nothing but it has to be compared
	re      *regexp.Regexp
	group   int      // of re: which part is the match; the rest is the edge of a word
	needles []needle // may be nil
	slow    bool     // matching is interruptible only by way of a reader
	many    bool     // multiline
}

// maxPattern bounds a pattern, in bytes.
const maxPattern = 16 << 10

// slowProgram is how many instructions make a program so slow that a long text has to be
// interruptible.
const slowProgram = 400

// newPattern compiles the pattern of a call.
func newPattern(a *op.SearchArgs) (*pattern, error) {
	switch {
	case a.Pattern == "":
		return nil, op.Fail(op.EmptyPattern, "the pattern is empty").In("args.pattern").Do("give the text to look for; file_tree lists files")
	case len(a.Pattern) > maxPattern:
		return nil, op.Fail(op.TooLarge, "the pattern is over 16 KiB").In("args.pattern")
	case !a.Regex && !a.Multiline && strings.Contains(a.Pattern, "\n"):
		return nil, op.Fail(op.BadRequest, "the pattern holds a line break, and lines are looked at one by one").In("args.pattern").Do("set multiline")
	}
	p := &pattern{many: a.Multiline}
	if !a.Regex && !a.IgnoreCase && !a.WholeWord {
		p.plain = []byte(a.Pattern)
		p.needles = []needle{{text: p.plain}}
		return p, nil
	}
	source := a.Pattern
	if !a.Regex {
		source = regexp.QuoteMeta(source)
	}
	flags := ""
	if a.IgnoreCase {
		flags += "i"
	}
	if a.Multiline {
		flags += "m"
	}
	if flags != "" {
		flags = "(?" + flags + ")"
	}
	tree, err := syntax.Parse(flags+source, syntax.Perl)
	if err != nil {
		return nil, badPattern(err)
	}
	p.needles = needs(tree)
	if a.WholeWord {
		const edge = `[^\pL\pM\pN\p{Pc}]`
		source, p.group = `(?:^|`+edge+`)(`+source+`)(?:$|`+edge+`)`, 1
	}
	if p.re, err = regexp.Compile(flags + source); err != nil {
		return nil, badPattern(err)
	}
	if tree, err = syntax.Parse(flags+source, syntax.Perl); err == nil {
		if prog, err := syntax.Compile(tree.Simplify()); err == nil {
			p.slow = len(prog.Inst) > slowProgram
		}
	}
	return p, nil
}

func badPattern(err error) error {
	why := err.Error()
	var e *syntax.Error
	if errors.As(err, &e) {
		why = e.Code.String()
		if e.Expr != "" {
			why += ": " + e.Expr
		}
	}
	return op.Fail(op.BadRequest, "the pattern is no regular expression: "+op.Visible(why, false)).In("args.pattern").
		Do("the syntax is RE2: no look-around and no back-references; leave regex out to look for plain text").Because(err)
}

// matchAt is how much of a long line is matched at a time, with overlap between, so that a
// call can be ended soon. A match longer than overlap may be missed at an edge.
const (
	matchAt = 32 << 10
	overlap = 8 << 10
)

// in finds the first match in a text, which is a line or, in a multiline search, the rest
// of a file from the beginning of a line.
func (p *pattern) in(ctx context.Context, text []byte) (from, to int, ok bool) {
	if p.plain != nil {
		i := bytes.Index(text, p.plain)
		return i, i + len(p.plain), i >= 0
	}
	if len(text) <= matchAt+overlap {
		return p.match(ctx, text)
	}
	for off := 0; off < len(text) && ctx.Err() == nil; off += matchAt {
		part := text[off:min(len(text), off+matchAt+overlap)]
		from, to, ok = p.within(ctx, part, off == 0, off+len(part) == len(text))
		if ok {
			return off + from, off + to, true
		}
	}
	return 0, 0, false
}

// within matches a part of a text. What touches an edge that is none of the text may be
// there because of the edge, and is left to the part beside it.
func (p *pattern) within(ctx context.Context, part []byte, first, last bool) (from, to int, ok bool) {
	if p.slow {
		return p.match(ctx, part)
	}
	for _, loc := range p.re.FindAllSubmatchIndex(part, 16) {
		if (first || loc[0] > 0) && (last || loc[1] < len(part)) {
			return loc[2*p.group], loc[2*p.group+1], true
		}
	}
	return 0, 0, false
}

func (p *pattern) match(ctx context.Context, text []byte) (from, to int, ok bool) {
	var loc []int
	switch {
	case p.slow:
		loc = p.re.FindReaderSubmatchIndex(&ended{ctx: ctx, text: text})
		if ctx.Err() != nil {
			return 0, 0, false // the reader ended early, so that "$" may have matched
		}
	case p.group == 0:
		loc = p.re.FindIndex(text)
	default:
		loc = p.re.FindSubmatchIndex(text)
	}
	if loc == nil {
		return 0, 0, false
	}
	return loc[2*p.group], loc[2*p.group+1], true
}

// ended reads a text until a call ends.
type ended struct {
	ctx  context.Context
	text []byte
	pos  int
	n    int
}

func (e *ended) ReadRune() (rune, int, error) {
	if e.n++; e.n%512 == 0 && e.ctx.Err() != nil || e.pos >= len(e.text) {
		return 0, 0, io.EOF
	}
	r, w := utf8.DecodeRune(e.text[e.pos:])
	e.pos += w
	return r, w, nil
}
