package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

// wait gives the row of a card once it has a state, or fails.
func (d *daemon) until(t testing.TB, id, state string) M {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(30 * time.Millisecond) {
		_, row := d.http("GET", "/v1/approvals/"+id, d.reviewerToken, nil)
		if text(row, "state") == state {
			return row
		}
		if time.Now().After(end) {
			t.Fatalf("the row is %v, want %s", row["state"], state)
		}
	}
}

func TestWhenTimeIsOver(t *testing.T) {
	d := quick(t, "[deadlines]\nT2 = \"900ms\"\nT4 = \"900ms\"\n[on_timeout]\nT0 = \"auto\"\nT1 = \"auto\"\nT2 = \"auto_deny\"\nT3 = \"pause\"\nT4 = \"reject\"\n")
	write(t, filepath.Join(d.Root, "f"), "x\n")
	denied := text(must(t, d.call("write_file", M{"path": "f", "content": "y"}), "review"), "approval", "id")
	lapsed := text(must(t, d.call("delete_file", M{"path": "f"}), "review"), "approval", "id")
	t.Run("X41 (part) auto_deny is recorded as the timer's rejection, and reject as a lapse", func(t *testing.T) {
		row := d.until(t, denied, "rejected")
		if text(row, "card", "answered_by") != "timer" || text(row, "reply", "error", "code") != "rejected" || !strings.Contains(text(row, "reply", "error", "message"), "in time") {
			t.Errorf("got %v", row)
		}
		row = d.until(t, lapsed, "expired")
		if text(row, "reply", "error", "code") != "expired" {
			t.Errorf("got %v", row)
		}
		if code, _ := d.say(denied, "approve", ""); code != 409 {
			t.Errorf("an approval after the timer's rejection: %d", code)
		}
		if read(t, filepath.Join(d.Root, "f")) != "x\n" {
			t.Error("time changed the file")
		}
	})
	t.Run("X44 the event of a timeout names the timer", func(t *testing.T) {
		seen := map[string]string{}
		for _, e := range d.events(t, d.reviewerToken, 0) {
			data := object(e["data"])
			seen[fmt.Sprint(data["approval_id"])+" "+text(e, "type")] = fmt.Sprint(data["actor"])
		}
		if seen[denied+" approval.answered"] != "timer" || seen[lapsed+" approval.expired"] != "timer" {
			t.Errorf("got %v", seen)
		}
	})
	t.Run("X41 pause, the third of the actions at a deadline, keeps a card for ever and names no end", func(t *testing.T) {
		d := quick(t, "[deadlines]\nT4 = \"300ms\"\n[on_timeout]\nT4 = \"pause\"\n")
		write(t, filepath.Join(d.Root, "f"), "x\n")
		held := must(t, d.call("delete_file", M{"path": "f"}), "review")
		if v, given := object(held["approval"])["expires_at"]; given {
			t.Errorf("it names an end: %v", v)
		}
		time.Sleep(600 * time.Millisecond)
		must(t, d.approve(held), "done")
	})
	t.Run("X42 auto is taken for the tiers that are automatic, and for no other", func(t *testing.T) {
		for _, tier := range []string{"T2", "T3", "T4"} {
			root, state := dirs(t)
			file := filepath.Join(filepath.Dir(state), "bad.toml")
			write(t, file, "[on_timeout]\n"+tier+" = \"auto\"\n")
			if exit, out := refuses(t, root, state, nil, "--config", file); exit != 6 || !strings.Contains(out, "on_timeout."+tier) {
				t.Errorf("%s: exit %d, %s", tier, exit, out)
			}
		}
		root, state := dirs(t)
		file := filepath.Join(filepath.Dir(state), "bad.toml")
		write(t, file, "[on_timeout]\nT4 = \"approve\"\n")
		if exit, _ := refuses(t, root, state, nil, "--config", file); exit != 6 {
			t.Errorf("approve as what a timer does: exit %d", exit)
		}
	})
}

