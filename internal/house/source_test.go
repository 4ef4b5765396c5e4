package house

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// source is one Go file of the module. Build tags are not looked at: a rule holds on
// every platform.
type source struct {
	dir  string // of the package, from the module's root: "internal/rooted"
	path string
	text []byte
	file *ast.File
	test bool
}

// module is the whole of it.
type module struct {
	name  string
	root  string
	set   *token.FileSet
	files []source
}

func load(t *testing.T) *module {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	m, read := &module{root: root, set: token.NewFileSet()}, overlaid(t)
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(mod), "\n")
	m.name = strings.TrimSpace(strings.TrimPrefix(first, "module"))
	m.walk(t, func(rel string) {
		if !strings.HasSuffix(rel, ".go") {
			return
		}
		text, err := os.ReadFile(read(filepath.Join(root, rel)))
		if err != nil {
			t.Fatal(err)
		}
		m.add(t, rel, text)
	})
	if len(m.files) == 0 {
		t.Fatal("no source found")
	}
	return m
}

// overlaid gives what the compiler reads in place of a file: make requirements-prove lays a
// source without its guard over the one that is there (go help build, -overlay).
func overlaid(t *testing.T) func(file string) string {
	t.Helper()
	var o struct{ Replace map[string]string }
	for _, flag := range strings.Fields(os.Getenv("GOFLAGS")) {
		file, is := strings.CutPrefix(flag, "-overlay=")
		if !is {
			continue
		}
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &o)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return func(file string) string {
		if other := o.Replace[file]; other != "" {
			return other
		}
		return file
	}
}

// add parses one file, so that the tests of the rules can bring files of their own.
func (m *module) add(t *testing.T, rel string, text []byte) {
	t.Helper()
	f, err := parser.ParseFile(m.set, rel, text, parser.ParseComments)
	if err != nil {
		t.Errorf("%s does not parse: %v", rel, err)
		return
	}
	m.files = append(m.files, source{dir: path.Dir(rel), path: rel, text: text, file: f, test: strings.HasSuffix(rel, "_test.go")})
}

// walk visits every file that belongs to the module, by its slash path.
func (m *module) walk(t *testing.T, visit func(rel string)) {
	t.Helper()
	err := filepath.WalkDir(m.root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && p != m.root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || name == "node_modules") {
			return fs.SkipDir
		}
		if d.Type().IsRegular() {
			rel, err := filepath.Rel(m.root, p)
			if err != nil {
				return err
			}
			visit(filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (m *module) at(n ast.Node) string {
	p := m.set.Position(n.Pos())
	return p.Filename + ":" + strconv.Itoa(p.Line)
}

// imports lists what a file imports, by path, with the name it has in the file.
func (s source) imports() map[string]string {
	out := map[string]string{}
	for _, i := range s.file.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			continue
		}
		name := path.Base(p)
		if i.Name != nil {
			name = i.Name.Name
		}
		out[p] = name
	}
	return out
}

// named reports whether e is pkg.name for one of names, where pkg is the file's own name
// for the import. A dot import counts as well.
func (s source) named(e ast.Expr, pkg string, names ...string) bool {
	local, imported := s.imports()[pkg]
	if !imported {
		return false
	}
	if local == "." {
		id, ok := e.(*ast.Ident)
		return ok && oneOf(id.Name, names)
	}
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || !oneOf(sel.Sel.Name, names) {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == local
}

func oneOf(s string, list []string) bool {
	for _, l := range list {
		if s == l {
			return true
		}
	}
	return false
}

// std reports whether an import path is of the standard library.
func std(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return !strings.Contains(first, ".")
}

// below reports whether p is pkg or lies below it.
func below(p, pkg string) bool { return p == pkg || strings.HasPrefix(p, pkg+"/") }
