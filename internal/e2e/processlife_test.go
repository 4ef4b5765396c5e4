//go:build linux

package e2e

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// until waits for something that has no event of its own.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// letting approves beside the test, because the answer to an approval may come only when
// the program has ended.
func (d *daemon) letting(held M) <-chan M {
	d.t.Helper()
	id, token := text(held, "approval", "id"), d.reviewer()
	_, row := d.http("GET", "/v1/approvals/"+id, token, nil)
	out := make(chan M, 1)
	go func() {
		_, got, _ := d.tryHTTP("POST", "/v1/approvals/"+id+"/answer", token, M{"answer": "approve", "shown_digest": text(row, "card", "shown_digest")})
		out <- got
	}()
	return out
}

// runEvent is one event of a run: a piece of output, or its end.
type runEvent struct {
	ID, Kind string
	Data     M
}

func (e runEvent) bytes() string {
	if b, err := base64.StdEncoding.DecodeString(text(e.Data, "content_base64")); err == nil && len(b) > 0 {
		return string(b)
	}
	return text(e.Data, "content")
}

// runEvents follows a run; the channel closes with the stream.
func (d *daemon) runEvents(id, rest, token string, header ...string) (<-chan runEvent, func()) {
	d.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "GET", "http://holdpoint/v1/runs/"+id+"/events"+rest, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	out := make(chan runEvent, 16)
	c := d.client()
	c.Timeout = 0
	go func() {
		defer close(out)
		resp, err := c.Do(r)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 1<<20)
		var e runEvent
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "id":
				e.ID = value
			case "event":
				e.Kind = value
			case "data":
				e.Data = nil
				json.Unmarshal([]byte(value), &e.Data)
				out <- e
			}
		}
	}()
	return out, cancel
}

// seen reads events until the output holds a text, or to the end when the text is empty.
func seen(t testing.TB, events <-chan runEvent, want string) (all string, last runEvent) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		select {
		case e, ok := <-events:
			if !ok {
				if want != "" {
					t.Fatalf("the stream ended before %q: %q", want, all)
				}
				return all, last
			}
			if last = e; e.Kind == "output" {
				all += e.bytes()
			}
			if want != "" && strings.Contains(all, want) {
				return all, last
			}
		case <-limit:
			t.Fatalf("%q did not come: %q", want, all)
		}
	}
}

func (d *daemon) rowOf(held M) M {
	d.t.Helper()
	_, row := d.http("GET", "/v1/approvals/"+text(held, "approval", "id"), d.Agent, nil)
	return row
}

