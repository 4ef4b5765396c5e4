package e2e

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// reads waits until a program that writes line by line has written a text since the last
// press.
func (v *terminal) reads(want string) {
	v.t.Helper()
	for end := time.Now().Add(time.Minute); !strings.Contains(v.text(), want); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			v.t.Fatalf("the terminal does not say %q:\n%s", want, v.text())
		}
	}
}

// TestUndoAsked takes an agent's hour back on a terminal, where each step is asked for.
func TestUndoAsked(t *testing.T) {
	t.Parallel()
	d := start(t)
	at := func(p string) string { return filepath.Join(d.Root, p) }
	hour := func(t *testing.T, session string) {
		t.Helper()
		write(t, at("clean"), "one\n")
		write(t, at("both"), "one\ntwo\nthree\nfour\nfive\nsix\nseven\n")
		write(t, at("clash"), "one\n")
		do := func(op string, args M) {
			t.Helper()
			_, r := d.http("POST", "/v1/call", d.Agent, M{"op": op, "args": args, "session": session})
			must(t, r, "done")
		}
		do("edit_file", M{"path": "clean", "old_string": "one", "new_string": "agent"})
		do("edit_file", M{"path": "both", "old_string": "one", "new_string": "agent"})
		do("edit_file", M{"path": "clash", "old_string": "one", "new_string": "agent"})
		write(t, at("both"), strings.Replace(read(t, at("both")), "seven", "person", 1))
		write(t, at("clash"), "person\n")
		must(t, d.call("write_file", M{"path": "foreign-" + session, "content": "x\n"}), "done") // of no session
	}
	const plan = "undo 1, merge 1 (others changed it too, no overlap), refused 1 (overlap)"

	t.Run("the plan comes first, d shows the patch, n changes nothing, y takes back what can be", func(t *testing.T) {
		hour(t, "first")
		before := digest(t, d.Root)
		v := d.terminal("undo", "--session", "first")
		v.reads("[y/N/d/p]")
		for _, want := range []string{plan, "merge", "both", "refused", "clash", "the same lines", "Take back 2 parts?"} {
			v.reads(want)
		}
		v.press("d\n")
		v.reads("-agent")
		v.reads("[y/N/d/p]")
		v.press("n\n")
		v.reads("Nothing was changed")
		if digest(t, d.Root) != before {
			t.Fatal("something changed")
		}
		v = d.terminal("undo", "--session", "first")
		v.reads("[y/N/d/p]")
		v.press("y\n")
		v.reads("Took back 2 operations as one")
		v.reads("bring it again: ")
		if read(t, at("clean")) != "one\n" || read(t, at("both")) != "one\ntwo\nthree\nfour\nfive\nsix\nperson\n" || read(t, at("clash")) != "person\n" {
			t.Fatalf("%q %q %q", read(t, at("clean")), read(t, at("both")), read(t, at("clash")))
		}
		if exit, out, errs := d.cli("undo", "@"); exit != 0 { // the undo is undone by one
			t.Fatalf("%d %s%s", exit, out, errs)
		}
		if digest(t, d.Root) != before {
			t.Error("the undo of the undo is not what was there")
		}
	})
	t.Run("p chooses part by part, and so does -p", func(t *testing.T) {
		hour(t, "second")
		v := d.terminal("undo", "--session", "second")
		v.reads("[y/N/d/p]")
		v.press("p\n")
		v.reads("[y/N/d/q]")
		first := v.text()
		v.press("d\n")
		v.reads("-agent")
		v.press("y\n")
		v.reads("[y/N/d/q]")
		v.press("n\n")
		v.reads("Took back 1 operation as one")
		clean, both := read(t, at("clean")) == "one\n", strings.HasPrefix(read(t, at("both")), "one\n")
		if clean == both || clean != strings.Contains(first, "undo clean") {
			t.Errorf("the first part was %q: clean %v, both %v", first, clean, both)
		}
		v = d.terminal("undo", "--session", "second", "-p")
		v.reads("[y/N/d/q]")
		v.press("q\n")
		v.reads("Nothing was changed")
		v = d.terminal("undo", "--session", "second", "-p")
		v.reads("[y/N/d/q]")
		v.press("y\n")
		v.reads("Took back 1 operation as one")
		if read(t, at("clean")) != "one\n" || !strings.HasPrefix(read(t, at("both")), "one\n") || read(t, at("clash")) != "person\n" {
			t.Errorf("%q %q %q", read(t, at("clean")), read(t, at("both")), read(t, at("clash")))
		}
	})
	t.Run("without a terminal nothing is asked: what conflicts refuses the whole and says which flags there are", func(t *testing.T) {
		hour(t, "third")
		before := digest(t, d.Root)
		exit, out, errs := d.cli("undo", "--session", "third")
		if exit != 5 || !strings.Contains(out, plan) || !strings.Contains(errs, "--merge") || !strings.Contains(errs, "--keep-going") || digest(t, d.Root) != before {
			t.Fatalf("%d %s%s", exit, out, errs)
		}
		if exit, out, errs = d.cli("undo", "--session", "third", "--merge"); exit != 5 || digest(t, d.Root) != before {
			t.Fatalf("--merge with an overlap: %d %s%s", exit, out, errs)
		}
		if exit, out, errs = d.cli("undo", "--session", "third", "--merge", "--keep-going", "--json"); exit != 5 {
			t.Fatalf("%d %s%s", exit, out, errs)
		}
		var r M
		if err := json.Unmarshal([]byte(out), &r); err != nil || text(r, "status") != "done" || text(r, "undo_credential") == "" && object(r["undo_credential"]) == nil {
			t.Errorf("--json: %v %s", err, out)
		}
		if read(t, at("clean")) != "one\n" || !strings.HasPrefix(read(t, at("both")), "one\n") || read(t, at("clash")) != "person\n" {
			t.Errorf("%q %q %q", read(t, at("clean")), read(t, at("both")), read(t, at("clash")))
		}
		if exit, out, _ = d.cli("diff", "--session", "nosuch", "--json"); exit != 0 || !json.Valid([]byte(out)) {
			t.Errorf("diff of nothing: %d %q", exit, out)
		}
	})
}
