package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"holdpoint/op"
)

// judged sends a call after a preflight that must foretell it. It holds the decision on the
// preflight, the reply, the card and in the audit to what is wanted, then takes the call
// back (undo or cancel) and wants the tree as it was.
func (d *daemon) judged(t *testing.T, name string, args M, verdict string, reasons ...string) {
	t.Helper()
	d.judgedAs(t, d.Agent, name, args, verdict, reasons...)
}

func (d *daemon) judgedAs(t *testing.T, token, name string, args M, verdict string, reasons ...string) {
	t.Helper()
	before := digest(t, d.Root)
	req := M{"op": name, "args": args}
	_, look := d.http("POST", "/v1/preflight", token, req)
	if digest(t, d.Root) != before {
		t.Fatal("the preflight changed the tree")
	}
	_, r := d.send(token, req)
	record := d.last()
	for from, v := range map[string]any{"preflight": look["decision"], "reply": r["decision"]} {
		dec := object(v)
		got := append([]string{text(dec, "reason")}, words(dec["also"])...)
		if text(dec, "verdict") != verdict || !reflect.DeepEqual(got, reasons) {
			t.Fatalf("%s: got %s %v, want %s %v (%v)", from, text(dec, "verdict"), got, verdict, reasons, r["error"])
		}
	}
	if p := object(look["decision"]); !reflect.DeepEqual(p, object(r["decision"])) {
		t.Errorf("preflight foretold %v, the reply says %v", p, r["decision"])
	}
	got := append([]string{text(record, "reason")}, words(record["also"])...)
	word := map[string]string{"auto": "auto_execute", "review": "require_user_approval", "refuse": "refuse"}[verdict]
	if record["kind"] != "call" || record["tool"] != name || record["decision"] != word || !reflect.DeepEqual(got, reasons) {
		t.Errorf("audit: got %v", record)
	}
	switch verdict {
	case "auto":
		must(t, r, "done")
		_, back := d.http("POST", "/v1/undo", token, M{"credential": r["undo_credential"]})
		must(t, back, "done")
	case "review":
		must(t, r, "review")
		if digest(t, d.Root) != before {
			t.Fatal("a held call changed the tree")
		}
		var codes []string
		for _, why := range objects(d.card(r)["reasons"]) {
			codes = append(codes, text(why, "code"))
			if text(why, "sentence") == "" {
				t.Errorf("no sentence for %v", why)
			}
		}
		if !reflect.DeepEqual(codes, reasons) {
			t.Errorf("card: got %v, want %v", codes, reasons)
		}
		if code, out := d.http("POST", "/v1/approvals/"+text(r, "approval", "id")+"/cancel", token, M{}); code != 200 {
			t.Fatalf("cancel: %d %v", code, out)
		}
	}
	if digest(t, d.Root) != before {
		t.Fatal("the tree is not as before")
	}
}