func TestProcessLife(t *testing.T) {
	t.Parallel()
	d := start(t)
	t.Run("what a program prints comes as it is printed, and goes on from any place", func(t *testing.T) {
		held := d.shell("echo one; echo bad >&2; while ! test -e go; do sleep 0.02; done; printf 'zw\\303'; sleep 0.1; printf '\\266lf\\n'")
		events, stop := d.runEvents(text(held, "approval", "id"), "", d.Agent) // before anybody released it
		defer stop()
		answer := d.letting(held)
		all, at := seen(t, events, "bad")
		if !strings.Contains(all, "one\n") {
			all2, last := seen(t, events, "one")
			all, at = all+all2, last
		}
		if row := d.rowOf(held); text(row, "state") != "executing" || text(row, "reply", "status") != "review" || row["reply"].(M)["result"] != nil {
			t.Errorf("while it runs: %v", row)
		}
		d.put("go", "", 0o644)
		more, end := seen(t, events, "")
		if more != "zwölf\n" || end.Kind != "end" || text(end.Data, "termination") != "exited" || end.Data["exit_code"] != 0.0 {
			t.Errorf("got %q, %v", more, end)
		}
		again, stop2 := d.runEvents(text(end.Data, "run_id"), "", d.Agent, "Last-Event-ID", at.ID)
		defer stop2()
		if rest, _ := seen(t, again, ""); rest != "zwölf\n" {
			t.Errorf("from %s on: %q", at.ID, rest)
		}
		from, stop3 := d.runEvents(text(end.Data, "run_id"), "?from=2-1", d.Agent)
		defer stop3()
		if rest, _ := seen(t, from, ""); rest != "e\nzwölf\nad\n" {
			t.Errorf("from 2-1 on: %q", rest)
		}
		if r := <-answer; text(r, "reply", "result", "stdout") != "one\nzwölf\n" {
			t.Errorf("got %v", r)
		}
		_, tok := d.http("POST", "/v1/tokens", d.reviewer(), M{"name": "stranger", "role": "agent"})
		for _, path := range []string{"", "/events", "/output"} {
			if c, r := d.http("GET", "/v1/runs/"+text(end.Data, "run_id")+path, text(tok, "token"), nil); c != 404 {
				t.Errorf("another agent at %s: %d %v", path, c, r)
			}
		}
	})
	t.Run("in the background: the start is the answer; it is listed, read, stopped, and its row says so", func(t *testing.T) {
		held := d.shell("echo up; trap '' TERM; setsid sleep 67.5 & sleep 67.5", M{"background": true})
		if l := lines(d.card(held)); !strings.Contains(l, "runs in the background") || !strings.Contains(l, "after 10m0s") {
			t.Errorf("got %s", l)
		}
		r := d.approve(held)
		id := text(r, "result", "run_id")
		if text(r, "status") != "done" || text(r, "result", "state") != "running" || !strings.HasPrefix(id, "run_") || r["effects_executed"] != true {
			t.Fatalf("got %v", r)
		}
		if row := d.rowOf(held); text(row, "state") != "executing" || text(row, "reply", "result", "state") != "running" {
			t.Errorf("got %v", row)
		}
		until(t, "its output", func() bool {
			_, tail := d.http("GET", "/v1/runs/"+id+"/output?tail=3", d.Agent, nil)
			return text(tail, "content") == "up\n"
		})
		_, list := d.http("GET", "/v1/runs", d.Agent, nil)
		if got := objects(list["runs"]); len(got) == 0 || text(got[0], "run_id") != id || text(got[0], "state") != "running" || text(got[0], "agent") != "agent" {
			t.Errorf("got %v", list)
		}
		until(t, "the second sleeper", func() bool { return len(running("67.5")) == 2 })
		c, stopped := d.http("POST", "/v1/runs/"+id+"/stop", d.Agent, M{})
		if c != 200 || text(stopped, "termination") != "cancelled" || text(stopped, "stopped_by") != "agent" || len(running("67.5")) > 0 {
			t.Errorf("got %d %v, alive %v", c, stopped, running("67.5"))
		}
		row := d.rowOf(held)
		if text(row, "state") != "executed" || text(row, "reply", "error", "code") != "cancelled" || text(row, "reply", "result", "stopped_by") != "agent" || text(row, "reply", "result", "stdout") != "up\n" {
			t.Errorf("got %v", row)
		}
		if c, r := d.http("POST", "/v1/runs/"+id+"/stop", d.Agent, M{}); c != 409 || code(r) != "approval_consumed" {
			t.Errorf("stopped again: %d %v", c, r)
		}
	})
	t.Run("S91 (part) a cancel of a running row ends the whole tree and the row says so; a second one finds it ended", func(t *testing.T) {
		held := d.shell("touch tree; (setsid sh -c \"trap '' TERM; sleep 68.5\" &); sleep 68.5")
		answer := d.letting(held)
		until(t, "its start", func() bool { return d.has("tree") && len(running("68.5")) == 2 })
		c, row := d.http("POST", "/v1/approvals/"+text(held, "approval", "id")+"/cancel", d.Agent, M{})
		if c != 200 || text(row, "state") != "executed" || text(row, "reply", "error", "code") != "cancelled" || text(row, "reply", "result", "termination") != "cancelled" ||
			!strings.Contains(text(row, "reply", "error", "message"), "by agent") || len(running("68.5")) > 0 {
			t.Errorf("got %d %v, alive %v", c, row, running("68.5"))
		}
		if r := <-answer; text(r, "reply", "error", "code") != "cancelled" {
			t.Errorf("whoever waited: %v", r)
		}
		if c, r := d.http("POST", "/v1/approvals/"+text(held, "approval", "id")+"/cancel", d.Agent, M{}); c != 409 || code(r) != "approval_consumed" {
			t.Errorf("cancelled again: %d %v", c, r)
		}
	})
	t.Run("the command line follows, lists, reads and stops", func(t *testing.T) {
		_, tok := d.http("POST", "/v1/tokens", d.reviewer(), M{"name": "cliagent", "role": "agent"})
		d2 := *d
		d2.Agent = text(tok, "token")
		type out struct {
			code        int
			stdout, err string
		}
		got := make(chan out, 1)
		go func() {
			c, o, e := d.cli("call", "workspace_shell", "script=echo first; sleep 0.1; echo second; exit 3", "--follow")
			got <- out{c, o, e}
		}()
		var card M
		until(t, "its card", func() bool {
			_, list := d.http("GET", "/v1/approvals?state=pending", d.reviewer(), nil)
			for _, c := range objects(list["approvals"]) {
				if strings.Contains(lines(c), "echo second") {
					card = c
				}
			}
			return card != nil
		})
		d.approve(M{"approval": M{"id": text(card, "id")}})
		if o := <-got; o.stdout != "first\nsecond\n" || !strings.Contains(o.err, "exit code 3") {
			t.Errorf("got %+v", o)
		}
		held := d.shell("echo shown; sleep 69.5", M{"background": true})
		id := text(d.approve(held), "result", "run_id")
		if _, o, _ := d.cli("runs", "list"); !strings.Contains(o, id) || !strings.Contains(o, "background") {
			t.Errorf("list: %s", o)
		}
		until(t, "its output", func() bool { _, o, _ := d.cli("runs", "tail", id); return o == "shown\n" })
		if c, o, e := d.cli("runs", "stop", id); c != 0 || !strings.Contains(o, "stopped by") || len(running("69.5")) > 0 {
			t.Errorf("stop: %d %s %s", c, o, e)
		}
	})
}

