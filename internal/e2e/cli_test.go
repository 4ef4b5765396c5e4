package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// outside runs the command line with nothing but the given environment besides PATH.
func outside(t testing.TB, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return outsideIn(t, "", env, args...)
}

// outsideIn is outside, in a directory.
func outsideIn(t testing.TB, dir string, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "GORACE=halt_on_error=1"}, env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func decoded(t testing.TB, s string) M {
	t.Helper()
	m := M{}
	if err := json.Unmarshal([]byte(s), &m); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, s)
	}
	return m
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	d := quick(t, "[profiles.closed]\nallow_delete = false\n[deadlines]\nT4 = \"1h\"\n")
	in := func(p string) string { return filepath.Join(d.Root, p) }
	write(t, in("f"), "one\n")
	write(t, in("g"), "two\n")
	closed := d.token(M{"name": "closed", "role": "agent", "profile": "closed"})
	seen := map[int]bool{} // exit codes that were also tried in the form for people
	for _, c := range []struct {
		name   string
		env    string
		args   []string
		exit   int
		status string
		code   string
	}{
		{"0 done", "", []string{"call", "view_file", "path=f"}, 0, "done", ""},
		{"0 a change", "", []string{"call", "write_file", "path=new", "content=x"}, 0, "done", ""},
		{"0 a rehearsal", "", []string{"call", "delete_file", "path=f", "--dry-run"}, 0, "done", ""},
		{"U2 (part) 3 waiting for a person, as a typed reply", "", []string{"call", "delete_file", "path=f"}, 3, "review", ""},
		{"4 refused by a switch", closed, []string{"call", "delete_file", "path=f"}, 4, "refused", "operation_disabled"},
		{"4 an operation that does not exist", "", []string{"call", "delete_everything"}, 4, "refused", "unknown_operation"},
		{"4 outside", "", []string{"call", "view_file", "path=../x"}, 4, "refused", "outside_workspace"},
		{"4 a token that is none", "hp_none", []string{"call", "view_file", "path=f"}, 4, "refused", "unauthenticated"},
		{"5 stale", "", []string{"call", "edit_file", "path=f", "old_string=one", "new_string=1", "expected_hash=" + hashOf("zzz")}, 5, "failed", "stale_precondition"},
		{"6 not found", "", []string{"call", "view_file", "path=nope"}, 6, "failed", "not_found"},
		{"6 no match", "", []string{"call", "edit_file", "path=f", "old_string=zzz", "new_string=1"}, 6, "failed", "no_match"},
		{"6 bad input", "", []string{"call", "view_file", `--args={"path":"f","nonsense":1}`}, 6, "failed", "bad_request"},
		{"6 an argument it does not have", "", []string{"call", "view_file", "pth=f"}, 6, "failed", "bad_request"},
		{"6 exists", "", []string{"call", "move_file", "source=f", "destination=g"}, 6, "failed", "exists"},
		{"2 no operation", "", []string{"call"}, 2, "", ""},
		{"2 an unknown command", "", []string{"cal"}, 2, "", ""},
		{"2 an unknown flag", "", []string{"call", "view_file", "--nonsense"}, 2, "", ""},
		{"2 two ways of arguments", "", []string{"call", "view_file", "path=f", "--args={}"}, 2, "", ""},
		{"2 an argument twice", "", []string{"call", "view_file", "path=f", "path=g"}, 2, "", ""},
		{"2 nothing to undo is named", "", []string{"undo"}, 2, "", ""},
		{"6 an unknown operation id, undone", "", []string{"undo", "op_unknown"}, 6, "failed", "undo_unknown"},
		{"4 a forged credential", "", []string{"undo", `{"id":"un_x","operation_id":"op_x","op":"edit_file","root":"r","effects":[],"expires_at":"2030-01-01T00:00:00Z","seal":"00"}`}, 4, "refused", "undo_forged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := d.environ()
			if c.env != "" {
				env = append(env, "HOLDPOINT_TOKEN="+c.env)
			}
			exit, out, errs := outside(t, env, append(c.args, "--json")...)
			if exit != c.exit {
				t.Fatalf("exit %d, want %d: %s %s", exit, c.exit, out, errs)
			}
			if c.exit == 2 {
				if out != "" || !strings.Contains(errs, "holdpoint") {
					t.Errorf("a usage error says %q and %q", out, errs)
				}
				return
			}
			r := decoded(t, out)
			if r["status"] != c.status || code(r) != c.code {
				t.Errorf("got %v %v, want %s %s", r["status"], r["error"], c.status, c.code)
			}
			if seen[c.exit] {
				return
			}
			seen[c.exit] = true
			exit2, human, errs := outside(t, env, c.args...)
			if exit2 != exit && c.name != "0 a change" || human == "" && errs == "" && c.name != "0 a change" {
				t.Errorf("for people: exit %d, %q %q", exit2, human, errs)
			}
			if strings.ContainsAny(human+errs, "\x1b") {
				t.Errorf("colour where no terminal is: %q", human)
			}
			if c.code != "" && !strings.Contains(errs, c.code) {
				t.Errorf("the code is not told: %q", errs)
			}
		})
	}
	t.Run("1 when nobody answers at the socket", func(t *testing.T) {
		exit, _, errs := outside(t, []string{"HOLDPOINT_SOCKET=" + filepath.Join(shortDir(t), "none.sock"), "HOLDPOINT_STATE=" + d.State}, "call", "view_file", "path=f")
		if exit != 1 || !strings.Contains(errs, "not_ready") {
			t.Fatalf("exit %d %s", exit, errs)
		}
	})
	t.Run("7 rejected, I38 (part) with the person's words, and U37 the way to the card is always told", func(t *testing.T) {
		exit, out, _ := d.cli("call", "delete_file", "path=f")
		id := idOf(d.call("delete_file", M{"path": "f"}))
		if exit != 3 || !strings.Contains(out, "review approve "+id) || !strings.Contains(out, "review show "+id) {
			t.Fatalf("exit %d: %s", exit, out)
		}
		done := make(chan string, 1)
		go func() {
			exit, out, errs := d.cli("call", "delete_file", "path=f", "--wait", "20s", "--json")
			done <- fmt.Sprintf("%d %s %s", exit, out, errs)
		}()
		time.Sleep(300 * time.Millisecond)
		if exit, _, errs := d.cli("review", "reject", id, "--note", "no, thank you"); exit != 0 {
			t.Fatalf("reject: %d %s", exit, errs)
		}
		got := <-done
		if !strings.HasPrefix(got, "7 ") || !strings.Contains(got, `"rejected"`) || !strings.Contains(got, "no, thank you") {
			t.Errorf("got %s", got)
		}
	})
	t.Run("7 expired", func(t *testing.T) {
		d := quick(t, "[deadlines]\nT4 = \"400ms\"\n")
		write(t, filepath.Join(d.Root, "f"), "x\n")
		exit, out, _ := d.cli("call", "delete_file", "path=f", "--wait", "20s", "--json")
		if exit != 7 || code(decoded(t, out)) != "expired" {
			t.Fatalf("exit %d %s", exit, out)
		}
	})
	t.Run("5 a second undo, and one after a later edit", func(t *testing.T) {
		_, out, _ := d.cli("call", "edit_file", "path=g", "old_string=two", "new_string=2", "--json")
		op := text(decoded(t, out), "operation_id")
		write(t, in("g"), "later\n")
		if exit, out, _ := d.cli("undo", op, "--json"); exit != 5 || code(decoded(t, out)) != "undo_conflict" {
			t.Errorf("exit %d %s", exit, out)
		}
		write(t, in("g"), "2\n")
		if exit, out, _ := d.cli("undo", op); exit != 0 || read(t, in("g")) != "two\n" {
			t.Errorf("exit %d %s", exit, out)
		}
		if exit, out, _ := d.cli("undo", op, "--json"); exit != 5 || code(decoded(t, out)) != "undo_consumed" {
			t.Errorf("exit %d %s", exit, out)
		}
	})
	t.Run("a second answer is 5 and names the first", func(t *testing.T) {
		id := idOf(must(t, d.call("delete_file", M{"path": "g"}), "review"))
		if exit, out, errs := d.cli("review", "approve", id, "--json"); exit != 0 || decoded(t, out)["status"] != "done" {
			t.Fatalf("exit %d %s %s", exit, out, errs)
		}
		exit, out, _ := d.cli("review", "approve", id, "--json")
		if exit != 5 || code(decoded(t, out)) != "already_answered" {
			t.Errorf("exit %d %s", exit, out)
		}
		if exit, _, _ := d.cli("undo", "@"); exit != 0 || read(t, in("g")) != "two\n" {
			t.Errorf("undo @: exit %d", exit)
		}
	})
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	in := func(p string) string { return filepath.Join(d.Root, p) }
	write(t, in("f"), "one\n")
	t.Run("I94 the main job by the command line alone, S80 (part) with no secret in any argument", func(t *testing.T) {
		before := digest(t, d.Root)
		exit, out, _ := d.cli("call", "edit_file", "path=f", "old_string=one", "new_string=two", "--json", "--session", "s1", "--request-id", "r1")
		r := decoded(t, out)
		if exit != 0 || read(t, in("f")) != "two\n" || r["request_id"] != "r1" {
			t.Fatalf("exit %d %s", exit, out)
		}
		exit, out, _ = d.cli("log", "--json", "--session", "s1")
		if exit != 0 || !strings.Contains(out, text(r, "operation_id")) || !strings.Contains(out, "available") {
			t.Errorf("log: exit %d %s", exit, out)
		}
		exit, out, _ = d.cli("show", text(r, "operation_id"))
		if exit != 0 || !strings.Contains(out, "-one") || !strings.Contains(out, "+two") {
			t.Errorf("show: exit %d %s", exit, out)
		}
		cred, _ := json.Marshal(r["undo_credential"])
		if exit, out, errs := d.cliIn(string(cred), "undo", "-"); exit != 0 {
			t.Errorf("undo: exit %d %s %s", exit, out, errs)
		}
		if digest(t, d.Root) != before {
			t.Fatal("not as before")
		}
		file := filepath.Join(t.TempDir(), "reply.json")
		_, out, _ = d.cli("call", "write_file", "path=n", "content=x", "--json")
		write(t, file, out)
		if exit, _, errs := d.cli("undo", "@"+file); exit != 0 || digest(t, d.Root) != before {
			t.Errorf("undo @FILE: exit %d %s", exit, errs)
		}
	})
	t.Run("I57 (part) undo --last and --since take back in reverse, newest first", func(t *testing.T) {
		before := digest(t, d.Root)
		for i := range 3 {
			if exit, _, errs := d.cli("call", "edit_file", "path=f", fmt.Sprintf("old_string=%s", []string{"one", "1", "I"}[i]), fmt.Sprintf("new_string=%s", []string{"1", "I", "uno"}[i]), "--session", "three"); exit != 0 {
				t.Fatal(errs)
			}
		}
		if exit, out, errs := d.cli("undo", "--last", "1"); exit != 0 || read(t, in("f")) != "I\n" {
			t.Fatalf("exit %d %s %s", exit, out, errs)
		}
		if exit, out, errs := d.cli("undo", "--session", "three", "--since", "10m"); exit != 0 || digest(t, d.Root) != before {
			t.Fatalf("exit %d %s %s", exit, out, errs)
		}
	})
	t.Run("preflight ends as the call would, and shows what it would do", func(t *testing.T) {
		for _, c := range []struct {
			exit int
			args []string
			want string
		}{{0, []string{"preflight", "edit_file", "path=f", "old_string=one", "new_string=2"}, "+2"}, {3, []string{"preflight", "delete_file", "path=f"}, "destructive_operation"},
			{4, []string{"preflight", "view_file", "path=../x"}, "outside_workspace"}, {6, []string{"preflight", "edit_file", "path=f", "old_string=q", "new_string=2"}, "no_match"}} {
			exit, out, errs := d.cli(c.args...)
			if exit != c.exit || !strings.Contains(out+errs, c.want) {
				t.Errorf("%v: exit %d %s %s", c.args, exit, out, errs)
			}
		}
		_, out, _ := d.cli("preflight", "edit_file", "path=f", "old_string=one", "new_string=2", "--json")
		pins := text(decoded(t, out), "pins")
		write(t, in("f"), "one more\n")
		if exit, out, _ := d.cli("call", "edit_file", "path=f", "old_string=one", "new_string=2", "--pins", pins, "--json"); exit != 5 || code(decoded(t, out)) != "stale_precondition" {
			t.Errorf("exit %d %s", exit, out)
		}
		write(t, in("f"), "one\n")
	})
	t.Run("U36, U39 review list and show as JSON are cards, answered by id; approve prints the reply of the call", func(t *testing.T) {
		id := idOf(must(t, d.call("delete_file", M{"path": "f"}), "review"))
		exit, out, _ := d.cli("review", "list", "--json")
		var list []M
		if err := json.Unmarshal([]byte(out), &list); exit != 0 || err != nil || len(list) != 1 || list[0]["id"] != id {
			t.Fatalf("exit %d %v %s", exit, err, out)
		}
		has(t, list[0], "id", "state", "title", "op", "lines", "reasons", "diff", "undo", "intent", "expires_at", "shown_digest")
		exit, out, _ = d.cli("review", "show", id, "--exact")
		if exit != 0 || !strings.Contains(out, `"path":"f"`) || !strings.Contains(out, "Delete 1 file") {
			t.Errorf("show: exit %d %s", exit, out)
		}
		exit, out, errs := d.cli("review", "approve", id, "--json", "--note", "fine")
		r := decoded(t, out)
		if exit != 0 || r["status"] != "done" || r["undo_credential"] == nil {
			t.Fatalf("exit %d %s %s", exit, out, errs)
		}
		must(t, d.undo(r), "done")
	})
	t.Run("token create, list and revoke", func(t *testing.T) {
		exit, out, errs := d.cli("token", "create", "--role", "agent", "--name", "ci", "--workflow", "wf", "--json")
		made := decoded(t, out)
		if exit != 0 || text(made, "token") == "" || text(made, "id") == "" || made["role"] != "agent" {
			t.Fatalf("exit %d %s %s", exit, out, errs)
		}
		if _, out, _ := d.cli("token", "list"); !strings.Contains(out, "ci") || strings.Contains(out, text(made, "token")) {
			t.Errorf("list: %s", out)
		}
		env := append(d.environ(), "HOLDPOINT_TOKEN="+text(made, "token"))
		if exit, _, errs := outside(t, env, "call", "view_file", "path=f"); exit != 0 {
			t.Errorf("exit %d %s", exit, errs)
		}
		if exit, _, errs := d.cli("token", "revoke", text(made, "id")); exit != 0 {
			t.Errorf("revoke: %d %s", exit, errs)
		}
		if exit, _, _ := outside(t, env, "call", "view_file", "path=f"); exit != 4 {
			t.Errorf("after: exit %d", exit)
		}
	})
	t.Run("S80 (part) a secret on the command line is refused and not repeated", func(t *testing.T) {
		for _, flag := range []string{"--token", "--passphrase"} {
			exit, out, errs := d.cli("call", "view_file", "path=f", flag, "hp_SECRETvalue")
			if exit != 2 || strings.Contains(out+errs, "SECRETvalue") {
				t.Errorf("%s: exit %d %s %s", flag, exit, out, errs)
			}
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", d.cmd.Process.Pid))
		if err != nil || strings.Contains(string(b), passphrase) || strings.Contains(string(b), d.Agent) {
			t.Errorf("the daemon's arguments: %q %v", b, err)
		}
	})
	t.Run("status, version and roots", func(t *testing.T) {
		exit, out, _ := d.cli("status", "--json")
		if s := decoded(t, out); exit != 0 || text(s, "review_auth") != "token" || !strings.Contains(fmt.Sprint(s["warnings"]), "review_auth_token") || len(objects(s["roots"])) != 1 {
			t.Errorf("exit %d %s", exit, out)
		}
		if exit, out, _ := d.cli("version"); exit != 0 || out == "" {
			t.Errorf("version: %d %s", exit, out)
		}
		second := filepath.Join(filepath.Dir(d.Root), "second")
		os.Mkdir(second, 0o755)
		if exit, out, errs := d.cli("root", "add", "two="+second); exit != 0 {
			t.Errorf("add: %d %s %s", exit, out, errs)
		}
		if exit, _, errs := d.cli("call", "write_file", "path=x", "content=y", "--root", "two"); exit != 0 || read(t, filepath.Join(second, "x")) != "y" {
			t.Errorf("call: %d %s", exit, errs)
		}
		if exit, _, errs := d.cli("root", "remove", "two"); exit != 0 {
			t.Errorf("remove: %d %s", exit, errs)
		}
		if exit, _, _ := d.cli("call", "view_file", "path=x", "--root", "two"); exit != 6 {
			t.Errorf("after: exit %d", exit)
		}
	})
	t.Run("content of bytes and of files travels unharmed", func(t *testing.T) {
		bin := filepath.Join(t.TempDir(), "b")
		write(t, bin, "a\x00\xff\r\n")
		if exit, _, errs := d.cli("call", "write_file", "path=bytes", "content@="+bin); exit != 0 || read(t, in("bytes")) != "a\x00\xff\r\n" {
			t.Errorf("exit %d %s", exit, errs)
		}
		if exit, out, _ := d.cli("call", "view_file", "path=bytes"); exit != 0 || out != "a\x00\xff\r\n" {
			t.Errorf("exit %d %q", exit, out)
		}
		if exit, _, errs := d.cliIn("from a pipe\n", "call", "write_file", "path=piped", "content@=-"); exit != 0 || read(t, in("piped")) != "from a pipe\n" {
			t.Errorf("exit %d %s", exit, errs)
		}
		if exit, _, errs := d.cliIn(`{"path":"argued","content":"é\n"}`, "call", "write_file", "--args", "-"); exit != 0 || read(t, in("argued")) != "é\n" {
			t.Errorf("exit %d %s", exit, errs)
		}
	})
}

