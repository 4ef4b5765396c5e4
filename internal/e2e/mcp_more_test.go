package e2e

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpSince wants an answer of a failed precondition to tell what changed.
func mcpSince(t *testing.T, r mcpResult, code string, want ...string) {
	t.Helper()
	if !r.IsError || text(r.Facts, "error", "code") != code {
		t.Fatalf("got %v %q, want %s", r.Facts, r.Text, code)
	}
	for _, w := range want {
		if !strings.Contains(r.Text, w) {
			t.Errorf("%q is not in %q", w, r.Text)
		}
	}
}

func TestMCPAnswers(t *testing.T) {
	t.Parallel()
	d := start(t)
	c := d.stdio("2025-11-25", nil)
	at := func(name string) string { return filepath.Join(d.Root, name) }

	t.Run("an image comes as an image, in both lanes and over every version", func(t *testing.T) {
		picture := image.NewRGBA(image.Rect(0, 0, 60, 40))
		for i := range picture.Pix {
			picture.Pix[i] = byte(i * i >> 3)
		}
		picture.Set(1, 1, color.White)
		var b bytes.Buffer
		if err := png.Encode(&b, picture); err != nil {
			t.Fatal(err)
		}
		write(t, at("p.png"), b.String())
		for _, version := range mcpVersions {
			r := d.stdio(version, nil).done("view_file", M{"path": "p.png"})
			if len(r.Content) != 2 {
				t.Fatalf("%s: got %d parts %q", version, len(r.Content), r.Text)
			}
			got, ok := r.Content[1].(*sdk.ImageContent)
			if !ok || got.MIMEType != "image/png" || !bytes.Equal(got.Data, b.Bytes()) || len(r.Text) > 200 {
				t.Fatalf("%s: got %T %q", version, r.Content[1], r.Text)
			}
		}
		quick := d.rawLine(t, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"view_file","arguments":{"path":"p.png"}}}`)
		slow := d.rawLine(t, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"view_file","arguments":{"path":"p.png"},"_meta":{"x":1,"y":2}}}`)
		if !reflect.DeepEqual(mcpJSON(t, quick), mcpJSON(t, slow)) {
			t.Errorf("quick %.300s\nslow %.300s", quick, slow)
		}
		// A part of an image is bytes.
		if r := c.done("view_file", M{"path": "p.png", "offset": 0, "limit": 8}); len(r.Content) != 1 || r.Facts["base64"] != true {
			t.Fatalf("a part: %v", r.Facts)
		}
	})
	t.Run("a stale answer shows what changed since the file was viewed or written", func(t *testing.T) {
		write(t, at("v.txt"), "one\ntwo\nthree\nfour\nfive\nsix\nseven\n")
		hash := c.done("view_file", M{"path": "v.txt"}).Facts["hash"]
		write(t, at("v.txt"), "one\ntwo\nthree\n4\nfive\nsix\nseven\n")
		edit := M{"path": "v.txt", "old_string": "one", "new_string": "1", "expected_hash": hash}
		r := c.call("edit_file", edit)
		mcpSince(t, r, "stale_precondition", "-four\n+4\n", "Current hash: blake3:", "still applies")
		if strings.Contains(r.Text[:strings.Index(r.Text, "It would be")], "seven") || r.Facts["still_applies"] != true {
			t.Errorf("not the smallest diff: %q", r.Text)
		}
		// With the new hash it works: the answer was enough.
		edit["expected_hash"] = text(r.Facts, "error", "current_hash")
		c.done("edit_file", edit)

		written := c.done("write_file", M{"path": "w.txt", "content": "a\nb\n"}).Facts["hash"]
		c.done("edit_file", M{"path": "w.txt", "old_string": "b", "new_string": "c"})
		mcpSince(t, c.call("edit_file", M{"path": "w.txt", "old_string": "b", "new_string": "d", "expected_hash": written}), "stale_precondition", "-b\n+c\n", "does not apply")
	})
	t.Run("what a conflict stood on is found again after a restart, or said to be gone", func(t *testing.T) {
		write(t, at("r.txt"), "x\n")
		seen := c.done("view_file", M{"path": "r.txt"}).Facts["hash"]
		made := c.done("write_file", M{"path": "k.txt", "content": "k1\nk2\n"})
		d.restart()
		write(t, at("r.txt"), "y\n")
		write(t, at("k.txt"), "k1\nk3\n")
		mcpSince(t, c.call("edit_file", M{"path": "r.txt", "old_string": "y", "new_string": "z", "expected_hash": seen}), "stale_precondition", "no longer held here", "still applies")
		mcpSince(t, c.call("edit_file", M{"path": "k.txt", "old_string": "k1", "new_string": "z", "expected_hash": made.Facts["hash"]}), "stale_precondition", "-k2\n+k3\n")
		mcpSince(t, c.call("undo", M{"operation_id": made.Facts["undo"]}), "undo_conflict", "-k2\n+k3\n")
	})
	t.Run("pins that no longer hold show what changed", func(t *testing.T) {
		write(t, at("q.txt"), "q\nr\n")
		c.done("view_file", M{"path": "q.txt"})
		pins := c.done("preflight", M{"op": "edit_file", "args": M{"path": "q.txt", "old_string": "q", "new_string": "Q"}}).Facts["pins"]
		write(t, at("q.txt"), "q\ns\n")
		mcpSince(t, c.call("edit_file", M{"path": "q.txt", "old_string": "q", "new_string": "Q", "pins": pins}), "stale_precondition", "-r\n+s\n")
	})
	t.Run("no answer shows a secret, another agent's view, or what this token may not read", func(t *testing.T) {
		write(t, at(".env"), "A=1\n")
		sum := text(c.done("file_info", M{"path": ".env"}).Facts, "hash")
		write(t, at(".env"), "SECRET=2\n")
		r := c.call("edit_file", M{"path": ".env", "old_string": "SECRET", "new_string": "B", "expected_hash": sum})
		if strings.Contains(r.Text, "SECRET") || strings.Contains(r.Text, "+") {
			t.Fatalf("the answer shows %q", r.Text)
		}
		write(t, at("o.txt"), "old words\n")
		hash := c.done("view_file", M{"path": "o.txt"}).Facts["hash"]
		write(t, at("o.txt"), "new words\n")
		other := d.as(d.token(M{"name": "other", "role": "agent"}))
		got := other.call("edit_file", M{"path": "o.txt", "old_string": "x", "new_string": "y", "expected_hash": hash})
		if text(got, "error", "code") != "stale_precondition" || text(got, "error", "diff") != "" || text(got, "error", "no_diff") == "" {
			t.Fatalf("another agent: %v", got["error"])
		}
		if b, _ := os.ReadFile(at("o.txt")); string(b) != "new words\n" {
			t.Fatalf("o.txt is %q", b)
		}
	})
}