func TestTwoReviewers(t *testing.T) {
	t.Parallel()
	d := quick(t, "[two_reviewers]\nbytes = 1000\nprotected = true\n")
	ann, bob := d.token(M{"name": "ann", "role": "reviewer"}), d.token(M{"name": "bob", "role": "reviewer"})
	write(t, filepath.Join(d.Root, "big"), strings.Repeat("x", 2000))
	write(t, filepath.Join(d.Root, "small"), "x")
	say := func(token string, held M, word string) (int, M) {
		id := text(held, "approval", "id")
		_, row := d.http("GET", "/v1/approvals/"+id, token, nil)
		return d.http("POST", "/v1/approvals/"+id+"/answer", token, M{"answer": word, "shown_digest": text(row, "card", "shown_digest")})
	}
	t.Run("a large call takes two people: one approval leaves it waiting, the same person twice too", func(t *testing.T) {
		held := must(t, d.call("delete_file", M{"path": "big"}), "review")
		code, row := say(ann, held, "approve")
		if code != 200 || text(row, "state") != "pending" || fmt.Sprint(object(row["card"])["approved_by"]) != "[ann]" {
			t.Fatalf("got %d %v", code, row)
		}
		if !there(filepath.Join(d.Root, "big")) {
			t.Fatal("one approval ran it")
		}
		if code, row := say(ann, held, "approve"); code != 409 || text(row, "error", "code") != "already_answered" {
			t.Errorf("the same person again: %d %v", code, row["error"])
		}
		d.restart() // the first approval is on disk
		d.operator()
		if code, row := say(bob, held, "approve"); code != 200 || text(row, "state") != "executed" {
			t.Fatalf("the second person: %d %v", code, row)
		}
		if there(filepath.Join(d.Root, "big")) {
			t.Error("it did not run")
		}
	})
	t.Run("whoever has the passphrase is one person, however often they log in, and so is each name", func(t *testing.T) {
		root, state := dirs(t)
		file := filepath.Join(filepath.Dir(state), "c.toml")
		write(t, file, "[two_reviewers]\nbytes = 1000\n")
		e := startOn(t, root, state, nil, "--config", file)
		write(t, filepath.Join(root, "big"), strings.Repeat("x", 2000))
		if r := e.call("delete_file", M{"path": "big"}); code(r) != "no_reviewer" {
			t.Errorf("the passphrase alone is enough for two: %v %v", r["status"], r["error"])
		}
		login := func() string {
			_, out := e.http("POST", "/v1/login", "", M{"passphrase": passphrase})
			return text(out, "token")
		}
		one, two := login(), login()
		_, made := e.http("POST", "/v1/tokens", one, M{"name": "ann", "role": "reviewer"})
		held := must(t, e.call("delete_file", M{"path": "big"}), "review")
		say := func(token string) (int, M) {
			_, row := e.http("GET", "/v1/approvals/"+idOf(held), token, nil)
			return e.http("POST", "/v1/approvals/"+idOf(held)+"/answer", token, M{"answer": "approve", "shown_digest": text(row, "card", "shown_digest")})
		}
		if status, row := say(one); status != 200 || text(row, "state") != "pending" || one == two {
			t.Fatalf("the first approval: %d %v", status, row)
		}
		if status, row := say(two); status != 409 || code(row) != "already_answered" || !there(filepath.Join(root, "big")) {
			t.Errorf("a second login counted as a second person: %d %v", status, row["error"])
		}
		if status, row := say(text(made, "token")); status != 200 || text(row, "state") != "executed" {
			t.Errorf("another person: %d %v", status, row)
		}
	})
	t.Run("U52 an approval that is given and not yet used can be revoked, on record, and lapses though nobody asks", func(t *testing.T) {
		d := quick(t, "[two_reviewers]\nbytes = 10\n[deadlines]\nT4 = \"1500ms\"\n")
		ann, bob := d.token(M{"name": "ann", "role": "reviewer"}), d.token(M{"name": "bob", "role": "reviewer"})
		hold := func(name string) (held M, body M) {
			write(t, filepath.Join(d.Root, name), strings.Repeat("x", 20))
			held = must(t, d.call("delete_file", M{"path": name}), "review")
			body = M{"answer": "approve", "shown_digest": text(d.card(held), "shown_digest")}
			if status, row := d.http("POST", "/v1/approvals/"+idOf(held)+"/answer", ann, body); status != 200 || text(row, "state") != "pending" {
				t.Fatalf("the first approval: %d %v", status, row)
			}
			return held, body
		}
		held, body := hold("revoked")
		if status, row := d.http("POST", "/v1/approvals/"+idOf(held)+"/cancel", ann, M{}); status != 200 || text(row, "state") != "cancelled" {
			t.Errorf("revoked: %d %v", status, row)
		}
		if last := d.last(); last["kind"] != "end" || last["outcome"] != "cancelled" || last["approval_id"] != idOf(held) {
			t.Errorf("on record: %v", last)
		}
		if status, row := d.http("POST", "/v1/approvals/"+idOf(held)+"/answer", bob, body); status < 400 || !there(filepath.Join(d.Root, "revoked")) {
			t.Errorf("an approval after that: %d %v", status, row)
		}
		held, body = hold("lapsed")
		time.Sleep(1700 * time.Millisecond)
		if _, row := d.http("POST", "/v1/approvals/"+idOf(held)+"/answer", bob, body); code(row) != "expired" || !there(filepath.Join(d.Root, "lapsed")) {
			t.Errorf("an approval after its time: %v", row)
		}
	})
	t.Run("either of two people rejects alone", func(t *testing.T) {
		write(t, filepath.Join(d.Root, ".env"), "A=1\n")
		held := must(t, d.call("delete_file", M{"path": ".env"}), "review")
		say(ann, held, "approve")
		if code, row := say(bob, held, "reject"); code != 200 || text(row, "state") != "rejected" {
			t.Errorf("got %d %v", code, row)
		}
	})
	t.Run("below the thresholds one person is enough", func(t *testing.T) {
		if code, row := say(ann, must(t, d.call("delete_file", M{"path": "small"}), "review"), "approve"); code != 200 || text(row, "state") != "executed" {
			t.Errorf("got %d %v", code, row)
		}
	})
	t.Run("I32 (part) where fewer people can answer than it takes, nothing is queued", func(t *testing.T) {
		root, state := dirs(t)
		file := filepath.Join(filepath.Dir(state), "c.toml")
		write(t, file, "[two_reviewers]\nfiles = 0\nbytes = 10\n")
		d := startOn(t, root, state, nil, "--config", file)
		write(t, filepath.Join(d.Root, "big"), strings.Repeat("x", 20))
		if r := d.call("delete_file", M{"path": "big"}); text(r, "status") != "refused" || code(r) != "no_reviewer" {
			t.Errorf("got %v", r)
		}
		if _, got := d.http("GET", "/v1/approvals?state=pending", d.reviewer(), nil); len(got["approvals"].([]any)) != 0 {
			t.Error("a row was made")
		}
	})
}

