package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holdpoint/internal/ports"
)

func mcpGone(path string) bool { _, err := os.Lstat(path); return os.IsNotExist(err) }

func TestMCPWait(t *testing.T) {
	t.Parallel()
	d := start(t)
	t.Run("a held delete is answered from another process while the client waits", func(t *testing.T) {
		file := filepath.Join(d.Root, "a.txt")
		write(t, file, "a\n")
		var beats atomic.Int64
		c := d.stdio("2025-11-25", &sdk.ClientOptions{ProgressNotificationHandler: func(context.Context, *sdk.ProgressNotificationClientRequest) { beats.Add(1) }})
		id, r := c.held("delete_file", M{"path": "a.txt"})
		if !strings.Contains(r.Text, "approval_wait") || !strings.Contains(r.Text, id) {
			t.Fatalf("the held reply does not say how to wait: %q", r.Text)
		}
		go func() {
			time.Sleep(6 * time.Second) // past one beat
			if code, out, errs := d.cli("review", "approve", id, "--note", "go ahead", "--json"); code != 0 {
				t.Errorf("approve: %d %s %s", code, out, errs)
			}
		}()
		p := &sdk.CallToolParams{Name: "approval_wait", Arguments: M{"approval_id": id}}
		p.SetProgressToken("w1")
		got, err := c.params(t.Context(), p)
		if err != nil || got.IsError || got.Facts["state"] != "executed" || !mcpGone(file) {
			t.Fatalf("got %v %v", got.Facts, err)
		}
		if beats.Load() == 0 {
			t.Fatal("no progress was told while it waited")
		}
		if !strings.Contains(got.Text, "go ahead") {
			t.Fatalf("the reviewer's words are lost: %q", got.Text)
		}
		c.done("undo", M{"operation_id": got.Facts["undo"]})
		if mcpGone(file) {
			t.Fatal("the delete was not taken back")
		}
	})
	t.Run("a rejection comes with the reviewer's words", func(t *testing.T) {
		write(t, filepath.Join(d.Root, "b.txt"), "b\n")
		c := d.stdio("2025-06-18", nil)
		id, _ := c.held("delete_file", M{"path": "b.txt"})
		d.respond(id, "reject", "keep it, please")
		r := c.call("approval_wait", M{"approval_id": id})
		if !r.IsError || text(r.Facts, "error", "code") != "rejected" || !strings.Contains(r.Text, "keep it, please") || mcpGone(filepath.Join(d.Root, "b.txt")) {
			t.Fatalf("got %v %q", r.Facts, r.Text)
		}
	})
	t.Run("a wait is bounded and says how to go on", func(t *testing.T) {
		write(t, filepath.Join(d.Root, "c.txt"), "c\n")
		c := d.stdio("2026-07-28", nil)
		id, _ := c.held("delete_file", M{"path": "c.txt"})
		began := time.Now()
		r := c.call("approval_wait", M{"approval_id": id, "timeout_seconds": 1})
		if took := time.Since(began); r.IsError || r.Facts["status"] != "review" || took > 30*time.Second || !strings.Contains(r.Text, "approval_wait") {
			t.Fatalf("after %v: %v %q", took, r.Facts, r.Text)
		}
		c.call("approval_cancel", M{"approval_id": id})
	})
	for _, version := range mcpVersions {
		t.Run("a wait goes on over a kill and restart of the daemon, and so does the session, "+version, func(t *testing.T) {
			file := filepath.Join(d.Root, "d.txt")
			write(t, file, "d\n")
			c := d.stdio(version, nil)
			id, _ := c.held("delete_file", M{"path": "d.txt"})
			c.done("write_file", M{"path": "before-" + version, "content": "1\n"})
			type ended struct {
				r   mcpResult
				err error
			}
			end := make(chan ended, 1)
			go func() {
				r, err := c.try("approval_wait", M{"approval_id": id, "timeout_seconds": 60})
				end <- ended{r, err}
			}()
			time.Sleep(300 * time.Millisecond)
			d.stop(syscall.SIGKILL)
			select {
			case e := <-end:
				t.Fatalf("the wait ended with the daemon: %v %v", e.r.Facts, e.err)
			case <-time.After(300 * time.Millisecond):
			}
			d.run()
			d.respond(id, "approve", "")
			e := <-end
			if e.err != nil || e.r.Facts["state"] != "executed" || !mcpGone(file) {
				t.Fatalf("got %v %v", e.r.Facts, e.err)
			}
			// One label holds what the client did on both sides of the restart.
			c.done("write_file", M{"path": "after-" + version, "content": "2\n"})
			list := d.operations()
			if len(list) < 3 || list[0]["session"] == "" || list[0]["session"] != list[2]["session"] {
				t.Fatalf("sessions: %v, %v", list[0]["session"], list[2]["session"])
			}
		})
	}
}