func TestEnvelope(t *testing.T) {
	t.Parallel()
	d := quick(t, "", "--allow-broad-root")
	in := func(p string) string { return filepath.Join(d.Root, p) }
	write(t, in("a.txt"), "one\ntwo\n")
	write(t, in("b.txt"), "b\n")
	write(t, in(".gitignore"), "*.log\nbuild/\n")
	write(t, in("x.log"), "log\n")
	write(t, in("secrets.yaml"), "k: v\n")
	write(t, in(".env"), "A=1\n")
	write(t, in("full"), strings.Repeat("0123456789abcde\n", 4096)) // 65,536 bytes
	write(t, in("over"), strings.Repeat("0123456789abcde\n", 4096)+"!")
	write(t, in("rows"), strings.Repeat("x = 1\n", 4000))
	write(t, in("twin1"), "t\n")
	if err := os.Link(in("twin1"), in("twin2")); err != nil {
		t.Fatal(err)
	}
	const auto, review, low = "auto", "review", "low_impact_scoped_change"
	edit := func(more M) M {
		args := M{"path": "a.txt", "old_string": "one", "new_string": "1"}
		for k, v := range more {
			args[k] = v
		}
		return args
	}
	for _, c := range []struct {
		name, op string
		args     M
		verdict  string
		reasons  []string
	}{
		// Inside, one of each built operation.
		{"C28 (part) edit_file", "edit_file", edit(nil), auto, []string{low}},
		{"C28 (part) write_file", "write_file", M{"path": "new", "content": "x"}, auto, []string{low}},
		{"C28 (part) copy_file", "copy_file", M{"source": "a.txt", "destination": "c.txt"}, auto, []string{low}},
		{"C28 (part) create_directory", "create_directory", M{"path": "p"}, auto, []string{low}},
		{"C36 (part) create_directory with parents is one target", "create_directory", M{"path": "p/q/r"}, auto, []string{low}},
		// Each condition broken alone.
		{"C45, C37, C49 a protected target", "write_file", M{"path": ".env.local", "content": "x"}, review, []string{"protected_target"}},
		{"C85, C49 a one-byte edit of a protected file", "edit_file", M{"path": ".env", "old_string": "1", "new_string": "2"}, review, []string{"protected_target"}},
		{"C38, C50 an ignored target", "edit_file", M{"path": "x.log", "old_string": "log", "new_string": "l"}, review, []string{"policy_guarded_target"}},
		{"C38 a new file in an ignored directory", "write_file", M{"path": "build/o", "content": "x"}, review, []string{"policy_guarded_target"}},
		{"C38, C50 a name that looks like a secret", "edit_file", M{"path": "secrets.yaml", "old_string": "v", "new_string": "w"}, review, []string{"policy_guarded_target"}},
		{"C38 content that looks like a secret", "write_file", M{"path": "k", "content": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW\n-----END OPENSSH PRIVATE KEY-----\n"}, review, []string{"policy_guarded_target"}},
		{"C39, C51 allow_sensitive without effect", "edit_file", edit(M{"allow_sensitive": true}), review, []string{"safety_override"}},
		{"C39, C51 allow_ignored without effect", "edit_file", edit(M{"allow_ignored": true}), review, []string{"safety_override"}},
		{"C39, C51 force_overwrite without effect", "write_file", M{"path": "new", "content": "x", "force_overwrite": true}, review, []string{"safety_override"}},
		{"C39 hard_links break", "edit_file", M{"path": "twin1", "old_string": "t", "new_string": "u", "hard_links": "break"}, review, []string{"safety_override"}},
		{"C40, C52 a write over one byte", "write_file", M{"path": "b.txt", "content": "x"}, review, []string{"overwrite"}},
		{"C40 an append", "write_file", M{"path": "b.txt", "content": "x", "append": true}, review, []string{"overwrite"}},
		{"C40 a copy onto a file", "copy_file", M{"source": "a.txt", "destination": "b.txt", "overwrite": true}, review, []string{"overwrite"}},
		{"C41, C54 an edit without its backup", "edit_file", edit(M{"backup": false}), review, []string{"backup_disabled"}},
		{"C41 the backup asked for is no difference", "edit_file", edit(M{"backup": true}), auto, []string{low}},
		{"C42 (part) another place for the backup", "edit_file", edit(M{"backup_root": "elsewhere/of/mine"}), review, []string{"custom_backup_root"}},
		{"C56 custom_backup_root", "edit_file", edit(M{"backup_root": "bak"}), review, []string{"custom_backup_root"}},
		{"C43 content of 65,536 bytes", "write_file", M{"path": "new", "content": strings.Repeat("x", 65536)}, auto, []string{low}},
		{"C43, C53 content of 65,537 bytes", "write_file", M{"path": "new", "content": strings.Repeat("x", 65537)}, review, []string{"change_too_large"}},
		{"C43 bytes count, not characters", "write_file", M{"path": "new", "content": strings.Repeat("é", 32769)}, review, []string{"change_too_large"}},
		{"C44 (part) a copy of 65,536 bytes", "copy_file", M{"source": "full", "destination": "new"}, auto, []string{low}},
		{"C44 (part) a copy of 65,537 bytes", "copy_file", M{"source": "over", "destination": "new"}, review, []string{"change_too_large"}},
		{"C44 (part) many small replacements make a large diff", "edit_file", M{"path": "rows", "old_string": "x = 1", "new_string": "y = 12345", "replace_all": true}, review, []string{"change_too_large"}},
		{"C47 delete_file", "delete_file", M{"path": "b.txt"}, review, []string{"destructive_operation"}},
		{"C29 (part) an empty file in the same directory is moved", "move_file", M{"source": "b.txt", "destination": "c.txt"}, review, []string{"destructive_operation"}},
		{"cleaning ignored build output is destructive alone", "delete_file", M{"path": "x.log"}, review, []string{"destructive_operation"}},
		// Several at once: all are kept, the first leads.
		{"C66 (part) a protected delete with a force flag", "delete_file", M{"path": ".env", "force_overwrite": true}, review, []string{"destructive_operation", "protected_target", "safety_override"}},
		{"C66 (part) an overwrite that is large and backs up elsewhere", "write_file", M{"path": "b.txt", "content": strings.Repeat("x", 65537), "backup_root": "z"}, review, []string{"overwrite", "custom_backup_root", "change_too_large"}},
		{"C86 (part) into a protected place, from an ignored one", "copy_file", M{"source": "x.log", "destination": ".ssh/x"}, review, []string{"protected_target", "policy_guarded_target"}},
	} {
		t.Run(c.name, func(t *testing.T) { d.judged(t, c.op, c.args, c.verdict, c.reasons...) })
	}
	t.Run("C44 a one-byte edit of 10 MiB is small", func(t *testing.T) {
		big := in("big")
		write(t, big, strings.Repeat("0123456789abcde\n", 655360)+"end")
		defer os.Remove(big)
		r := must(t, d.call("edit_file", M{"path": "big", "old_string": "end", "new_string": "End"}), "done")
		if text(r, "decision", "reason") != low || len(text(r, "result", "diff")) > 1000 {
			t.Fatalf("got %v", r["decision"])
		}
	})
	t.Run("C15, U20 three verdicts exist, and a read is none of the person's business", func(t *testing.T) {
		for name, want := range map[string]string{"view_file": "auto", "delete_file": "review", "nonsense": "refuse"} {
			r := d.call(name, M{"path": "a.txt"})
			if text(r, "decision", "verdict") != want {
				t.Errorf("%s: got %v, want %s", name, r["decision"], want)
			}
			if want == "review" {
				d.cancel(r)
			}
		}
		if len(d.cards("pending")) != 0 {
			t.Error("a row too many")
		}
	})
}

// TestDryRun has a row for each mutating operation that is built; a new one fails it.
func TestDryRun(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	write(t, filepath.Join(d.Root, "f"), "zero\n")
	write(t, filepath.Join(d.Root, "g"), "g\n")
	undone := must(t, d.call("edit_file", M{"path": "g", "old_string": "g", "new_string": "h"}), "done")
	rows := map[op.Name]M{
		"write_file": {"path": "f", "content": "two\n"}, "edit_file": {"path": "f", "old_string": "one", "new_string": "1"},
		"copy_file": {"source": "f", "destination": "d/f"}, "create_directory": {"path": "x/y"}, "delete_file": {"path": "f"},
		"move_file": {"source": "f", "destination": "e/f"}, "undo": {"operation_id": undone["operation_id"]},
		"patch_file": {"patch": "--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n-one\n+two\n"}, "backup_file": {"path": "f"}, "rollback_file": {"path": "f", "last": true},
		"batch_file_ops": {"operations": []M{{"op": "delete_file", "args": M{"path": "g"}}, {"op": "write_file", "args": M{"path": "f", "content": "z"}}}},
	}
	must(t, d.call("backup_file", M{"path": "f", "label": "first"}), "done")
	must(t, d.call("edit_file", M{"path": "f", "old_string": "zero", "new_string": "one"}), "done")
	stat := walk(t, d.Root)
	foreseen := map[op.Name][]M{}
	for _, spec := range op.Operations() {
		if spec.Class == op.Read || spec.Class == op.Process || spec.Class == op.Switching || !spec.Built {
			continue
		}
		t.Run("C26 a dry run shows and does not do: "+string(spec.Name), func(t *testing.T) {
			args, ok := rows[spec.Name]
			if !ok {
				t.Fatal("this operation has no row here")
			}
			status, r := d.send(d.Agent, M{"op": spec.Name, "args": args, "dry_run": true})
			must(t, r, "done")
			if status != 200 || text(r, "decision", "reason") != "rehearsal" || r["effects_executed"] != false || len(objects(r["effects"])) != 0 || r["undo_credential"] != nil {
				t.Fatalf("got %d %v", status, r)
			}
			would := objects(object(r["result"])["would"])
			if len(would) == 0 {
				t.Errorf("it does not say what it would do: %v", r["result"])
			}
			foreseen[spec.Name] = would
			if got := walk(t, d.Root); !reflect.DeepEqual(got, stat) || len(d.cards("")) != 0 {
				t.Fatalf("a rehearsal changed or queued something: %v", difference(stat, got))
			}
		})
	}
	for name, would := range foreseen {
		t.Run("C26 (part) what a dry run says comes to be: "+string(name), func(t *testing.T) {
			r := d.call(string(name), rows[name])
			if text(r, "status") == "review" {
				r = d.approve(r)
			}
			must(t, r, "done")
			effects := objects(r["effects"])
			if len(effects) != len(would) {
				t.Fatalf("said %v, did %v", would, effects)
			}
			for i, e := range effects {
				said, did := object(would[i]["after"]), object(e["after"])
				for what, value := range said {
					if !reflect.DeepEqual(did[what], value) {
						t.Errorf("%v: after it %s should be %v and is %v", e["path"], what, value, did[what])
					}
				}
			}
			must(t, d.undo(r), "done")
		})
	}
	t.Run("C33 a dry run of what is switched off is refused all the same", func(t *testing.T) {
		d := quick(t, "[profiles.default]\nallow_delete = false\n")
		status, r := d.send(d.Agent, M{"op": "delete_file", "args": M{"path": "f"}, "dry_run": true})
		fails(t, status, r, 403, "operation_disabled")
	})
}

// walk gives each path with all of its stat that an observer must leave alone.
func walk(t testing.TB, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.Walk(root, func(p string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		out[p] = fmt.Sprintf("%v %d %d:%d ino %d links %d mtime %v ctime %v %v", info.Mode(), info.Size(), st.Uid, st.Gid, st.Ino, st.Nlink, st.Mtim, st.Ctim, xattrs(p))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func difference(a, b map[string]string) (out []string) {
	for p := range a {
		if a[p] != b[p] {
			out = append(out, fmt.Sprintf("%s: was %q, is %q", p, a[p], b[p]))
		}
	}
	for p := range b {
		if _, old := a[p]; !old {
			out = append(out, "new: "+p)
		}
	}
	return out
}

func TestSwitches(t *testing.T) {
	t.Parallel()
	conf := ""
	names := map[string][]string{}
	for _, spec := range op.Operations() {
		if spec.Switch != "" && names[spec.Switch] == nil {
			conf += fmt.Sprintf("[profiles.no_%s]\n%s = false\n", spec.Switch, spec.Switch)
		}
		names[spec.Switch] = append(names[spec.Switch], string(spec.Name))
	}
	d := quick(t, conf)
	write(t, filepath.Join(d.Root, "f"), "x\n")
	write(t, filepath.Join(d.Root, ".env"), "x\n")
	before := digest(t, d.Root)
	for name, ops := range names {
		t.Run("C32, C33 "+name+" off", func(t *testing.T) {
			token := d.token(M{"name": name, "role": "agent", "profile": "no_" + name})
			for _, o := range ops {
				var first M
				for _, args := range []M{{"path": "f"}, {"path": "missing"}, {"path": ".env"}, {"path": "../out"}, {"nonsense": true}, {}} {
					status, r := d.send(token, M{"op": o, "args": args})
					fails(t, status, r, 403, "operation_disabled")
					if first == nil {
						first = r
					} else if !reflect.DeepEqual(r, first) {
						t.Errorf("%s %v: the answer depends on the target: %v and %v", o, args, r, first)
					}
					if text(r, "error", "retry") != "never" {
						t.Errorf("retry: got %v", r["error"])
					}
				}
			}
			other := M{"op": "view_file", "args": M{"path": "f"}}
			if name == "allow_read" {
				other = M{"op": "delete_file", "args": M{"path": "f"}, "dry_run": true}
			}
			if _, r := d.send(token, other); r["status"] != "done" {
				t.Errorf("another switch is off as well: %v", r["error"])
			}
		})
	}
	if digest(t, d.Root) != before || len(d.cards("")) != 0 {
		t.Fatal("something was changed or queued")
	}
	t.Run("C34, C101, C14 an argument of the call names no switch, opts out of nothing and brings no trust of its own", func(t *testing.T) {
		for _, k := range []string{"approved", "trusted", "workspace_root", "risk", "workflow_id", "require_approval", "allow_delete", "approval_id", "bypass", "force", "auto", "role", "user", "profile", "clearance", "mode"} {
			status, r := d.send(d.Agent, M{"op": "delete_file", "args": M{"path": "f", k: true}})
			fails(t, status, r, 400, "bad_request")
			if text(r, "error", "field") != "args."+k {
				t.Errorf("%s: field %q", k, text(r, "error", "field"))
			}
			status, r = d.send(d.Agent, M{"op": "delete_file", "args": M{"path": "f"}, k: true})
			fails(t, status, r, 400, "bad_request")
		}
		if len(d.cards("")) != 0 {
			t.Fatal("something was queued")
		}
	})
	t.Run("S56, U7, U8, I36 whatever a reply gave back is no right to go on", func(t *testing.T) {
		held := must(t, d.call("delete_file", M{"path": "f"}), "review")
		n := len(d.records())
		for k, v := range map[string]any{"approval_id": text(held, "approval", "id"), "approval": held["approval"], "approved": true, "decision": held["decision"], "identity": text(held, "approval", "identity")} {
			status, r := d.send(d.Agent, M{"op": "delete_file", "args": M{"path": "f"}, k: v})
			fails(t, status, r, 400, "bad_request")
		}
		look := d.preflight("delete_file", M{"path": "f"})
		again := must(t, d.call("delete_file", M{"path": "f"}), "review")
		_, pinned := d.send(d.Agent, M{"op": "delete_file", "args": M{"path": "f"}, "pins": look["pins"]})
		must(t, pinned, "review")
		if text(again, "approval", "id") != text(held, "approval", "id") {
			t.Error("the same call made another row")
		}
		if all := d.records(); len(all) != n+7 || all[n]["outcome"] != "bad_request" {
			t.Errorf("%d records of 7 attempts", len(all)-n)
		}
		if digest(t, d.Root) != before {
			t.Fatal("the agent helped itself")
		}
	})
}

func TestOptOut(t *testing.T) {
	t.Parallel()
	d := quick(t, "[profiles.free]\nrequire_approval = false\n")
	token := d.token(M{"name": "free", "role": "agent", "profile": "free"})
	in := func(p string) string { return filepath.Join(d.Root, p) }
	write(t, in("f"), "x\n")
	write(t, in("g"), "x\n")
	write(t, in(".env"), "A=1\n")
	write(t, in(".gitignore"), "*.log\n")
	write(t, in("x.log"), "x\n")
	for _, c := range []struct {
		name, op string
		args     M
		verdict  string
		reasons  []string
	}{
		{"C62 an overwrite", "write_file", M{"path": "f", "content": "y\n"}, "auto", []string{"author_opt_out"}},
		{"C102 (part) too large", "write_file", M{"path": "new", "content": strings.Repeat("x", 70000)}, "auto", []string{"author_opt_out"}},
		{"C102 (part) no backup", "edit_file", M{"path": "f", "old_string": "x", "new_string": "y", "backup": false}, "auto", []string{"author_opt_out"}},
		{"C102 (part) a small edit needs no lift", "edit_file", M{"path": "f", "old_string": "x", "new_string": "y"}, "auto", []string{"low_impact_scoped_change"}},
		{"C103, C106 a delete", "delete_file", M{"path": "f"}, "review", []string{"destructive_operation"}},
		{"C103, C106 a move", "move_file", M{"source": "f", "destination": "h"}, "review", []string{"destructive_operation"}},
		{"C105 an edit of a protected file", "edit_file", M{"path": ".env", "old_string": "1", "new_string": "2"}, "review", []string{"protected_target"}},
		{"C105 an overwrite of a protected file", "write_file", M{"path": ".env", "content": "x"}, "review", []string{"protected_target", "overwrite"}},
		{"C105 a guarded file", "write_file", M{"path": "x.log", "content": "y"}, "review", []string{"policy_guarded_target", "overwrite"}},
		{"C105 a safety flag", "edit_file", M{"path": "f", "old_string": "x", "new_string": "y", "force_overwrite": true}, "review", []string{"safety_override"}},
	} {
		t.Run(c.name, func(t *testing.T) { d.judgedAs(t, token, c.op, c.args, c.verdict, c.reasons...) })
	}
	t.Run("the same calls of the default profile wait", func(t *testing.T) {
		d.judged(t, "write_file", M{"path": "f", "content": "y\n"}, "review", "overwrite")
	})
	t.Run("C133 no configuration lifts a hard rule: such keys stop the start", func(t *testing.T) {
		for _, conf := range []string{"[profiles.default]\nmode = \"yolo\"\n", "[profiles.default]\nallow_protected = true\n", "[profiles.default]\nauto_delete = true\n", "protect = false\n",
			"[profiles.default]\nmode = \"anything\"\n", "[profiles.default]\nrequire_approval = \"no\"\n", "[allow]\npaths = [\"src/**\"]\n", "protected = [\"!.env\"]\n"} {
			root, state := dirs(t)
			file := filepath.Join(filepath.Dir(state), "c.toml")
			write(t, file, conf)
			if exit, out := refuses(t, root, state, nil, "--config", file); exit == 0 {
				t.Errorf("%q: started: %s", conf, out)
			}
		}
	})
	t.Run("C4 what was held is what runs, although the configuration changed in between", func(t *testing.T) {
		held := must(t, d.call("write_file", M{"path": "f", "contents": "held\n"}), "review")
		call := object(d.card(held)["call"])
		if !reflect.DeepEqual(call["args"], M{"path": "f", "content": "held\n"}) {
			t.Errorf("the merged call: %v", call)
		}
		d.stop(syscall.SIGTERM)
		conf := d.args[len(d.args)-3] // --config FILE --review-auth token
		for i, a := range d.args {
			if a == "--config" {
				conf = d.args[i+1]
			}
		}
		write(t, conf, "[profiles.free]\nrequire_approval = false\n[profiles.default]\nallow_write = false\n")
		d.run()
		d.operator()
		done := must(t, d.approve(held), "done")
		if read(t, in("f")) != "held\n" || !reflect.DeepEqual(object(d.card(held)["call"]), call) {
			t.Errorf("got %q", read(t, in("f")))
		}
		must(t, d.undo(done), "done")
	})
	t.Run("a token whose profile is gone may do nothing", func(t *testing.T) {
		d.stop(syscall.SIGTERM)
		d.args = []string{"--review-auth", "token"}
		d.run()
		d.operator()
		status, r := d.send(token, M{"op": "view_file", "args": M{"path": "f"}})
		fails(t, status, r, 403, "operation_disabled")
	})
}

// TestModes runs profiles whose mode is stricter than auto.
func TestModes(t *testing.T) {
	t.Parallel()
	d := quick(t, "[profiles.deny]\nmode = \"deny\"\n[profiles.prompt]\nmode = \"prompt\"\n[profiles.free]\nmode = \"prompt\"\nrequire_approval = false\n")
	file := filepath.Join(d.Root, "f")
	write(t, file, "x\n")
	deny, prompt, free := d.token(M{"name": "deny", "role": "agent", "profile": "deny"}), d.token(M{"name": "prompt", "role": "agent", "profile": "prompt"}), d.token(M{"name": "free", "role": "agent", "profile": "free"})
	edit := M{"path": "f", "old_string": "x", "new_string": "y"}
	before := digest(t, d.Root)
	hold := func(t *testing.T, token string, req M, reasons ...string) M {
		t.Helper()
		_, r := d.send(token, req)
		must(t, r, "review")
		if got := append([]string{text(r, "decision", "reason")}, words(object(r["decision"])["also"])...); !reflect.DeepEqual(got, reasons) {
			t.Fatalf("got %v, want %v", got, reasons)
		}
		return r
	}
	t.Run("X11 (part) the mode is the highest tier that runs without asking", func(t *testing.T) {
		for _, c := range []struct {
			token, op string
			args      M
			tier      string
			asks      bool
		}{
			{deny, "view_file", M{"path": "f"}, "T1", true}, {deny, "edit_file", edit, "T2", true}, {deny, "delete_file", M{"path": "f"}, "T4", true},
			{prompt, "view_file", M{"path": "f"}, "T1", false}, {prompt, "edit_file", edit, "T2", true}, {prompt, "delete_file", M{"path": "f"}, "T4", true},
			{d.Agent, "view_file", M{"path": "f"}, "T1", false}, {d.Agent, "edit_file", edit, "T2", false}, {d.Agent, "delete_file", M{"path": "f"}, "T4", true},
		} {
			_, look := d.http("POST", "/v1/preflight", c.token, M{"op": c.op, "args": c.args})
			if text(look, "decision", "tier") != c.tier || (text(look, "decision", "verdict") == "review") != c.asks {
				t.Errorf("%s: got %v, want tier %s, asks %v", c.op, look["decision"], c.tier, c.asks)
			}
		}
	})
	t.Run("X5, X7, X13 without a word of anybody the mode is auto: small changes run, what destroys waits and is not refused", func(t *testing.T) {
		for o, want := range map[string]string{"edit_file": "auto", "delete_file": "review"} {
			args := edit
			if o == "delete_file" {
				args = M{"path": "f"}
			}
			if look := d.preflight(o, args); text(look, "decision", "verdict") != want {
				t.Errorf("%s: got %v", o, look["decision"])
			}
		}
	})
	t.Run("X12, X4 deny asks even for a read, and releases exactly that read", func(t *testing.T) {
		r := hold(t, deny, M{"op": "view_file", "args": M{"path": "f"}}, "mode_restricted")
		card := d.card(r)
		if text(card, "title") == "" || len(words(card["lines"])) == 0 || card["effect"] != "read" {
			t.Errorf("card: %v", card)
		}
		if done := must(t, d.approve(r), "done"); text(done, "result", "content") != "x\n" || done["effects_executed"] != false {
			t.Fatalf("got %v", done)
		}
		list := hold(t, deny, M{"op": "list_directory", "args": M{}}, "mode_restricted")
		if done := must(t, d.approve(list), "done"); number(object(done["result"])["total"]) != 1 {
			t.Fatalf("got %v", done["result"])
		}
	})
	t.Run("C26 (part) a rehearsal that deny held stays a rehearsal when it is approved", func(t *testing.T) {
		for _, req := range []M{{"op": "delete_file", "args": M{"path": "f"}, "dry_run": true}, {"op": "edit_file", "args": edit, "dry_run": true}} {
			r := hold(t, deny, req, "mode_restricted")
			done := must(t, d.approve(r), "done")
			if digest(t, d.Root) != before || done["effects_executed"] != false || done["undo_credential"] != nil {
				t.Fatalf("the rehearsal was carried out: %v", done)
			}
		}
	})
	t.Run("X14 (part) the mode adds to the reasons, and the opt-out does not lift it", func(t *testing.T) {
		hold(t, deny, M{"op": "delete_file", "args": M{"path": "f"}}, "destructive_operation", "mode_restricted")
		hold(t, free, M{"op": "edit_file", "args": edit}, "mode_restricted")
		hold(t, free, M{"op": "write_file", "args": M{"path": "f", "content": "z"}}, "overwrite", "mode_restricted")
	})
	t.Run("an undo is not restricted", func(t *testing.T) {
		held := hold(t, prompt, M{"op": "edit_file", "args": edit}, "mode_restricted")
		done := must(t, d.approve(held), "done")
		_, back := d.http("POST", "/v1/undo", prompt, M{"credential": done["undo_credential"]})
		must(t, back, "done")
		if digest(t, d.Root) != before {
			t.Fatal("not as before")
		}
	})
	t.Run("C134 (part) one call record each, and one end and answer of each held call that was answered", func(t *testing.T) {
		kinds := map[any]map[any]int{}
		for _, r := range d.records() {
			if id := r["approval_id"]; id != "" {
				if kinds[id] == nil {
					kinds[id] = map[any]int{}
				}
				kinds[id][r["kind"]]++
			}
		}
		for _, c := range d.cards("executed") {
			if got := kinds[c["id"]]; !reflect.DeepEqual(got, map[any]int{"call": 1, "answer": 1, "end": 1}) {
				t.Errorf("%v: got %v", c["title"], got)
			}
		}
	})
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	in := func(p string) string { return filepath.Join(d.Root, p) }
	write(t, in("f"), "one CANARY-old\n")
	if err := os.Chmod(in("f"), 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	write(t, in("empty"), "")
	write(t, in("dir/keep"), "k\n")
	t.Run("C88, C96, C146, I69 each adaptive operation hands out a credential that tells exactly what it did, without content", func(t *testing.T) {
		rows := map[op.Name]M{
			"write_file": {"path": "n/m/new", "content": "CANARY-new"}, "edit_file": {"path": "f", "old_string": "CANARY-old", "new_string": "CANARY-edit"},
			"copy_file": {"source": "f", "destination": "n2/copy"}, "create_directory": {"path": "p/q"}, "backup_file": {"path": "f"},
			"patch_file": {"patch": "--- a/dir/keep\n+++ b/dir/keep\n@@ -1,1 +1,1 @@\n-k\n+CANARY-patched\n"},
		}
		for _, spec := range op.Operations() {
			if spec.Class != op.Adaptive || !spec.Built {
				continue
			}
			args, ok := rows[spec.Name]
			if !ok {
				t.Errorf("%s has no row here", spec.Name)
				continue
			}
			before, tree := digest(t, d.Root), shape(t, d.Root)
			r := must(t, d.call(string(spec.Name), args), "done")
			cred := object(r["undo_credential"])
			has(t, cred, "id", "operation_id", "op", "root", "effects", "expires_at", "seal")
			if !reflect.DeepEqual(cred["effects"], r["effects"]) || cred["operation_id"] != r["operation_id"] {
				t.Errorf("%s: credential and reply differ", spec.Name)
			}
			if b, _ := json.Marshal(cred); bytes.Contains(b, []byte("CANARY")) {
				t.Errorf("%s: content in the credential", spec.Name)
			}
			if got, want := told(r), moved(tree, shape(t, d.Root)); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: the receipt tells %v, the tree says %v", spec.Name, got, want)
			}
			must(t, d.undo(r), "done")
			if digest(t, d.Root) != before {
				t.Errorf("%s: the undo did not bring the tree back", spec.Name)
			}
		}
	})
	t.Run("C89 an edit goes back to bytes and mode, and refuses after a foreign edit", func(t *testing.T) {
		r := must(t, d.call("edit_file", M{"path": "f", "old_string": "one", "new_string": "1"}), "done")
		if fi, _ := os.Stat(in("f")); fi.Mode() != 0o755|os.ModeSetuid {
			t.Errorf("after the edit: mode %v", fi.Mode())
		}
		write(t, in("f"), "foreign\n")
		status, u := d.http("POST", "/v1/undo", d.Agent, M{"credential": r["undo_credential"]})
		fails(t, status, u, 409, "undo_conflict")
		if read(t, in("f")) != "foreign\n" || text(u, "error", "current_hash") != hashOf("foreign\n") {
			t.Errorf("got %q %v", read(t, in("f")), u["error"])
		}
		write(t, in("f"), "1 CANARY-old\n")
		must(t, d.undo(r), "done")
		t.Run("D25 (part) special bits stay", func(t *testing.T) {
			if fi, _ := os.Stat(in("f")); fi.Mode()&os.ModeSetuid == 0 {
				t.Errorf("got %v", fi.Mode())
			}
		})
		if fi, _ := os.Stat(in("f")); read(t, in("f")) != "one CANARY-old\n" || fi.Mode() != 0o755|os.ModeSetuid {
			t.Errorf("after the undo: %q %v", read(t, in("f")), fi.Mode())
		}
	})
	t.Run("C90 a new file goes only if unchanged, and an empty one is never taken for absent", func(t *testing.T) {
		r := must(t, d.call("write_file", M{"path": "created", "content": "c\n"}), "done")
		write(t, in("created"), "c\nmore\n")
		if u := d.undo(r); code(u) != "undo_conflict" || read(t, in("created")) != "c\nmore\n" {
			t.Fatalf("got %v", u["error"])
		}
		write(t, in("created"), "c\n")
		must(t, d.undo(r), "done")
		if _, err := os.Lstat(in("created")); !os.IsNotExist(err) {
			t.Fatalf("still there: %v", err)
		}
		held := must(t, d.call("write_file", M{"path": "empty", "content": "x"}), "review")
		if text(held, "decision", "reason") != "overwrite" {
			t.Fatalf("got %v", held["decision"])
		}
		must(t, d.undo(must(t, d.approve(held), "done")), "done")
		if fi, err := os.Stat(in("empty")); err != nil || fi.Size() != 0 {
			t.Fatalf("got %v %v", fi, err)
		}
	})
	t.Run("C91 directories go innermost first, only while empty", func(t *testing.T) {
		r := must(t, d.call("create_directory", M{"path": "dir/b/c"}), "done")
		must(t, d.undo(r), "done")
		if got := names(t, in("dir")); !reflect.DeepEqual(got, []string{"keep"}) {
			t.Fatalf("got %v", got)
		}
		r = must(t, d.call("create_directory", M{"path": "dir/b/c"}), "done")
		write(t, in("dir/b/mine"), "x")
		u := must(t, d.undo(r), "done")
		if got := names(t, in("dir/b")); !reflect.DeepEqual(got, []string{"mine"}) || !reflect.DeepEqual(words(object(u["result"])["kept"]), []string{"dir/b"}) {
			t.Fatalf("left %v, told %v", got, u["result"])
		}
		os.RemoveAll(in("dir/b"))
	})
	t.Run("C92 a directory that was there is not removed by any undo", func(t *testing.T) {
		r := must(t, d.call("create_directory", M{"path": "dir"}), "done")
		if object(r["result"])["created"] != false || r["undo_credential"] != nil || len(objects(r["effects"])) != 0 {
			t.Fatalf("got %v", r)
		}
		if got := names(t, in("dir")); !reflect.DeepEqual(got, []string{"keep"}) {
			t.Fatalf("got %v", got)
		}
	})
	t.Run("C94 directories made on the way belong to the credential", func(t *testing.T) {
		r := must(t, d.call("write_file", M{"path": "x/y/z.txt", "content": "z"}), "done")
		must(t, d.undo(r), "done")
		if _, err := os.Lstat(in("x")); !os.IsNotExist(err) {
			t.Fatalf("x is still there: %v", err)
		}
		if r := d.call("write_file", M{"path": "x/y/z.txt", "content": "z", "create_dirs": false}); code(r) != "not_found" {
			t.Fatalf("create_dirs: false: got %v", r["error"])
		}
	})
	t.Run("C95 an undo refuses whatever moved on, and leaves it alone", func(t *testing.T) {
		for what, drift := range map[string]func(p string){
			"bytes":     func(p string) { write(t, p, "later\n") },
			"mode":      func(p string) { os.Chmod(p, 0o600) },
			"gone":      func(p string) { os.Remove(p) },
			"directory": func(p string) { os.Remove(p); os.Mkdir(p, 0o755) },
			"link":      func(p string) { os.Rename(p, p+".x"); os.Symlink("c.x", p) },
			"parent": func(p string) {
				os.Rename(filepath.Dir(p), filepath.Dir(p)+"2")
				os.Symlink(filepath.Base(filepath.Dir(p))+"2", filepath.Dir(p))
			},
		} {
			p := in("drift-" + what + "/c")
			write(t, p, "c one\n")
			r := must(t, d.call("edit_file", M{"path": "drift-" + what + "/c", "old_string": "one", "new_string": "1"}), "done")
			drift(p)
			before := digest(t, d.Root)
			if u := d.undo(r); code(u) != "undo_conflict" && code(u) != "symlink_refused" {
				t.Errorf("%s: got %v %v", what, u["status"], u["error"])
			}
			if digest(t, d.Root) != before {
				t.Errorf("%s: the refusal changed the tree", what)
			}
		}
	})
	t.Run("C97, I56 an agent and a person undo by call, and learn what was restored", func(t *testing.T) {
		r := must(t, d.call("write_file", M{"path": "u1", "content": "1"}), "done")
		u := must(t, d.undo(r), "done")
		if !reflect.DeepEqual(words(object(u["result"])["restored"]), []string{"u1"}) || text(u, "decision", "reason") != "undo" {
			t.Errorf("got %v", u)
		}
		r = must(t, d.call("write_file", M{"path": "u2", "content": "1"}), "done")
		_, u = d.http("POST", "/v1/undo", d.reviewer(), M{"operation_id": r["operation_id"]})
		must(t, u, "done")
		if len(d.cards("pending")) != 0 {
			t.Error("an undo made a card")
		}
	})
	t.Run("I22, C93 undoing an own snapshot needs no card and takes that snapshot alone", func(t *testing.T) {
		write(t, in("snap"), "one\n")
		first := must(t, d.call("backup_file", M{"path": "snap", "label": "a"}), "done")
		must(t, d.call("edit_file", M{"path": "snap", "old_string": "one", "new_string": "two"}), "done")
		second := must(t, d.call("backup_file", M{"path": "snap", "label": "b"}), "done")
		must(t, d.undo(first), "done")
		list := fmt.Sprint(must(t, d.call("list_backups", M{"path": "snap"}), "done")["result"])
		if strings.Contains(list, text(first, "result", "backup_id")) || !strings.Contains(list, text(second, "result", "backup_id")) || len(d.cards("pending")) != 0 {
			t.Errorf("left: %s", list)
		}
	})
	t.Run("I43, I45 each destructive operation takes the reversible form: nothing is unlinked, and undo brings all back", func(t *testing.T) {
		write(t, in("q1"), "quarantine me\n")
		must(t, d.call("backup_file", M{"path": "q1"}), "done")
		must(t, d.call("edit_file", M{"path": "q1", "old_string": "me", "new_string": "it"}), "done")
		rows := map[op.Name]M{"delete_file": {"path": "q1"}, "move_file": {"source": "q1", "destination": "q2"}, "rollback_file": {"path": "q1", "last": true},
			"batch_file_ops": {"operations": []M{{"op": "delete_file", "args": M{"path": "q1"}}}}}
		for _, spec := range op.Operations() {
			if !spec.Built || spec.Class != op.Destructive && spec.Class != op.Batch {
				continue
			}
			args, ok := rows[spec.Name]
			if !ok {
				t.Errorf("%s has no row here", spec.Name)
				continue
			}
			before := digest(t, d.Root)
			var st syscall.Stat_t
			syscall.Stat(in("q1"), &st)
			done := must(t, d.approve(must(t, d.call(string(spec.Name), args), "review")), "done")
			found := false
			for _, root := range []string{d.Root, d.State} {
				filepath.Walk(root, func(p string, info os.FileInfo, err error) error {
					if err == nil {
						found = found || info.Sys().(*syscall.Stat_t).Ino == st.Ino
					}
					return nil
				})
			}
			if !found {
				t.Errorf("%s: the file itself is gone", spec.Name)
			}
			must(t, d.undo(done), "done")
			if digest(t, d.Root) != before {
				t.Errorf("%s: not as before", spec.Name)
			}
		}
	})
	t.Run("C99 pre-images lie outside the workspace, and a damaged one is not brought back", func(t *testing.T) {
		r := must(t, d.call("edit_file", M{"path": "dir/keep", "old_string": "k", "new_string": "K"}), "done")
		var damaged int
		filepath.Walk(d.State, func(p string, info os.FileInfo, err error) error {
			if err == nil && info.Mode().IsRegular() && info.Size() == 2 {
				if b, _ := os.ReadFile(p); string(b) == "k\n" {
					os.WriteFile(p, []byte("j\n"), 0o644)
					damaged++
				}
			}
			return nil
		})
		if damaged == 0 {
			t.Fatal("no pre-image found in the state directory")
		}
		if u := d.undo(r); code(u) != "undo_conflict" || read(t, in("dir/keep")) != "K\n" {
			t.Fatalf("got %v and %q", u["error"], read(t, in("dir/keep")))
		}
	})
	t.Run("C46 without a place for the pre-image nothing is written", func(t *testing.T) {
		write(t, in("imm"), "x\n")
		var stores []string
		filepath.Walk(filepath.Join(d.State, "store"), func(p string, info os.FileInfo, err error) error {
			if err == nil && info.IsDir() {
				stores = append(stores, p)
			}
			return nil
		})
		if len(stores) < 2 {
			t.Fatalf("no store: %v", stores)
		}
		chattr(t, "+i", stores...)
		defer chattr(t, "-i", stores...)
		before := digest(t, d.Root)
		for _, c := range []struct {
			op   string
			args M
		}{{"edit_file", M{"path": "imm", "old_string": "x", "new_string": "y"}}, {"write_file", M{"path": "imm2", "content": "y"}}, {"copy_file", M{"source": "imm", "destination": "imm3"}}} {
			r := d.call(c.op, c.args)
			if r["status"] != "failed" && r["status"] != "review" || r["effects_executed"] != false || digest(t, d.Root) != before {
				t.Errorf("%s: got %v %v", c.op, r["status"], r["error"])
			}
		}
		chattr(t, "-i", stores...)
		must(t, d.call("edit_file", M{"path": "imm", "old_string": "x", "new_string": "y"}), "done")
	})
}

func chattr(t testing.TB, flag string, paths ...string) {
	t.Helper()
	if out, err := exec.Command("chattr", append([]string{flag}, paths...)...).CombinedOutput(); err != nil {
		t.Fatalf("chattr: %v %s", err, out)
	}
}

func names(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// shape gives type, mode and bytes of each path, directories by type and mode.
func shape(t testing.TB, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.Walk(root, func(p string, info os.FileInfo, err error) error {
		if err != nil || p == root {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		out[rel] = info.Mode().String()
		if info.Mode().IsRegular() {
			out[rel] += " " + hashOf(read(t, p))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// moved lists what differs between two shapes, as "change path".
func moved(a, b map[string]string) []string {
	out := []string{}
	for p := range b {
		if a[p] == "" {
			out = append(out, "created "+p)
		} else if a[p] != b[p] {
			out = append(out, "modified "+p)
		}
	}
	for p := range a {
		if b[p] == "" {
			out = append(out, "deleted "+p)
		}
	}
	slices.Sort(out)
	return out
}

// told lists the effects of a reply in the same words.
func told(r M) []string {
	out := []string{}
	for _, e := range objects(r["effects"]) {
		if e["change"] == "backed_up" {
			continue // a snapshot changes nothing in the tree
		}
		out = append(out, text(e, "change")+" "+text(e, "path"))
	}
	slices.Sort(out)
	return out
}

func TestGolden(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	write(t, filepath.Join(d.Root, ".env"), "A=1\n")
	t.Run("X66, X62 classes, tiers and switches of the operations are frozen", func(t *testing.T) {
		_, table := d.http("GET", "/v1/table", d.Agent, nil)
		var b strings.Builder
		for _, o := range objects(table["operations"]) {
			fmt.Fprintf(&b, "%v %v %v %v %v\n", o["op"], o["class"], o["tier"], o["switch"], o["approval_per_call"])
		}
		golden(t, "operations.txt", b.String())
	})
	t.Run("C66 the leading reason is the same a thousand times", func(t *testing.T) {
		look := d.preflight("delete_file", M{"path": ".env", "force_overwrite": true})
		facts, err := json.Marshal(look["facts"])
		if err != nil {
			t.Fatal(err)
		}
		row := `{"name":"x","request":{"op":"delete_file","force_overwrite":true,"backup":true},"profile":{"require_approval":true,"allow_delete":true,"mode":"auto","clearance":1},"facts":` +
			string(facts) + `,"environment":{"caller_role":"agent","clearance_floor":1}}` + "\n"
		cmd := exec.Command(binary, "policy", "judge", "-")
		cmd.Stdin = strings.NewReader(strings.Repeat(row, 1000))
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if len(lines) != 1000 || !strings.Contains(lines[0], `"reason":"destructive_operation","also":["protected_target","safety_override"]`) {
			t.Fatalf("%d lines, first %s", len(lines), lines[0])
		}
		for _, l := range lines {
			if l != lines[0] {
				t.Fatalf("got %s and %s", l, lines[0])
			}
		}
	})
}

// golden holds a text to what is kept under testdata/golden; HOLDPOINT_GOLDEN=write
// writes it anew, for a change that is meant.
func golden(t testing.TB, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "golden", name)
	if os.Getenv("HOLDPOINT_GOLDEN") == "write" {
		write(t, file, got)
	}
	if want := read(t, file); got != want {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}
