package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"holdpoint/internal/ports"
)

// TestWaitingEverywhere holds one kind of call over each way that an agent has.
func TestWaitingEverywhere(t *testing.T) {
	t.Parallel()
	addr := ports.Addr(t)
	d := start(t, "--listen", addr)
	ask := map[string]func(t *testing.T, path string) (id string){
		"HTTP": func(t *testing.T, path string) string {
			status, r := d.http("POST", "/v1/call", d.Agent, M{"op": "delete_file", "args": M{"path": path}})
			if status != 202 || text(r, "status") != "review" || r["error"] != nil || text(r, "approval", "title") != "Delete 1 file" {
				t.Errorf("got %d %v", status, r)
			}
			return idOf(r)
		},
		"the command line": func(t *testing.T, path string) string {
			exit, out, errs := d.cli("call", "--json", "delete_file", "path="+path)
			var r M
			if err := json.Unmarshal([]byte(out), &r); err != nil || exit != 3 || text(r, "status") != "review" || r["error"] != nil {
				t.Errorf("exit %d, %s %s", exit, out, errs)
			}
			return idOf(r)
		},
		"MCP over stdio": func(t *testing.T, path string) string {
			c := d.stdio("2025-11-25", nil)
			c.t = t
			id, _ := c.held("delete_file", M{"path": path})
			return id
		},
		"MCP over HTTP": func(t *testing.T, path string) string {
			c := d.overHTTP(addr, d.Agent, "2025-06-18", nil)
			c.t = t
			id, _ := c.held("delete_file", M{"path": path})
			return id
		},
	}
	shapes := map[string][]string{}
	t.Run("U2 a call that waits is a typed result on each way, and no error", func(t *testing.T) {
		n := 0
		for way, held := range ask {
			n++
			name := fmt.Sprintf("w%d", n)
			write(t, filepath.Join(d.Root, name), "x")
			id := held(t, name)
			if id == "" || d.state(id) != "pending" || !there(filepath.Join(d.Root, name)) {
				t.Fatalf("%s: row %q", way, id)
			}
			d.respond(id, "approve", "")
			if there(filepath.Join(d.Root, name)) {
				t.Errorf("%s: it did not run", way)
			}
			_, out := d.http("GET", "/v1/audit?n=1000", d.reviewer(), nil)
			for _, r := range objects(out["records"]) {
				if text(r, "approval_id") == id {
					shapes[way] = append(shapes[way], text(r, "kind")+" "+text(r, "decision")+" "+text(r, "outcome")+" "+fmt.Sprint(r["operation_id"] != nil && r["operation_id"] != ""))
				}
			}
		}
	})
	t.Run("I63 what was done is on record alike, whichever way it was asked", func(t *testing.T) {
		want := shapes["HTTP"]
		if len(want) != 3 {
			t.Fatalf("got %v, want the call, the answer and the end", want)
		}
		for way, got := range shapes {
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %v, want %v", way, got, want)
			}
		}
	})
	t.Run("I65 the end of a call that waited says that something was done, and that it was resumed", func(t *testing.T) {
		write(t, filepath.Join(d.Root, "r"), "x")
		held := must(t, d.call("delete_file", M{"path": "r"}), "review")
		done := d.approve(held)
		if held["resumed"] != nil || held["effects_executed"] != false || done["effects_executed"] != true || done["resumed"] != true || len(objects(done["effects"])) != 1 {
			t.Errorf("held %v, done %v", held, done)
		}
		_, row := d.http("GET", "/v1/approvals/"+idOf(held), d.Agent, nil)
		if reply := object(row["reply"]); reply["resumed"] != true || reply["effects_executed"] != true {
			t.Errorf("whoever asks later gets %v", reply)
		}
		if direct := must(t, d.call("write_file", M{"path": "direct", "content": "x"}), "done"); direct["resumed"] != nil {
			t.Errorf("a call that did not wait: %v", direct["resumed"])
		}
	})
	t.Run("I71 a released call that fails leaves its answer and its end on record, and is not run again", func(t *testing.T) {
		write(t, filepath.Join(d.Root, "s"), "x")
		held := must(t, d.call("delete_file", M{"path": "s"}), "review")
		write(t, filepath.Join(d.Root, "s"), "another")
		r := d.approve(held)
		if code(r) != "stale_precondition" || r["effects_executed"] != false || r["resumed"] != true {
			t.Fatalf("got %v", r)
		}
		write(t, filepath.Join(d.Root, "s"), "x") // as it was asked
		time.Sleep(50 * time.Millisecond)
		_, out := d.http("GET", "/v1/audit?n=1000", d.reviewer(), nil)
		var kinds []string
		for _, a := range objects(out["records"]) {
			if text(a, "approval_id") == idOf(held) {
				kinds = append(kinds, text(a, "kind")+" "+text(a, "outcome"))
			}
		}
		if want := []string{"call review", "answer approved", "end failed"}; !reflect.DeepEqual(kinds, want) || !there(filepath.Join(d.Root, "s")) {
			t.Errorf("got %v, want %v", kinds, want)
		}
	})
	t.Run("S60 of what may meet an approval the last: a withdrawal while the program runs ends all of it, and is told as that", func(t *testing.T) {
		for i := range 10 { // some of them before the daemon itself has seen the program start
			began := fmt.Sprint("began", i)
			held := must(t, d.call("workspace_shell", M{"script": "touch " + began + "; setsid sleep 71.5 & sleep 71.5; touch late"}), "review")
			token, body := d.reviewer(), M{"answer": "approve", "shown_digest": text(d.card(held), "shown_digest")}
			answered := make(chan M, 1)
			go func() {
				_, r, _ := d.tryHTTP("POST", "/v1/approvals/"+idOf(held)+"/answer", token, body)
				answered <- r
			}()
			for end := time.Now().Add(time.Minute); !d.has(began) && time.Now().Before(end); {
			}
			if status, r := d.http("POST", "/v1/approvals/"+idOf(held)+"/cancel", token, M{}); status != 200 {
				t.Fatalf("got %d %v", status, r)
			}
			<-answered
			row := d.row(idOf(held))
			if text(row, "reply", "error", "code") != "cancelled" || len(running("71.5")) > 0 || d.has("late") {
				t.Errorf("got %v %v, alive %v", row["state"], object(row["reply"])["error"], running("71.5"))
			}
		}
	})
	t.Run("S61 a program that is remembered is remembered to the letter", func(t *testing.T) {
		write(t, filepath.Join(d.Root, "in/a.py"), "a.*b\n")
		ask := func(command, cwd string, args ...string) M {
			return d.call("workspace_shell", M{"command": command, "args": args, "cwd": cwd})
		}
		held := must(t, ask("grep", "in", "a.*b", "a.py", "*.py"), "review")
		_, out := d.http("POST", "/v1/approvals/"+idOf(held)+"/answer", d.reviewer(), M{"answer": "approve", "remember": true, "shown_digest": text(d.card(held), "shown_digest")})
		if text(out, "state") != "executed" {
			t.Fatalf("got %v", out)
		}
		if r := ask("grep", "in", "a.*b", "a.py", "*.py"); text(r, "status") != "done" || text(r, "decision", "reason") != "remembered_rule" {
			t.Errorf("the same call: %v %v", r["status"], r["decision"])
		}
		for name, r := range map[string]M{"what the pattern would match": ask("grep", "in", "axb", "a.py", "x.py"), "one word more": ask("grep", "in", "a.*b", "a.py", "x", "*.py"),
			"another directory": ask("grep", ".", "a.*b", "a.py", "*.py"), "another program": ask("egrep", "in", "a.*b", "a.py", "*.py")} {
			if text(r, "status") != "review" {
				t.Errorf("%s: %v", name, r["status"])
				continue
			}
			d.cancel(r)
		}
	})
	t.Run("I57 undo without an id takes the whole last batch back", func(t *testing.T) {
		for i := range 3 {
			write(t, filepath.Join(d.Root, fmt.Sprintf("b%d", i)), fmt.Sprint(i))
		}
		before := digest(t, d.Root)
		must(t, d.approve(must(t, d.call("batch_file_ops", M{"operations": []M{item("delete_file", M{"path": "b0"}), item("delete_file", M{"path": "b1"}), item("delete_file", M{"path": "b2"})}}), "review")), "done")
		if there(filepath.Join(d.Root, "b1")) {
			t.Fatal("it did not run")
		}
		if exit, out, errs := d.cli("undo", "@"); exit != 0 || digest(t, d.Root) != before {
			t.Errorf("exit %d %s %s", exit, out, errs)
		}
	})
}

