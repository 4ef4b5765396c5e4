package e2e

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// auditLines reads the audit as it lies on disk.
func (d *daemon) auditLines() []string {
	d.t.Helper()
	var out []string
	files, _ := filepath.Glob(filepath.Join(d.State, "audit", "*"))
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			d.t.Fatal(err)
		}
		for _, l := range strings.Split(string(b), "\n") {
			if strings.HasPrefix(l, "{") && strings.Contains(l, `"seq"`) && strings.Contains(l, `"kind"`) {
				out = append(out, l)
			}
		}
	}
	return out
}

func TestAudit(t *testing.T) {
	t.Parallel()
	d := quick(t, "[profiles.free]\nrequire_approval = false\n")
	in := func(p string) string { return filepath.Join(d.Root, p) }
	free := d.token(M{"name": "free", "role": "agent", "workflow": "wf", "profile": "free"})
	fields := []string{"seq", "time", "prev", "kind", "tool", "decision", "reason", "also", "mandatory", "trusted_policy_id", "grant_id", "pinned", "agent", "workflow_id", "execution_id", "approval_id", "operation_id", "outcome", "undo"}
	t.Run("C134, C135, X31, X35 N calls leave N records, in order, each with all its fields", func(t *testing.T) {
		write(t, in("f"), "x\n")
		write(t, in("g"), "x\n")
		n := len(d.records())
		sent := []struct {
			token, op string
			args      M
			decision  string
			reason    string
			outcome   string
			pinned    bool
		}{
			{d.Agent, "view_file", M{"path": "f"}, "auto_execute", "read_only", "done", false},
			{d.Agent, "edit_file", M{"path": "f", "old_string": "x", "new_string": "y"}, "auto_execute", "low_impact_scoped_change", "done", true},
			{d.Agent, "delete_file", M{"path": "g"}, "require_user_approval", "destructive_operation", "review", true},
			{free, "write_file", M{"path": "f", "content": "z"}, "auto_execute", "author_opt_out", "done", true},
			{d.Agent, "edit_file", M{"path": "f", "old_string": "nope", "new_string": "y"}, "refuse", "", "no_match", false},
			{d.Agent, "view_file", M{"path": "../x"}, "refuse", "", "outside_workspace", false},
			{d.Agent, "no_such", M{}, "refuse", "unknown_operation", "unknown_operation", false},
		}
		for _, c := range sent {
			d.send(c.token, M{"op": c.op, "args": c.args, "execution_id": "exec-1"})
		}
		got := d.records()[n:]
		if len(got) != len(sent) {
			t.Fatalf("%d records of %d calls", len(got), len(sent))
		}
		for i, c := range sent {
			r := got[i]
			has(t, r, fields...)
			if len(r) != len(fields) {
				t.Errorf("further fields: %v", r)
			}
			tool := c.op
			if tool == "no_such" {
				tool = "unknown" // a name that does not exist is the caller's free text
			}
			if r["kind"] != "call" || r["tool"] != tool || r["decision"] != c.decision || r["reason"] != c.reason || r["outcome"] != c.outcome || r["pinned"] != c.pinned && c.pinned || r["execution_id"] != "exec-1" && c.op != "no_such" {
				t.Errorf("%s: got %v", c.op, r)
			}
			if i > 0 && number(r["seq"]) != number(got[i-1]["seq"])+1 {
				t.Errorf("seq %v after %v", r["seq"], got[i-1]["seq"])
			}
		}
		if got[3]["workflow_id"] != "wf" || got[3]["agent"] != "free" || got[2]["mandatory"] != true || got[1]["operation_id"] == "" || got[1]["undo"] != true || got[2]["approval_id"] == "" {
			t.Errorf("got %v", got)
		}
	})
	t.Run("C136, S81 no argument, path or content is in any log, record, list or event", func(t *testing.T) {
		canaries := []string{"CANARYpath", "CANARYcontent", "CANARYold", "CANARYnew", "CANARYintent", "CANARYenv", "CANARYnote", "CANARYbad"}
		write(t, in("CANARYpath.txt"), "CANARYold\n")
		write(t, in(".env"), "K=CANARYenv\n")
		d.call("edit_file", M{"path": "CANARYpath.txt", "old_string": "CANARYold", "new_string": "CANARYnew"})
		d.call("write_file", M{"path": "CANARYpath2.txt", "content": "CANARYcontent"})
		d.call("edit_file", M{"path": ".env", "old_string": "nothing", "new_string": "CANARYnew"})
		d.call("edit_file", M{"path": "CANARYpath.txt", "old_string": "CANARYbad", "new_string": "x"})
		d.call("CANARYbad", M{"CANARYbad": "CANARYbad"})
		d.http("POST", "/v1/call", d.Agent, `{"op":"view_file","CANARYbad":1}`)
		d.http("POST", "/v1/call?x=CANARYbad", d.Agent+"CANARYbad", M{"op": "view_file"})
		_, held := d.send(d.Agent, M{"op": "delete_file", "args": M{"path": "CANARYpath.txt"}, "intent": "CANARYintent"})
		d.say(idOf(held), "reject", "CANARYnote")
		time.Sleep(50 * time.Millisecond)
		_, ops := d.http("GET", "/v1/audit?n=10000", d.reviewer(), nil)
		where := map[string]string{"audit": strings.Join(d.auditLines(), "\n"), "audit route": fmt.Sprint(ops), "daemon log": d.Log.String(), "events": fmt.Sprint(d.events(t, d.reviewerToken, 0))}
		for _, c := range append(canaries, d.Agent, d.reviewerToken) {
			for name, s := range where {
				if strings.Contains(s, c) {
					t.Errorf("%s holds %.12s", name, c)
				}
			}
		}
		if !strings.Contains(where["audit"], `"kind":"call"`) || len(where["events"]) < 10 {
			t.Fatalf("nothing was looked at: %d, %d", len(where["audit"]), len(where["events"]))
		}
	})
	t.Run("C137 the audit is a file of its own, one line of valid JSON a record", func(t *testing.T) {
		lines := d.auditLines()
		if len(lines) != len(d.records()) || len(lines) < 10 {
			t.Fatalf("%d lines, %d records", len(lines), len(d.records()))
		}
		for _, l := range lines {
			if m := (M{}); json.Unmarshal([]byte(l), &m) != nil || len(m) != len(fields) {
				t.Errorf("line %s", l)
			}
		}
		if strings.Contains(d.Log.String(), `"kind"`) {
			t.Error("records are in the daemon's log too")
		}
	})
	t.Run("C2 (part) the same call by HTTP and command line has one decision", func(t *testing.T) {
		write(t, in("same"), "x\n")
		before := object(d.preflight("delete_file", M{"path": "same"})["decision"])
		byHTTP := must(t, d.call("delete_file", M{"path": "same"}), "review")
		_, out, _ := d.cli("call", "delete_file", "path=same", "--json")
		byCLI := M{}
		json.Unmarshal([]byte(out), &byCLI)
		if !reflect.DeepEqual(byHTTP["decision"], byCLI["decision"]) || !reflect.DeepEqual(any(before), byHTTP["decision"]) {
			t.Errorf("got %v, %v, %v", before, byHTTP["decision"], byCLI["decision"])
		}
		all := d.records()
		a, b := all[len(all)-2], all[len(all)-1]
		for _, k := range []string{"seq", "time", "prev"} {
			delete(a, k)
			delete(b, k)
		}
		if !reflect.DeepEqual(a, b) {
			t.Errorf("records differ: %v and %v", a, b)
		}
		d.cancel(byHTTP)
	})
	t.Run("C23 (part) an argument under another tool's name gets the same decision, and a warning", func(t *testing.T) {
		write(t, in("alias"), "x\n")
		plain := d.preflight("edit_file", M{"path": "alias", "old_string": "x", "new_string": "y"})
		for _, args := range []M{{"file_path": "alias", "old_str": "x", "new_str": "y"}, {"filePath": "alias", "oldText": "x", "newText": "y"}, {"target_file": "alias", "edits": []M{{"old_content": "x", "new_content": "y"}}}} {
			look := d.preflight("edit_file", args)
			if !reflect.DeepEqual(look["decision"], plain["decision"]) || len(objects(look["warnings"])) == 0 || text(objects(look["warnings"])[0], "code") != "alias" {
				t.Errorf("%v: got %v %v", args, look["decision"], look["warnings"])
			}
		}
		a := must(t, d.call("delete_file", M{"path": "alias"}), "review")
		b := must(t, d.call("delete_file", M{"file_path": "alias"}), "review")
		if idOf(a) != idOf(b) {
			t.Error("an alias made another row")
		}
	})
	t.Run("X59 (part) the records are chained, and verify says so on the command line", func(t *testing.T) {
		if exit, out, errs := d.cli("audit", "verify"); exit != 0 {
			t.Fatalf("exit %d %s %s", exit, out, errs)
		}
		exit, out, _ := d.cli("audit", "tail", "--json")
		if exit != 0 || !strings.Contains(out, `"seq"`) {
			t.Errorf("tail: exit %d %.100s", exit, out)
		}
		exit, head, _ := d.cli("audit", "head", "--json")
		file := filepath.Join(t.TempDir(), "head")
		write(t, file, head)
		if exit != 0 {
			t.Errorf("head: exit %d", exit)
		}
		d.call("view_file", M{"path": "f"})
		if exit, out, errs := d.cli("audit", "verify", "--head", file); exit != 0 {
			t.Errorf("verify with a head: exit %d %s %s", exit, out, errs)
		}
	})
	t.Run("C138 when the audit cannot be written nothing is changed, and nothing waits", func(t *testing.T) {
		write(t, in("last"), "x\n")
		files, _ := filepath.Glob(filepath.Join(d.State, "audit", "*"))
		asRootOnly(t, "the audit is made immutable")
		chattr(t, "+i", append(files, filepath.Join(d.State, "audit"))...)
		defer chattr(t, "-i", append(files, filepath.Join(d.State, "audit"))...)
		before := digest(t, d.Root)
		n := len(d.cards(""))
		for _, c := range []struct {
			op   string
			args M
		}{{"edit_file", M{"path": "last", "old_string": "x", "new_string": "y"}}, {"write_file", M{"path": "new", "content": "x"}}, {"delete_file", M{"path": "last"}}} {
			r := d.call(c.op, c.args)
			if r["status"] != "failed" || r["effects_executed"] != false || r["approval"] != nil {
				t.Errorf("%s: got %v %v", c.op, r["status"], r["error"])
			}
		}
		if digest(t, d.Root) != before || len(d.cards("")) != n {
			t.Fatal("something was changed or queued")
		}
		chattr(t, "-i", append(files, filepath.Join(d.State, "audit"))...)
		must(t, d.call("edit_file", M{"path": "last", "old_string": "x", "new_string": "y"}), "done")
	})
}

