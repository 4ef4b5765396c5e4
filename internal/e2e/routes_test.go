package e2e

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// route is one route of the bridge as its source says it: the role that it asks for, "any"
// where the handler scopes what it shows, "" where it takes no token.
type route struct{ method, path, role string }

// routeTable reads the routes out of the bridge, so that one that joins later is tried
// from its first day.
func routeTable(t *testing.T) []route {
	t.Helper()
	files := token.NewFileSet()
	pkgs, err := parser.ParseDir(files, "../../bridge", func(i os.FileInfo) bool { return !strings.HasSuffix(i.Name(), "_test.go") }, 0)
	if err != nil {
		t.Fatal(err)
	}
	var list []route
	loops := 0
	for _, pkg := range pkgs {
		ast.Inspect(pkg, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "HandleFunc" && sel.Sel.Name != "Handle" {
				return true
			}
			lit, ok := call.Args[0].(*ast.BasicLit)
			if !ok {
				loops++
				return true
			}
			pattern, _ := strconv.Unquote(lit.Value)
			method, path, found := strings.Cut(pattern, " ")
			if !found {
				method, path = "POST", pattern
			}
			r := route{method: method, path: path}
			if inner, ok := call.Args[1].(*ast.CallExpr); ok {
				switch s, _ := inner.Fun.(*ast.SelectorExpr); {
				case s != nil && s.Sel.Name == "anyRole":
					r.role = "any"
				case s != nil && s.Sel.Name == "role":
					r.role = strings.ToLower(inner.Args[0].(*ast.SelectorExpr).Sel.Name)
				default:
					t.Errorf("%s: a route that asks for its caller in no known way", pattern)
				}
			}
			list = append(list, r)
			return true
		})
	}
	if loops > 1 || len(list) < 40 {
		t.Fatalf("%d routes, and %d that are not written out", len(list), loops)
	}
	return list
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	second := filepath.Join(filepath.Dir(root), "second")
	write(t, filepath.Join(root, "f"), "one\n")
	write(t, filepath.Join(second, "f"), "two\n")
	d := quickOn(t, root, state, "[profiles.hidden]\nrequire_approval = false\n", nil, "--root", "two="+second)
	owner := d.token(M{"name": "owner-canary", "role": "agent", "root": "ws"})
	stranger := d.token(M{"name": "stranger", "role": "agent", "root": "ws"})
	elsewhere := map[string]string{}
	for _, role := range []string{"agent", "observer", "reviewer"} {
		elsewhere[role] = d.token(M{"name": "at-two-" + role, "role": role, "root": "two"})
	}
	_, held := d.send(owner, M{"op": "delete_file", "args": M{"path": "f"}, "intent": "INTENT-CANARY"})
	must(t, held, "review")
	_, done := d.send(owner, M{"op": "write_file", "args": M{"path": "made-CANARY", "content": "x"}})
	must(t, done, "done")
	_, rule := d.http("PUT", "/v1/rules", d.reviewer(), M{"agent": "owner-canary", "scope": "project", "root": "ws", "paths": []string{"PATH-CANARY"}})
	ids := map[string]string{"approvals": idOf(held), "operations": text(done, "operation_id"), "runs": idOf(held), "rules": text(rule, "id"), "mode": text(rule, "id"), "tokens": "tk_none", "reviewers": "rv_none", "roots": "ws", "profiles": "hidden"}
	canaries := []string{"CANARY", "owner-canary", idOf(held), text(done, "operation_id"), text(rule, "id"), root, "hidden"}
	before := digest(t, root)
	fill := func(r route, id string) string {
		kind := strings.Split(strings.Trim(r.path, "/"), "/")
		if id == "" && len(kind) > 1 {
			id = ids[kind[1]]
		}
		return strings.NewReplacer("{id}", id, "{name}", id, "{$}", "").Replace(r.path)
	}
	body := func(r route) any {
		if r.method == "GET" {
			return nil
		}
		return M{}
	}
	unchanged := func(t *testing.T) {
		t.Helper()
		if d.row(idOf(held))["state"] != "pending" || digest(t, root) != before {
			t.Fatal("something was answered or done")
		}
	}
	table := routeTable(t)
	open := map[string]bool{"GET /healthz": true, "GET /readyz": true, "GET /openapi.json": true, "POST /v1/login": true, "GET /v1/login": true, "GET /v1/login/provider": true, "GET /v1/login/provider/done": true, "POST /v1/login/provider/claim": true, "POST /v1/pair/claim": true, "GET /{$}": true, "GET /page/": true}
	t.Run("U48 (part) without a token only the named routes answer, and with data none", func(t *testing.T) {
		for _, r := range table {
			name := r.method + " " + r.path
			if (r.role == "") != open[name] {
				t.Errorf("%s: takes no token: %v", name, r.role == "")
			}
			if r.role == "" {
				continue
			}
			if status, out := d.http(r.method, fill(r, ""), "", body(r)); status != 401 {
				t.Errorf("%s: got %d %v", name, status, out)
			}
		}
	})
	t.Run("C75, C129, I42 (part) an agent is refused on every reviewer's and operator's route", func(t *testing.T) {
		n := 0
		for _, r := range table {
			if r.role != "observer" && r.role != "reviewer" && r.role != "operator" {
				continue
			}
			n++
			if status, out := d.http(r.method, fill(r, ""), stranger, body(r)); status != 403 || code(out) != "forbidden" {
				t.Errorf("%s %s: got %d %v", r.method, r.path, status, out)
			}
		}
		if n < 20 {
			t.Fatalf("only %d routes", n)
		}
		unchanged(t)
	})
	t.Run("I104, U42 (part) on every other route an agent finds nothing of another agent", func(t *testing.T) {
		for _, r := range table {
			if r.role != "any" && r.role != "agent" || r.path == "/v1/events" || strings.HasSuffix(r.path, "mcp") || r.path == "/" {
				continue // the stream of events has its own test, MCP the next one
			}
			status, out := d.http(r.method, fill(r, ""), stranger, body(r))
			said := fmt.Sprint(out)
			for _, c := range canaries {
				if c != root && strings.Contains(said, c) { // its own root it may know
					t.Errorf("%s %s: %d tells %q: %s", r.method, r.path, status, c, said)
				}
			}
			if strings.Contains(r.path, "{id}") {
				s2, none := d.http(r.method, fill(r, "ap_aaaaaaaaaaaaaaaaaaaaaaaaaa"), stranger, body(r))
				if status != s2 || !reflect.DeepEqual(out, none) || status < 400 {
					t.Errorf("%s %s: got %d %v for a row of another, %d %v for none", r.method, r.path, status, out, s2, none)
				}
			}
		}
		unchanged(t)
	})
	t.Run("U41, U42 ids of another root look absent to every role that is bound to one", func(t *testing.T) {
		for role, secret := range elsewhere {
			for _, r := range table {
				if r.path == "/v1/events" || strings.HasSuffix(r.path, "mcp") || r.role == "" || r.path == "/" {
					continue
				}
				status, out := d.http(r.method, fill(r, ""), secret, body(r))
				said := fmt.Sprint(out)
				for _, c := range canaries {
					if strings.Contains(said, c) {
						t.Errorf("%s: %s %s: %d tells %q: %s", role, r.method, r.path, status, c, said)
					}
				}
				if strings.Contains(r.path, "{id}") {
					s2, none := d.http(r.method, fill(r, "ap_aaaaaaaaaaaaaaaaaaaaaaaaaa"), secret, body(r))
					if status != s2 || !reflect.DeepEqual(out, none) || status < 400 {
						t.Errorf("%s: %s %s: got %d %v for an id of another root, %d %v for none", role, r.method, r.path, status, out, s2, none)
					}
				}
			}
		}
		unchanged(t)
		if status, out := d.http("PUT", "/v1/rules", elsewhere["reviewer"], M{"agent": "stranger", "scope": "project", "root": "ws"}); status != 404 {
			t.Errorf("a rule for another root: %d %v", status, out)
		}
		if status, out := d.http("PUT", "/v1/mode", elsewhere["reviewer"], M{"agent": "stranger", "mode": "deny"}); status != 200 || text(out, "root") == "" {
			t.Errorf("a mode for all roots: %d %v", status, out)
		}
	})
	t.Run("C75 (part) no tool of MCP answers, remembers, grants, switches mode or profile; a row of another agent is none", func(t *testing.T) {
		for role, secret := range map[string]string{"observer": elsewhere["observer"], "reviewer": elsewhere["reviewer"], "operator": d.reviewer()} {
			if status, _ := d.http("POST", "/mcp", secret, M{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}); status != 403 {
				t.Errorf("%s: got %d", role, status)
			}
		}
		asStranger := *d
		asStranger.env = append(asStranger.env, "HOLDPOINT_TOKEN="+stranger)
		c := asStranger.stdio("2025-11-25", nil)
		list, err := c.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range list.Tools {
			for _, word := range []string{"approve", "answer", "grant", "remember", "mode", "token", "policy", "rules"} {
				if strings.Contains(tool.Name, word) && tool.Name != "approval_status" {
					t.Errorf("there is a tool %s", tool.Name)
				}
			}
		}
		for _, tool := range []string{"approval_status", "approval_wait", "approval_cancel"} {
			mine, none := c.call(tool, M{"approval_id": idOf(held)}), c.call(tool, M{"approval_id": "ap_aaaaaaaaaaaaaaaaaaaaaaaaaa"})
			if !mine.IsError || text(mine.Facts, "error", "code") != "not_found" || !reflect.DeepEqual(mine.Facts, none.Facts) {
				t.Errorf("%s: %v and %v", tool, mine.Facts, none.Facts)
			}
		}
		unchanged(t)
	})
}

