package e2e

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// TestMCPAgent lets a scripted agent work unattended: 200 calls of mixed kinds on a real
// repository through MCP, answered by a person only where a call is held.
func TestMCPAgent(t *testing.T) {
	t.Parallel()
	const calls = 200
	seed := seedOf(t)
	root, state := dirs(t)
	files := copyModule(t, "golang.org/x/sys", root)
	d := startOn(t, root, state, nil)
	c := d.stdio("2025-11-25", nil)
	rng := rand.New(rand.NewPCG(seed, 7))
	before := digest(t, root)
	began := time.Now()

	live := files
	take := func() string { // a file that is there, which leaves the list
		i := rng.IntN(len(live))
		f := live[i]
		live = append(live[:i:i], live[i+1:]...)
		return f
	}
	var undos, ops []string // of each change, in order
	kinds, held := map[string]int{}, 0
	changed := func(kind string, r mcpResult) {
		t.Helper()
		undo, _ := r.Facts["undo"].(string)
		id, _ := r.Facts["operation_id"].(string)
		if undo == "" || id == "" {
			t.Fatalf("seed %d: %s gave no way back: %v", seed, kind, r.Facts)
		}
		undos, ops = append(undos, undo), append(ops, id)
	}
	// change makes one change; where it is held (a delete, a protected name, a large
	// file), a person approves it while the agent waits.
	change := func(tool string, args M) mcpResult {
		t.Helper()
		r := c.call(tool, args)
		if r.Facts["status"] == "review" {
			held++
			d.respond(r.Facts["approval_id"].(string), "approve", "")
			r = c.call("approval_wait", M{"approval_id": r.Facts["approval_id"]})
		}
		if r.Facts["status"] != "done" {
			t.Fatalf("seed %d: %s %v: got %v %q", seed, tool, args, r.Facts, r.Text)
		}
		return r
	}
	for n := 0; n < calls; n++ {
		pick := rng.IntN(24)
		kind := ""
		switch {
		case pick < 6:
			kind = "view_file"
			c.done(kind, M{"path": live[rng.IntN(len(live))], "start_line": 1, "end_line": 20})
		case pick < 8:
			kind = "list_directory"
			c.done(kind, M{"path": filepath.Dir(live[rng.IntN(len(live))])})
		case pick < 9:
			kind = "file_info"
			c.done(kind, M{"path": live[rng.IntN(len(live))]})
		case pick < 13:
			kind = "edit_file"
			f := live[rng.IntN(len(live))]
			text := read(t, filepath.Join(root, f))
			old, _, ok := strings.Cut(text, "\n")
			if !ok || old == "" || strings.Count(text, old) != 1 || len(text) > 60_000 || !utf8.ValidString(text) { // what is no text cannot travel as a string
				kind = "preflight"
				c.done(kind, M{"op": "delete_file", "args": M{"path": f}})
				break
			}
			changed(kind, change(kind, M{"path": f, "old_string": old, "new_string": old + fmt.Sprintf(" // %d", n)}))
		case pick < 15:
			kind = "write_file"
			f := fmt.Sprintf("new/%d/file%d.go", n%3, n)
			changed(kind, change(kind, M{"path": f, "content": fmt.Sprintf("package x // %d\n", n)}))
			live = append(live, f)
		case pick < 16:
			kind = "copy_file"
			f := fmt.Sprintf("copies/c%d", n)
			changed(kind, change(kind, M{"source": live[rng.IntN(len(live))], "destination": f}))
			live = append(live, f)
		case pick < 17:
			kind = "create_directory"
			changed(kind, change(kind, M{"path": fmt.Sprintf("dirs/d%d", n)}))
		case pick < 18:
			kind = "delete_file"
			changed(kind, change(kind, M{"path": take()}))
		case pick < 19:
			kind = "move_file"
			f := fmt.Sprintf("moved/m%d", n)
			changed(kind, change(kind, M{"source": take(), "destination": f}))
			live = append(live, f)
		case pick < 20:
			kind = "search_files"
			c.done(kind, M{"path": ".", "pattern": "package", "max_results": 20})
		case pick < 21:
			kind = "file_tree"
			c.done(kind, M{"path": ".", "depth": 2})
		case pick < 22:
			kind = "batch_file_ops"
			f := fmt.Sprintf("batch/%d", n)
			changed(kind, change(kind, M{"operations": []M{{"op": "write_file", "args": M{"path": f + "/a", "content": "a\n"}}, {"op": "write_file", "args": M{"path": f + "/b", "content": "b\n"}}}}))
			live = append(live, f+"/a", f+"/b")
		case pick < 23:
			kind = "patch_file"
			f := fmt.Sprintf("new/p%d.txt", n)
			changed(kind, change(kind, M{"patch": fmt.Sprintf("--- /dev/null\n+++ b/%s\n@@ -0,0 +1,1 @@\n+patched %d\n", f, n)}))
			live = append(live, f)
		default:
			kind = "no such text"
			if r := c.call("edit_file", M{"path": live[rng.IntN(len(live))], "old_string": "\x01never there\x02", "new_string": ""}); text(r.Facts, "error", "code") != "no_match" {
				t.Fatalf("seed %d: got %v", seed, r.Facts)
			}
		}
		kinds[kind]++
	}
	t.Logf("%d calls, %d changes, %d of them held, in %v: %v", calls, len(undos), held, time.Since(began).Round(time.Millisecond), kinds)
	for _, k := range []string{"view_file", "edit_file", "write_file", "delete_file", "move_file", "copy_file"} {
		if kinds[k] == 0 {
			t.Errorf("seed %d: no %s came up", seed, k)
		}
	}
	t.Run("the log is what the agent did", func(t *testing.T) {
		var logged []string
		path := "/v1/operations?limit=1000"
		_, out := d.http("GET", path, d.Agent, nil)
		list, _ := out["operations"].([]any)
		for i := len(list) - 1; i >= 0; i-- {
			o := list[i].(map[string]any)
			logged = append(logged, text(o, "id"))
			if text(o, "undo") != "available" || !strings.HasPrefix(text(o, "session"), "mcp-") {
				t.Errorf("%v has undo %q, session %q", o["id"], text(o, "undo"), text(o, "session"))
			}
		}
		if strings.Join(logged, " ") != strings.Join(ops, " ") {
			t.Errorf("seed %d: logged %d operations, the agent made %d, or in another order", seed, len(logged), len(ops))
		}
	})
	t.Run("every change is undone by its short id", func(t *testing.T) {
		if digest(t, root) == before {
			t.Fatal("the calls left the tree as it was: the digest sees nothing")
		}
		for i := len(undos) - 1; i >= 0; i-- {
			change("undo", M{"operation_id": undos[i]})
		}
		if digest(t, root) != before {
			t.Fatalf("seed %d: the tree is not what it was", seed)
		}
	})
}
