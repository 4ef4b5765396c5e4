package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdpoint/internal/ports"
)

// TestDiffTool opens cards in a tool that writes down what it was given.
func TestDiffTool(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	base := filepath.Dir(d.State)
	log, tool := filepath.Join(base, "tool.log"), filepath.Join(base, "tool")
	write(t, tool, `#!/bin/sh
{ for f in "$@"; do case "$f" in /*) stat -c 'MODE %a %n' "$f" "$(dirname "$f")" "$(dirname "$(dirname "$(dirname "$f")")")"; echo "BEGIN $f"; cat "$f"; echo END;; *) echo "WORD $f";; esac; done; env; } >> `+log+"\nexit 1\n")
	if err := os.Chmod(tool, 0o755); err != nil {
		t.Fatal(err)
	}
	var old strings.Builder
	for i := range 200 {
		fmt.Fprintf(&old, "line %d\n", i)
	}
	write(t, filepath.Join(d.Root, "long\u202e.go"), old.String())
	held := must(t, d.call("write_file", M{"path": "long\u202e.go", "content": strings.Replace(old.String(), "line 100\n", "line one\u200b hundred\n", 1)}), "review")
	show := func(t *testing.T, wish string, args ...string) (exit int, out, said string) {
		t.Helper()
		os.Remove(log)
		d.env = []string{"HOLDPOINT_DIFFTOOL=" + wish, "DISPLAY=", "HOLDPOINT_TOKEN=" + d.reviewer()}
		defer func() { d.env = nil }()
		exit, out, errs := d.cli(append([]string{"review", "show"}, args...)...)
		b, _ := os.ReadFile(log)
		return exit, out + errs, string(b)
	}
	t.Run("X46 (part) the tool gets both versions whole, in private copies that are gone afterwards, and no secret", func(t *testing.T) {
		exit, out, said := show(t, tool+" --wait $REMOTE $LOCAL", idOf(held), "--tool")
		if exit != 0 {
			t.Fatalf("exit %d: %s", exit, out)
		}
		if !strings.HasPrefix(said, "WORD --wait\n") || strings.Count(said, "BEGIN /") != 2 || strings.Contains(said, "WORD $") {
			t.Fatalf("the tool got:\n%.600s", said)
		}
		for _, want := range []string{"line 0\n", "line 199\n", "line 99\nline one\\u{200B} hundred\nline 101\n", "line 99\nline 100\nline 101\n", ".go"} {
			if !strings.Contains(said, want) {
				t.Errorf("the copies lack %q", want)
			}
		}
		if strings.Index(said, "line one") > strings.Index(said, "line 100\n") {
			t.Error("$REMOTE and $LOCAL are not where the command names them")
		}
		for _, l := range strings.Split(said, "\n") {
			f := strings.Fields(l)
			if len(f) == 3 && f[0] == "MODE" {
				if want := map[bool]string{true: "600", false: "700"}[strings.HasPrefix(filepath.Base(f[2]), "long")]; f[1] != want {
					t.Errorf("%s has mode %s, want %s", f[2], f[1], want)
				}
				if there(f[2]) {
					t.Errorf("%s is still there", f[2])
				}
			}
			if strings.Contains(l, passphrase) || strings.HasPrefix(l, "HOLDPOINT_TOKEN=") {
				t.Errorf("the tool was given a secret: %.30s", l)
			}
			if strings.ContainsAny(l, "\u202e\u200b") {
				t.Errorf("a hidden character reached the tool: %q", l)
			}
		}
	})
	t.Run("what is deleted has one empty side, and several files come one after another", func(t *testing.T) {
		for i := range 3 {
			write(t, filepath.Join(d.Root, fmt.Sprintf("n%d", i)), fmt.Sprintf("content %d", i))
		}
		batch := must(t, d.call("batch_file_ops", M{"operations": []M{item("delete_file", M{"path": "n0"}), item("edit_file", M{"path": "n1", "old_string": "1", "new_string": "one"}), item("delete_file", M{"path": "n2"})}}), "review")
		exit, out, said := show(t, tool, idOf(batch), "--tool")
		if exit != 0 || strings.Count(said, "BEGIN") != 6 || !strings.Contains(said, "content oneEND") || !strings.Contains(said, "content 2END") || !strings.Contains(out, "3 of 3: n2") {
			t.Errorf("exit %d: %s\n%s", exit, out, said)
		}
	})
	t.Run("a tool that is not there is refused by name, and a card without text too", func(t *testing.T) {
		if exit, out, _ := show(t, "", idOf(held), "--tool=no-such-tool"); exit == 0 || !strings.Contains(out, "not_available") || !strings.Contains(out, "no-such-tool") {
			t.Errorf("exit %d: %s", exit, out)
		}
		if exit, out, said := show(t, tool, idOf(d.shell("true")), "--tool"); exit == 0 || said != "" || !strings.Contains(out, "not_available") {
			t.Errorf("exit %d: %s", exit, out)
		}
	})
	t.Run("a file that moved on is shown as the card has it", func(t *testing.T) {
		write(t, filepath.Join(d.Root, "long\u202e.go"), "another\n")
		exit, out, said := show(t, tool, idOf(held), "--tool")
		if exit != 0 || strings.Contains(said, "another") || !strings.Contains(said, "... 97 lines that stay as they are ...") || !strings.Contains(said, "line 97\nline 98\nline 99\nline 100\n") {
			t.Errorf("exit %d: %s\n%s", exit, out, said)
		}
	})
}