// agentCommands is what each command of the line may give an agent's token: "own" what is
// its own, "refused", or "local" for what asks no daemon for anything of others.
var agentCommands = map[string]string{
	"audit tail": "refused", "audit head": "refused", "audit verify": "refused", "mode set": "refused deny --agent owner-canary", "mode show": "refused",
	"rules list": "refused", "rules grant": "refused --scope project --agent owner-canary --root ws", "rules revoke": "refused RULE",
	"profile list": "refused", "profile show": "refused hidden", "profile set": "refused x", "profile remove": "refused hidden", "profile use": "refused hidden --agent stranger",
	"token create": "refused --role operator --name x", "pair": "refused", "token list": "refused", "token revoke": "refused tk_none", "root add": "refused /tmp", "root remove": "refused ws",
	"review approve": "refused HELD", "review reject": "refused HELD", "review show": "refused HELD", "review list": "own", "reviewer list": "refused", "reviewer add": "refused --name ada --account ada@example.org", "reviewer revoke": "refused ada", "watch": "own --once", "forget": "refused OP", "verify": "refused", "replay": "refused",
	"export": "refused OP DIR", "show": "refused OP", "undo": "refused OP", "log": "own", "sessions": "own", "status": "own", "root list": "own", "diff": "own",
}

func TestAgentOnTheLine(t *testing.T) {
	t.Parallel()
	d := quick(t, "[profiles.hidden]\nrequire_approval = false\n")
	write(t, filepath.Join(d.Root, "f"), "one\n")
	owner, stranger := d.token(M{"name": "owner-canary", "role": "agent"}), d.token(M{"name": "stranger", "role": "agent"})
	_, held := d.send(owner, M{"op": "delete_file", "args": M{"path": "f"}})
	_, done := d.send(owner, M{"op": "write_file", "args": M{"path": "made-CANARY", "content": "x"}})
	_, rule := d.http("PUT", "/v1/rules", d.reviewer(), M{"agent": "owner-canary", "scope": "project", "root": "ws"})
	before := digest(t, d.Root)
	// Where nothing but the token is: no state, no passphrase.
	env := []string{"HOLDPOINT_SOCKET=" + d.Socket, "HOLDPOINT_TOKEN=" + stranger, "HOME=" + shortDir(t)}
	fill := strings.NewReplacer("HELD", idOf(held), "OP", text(done, "operation_id"), "RULE", text(rule, "id"), "DIR", filepath.Join(shortDir(t), "out"))
	for name, say := range agentCommands {
		t.Run("C75, I42 (part) holdpoint "+name+" as an agent", func(t *testing.T) {
			want, args, _ := strings.Cut(say, " ")
			rc, out, errs := outside(t, env, strings.Fields(name+" "+fill.Replace(args))...)
			if want == "refused" && rc == 0 || want == "own" && rc != 0 || rc == 2 {
				t.Errorf("exit %d %s %s", rc, out, errs)
			}
			for _, c := range []string{"CANARY", "owner-canary", "hidden"} {
				if strings.Contains(out, c) {
					t.Errorf("it tells %s: %s", c, out)
				}
			}
		})
	}
	if d.row(idOf(held))["state"] != "pending" || digest(t, d.Root) != before {
		t.Fatal("something was answered or done")
	}
	t.Run("each command is either in that table or asks for nothing of others", func(t *testing.T) {
		local := " attach call clean completion config doctor gc help init mcp notify policy preflight protect repair runs serve support-bundle version hub "
		for _, name := range commandNames(t, env) {
			group, _, _ := strings.Cut(name, " ")
			if agentCommands[name] == "" && name != "review watch" && name != "review keygen" && name != "reviewer" && !strings.Contains(local, " "+group+" ") {
				t.Errorf("holdpoint %s: say what an agent's token gets of it", name)
			}
		}
	})
}

// commandNames walks the help texts.
func commandNames(t *testing.T, env []string, at ...string) []string {
	t.Helper()
	_, out, _ := outside(t, env, append(append([]string{}, at...), "--help")...)
	_, list, _ := strings.Cut(out, "Available Commands:\n")
	var names []string
	for _, l := range strings.Split(list, "\n") {
		if !strings.HasPrefix(l, "  ") || strings.HasPrefix(l, "   ") {
			break
		}
		name := strings.Fields(l)[0]
		if len(at) == 0 && strings.Contains(" audit mode rules profile token root review ", " "+name+" ") {
			for _, sub := range commandNames(t, env, name) {
				names = append(names, name+" "+sub)
			}
			continue
		}
		names = append(names, name)
	}
	return names
}
