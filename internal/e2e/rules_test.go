package e2e

import (
	"path/filepath"
	"testing"
)

func TestRules(t *testing.T) {
	t.Parallel()
	d := start(t, "--allow-yolo")
	write(t, filepath.Join(d.Root, "a.txt"), "one\n")
	write(t, filepath.Join(d.Root, "b.txt"), "one\n")
	put := func(path string, body M) (int, M) { return d.http("PUT", path, d.reviewer(), body) }
	inSession := func(session, op string, args M) M {
		_, out := d.http("POST", "/v1/call", d.Agent, M{"op": op, "args": args, "session": session})
		return out
	}

	t.Run("C75, X17 only a person makes rules and sets modes", func(t *testing.T) {
		for _, r := range [][2]string{{"PUT", "/v1/rules"}, {"PUT", "/v1/mode"}, {"GET", "/v1/rules"}, {"DELETE", "/v1/rules/ru_x"}} {
			if status, out := d.http(r[0], r[1], d.Agent, M{"agent": "agent", "mode": "yolo"}); status != 403 || code(out) != "forbidden" {
				t.Errorf("%v: got %d %v", r, status, out)
			}
		}
	})
	t.Run("X11 the mode is the highest tier that runs without asking, X12 deny asks for all", func(t *testing.T) {
		for _, row := range []struct{ mode, read, edit, delete string }{
			{"deny", "review", "review", "review"}, {"prompt", "done", "review", "review"}, {"auto", "done", "done", "review"}, {"yolo", "done", "done", "done"},
		} {
			if status, out := put("/v1/mode", M{"agent": "agent", "mode": row.mode, "session": "m", "confirm": true}); status != 200 {
				t.Fatalf("%s: %d %v", row.mode, status, out)
			}
			write(t, filepath.Join(d.Root, "gone.txt"), "x\n")
			write(t, filepath.Join(d.Root, "e.txt"), "one\n")
			for op, want := range map[string]string{"view_file": row.read, "edit_file": row.edit, "delete_file": row.delete} {
				args := M{"path": "e.txt"}
				switch op {
				case "edit_file":
					args["old_string"], args["new_string"] = "one", "two"
				case "delete_file":
					args["path"] = "gone.txt"
				}
				if got := inSession("m", op, args); text(got, "status") != want {
					t.Errorf("mode %s, %s: got %v (%v), want %s", row.mode, op, got["status"], got["decision"], want)
				}
			}
		}
	})
	t.Run("X15 yolo needs the operator's leave and a confirmation", func(t *testing.T) {
		if status, _ := put("/v1/mode", M{"agent": "agent", "mode": "yolo"}); status != 400 {
			t.Errorf("without a confirmation: %d", status)
		}
		strict := start(t)
		if status, out := strict.http("PUT", "/v1/mode", strict.reviewer(), M{"agent": "agent", "mode": "yolo", "confirm": true}); status != 403 {
			t.Errorf("without leave: %d %v", status, out)
		}
		held := inSession("m", "write_file", M{"path": ".env", "content": "x"})
		if text(held, "decision", "reason") != "protected_target" {
			t.Errorf("yolo covered a protected target: %v", held["decision"])
		}
	})
	t.Run("X20 modes end with the daemon", func(t *testing.T) {
		if got := inSession("m", "delete_file", M{"path": "b.txt", "recursive": false}); text(got, "status") != "done" {
			t.Fatalf("in yolo: %v", got)
		} else {
			must(t, d.undo(got), "done")
		}
		d.restart()
		if got := inSession("m", "delete_file", M{"path": "b.txt"}); text(got, "status") != "review" {
			t.Errorf("after a restart: %v", got)
		}
	})
	t.Run("X21 a session grant counts for its label, X29 until it is revoked", func(t *testing.T) {
		_, g := put("/v1/rules", M{"agent": "agent", "scope": "session", "session": "s1", "operations": []string{"write_file"}, "paths": []string{"a.*"}, "count": 2})
		over := M{"path": "a.txt", "content": "two\n"}
		got := inSession("s1", "write_file", over)
		if text(got, "decision", "grant_id") != text(g, "id") || text(got, "status") != "done" {
			t.Fatalf("got %v, grant %v", got, g)
		}
		for name, held := range map[string]M{
			"another label":     inSession("s2", "write_file", M{"path": "a.txt", "content": "3\n"}),
			"another path":      inSession("s1", "write_file", M{"path": "b.txt", "content": "4\n"}),
			"another operation": inSession("s1", "copy_file", M{"source": "b.txt", "destination": "a.txt", "overwrite": true}),
		} {
			if text(held, "status") != "review" {
				t.Errorf("%s: got %v", name, held)
			}
		}
		must(t, inSession("s1", "write_file", M{"path": "a.txt", "content": "5\n"}), "done")
		must(t, inSession("s1", "write_file", M{"path": "a.txt", "content": "6\n"}), "review") // used up
		_, g = put("/v1/rules", M{"agent": "agent", "scope": "session", "session": "s3"})
		must(t, inSession("s3", "write_file", M{"path": "a.txt", "content": "7\n"}), "done")
		d.http("DELETE", "/v1/rules/"+text(g, "id"), d.reviewer(), nil)
		must(t, inSession("s3", "write_file", M{"path": "a.txt", "content": "8\n"}), "review")
	})
	t.Run("C71 a remembered rule covers exactly that operation on exactly those paths", func(t *testing.T) {
		held := must(t, d.call("delete_file", M{"path": "a.txt"}), "review")
		id := text(held, "approval", "id")
		_, reach := d.http("GET", "/v1/approvals/"+id+"/reach", d.reviewer(), nil)
		if reach["covered"] != float64(1) {
			t.Errorf("reach before: %v", reach)
		}
		_, row := d.http("GET", "/v1/approvals/"+id, d.reviewer(), nil)
		_, out := d.http("POST", "/v1/approvals/"+id+"/answer", d.reviewer(), M{"answer": "approve", "remember": true, "shown_digest": text(row, "card", "shown_digest")})
		done, _ := out["reply"].(M)
		must(t, done, "done")
		must(t, d.undo(done), "done")
		again := must(t, d.call("delete_file", M{"path": "a.txt"}), "done")
		if text(again, "decision", "reason") != "remembered_rule" {
			t.Errorf("got %v", again["decision"])
		}
		must(t, d.undo(again), "done")
		must(t, d.call("delete_file", M{"path": "b.txt"}), "review")
		must(t, d.call("move_file", M{"source": "a.txt", "destination": "c.txt"}), "review")
	})
	t.Run("C74 a remembered approval still pins fresh facts", func(t *testing.T) {
		_, p := d.http("POST", "/v1/preflight", d.Agent, M{"op": "delete_file", "args": M{"path": "a.txt"}})
		write(t, filepath.Join(d.Root, "a.txt"), "changed since\n")
		_, out := d.http("POST", "/v1/call", d.Agent, M{"op": "delete_file", "args": M{"path": "a.txt"}, "pins": p["pins"]})
		if code(out) != "stale_precondition" {
			t.Errorf("got %v", out)
		}
	})
}
