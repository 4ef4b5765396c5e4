package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestMCPShapes(t *testing.T) {
	t.Parallel()
	d := start(t)
	names := func(args ...string) map[string]*sdk.Tool {
		list, err := d.stdio("2025-11-25", nil, args...).ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]*sdk.Tool{}
		for _, tool := range list.Tools {
			out[tool.Name] = tool
		}
		return out
	}
	t.Run("the default list of tools takes at most 16 KiB and each tool says all that it must", func(t *testing.T) {
		line := d.rawLine(t, `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}`)
		var got struct {
			Result struct{ Tools []M }
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d tools in %d bytes", len(got.Result.Tools), len(line))
		if len(line) > 16<<10 || len(got.Result.Tools) < 12 {
			t.Fatalf("%d tools in %d bytes", len(got.Result.Tools), len(line))
		}
		for _, tool := range got.Result.Tools {
			hints, _ := tool["annotations"].(map[string]any)
			for _, h := range []string{"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"} {
				if _, set := hints[h].(bool); !set {
					t.Errorf("%v: %s is not set", tool["name"], h)
				}
			}
			for _, k := range []string{"title", "description"} {
				if text(tool, k) == "" {
					t.Errorf("%v has no %s", tool["name"], k)
				}
			}
			for _, k := range []string{"inputSchema", "outputSchema"} {
				if text(tool, k, "type") != "object" {
					t.Errorf("%v has no %s", tool["name"], k)
				}
			}
		}
	})
	t.Run("--tools chooses", func(t *testing.T) {
		read, edit := names("--tools", "read"), names("--tools", "read,edit")
		if read["view_file"] == nil || read["edit_file"] != nil || read["delete_file"] != nil || read["approval_wait"] != nil {
			t.Errorf("read: %d tools", len(read))
		}
		if edit["edit_file"] == nil || edit["undo"] == nil || edit["approval_wait"] == nil || edit["workspace_shell"] != nil || edit["git_log"] != nil {
			t.Errorf("read,edit: %d tools", len(edit))
		}
		c := d.stdio("2025-11-25", nil, "--tools", "read")
		if _, err := c.try("write_file", M{"path": "x", "content": "x"}); err == nil || !mcpGone(filepath.Join(d.Root, "x")) {
			t.Errorf("a tool that was not chosen ran: %v", err)
		}
		if code, _, errs := d.cli("mcp", "--tools", "everything"); code != 2 || !strings.Contains(errs, "everything") {
			t.Errorf("an unknown group: %d %s", code, errs)
		}
	})
	c := d.stdio("2025-11-25", nil)
	t.Run("an edit is answered in at most 600 bytes with an id that undo takes", func(t *testing.T) {
		long := strings.Repeat("d", 200) + "/" + strings.Repeat("f", 200)
		c.done("write_file", M{"path": long, "content": "a\r\nb\n"})
		r := c.done("edit_file", M{"path": long, "old_string": "a", "new_string": strings.Repeat("x\n", 5000)})
		undo, _ := r.Facts["undo"].(string)
		if len(r.Text) > 600 || !strings.HasPrefix(undo, "un_") || len(undo) > 40 || !strings.Contains(r.Text, undo) {
			t.Fatalf("%d bytes, undo %q: %q", len(r.Text), undo, r.Text)
		}
		c.done("undo", M{"operation_id": undo})
		if got := read(t, filepath.Join(d.Root, long)); got != "a\r\nb\n" {
			t.Fatalf("after the undo: %q", got)
		}
	})
	t.Run("a large view is bounded and its cursor leads through the whole file", func(t *testing.T) {
		var all strings.Builder
		for i := 0; all.Len() < 300_000; i++ {
			fmt.Fprintf(&all, "line %d \u00e9\u4e16\U0001f600 <&> \"quoted\" \\ %s\n", i, strings.Repeat("x", i%90))
		}
		write(t, filepath.Join(d.Root, "big.txt"), all.String())
		args, got := M{"path": "big.txt"}, ""
		for n := 0; ; n++ {
			r := c.done("view_file", args)
			if len(r.Text) > 80_000 || n > 20 {
				t.Fatalf("part %d has %d bytes", n, len(r.Text))
			}
			if facts := mcpEncoded(t, r.StructuredContent); strings.Contains(string(facts), "quoted") {
				t.Fatal("the text travels twice")
			}
			got += r.Text
			next, more := r.Facts["next"]
			if !more {
				break
			}
			if !strings.HasSuffix(r.Facts["hash"].(string), "+partial") {
				t.Fatalf("a part has the hash %v", r.Facts["hash"])
			}
			args = M{"path": "big.txt", r.Facts["next_arg"].(string): next}
		}
		if got != all.String() {
			t.Fatalf("the parts have %d bytes, the file %d", len(got), all.Len())
		}
		if r := c.done("view_file", M{"path": "big.txt", "offset": 10, "limit": 1 << 20}); len(r.Text) > 80_000 || r.Facts["next"] == nil {
			t.Fatalf("bytes: %d, %v", len(r.Text), r.Facts)
		}
	})
	t.Run("a long listing is cut at a cursor that goes on", func(t *testing.T) {
		for i := range 900 {
			write(t, filepath.Join(d.Root, "many", fmt.Sprintf("%0120d", i)), "")
		}
		seen := map[string]bool{}
		args := M{"path": "many", "page_size": 1000}
		for n := 0; ; n++ {
			r := c.done("list_directory", args)
			if len(r.Text) > 85_000 || n > 5 {
				t.Fatalf("part %d has %d bytes", n, len(r.Text))
			}
			for _, l := range strings.Split(r.Text, "\n") {
				if strings.HasPrefix(l, "many/") {
					seen[l] = true
				}
			}
			next, _ := r.Facts["next"].(string)
			if next == "" {
				break
			}
			args["page"] = next
		}
		if len(seen) != 900 {
			t.Fatalf("%d names were listed, 900 are there", len(seen))
		}
	})
	t.Run("a stale answer gives the current hash and tells whether the change still applies", func(t *testing.T) {
		r := c.done("write_file", M{"path": "s.txt", "content": "a\nb\n"})
		write(t, filepath.Join(d.Root, "s.txt"), "a\nb\nc\n")
		stale := c.call("edit_file", M{"path": "s.txt", "old_string": "a", "new_string": "z", "expected_hash": r.Facts["hash"]})
		if text(stale.Facts, "error", "code") != "stale_precondition" || text(stale.Facts, "error", "current_hash") == "" || stale.Facts["still_applies"] != true || !strings.Contains(stale.Text, "+z") {
			t.Fatalf("got %v %q", stale.Facts, stale.Text)
		}
		write(t, filepath.Join(d.Root, "s.txt"), "other\n")
		stale = c.call("edit_file", M{"path": "s.txt", "old_string": "a", "new_string": "z", "expected_hash": r.Facts["hash"]})
		if stale.Facts["still_applies"] != false {
			t.Fatalf("got %v %q", stale.Facts, stale.Text)
		}
	})
	t.Run("both lanes give the same answers", func(t *testing.T) {
		write(t, filepath.Join(d.Root, "l.txt"), "a <&> \u2028 \"b\"\\\n\tc\u0001\n")
		for _, call := range []string{
			`"name":"view_file","arguments":{"path":"l.txt"}`,
			`"name":"view_file","arguments":{"path":"none"}`,
			`"name":"view_file","arguments":{"path":5}`,
			`"name":"list_directory","arguments":{"path":"."}`,
			`"name":"file_info","arguments":{"path":"l.txt"}`,
			`"name":"preflight","arguments":{"op":"delete_file","args":{"path":"l.txt"}}`,
			`"name":"approval_status","arguments":{"approval_id":"ap_none"}`,
			`"name":"edit_file","arguments":{"path":"l.txt","old_string":"q","new_string":"r"}`,
			`"name":"edit_file"`,
			`"name":"no_such_tool","arguments":{}`,
		} {
			quick := d.rawLine(t, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{`+call+`}}`)
			slow := d.rawLine(t, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{`+call+`,"_meta":{"x":1,"y":2}}}`)
			if !reflect.DeepEqual(mcpJSON(t, quick), mcpJSON(t, slow)) {
				t.Errorf("%s:\nquick %sslow  %s", call, quick, slow)
			}
		}
		quick := d.rawLine(t, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
		slow := d.rawLine(t, `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{"x":1}}}`)
		if !reflect.DeepEqual(mcpJSON(t, quick), mcpJSON(t, slow)) {
			t.Errorf("tools/list:\nquick %sslow  %s", quick, slow)
		}
	})
	t.Run("--compat serves the reference file server's names through the same engine", func(t *testing.T) {
		c := d.stdio("2025-06-18", nil, "--compat")
		c.done("create_directory", M{"path": "ref"})
		c.done("write_file", M{"path": "ref/a.txt", "content": "one\ntwo\nthree\n"})
		r := c.done("edit_file", M{"path": filepath.Join(d.Root, "ref/a.txt"), "edits": []M{{"oldText": "two", "newText": "2"}}, "dryRun": false})
		if !strings.HasPrefix(r.Facts["undo"].(string), "un_") {
			t.Fatalf("edit: %v", r.Facts)
		}
		for _, c2 := range []struct {
			tool string
			args M
			want string
		}{
			{"read_text_file", M{"path": "ref/a.txt"}, "one\n2\nthree\n"},
			{"read_file", M{"path": "ref/a.txt", "head": 1}, "one\n"},
			{"read_text_file", M{"path": "ref/a.txt", "tail": 1}, "three\n"},
			{"read_multiple_files", M{"paths": []string{"ref/a.txt"}}, "ref/a.txt:\none\n2\nthree\n\n"},
			{"list_directory", M{"path": "ref"}, "[FILE] a.txt"},
			{"directory_tree", M{"path": "ref"}, `[{"name":"a.txt","type":"file"}]`},
			{"search_files", M{"path": "ref", "pattern": "**/*.txt"}, "ref/a.txt"},
			{"list_allowed_directories", M{}, "Allowed directories:\n" + d.Root},
		} {
			if r := c.done(c2.tool, c2.args); r.Text != c2.want {
				t.Errorf("%s: got %q, want %q", c2.tool, r.Text, c2.want)
			}
		}
		if r := c.done("get_file_info", M{"path": "ref/a.txt"}); !strings.Contains(r.Text, "size: 12") {
			t.Errorf("get_file_info: %q", r.Text)
		}
		if r := c.call("read_text_file", M{"path": "/etc/passwd"}); !r.IsError || text(r.Facts, "error", "code") != "outside_workspace" {
			t.Errorf("outside: %v", r.Facts)
		}
		c.done("write_file", M{"path": "ref/1/2/3/4/5/6/deep.md", "content": "d"})
		c.done("write_file", M{"path": "ref/dot.png", "content_base64": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="})
		for _, c2 := range []struct {
			tool string
			args M
			want string
		}{
			{"search_files", M{"path": "ref", "pattern": "*.md"}, "ref/1/2/3/4/5/6/deep.md"},
			{"search_files", M{"path": "ref", "pattern": "*.md", "excludePatterns": []string{"1/2"}}, "No matches found"},
			{"directory_tree", M{"path": "ref/1/2/3"}, `[{"name":"4","type":"directory","children":[{"name":"5","type":"directory","children":[{"name":"6","type":"directory","children":[{"name":"deep.md","type":"file"}]}]}]}]`},
			{"directory_tree", M{"path": "ref", "excludePatterns": []string{"1", "*.png"}}, `[{"name":"a.txt","type":"file"}]`},
			{"list_directory_with_sizes", M{"path": "ref"}, "[DIR] 1\n[FILE] a.txt  12 B\n[FILE] dot.png  70 B\n\nTotal: 2 files, 1 directories\nCombined size: 82 B"},
			{"list_directory_with_sizes", M{"path": "ref", "sortBy": "size"}, "[FILE] dot.png  70 B\n[FILE] a.txt  12 B\n[DIR] 1\n\nTotal: 2 files, 1 directories\nCombined size: 82 B"},
			{"read_media_file", M{"path": "ref/dot.png"}, "image/png, 70 bytes."},
		} {
			if r := c.done(c2.tool, c2.args); r.Text != c2.want {
				t.Errorf("%s %v: got %q, want %q", c2.tool, c2.args, r.Text, c2.want)
			}
		}
		c.held("move_file", M{"source": "ref/a.txt", "destination": "ref/b.txt"})
	})
}

func mcpJSON(t *testing.T, line string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(line), &v); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return v
}
