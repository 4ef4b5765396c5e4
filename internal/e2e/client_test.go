package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/evanw/esbuild/pkg/api"

	"holdpoint/bridge/client"
	"holdpoint/op"
)

func TestClients(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dial := func(token string) *client.Client {
		c, err := client.New("unix:"+d.Socket, token)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	t.Run("the Go client calls, waits for the answer of a person, takes back, and has typed errors", func(t *testing.T) {
		c := dial(d.Agent)
		r, err := c.Call(ctx, op.Request{Op: op.WriteFile, Args: op.Object{"path": "f", "content": "one\n"}})
		if err != nil || r.Status != op.Done || r.Effects[0].Path != "f" {
			t.Fatal(r, err)
		}
		p, err := c.Preflight(ctx, op.Request{Op: op.DeleteFile, Args: op.Object{"path": "f"}})
		if err != nil || p.Decision == nil || p.Decision.Verdict != op.Review || p.Pins == "" {
			t.Fatal(p, err)
		}
		held, err := c.Call(ctx, op.Request{Op: op.DeleteFile, Args: op.Object{"path": "f"}, Pins: p.Pins})
		if err != nil || held.Status != op.Held || held.Approval == nil {
			t.Fatal(held, err)
		}
		ended := make(chan client.Approval, 1)
		go func() {
			a, err := c.Wait(ctx, held.Approval.ID)
			if err != nil {
				t.Error(err)
			}
			ended <- a
		}()
		d.approve(M{"approval": map[string]any{"id": string(held.Approval.ID)}})
		a := <-ended
		if a.State != "executed" && a.State != "done" || a.Reply == nil || a.Reply.Status != op.Done || exists(filepath.Join(d.Root, "f")) {
			t.Fatal(a)
		}
		if u, err := c.Undo(ctx, a.Reply.UndoCredential); err != nil || u.Status != op.Done || read(t, filepath.Join(d.Root, "f")) != "one\n" {
			t.Error(u, err)
		}
		refused, err := c.Call(ctx, op.Request{Op: op.WriteFile, Args: op.Object{"path": "../f", "content": ""}})
		var e *client.Error
		if !errors.As(err, &e) || e.HTTPStatus != 403 || !errors.Is(err, op.OutsideWorkspace) || refused.Status != op.Refused {
			t.Error(refused, err)
		}
		if _, err := c.Wait(ctx, "ap_aaaaaaaaaaaaaaaaaaaaaaaaaa"); !errors.Is(err, op.NotFound) {
			t.Error(err)
		}
		if _, err := dial("wrong").Call(ctx, op.Request{Op: op.ListDirectory}); !errors.Is(err, op.Unauthenticated) {
			t.Error(err)
		}
		over, stop := context.WithCancel(ctx)
		stop()
		if _, err := c.Call(over, op.Request{Op: op.ListDirectory}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	for name, argv := range map[string][]string{"python": {"python3", "../../examples/python/holdpoint_example.py"}, "typescript": {"node", "../../examples/typescript/holdpoint_example.mts"}} {
		t.Run("the example in "+name+" runs", func(t *testing.T) {
			if _, err := exec.LookPath(argv[0]); err != nil {
				t.Fatal(err)
			}
			if name == "typescript" { // older Node does not take the types out by itself
				js := api.Transform(read(t, argv[1]), api.TransformOptions{Loader: api.LoaderTS, Format: api.FormatESModule})
				if len(js.Errors) > 0 {
					t.Fatal(js.Errors)
				}
				argv[1] = filepath.Join(t.TempDir(), "example.mjs")
				write(t, argv[1], string(js.Code))
			}
			cmd := exec.CommandContext(ctx, argv[0], append(argv[1:], "--no-wait")...)
			cmd.Env = append(os.Environ(), "HOLDPOINT_SOCKET="+d.Socket, "HOLDPOINT_TOKEN="+d.Agent, "NODE_NO_WARNINGS=1")
			out, err := cmd.CombinedOutput()
			if want := "wrote example.txt\nwaits for a person: Delete 1 file\nended as cancelled\nundo: done\n"; err != nil || string(out) != want {
				t.Errorf("got %v\n%swant\n%s", err, out, want)
			}
		})
	}
	t.Run("SIGTERM while 50 calls are in flight loses no answer; the events go on after the restart", func(t *testing.T) {
		c := dial(d.Agent)
		saw, follow := make(chan client.Event, 1024), func() {}
		{
			var fctx context.Context
			fctx, follow = context.WithCancel(ctx)
			go c.Events(fctx, 0, func(e client.Event) error { saw <- e; return nil })
		}
		defer follow()
		const n = 50
		request := func(i int) op.Request {
			return op.Request{Op: op.WriteFile, RequestID: fmt.Sprint("stop-", i), Args: op.Object{"path": fmt.Sprintf("stop-%d", i), "content": strings.Repeat("x", 1000)}}
		}
		var wg sync.WaitGroup
		answered, lost := make([]op.ID, n), make([]bool, n)
		started := make(chan bool, n)
		for i := range n {
			wg.Go(func() {
				started <- true
				r, err := c.Call(ctx, request(i))
				switch {
				case err == nil && r.Status == op.Done:
					answered[i] = r.OperationID
				case client.IsLost(err):
					lost[i] = true
				case errors.Is(err, op.NotReady):
					lost[i] = true // told that it was not taken
				default:
					t.Errorf("call %d: %v %v", i, r.Status, err)
				}
			})
		}
		for range n {
			<-started
		}
		time.Sleep(10 * time.Millisecond)
		d.stop(syscall.SIGTERM)
		wg.Wait()
		d.run()
		d.operator()
		first, again := 0, 0
		for i := range n {
			r, err := c.Call(ctx, request(i))
			if err != nil || r.Status != op.Done {
				t.Errorf("call %d after the restart: %v %v", i, r.Status, err)
			}
			if answered[i] != "" {
				first++
				if r.OperationID != answered[i] {
					t.Errorf("call %d ran twice: %s, then %s", i, answered[i], r.OperationID)
				}
			} else {
				again++
			}
		}
		t.Logf("%d answered before the end, %d by their request id after it", first, again)
		log, want := map[string]int{}, n
		var page struct {
			Operations []struct {
				Paths []string `json:"paths"`
			} `json:"operations"`
		}
		if err := c.Do(ctx, http.MethodGet, "/v1/operations?limit=1000", nil, &page); err != nil {
			t.Fatal(err)
		}
		for _, o := range page.Operations {
			for _, p := range o.Paths {
				if strings.HasPrefix(p, "stop-") {
					log[p]++
				}
			}
		}
		for p, k := range log {
			if k != 1 {
				t.Errorf("%s was written %d times", p, k)
			}
		}
		if len(log) != want {
			t.Errorf("%d of %d writes are on record", len(log), want)
		}
		// The stream goes on, and may come back after any one of these. What it saw before the
		// restart says nothing: it may not have begun by then.
		written, late := map[any]bool{}, time.After(time.Minute)
		for i := 0; ; i++ {
			r, err := c.Call(ctx, op.Request{Op: op.WriteFile, Args: op.Object{"path": fmt.Sprint("after-", i), "content": ""}})
			if err != nil {
				t.Fatal(err)
			}
			written[string(r.OperationID)] = true
			select {
			case <-time.After(100 * time.Millisecond):
			case e := <-saw:
				if written[e.Data["operation_id"]] {
					return
				}
			case <-late:
				t.Fatal("no event after the restart")
			}
		}
	})
}
