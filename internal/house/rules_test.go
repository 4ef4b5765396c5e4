package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// decisionFaults finds whoever gives a verdict besides the one that judges.
func (m *module) decisionFaults() (faults []string) {
	const why = "only decision.Judge gives a verdict: a second judge would be a second policy"
	for _, s := range m.files {
		if s.test || s.dir == "decision" || outside(s.dir) {
			continue
		}
		isDecision := func(e ast.Expr) bool {
			if id, ok := e.(*ast.Ident); ok && s.dir == "op" {
				return id.Name == "Decision"
			}
			return s.named(e, m.name+"/op", "Decision")
		}
		elided := map[*ast.CompositeLit]bool{} // {...} inside []op.Decision{...} and the like
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if element := elementType(n.Type); element != nil && isDecision(element) {
					for _, e := range n.Elts {
						if kv, ok := e.(*ast.KeyValueExpr); ok {
							e = kv.Value
						}
						if lit, ok := e.(*ast.CompositeLit); ok && lit.Type == nil {
							elided[lit] = true
						}
					}
				}
				// An empty one refuses, which is what an error path may return.
				if (elided[n] || n.Type != nil && isDecision(n.Type)) && len(n.Elts) > 0 {
					faults = append(faults, m.at(n)+" builds an op.Decision: "+why)
				}
			case *ast.AssignStmt:
				for _, l := range n.Lhs {
					if sel, ok := l.(*ast.SelectorExpr); ok && sel.Sel.Name == "Verdict" {
						faults = append(faults, m.at(n)+" sets a Verdict: "+why)
					}
				}
			}
			return true
		})
	}
	return faults
}

func elementType(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.ArrayType:
		return star(e.Elt)
	case *ast.MapType:
		return star(e.Value)
	}
	return nil
}

func star(e ast.Expr) ast.Expr {
	if s, ok := e.(*ast.StarExpr); ok {
		return s.X
	}
	return e
}

// unlinkFaults finds code that could end a file for good. In a workspace nothing is ever
// unlinked: what is deleted goes to the store, and only rooted's Drop empties that, of what
// no live credential names. An empty directory holds nobody's data.
func (m *module) unlinkFaults() (faults []string) {
	own := map[string]string{ // who may, and of what
		"internal/journal": "its own temporary and blob files",
		"bridge":           "the socket it made",
		"shellexec":        "the private temporary directory it made",
		"cmd/holdpoint":    "token files and others that the command line made",
	}
	hidden := m.behindDrop()
	for _, s := range m.files {
		if s.test || outside(s.dir) || own[s.dir] != "" {
			continue
		}
		for _, d := range s.file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && s.dir == "internal/rooted" && hidden[fn.Name.Name] {
				continue
			}
			for _, call := range unlinks(d) {
				faults = append(faults, m.at(call)+" unlinks outside rooted's Store.Drop: what belongs to the owner goes to quarantine, or undo could not bring it back")
			}
		}
	}
	return faults
}

// behindDrop names the methods of rooted's Store that nothing but Drop and they themselves
// call: they are a part of Drop.
func (m *module) behindDrop() map[string]bool {
	callers := map[string]map[string]bool{}
	hidden := map[string]bool{"Drop": true}
	for _, s := range m.files {
		if s.test || s.dir != "internal/rooted" {
			continue
		}
		for _, d := range s.file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			if len(unlinks(fn)) > 0 && fn.Recv != nil && fmt.Sprint(star(fn.Recv.List[0].Type)) == "Store" {
				hidden[fn.Name.Name] = true
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok {
					if callers[sel.Sel.Name] == nil {
						callers[sel.Sel.Name] = map[string]bool{}
					}
					callers[sel.Sel.Name][fn.Name.Name] = true
				}
				return true
			})
		}
	}
	for name := range hidden {
		for by := range callers[name] {
			if name != "Drop" && by != "Drop" && by != name {
				delete(hidden, name)
			}
		}
	}
	return hidden
}

