package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zeebo/blake3"

	"holdpoint/internal/ports"
	"holdpoint/op"
)

// quick starts a daemon whose operator token lies on disk, which spares the slow hash of a
// passphrase. conf is the text of its configuration, empty for none.
func quick(t testing.TB, conf string, args ...string) *daemon {
	t.Helper()
	root, state := dirs(t)
	return quickOn(t, root, state, conf, nil, args...)
}

func quickOn(t testing.TB, root, state, conf string, env []string, args ...string) *daemon {
	t.Helper()
	if conf != "" {
		file := filepath.Join(filepath.Dir(state), "holdpoint.toml")
		write(t, file, conf)
		args = append(args, "--config", file)
	}
	d := startOn(t, root, state, env, append(args, "--review-auth", "token")...)
	d.operator()
	return d
}

// operator takes the operator's token from the state directory.
func (d *daemon) operator() {
	d.reviewerToken = strings.TrimSpace(read(d.t, filepath.Join(d.State, "tokens", "operator")))
}

// under starts a daemon beneath another program, such as unshare with its arguments. The
// base directory, which all users may enter, holds ws and state.
func under(t testing.TB, wrap ...string) *daemon {
	t.Helper()
	root, state := dirs(t)
	return underOn(t, root, state, wrap...)
}

func underOn(t testing.TB, root, state string, wrap ...string) *daemon {
	t.Helper()
	d := &daemon{t: t, Root: root, State: state, Socket: filepath.Join(state, "holdpoint.sock"), args: []string{"--review-auth", "token"}}
	d.run(wrap...)
	d.operator()
	t.Cleanup(func() { d.stop(syscall.SIGTERM) })
	return d
}

// refuses starts a daemon that must not get up, and gives its exit code and words.
func refuses(t testing.TB, root, state string, env []string, args ...string) (int, string) {
	t.Helper()
	d := &daemon{t: t, Root: root, State: state, Socket: filepath.Join(state, "holdpoint.sock"), env: env}
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append([]string{"serve", "--root", root}, args...)...)
	cmd.Env = d.environ()
	out, err := cmd.CombinedOutput()
	if err == nil || ctx.Err() != nil {
		t.Fatalf("the daemon started or hung: %s", out)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// send posts one whole request with a token.
func (d *daemon) send(token string, req M) (int, M) {
	d.t.Helper()
	return d.http("POST", "/v1/call", token, req)
}

// preflight looks at a call as the agent.
func (d *daemon) preflight(op string, args M) M {
	d.t.Helper()
	_, out := d.http("POST", "/v1/preflight", d.Agent, M{"op": op, "args": args})
	return out
}

// token makes a token as the operator and gives its secret.
func (d *daemon) token(spec M) string {
	d.t.Helper()
	_, out := d.http("POST", "/v1/tokens", d.reviewer(), spec)
	secret := text(out, "token")
	if secret == "" {
		d.t.Fatalf("token %v: %v", spec, out)
	}
	return secret
}

// cards lists the queue in one state; all states when it is empty.
func (d *daemon) cards(state string) []M {
	d.t.Helper()
	_, out := d.http("GET", "/v1/approvals?state="+state, d.reviewer(), nil)
	return objects(out["approvals"])
}

// row shows one row as the reviewer: state, note, reply and card.
func (d *daemon) row(id string) M {
	d.t.Helper()
	_, out := d.http("GET", "/v1/approvals/"+id, d.reviewer(), nil)
	return out
}

func (d *daemon) card(held M) M {
	d.t.Helper()
	return object(d.row(text(held, "approval", "id"))["card"])
}

// cancel withdraws a held call as the agent.
func (d *daemon) cancel(held M) {
	d.t.Helper()
	if code, out := d.http("POST", "/v1/approvals/"+text(held, "approval", "id")+"/cancel", d.Agent, M{}); code != 200 {
		d.t.Fatalf("cancel: %d %v", code, out)
	}
}

// records gives the audit, oldest first.
func (d *daemon) records() []M {
	d.t.Helper()
	_, out := d.http("GET", "/v1/audit?n=10000", d.reviewer(), nil)
	return objects(out["records"])
}

// last gives the newest audit record.
func (d *daemon) last() M {
	d.t.Helper()
	all := d.records()
	return all[len(all)-1]
}

// operations lists the log as the agent, newest first.
func (d *daemon) operations() []M {
	d.t.Helper()
	_, out := d.http("GET", "/v1/operations?limit=1000", d.Agent, nil)
	return objects(out["operations"])
}

func object(v any) M { m, _ := v.(map[string]any); return m }

func objects(v any) []M {
	list, _ := v.([]any)
	out := make([]M, len(list))
	for i := range list {
		out[i] = object(list[i])
	}
	return out
}

func words(v any) []string {
	list, _ := v.([]any)
	out := make([]string, len(list))
	for i := range list {
		out[i], _ = list[i].(string)
	}
	return out
}

func number(v any) int64 { f, _ := v.(float64); return int64(f) }

// fails wants a reply of one code, and HTTP status when not 0, that says nothing was done.
func fails(t testing.TB, status int, r M, wantStatus int, want string) {
	t.Helper()
	if code(r) != want || wantStatus != 0 && status != wantStatus {
		t.Fatalf("got %d %v, want %d %s", status, r["error"], wantStatus, want)
	}
	if r["effects_executed"] == true || r["undo_credential"] != nil || r["approval"] != nil {
		t.Fatalf("%s, and yet: %v", want, r)
	}
}

// raw sends bytes as they are on the socket and gives the whole answer.
func (d *daemon) raw(request string) string {
	d.t.Helper()
	c, err := net.Dial("unix", d.Socket)
	if err != nil {
		d.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	go io.WriteString(c, request)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err.Error()
	}
	defer r.Body.Close()
	body, _ := io.ReadAll(r.Body)
	return fmt.Sprintf("%d %s", r.StatusCode, body)
}

func (d *daemon) rss() int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		d.t.Fatal(err)
	}
	for _, l := range strings.Split(string(b), "\n") {
		if f := strings.Fields(l); len(f) > 1 && f[0] == "VmRSS:" {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n << 10
		}
	}
	return 0
}

