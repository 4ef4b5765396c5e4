//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// longOutput is how much is printed, in MiB; HOLDPOINT_OUTPUT_MIB raises it.
func longOutput(t *testing.T) int64 {
	n := int64(64)
	if v := os.Getenv("HOLDPOINT_OUTPUT_MIB"); v != "" {
		if _, err := fmt.Sscan(v, &n); err != nil {
			t.Fatal(err)
		}
	}
	return n << 20
}

// resident reads one size of a process's memory from its status.
func resident(t *testing.T, pid int, key string) int64 {
	t.Helper()
	for _, l := range strings.Split(read(t, fmt.Sprintf("/proc/%d/status", pid)), "\n") {
		var n int64
		if rest, ok := strings.CutPrefix(l, key+":"); ok {
			fmt.Sscan(rest, &n)
			return n << 10
		}
	}
	t.Fatal("no " + key)
	return 0
}

func TestProcessOutput(t *testing.T) {
	t.Parallel()
	d := start(t)
	size := longOutput(t)
	t.Run("S87 (part) long output costs no memory, whoever follows it, and every byte can be had", func(t *testing.T) {
		d.approve(d.shell("yes 0123456789abcde | head -c 1000000")) // what is made once is made
		held := d.shell(fmt.Sprintf("echo begin; yes 0123456789abcde | head -c %d; echo end", size), M{"timeout_ms": 600000, "background": true})
		pid := d.cmd.Process.Pid
		before := resident(t, pid, "VmRSS")
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		id := text(d.approve(held), "result", "run_id")
		events, stop := d.runEvents(id, "", d.Agent) // it reads nothing: who is slow costs nothing either
		defer stop()
		until2(t, 5*time.Minute, "the end", func() bool { return text(d.rowOf(held), "state") == "executed" })
		took := time.Since(begin)
		ran := resident(t, pid, "VmHWM") - before
		r := d.rowOf(held)
		if res := object(object(r["reply"])["result"]); res["truncated"] != true || res["total_bytes"] != float64(size+10) || !strings.HasSuffix(text(r, "reply", "result", "stdout"), "end\n") || len(text(r, "reply", "result", "stdout")) > 70<<10 {
			t.Fatalf("got %v %v", res["truncated"], res["total_bytes"])
		}
		var got int64
		wrong := 0
		for at, next := int64(0), true; next; {
			_, piece := d.http("GET", fmt.Sprintf("/v1/runs/%s/output?offset=%d", id, at), d.Agent, nil)
			s := text(piece, "content")
			for i := 0; i+32 <= len(s); i += 4096 { // the text repeats every 16 bytes behind its first line
				if off := at + int64(i) - 6; off >= 0 && s[i:i+16] != ("0123456789abcde\n0123456789abcde\n")[off%16:off%16+16] && at+int64(i)+32 < size {
					wrong++
				}
			}
			got += int64(len(s))
			var n float64
			n, next = piece["next"].(float64)
			at = int64(n)
		}
		all := resident(t, pid, "VmHWM") - before
		t.Logf("%d MiB printed in %v; memory grew %d KiB while it ran, %d KiB with all of it read", size>>20, took, ran>>10, all>>10)
		if got != size+10 || wrong > 0 {
			t.Errorf("%d bytes could be had of %d, %d places differ", got, size+10, wrong)
		}
		limit := int64(32 << 20)
		if raceEnabled {
			limit *= 4 // the detector keeps shadows of all that is touched
		}
		if ran > limit || all > limit {
			t.Errorf("memory grew by %d and %d MiB", ran>>20, all>>20)
		}
		if size <= 64<<20 {
			followed := 0
			for e := range events {
				followed += len(e.bytes())
			}
			if int64(followed) != size+10 {
				t.Errorf("who follows got %d bytes", followed)
			}
		}
	})
	t.Run("a client of MCP that waits hears what its program prints, and lists, reads and stops programs", func(t *testing.T) {
		var mu sync.Mutex
		var heard []string
		last := 0.0
		opts := &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			mu.Lock()
			defer mu.Unlock()
			if r.Params.Progress <= last {
				heard = append(heard, "BACKWARDS")
			}
			last = r.Params.Progress
			heard = append(heard, r.Params.Message)
		}}
		c := d.stdio("2025-11-25", opts)
		id, _ := c.held("workspace_shell", M{"script": "echo hello there; while ! test -e heard; do sleep 0.02; done; echo bye"})
		d.letting(M{"approval": M{"id": id}})
		p := &sdk.CallToolParams{Name: "approval_wait", Arguments: M{"approval_id": id}}
		p.SetProgressToken("p1")
		got := make(chan mcpResult, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
			defer cancel()
			r, err := c.params(ctx, p)
			if err != nil {
				t.Error(err)
			}
			got <- r
		}()
		until(t, "a message with the output", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return strings.Contains(strings.Join(heard, ""), "hello there\n")
		})
		d.put("heard", "", 0o644)
		answer := <-got
		mu.Lock() // another message may still be on its way
		said := strings.Join(heard, "")
		mu.Unlock()
		if answer.Text != "hello there\nbye\n" || strings.Contains(said, "BACKWARDS") {
			t.Errorf("got %q, heard %q", answer.Text, said)
		}
		id, _ = c.held("workspace_shell", M{"script": "echo in the back; sleep 71.5", "background": true})
		d.letting(M{"approval": M{"id": id}})
		r := c.done("approval_wait", M{"approval_id": id})
		run, _ := r.Facts["run_id"].(string)
		if run == "" || r.Facts["state"] != "executing" {
			t.Fatalf("got %v %s", r.Facts, r.Text)
		}
		if r := c.done("runs", M{"action": "list"}); !strings.Contains(r.Text, run) {
			t.Errorf("got %s", r.Text)
		}
		until(t, "its output", func() bool { return c.done("runs", M{"action": "tail", "run_id": run}).Text == "in the back\n" })
		if r := c.done("runs", M{"action": "stop", "run_id": run}); !strings.Contains(r.Text, "cancelled") || len(running("71.5")) > 0 {
			t.Errorf("got %s", r.Text)
		}
		if r := c.call("runs", M{"action": "dance"}); !r.IsError {
			t.Errorf("got %v", r)
		}
	})
}

func until2(t testing.TB, most time.Duration, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(most); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
