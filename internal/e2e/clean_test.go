package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// old gives a file an age of days.
func old(t testing.TB, path string, days int) {
	t.Helper()
	at := time.Now().Add(-time.Duration(days) * 24 * time.Hour)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

// nightly is a root with build output, some of it old, and the policy that cleans it.
type nightly struct {
	*daemon
	file   string // the policy
	secret string // of the workflow
}

func newNightly(t *testing.T, conf string, entries ...M) nightly {
	root, state := dirs(t)
	n := nightly{file: policyFile(t, filepath.Dir(root), entriesFor(root, entries)...)}
	n.daemon = quickOn(t, root, state, conf, []string{"HOLDPOINT_TRUSTED_AUTOMATION_POLICY_FILE=" + n.file})
	n.secret = n.token(M{"name": "night", "role": "agent", "workflow": "nightly", "profile": "bot"})
	for i, p := range []string{"build/a.o", "build/deep/b.o", "build/c.log", "build/new.o", "build2/d.o", "src/e.o", "build/look-alike.obj"} {
		write(t, filepath.Join(root, p), fmt.Sprintf("%s\n", p))
		if p != "build/new.o" {
			old(t, filepath.Join(root, p), 40+i)
		}
	}
	return n
}

func entriesFor(root string, entries []M) []M {
	list := append([]M{{"id": "clean", "workflow_ids": []string{"nightly"}, "operations": []string{"delete_file", "batch_file_ops"}, "roots": []string{filepath.Join(root, "build")},
		"select": M{"include": []string{"*.o", "*.log"}, "older_than": "30d", "max_files": 200}}}, entries...)
	return list
}

func (n nightly) clean(more M) M {
	n.t.Helper()
	_, r := n.http("POST", "/v1/clean", n.secret, merge(M{"policy_id": "clean"}, more))
	return r
}

func exists(path string) bool { _, err := os.Lstat(path); return err == nil }

const botConf = "[profiles.bot]\nrequire_approval = false\n"

func TestClean(t *testing.T) {
	t.Parallel()
	n := newNightly(t, botConf)
	in := func(p string) string { return filepath.Join(n.Root, p) }
	before := digest(t, n.Root)
	t.Run("I48 (part) a rehearsal of a cleanup names what would go, and moves nothing", func(t *testing.T) {
		r := must(t, n.clean(M{"dry_run": true}), "done")
		if res := object(r["result"]); res["count"] != 3.0 || !strings.Contains(fmt.Sprint(res["sample"]), "build/deep/b.o") || r["undo_credential"] != nil || digest(t, n.Root) != before {
			t.Fatalf("got %v", r)
		}
	})
	t.Run("I48, I53, I54, C113 code picks by the entry's patterns, age and roots, into quarantine, as one batch on record with the entry's id; undo brings all back", func(t *testing.T) {
		r := must(t, n.clean(M{"execution_id": "run-7"}), "done")
		for p, gone := range map[string]bool{"build/a.o": true, "build/deep/b.o": true, "build/c.log": true, "build/new.o": false, "build2/d.o": false, "src/e.o": false, "build/look-alike.obj": false} {
			if exists(in(p)) == gone {
				t.Errorf("%s: gone is not %v", p, gone)
			}
		}
		rec := n.last()
		if text(r, "decision", "trusted_policy_id") != "clean" || rec["trusted_policy_id"] != "clean" || rec["tool"] != "batch_file_ops" || rec["workflow_id"] != "nightly" || rec["execution_id"] != "run-7" || rec["outcome"] != "done" {
			t.Errorf("decision %v, audit %v", r["decision"], rec)
		}
		if len(n.cards("")) != 0 || len(objects(r["effects"])) != 3 {
			t.Errorf("got %v", r)
		}
		_, u := n.http("POST", "/v1/undo", n.secret, M{"credential": r["undo_credential"]})
		must(t, u, "done")
		if digest(t, n.Root) != before {
			t.Error("not as before")
		}
	})
	t.Run("I49 the same files chosen by name wait for a person, whoever chose them", func(t *testing.T) {
		for _, req := range []M{{"op": "delete_file", "args": M{"path": "build/a.o"}}, {"op": "batch_file_ops", "args": M{"operations": []M{{"op": "delete_file", "args": M{"path": "build/a.o"}}}}}} {
			_, r := n.send(n.secret, req)
			must(t, r, "review")
			n.http("POST", "/v1/approvals/"+idOf(r)+"/cancel", n.secret, M{})
		}
		if s, r := n.http("POST", "/v1/clean", n.secret, M{"policy_id": "clean", "paths": []string{"src/e.o"}}); s != 400 || code(r) != "bad_request" {
			t.Errorf("a path in the call: %d %v", s, r)
		}
	})
	t.Run("I50 an id that is no entry of this workflow, or stands for everything, moves nothing", func(t *testing.T) {
		other := n.token(M{"name": "other", "role": "agent", "workflow": "weekly", "profile": "bot"})
		var first M
		for _, c := range []struct{ token, id string }{{n.secret, "*"}, {n.secret, "none"}, {n.secret, "CLEAN"}, {n.secret, "clean*"}, {other, "clean"}, {n.Agent, "clean"}} {
			s, r := n.http("POST", "/v1/clean", c.token, M{"policy_id": c.id})
			fails(t, s, r, 404, "not_found")
			if first == nil {
				first = r
			}
			if fmt.Sprint(r) != fmt.Sprint(first) {
				t.Errorf("%v: got %v, want the words of %v", c, r, first)
			}
		}
		s, r := n.http("POST", "/v1/clean", n.secret, M{"policy_id": ""})
		fails(t, s, r, 400, "bad_request")
		if digest(t, n.Root) != before {
			t.Error("something moved")
		}
	})
	t.Run("a protected file among the matches stays, and is counted", func(t *testing.T) {
		write(t, in("build/.ssh/k.o"), "x")
		old(t, in("build/.ssh/k.o"), 90)
		r := must(t, n.clean(M{"dry_run": true}), "done")
		if res := object(r["result"]); res["spared"] != 1.0 || res["count"] != 3.0 {
			t.Errorf("got %v", res)
		}
		os.RemoveAll(in("build/.ssh"))
	})
	t.Run("a request id makes a cleanup that was done come back as it was", func(t *testing.T) {
		first := must(t, n.clean(M{"request_id": "night-1"}), "done")
		again := must(t, n.clean(M{"request_id": "night-1"}), "done")
		if first["operation_id"] != again["operation_id"] || first["operation_id"] == nil || object(first["result"])["count"] != 3.0 || object(again["result"])["count"] != 3.0 {
			t.Errorf("got %v and %v", first["operation_id"], again["operation_id"])
		}
	})
	t.Run("I51 no match is a plain nothing to do", func(t *testing.T) {
		r := must(t, n.clean(nil), "done")
		if res := object(r["result"]); res["count"] != 0.0 || !strings.Contains(text(res, "message"), "nothing to do") || r["effects_executed"] != false || r["operation_id"] != nil {
			t.Errorf("got %v", r)
		}
	})
	t.Run("I52 one call takes the newest up to the entry's number, and tells how many remain and how to undo", func(t *testing.T) {
		for i := range 201 {
			p := in(fmt.Sprintf("build/many/%03d.o", i))
			write(t, p, "x")
			old(t, p, 31+i)
		}
		r := must(t, n.clean(nil), "done")
		res := object(r["result"])
		if res["count"] != 200.0 || res["remaining"] != 1.0 || len(res["sample"].([]any)) == 0 || !strings.Contains(text(res, "undo"), "undo") {
			t.Fatalf("got %v", res)
		}
		if !exists(in("build/many/200.o")) || exists(in("build/many/000.o")) {
			t.Error("not the newest went")
		}
	})
}

// TestNightly runs the cleanup as a scheduler does: a script, a token, and nobody there.
func TestNightly(t *testing.T) {
	t.Parallel()
	byName := func(root string) M {
		return M{"id": "by-name", "workflow_ids": []string{"nightly"}, "operations": []string{"delete_file", "move_file"}, "roots": []string{filepath.Join(root, "out")}}
	}
	root, state := dirs(t)
	entries := entriesFor(root, []M{byName(root)})
	file := policyFile(t, filepath.Dir(root), entries...)
	d := quickOn(t, root, state, botConf, []string{"HOLDPOINT_TRUSTED_AUTOMATION_POLICY_FILE=" + file})
	secret := d.token(M{"name": "night", "role": "agent", "workflow": "nightly", "profile": "bot"})
	in := func(p string) string { return filepath.Join(root, p) }
	for _, p := range []string{"build/a.o", "build/b.o", "out/x", "out2/x", "out/keep/.env", "src/x", "elsewhere/x"} {
		write(t, in(p), "x\n")
		old(t, in(p), 60)
	}
	before := digest(t, root)
	restore := func(id string) {
		t.Helper()
		_, u := d.http("POST", "/v1/undo", secret, M{"operation_id": id})
		must(t, u, "done")
		if digest(t, root) != before {
			t.Fatal("not as before")
		}
	}
	t.Run("C106, C112, I48 (part) the nightly script runs with nobody watching, and its undo brings all back", func(t *testing.T) {
		script := `set -eu
"$BIN" clean clean --dry-run
"$BIN" clean clean --json >"$OUT"
`
		out := filepath.Join(filepath.Dir(root), "out.json")
		cmd := exec.Command("sh", "-c", script)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOLDPOINT_SOCKET=" + d.Socket, "HOLDPOINT_TOKEN=" + secret, "BIN=" + binary, "OUT=" + out}
		if b, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(b), "2 files") {
			t.Fatalf("%v\n%s", err, b)
		}
		r := decoded(t, read(t, out))
		if exists(in("build/a.o")) || exists(in("build/b.o")) || len(d.cards("")) != 0 {
			t.Fatalf("got %v", r)
		}
		restore(text(r, "operation_id"))
		// Control for what must not run: the entry that names operations does lift a delete.
		_, r = d.send(secret, M{"op": "delete_file", "args": M{"path": "out/x"}})
		restore(text(must(t, r, "done"), "operation_id"))
		_, r = d.send(secret, M{"op": "move_file", "args": M{"source": "out/x", "destination": "out/y"}})
		restore(text(must(t, r, "done"), "operation_id"))
	})
	held := func(t *testing.T, token, op string, args M) {
		t.Helper()
		s, r := d.send(token, M{"op": op, "args": args})
		if s != 202 || text(r, "status") != "review" || text(r, "decision", "trusted_policy_id") != "" {
			t.Errorf("%s %v: got %d %v", op, args, s, r["decision"])
		}
		d.http("POST", "/v1/approvals/"+idOf(r)+"/cancel", token, M{})
		if digest(t, root) != before {
			t.Fatal("something was done")
		}
	}
	unclean := func(t *testing.T, token string, status int, want string) {
		t.Helper()
		s, r := d.http("POST", "/v1/clean", token, M{"policy_id": "clean"})
		if s != status || want != "" && code(r) != want || digest(t, root) != before {
			t.Errorf("clean: got %d %v", s, r)
		}
	}
	x := M{"path": "out/x"}
	t.Run("C112 another workflow", func(t *testing.T) {
		other := d.token(M{"name": "weekly", "role": "agent", "workflow": "weekly", "profile": "bot"})
		held(t, other, "delete_file", x)
		unclean(t, other, 404, "not_found")
	})
	t.Run("C112 require_approval on", func(t *testing.T) {
		careful := d.token(M{"name": "careful", "role": "agent", "workflow": "nightly"})
		held(t, careful, "delete_file", x)
		unclean(t, careful, 202, "")
		_, list := d.http("GET", "/v1/approvals?state=pending&mine=true", careful, nil)
		for _, c := range objects(list["approvals"]) {
			d.http("POST", "/v1/approvals/"+text(c, "id")+"/cancel", careful, M{})
		}
	})
	t.Run("C110, S97 (part) another root, a sibling with the same beginning, and a move out of the roots", func(t *testing.T) {
		held(t, secret, "delete_file", M{"path": "src/x"})
		held(t, secret, "delete_file", M{"path": "out2/x"})
		held(t, secret, "move_file", M{"source": "out/x", "destination": "elsewhere/y"})
		held(t, secret, "move_file", M{"source": "elsewhere/x", "destination": "out/y"})
	})
	t.Run("C115 a protected child", func(t *testing.T) {
		held(t, secret, "delete_file", M{"path": "out/keep", "recursive": true})
		held(t, secret, "delete_file", M{"path": "out/keep/.env"})
	})
	text0 := read(t, file)
	mend := func() {
		os.Remove(file)
		write(t, file, text0)
		os.Chmod(file, 0o600)
	}
	policy := func() string {
		_, s := d.http("GET", "/v1/status", d.Agent, nil)
		return text(s, "policy", "state")
	}
	t.Run("C114 a file that the group may write, and one edited to invalid JSON, trust nothing, and status says so", func(t *testing.T) {
		for state, spoil := range map[string]func(){
			"policy_unsafe_permissions": func() { os.Chmod(file, 0o620) },
			"policy_invalid":            func() { os.WriteFile(file, []byte(text0[:len(text0)-3]), 0o600) },
		} {
			spoil()
			held(t, secret, "delete_file", x)
			unclean(t, secret, 404, "not_found")
			if policy() != state {
				t.Errorf("status: got %s, want %s", policy(), state)
			}
			if rc, _, errs := d.cli("policy", "check", file); rc == 0 || !strings.Contains(errs, state) {
				t.Errorf("policy check: %d %s", rc, errs)
			}
			mend()
			_, r := d.send(secret, M{"op": "delete_file", "args": x})
			restore(text(must(t, r, "done"), "operation_id"))
			if policy() != "ok" {
				t.Errorf("mended: %s", policy())
			}
		}
	})
	t.Run("C111 (part) a root that is a link inside the workspace covers nothing; client: and the key does", func(t *testing.T) {
		if err := os.Symlink("elsewhere", in("linked")); err != nil {
			t.Fatal(err)
		}
		before = digest(t, root)
		entry := byName(root)
		entry["roots"] = []string{in("linked")}
		os.Remove(file)
		policyFile(t, filepath.Dir(root), entriesFor(root, []M{entry})...)
		held(t, secret, "delete_file", M{"path": "linked/x"})
		held(t, secret, "delete_file", M{"path": "elsewhere/x"})
		_, status := d.http("GET", "/v1/status", d.Agent, nil)
		entry["roots"] = []string{"client:" + text(objects(status["roots"])[0], "key")}
		os.Remove(file)
		policyFile(t, filepath.Dir(root), entriesFor(root, []M{entry})...)
		_, r := d.send(secret, M{"op": "delete_file", "args": M{"path": "elsewhere/x"}})
		restore(text(must(t, r, "done"), "operation_id"))
		entry["roots"] = []string{"client:" + strings.Repeat("0", 32)}
		os.Remove(file)
		policyFile(t, filepath.Dir(root), entriesFor(root, []M{entry})...)
		held(t, secret, "delete_file", M{"path": "elsewhere/x"})
	})
}