// mcpOpener is a client that opens any address and says that all is well, as a client that
// wants to approve its own calls would.
func mcpOpener(seen *atomic.Value, action string) *sdk.ClientOptions {
	return &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{URL: &sdk.URLElicitationCapabilities{}, Form: &sdk.FormElicitationCapabilities{}}},
		ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			seen.Store(r.Params.URL)
			return &sdk.ElicitResult{Action: action, Content: map[string]any{"approved": true, "answer": "approve"}}, nil
		},
	}
}

func TestMCPElicitation(t *testing.T) {
	t.Parallel()
	addr := ports.Addr(t)
	d := start(t, "--listen", addr)
	_, port, _ := strings.Cut(addr, ":")
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run("what an elicitation answers never counts as approval, "+version, func(t *testing.T) {
			for _, action := range []string{"decline", "cancel"} {
				var seen atomic.Value
				file := filepath.Join(d.Root, action+version)
				write(t, file, "x\n")
				c := d.stdio(version, mcpOpener(&seen, action))
				id, _ := c.held("delete_file", M{"path": action + version})
				if want := "http://localhost:" + port + "/#/approvals/" + id; seen.Load() != want {
					t.Fatalf("sent to %v, want %s", seen.Load(), want)
				}
				if _, row := d.http("GET", "/v1/approvals/"+id, d.Agent, nil); text(row, "state") != "pending" || mcpGone(file) {
					t.Fatalf("after %s: %v", action, row)
				}
			}
			var seen atomic.Value
			file := filepath.Join(d.Root, "accept"+version)
			write(t, file, "x\n")
			c := d.stdio(version, mcpOpener(&seen, "accept"))
			answered := make(chan mcpResult, 1)
			go func() {
				r, _ := c.try("delete_file", M{"path": "accept" + version})
				answered <- r
			}()
			time.Sleep(time.Second) // the client has said accept by now
			_, list := d.http("GET", "/v1/approvals?state=pending", d.reviewer(), nil)
			if seen.Load() == nil || mcpGone(file) {
				t.Fatalf("sent to %v, file gone: %v", seen.Load(), mcpGone(file))
			}
			id := ""
			for _, v := range list["approvals"].([]any) {
				if card := v.(map[string]any); strings.HasSuffix(seen.Load().(string), text(card, "id")) {
					id = text(card, "id")
				}
			}
			d.respond(id, "approve", "") // the real answer
			if r := <-answered; r.CallToolResult == nil || r.Facts["state"] != "executed" || !mcpGone(file) {
				t.Fatalf("got %v", r.Facts)
			}
		})
	}
	t.Run("a retry after a restart resumes in the input-required form", func(t *testing.T) {
		file := filepath.Join(d.Root, "later")
		write(t, file, "x\n")
		opts := mcpOpener(&atomic.Value{}, "accept")
		opts.MultiRoundTrip = &sdk.MultiRoundTripOptions{Disabled: true}
		c := d.stdio("2026-07-28", opts)
		first, err := c.params(t.Context(), &sdk.CallToolParams{Name: "delete_file", Arguments: M{"path": "later"}})
		if err != nil || !first.NeedsInput() || first.RequestState == "" {
			t.Fatalf("got %+v %v", first, err)
		}
		again, err := c.params(t.Context(), &sdk.CallToolParams{Name: "delete_file", Arguments: M{"path": "later"}})
		if err != nil || again.RequestState != first.RequestState {
			t.Fatalf("the same call made another row: %s and %s", first.RequestState, again.RequestState)
		}
		d.restart()
		d.respond(first.RequestState, "approve", "")
		c = d.stdio("2026-07-28", opts)
		retry := &sdk.CallToolParams{Name: "delete_file", Arguments: M{"path": "later"}, RequestState: first.RequestState,
			InputResponses: sdk.InputResponseMap{"review": &sdk.ElicitResult{Action: "accept"}}}
		for range 2 { // the answer is the same however often it is asked for
			if r, err := c.params(t.Context(), retry); err != nil || r.IsError || r.Facts["state"] != "executed" || !mcpGone(file) {
				t.Fatalf("got %v %v", r.Facts, err)
			}
		}
	})
	t.Run("a client that names a state of its own making gets no further", func(t *testing.T) {
		file := filepath.Join(d.Root, "forged")
		write(t, file, "x\n")
		c := d.stdio("2026-07-28", &sdk.ClientOptions{MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true}})
		for _, state := range []string{"", "approved", "ap_aaaaaaaaaaaaaaaaaaaaaaaaaa"} {
			r, err := c.params(t.Context(), &sdk.CallToolParams{Name: "delete_file", Arguments: M{"path": "forged"}, RequestState: state,
				InputResponses: sdk.InputResponseMap{"review": &sdk.ElicitResult{Action: "accept", Content: map[string]any{"answer": "approve"}}}})
			if err != nil || r.Facts["status"] != "review" || mcpGone(file) {
				t.Fatalf("state %q: got %v %v", state, r.Facts, err)
			}
		}
	})
}
