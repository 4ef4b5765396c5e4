//go:build linux

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

func TestCommitPreview(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.put("a", "one\n", 0o644)
	d.put("b", "b\n", 0o644)
	git(t, d.Root, "init", "-q")
	git(t, d.Root, "add", "-A")
	git(t, d.Root, "commit", "-q", "-m", "first")
	d.put("a", "one\ntwo\n", 0o644)
	git(t, d.Root, "add", "a")
	d.put("b", "not staged\n", 0o644)
	who := []string{"-c", "user.name=t", "-c", "user.email=t@example.test", "commit", "-q", "-m", "second"}
	held := func(t *testing.T, more ...string) (M, M) {
		t.Helper()
		r := d.call("workspace_shell", M{"command": "git", "args": append(append([]string{}, who...), more...), "write_protected": true})
		must(t, r, "review")
		return r, d.card(r)
	}
	t.Run("X51 the card of a git commit shows the message and the patch that would be committed", func(t *testing.T) {
		d := on(d, t)
		r, card := held(t)
		diff := text(card, "diff")
		if !strings.Contains(diff, "+two") || strings.Contains(diff, "not staged") || !strings.Contains(lines(card), "would commit 1 changed files") || !strings.Contains(lines(card), "-m second") {
			t.Errorf("%s\n%s", lines(card), diff)
		}
		d.cancel(r)
		r, card = held(t, "-a")
		if diff := text(card, "diff"); !strings.Contains(diff, "+two") || !strings.Contains(diff, "+not staged") {
			t.Errorf("with -a: %s", diff)
		}
		d.cancel(r)
		r = d.call("workspace_shell", M{"script": "git add -A && git commit -m all", "write_protected": true})
		if card := d.card(r); !strings.Contains(text(card, "diff"), "+not staged") || !strings.Contains(lines(card), "stages before it commits") {
			t.Errorf("of a script: %s\n%s", lines(card), text(card, "diff"))
		}
		d.cancel(r)
	})
	t.Run("X51 what is staged otherwise after the card was shown is not committed", func(t *testing.T) {
		d := on(d, t)
		r, _ := held(t)
		d.put("a", "one\nsmuggled\n", 0o644)
		git(t, d.Root, "add", "a")
		if out := d.approve(r); text(out, "error", "code") != "stale_precondition" {
			t.Fatalf("got %v", out)
		}
		r, card := held(t)
		if !strings.Contains(text(card, "diff"), "+smuggled") {
			t.Fatalf("the new card: %s", text(card, "diff"))
		}
		if out := d.approve(r); text(out, "status") != "done" || object(out["result"])["exit_code"] != 0.0 {
			t.Fatalf("got %v", out)
		}
		if head := read(t, filepath.Join(d.Root, ".git", "COMMIT_EDITMSG")); head != "second\n" {
			t.Error(fmt.Sprint("not committed: ", head))
		}
	})
}
