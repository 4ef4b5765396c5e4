package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdpoint/internal/ports"
)

// TestMCP drives every tool with the official Go client, over both transports, on each
// protocol version.
func TestMCP(t *testing.T) {
	t.Parallel()
	addr := ports.Addr(t)
	d := start(t, "--listen", addr)
	eachClient(t, d, addr, func(t *testing.T, c *mcpTools) {
		if want := t.Name()[len(t.Name())-len("2025-06-18"):]; c.InitializeResult().ProtocolVersion != want {
			t.Fatalf("version %s was negotiated, want %s", c.InitializeResult().ProtocolVersion, want)
		}
		if got := c.InitializeResult().ServerInfo.Name; got != "holdpoint" {
			t.Fatalf("server %q", got)
		}
		dir := strings.NewReplacer(" ", "-", "/", "-").Replace(t.Name())
		everyTool(t, d, c, dir)
	})
}

// everyTool uses each built operation and each further tool once.
func everyTool(t *testing.T, d *daemon, c *mcpTools, dir string) {
	at := func(name string) string { return dir + "/" + name }
	full := func(name string) string { return filepath.Join(d.Root, dir, name) }
	c.done("create_directory", M{"path": dir})
	c.done("write_file", M{"path": at("a.txt"), "content": "one\ntwo\n"})
	edited := c.done("edit_file", M{"path": at("a.txt"), "old_string": "two", "new_string": "<zwei> & \"drei\""})
	if want := "one\n<zwei> & \"drei\"\n"; read(t, full("a.txt")) != want || c.done("view_file", M{"path": at("a.txt")}).Text != want {
		t.Fatalf("after the edit: %q", read(t, full("a.txt")))
	}
	if r := c.done("list_directory", M{"path": dir}); !strings.Contains(r.Text, "a.txt") {
		t.Fatalf("list: %q", r.Text)
	}
	if r := c.done("file_info", M{"path": at("a.txt")}); r.Facts["hash"] != edited.Facts["hash"] {
		t.Fatalf("info: %v", r.Facts)
	}
	if r := c.done("diff_file", M{"path": at("a.txt"), "content": "one\n"}); !strings.Contains(r.Text, "-<zwei>") {
		t.Fatalf("diff: %q", r.Text)
	}
	c.done("copy_file", M{"source": at("a.txt"), "destination": at("b.txt")})
	c.done("undo", M{"operation_id": edited.Facts["undo"]})
	if got := read(t, full("a.txt")); got != "one\ntwo\n" {
		t.Fatalf("after the undo: %q", got)
	}
	if r := c.done("preflight", M{"op": "delete_file", "args": M{"path": at("b.txt")}}); r.Facts["verdict"] != "review" {
		t.Fatalf("preflight: %v", r.Facts)
	}
	move, _ := c.held("move_file", M{"source": at("b.txt"), "destination": at("c.txt")})
	if r := c.call("approval_status", M{"approval_id": move}); r.Facts["state"] != "pending" || r.IsError {
		t.Fatalf("status: %v", r.Facts)
	}
	d.respond(move, "approve", "")
	if r := c.done("approval_wait", M{"approval_id": move}); r.Facts["state"] != "executed" || read(t, full("c.txt")) == "" {
		t.Fatalf("wait: %v", r.Facts)
	}
	del, _ := c.held("delete_file", M{"path": at("c.txt")})
	if r := c.call("approval_cancel", M{"approval_id": del}); r.Facts["state"] != "cancelled" {
		t.Fatalf("cancel: %v", r.Facts)
	}
	if _, err := os.Stat(full("c.txt")); err != nil {
		t.Fatal("a withdrawn delete ran")
	}
	theRest(t, c, at)
	if r := c.done("list_profiles", M{}); r.Facts["current"] != "default" {
		t.Fatalf("list_profiles: %v", r.Facts)
	}
	if r := c.call("request_profile_switch", M{"profile": "none"}); !r.IsError || text(r.Facts, "error", "code") != "not_found" {
		t.Fatalf("request_profile_switch: %v", r.Facts)
	}
	if r := c.call("view_file", M{"path": at("none")}); !r.IsError || text(r.Facts, "error", "code") != "not_found" || !strings.Contains(r.Text, "Next: ") {
		t.Fatalf("a missing file: %v %q", r.Facts, r.Text)
	}
	if r := c.call("view_file", M{"path": at("a.txt"), "nonsense": true}); text(r.Facts, "error", "code") != "bad_request" {
		t.Fatalf("an unknown argument: %v", r.Facts)
	}
	if _, err := c.try("approve", M{"approval_id": del}); err == nil {
		t.Fatal("there is a tool that approves")
	}
	theOthers(t, c, at("a.txt"))
}

// theOthers calls each listed tool that has no case of its own here, so that one which
// joins later is driven from its first day: it must answer in the common form.
func theOthers(t *testing.T, c *mcpTools, path string) {
	mine := " create_directory write_file edit_file view_file list_directory file_info diff_file copy_file undo preflight move_file delete_file approval_status approval_wait approval_cancel "
	list, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		if strings.Contains(mine, " "+tool.Name+" ") {
			continue
		}
		args := M{}
		schema, _ := tool.InputSchema.(map[string]any)
		required, _ := schema["required"].([]any)
		for _, name := range required {
			kind := text(schema, "properties", name.(string), "type")
			args[name.(string)] = map[string]any{"integer": 1, "boolean": false, "array": []any{}, "object": M{}, "string": path}[kind]
		}
		r := c.call(tool.Name, args)
		if s, _ := r.Facts["status"].(string); s == "" || r.Text == "" || r.IsError != (s == "failed" || s == "refused") {
			t.Errorf("%s: got %v %q", tool.Name, r.Facts, r.Text)
		}
	}
}