func TestPassphrase(t *testing.T) {
	t.Parallel()
	t.Run("I42, S57 (part) without the passphrase nobody approves, whoever has the agent's token", func(t *testing.T) {
		d := start(t)
		write(t, filepath.Join(d.Root, "f"), "one\n")
		id := idOf(must(t, d.call("delete_file", M{"path": "f"}), "review"))
		var env []string
		for _, e := range d.environ() {
			if !strings.HasPrefix(e, "HOLDPOINT_REVIEW_PASSPHRASE=") {
				env = append(env, e)
			}
		}
		if exit, out, errs := outside(t, env, "review", "approve", id); exit == 0 {
			t.Errorf("approved: %s %s", out, errs)
		}
		if exit, out, errs := outside(t, append(env, "HOLDPOINT_REVIEW_PASSPHRASE=a wrong guess"), "review", "approve", id); exit != 4 {
			t.Errorf("exit %d %s %s", exit, out, errs)
		}
		if exit, out, errs := outside(t, append(env, "HOLDPOINT_TOKEN="+d.Agent), "review", "approve", id); exit != 4 {
			t.Errorf("exit %d %s %s", exit, out, errs)
		}
		if d.row(id)["state"] != "pending" {
			t.Fatal("it was answered")
		}
	})
}

// TestInProcess runs the engine without a daemon, as continuous integration does.
func TestInProcess(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	write(t, filepath.Join(root, "build", "old.tar"), "tar\n")
	write(t, filepath.Join(root, "f"), "one\n")
	file := policyFile(t, filepath.Dir(root), M{"id": "ci", "workflow_ids": []string{"release"}, "operations": []string{"delete_file"}, "roots": []string{filepath.Join(root, "build")}})
	conf := filepath.Join(filepath.Dir(root), "holdpoint.toml")
	write(t, conf, "[profiles.ci]\nrequire_approval = false\n")
	env := []string{"HOLDPOINT_STATE=" + state, "HOLDPOINT_SOCKET=" + filepath.Join(filepath.Dir(root), "none.sock"), "HOME=" + filepath.Dir(root), "HOLDPOINT_CONFIG=" + conf, "HOLDPOINT_TRUSTED_AUTOMATION_POLICY_FILE=" + file}
	before := digest(t, root)
	run := func(args ...string) (int, M) {
		t.Helper()
		exit, out, errs := outside(t, env, append(args, "--json")...)
		if out == "" {
			t.Fatalf("%v: exit %d, no output, %s", args, exit, errs)
		}
		return exit, decoded(t, out)
	}
	t.Run("I32 with nobody to answer a call that needs a person is refused, and nothing waits", func(t *testing.T) {
		exit, r := run("call", "--root", root, "delete_file", "path=f")
		if exit != 4 || code(r) != "no_reviewer" || r["approval"] != nil || digest(t, root) != before {
			t.Fatalf("exit %d %v", exit, r)
		}
	})
	t.Run("the same engine: a small edit runs and can be undone in another process", func(t *testing.T) {
		exit, r := run("call", "--root", root, "edit_file", "path=f", "old_string=one", "new_string=two")
		if exit != 0 || read(t, filepath.Join(root, "f")) != "two\n" {
			t.Fatalf("exit %d %v", exit, r)
		}
		if exit, r := run("undo", "--root", root, text(r, "operation_id")); exit != 0 || digest(t, root) != before {
			t.Fatalf("undo: exit %d %v", exit, r)
		}
	})
	t.Run("C112, C107 (part) workflow and profile come from the token; without one no trusted policy matches", func(t *testing.T) {
		pass := append(env, "HOLDPOINT_REVIEW_PASSPHRASE="+passphrase)
		exit, out, errs := outside(t, pass, "review", "list", "--root", root, "--json")
		if exit != 0 {
			t.Fatalf("exit %d %s %s", exit, out, errs)
		}
		exit, r := run("call", "--root", root, "delete_file", "path=build/old.tar")
		if exit != 3 || text(r, "decision", "reason") != "destructive_operation" {
			t.Fatalf("exit %d %v", exit, r)
		}
		d := quickOn(t, root, state, "", env[2:])
		secret := d.token(M{"name": "ci", "role": "agent", "workflow": "release", "profile": "ci"})
		d.stop(15)
		env := append(env, "HOLDPOINT_TOKEN="+secret)
		exit, out, errs = outside(t, env, "call", "--root", root, "delete_file", "path=build/old.tar", "--json")
		if exit != 0 || text(decoded(t, out), "decision", "trusted_policy_id") != "ci" {
			t.Fatalf("exit %d %s %s", exit, out, errs)
		}
		exit, out, errs = outside(t, env, "undo", "--root", root, text(decoded(t, out), "operation_id"))
		if exit != 0 || digest(t, root) != before {
			t.Fatalf("exit %d %s %s", exit, out, errs)
		}
	})
	t.Run("C2 (part) one decision with a daemon and without", func(t *testing.T) {
		_, alone := run("preflight", "--root", root, "delete_file", "path=f")
		d := quickOn(t, root, state, "", env[2:])
		served := d.preflight("delete_file", M{"path": "f"})
		if !reflect.DeepEqual(alone["decision"], served["decision"]) || !reflect.DeepEqual(alone["facts"], served["facts"]) {
			t.Errorf("got %v and %v", alone, served)
		}
		exit, r := run("call", "--root", root, "--state", state, "view_file", "path=f")
		if exit == 0 || code(r) != "state_locked" {
			t.Errorf("two at once on one state: exit %d %v", exit, r)
		}
	})
}
