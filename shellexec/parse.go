// Package shellexec reads commands for a person and runs what a person released: confined
// as far as the machine allows, with bounded output, and ended whole.
//
// What it reads of a command is a description, never a permission: a shell may do what no
// reading of its text foresees. It does not decide, touches no workspace file itself, and
// does not promise that a confined program cannot harm what its root holds.
package shellexec

import (
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"holdpoint/op"
)

// Command is one simple command that was found, as the card shows it.
type Command struct {
	Text  string   // as written
	Words []string // the words; those that only the shell could know are as written
	Known bool     // every word is what will be run
	Tier  op.Tier
	Why   string // what raised the tier; empty for the plain case
	Line  int    // in a script, from 1

	Writes string // the file that it redirects into, where it is known
	Reads  string // the file that it is redirected from, where it is known
}

// Reading is what was found in a command line or a script. Its tier is that of the worst
// part; what could not be read counts as the worst.
type Reading struct {
	Commands    []Command
	Tier        op.Tier
	Unread      string // why the text could not be read; empty where it was
	Interactive bool   // a shell or interpreter that waits for somebody to type
}

// MaxScript is the longest script that is read and taken.
const MaxScript = 64 << 10

// maxNesting bounds what the parser has to keep open at a time: its time grows with it.
const maxNesting = 1000

// ReadArgv reads a program with its literal words.
func ReadArgv(argv []string) Reading {
	c := Command{Text: Quote(argv), Words: argv, Known: true}
	var inner []Command
	c.Tier, c.Why, inner = tierOf(argv, 0)
	r := Reading{Commands: append([]Command{c}, inner...), Interactive: interactive(argv)}
	r.lead()
	return r
}

// ReadScript reads a script as bash would. It never fails: what it cannot read is T4.
func ReadScript(src string) Reading { return readScript(src, 0) }

func readScript(src string, depth int) Reading {
	unread := func(why string) Reading { return Reading{Tier: op.T4, Unread: why} }
	switch {
	case len(src) > MaxScript:
		return unread("it is longer than 64 KiB")
	case strings.Contains(src, "\x00"):
		return unread("it holds a NUL byte")
	case strings.Count(src, "(")+strings.Count(src, "{") > maxNesting:
		return unread("it nests too deeply")
	case depth > 8:
		return unread("shells start shells too deeply")
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(src), "")
	if err != nil {
		return unread("it is no complete script: " + err.Error())
	}
	s := &scan{src: src, depth: depth, functions: map[string]bool{}}
	syntax.Walk(file, func(n syntax.Node) bool {
		if f, ok := n.(*syntax.FuncDecl); ok && f.Name != nil {
			s.functions[f.Name.Value] = true
		}
		return true
	})
	syntax.Walk(file, s.visit)
	r := Reading{Commands: s.found}
	r.lead()
	return r
}

func (r *Reading) lead() {
	for _, c := range r.Commands {
		r.Tier = worse(r.Tier, c.Tier)
	}
	if r.Tier == "" {
		r.Tier = op.T1
	}
}

func worse(a, b op.Tier) op.Tier {
	if a == "" || b != "" && b.Rank() > a.Rank() {
		return b
	}
	return a
}

// scan collects the simple commands of one script.
type scan struct {
	src       string
	depth     int
	functions map[string]bool
	found     []Command
}

func (s *scan) text(n syntax.Node) string {
	from, to := int(n.Pos().Offset()), int(n.End().Offset())
	if from > to || to > len(s.src) {
		return ""
	}
	return s.src[from:to]
}

func (s *scan) add(n syntax.Node, words []string, known bool, tier op.Tier, why string) {
	s.found = append(s.found, Command{Text: s.text(n), Words: words, Known: known, Tier: tier, Why: why, Line: int(n.Pos().Line())})
}

// visit lists what runs or writes. Substitutions are walked like everything else, so that
// the commands inside of them are found as well.
func (s *scan) visit(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.CallExpr:
		s.call(n)
	case *syntax.DeclClause:
		s.add(n, nil, false, op.T3, "sets variables")
	case *syntax.FuncDecl:
		s.add(n, nil, false, op.T3, "defines a function, which may take the name of a program")
	case *syntax.CoprocClause:
		s.add(n, nil, false, op.T3, "runs beside the script")
	case *syntax.Redirect:
		s.redirect(n)
	case *syntax.ParamExp:
		if n.Excl || n.Exp != nil && n.Exp.Op == syntax.OtherParamOps {
			s.add(n, nil, false, op.T4, "expands a variable in a way that may run what it holds")
		}
	}
	return true
}