func TestStart(t *testing.T) {
	t.Parallel()
	t.Run("S82 directories are 0700 and files 0600, whatever the umask, the socket too", func(t *testing.T) {
		for _, umask := range []string{"000", "022"} {
			d := under(t, "sh", "-c", "umask "+umask+`; exec "$@"`, "sh")
			write(t, filepath.Join(d.Root, "f"), "x\n")
			must(t, d.call("edit_file", M{"path": "f", "old_string": "x", "new_string": "y"}), "done")
			must(t, d.call("delete_file", M{"path": "f"}), "review")
			seen := 0
			err := filepath.Walk(d.State, func(p string, info os.FileInfo, err error) error {
				if err != nil {
					return err
				}
				if strings.Contains(p, "/store/") && info.Mode().IsRegular() {
					return nil // a kept file has the mode it goes back with; its folder is closed
				}
				seen++
				want := os.FileMode(0o600)
				if info.IsDir() {
					want = 0o700
				}
				if info.Mode().Perm() != want {
					t.Errorf("umask %s: %s is %v", umask, p, info.Mode())
				}
				return nil
			})
			if err != nil || seen < 8 {
				t.Errorf("%d looked at, %v", seen, err)
			}
		}
	})
	t.Run("S83 (part) a state directory that another could have made or can write is not used", func(t *testing.T) {
		for what, spoil := range map[string]func(base, state string){
			"group-writable": func(_, s string) { os.Mkdir(s, 0o700); os.Chmod(s, 0o770) },
			"another owner":  func(_, s string) { os.Mkdir(s, 0o700) },
			"a link":         func(b, s string) { os.Mkdir(b+"/real", 0o700); os.Symlink("real", s) },
			"open to all":    func(_, s string) { os.Mkdir(s, 0o700); os.Chmod(s, 0o777) },
			"an open parent": func(b, _ string) { os.Chmod(b, 0o777) },
			"a file":         func(_, s string) { os.WriteFile(s, nil, 0o600) },
		} {
			root, state := dirs(t)
			spoil(filepath.Dir(root), state)
			if what == "another owner" && !anothers(t, &state) {
				continue
			}
			exit, out := refuses(t, root, state, []string{"HOLDPOINT_SOCKET=" + filepath.Join(shortDir(t), "s.sock"), "XDG_CONFIG_HOME=" + shortDir(t)})
			if exit == 0 || !strings.Contains(out, "state_unsafe") && what != "a file" || !strings.Contains(out, "state") {
				t.Errorf("%s: exit %d, %s", what, exit, out)
			}
			os.Chmod(filepath.Dir(root), 0o755)
			if what != "a file" && what != "an open parent" {
				if got := entriesOf(t, state); len(got) != 0 {
					t.Errorf("%s: something was made inside: %v", what, got)
				}
			}
		}
	})
	t.Run("S33 no configuration is read from the current directory, and of the workspace only the file that can tighten", func(t *testing.T) {
		root, state := dirs(t)
		conf := "[profiles.default]\nrequire_approval = false\nallow_delete = false\nprotected = [\"*\"]\n"
		for _, name := range []string{"holdpoint.toml", ".config/holdpoint/holdpoint.toml", "config.toml", ".holdpoint/holdpoint.toml"} {
			write(t, filepath.Join(root, name), conf)
		}
		write(t, filepath.Join(root, ".env"), "HOLDPOINT_PROTECTED_PATTERNS=*\nHOLDPOINT_REVIEW_PASSPHRASE=from the workspace\nHOLDPOINT_CONFIG="+filepath.Join(root, "holdpoint.toml")+"\n")
		write(t, filepath.Join(root, "policy.json"), `{"policies":[]}`)
		write(t, filepath.Join(root, "f"), "x\n")
		d := underOn(t, root, state, "sh", "-c", "cd "+root+` && exec "$@"`, "sh")
		if got := d.reasonOf(t, "free.txt"); got != "low_impact_scoped_change" {
			t.Errorf("patterns of the workspace hold: %s", got)
		}
		held := must(t, d.call("write_file", M{"path": "f", "content": "y"}), "review")
		if text(held, "decision", "reason") != "overwrite" {
			t.Errorf("got %v", held["decision"])
		}
		must(t, d.call("delete_file", M{"path": "f"}), "review")
		_, status := d.http("GET", "/v1/status", d.reviewer(), nil)
		if text(status, "policy", "state") != "none" {
			t.Errorf("policy: %v", status["policy"])
		}
	})
	t.Run("a configuration that is half understood stops the start, naming the key", func(t *testing.T) {
		for conf, word := range map[string]string{"keeep = \"30d\"\n": "keeep", "[profiles.default]\nalow_read = true\n": "alow_read", "[deadlines]\nT9 = \"1m\"\n": "T9", "[floors]\nfly = 2\n": "fly", "keep = \"soon\"\n": "keep", "[profiles.x\n": "profiles"} {
			root, state := dirs(t)
			file := filepath.Join(filepath.Dir(root), "c.toml")
			write(t, file, conf)
			if exit, out := refuses(t, root, state, nil, "--config", file); exit != 6 || !strings.Contains(out, word) {
				t.Errorf("%q: exit %d, %s", conf, exit, out)
			}
		}
	})
	t.Run("U43 the daemon works without any network, and opens no socket of its own beyond the one it serves", func(t *testing.T) {
		d := under(t, noNetwork()...)
		write(t, filepath.Join(d.Root, "f"), "x\n")
		r := must(t, d.call("edit_file", M{"path": "f", "old_string": "x", "new_string": "y"}), "done")
		must(t, d.undo(r), "done")
		must(t, d.approve(must(t, d.call("delete_file", M{"path": "f"}), "review")), "done")
		for _, table := range []string{"tcp", "tcp6", "udp", "udp6", "raw"} {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", d.cmd.Process.Pid, table))
			if err != nil {
				t.Fatal(err)
			}
			if lines := bytes.Count(bytes.TrimSpace(b), []byte("\n")); lines != 0 {
				t.Errorf("%s: %s", table, b)
			}
		}
	})
	t.Run("S98 (part) a second daemon on the same state is refused", func(t *testing.T) {
		d := quick(t, "")
		exit, out := refuses(t, filepath.Dir(d.Root), d.State, []string{"HOLDPOINT_SOCKET=" + filepath.Join(shortDir(t), "s.sock")}, "--allow-broad-root")
		if exit == 0 || !strings.Contains(out, "state_locked") {
			t.Errorf("exit %d, %s", exit, out)
		}
		if status, _ := d.http("GET", "/v1/status", d.Agent, nil); status != 200 {
			t.Errorf("the first: %d", status)
		}
	})
	t.Run("S4 (part) the binary was made by a toolchain that has the fixes", func(t *testing.T) {
		info, err := buildinfo.ReadFile(binary)
		if err != nil {
			t.Fatal(err)
		}
		var minor, patch int
		if n, _ := fmt.Sscanf(info.GoVersion, "go1.%d.%d", &minor, &patch); n < 1 || minor < 26 || minor == 26 && patch < 5 {
			t.Errorf("made by %s", info.GoVersion)
		}
	})
}
