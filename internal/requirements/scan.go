package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// claim is a test's word that it shows one requirement, or a part of it.
type claim struct {
	id   string
	part bool
	name string // of the test
	at   string // file:line
	test string // the function that runs it; empty for scripts and tables outside of one
}

var (
	ids  = regexp.MustCompile(`[CIUXDS][1-9][0-9]*`)
	one  = ids.String() + `(?: \(part\))?`
	head = regexp.MustCompile(`^` + one + `(?:(?:, ?| )` + one + `)*(?: |$)`)
)

// parse takes the ids at the start of a test's name, "C12 ..." or "C12, I30 ..." or with
// "(part)" after them where the test shows only a part of the requirement. One "(part)"
// among several ids makes all of them parts: a claim too little is better than one too much.
func parse(name, at string) (out []claim) {
	m := head.FindString(name)
	part := strings.Contains(m, "(part)")
	for _, id := range ids.FindAllString(m, -1) {
		out = append(out, claim{id: id, part: part, name: name, at: at})
	}
	return out
}

// scan reads every test file and every script below root.
func scan(root string) (claims []claim, err error) {
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != root && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		rel, _ := filepath.Rel(root, p)
		rel = filepath.ToSlash(rel)
		switch inData := strings.Contains("/"+rel, "/testdata/"); {
		case strings.HasPrefix(rel, "internal/requirements/"):
			return nil // its own tests name ids as examples
		case !inData && strings.HasSuffix(rel, "_test.go"):
			found, err := scanGo(p, rel)
			claims = append(claims, found...)
			return err
		case inData && strings.HasSuffix(rel, ".txtar"):
			found, err := scanScript(p, rel)
			claims = append(claims, found...)
			return err
		}
		return nil
	})
	return claims, err
}

// scanGo takes the names given to Run. Where a name comes from a table, the names are the
// string literals of the file's tables that begin as a name with an id does.
func scanGo(path, rel string) (claims []claim, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, 0)
	if err != nil {
		return nil, err
	}
	take := func(e ast.Expr) bool {
		for {
			if sum, ok := e.(*ast.BinaryExpr); ok {
				e = sum.X // "C12 "+name
			} else if call, ok := e.(*ast.CallExpr); ok && len(call.Args) > 0 {
				e = call.Args[0] // fmt.Sprintf("C12 %s", name)
			} else {
				break
			}
		}
		lit, ok := e.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return false
		}
		name, err := strconv.Unquote(lit.Value)
		if err == nil {
			found := parse(name, rel+":"+strconv.Itoa(set.Position(lit.Pos()).Line))
			for i := range found {
				found[i].test = within(file, lit.Pos())
			}
			claims = append(claims, found...)
		}
		return true
	}
	tables := false
	ast.Inspect(file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 2 {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Run" {
				tables = !take(call.Args[0]) || tables
			}
		}
		return true
	})
	if !tables {
		return claims, nil
	}
	ast.Inspect(file, func(n ast.Node) bool {
		table, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		for _, e := range table.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				take(kv.Key) // map[string]...{"C12 ...": ...}
				e = kv.Value
			}
			take(e)
		}
		return true
	})
	return claims, nil
}

// within names the test function around a place in a file.
func within(file *ast.File, at token.Pos) string {
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Pos() <= at && at < f.End() && strings.HasPrefix(f.Name.Name, "Test") {
			return f.Name.Name
		}
	}
	return ""
}

// scanScript takes the lines "# id: C12, C13" of a script's comment.
func scanScript(path, rel string) (claims []claim, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for n, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "-- ") && strings.HasSuffix(line, " --") {
			break // the files of the archive begin
		}
		if list, ok := strings.CutPrefix(line, "# id: "); ok {
			claims = append(claims, parse(strings.TrimSpace(list), rel+":"+strconv.Itoa(n+1))...)
		}
	}
	return claims, nil
}