func TestProcessDirect(t *testing.T) {
	t.Parallel()
	d := startOn(t, shortDir(t), shortDir(t), []string{"HOLDPOINT_PROCESS_APPROVAL_DISABLED=true"})
	t.Run("a program that nobody releases is followed by the call's own label, and shown live", func(t *testing.T) {
		c, o, e := d.cli("call", "workspace_shell", "script=echo a; sleep 0.1; echo b", "--follow")
		if c != 0 || o != "a\nb\n" {
			t.Errorf("got %d %q %q", c, o, e)
		}
	})
	t.Run("a stop and a kill of the daemon end what runs in the background", func(t *testing.T) {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			r := d.call("workspace_shell", M{"script": "trap '' TERM; setsid sleep 70.5 & sleep 70.5", "background": true})
			if text(r, "result", "state") != "running" {
				t.Fatalf("got %v", r)
			}
			until(t, "its start", func() bool { return len(running("70.5")) == 2 })
			syscall.Kill(d.cmd.Process.Pid, sig)
			d.cmd.Wait()
			until(t, "the end of all of it", func() bool { return len(running("70.5")) == 0 })
			if n := strings.Count(strings.Join(d.auditLines(), "\n"), text(r, "result", "run_id")); n != 2 && sig == syscall.SIGTERM || n != 1 && sig == syscall.SIGKILL {
				t.Errorf("%v: %d audit lines", sig, n)
			}
			d.run()
		}
	})
}

