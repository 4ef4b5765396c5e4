package house

import (
	"fmt"
	"go/ast"
	"sort"
	"strings"
	"testing"
)

// floors is the table of section 2 of the design. A package imports only from lower
// floors. Those that do not exist yet do no harm here.
var floors = map[string]int{
	"op":               0,
	"internal/rooted":  1,
	"internal/journal": 1,
	"preflight":        2,
	"fileops":          2,
	"shellexec":        2,
	"undo":             2,
	"decision":         2,
	"review":           2,
	"trusted":          2,
	"protected":        2,
	"audit":            2,
	"bridge":           2,
	"bridge/mcp":       2,
	"bridge/page":      2,
	"bridge/notify":    2,
	"bridge/nats":      2,
	"bridge/oidc":      2,
	"bridge/client":    2,
	"internal/gitread": 2, // beside fileops, which knows no repository; go-git stays behind it
	"bridge/hub":       3, // serves routes of bridge from what bridge/nats gathers
	"internal/flow":    3,
	"cmd/holdpoint":    4,
}

// tools stand outside the house: they build nothing that ships.
var tools = []string{"internal/house", "internal/requirements", "internal/e2e", "internal/reach", "internal/release", "internal/safety", "internal/softkey", "internal/apart", "internal/ports", "bench"}

// may says who may import a package of the standard library or of others, and why so few.
var may = []struct {
	what   string   // the package and all below it
	except []string // harmless ones below it
	who    []string
	why    string
}{
	{"os", []string{"os/signal"}, []string{"internal/rooted", "internal/journal", "audit", "trusted", "shellexec", "bridge", "bridge/nats", "cmd/holdpoint"},
		"workspace files are touched by internal/rooted alone, state by internal/journal alone; the others named have one file of their own each (the log, the policy, a socket)"},
	{"os/exec", nil, []string{"shellexec", "cmd/holdpoint"},
		"a process starts only through the one package that confines it"},
	{"syscall", nil, []string{"internal/rooted", "internal/journal", "audit", "trusted", "shellexec", "bridge", "cmd/holdpoint"},
		"system calls are a way round the packages that may touch files"},
	{"golang.org/x/sys", nil, []string{"internal/rooted", "internal/journal", "audit", "trusted", "shellexec", "bridge", "cmd/holdpoint"},
		"system calls are a way round the packages that may touch files"},
	{"net", []string{"net/url", "net/netip", "net/textproto"}, []string{"bridge", "bridge/mcp", "bridge/page", "bridge/notify", "bridge/nats", "bridge/hub", "bridge/oidc", "bridge/client", "cmd/holdpoint"},
		"who listens and who is called is the bridge's to know; nothing else may reach out"},
	{"log", nil, []string{"bridge", "cmd/holdpoint"},
		"an error is returned or handled, not logged as well; and what is not logged cannot leak"},
	{"unsafe", nil, []string{"internal/rooted", "shellexec"},
		"only the packages that make raw system calls have a reason"},
	{"C", nil, nil,
		"the binary is built without a C compiler"},
	{"database/sql", nil, []string{"internal/journal"},
		"the state store has one pair of hands"},
	{"modernc.org/sqlite", nil, []string{"internal/journal"},
		"the state store has one pair of hands"},
	{"text/template", nil, nil, manyMethods},
	{"html/template", nil, nil, manyMethods},
	{"plugin", nil, nil,
		"nothing is loaded at run time"},
}

// manyMethods: a template may call any method by its name, so that the linker keeps all of
// all types, those of every dependency among them: a seventh of the binary.
const manyMethods = "a template keeps every method of every dependency in the binary; a replacement of words does here"

// never lists what one package must not import at all.
var never = map[string][]string{
	"decision": {"os", "net", "time", "io/fs", "io/ioutil", "context", "sync", "math/rand", "crypto/rand", "runtime", "log", "syscall", "unsafe", "testing"},
	"op":       {"os", "net", "io/fs", "io/ioutil", "context", "math/rand", "crypto/rand", "runtime", "log", "syscall", "unsafe", "testing"},
}

func (m *module) floorFaults() (faults []string) {
	bad := func(s source, format string, args ...any) {
		faults = append(faults, s.path+" "+fmt.Sprintf(format, args...))
	}
	for _, s := range m.files {
		if outside(s.dir) {
			continue
		}
		floor, known := floors[s.dir]
		if !known {
			bad(s, "belongs to no floor: every package has its place in section 2 of the design and in this table, else nobody knows what it may use")
			continue
		}
		if s.test {
			continue // a test may bring in whatever it tests against
		}
		for p := range s.imports() {
			if !below(p, m.name) {
				continue
			}
			target := strings.TrimPrefix(p, m.name+"/")
			switch other, known := floors[target]; {
			case !known:
				bad(s, "imports %s, which is no part of the house", p)
			case other > floor:
				bad(s, "imports %s from a floor above: what is below must not know who uses it, else a stage can call back up", p)
			case other == floor:
				bad(s, "imports %s of its own floor: stages know values, not each other; only internal/flow knows the order (declare a one-method interface where the answer is needed)", p)
			}
		}
	}
	return faults
}

