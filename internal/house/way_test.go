package house

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// onlyFrom says which functions of internal/flow alone may call what changes something, or
// brings a held call nearer to that. A further caller would be a way round the gate.
var onlyFrom = map[string][]string{
	"perform":        {"run", "execute", "itemAlone"}, // judged, released, or an item of such a call
	"performProcess": {"perform"},
	"performApart":   {"perform"},
	"begin":          {"performProcess"}, // starts a program
	"Apply":          {"perform"},        // the hands on the workspace
	"execute":        {"release"},
	"release":        {"Answer"}, // a person's word
	"Claim":          {"release"},
}

// wayFaults finds calls past the one way from a decision to its effect.
func (m *module) wayFaults() (faults []string) {
	for _, s := range m.files {
		if s.test || s.dir != "internal/flow" {
			continue
		}
		for _, d := range s.file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			if fn.Name.Name == "perform" && !beginsGated(fn) {
				faults = append(faults, m.at(fn)+" does not ask first whether a decision allows it: whoever gets here past the judgement would change something")
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if sel, ok := call.Fun.(*ast.SelectorExpr); ok && onlyFrom[sel.Sel.Name] != nil && !slices.Contains(onlyFrom[sel.Sel.Name], fn.Name.Name) {
					faults = append(faults, m.at(call)+" calls "+sel.Sel.Name+" from "+fn.Name.Name+": there is one way to an effect, from "+strings.Join(onlyFrom[sel.Sel.Name], " or "))
				}
				return true
			})
		}
	}
	return faults
}

// beginsGated reports whether a function's first statement is "if !allowed(...)".
func beginsGated(fn *ast.FuncDecl) bool {
	if len(fn.Body.List) == 0 {
		return false
	}
	first, ok := fn.Body.List[0].(*ast.IfStmt)
	if !ok {
		return false
	}
	not, ok := first.Cond.(*ast.UnaryExpr)
	if !ok {
		return false
	}
	call, ok := not.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	name, ok := call.Fun.(*ast.Ident)
	return ok && name.Name == "allowed"
}

// wordFaults finds operations by name where the queue and its rows are kept: a card is
// worded by who plans the call, and the queue treats all alike.
func (m *module) wordFaults() (faults []string) {
	var names []string
	for _, s := range m.files {
		if s.dir != "op" || s.test || !strings.HasSuffix(s.path, "table.go") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if id, ok := v.Type.(*ast.Ident); ok && id.Name == "Name" {
				for _, name := range v.Names {
					names = append(names, name.Name)
				}
			}
			return true
		})
	}
	for _, s := range m.files {
		if s.test || s.dir != "review" && !(s.dir == "internal/journal" && strings.Contains(s.path, "approvals")) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && slices.Contains(names, sel.Sel.Name) {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "op" {
					faults = append(faults, m.at(sel)+" names the operation "+sel.Sel.Name+": the queue knows none by its name")
				}
			}
			return true
		})
	}
	if len(names) < 20 {
		faults = append(faults, "the names of the operations were not found in op")
	}
	return faults
}

func TestWay(t *testing.T) {
	m := load(t)
	t.Run("I6, U14 one way leads from a decision, or from a person's word, to an effect", func(t *testing.T) {
		for _, f := range m.wayFaults() {
			t.Error(f)
		}
	})
	t.Run("I83 the queue knows no operation's words", func(t *testing.T) {
		for _, f := range m.wordFaults() {
			t.Error(f)
		}
	})
	t.Run("the rules bite", func(t *testing.T) {
		bad := load(t) // the faults add up
		for _, c := range []struct {
			path, text string
			find       func(*module) []string
		}{
			{"internal/flow/x.go", "func (e *Engine) Resume() { e.perform(ctx, c, d, ``) }", (*module).wayFaults},
			{"internal/flow/x.go", "func (e *Engine) Resume() { e.execute(ctx, row) }", (*module).wayFaults},
			{"internal/flow/x.go", "func (e *Engine) Resume() { go func() { held.Apply(ctx) }() }", (*module).wayFaults},
			{"internal/flow/x.go", "func (e *Engine) perform() { held.Apply(ctx) }", (*module).wayFaults},
			{"review/x.go", "func f(n op.Name) bool { return n == op.DeleteFile }", (*module).wordFaults},
		} {
			before := len(c.find(bad))
			bad.add(t, c.path, []byte("package x\n"+c.text))
			if len(c.find(bad)) <= before {
				t.Errorf("%s: nothing is found", c.text)
			}
		}
	})
}