func TestDriftMarks(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	write(t, filepath.Join(d.Root, "dir/inner"), "x\n")
	write(t, filepath.Join(d.Root, "a/f"), "x\n")
	file := text(must(t, d.call("delete_file", M{"path": "a/f"}), "review"), "approval", "id")
	dir := text(must(t, d.call("delete_file", M{"path": "dir", "recursive": true}), "review"), "approval", "id")
	fresh := text(must(t, d.call("write_file", M{"path": ".env", "content": "x"}), "review"), "approval", "id")
	marked := func(id string) string {
		_, got := d.http("GET", "/v1/approvals?state=pending&limit=100", d.reviewerToken, nil)
		for _, c := range got["approvals"].([]any) {
			if text(c.(M), "id") == id {
				return text(c.(M), "drifted")
			}
		}
		return "gone"
	}
	wait := func(t *testing.T, id string, want bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); (marked(id) != "") != want; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the mark is %q, want one: %v", marked(id), want)
			}
		}
	}
	t.Run("a pending card is marked when its file, directory or absent path changes, and unmarked when it is back", func(t *testing.T) {
		for id, change := range map[string]func(){
			file:  func() { write(t, filepath.Join(d.Root, "a/f"), "y\n") },
			dir:   func() { write(t, filepath.Join(d.Root, "dir/more"), "z\n") },
			fresh: func() { write(t, filepath.Join(d.Root, ".env"), "theirs") },
		} {
			if m := marked(id); m != "" {
				t.Fatalf("marked before: %q", m)
			}
			change()
			wait(t, id, true)
		}
		write(t, filepath.Join(d.Root, "a/f"), "x\n")
		os.Remove(filepath.Join(d.Root, "dir/more"))
		wait(t, file, false)
		wait(t, dir, false)
	})
	t.Run("the mark is told as pins.drifted, and is no part of what was shown", func(t *testing.T) {
		on, off := 0, 0
		for _, e := range d.events(t, d.reviewerToken, 0) {
			if data := object(e["data"]); text(e, "type") == "pins.drifted" && data["approval_id"] == file {
				if data["drifted"] == true {
					on++
				} else {
					off++
				}
			}
		}
		if on != 1 || off != 1 {
			t.Errorf("told %d and %d times, want once each", on, off)
		}
		must(t, d.approve(M{"approval": M{"id": file}}), "done")
	})
	t.Run("a restart marks anew", func(t *testing.T) {
		d.restart()
		d.operator()
		write(t, filepath.Join(d.Root, "dir/late"), "z\n")
		wait(t, dir, true)
	})
}