func (m *module) importFaults() (faults []string) {
	for _, s := range m.files {
		if s.test || outside(s.dir) {
			continue
		}
		for p := range s.imports() {
			for _, rule := range may {
				if !below(p, rule.what) || oneOf(p, rule.except) || oneOf(s.dir, rule.who) {
					continue
				}
				if only := pure[s.dir+" "+p]; only != nil && s.usesOnly(p, only) {
					continue
				}
				who := strings.Join(rule.who, ", ")
				if who == "" {
					who = "nobody"
				}
				faults = append(faults, fmt.Sprintf("%s imports %s, which only %s may: %s", s.path, p, who, rule.why))
			}
			for _, n := range never[s.dir] {
				if below(p, n) {
					faults = append(faults, fmt.Sprintf("%s imports %s: %s is pure, so that the same call always gives the same answer", s.path, p, s.dir))
				}
			}
			if s.dir == "op" && !std(p) {
				faults = append(faults, fmt.Sprintf("%s imports %s: op is the ground floor and stands on the standard library alone", s.path, p))
			}
		}
	}
	return faults
}

// pure lists functions without any effect that live in a package which is barred otherwise.
var pure = map[string][]string{
	"fileops net/http": {"DetectContentType"}, // tells the kind of some bytes
}

// usesOnly reports whether a file takes nothing but names from pkg.
func (s source) usesOnly(pkg string, names []string) bool {
	local, ok := s.imports()[pkg], true
	ast.Inspect(s.file, func(n ast.Node) bool {
		if sel, is := n.(*ast.SelectorExpr); is {
			if id, is := sel.X.(*ast.Ident); is && id.Name == local && !oneOf(sel.Sel.Name, names) {
				ok = false
			}
		}
		return ok
	})
	return ok && local != "." && local != "_"
}

func outside(dir string) bool {
	for _, t := range tools {
		if below(dir, t) {
			return true
		}
	}
	return false
}

// report fails with every fault, each on its line.
func report(t *testing.T, faults []string) {
	t.Helper()
	sort.Strings(faults)
	for _, f := range faults {
		t.Error(f)
	}
}

func TestFloors(t *testing.T) {
	m := load(t)
	t.Run("X2 imports go down only, and no stage knows another", func(t *testing.T) {
		report(t, m.floorFaults())
	})
	t.Run("each package imports only what it may", func(t *testing.T) {
		report(t, m.importFaults())
	})
	t.Run("C13 (part) the judgement reads no clock, no file, no network and no chance", func(t *testing.T) {
		for _, s := range m.files {
			if s.dir == "decision" && !s.test {
				for p := range s.imports() {
					for _, n := range never["decision"] {
						if below(p, n) {
							t.Errorf("%s imports %s", s.path, p)
						}
					}
				}
			}
		}
	})
}

func TestFloorRulesBite(t *testing.T) {
	for _, c := range []struct{ path, text, want string }{
		{"decision/x.go", `import "holdpoint/review"`, "of its own floor"},
		{"internal/rooted/x.go", `import p "holdpoint/preflight"`, "from a floor above"},
		{"op/x.go", `import "holdpoint/decision"`, "from a floor above"},
		{"fileops/x.go", `import _ "holdpoint/internal/requirements"`, "no part of the house"},
		{"helpers/x.go", ``, "belongs to no floor"},
	} {
		m := empty()
		m.add(t, c.path, []byte("package x\n"+c.text+"\n"))
		expect(t, c.path+" "+c.text, m.floorFaults(), c.want)
	}
	for _, c := range []struct{ path, text, want string }{
		{"decision/x.go", `import "time"`, "is pure"},
		{"op/x.go", `import "github.com/zeebo/blake3"`, "ground floor"},
		{"fileops/x.go", `import "os"`, "internal/rooted alone"},
		{"fileops/x.go", `import "golang.org/x/sys/unix"`, "way round"},
		{"review/x.go", `import "os/exec"`, "confines it"},
		{"undo/x.go", `import "net/http"`, "reach out"},
		{"fileops/x.go", `import "net/http"; var c = http.Client{}`, "reach out"},
		{"undo/x.go", `import "log/slog"`, "leak"},
		{"bridge/x.go", `import "unsafe"`, "raw system calls"},
	} {
		m := empty()
		m.add(t, c.path, []byte("package x\n"+c.text+"\n"))
		expect(t, c.path+" "+c.text, m.importFaults(), c.want)
	}
	for _, fine := range []struct{ path, text string }{
		{"internal/flow/x.go", `import ("holdpoint/decision"; "holdpoint/review"; "holdpoint/op"; "net/url")`},
		{"fileops/x.go", `import "net/http"; var k = http.DetectContentType(nil)`},
		{"decision/x_test.go", `import ("os"; "time"; "holdpoint/review")`},
		{"bridge/x.go", `import ("net/http"; "os"; "log/slog"; "os/signal")`},
		{"cmd/holdpoint/x.go", `import ("holdpoint/internal/flow"; "holdpoint/audit")`},
	} {
		m := empty()
		m.add(t, fine.path, []byte("package x\n"+fine.text+"\n"))
		if f := append(m.floorFaults(), m.importFaults()...); len(f) > 0 {
			t.Errorf("%s %s: %v", fine.path, fine.text, f)
		}
	}
}
