package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// caseTests gives, for each package, the tests that name an id of the letter, themselves or
// in a helper. Files that this machine does not build as it stands are left out.
func caseTests(root, letter string, claims []claim) (map[string][]string, error) {
	naming := map[string][]claim{}
	for _, c := range claims {
		file, _, _ := strings.Cut(c.at, ":")
		if strings.HasPrefix(c.id, letter) && strings.HasSuffix(file, ".go") {
			naming[path.Dir(file)] = append(naming[path.Dir(file)], c)
		}
	}
	out := map[string][]string{}
	for dir, list := range naming {
		p, err := readTests(root, dir)
		if err != nil {
			return nil, err
		}
		found := map[string]bool{}
		for _, c := range list {
			p.reaching(p.at[c.at], found, map[string]bool{})
		}
		if len(found) > 0 {
			out[dir] = slices.Sorted(maps.Keys(found))
		}
	}
	return out, nil
}

// testPackage knows which of the declarations in a package's tests mentions which.
type testPackage struct {
	at map[string]string          // file:line, the declaration there
	by map[string]map[string]bool // a name, the declarations that mention it
}

func readTests(root, dir string) (*testPackage, error) {
	at := filepath.Join(root, filepath.FromSlash(dir))
	list, err := filepath.Glob(filepath.Join(at, "*_test.go"))
	if err != nil {
		return nil, err
	}
	p := &testPackage{at: map[string]string{}, by: map[string]map[string]bool{}}
	for _, file := range list {
		name := filepath.Base(file)
		if ok, err := build.Default.MatchFile(at, name); err != nil || !ok {
			if err != nil {
				return nil, err
			}
			continue
		}
		if err := p.read(file, path.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *testPackage) read(file, rel string) error {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, d := range parsed.Decls {
		for _, name := range declared(d) {
			for line := set.Position(d.Pos()).Line; line <= set.Position(d.End()).Line; line++ {
				p.at[fmt.Sprint(rel, ":", line)] = name
			}
			ast.Inspect(d, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					if p.by[id.Name] == nil {
						p.by[id.Name] = map[string]bool{}
					}
					p.by[id.Name][name] = true
				}
				return true
			})
		}
	}
	return nil
}

// declared names what a declaration declares: a function, a method by its own name, tables.
func declared(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return []string{d.Name.Name}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if v, ok := s.(*ast.ValueSpec); ok {
				for _, n := range v.Names {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}

// reaching collects the tests that get to a declaration. Names alone are compared: a test too
// many costs its time, one too few would be a case that nobody ran.
func (p *testPackage) reaching(name string, found, seen map[string]bool) {
	if name == "" || seen[name] {
		return
	}
	seen[name] = true
	if strings.HasPrefix(name, "Test") {
		found[name] = true
		return
	}
	for by := range p.by[name] {
		p.reaching(by, found, seen)
	}
}

// printTests gives a line for each package: its directory and a pattern of its tests.
func printTests(out io.Writer, tests map[string][]string) {
	for _, dir := range slices.Sorted(maps.Keys(tests)) {
		fmt.Fprintf(out, "%s ^(%s)$\n", dir, strings.Join(tests[dir], "|"))
	}
}