func TestStrictJSON(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	write(t, filepath.Join(d.Root, "f"), "x\n")
	before := digest(t, d.Root)
	deep := strings.Repeat(`{"a":`, 80) + "1" + strings.Repeat("}", 80)
	for _, c := range []struct{ name, body, field string }{
		{"S73 two spellings of op", `{"op":"view_file","OP":"delete_file","args":{"path":"f"}}`, "OP"},
		{"S73 a letter that folds", `{"op":"view_file","args":{"path":"f","path` + "\u017f" + `":["f"]}}`, "args.path\u017f"},
		{"S73 capital argument", `{"op":"view_file","args":{"Path":"f"}}`, "args.Path"},
		{"S73 a key twice", `{"op":"view_file","op":"delete_file","args":{"path":"f"}}`, "op"},
		{"S73 an argument twice", `{"op":"view_file","args":{"path":"f","path":"g"}}`, "args.path"},
		{"S73 an argument under two names", `{"op":"view_file","args":{"path":"f","file_path":"g"}}`, "args.path"},
		{"C34 unknown field", `{"op":"view_file","args":{"path":"f"},"verbose":true}`, "verbose"},
		{"C34 unknown argument", `{"op":"write_file","args":{"path":"f","content":"","alow_sensitive":true}}`, "args.alow_sensitive"},
		{"C27 (part) dry_run as text", `{"op":"delete_file","args":{"path":"f"},"dry_run":"true"}`, "dry_run"},
		{"C27 (part) dry_run as number", `{"op":"delete_file","args":{"path":"f"},"dry_run":1}`, "dry_run"},
		{"C27 (part) dry_run among the arguments", `{"op":"delete_file","args":{"path":"f","dry_run":true}}`, "args.dry_run"},
		{"no op", `{"args":{"path":"f"}}`, "op"},
		{"args is no object", `{"op":"view_file","args":"f"}`, "args"},
		{"a label with a slash", `{"op":"view_file","args":{"path":"f"},"session":"a/b"}`, "session"},
		{"a label too long", `{"op":"view_file","args":{"path":"f"},"request_id":"` + strings.Repeat("a", 65) + `"}`, "request_id"},
		{"I24 (part) a fraction", `{"op":"view_file","args":{"path":"f","start_line":1.0}}`, "args.start_line"},
		{"an exponent", `{"op":"view_file","args":{"path":"f","start_line":1e0}}`, "args.start_line"},
		{"over 2^53 - 1", `{"op":"view_file","args":{"path":"f","start_line":9007199254740992}}`, "args.start_line"},
		{"null for a text", `{"op":"view_file","args":{"path":null}}`, "args.path"},
		{"a missing argument", `{"op":"view_file","args":{}}`, "args.path"},
		{"below the least", `{"op":"view_file","args":{"path":"f","start_line":0}}`, "args.start_line"},
		{"trailing data", `{"op":"view_file","args":{"path":"f"}} {}`, ""},
		{"invalid UTF-8", `{"op":"view_file","args":{"path":"` + "\xff" + `"}}`, ""},
		{"a lone surrogate", `{"op":"view_file","args":{"path":"\ud800"}}`, "args.path"},
		{"a raw control character", "{\"op\":\"view_file\",\"args\":{\"path\":\"a\nb\"}}", "args.path"},
		{"an array", `[]`, ""}, {"nothing", ``, ""}, {"too deep", deep, ""}, {"a comment", `{/**/"op":"view_file"}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := len(d.records())
			status, r := d.http("POST", "/v1/call", d.Agent, c.body)
			fails(t, status, r, 400, "bad_request")
			if text(r, "error", "field") != c.field {
				t.Errorf("field: got %q, want %q (%s)", text(r, "error", "field"), c.field, text(r, "error", "message"))
			}
			if r["status"] != "failed" {
				t.Errorf("status %v, want failed", r["status"])
			}
			if all := d.records(); len(all) != n+1 || all[n]["outcome"] != "bad_request" {
				t.Errorf("audit: %d new records, last %v", len(all)-n, all[len(all)-1])
			}
			if status, r = d.http("POST", "/v1/preflight", d.Agent, c.body); status != 400 || code(r) != "bad_request" {
				t.Errorf("preflight: got %d %v", status, r["error"])
			}
		})
	}
	if digest(t, d.Root) != before || len(d.cards("")) != 0 {
		t.Fatal("a bad request changed or queued something")
	}
	t.Run("the same call in good form is taken", func(t *testing.T) {
		must(t, d.call("view_file", M{"path": "f", "start_line": 1}), "done")
	})
}

// TestHTTPStatus holds each kind of answer to its status line and the contract's fields.
func TestHTTPStatus(t *testing.T) {
	t.Parallel()
	d := quick(t, "[profiles.closed]\nallow_delete = false\n")
	write(t, filepath.Join(d.Root, "f"), "x\n")
	write(t, filepath.Join(d.Root, "dir", "g"), "y\n")
	closed := d.token(M{"name": "closed", "role": "agent", "profile": "closed"})
	for _, c := range []struct {
		name, token, op string
		args            M
		status          int
		word, code      string
	}{
		{"done", d.Agent, "view_file", M{"path": "f"}, 200, "done", ""},
		{"review", d.Agent, "delete_file", M{"path": "f"}, 202, "review", ""},
		{"bad_request", d.Agent, "view_file", M{}, 400, "failed", "bad_request"},
		{"C34 unknown_operation", d.Agent, "write_flie", M{"path": "f"}, 403, "refused", "unknown_operation"},
		{"I79 a capital name is another name", d.Agent, "Delete_File", M{"path": "f"}, 403, "refused", "unknown_operation"},
		{"I79 a space makes another name", d.Agent, "delete_file ", M{"path": "f"}, 403, "refused", "unknown_operation"},
		{"U1 a prefix is no way around", d.Agent, "workspace.delete_file", M{"path": "f"}, 403, "refused", "unknown_operation"},
		{"U1 another prefix", d.Agent, "mcp__holdpoint__delete_file", M{"path": "f"}, 403, "refused", "unknown_operation"},
		{"C32 operation_disabled", closed, "delete_file", M{"path": "f"}, 403, "refused", "operation_disabled"},
		{"outside_workspace", d.Agent, "view_file", M{"path": "../f"}, 403, "refused", "outside_workspace"},
		{"not_found", d.Agent, "view_file", M{"path": "nope"}, 404, "failed", "not_found"},
		{"stale_precondition", d.Agent, "edit_file", M{"path": "f", "old_string": "x", "new_string": "z", "expected_hash": hashOf("other")}, 409, "failed", "stale_precondition"},
		{"no_match", d.Agent, "edit_file", M{"path": "f", "old_string": "q", "new_string": "z"}, 422, "failed", "no_match"},
		{"exists", d.Agent, "write_file", M{"path": "f", "content": "", "overwrite": false}, 422, "failed", "exists"},
		{"not_a_file", d.Agent, "delete_file", M{"path": "dir"}, 422, "failed", "not_a_file"},
		{"invalid_path", d.Agent, "view_file", M{"path": "a\x00b"}, 422, "failed", "invalid_path"},
		{"unknown_root", d.Agent, "view_file", M{"path": "f"}, 404, "failed", "unknown_root"},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := M{"op": c.op, "args": c.args, "request_id": "r-" + strings.Map(func(r rune) rune {
				if r == ' ' {
					return '.'
				}
				return r
			}, c.name)}
			if c.code == "unknown_root" {
				req["root"] = "elsewhere"
			}
			status, r := d.send(c.token, req)
			if status != c.status || r["status"] != c.word || code(r) != c.code {
				t.Fatalf("got %d %v %v, want %d %s %s", status, r["status"], r["error"], c.status, c.word, c.code)
			}
			if r["request_id"] != req["request_id"] || r["op"] != c.op {
				t.Errorf("op or request_id is not echoed: %v", r)
			}
			if _, isList := r["effects"].([]any); !isList || r["effects_executed"] != false {
				t.Errorf("I65 (part): effects must be a list and effects_executed told: %v", r)
			}
			if c.code == "" {
				return
			}
			e := object(r["error"])
			if text(e, "message") == "" || text(e, "retry") == "" {
				t.Errorf("an error without a sentence or retry: %v", e)
			}
			if c.code != "not_a_file" && c.code != "unknown_root" && text(e, "hint") == "" && text(e, "field") == "" {
				t.Errorf("an error without a way on: %v", e)
			}
		})
	}
	t.Run("C144 every error says its kind, a sentence, the field or the path, whether and how to try again and what to do; one of form has a correct call", func(t *testing.T) {
		write(t, filepath.Join(d.Root, "j.json"), "{\"a\": 1}\n")
		formless := 0
		for _, req := range []M{
			{"op": "edit_file", "args": M{"path": "f", "old_string": "q", "new_string": "z"}}, {"op": "view_file", "args": M{}}, {"op": "view_file", "args": M{"path": "f", "x": 1}}, {"op": "edit_file", "args": M{"path": "f"}},
			{"op": "write_flie", "args": M{"path": "f"}}, {"op": "view_file", "args": M{"path": "../f"}}, {"op": "view_file", "args": M{"path": "nope"}}, {"op": "write_file", "args": M{"path": "f", "content": "", "overwrite": false}},
			{"op": "edit_file", "args": M{"path": "f", "old_string": "x", "new_string": "z", "expected_hash": hashOf("other")}}, {"op": "delete_file", "args": M{"path": "dir"}}, {"op": "view_file", "args": M{"path": "dir"}},
			{"op": "view_file", "args": M{"path": "a\x00b"}}, {"op": "view_file", "args": M{"path": "f"}, "root": "elsewhere"}, {"op": "edit_file", "args": M{"path": "f", "old_string": "", "new_string": "z"}},
			{"op": "patch_file", "args": M{"patch": "no patch"}}, {"op": "patch_file", "args": M{"patch": "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-other\n+new\n"}}, {"op": "patch_file", "args": M{"path": "j.json", "operations": []M{{"op": "set", "path": "/b/c", "value": 1}}}},
			{"op": "move_file", "args": M{"source": "dir", "destination": "dir/in"}}, {"op": "copy_file", "args": M{"source": "dir", "destination": "dir2"}}, {"op": "undo", "args": M{"operation_id": "op_none"}}, {"op": "batch_file_ops", "args": M{"operations": []M{}}},
			{"op": "batch_file_ops", "args": M{"operations": []M{{"op": "delete_file", "args": M{"path": "nope"}}}}}, {"op": "rollback_file", "args": M{"path": "f", "last": true}}, {"op": "create_directory", "args": M{"path": "f/x"}},
			{"op": "workspace_shell", "args": M{"command": "true", "env": M{"PATH": "/"}}}, {"op": "request_profile_switch", "args": M{"profile": "none"}}, {"op": "search_files", "args": M{"path": ".", "pattern": ""}}, {"op": "git_show", "args": M{"revision": "none"}},
		} {
			_, r := d.send(d.Agent, req)
			e := object(r["error"])
			if text(e, "code") == "" || text(e, "message") == "" || text(e, "field") == "" && text(e, "path") == "" || !slices.Contains([]string{"same", "corrected", "never"}, text(e, "retry")) || text(e, "hint") == "" {
				t.Errorf("%v: %v", req, e)
			}
			example, given := e["example"].(M)
			if form := slices.Contains([]string{"bad_request", "empty_pattern", "patch_parse", "pointer_error"}, text(e, "code")); form != given {
				t.Errorf("%v: an example: %v, %v", req, given, e)
			} else if form {
				formless++
				if _, good := d.send(d.Agent, merge(example, M{"dry_run": true})); code(good) == "bad_request" {
					t.Errorf("the example of %v: %v", req, good["error"])
				}
			}
		}
		if formless < 6 {
			t.Errorf("only %d errors of form", formless)
		}
	})
	t.Run("I65 (part) every reply says whether anything was done, and lists it", func(t *testing.T) {
		for _, req := range []M{{"op": "view_file", "args": M{"path": "f"}}, {"op": "delete_file", "args": M{"path": "f"}}, {"op": "delete_file", "args": M{"path": "f"}, "dry_run": true}, {"op": "nothing"}, {"op": "view_file", "args": M{}}} {
			_, r := d.send(d.Agent, req)
			if _, isList := r["effects"].([]any); !isList || r["effects_executed"] != false {
				t.Errorf("%v: got %v", req, r)
			}
		}
	})
	t.Run("fields of a reply and of a preflight are those of the contract", func(t *testing.T) {
		_, done := d.send(d.Agent, M{"op": "edit_file", "args": M{"path": "f", "old_string": "x", "new_string": "z"}})
		has(t, done, "status", "op", "operation_id", "decision", "result", "effects", "effects_executed", "undo_credential")
		has(t, object(done["decision"]), "verdict", "reason", "also", "tier", "mandatory", "target_bound", "one_shot", "trusted_policy_id", "grant_id", "pinned")
		has(t, objects(done["effects"])[0], "path", "change", "before", "after")
		has(t, object(objects(done["effects"])[0]["before"]), "state", "hash", "size", "mode")
		has(t, object(done["result"]), "diff", "replacements", "hash", "size")
		_, held := d.send(d.Agent, M{"op": "delete_file", "args": M{"path": "dir/g"}})
		has(t, object(held["approval"]), "id", "identity", "title", "expires_at")
		look := d.preflight("edit_file", M{"path": "f", "old_string": "z", "new_string": "x"})
		has(t, look, "decision", "facts", "preview", "pins")
		has(t, object(look["facts"]), "workspace_bound", "available", "planned", "change_bytes", "overwrites", "creates", "targets")
		has(t, objects(object(look["facts"])["targets"])[0], "path", "asked", "role", "exists", "kind", "size", "mode", "link_count", "hash", "text", "protected", "sensitive", "ignored")
	})
	t.Run("routes that are not there, and wrong methods, are 404 or 405 with a token", func(t *testing.T) {
		if status, r := d.http("GET", "/v1/nowhere", d.Agent, nil); status != 404 || code(r) != "not_found" {
			t.Errorf("got %d %v", status, r)
		}
		if status, _ := d.http("DELETE", "/v1/call", d.Agent, nil); status != 404 && status != 405 {
			t.Errorf("got %d", status)
		}
	})
	t.Run("I84, I9, I21, I7 the gate that each operation carries can be looked up; whatever destroys, or runs a program, asks for each call", func(t *testing.T) {
		_, table := d.http("GET", "/v1/table", d.Agent, nil)
		destroys := map[string]bool{"delete_file": true, "move_file": true, "rollback_file": true}
		for _, o := range objects(table["operations"]) {
			name, class := text(o, "op"), text(o, "class")
			switch class {
			case "read":
				if o["approval_per_call"] != false || o["tier"] != "T1" || o["undo_with"] != "" {
					t.Errorf("got %v", o)
				}
			case "destructive", "process":
				if o["approval_per_call"] != true || (class == "destructive") != destroys[name] || class == "destructive" && o["undo_with"] != "undo" {
					t.Errorf("got %v", o)
				}
			case "profile":
				if o["approval_per_call"] != true || o["undo_with"] != "" {
					t.Errorf("got %v", o)
				}
			case "adaptive", "batch", "undo":
				if o["undo_with"] != "undo" {
					t.Errorf("got %v", o)
				}
			default:
				t.Errorf("an operation of no known kind: %v", o)
			}
			spec, known := op.Lookup(op.Name(name))
			if !known || spec.Class.String() != class || string(spec.Tier) != o["tier"] || spec.Switch != o["switch"] || spec.Built != o["built"] {
				t.Errorf("%s: the route and the table differ: %v", name, o)
			}
		}
	})
	t.Run("C147 the daemon tells its version and what it can do", func(t *testing.T) {
		_, status := d.http("GET", "/v1/status", d.Agent, nil)
		_, table := d.http("GET", "/v1/table", d.Agent, nil)
		if text(status, "version") == "" || len(objects(table["operations"])) < 20 {
			t.Fatalf("got %v and %d operations", status, len(objects(table["operations"])))
		}
		for _, o := range objects(table["operations"]) {
			has(t, o, "op", "class", "tier", "switch", "built", "approval_per_call", "undo_with")
		}
	})
}

func has(t testing.TB, m M, keys ...string) {
	t.Helper()
	for _, k := range keys {
		if _, ok := m[k]; !ok {
			t.Errorf("no %q in %v", k, m)
		}
	}
}

// listening starts a daemon that also serves HTTP on loopback, and gives its address.
func listening(t testing.TB) (*daemon, string) {
	addr := ports.Addr(t)
	return quick(t, "", "--listen", addr), addr
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	d, addr := listening(t)
	write(t, filepath.Join(d.Root, "f"), "x\n")
	before := digest(t, d.Root)
	_, port, _ := net.SplitHostPort(addr)
	body := `{"op":"delete_file","args":{"path":"f"}}`
	post := func(header map[string]string, host string) (int, M) {
		t.Helper()
		req, err := http.NewRequest("POST", "http://"+addr+"/v1/call", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+d.Agent)
		for k, v := range header {
			if req.Header.Set(k, v); k == "Origin" { // each word is a header of its own
				req.Header[k] = strings.Fields(v)
			}
		}
		if host != "" {
			req.Host = host
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		out := M{}
		json.NewDecoder(resp.Body).Decode(&out)
		return resp.StatusCode, out
	}
	for _, c := range []struct {
		name, host string
		header     map[string]string
		status     int
		code       string
	}{
		{"S70, I113 a foreign Host", "evil.test:" + port, nil, 403, "bad_origin"},
		{"S70, I113 the right name with a wrong port", "localhost:1", nil, 403, "bad_origin"},
		{"S70 a foreign Host without a token is not told that one is needed", "evil.test:" + port, map[string]string{"Authorization": ""}, 403, "bad_origin"},
		{"S71 a foreign Origin", "", map[string]string{"Origin": "https://evil.test"}, 403, "bad_origin"},
		{"S71 the Origin null", "", map[string]string{"Origin": "null"}, 403, "bad_origin"},
		{"S71 a foreign Origin behind one of our own", "", map[string]string{"Origin": "http://" + addr + " https://evil.test"}, 403, "bad_origin"},
		{"S71 a cross-site fetch", "", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403, "bad_origin"},
		{"S71 text/plain", "", map[string]string{"Content-Type": "text/plain"}, 415, "bad_request"},
		{"S71 a form", "", map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, 415, "bad_request"},
		{"S69, I113 no token", "", map[string]string{"Authorization": ""}, 401, "unauthenticated"},
		{"S69 an empty token", "", map[string]string{"Authorization": "Bearer "}, 401, "unauthenticated"},
		{"S69 a wrong token", "", map[string]string{"Authorization": "Bearer hp_nothing"}, 401, "unauthenticated"},
		{"S69 another scheme", "", map[string]string{"Authorization": "Basic " + d.Agent}, 401, "unauthenticated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := len(d.records())
			status, r := post(c.header, c.host)
			if status != c.status || code(r) != c.code {
				t.Fatalf("got %d %v, want %d %s", status, r, c.status, c.code)
			}
			if c.status == 401 { // that somebody was turned away is on record, and nothing else
				list := d.records()
				if n++; len(list) != n || text(list[n-1], "kind") != "access" {
					t.Fatalf("the record is not that of a refusal: %v", list[len(list)-1])
				}
			}
			if len(d.cards("")) != 0 || digest(t, d.Root) != before || len(d.records()) != n {
				t.Fatal("it was heard all the same")
			}
		})
	}
	t.Run("an operator's token that is good on the socket only is none on loopback", func(t *testing.T) {
		if status, r := post(map[string]string{"Authorization": "Bearer " + d.reviewerToken}, ""); status != 401 {
			t.Fatalf("got %d %v", status, r)
		}
	})
	t.Run("the guard is what refuses: the same call in good form is held", func(t *testing.T) {
		for _, host := range []string{"", "localhost:" + port, "[::1]:" + port} {
			if status, r := post(nil, host); status != 202 || text(r, "decision", "reason") != "destructive_operation" {
				t.Fatalf("host %q: got %d %v", host, status, r)
			}
		}
	})
	t.Run("C5 a caller that sees no file receives full facts", func(t *testing.T) {
		req, _ := http.NewRequest("POST", "http://"+addr+"/v1/preflight", strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json; charset=utf-8")
		req.Header.Set("Authorization", "Bearer "+d.Agent)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		look := M{}
		json.NewDecoder(resp.Body).Decode(&look)
		target := objects(object(look["facts"])["targets"])[0]
		if target["hash"] != hashOf("x\n") || number(target["size"]) != 2 {
			t.Fatalf("got %v", target)
		}
	})
	t.Run("S69 a bind address beyond loopback is refused at start", func(t *testing.T) {
		for _, listen := range []string{"0.0.0.0:0", "[::]:0", ":0", "192.0.2.1:80", "example.org:80"} {
			root, state := dirs(t)
			if exit, out := refuses(t, root, state, nil, "--listen", listen); exit != 6 || !strings.Contains(out, "loopback") {
				t.Errorf("%s: exit %d, %s", listen, exit, out)
			}
		}
	})
}

func TestNoToken(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	write(t, filepath.Join(d.Root, "f"), "x\n")
	held := must(t, d.call("delete_file", M{"path": "f"}), "review")
	id := text(held, "approval", "id")
	t.Run("S69 every route wants a token, and its answer tells nothing", func(t *testing.T) {
		var first M
		for _, route := range []string{"POST /v1/call", "POST /v1/preflight", "POST /v1/undo", "GET /v1/approvals", "GET /v1/approvals/" + id, "POST /v1/approvals/" + id + "/answer",
			"POST /v1/approvals/" + id + "/cancel", "GET /v1/operations", "GET /v1/operations/op_x", "GET /v1/events", "GET /v1/status", "GET /v1/table", "GET /v1/tokens",
			"POST /v1/tokens", "DELETE /v1/tokens/x", "GET /v1/roots", "POST /v1/roots", "DELETE /v1/roots/x", "GET /v1/protect", "GET /v1/protect/test", "GET /v1/audit",
			"GET /v1/audit/head", "POST /v1/audit/verify", "POST /v1/clean", "GET /v1/rules", "GET /v1/mode", "PUT /v1/mode", "GET /v1/profiles", "POST /mcp", "GET /metrics", "GET /v1/nowhere"} {
			method, path, _ := strings.Cut(route, " ")
			for _, token := range []string{"", "hp_wrong", " "} {
				status, r := d.http(method, path, token, nil)
				if status != 401 || code(r) != "unauthenticated" {
					t.Errorf("%s with %q: got %d %v", route, token, status, r)
				}
				if strings.Contains(fmt.Sprint(r), d.Root) || strings.Contains(fmt.Sprint(r), id) {
					t.Errorf("%s: the answer tells something: %v", route, r)
				}
				if token == "" {
					if first == nil {
						first = r
					} else if !reflect.DeepEqual(r, first) {
						t.Errorf("%s: answers differ: %v and %v", route, r, first)
					}
				}
			}
		}
		for _, open := range []string{"/healthz", "/readyz"} {
			if status, _ := d.http("GET", open, "", nil); status != 200 {
				t.Errorf("%s: got %d", open, status)
			}
		}
		if len(d.cards("pending")) != 1 {
			t.Error("something was answered")
		}
	})
	t.Run("S76 a client's own socket name proves nothing, and another user reaches no further than the token", func(t *testing.T) {
		another := rootToo(t, "another user comes to the socket: an ordinary one comes as himself, with the name alone")
		status := func() string {
			runtime.LockOSThread() // never given back: the thread's user is changed below
			name := filepath.Join(filepath.Dir(d.State), "x;uid=0;y")
			fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
			if err != nil {
				return err.Error()
			}
			if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: name}); err != nil {
				return err.Error()
			}
			if another {
				if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, 65534, 65534, 65534); e != 0 {
					return e.Error()
				}
			}
			if err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: d.Socket}); err != nil {
				return err.Error()
			}
			f := os.NewFile(uintptr(fd), "socket")
			defer f.Close()
			io.WriteString(f, "GET /v1/status HTTP/1.0\r\nHost: x\r\n\r\n")
			line, _ := bufio.NewReader(f).ReadString('\n')
			return strings.TrimSpace(line)
		}
		ask := func() string {
			c := make(chan string)
			go func() { c <- status() }()
			defer os.Remove(filepath.Join(filepath.Dir(d.State), "x;uid=0;y"))
			return <-c
		}
		if got := ask(); another && got != "permission denied" || !another && !strings.HasSuffix(got, "401 Unauthorized") {
			t.Errorf("at the socket: got %q", got)
		}
		for p, mode := range map[string]os.FileMode{filepath.Dir(filepath.Dir(d.State)): 0o755, filepath.Dir(d.State): 0o755, d.State: 0o755, d.Socket: 0o777} {
			if err := os.Chmod(p, mode); err != nil {
				t.Fatal(err)
			}
			if p == d.State {
				defer os.Chmod(p, 0o700)
			}
		}
		if got := ask(); !strings.HasSuffix(got, "401 Unauthorized") {
			t.Errorf("another user that gets as far as the socket, without a token: got %q", got)
		}
	})
}

func TestBodies(t *testing.T) {
	t.Parallel() // it waits for a time limit of 10 s
	d := quick(t, "")
	before, limit := d.rss(), int64(16<<20)
	if raceEnabled {
		limit = 64 << 20 // the detector keeps shadows of all
	}
	grown := func(t *testing.T) {
		t.Helper()
		if now := d.rss(); now > before+limit {
			t.Errorf("memory grew by %d MiB", (now-before)>>20)
		}
		if status, _ := d.http("GET", "/v1/status", d.Agent, nil); status != 200 {
			t.Errorf("status: %d", status)
		}
	}
	t.Run("S78 (part) a 1 GiB body without a token is not read", func(t *testing.T) {
		c, err := net.Dial("unix", d.Socket)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Minute))
		sent := make(chan int64, 1)
		go func() {
			n, _ := fmt.Fprintf(c, "POST /v1/call HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", 1<<30)
			m, _ := io.Copy(c, io.LimitReader(zeros{}, 1<<30))
			sent <- int64(n) + m
		}()
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil || !strings.Contains(line, "401") {
			t.Errorf("got %q, %v", line, err)
		}
		c.Close()
		if n := <-sent; n > 8<<20 {
			t.Errorf("%d bytes were taken", n)
		}
		grown(t)
	})
	t.Run("S78 (part) a body over the limit is too_large", func(t *testing.T) {
		big := `{"op":"write_file","args":{"path":"big","content":"` + strings.Repeat("x", 33<<20) + `"}}`
		status, r, err := d.tryHTTP("POST", "/v1/call", d.Agent, big)
		if err != nil || status != 413 || code(r) != "too_large" {
			t.Errorf("got %d %v %v", status, r["error"], err)
		}
	})
	t.Run("S78 (part) a compressed body is not inflated", func(t *testing.T) {
		req, _ := http.NewRequest("POST", "http://x/v1/call", bytes.NewReader([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0}))
		for k, v := range map[string]string{"Content-Type": "application/json", "Content-Encoding": "gzip", "Authorization": "Bearer " + d.Agent} {
			req.Header.Set(k, v)
		}
		resp, err := d.client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 400 {
			t.Errorf("got %d", resp.StatusCode)
		}
		grown(t)
	})
	t.Run("S78 (part) one endless line is cut off, and idle connections hold nobody up", func(t *testing.T) {
		var idle []net.Conn
		for range 300 {
			c, err := net.Dial("unix", d.Socket)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			io.WriteString(c, "POST /v1/call HT")
			idle = append(idle, c)
		}
		c, err := net.Dial("unix", d.Socket)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Minute))
		go io.Copy(c, io.LimitReader(zeros{}, 64<<20))
		answer, _ := io.ReadAll(c)
		if len(answer) > 0 && !strings.HasPrefix(string(answer), "HTTP/1.1 4") {
			t.Errorf("got %.80q", answer)
		}
		start := time.Now()
		grown(t)
		if time.Since(start) > 10*time.Second {
			t.Errorf("status took %v", time.Since(start))
		}
		// A header that does not come to an end is given up after a while.
		idle[299].SetReadDeadline(time.Now().Add(15 * time.Second))
		if _, err := idle[299].Read(make([]byte, 1)); err != io.EOF {
			if _, timeout := err.(net.Error); timeout {
				t.Errorf("the idle connection was not closed: %v", err)
			}
		}
	})
}

// zeros is an endless source of 'a'.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

func TestManyClients(t *testing.T) {
	t.Parallel()
	d, addr := listening(t)
	const clients, requests = 50, 20
	for i := range clients {
		write(t, filepath.Join(d.Root, fmt.Sprintf("c%d", i)), fmt.Sprintf("marker %d\n", i))
	}
	t.Run("S74 (part) 50 clients on two bridges get their own answers and see their own operations", func(t *testing.T) {
		var wg sync.WaitGroup
		slots := make(chan bool, 16)
		for i := range clients {
			wg.Add(1)
			go func() {
				defer wg.Done()
				url, client := "http://holdpoint", d.client()
				if i%2 == 1 {
					url, client = "http://"+addr, &http.Client{Timeout: time.Minute}
				}
				for n := range requests {
					slots <- true
					id := fmt.Sprintf("c%d.r%d", i, n)
					req, _ := http.NewRequest("POST", url+"/v1/call", strings.NewReader(fmt.Sprintf(`{"op":"view_file","args":{"path":"c%d"},"request_id":"%s"}`, i, id)))
					req.Header.Set("Content-Type", "application/json")
					req.Header.Set("Authorization", "Bearer "+d.Agent)
					resp, err := client.Do(req)
					<-slots
					if err != nil {
						t.Error(err)
						return
					}
					out := M{}
					json.NewDecoder(resp.Body).Decode(&out)
					resp.Body.Close()
					if text(out, "result", "content") != fmt.Sprintf("marker %d\n", i) || out["request_id"] != id {
						t.Errorf("client %d got %v", i, out)
					}
				}
			}()
		}
		wg.Wait()
	})
	t.Run("S74 (part) the lists and events of one token show nothing of another's", func(t *testing.T) {
		other := d.token(M{"name": "other", "role": "agent"})
		mine := must(t, d.call("edit_file", M{"path": "c1", "old_string": "marker", "new_string": "m"}), "done")
		_, theirs := d.send(other, M{"op": "edit_file", "args": M{"path": "c2", "old_string": "marker", "new_string": "m"}})
		must(t, theirs, "done")
		_, list := d.http("GET", "/v1/operations", other, nil)
		seen := objects(list["operations"])
		if len(seen) != 1 || seen[0]["id"] != theirs["operation_id"] {
			t.Errorf("the other sees %v", seen)
		}
		events := d.events(t, other, 0)
		if len(events) != 1 || strings.Contains(fmt.Sprint(events), text(mine, "operation_id")) {
			t.Errorf("the other hears %v", events)
		}
		if all := d.events(t, d.reviewerToken, 0); len(all) != 2 {
			t.Errorf("the reviewer hears %v", all)
		}
	})
}

// events reads what the stream has of the past; it gives it half a second.
func (d *daemon) events(t testing.TB, token string, after int) []M {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", "http://holdpoint/v1/events", nil)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Last-Event-ID", strconv.Itoa(after))
	resp, err := d.client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var out []M
	for s := bufio.NewScanner(resp.Body); s.Scan(); {
		if data, ok := strings.CutPrefix(s.Text(), "data: "); ok {
			m := M{}
			if err := json.Unmarshal([]byte(data), &m); err != nil {
				t.Fatal(err)
			}
			out = append(out, m)
		}
	}
	return out
}

// hashOf is the wire form of the hash of a text.
func hashOf(s string) string {
	sum := blake3.Sum256([]byte(s))
	return "blake3:" + hex.EncodeToString(sum[:])
}