func TestProcessSession(t *testing.T) {
	t.Parallel()
	d := quick(t, "[process]\nsession_idle = \"2s\"\n")
	open := func(t *testing.T, more M) (held M, id string, events <-chan runEvent) {
		t.Helper()
		args := M{"command": "sh", "pty": true, "env": M{"PS1": "ready> "}}
		for k, v := range more {
			args[k] = v
		}
		held = d.call("workspace_shell", args)
		r := d.approve(held)
		id = text(r, "result", "run_id")
		if text(r, "status") != "done" || text(r, "result", "state") != "running" || id == "" {
			t.Fatalf("got %v", r)
		}
		ev, stop := d.runEvents(id, "", d.Agent)
		t.Cleanup(stop)
		seen(t, ev, "ready> ")
		return held, id, ev
	}
	t.Run("S89, X56, X57 a session: each write waits for a person, its output is a side log, the receipt comes at the end", func(t *testing.T) {
		held, id, events := open(t, nil)
		l := lines(d.card(held))
		if text(held, "decision", "reason") != "process_execution" || text(held, "decision", "tier") != "T4" || !strings.Contains(l, "opens an interactive session: each thing that the agent types") || !strings.Contains(l, "nothing happens in it for 2s") {
			t.Errorf("%v\n%s", held["decision"], l)
		}
		w := d.call("workspace_shell", M{"run_id": id, "stdin": "touch c\n"})
		wl := lines(d.card(w))
		if text(w, "status") != "review" || text(w, "decision", "reason") != "process_execution" || !strings.Contains(wl, `types exactly: "touch c\n"`) || !strings.Contains(wl, "T2: touch c") || !strings.Contains(wl, id) {
			t.Errorf("%v\n%s", w, wl)
		}
		if d.has("c") {
			t.Fatal("it was typed before anybody released it")
		}
		time.Sleep(2500 * time.Millisecond) // what waits for a person keeps the session
		if row := d.rowOf(held); text(row, "state") != "executing" || text(row, "reply", "result", "stdout") != "" {
			t.Errorf("a result before the end: %v", row)
		}
		if r := d.approve(w); text(r, "status") != "done" || object(r["result"])["typed_bytes"] != 8.0 {
			t.Errorf("got %v", r)
		}
		until(t, "c", func() bool { return d.has("c") })
		if r := d.answer(d.call("workspace_shell", M{"run_id": id, "stdin": "touch no\n"}), "reject", ""); text(r, "status") != "refused" {
			t.Errorf("got %v", r)
		}
		// The agent has no other way to type.
		if c, r := d.http("POST", "/v1/runs/"+id+"/input", d.Agent, M{"text": "touch no\n"}); c != 403 {
			t.Errorf("got %d %v", c, r)
		}
		if c, _ := d.http("POST", "/v1/runs/"+id+"/resize", d.Agent, M{"rows": 40, "cols": 132}); c != 200 {
			t.Errorf("resize: %d", c)
		}
		if c, r := d.http("POST", "/v1/runs/"+id+"/input", d.reviewer(), M{"text": "stty size; exit 4\n"}); c != 200 {
			t.Errorf("a person: %d %v", c, r)
		}
		all, end := seen(t, events, "")
		if !strings.Contains(all, "40 132") || end.Kind != "end" || end.Data["exit_code"] != 4.0 || d.has("no") {
			t.Errorf("got %q %v", all, end)
		}
		row := d.rowOf(held)
		if text(row, "state") != "executed" || object(object(row["reply"])["result"])["exit_code"] != 4.0 || text(row, "reply", "result", "transcript") == "" {
			t.Errorf("the receipt: %v", row)
		}
		log, err := filepath.Glob(d.State + "/output/*/" + id + ".*")
		if err != nil || len(log) != 2 {
			t.Fatalf("side logs: %v %v", log, err)
		}
		for _, name := range log {
			info, _ := os.Stat(name)
			if info.Mode().Perm() != 0o600 {
				t.Errorf("%s is %v", name, info.Mode())
			}
		}
		_, typed := d.http("GET", "/v1/runs/"+id+"/output?stream=typed", d.reviewer(), nil)
		if s := text(typed, "content"); strings.Count(s, "\n") != 2 || !strings.Contains(s, text(w, "approval", "id")) || !strings.Contains(s, `"by":"operator"`) {
			t.Errorf("got %v", typed)
		}
		if r := d.call("workspace_shell", M{"run_id": id, "stdin": "x"}); code(r) != "not_found" {
			t.Errorf("typing after the end: %v", r)
		}
	})
	t.Run("S89 (part) a whole session is a choice of its own that the card shouts, and it ends", func(t *testing.T) {
		held, id, events := open(t, M{"whole_session": true, "timeout_ms": 60000})
		if l := lines(d.card(held)); text(held, "decision", "tier") != "T4" || text(d.card(held), "effect") != "destructive" || !strings.Contains(l, "THE AGENT MAY TYPE ANYTHING INTO IT for up to 1m0s") {
			t.Errorf("got %v\n%s", held["decision"], l)
		}
		r := d.call("workspace_shell", M{"run_id": id, "stdin": "echo $((6*7)) > answer\n"})
		if text(r, "status") != "done" || text(r, "decision", "reason") != "granted" {
			t.Errorf("got %v", r)
		}
		until(t, "what it made", func() bool { return d.has("answer") })
		if r := d.call("workspace_shell", M{"command": "true"}); text(r, "status") != "review" {
			t.Errorf("it covers more than its session: %v", r)
		} else {
			d.cancel(r)
		}
		_, tok := d.http("POST", "/v1/tokens", d.reviewer(), M{"name": "other", "role": "agent"})
		if _, r := d.http("POST", "/v1/call", text(tok, "token"), M{"op": "workspace_shell", "args": M{"run_id": id, "stdin": "x"}}); code(r) != "not_found" {
			t.Errorf("another agent types: %v", r)
		}
		begin := time.Now()
		_, end := seen(t, events, "")
		if text(end.Data, "termination") != "timed_out" || time.Since(begin) > 30*time.Second {
			t.Errorf("the idle deadline: %v after %v", end, time.Since(begin))
		}
		if row := d.rowOf(held); text(row, "reply", "error", "code") != "timed_out" || !strings.Contains(text(row, "reply", "error", "message"), "nothing happened") {
			t.Errorf("got %v", row)
		}
	})
	t.Run("a person edits a file with vi in a session: attach, type, resize, leave, come back", func(t *testing.T) {
		d.put("letter", "one\ntwo\nthree\n", 0o644)
		r := d.approve(d.call("workspace_shell", M{"command": "vi", "args": []string{"letter"}, "pty": true, "env": M{"TERM": "vt100", "VIMINIT": "set viminfo="}}))
		id := text(r, "result", "run_id")
		p := d.terminal("attach", id)
		p.shows("three")
		p.press("dd")
		p.press("\x1d")
		p.shows("it runs on")
		if _, v := d.http("GET", "/v1/runs/"+id, d.Agent, nil); text(v, "state") != "running" {
			t.Fatalf("leaving ended it: %v", v)
		}
		p = d.terminal("attach", id)
		p.shows("three")
		for _, typed := range [][2]string{{"A", " and a half"}, {"Go", "new line"}} {
			p.press(typed[0] + typed[1])
			p.shows(typed[1]) // on a busy machine vi comes to it later
			p.press("\x1b")
			time.Sleep(150 * time.Millisecond)
		}
		p.press(":wq\r")
		p.shows("The session ended: exit 0")
		if got := read(t, filepath.Join(d.Root, "letter")); got != "two and a half\nthree\nnew line\n" {
			t.Errorf("got %q", got)
		}
	})
	if t.Failed() {
		fmt.Println(d.Log)
	}
}