// unlinks lists the calls below n that end a name, empty directories apart; a watcher's
// Remove ends a watch.
func unlinks(n ast.Node) (calls []*ast.CallExpr) {
	ast.Inspect(n, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && !removesDirectory(call) {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && oneOf(sel.Sel.Name, []string{"Remove", "RemoveAll", "Unlink", "Unlinkat"}) && !isWatcher(sel.X) {
				calls = append(calls, call)
			}
		}
		return true
	})
	return calls
}

func isWatcher(x ast.Expr) bool {
	sel, ok := x.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "watcher"
}

// removesDirectory reports whether a call carries AT_REMOVEDIR, which removes a directory
// only while it is empty.
func removesDirectory(call *ast.CallExpr) bool {
	for _, a := range call.Args {
		if sel, ok := a.(*ast.SelectorExpr); ok && sel.Sel.Name == "AT_REMOVEDIR" {
			return true
		}
	}
	return false
}

// decoderFaults finds requests that are read by the standard decoder.
func (m *module) decoderFaults() (faults []string) {
	for _, s := range m.files {
		if s.test || s.dir != "bridge" && s.dir != "bridge/mcp" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok && s.named(e, "encoding/json", "Unmarshal", "NewDecoder", "Decoder") {
				faults = append(faults, m.at(n)+" decodes with encoding/json: it folds the case of keys and keeps the last of two, so a filter and the program would read different calls; requests go through op.ParseJSON")
			}
			return true
		})
	}
	return faults
}

// clockFaults finds op reading the clock, which its types may name but not ask.
func (m *module) clockFaults() (faults []string) {
	for _, s := range m.files {
		if s.test || s.dir != "op" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok && s.named(e, "time", "Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker") {
				faults = append(faults, m.at(n)+" asks the clock: op holds values, and a value that depends on when it is made cannot be compared")
			}
			return true
		})
	}
	return faults
}

// initFaults finds code that runs before main, and parts of a package that do not say what
// it is.
func (m *module) initFaults() (faults []string) {
	doc := map[string]bool{}
	for _, s := range m.files {
		if !s.test && s.file.Doc != nil {
			want := "Package " + s.file.Name.Name + " "
			if s.file.Name.Name == "main" {
				want = "Command "
			}
			doc[s.dir] = doc[s.dir] || strings.HasPrefix(s.file.Doc.Text(), want)
		}
		for _, d := range s.file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				faults = append(faults, m.at(fn)+" is an init: nothing runs before main, so that what a package does can be read from its calls")
			}
		}
	}
	seen := map[string]bool{}
	for _, s := range m.files {
		if !s.test && !doc[s.dir] && !seen[s.dir] {
			seen[s.dir] = true
			faults = append(faults, s.dir+` has no comment "Package x ..." that says what it is and what it does not promise`)
		}
	}
	return faults
}

func TestRules(t *testing.T) {
	m := load(t)
	t.Run("C2 (part) one package makes decisions", func(t *testing.T) { report(t, m.decisionFaults()) })
	t.Run("I93 no code path ends the owner's data for good", func(t *testing.T) { report(t, m.unlinkFaults()) })
	t.Run("S73 (part) the bridge reads requests through the strict parser alone", func(t *testing.T) { report(t, m.decoderFaults()) })
	t.Run("op does not ask the clock", func(t *testing.T) { report(t, m.clockFaults()) })
	t.Run("no init, and every package says what it is", func(t *testing.T) { report(t, m.initFaults()) })
}