// TestMCPOwnDaemon ends a daemon that nobody but its clients starts.
func TestMCPOwnDaemon(t *testing.T) {
	t.Parallel()
	a := mcpAlone(t)
	dir := a.repo("alone")
	if code, out := a.terminal(a.home, "init", "claude"); code != 0 { // sets the reviewer once
		t.Fatal(out)
	}
	c, err := a.client(dir)
	if err != nil {
		t.Fatal(err)
	}
	first := c.done("write_file", M{"path": "b.txt", "content": "b\n"})
	id, _ := c.held("delete_file", M{"path": "a.txt"})
	old := a.daemons()
	if len(old) != 1 {
		t.Fatalf("%d daemons", len(old))
	}
	t.Run("a wait starts the daemon again by itself and is answered from another terminal", func(t *testing.T) {
		type ended struct {
			r   mcpResult
			err error
		}
		end := make(chan ended, 1)
		go func() {
			r, err := c.try("approval_wait", M{"approval_id": id, "timeout_seconds": 80})
			end <- ended{r, err}
		}()
		time.Sleep(200 * time.Millisecond)
		syscall.Kill(old[0], syscall.SIGKILL)
		for stop := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			if now := a.daemons(); len(now) == 1 && now[0] != old[0] {
				break
			}
			if time.Now().After(stop) {
				t.Fatal("no other daemon was started")
			}
		}
		var out string
		for code, stop := 1, time.Now().Add(30*time.Second); code != 0; {
			if code, out = a.terminal(dir, "review", "approve", id); time.Now().After(stop) {
				t.Fatalf("approve: %s", out)
			}
		}
		if e := <-end; e.err != nil || e.r.Facts["state"] != "executed" || !mcpGone(filepath.Join(dir, "a.txt")) {
			t.Fatalf("got %v %v", e.r.Facts, e.err)
		}
	})
	t.Run("the next change is made by the daemon that was started, and the first one undone", func(t *testing.T) {
		c.done("undo", M{"operation_id": first.Facts["undo"]})
		if !mcpGone(filepath.Join(dir, "b.txt")) {
			t.Fatal("b.txt is still there")
		}
	})
	t.Run("a daemon that is ended in order is started at the next call, not before", func(t *testing.T) {
		now := a.daemons()
		syscall.Kill(now[0], syscall.SIGTERM)
		for stop := time.Now().Add(time.Minute); len(a.daemons()) > 0; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(stop) {
				t.Fatal("the daemon does not end")
			}
		}
		time.Sleep(300 * time.Millisecond)
		if n := len(a.daemons()); n != 0 {
			t.Fatalf("%d daemons run though nobody asks anything", n)
		}
		c.done("write_file", M{"path": "c.txt", "content": "c\n"})
	})
}