// TestQuarantine follows one deleted file to the end of its window.
func TestQuarantine(t *testing.T) {
	t.Parallel()
	d := quick(t, "keep = \"3s\"\n")
	file := filepath.Join(d.Root, "q.txt")
	write(t, file, "quarantined 4715\n")
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	before := digest(t, d.Root)
	drop := func() (done M) {
		return must(t, d.approve(must(t, d.call("delete_file", M{"path": "q.txt"}), "review")), "done")
	}
	t.Run("I47 a delete lies in quarantine, comes back byte and mode alike, and goes when its window is over, on record", func(t *testing.T) {
		done := drop()
		if exit, out, errs := d.cli("gc"); exit != 0 || len(holds(t, "quarantined 4715", d.store())) != 1 {
			t.Errorf("within the window: exit %d %s%s", exit, out, errs)
		}
		must(t, d.undo(done), "done")
		if digest(t, d.Root) != before {
			t.Fatal("it did not come back as it was")
		}
		done = drop()
		time.Sleep(3200 * time.Millisecond)
		if exit, out, errs := d.cli("gc"); exit != 0 || len(holds(t, "quarantined 4715", d.store())) != 0 {
			t.Errorf("after the window: exit %d %s%s", exit, out, errs)
		}
		if r := d.undo(done); code(r) != "undo_expired" {
			t.Errorf("got %v", r["error"])
		}
		for _, o := range d.operations() {
			if o["id"] == done["operation_id"] && text(o, "undo") != "expired" {
				t.Errorf("the log: %v", o)
			}
		}
	})
}