func (s *scan) call(n *syntax.CallExpr) {
	tier, why := op.T1, ""
	for _, a := range n.Assigns {
		if a.Name == nil {
			continue
		}
		tier, why = worse(tier, op.T3), "sets "+a.Name.Value
		if text, ok := static(a.Value); ok && indexRuns(text) {
			tier, why = op.T4, "sets "+a.Name.Value+" to an index of an array, and what stands in it may run"
			break
		}
		if Steers(a.Name.Value) {
			tier, why = op.T4, "sets "+a.Name.Value+", which changes what programs run"
			break
		}
	}
	var words []string
	known := true
	for i, w := range n.Args {
		word, ok := static(w)
		if !ok {
			word, known = s.text(w), false
			if i == 0 {
				tier, why = op.T4, "the program is known only when it runs"
			} else if tier.Rank() < op.T3.Rank() {
				tier, why = op.T3, "an argument is known only when it runs"
			}
		}
		words = append(words, word)
	}
	if len(words) == 0 {
		if len(n.Assigns) > 0 {
			s.add(n, nil, known, tier, why)
		}
		return
	}
	var inner []Command
	if s.functions[words[0]] {
		tier, why = worse(tier, op.T3), "is a function of this script"
	} else if t, reason, in := tierOf(words, s.depth+1); t.Rank() > tier.Rank() {
		tier, why, inner = t, reason, in
	} else {
		inner = in
		if why == "" {
			why = reason
		}
	}
	s.add(n, words, known, tier, why)
	for _, c := range inner {
		c.Line = int(n.Pos().Line())
		s.found = append(s.found, c)
	}
}

func (s *scan) redirect(n *syntax.Redirect) {
	switch n.Op {
	case syntax.RdrIn:
		if from, ok := static(n.Word); ok && from != "/dev/null" {
			s.add(n, nil, true, op.T1, "reads "+from)
			s.found[len(s.found)-1].Reads = from
		}
	case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc, syntax.DplIn:
	case syntax.DplOut:
		return
	default:
		to, ok := static(n.Word)
		switch {
		case !ok:
			s.add(n, nil, false, op.T3, "writes a file whose name is known only when it runs")
		case to != "/dev/null":
			s.add(n, nil, true, op.T2, "writes "+to)
			s.found[len(s.found)-1].Writes = to
		}
	}
	if n.Word != nil && strings.Contains(s.text(n.Word), "/dev/tcp/") || n.Word != nil && strings.Contains(s.text(n.Word), "/dev/udp/") {
		s.add(n, nil, false, op.T4, "opens a connection")
	}
}

// static gives the text of a word where no expansion takes part in it.
func static(w *syntax.Word) (string, bool) {
	if w == nil {
		return "", false
	}
	var b strings.Builder
	for i, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			text, ok := bare(p.Value, i == 0)
			if !ok {
				return "", false
			}
			b.WriteString(text)
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			if p.Dollar {
				return "", false
			}
			for _, in := range p.Parts {
				lit, ok := in.(*syntax.Lit)
				if !ok {
					return "", false
				}
				b.WriteString(unslash(lit.Value, "\\\"$`\n"))
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}

// bare reads unquoted text: a backslash takes the meaning from what follows; what is left
// of glob, tilde and brace characters is for the shell alone.
func bare(s string, first bool) (string, bool) {
	if first && strings.HasPrefix(s, "~") {
		return "", false
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\\':
			if i++; i < len(s) && s[i] != '\n' {
				b.WriteByte(s[i])
			}
		case '*', '?':
			return "", false
		case '[':
			if len(s) > 1 { // the command "[" is its whole word
				return "", false
			}
			b.WriteByte(c)
		case '{':
			if strings.ContainsAny(s[i:], ",.") && strings.Contains(s[i:], "}") {
				return "", false
			}
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}

func unslash(s, special string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte(special, s[i+1]) >= 0 {
			if i++; s[i] != '\n' {
				b.WriteByte(s[i])
			}
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// Quote writes an argv so that its words can be told apart; a shell would read the same.
func Quote(argv []string) string {
	out := make([]string, 0, len(argv))
	for _, w := range argv {
		if q, err := syntax.Quote(w, syntax.LangBash); err == nil {
			w = q
		} else {
			w = fmt.Sprintf("%q", w)
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}
