package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestElsewhere changes a tree past Holdpoint and wants each of it named as not ours.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	d := start(t)
	at := func(name string) string { return filepath.Join(d.Root, name) }
	for _, name := range []string{"early.txt", "dir/gone.txt", "dir/stays.txt", "other.txt", "sub/deep/x.txt"} {
		write(t, at(name), "before\n")
	}
	write(t, at(".gitignore"), "build/\n")
	write(t, at("build/old.o"), "o\n")
	other := d.as(d.token(M{"name": "bob", "role": "agent"}))
	time.Sleep(50 * time.Millisecond) // the kernel's time stamps are that coarse

	mine := []M{d.call("edit_file", M{"path": "early.txt", "old_string": "before", "new_string": "after"}), d.call("write_file", M{"path": "made.txt", "content": "1\n"})}
	mine = append(mine, d.call("copy_file", M{"source": "sub", "destination": "copied", "recursive": true}))
	if r := d.approve(mine[2]); text(r, "reply", "status") != "done" && text(r, "status") != "done" {
		t.Fatalf("copy: %v", r)
	}
	other.call("edit_file", M{"path": "other.txt", "old_string": "before", "new_string": "bob"})
	changes := func(errs string) map[string]M { // of what log --json says beside its document
		got := map[string]M{}
		for _, l := range strings.Split(strings.TrimSpace(errs), "\n") {
			if l == "" {
				continue
			}
			for _, c := range objects(object(decoded(t, l)["not_ours"])["changes"]) {
				got[text(c, "path")] = c
			}
		}
		return got
	}
	t.Run("what Holdpoint did itself is never called not ours", func(t *testing.T) {
		_, out, errs := d.cli("log", "--json")
		if list := mcpJSON(t, out).([]any); len(list) != 4 || errs != "" {
			t.Fatalf("got %v %s", list, errs)
		}
	})
	write(t, at("outside.txt"), "by an editor\n")
	write(t, at("build/new.o"), "o\n")
	write(t, at("made.txt"), "1\nand a person\n")
	write(t, at("copied/deep/x.txt"), "changed in the copy\n")
	if err := os.Remove(at("dir/gone.txt")); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(at("outside.txt"), old, old); err != nil { // as tar or cp -p leave it
		t.Fatal(err)
	}
	want := map[string]string{"outside.txt": "changed by another program", "build/": "git ignores it", "made.txt": "changed by another program",
		"copied/deep/x.txt": "changed by another program", "dir": "removed or renamed"}
	t.Run("log names what other programs and agents changed, and nothing else", func(t *testing.T) {
		_, out, errs := d.cli("log", "--json", "--agent", "agent")
		if strings.Contains(out, "not_ours") {
			t.Errorf("the list is not one of operations alone: %s", out)
		}
		got := changes(errs)
		for path, what := range want {
			if !strings.Contains(text(got[path], "what"), what) {
				t.Errorf("%s: got %v, want %q", path, got[path], what)
			}
		}
		if text(got["other.txt"], "agent") != "bob" && text(got["other.txt"], "what") != "changed by another agent" {
			t.Errorf("other.txt: %v", got["other.txt"])
		}
		if len(got) != len(want)+1 {
			t.Errorf("got %d: %v", len(got), got)
		}
		_, out, _ = d.cli("log")
		for path := range want {
			if !strings.Contains(out, path) {
				t.Errorf("%s is not in\n%s", path, out)
			}
		}
		if !strings.Contains(out, "Not ours, since ") {
			t.Errorf("got\n%s", out)
		}
		if _, out, errs := d.cli("log", "--json", "--ours"); strings.Contains(out+errs, "not_ours") {
			t.Errorf("with --ours: %s%s", out, errs)
		}
		_, _, errs = d.cli("log", "--json", "--path", "dir")
		if got := changes(errs); len(got) > 1 {
			t.Errorf("below a path: %v", got)
		}
	})
	t.Run("the undo of one and of several says so too", func(t *testing.T) {
		_, out, _ := d.cli("undo", text(mine[0], "operation_id"), "--dry-run", "--json")
		named := map[string]bool{}
		for _, c := range objects(object(decoded(t, out)["not_ours"])["changes"]) {
			named[text(c, "path")] = true
		}
		for path := range want {
			if !named[path] {
				t.Errorf("one: %s is not in %v", path, named)
			}
		}
		if named["early.txt"] || !named["other.txt"] {
			t.Errorf("one: %v", named)
		}
		_, out, _ = d.cli("undo", "--since", "1h", "--keep-going", "--dry-run")
		if !strings.Contains(out, "Not ours, since ") || !strings.Contains(out, "outside.txt") {
			t.Errorf("several: %s", out)
		}
		code, out, errs := d.cli("undo", text(mine[0], "operation_id"))
		if code != 0 || !strings.Contains(out, "outside.txt") {
			t.Errorf("undo: %d %s %s", code, out, errs)
		}
		_, out, _ = d.cli("undo", "--last", "1", "--path", "made.txt", "--dry-run", "--keep-going", "--json")
		if !strings.Contains(out, `"not_ours":{`) {
			t.Errorf("several as JSON: %s", out)
		}
	})
	t.Run("an agent learns no operation of another's", func(t *testing.T) {
		_, out := d.http("POST", "/v1/elsewhere", other.Agent, M{"since": old.UTC().Format(time.RFC3339)})
		for _, c := range objects(out["changes"]) {
			if text(c, "agent") == "agent" {
				t.Errorf("told %v", c)
			}
		}
		if len(objects(out["changes"])) == 0 {
			t.Error("nothing was told")
		}
	})
}
