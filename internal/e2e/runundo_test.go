//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestRunUndo takes back what programs changed that ran for real.
func TestRunUndo(t *testing.T) {
	t.Parallel()
	d := start(t)
	for i := range 6 {
		d.put(fmt.Sprintf("text/f%d", i), fmt.Sprintf("old %d\n", i), 0o640)
	}
	d.put("gone/deep/x", "x\n", 0o644)
	d.put("other", "one\n", 0o644)
	os.Symlink("other", filepath.Join(d.Root, "link"))
	before := digest(t, d.Root)
	// run releases a command and gives its card and its end.
	run := func(t *testing.T, args M) (card, r M) {
		t.Helper()
		held := d.call("workspace_shell", args)
		must(t, held, "review")
		return d.card(held), d.approve(held)
	}
	back := func(t *testing.T, r M) M {
		t.Helper()
		if r["undo_credential"] == nil {
			t.Fatalf("no credential: %v", r)
		}
		undone := d.undo(r)
		if text(undone, "status") == "review" {
			undone = d.approve(undone)
		}
		must(t, undone, "done")
		if digest(t, d.Root) != before {
			t.Fatal("the undo did not bring it back")
		}
		return undone
	}
	lost := func(r M) string { return fmt.Sprint(object(object(r["result"])["not_undoable"])["paths"]) }

	t.Run("what the command names is kept before it runs, and all of it is taken back by one credential", func(t *testing.T) {
		d := on(d, t)
		card, r := run(t, M{"script": "sed -i s/old/new/ text/*; rm -r gone; mkdir -p made/deep; echo n > made/deep/f; ln -s x made/l; echo log >> other; ln -sfn text link; chmod 600 text/f0"})
		if text(r, "status") != "done" || !strings.Contains(lines(card), "keeps 8 files with") || !strings.Contains(text(card, "undo"), "the 8 files that are kept") {
			t.Fatalf("%v\n%s\n%s", r, lines(card), text(card, "undo"))
		}
		if r["operation_id"] == nil || strings.Contains(fmt.Sprint(r["warnings"]), "not_undoable") {
			t.Fatalf("got %v", r)
		}
		after := digest(t, d.Root)
		undone := back(t, r)
		redone := must(t, d.undo(undone), "done")
		if digest(t, d.Root) != after {
			t.Fatal("the redo did not do it again")
		}
		must(t, d.undo(redone), "done")
		if digest(t, d.Root) != before {
			t.Fatal("not as before")
		}
	})
	t.Run("what escapes the kept files is told by name, and the rest is taken back", func(t *testing.T) {
		d := on(d, t)
		write(t, filepath.Join(d.Root, "run.sh"), "echo two > other; rm text/f1; echo new > text/f2; echo m > fresh\n")
		defer os.Remove(filepath.Join(d.Root, "run.sh"))
		at := digest(t, d.Root)
		card, r := run(t, M{"script": "find . -name run.sh | xargs sh"})
		if !strings.Contains(lines(card), "nothing is kept before it runs") {
			t.Errorf("the card: %s", lines(card))
		}
		for _, want := range []string{"other (modified, not kept before)", "text/f1 (deleted, not kept before)", "text/f2 (modified, not kept before)"} {
			if !strings.Contains(lost(r), want) {
				t.Errorf("%s is not told: %v", want, r)
			}
		}
		undone := d.undo(r)
		must(t, undone, "done")
		if d.has("fresh") || !strings.Contains(fmt.Sprint(undone["warnings"]), "text/f1") {
			t.Errorf("the undo: %v", undone)
		}
		d.put("other", "one\n", 0o644)
		d.put("text/f1", "old 1\n", 0o640)
		d.put("text/f2", "old 2\n", 0o640)
		if digest(t, d.Root) != at {
			t.Error("not as before")
		}
	})
	t.Run("snapshot keeps by pattern, and the run's own id leads to its operation", func(t *testing.T) {
		d := on(d, t)
		_, r := run(t, M{"script": "for f in $(ls text); do echo new > text/$f; done; find text -name f3 -delete", "snapshot": []string{"text/"}})
		if lost(r) != "<nil>" {
			t.Fatalf("escaped: %v", r)
		}
		_, undone := d.http("POST", "/v1/undo", d.Agent, M{"operation_id": text(r, "result", "run_id")})
		must(t, undone, "done")
		if digest(t, d.Root) != before {
			t.Fatal("the undo did not bring it back")
		}
	})
	t.Run("a command that was rehearsed keeps what its rehearsal changed", func(t *testing.T) {
		d := on(d, t)
		const script = "find text gone -type f | while read f; do echo new > $f; done"
		_, set := d.rehearsal(script)
		d.http("POST", "/v1/approvals/"+text(set, "approval_id")+"/answer", d.reviewer(), M{"answer": "reject"})
		card, r := run(t, M{"script": script})
		if !strings.Contains(lines(card), "keeps 7 files") || lost(r) != "<nil>" {
			t.Fatalf("%v\n%s", r, lines(card))
		}
		back(t, r)
	})
	t.Run("an undo of a run whose files were changed since is a conflict", func(t *testing.T) {
		d := on(d, t)
		_, r := run(t, M{"command": "sed", "args": []string{"-i", "s/old/new/", "text/f4"}})
		write(t, filepath.Join(d.Root, "text/f4"), "theirs\n")
		if _, out := d.http("POST", "/v1/undo", d.Agent, M{"operation_id": r["operation_id"]}); text(out, "error", "code") != "undo_conflict" {
			t.Fatalf("got %v", out)
		}
		d.put("text/f4", "old 4\n", 0o640)
	})
	t.Run("what another operation changed meanwhile is left out and told", func(t *testing.T) {
		d := on(d, t)
		held := d.call("workspace_shell", M{"script": "echo up > text/up; while ! test -e stop; do sleep 0.05; done; echo mine >> text/f5"})
		done := make(chan M)
		go func() { done <- d.approve(held) }()
		until(t, "the program", func() bool { return d.has("text/up") })
		must(t, d.call("edit_file", M{"path": "text/f5", "old_string": "old 5", "new_string": "theirs"}), "done")
		d.put("stop", "", 0o644)
		r := <-done
		if !strings.Contains(lost(r), "text/f5 (another operation changed it meanwhile)") {
			t.Fatalf("got %v", r)
		}
		must(t, d.undo(r), "done")
		if got := read(t, filepath.Join(d.Root, "text/f5")); got != "theirs\nmine\n" {
			t.Errorf("the undo took theirs: %q", got)
		}
		d.put("text/f5", "old 5\n", 0o640)
		os.Remove(filepath.Join(d.Root, "stop"))
	})
	t.Run("nothing of what was kept stays behind a run that changed nothing", func(t *testing.T) {
		d := on(d, t)
		count := func() int {
			m, _ := filepath.Glob(filepath.Join(d.State, "store", "*", "*"))
			return len(m)
		}
		at := count()
		_, r := run(t, M{"command": "touch", "args": []string{"text/f0", "text/f1"}})
		if r["undo_credential"] != nil || count() != at {
			t.Errorf("%d slots before, %d after: %v", at, count(), r)
		}
	})
	t.Run("a run that the daemon did not see to its end leaves a credential for what was kept", func(t *testing.T) {
		d := on(d, t)
		at := digest(t, d.Root)
		held := d.call("workspace_shell", M{"script": "sed -i s/old/new/ text/f0; rm text/f1; echo up > up; sleep 60"})
		id := text(held, "approval", "id")
		shown := text(d.card(held), "shown_digest")
		go d.tryHTTP("POST", "/v1/approvals/"+id+"/answer", d.reviewer(), M{"answer": "approve", "shown_digest": shown})
		until(t, "the program", func() bool { return d.has("up") })
		d.stop(syscall.SIGKILL)
		d.run()
		_, row := d.http("GET", "/v1/approvals/"+id, d.reviewer(), nil)
		if text(row, "state") != "unknown" || text(row, "reply", "operation_id") == "" {
			t.Fatalf("got %v", row)
		}
		os.Remove(filepath.Join(d.Root, "up"))
		_, undone := d.http("POST", "/v1/undo", d.Agent, M{"operation_id": text(row, "reply", "operation_id")})
		must(t, undone, "done")
		if digest(t, d.Root) != at {
			t.Error("the undo did not bring it back")
		}
	})
}