// theRest uses what everyTool does not: the other ways to look, to change and to ask.
func theRest(t *testing.T, c *mcpTools, at func(string) string) {
	t.Helper()
	c.done("write_file", M{"path": at("r.md"), "content": "# Needle\n\n- one\n"})
	for _, call := range []struct {
		tool string
		args M
		want string
	}{
		{"search_files", M{"path": at(""), "pattern": "Needle"}, "r.md:1: # Needle"},
		{"file_tree", M{"path": at("")}, "r.md"},
		{"validate_file", M{"path": at("r.md"), "format": "markdown"}, ""},
		{"preview_markdown", M{"path": at("r.md")}, "Needle"},
		{"detect_tests", M{}, ""},
		{"list_backups", M{"path": at("r.md")}, ""},
	} {
		if r := c.done(call.tool, call.args); !strings.Contains(r.Text, call.want) {
			t.Errorf("%s: got %q, want %q", call.tool, r.Text, call.want)
		}
	}
	patched := c.done("patch_file", M{"patch": "--- a/" + at("r.md") + "\n+++ b/" + at("r.md") + "\n@@ -1,3 +1,3 @@\n # Needle\n \n-- one\n+- two\n"})
	if id, _ := patched.Facts["undo"].(string); !strings.HasPrefix(id, "un_") {
		t.Errorf("patch_file: %v", patched.Facts)
	}
	kept := c.done("backup_file", M{"path": at("r.md")})
	held := map[string]M{
		"rollback_file":   {"path": at("r.md"), "backup_id": kept.Facts["backup_id"]},
		"batch_file_ops":  {"operations": []M{{"op": "write_file", "args": M{"path": at("x"), "content": "x"}}, {"op": "delete_file", "args": M{"path": at("r.md")}}}},
		"workspace_shell": {"command": "true"},
	}
	for tool, args := range held {
		id, r := c.held(tool, args)
		if !strings.Contains(r.Text, "Next: call approval_wait") {
			t.Errorf("%s: %q", tool, r.Text)
		}
		c.call("approval_cancel", M{"approval_id": id})
	}
	// Whatever else is offered answers in the same form.
	list, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		if r, err := c.try(tool.Name, M{"path": at("r.md")}); err != nil || r.Facts["status"] == nil {
			t.Errorf("%s: %v %v", tool.Name, r.Facts, err)
		}
	}
}