func TestRulesBite(t *testing.T) {
	head := "package x\nimport (op \"holdpoint/op\"; \"encoding/json\"; \"time\"; \"os\"; \"golang.org/x/sys/unix\")\n"
	for _, c := range []struct {
		path, text string
		find       func(*module) []string
		want       string
	}{
		{"review/x.go", "var d = op.Decision{Verdict: op.Auto}", (*module).decisionFaults, "builds"},
		{"review/x.go", "var d = &op.Decision{Reason: \"x\"}", (*module).decisionFaults, "builds"},
		{"review/x.go", "var d = []op.Decision{{Verdict: op.Auto}}", (*module).decisionFaults, "builds"},
		{"review/x.go", "var d = map[int]*op.Decision{1: {Verdict: op.Auto}}", (*module).decisionFaults, "builds"},
		{"internal/flow/x.go", "func f(d op.Decision) { d.Verdict = op.Auto }", (*module).decisionFaults, "sets"},
		{"op/y.go", "var d = Decision{Verdict: 2}", (*module).decisionFaults, "builds"},
		{"fileops/x.go", "func f() { os.Remove(`a`) }", (*module).unlinkFaults, "quarantine"},
		{"internal/rooted/x.go", "func f() { unix.Unlinkat(1, `a`, 0) }", (*module).unlinkFaults, "quarantine"},
		{"internal/rooted/x.go", "func f(r *os.Root) { r.RemoveAll(`a`) }", (*module).unlinkFaults, "quarantine"},
		{"internal/rooted/x.go", "func (s *Store) Drop() { s.end() }; func (s *Store) end() { unix.Unlink(`a`) }; func g(s *Store) { s.end() }", (*module).unlinkFaults, "quarantine"},
		{"bridge/x.go", "func f(b []byte) { json.Unmarshal(b, nil) }", (*module).decoderFaults, "ParseJSON"},
		{"bridge/x.go", "func f() { json.NewDecoder(nil) }", (*module).decoderFaults, "ParseJSON"},
		{"bridge/mcp/x.go", "func f(b []byte) { json.Unmarshal(b, nil) }", (*module).decoderFaults, "ParseJSON"},
		{"op/x.go", "var t = time.Now()", (*module).clockFaults, "clock"},
		{"undo/x.go", "func init() {}", (*module).initFaults, "before main"},
		{"undo/x.go", "", (*module).initFaults, "no comment"},
	} {
		m := empty()
		m.add(t, c.path, []byte(head+c.text+"\n"))
		expect(t, c.path+" "+c.text, c.find(m), c.want)
	}
	for _, c := range []struct {
		path, text string
		find       func(*module) []string
	}{
		{"decision/x.go", "var d = op.Decision{Verdict: op.Auto}", (*module).decisionFaults},
		{"review/x_test.go", "var d = op.Decision{Verdict: op.Auto}", (*module).decisionFaults},
		{"review/x.go", "func f() (op.Decision, error) { return op.Decision{}, nil }", (*module).decisionFaults},
		{"internal/rooted/x.go", "func (s *Store) Drop() { unix.Unlinkat(1, `a`, 0) }", (*module).unlinkFaults},
		{"internal/rooted/x.go", "func (s *Store) Drop() { s.end() }; func (s *Store) end() { unix.Unlink(`a`); s.end() }", (*module).unlinkFaults},
		{"internal/rooted/x.go", "func f() { unix.Unlinkat(1, `a`, unix.AT_REMOVEDIR) }", (*module).unlinkFaults},
		{"op/x.go", "var t time.Time", (*module).clockFaults},
		{"undo/x.go", "type T struct{}; func (T) init() {}", func(m *module) []string { return m.initFaults()[1:] }},
	} {
		m := empty()
		m.add(t, c.path, []byte(head+c.text+"\n"))
		if f := c.find(m); len(f) > 0 {
			t.Errorf("%s %s: %v", c.path, c.text, f)
		}
	}
}

func empty() *module { return &module{name: "holdpoint", set: token.NewFileSet()} }

// expect wants at least one fault and a reason in it.
func expect(t *testing.T, what string, faults []string, want string) {
	t.Helper()
	if !strings.Contains(strings.Join(faults, "\n"), want) {
		t.Errorf("%s: got %q, want a fault with %q", what, faults, want)
	}
}
