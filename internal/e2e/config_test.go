package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// eventually waits for what another process does by itself.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("it never came about: %s", what)
}

func TestConfigFile(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	at := func(p string) string { return filepath.Join(dir, p) }
	run := func(args ...string) (int, string) {
		rc, out, errs := outside(t, []string{"XDG_CONFIG_HOME=" + at("xdg"), "HOME=" + dir}, args...)
		return rc, out + errs
	}
	t.Run("config init writes every key, commented out, once", func(t *testing.T) {
		if rc, out := run("config", "init"); rc != 0 || !exists(at("xdg/holdpoint/holdpoint.toml")) {
			t.Fatalf("%d %s", rc, out)
		}
		if rc, out := run("config", "init"); rc == 0 || !strings.Contains(out, "exists") {
			t.Errorf("twice: %d %s", rc, out)
		}
		if rc, out := run("config", "check"); rc != 0 || !strings.Contains(out, "valid") {
			t.Errorf("%d %s", rc, out)
		}
		// With the comments taken off all of it is understood.
		var lines []string
		for _, l := range strings.Split(read(t, at("xdg/holdpoint/holdpoint.toml")), "\n") {
			if strings.HasPrefix(l, "#") && !strings.HasPrefix(l, "# ") {
				lines = append(lines, l[1:])
			}
		}
		write(t, at("all.toml"), strings.Join(lines, "\n"))
		if rc, out := run("config", "check", at("all.toml")); rc != 0 || len(lines) < 45 {
			t.Errorf("%d %s\n%s", rc, out, strings.Join(lines, "\n"))
		}
	})
	t.Run("a key that is not known stops everything and names the nearest", func(t *testing.T) {
		for text, want := range map[string]string{
			"keeep = \"1d\"\n":                           "keep",
			"\n[profiles.ci]\nrequire_aproval = false\n": "line 3: unknown key profiles.ci.require_aproval; did you mean require_approval?",
			"[process]\nconfinment = \"off\"\n":          "did you mean confinement?",
			"[two_reviewers]\nfile = 3\n":                "did you mean files?",
			"[[notify]]\nkinds = \"command\"\n":          "did you mean kind?",
		} {
			write(t, at("bad.toml"), text)
			if rc, out := run("config", "check", at("bad.toml")); rc == 0 || !strings.Contains(out, want) {
				t.Errorf("%q: %d %s, want %s", text, rc, out, want)
			}
		}
		write(t, at("bad.toml"), "keeep = \"1d\"\n")
		root, state := dirs(t)
		if rc, out := refuses(t, root, state, nil, "--config", at("bad.toml")); rc == 0 || !strings.Contains(out, "did you mean keep?") {
			t.Errorf("serve: %d %s", rc, out)
		}
	})
	t.Run("a configuration that others may write, or that lies in a workspace, is refused", func(t *testing.T) {
		root, state := dirs(t)
		write(t, at("open.toml"), "")
		os.Chmod(at("open.toml"), 0o664)
		write(t, filepath.Join(root, "holdpoint.toml"), "[profiles.default]\nrequire_approval = false\n")
		for _, file := range []string{at("open.toml"), filepath.Join(root, "holdpoint.toml")} {
			if rc, out := refuses(t, root, state, nil, "--config", file); rc == 0 || !strings.Contains(out, "state_unsafe") {
				t.Errorf("%s: %d %s", file, rc, out)
			}
		}
	})
	t.Run("in a broad root the configuration is out of reach of every operation", func(t *testing.T) {
		base := shortDir(t)
		conf := filepath.Join(base, "holdpoint", "holdpoint.toml")
		write(t, conf, "keep = \"9d\"\n")
		d := startOn(t, base, filepath.Join(base, "state"), nil, "--config", conf, "--review-auth", "token", "--allow-broad-root")
		for op, args := range map[string]M{"view_file": {"path": "holdpoint/holdpoint.toml"}, "write_file": {"path": "holdpoint/holdpoint.toml", "content": ""}, "delete_file": {"path": "holdpoint", "recursive": true}, "move_file": {"source": "holdpoint/holdpoint.toml", "destination": "x"},
			"create_directory": {"path": "state/none/holdpoint"}} {
			s, r := d.call2(op, args)
			fails(t, s, r, 403, "outside_workspace")
		}
		write(t, filepath.Join(base, "seen"), "keep = 1\n")
		for op, args := range map[string]M{"file_tree": {}, "search_files": {"pattern": "keep"}} {
			if _, r := d.call2(op, args); !strings.Contains(fmt.Sprint(must(t, r, "done")["result"]), "seen") || strings.Contains(fmt.Sprint(r["result"]), "holdpoint") {
				t.Errorf("%s: %v", op, r["result"])
			}
		}
		d.stop(15)
		write(t, filepath.Join(base, "open.toml"), "")
		if rc, out := refuses(t, base, filepath.Join(base, "state"), nil, "--config", filepath.Join(base, "open.toml"), "--allow-broad-root"); rc == 0 || !strings.Contains(out, "state_unsafe") {
			t.Errorf("%d %s", rc, out)
		}
	})
	t.Run("flags of serve win over the file, and the file stands in for those that are absent", func(t *testing.T) {
		root, state := dirs(t)
		write(t, at("serve.toml"), fmt.Sprintf("[serve]\nroots = [\"other=%s\"]\nreview_auth = \"nonsense\"\n", dir))
		if rc, out := refuses(t, root, state, nil, "--config", at("serve.toml")); rc == 0 || !strings.Contains(out, "review-auth") {
			t.Errorf("%d %s", rc, out)
		}
		d := startOn(t, root, state, nil, "--config", at("serve.toml"), "--review-auth", "token")
		_, s := d.http("GET", "/v1/status", d.Agent, nil)
		if roots := objects(s["roots"]); len(roots) != 1 || roots[0]["name"] != "ws" || s["review_auth"] != "token" {
			t.Errorf("got %v", s)
		}
	})
}

