package e2e

import (
	"path/filepath"
	"reflect"
	"testing"

	"holdpoint/internal/ports"
)

// Whatever way a call comes, one judgement decides it and one line tells of it.
func TestOneDecisionEverywhere(t *testing.T) {
	t.Parallel()
	addr := ports.Addr(t)
	d := start(t, "--listen", addr)
	newest := mcpVersions[len(mcpVersions)-1]
	stdio, stream := d.stdio(newest, nil), d.overHTTP(addr, d.Agent, newest, nil)
	at := func(name string) string { return filepath.Join(d.Root, name) }
	ways := []struct {
		name string
		call func(op string, args M)
	}{
		{"HTTP", func(op string, args M) { d.call(op, args) }},
		{"the command line", func(op string, args M) { d.cli("call", op, "--args", string(mcpEncoded(t, args))) }},
		{"MCP over stdio", func(op string, args M) { stdio.call(op, args) }},
		{"MCP over HTTP", func(op string, args M) { stream.call(op, args) }},
	}
	// recordOf is the one line that a call leaves, without what must differ.
	recordOf := func(t *testing.T, do func()) M {
		t.Helper()
		n := len(d.records())
		do()
		got := d.records()[n:]
		if len(got) != 1 {
			t.Fatalf("%d lines", len(got))
		}
		for _, k := range []string{"seq", "time", "prev", "operation_id", "approval_id", "execution_id"} {
			delete(got[0], k)
		}
		return got[0]
	}
	t.Run("C2 I63 every way in gives the same decision, and the same line", func(t *testing.T) {
		for _, c := range []struct {
			op   string
			args M
			want string
		}{
			{"view_file", M{"path": "f.txt"}, "read_only"},
			{"edit_file", M{"path": "f.txt", "old_string": "one", "new_string": "two"}, "low_impact_scoped_change"},
			{"delete_file", M{"path": "f.txt"}, "destructive_operation"},
			{"write_file", M{"path": ".env", "content": "x"}, "protected_target"},
			{"workspace_shell", M{"script": "true"}, "process_execution"},
			{"batch_file_ops", M{"operations": []M{{"op": "delete_file", "args": M{"path": "f.txt"}}}}, "mutating_batch"},
			{"view_file", M{"path": "../x"}, ""},
		} {
			var first M
			for _, w := range ways {
				write(t, at("f.txt"), "one\n")
				got := recordOf(t, func() { w.call(c.op, c.args) })
				if first == nil {
					first = got
				}
				if got["reason"] != c.want || !reflect.DeepEqual(got, first) {
					t.Errorf("%s by %s: got %v, want the reason %q and the line %v", c.op, w.name, got, c.want, first)
				}
			}
		}
	})
	t.Run("C2 I71 a retry and what a person released carry the decision that was made, and a line each", func(t *testing.T) {
		write(t, at("g.txt"), "one\n")
		held := must(t, d.call("delete_file", M{"path": "g.txt"}), "review")
		again := must(t, d.call("delete_file", M{"path": "g.txt"}), "review")
		n := len(d.records())
		done := must(t, d.approve(held), "done")
		lines := d.records()[n:]
		if !reflect.DeepEqual(held["decision"], again["decision"]) || !reflect.DeepEqual(held["decision"], done["decision"]) {
			t.Errorf("got %v, %v and %v", held["decision"], again["decision"], done["decision"])
		}
		if len(lines) != 2 || lines[0]["kind"] != "answer" || lines[1]["kind"] != "end" || lines[0]["reason"] != "destructive_operation" || lines[1]["reason"] != "destructive_operation" ||
			lines[1]["decision"] != "require_user_approval" || lines[1]["outcome"] != "executed" {
			t.Errorf("got %v", lines)
		}
		// One that fails after it was released is on record as well, and is not tried again.
		write(t, at("h.txt"), "one\n")
		held = must(t, d.call("delete_file", M{"path": "h.txt"}), "review")
		write(t, at("h.txt"), "changed\n")
		n = len(d.records())
		d.approve(held)
		lines = d.records()[n:]
		if len(lines) != 2 || lines[1]["kind"] != "end" || lines[1]["outcome"] != "failed" || lines[1]["reason"] != "destructive_operation" {
			t.Errorf("got %v", lines)
		}
	})
}
