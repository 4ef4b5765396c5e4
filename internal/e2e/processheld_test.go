//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestProcessHeld(t *testing.T) {
	t.Parallel()
	d := start(t)
	t.Run("S106 protected names that are not there cannot be made, nor written through a link; what a pattern finds elsewhere is told by name", func(t *testing.T) {
		script := `mkdir .git; mkdir -p .codex/x; mkdir -p .vscode && echo {} > .vscode/tasks.json; mkdir real; ln -s real .git && echo x > .git/config; ln -s .env way; echo x > way; mv real .claude
mkdir sub && mkdir sub/.git && echo key > server.pem; echo plain > plain; echo end`
		names := []string{".git", ".codex", ".vscode", ".env", ".claude"}
		held := d.shell(script)
		l := lines(d.card(held))
		if !strings.Contains(l, "protected names that are not there cannot be made at the top of the root") || !strings.Contains(l, "is not held shut: if it appears, the answer says so") {
			t.Errorf("got %s", l)
		}
		r := d.approve(held)
		if text(r, "result", "stdout") != "end\n" || strings.Count(text(r, "result", "stderr"), "ermission denied") < 6 {
			t.Errorf("got %v", r)
		}
		for _, n := range names {
			if d.has(n) {
				t.Errorf("%s is there", n)
			}
		}
		told := fmt.Sprint(r["warnings"])
		if !d.has("sub/.git") || !d.has("server.pem") || !strings.Contains(told, "sub/.git, which .git protects, was created") || !strings.Contains(told, "server.pem, which *.pem protects, was created") {
			t.Errorf("got %s", told)
		}
		row := fmt.Sprint(d.rowOf(held)["reply"])
		if !strings.Contains(row, "server.pem, which *.pem protects") {
			t.Errorf("the row does not keep it: %s", row)
		}
		// A person's leave for protected paths is what it takes.
		if d.approve(d.shell(script, M{"write_protected": true})); !d.has(".vscode/tasks.json") || !d.has(".codex/x") {
			t.Error("with leave they are not made either, so this proves nothing")
		}
		os.RemoveAll(filepath.Join(d.Root, ".git"))
		os.Remove(filepath.Join(d.Root, ".git"))
	})
	t.Run("S53 a script that changed after it was shown does not run; the new row shows what changed in it", func(t *testing.T) {
		d.put("s.sh", "echo one\necho two\ntouch good\n", 0o644)
		ask := func() M { return d.call("workspace_shell", M{"command": "sh", "args": []string{"./s.sh"}}) }
		held := ask()
		d.put("s.sh", "echo one\necho two\ntouch evil\n", 0o644)
		r := d.approve(held)
		if code(r) != "stale_precondition" || d.has("evil") || d.has("good") || !strings.Contains(text(r, "error", "diff"), "+touch evil") {
			t.Errorf("got %v", r)
		}
		if row := d.rowOf(held); text(row, "state") != "failed" {
			t.Errorf("the row is not closed: %v", row["state"])
		}
		again := ask()
		c := d.card(again)
		if idOf(again) == idOf(held) || !strings.Contains(text(c, "diff"), "-touch good\n+touch evil") || strings.Contains(text(c, "diff"), "-echo one") ||
			!strings.Contains(lines(c), "was approved before as "+idOf(held)) || !strings.Contains(lines(c), "changed since that approval: s.sh") {
			t.Errorf("got %s\n%s", text(c, "diff"), lines(c))
		}
		if r := d.approve(again); text(r, "status") != "done" || !d.has("evil") {
			t.Errorf("got %v", r)
		}
		if c := d.card(ask()); text(c, "diff") != "" || strings.Contains(lines(c), "was approved before") {
			t.Errorf("after it ran there is nothing to compare with: %s", text(c, "diff"))
		}
	})
}