// TestDesktop tells people by the programs that a desktop has for it.
func TestDesktop(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	base := filepath.Dir(state)
	config := filepath.Join(base, "c.toml")
	write(t, config, "[[notify]]\nkind = \"desktop\"\n")
	bin := func(name string) string {
		dir := filepath.Join(base, "bin-"+name)
		write(t, filepath.Join(dir, name), "#!/bin/sh\nfor w in \"$0\" \"$@\"; do printf '<%s>' \"$w\"; done >> "+filepath.Join(base, "told")+"\n")
		if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	send, bus := bin("notify-send"), bin("gdbus")
	told := func(t *testing.T) string {
		t.Helper()
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if b, _ := os.ReadFile(filepath.Join(base, "told")); strings.HasSuffix(string(b), ">") && strings.Contains(string(b), "person") {
				os.Remove(filepath.Join(base, "told"))
				return string(b)
			}
		}
		t.Fatal("nothing was told")
		return ""
	}
	addr := ports.Addr(t)
	d := startOn(t, root, state, []string{"PATH=" + send + ":/usr/bin:/bin"}, "--config", config, "--listen", addr)
	t.Run("I28 (part), I89 (part) the desktop is told the title and the link, and nothing of the call", func(t *testing.T) {
		write(t, filepath.Join(root, "secret-name-8"), "content 4713\n")
		_, held := d.http("POST", "/v1/call", d.Agent, M{"op": "delete_file", "args": M{"path": "secret-name-8"}, "intent": "intent 4714"})
		got := told(t)
		want := fmt.Sprintf("<%s/notify-send><--app-name=Holdpoint><--icon=dialog-question><--><Holdpoint: waits for a person><Delete 1 file\n%s>", send, text(held, "approval", "review_url"))
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("without notify-send the session bus is asked by gdbus, each word typed and quoted", func(t *testing.T) {
		d.env = []string{"PATH=" + bus}
		exit, out, errs := d.cli("notify", "test", "--config", config)
		got := told(t)
		if exit != 0 || !strings.Contains(got, `<org.freedesktop.Notifications.Notify><"Holdpoint"><uint32 0><"dialog-question"><"Holdpoint: waits for a person"><"A test of Holdpoint's notifications"><@as []><@a{sv} {}>`) {
			t.Errorf("exit %d %s %s\n%s", exit, out, errs, got)
		}
	})
	t.Run("where neither is there it is refused by name, at the start too", func(t *testing.T) {
		d.env = []string{"PATH=/nowhere"}
		if exit, out, errs := d.cli("notify", "test", "--config", config); exit == 0 || !strings.Contains(out+errs, "notify-send or gdbus") {
			t.Errorf("exit %d %s %s", exit, out, errs)
		}
		root, state := dirs(t)
		if exit, out := refuses(t, root, state, []string{"PATH=/nowhere"}, "--config", config); exit != 6 || !strings.Contains(out, "notify 1: desktop") || !strings.Contains(out, "not_available") {
			t.Errorf("exit %d %s", exit, out)
		}
	})
}