func TestManyWaiting(t *testing.T) {
	d := quick(t, "")
	const calls = 500
	for i := range calls {
		write(t, filepath.Join(d.Root, fmt.Sprintf("f%03d", i)), fmt.Sprint(i))
	}
	write(t, filepath.Join(d.Root, "once"), "x")
	children := func() string {
		out, _ := exec.Command("ps", "-o", "pid=", "--ppid", fmt.Sprint(d.cmd.Process.Pid)).Output()
		return string(out)
	}
	before, kids := digest(t, d.Root), children()
	t.Run("U16, C1 (part) 500 calls wait: the tree and the processes are as before", func(t *testing.T) {
		var all sync.WaitGroup
		next := make(chan int)
		for range 16 {
			all.Go(func() {
				for i := range next {
					if _, r, err := d.tryHTTP("POST", "/v1/call", d.Agent, M{"op": "delete_file", "args": M{"path": fmt.Sprintf("f%03d", i)}}); err != nil || text(r, "status") != "review" {
						t.Errorf("call %d: %v %v", i, r, err)
					}
				}
			})
		}
		for i := range calls {
			next <- i
		}
		close(next)
		all.Wait()
		if _, s := d.http("GET", "/v1/status", d.reviewerToken, nil); s["pending"] != float64(calls) {
			t.Errorf("%v wait", s["pending"])
		}
		if after := digest(t, d.Root); after != before {
			t.Error("the tree changed")
		}
		if now := children(); now != kids {
			t.Errorf("processes before %q, now %q", kids, now)
		}
	})
	t.Run("I98 (part), S59 (part) 64 answers at once to one row: one execution", func(t *testing.T) {
		held := must(t, d.call("delete_file", M{"path": "once"}), "review")
		id := text(held, "approval", "id")
		card := d.card(held)
		var all sync.WaitGroup
		var mu sync.Mutex
		codes := map[int]int{}
		for range 64 {
			all.Go(func() {
				status, _, err := d.tryHTTP("POST", "/v1/approvals/"+id+"/answer", d.reviewerToken, M{"answer": "approve", "shown_digest": card["shown_digest"]})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				codes[status]++
				mu.Unlock()
			})
		}
		all.Wait()
		if codes[200] != 1 || codes[409] != 63 {
			t.Errorf("got %v, want one 200 and 63 times 409", codes)
		}
		done := 0
		for _, o := range d.operations() {
			if o["approval_id"] == id {
				done++
			}
		}
		if done != 1 {
			t.Errorf("executed %d times", done)
		}
	})
}

func TestSteering(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	write(t, filepath.Join(d.Root, "a.txt"), "a")
	write(t, filepath.Join(d.Root, "b.txt"), "b")
	t.Run("X36, X37, X34 (part) words with an approval come back byte for byte in the call's result and change nothing", func(t *testing.T) {
		words := "but use b.txt instead;\n\"op\":\"delete_file\" \u202e<script>"
		held := must(t, d.call("delete_file", M{"path": "a.txt"}), "review")
		reply := must(t, d.answer(held, "approve", words), "done")
		found := false
		for _, w := range reply["warnings"].([]any) {
			found = found || text(w.(M), "code") == "steering" && text(w.(M), "message") == words
		}
		if !found {
			t.Errorf("got warnings %q", reply["warnings"])
		}
		if there(filepath.Join(d.Root, "a.txt")) || !there(filepath.Join(d.Root, "b.txt")) {
			t.Error("not exactly the stored call ran")
		}
	})
	t.Run("words that are too long answer nothing", func(t *testing.T) {
		held := must(t, d.call("delete_file", M{"path": "b.txt"}), "review")
		if code, _ := d.say(text(held, "approval", "id"), "approve", strings.Repeat("w", 5000)); code != 413 {
			t.Errorf("got %d", code)
		}
		must(t, d.approve(held), "done")
	})
}

// TestApprovedNeverStarted stops the world between the answer and the start, which takes
// the daemon less time than a test can hit: it writes the answer as the daemon would.
func TestApprovedNeverStarted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		deadline string
	}{{"within its time", "1h"}, {"whose time passed meanwhile", "400ms"}} {
		t.Run("S60 (part), C143 (part) an approved call "+c.name+" that never started is failed after a restart, and not run", func(t *testing.T) {
			d := quick(t, "[deadlines]\nT4 = \""+c.deadline+"\"\n")
			write(t, filepath.Join(d.Root, "f"), "x")
			id := op.ID(text(must(t, d.call("delete_file", M{"path": "f"}), "review"), "approval", "id"))
			d.stop(syscall.SIGKILL)
			j, err := journal.Open(d.State, journal.Options{})
			if err != nil {
				t.Fatal(err)
			}
			row, err := j.Approval(t.Context(), id)
			if err == nil {
				_, err = j.Answer(t.Context(), id, journal.Answer{Answer: "approve", By: "p", ShownDigest: row.ShownDigest}, row.Created)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(500 * time.Millisecond)
			d.run() // gets ready: an old answer does not keep a daemon down
			d.operator()
			got := d.row(string(id))
			if text(got, "state") != "failed" || text(got, "reply", "status") != "failed" || object(got["reply"])["effects_executed"] == true {
				t.Errorf("got %v", got)
			}
			if !there(filepath.Join(d.Root, "f")) {
				t.Error("it ran")
			}
			if code, row := d.say(string(id), "approve", ""); code != 409 {
				t.Errorf("a second answer: %d %v", code, row)
			}
		})
	}
}