func TestLayers(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	managed := filepath.Join(filepath.Dir(root), "managed.toml")
	write(t, managed, "protected = [\"sealed/**\"]\n[profiles.default]\nallow_exec = false\n[floors]\nmove_file = 3\n")
	d := quickOn(t, root, state, "protected = [\"mine/**\"]\n[profiles.default]\nallow_exec = true\nallow_copy = false\n[profiles.bot]\nrequire_approval = false\n[floors]\nmove_file = 1\ndelete_file = 1\n",
		[]string{"HOLDPOINT_MANAGED_CONFIG=" + managed})
	file := filepath.Join(filepath.Dir(state), "holdpoint.toml")
	in := func(p string) string { return filepath.Join(root, p) }
	write(t, in("f"), "one\n")
	records := func(outcome string) int {
		n := 0
		for _, r := range d.records() {
			if r["kind"] == "setting" && r["outcome"] == outcome {
				n++
			}
		}
		return n
	}
	ask := func(token, op string, args M) M {
		_, look := d.http("POST", "/v1/preflight", token, M{"op": op, "args": args})
		return object(look["decision"])
	}
	edit := M{"path": "f", "old_string": "one", "new_string": "two"}
	t.Run("the managed layer wins over the user's, key by key, and lists of patterns add up", func(t *testing.T) {
		s, r := d.call2("workspace_shell", M{"command": "true"})
		fails(t, s, r, 403, "operation_disabled")
		s, r = d.call2("copy_file", M{"source": "f", "destination": "g"})
		fails(t, s, r, 403, "operation_disabled")
		s, r = d.call2("move_file", M{"source": "f", "destination": "g"})
		fails(t, s, r, 403, "clearance_too_low")
		for _, p := range []string{"sealed/x", "mine/x"} {
			if dec := ask(d.Agent, "write_file", M{"path": p, "content": "x"}); dec["reason"] != "protected_target" {
				t.Errorf("%s: %v", p, dec)
			}
		}
	})
	t.Run("a changed file counts by itself, a bad one leaves all as it was and status says so; each is on record", func(t *testing.T) {
		write(t, file, "[profiles.default]\nallow_edit = false\nallow_exec = true\n[profiles.bot]\n")
		eventually(t, "the edit switch goes off", func() bool { return ask(d.Agent, "edit_file", edit)["reason"] == "operation_disabled" })
		s, r := d.call2("workspace_shell", M{"command": "true"})
		fails(t, s, r, 403, "operation_disabled")
		if dec := ask(d.Agent, "write_file", M{"path": "mine/x", "content": "x"}); dec["verdict"] != "auto" {
			t.Errorf("a pattern that was taken out: %v", dec)
		}
		if dec := ask(d.Agent, "write_file", M{"path": "sealed/x", "content": "x"}); dec["reason"] != "protected_target" {
			t.Errorf("the managed pattern: %v", dec)
		}
		eventually(t, "the reload is on record", func() bool { return records("reloaded") == 1 })
		write(t, file, "[profiles.default]\nalow_edit = true\n")
		eventually(t, "the bad file is on record", func() bool { return records("bad_request") == 1 })
		_, status := d.http("GET", "/v1/status", d.Agent, nil)
		if ask(d.Agent, "edit_file", edit)["reason"] != "operation_disabled" || !strings.Contains(fmt.Sprint(status["warnings"]), "did you mean allow_edit") {
			t.Errorf("status %v", status["warnings"])
		}
		os.Remove(file)
		write(t, file+".new", "keep = \"9d\"\n[profiles.default]\nallow_edit = true\n[profiles.bot]\nrequire_approval = false\n")
		os.Rename(file+".new", file)
		eventually(t, "the switch is on again", func() bool { return ask(d.Agent, "edit_file", edit)["verdict"] == "auto" })
		_, status = d.http("GET", "/v1/status", d.Agent, nil)
		if !strings.Contains(fmt.Sprint(status["warnings"]), "restart: keep") {
			t.Errorf("status %v", status["warnings"])
		}
	})
	t.Run("SIGHUP reads it again", func(t *testing.T) {
		n := records("reloaded")
		syscall.Kill(d.cmd.Process.Pid, syscall.SIGHUP)
		eventually(t, "one more reload", func() bool { return records("reloaded") == n+1 })
	})
	t.Run("X40 a deadline per tier by the operator, and by the workspace where it is shorter", func(t *testing.T) {
		write(t, file, "[deadlines]\nT2 = \"20m\"\nT4 = \"30m\"\n[profiles.bot]\nrequire_approval = false\n")
		eventually(t, "the deadlines count", func() bool { return strings.Contains(read(t, file), "T4") && records("reloaded") > 3 })
		left := func(op string, args M) time.Duration {
			t.Helper()
			_, r := d.call2(op, args)
			end, err := time.Parse(time.RFC3339, text(must(t, r, "review"), "approval", "expires_at"))
			if err != nil {
				t.Fatal(err)
			}
			d.http("POST", "/v1/approvals/"+idOf(r)+"/cancel", d.Agent, M{})
			return time.Until(end).Round(time.Minute)
		}
		over, gone := M{"path": "f", "content": "over\n"}, M{"path": "f"}
		if a, b := left("write_file", over), left("delete_file", gone); a != 20*time.Minute || b != 30*time.Minute {
			t.Errorf("the operator's: %v and %v", a, b)
		}
		write(t, in(".holdpoint.toml"), "[deadlines]\nT2 = \"5m\"\nT4 = \"100h\"\n")
		if a, b := left("write_file", over), left("delete_file", gone); a != 5*time.Minute || b != 30*time.Minute {
			t.Errorf("with the workspace's: %v and %v", a, b)
		}
		os.Remove(in(".holdpoint.toml"))
	})
	t.Run("X24 (part) a file in the workspace tightens and cannot loosen", func(t *testing.T) {
		bot := d.token(M{"name": "bot", "role": "agent", "profile": "bot"})
		over := M{"path": "f", "content": "over\n"}
		if dec := ask(bot, "write_file", over); dec["reason"] != "author_opt_out" {
			t.Fatalf("before: %v", dec)
		}
		write(t, in(".holdpoint.toml"), "require_approval = true\nswitch_off = [\"allow_delete\"]\nmax_change = 40\n[floors]\ncreate_directory = 2\n[deadlines]\nT2 = \"5m\"\nT4 = \"100h\"\n")
		if dec := ask(bot, "write_file", over); dec["reason"] != "overwrite" || dec["verdict"] != "review" {
			t.Errorf("require_approval: %v", dec)
		}
		s, r := d.send(bot, M{"op": "delete_file", "args": M{"path": "f"}})
		fails(t, s, r, 403, "operation_disabled")
		s, r = d.send(bot, M{"op": "create_directory", "args": M{"path": "n"}})
		fails(t, s, r, 403, "clearance_too_low")
		s, r = d.send(bot, M{"op": "write_file", "args": M{"path": "n", "content": strings.Repeat("x", 50)}})
		fails(t, s, r, 413, "too_large")
		_, held := d.send(bot, M{"op": "write_file", "args": over})
		if end, err := time.Parse(time.RFC3339, text(held, "approval", "expires_at")); err != nil || time.Until(end) > 5*time.Minute {
			t.Errorf("the deadline: %v", held["approval"])
		}
		write(t, in(".holdpoint.toml"), "mode = \"prompt\"\n")
		if dec := ask(d.Agent, "edit_file", edit); dec["reason"] != "mode_restricted" {
			t.Errorf("mode: %v", dec)
		}
		for _, loose := range []string{"mode = \"yolo\"\n", "require_approval = false\nallow_exec = true\n", "[profiles.default]\nrequire_approval = false\n", "switch_off = [\"allow_all\"]\n", "not toml", "[grants]\nscope = \"project\"\n"} {
			write(t, in(".holdpoint.toml"), loose)
			if dec := ask(bot, "edit_file", edit); dec["verdict"] != "review" {
				t.Errorf("%q: %v", loose, dec)
			}
			if s, r := d.call2("workspace_shell", M{"command": "true"}); code(r) != "operation_disabled" {
				t.Errorf("%q: %d %v", loose, s, r)
			}
			if _, status := d.http("GET", "/v1/status", d.Agent, nil); !strings.Contains(fmt.Sprint(status["roots"]), "workspace_config") {
				t.Errorf("%q: status %v", loose, status["roots"])
			}
		}
		write(t, in(".holdpoint.toml"), "mode = \"auto\"\nrequire_approval = false\n")
		if dec := ask(bot, "write_file", over); dec["reason"] != "author_opt_out" {
			t.Errorf("what takes nothing away: %v", dec)
		}
		if dec := ask(bot, "delete_file", M{"path": ".holdpoint.toml"}); !strings.Contains(fmt.Sprint(dec), "protected_target") {
			t.Errorf("its delete: %v", dec)
		}
		if dec := ask(bot, "write_file", M{"path": ".holdpoint.toml", "content": ""}); dec["reason"] != "protected_target" {
			t.Errorf("its change: %v", dec)
		}
	})
}
