package house

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestLimits holds docs/limits.md to the source: each row ends in the constant that the
// bound is, or in the field of op whose tags say it, and the two must agree. A default
// that changes therefore changes the page.
func TestLimits(t *testing.T) {
	m := load(t)
	text, err := os.ReadFile(filepath.Join(m.root, "docs", "limits.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, row := range limitRows(string(text)) {
		rows++
		if fault := m.limitFault(row); fault != "" {
			t.Errorf("%s: %s", row.what, fault)
		}
	}
	if rows < 40 {
		t.Errorf("only %d rows were read", rows)
	}
	t.Run("the rule bites", func(t *testing.T) {
		for _, bad := range []string{
			"| x | 65,537 bytes | `decision.MaxChange` |", "| x | 31 d | `undo.DefaultKeep` |", "| x | 1 | `undo.NoSuch` |",
			"| x | 100, at most 1,000 | `op.ListArgs.PageSize` |", "| x | 200, at most 2,000 | `op.ListArgs.PageSize` |",
		} {
			if row := limitRows(bad); len(row) != 1 || m.limitFault(row[0]) == "" {
				t.Errorf("%s: nothing is found", bad)
			}
		}
	})
}

type limitRow struct{ what, bound, source string }

var limitLine = regexp.MustCompile("(?m)^\\| (.+) \\| (.+) \\| `([a-z/]+\\.[A-Za-z.]+)` \\|$")

func limitRows(text string) (rows []limitRow) {
	for _, m := range limitLine.FindAllStringSubmatch(text, -1) {
		rows = append(rows, limitRow{m[1], m[2], m[3]})
	}
	return rows
}

func (m *module) limitFault(row limitRow) string {
	dir, name, _ := strings.Cut(row.source, ".")
	if typ, field, ok := strings.Cut(name, "."); ok {
		return m.tagFault(dir, typ, field, row.bound)
	}
	v, err := m.constant(dir, name)
	if err != nil {
		return err.Error()
	}
	want, err := amount(row.bound)
	if err != nil {
		return err.Error()
	}
	if got, _ := constant.Int64Val(constant.ToInt(v)); got != want {
		return fmt.Sprintf("the page says %s, %s is %d", row.bound, row.source, got)
	}
	return ""
}

// tagFault compares "200, at most 1,000" with the tags of an argument.
func (m *module) tagFault(dir, typ, field, bound string) string {
	usual, most, _ := strings.Cut(bound, ", at most ")
	for _, s := range m.files {
		if s.dir != dir || s.test {
			continue
		}
		for _, d := range s.file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, spec := range g.Specs {
				ts := spec.(*ast.TypeSpec)
				st, ok := ts.Type.(*ast.StructType)
				if !ok || ts.Name.Name != typ {
					continue
				}
				for _, f := range st.Fields.List {
					if len(f.Names) != 1 || f.Names[0].Name != field {
						continue
					}
					tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
					if n, err := amount(most); err != nil || tag.Get("max") != strconv.FormatInt(n, 10) {
						return "the page says at most " + most + ", the argument takes " + tag.Get("max")
					}
					if !strings.Contains(tag.Get("doc"), usual+" when absent") {
						return "the page says " + usual + ", the argument says " + tag.Get("doc")
					}
					return ""
				}
			}
		}
	}
	return "there is no " + dir + "." + typ + "." + field
}

// constant works out a constant of the module from its text.
func (m *module) constant(dir, name string) (constant.Value, error) {
	for _, s := range m.files {
		if s.dir != dir && filepath.Base(s.dir) != dir || s.test || strings.HasSuffix(s.path, "_other.go") {
			continue
		}
		for _, d := range s.file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				for i, n := range v.Names {
					if n.Name == name && i < len(v.Values) {
						return m.value(s.dir, v.Values[i])
					}
				}
			}
		}
	}
	return nil, fmt.Errorf("there is no constant %s.%s", dir, name)
}

var timeUnits = map[string]time.Duration{"Nanosecond": 1, "Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}

func (m *module) value(dir string, e ast.Expr) (constant.Value, error) {
	switch e := e.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(e.Value, e.Kind, 0), nil
	case *ast.ParenExpr:
		return m.value(dir, e.X)
	case *ast.Ident:
		return m.constant(dir, e.Name)
	case *ast.SelectorExpr:
		x, _ := e.X.(*ast.Ident)
		if x == nil {
			break
		}
		if x.Name == "time" {
			return constant.MakeInt64(int64(timeUnits[e.Sel.Name])), nil
		}
		return m.constant(x.Name, e.Sel.Name)
	case *ast.BinaryExpr:
		a, err := m.value(dir, e.X)
		if err != nil {
			return nil, err
		}
		b, err := m.value(dir, e.Y)
		if err != nil {
			return nil, err
		}
		if e.Op == token.SHL {
			n, _ := constant.Uint64Val(constant.ToInt(b))
			return constant.Shift(constant.ToInt(a), token.SHL, uint(n)), nil
		}
		return constant.BinaryOp(a, e.Op, b), nil
	}
	return nil, fmt.Errorf("cannot work out %T", e)
}

var units = map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "ms": int64(time.Millisecond), "s": int64(time.Second),
	"min": int64(time.Minute), "h": int64(time.Hour), "d": 24 * int64(time.Hour)}

// amount reads "64 KiB", "30 d" or "20,000 cards".
func amount(s string) (int64, error) {
	number, unit, _ := strings.Cut(s, " ")
	n, err := strconv.ParseInt(strings.ReplaceAll(number, ",", ""), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no amount", s)
	}
	if u := units[unit]; u > 0 {
		n *= u
	}
	return n, nil
}
