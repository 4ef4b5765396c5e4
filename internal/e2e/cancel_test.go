package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holdpoint/internal/ports"
)

var goroutineLine = regexp.MustCompile(`(?m)^go_goroutines (\d+)$`)

// goroutines asks the daemon how many it has.
func (d *daemon) goroutines(t testing.TB) int {
	t.Helper()
	_, out := d.http("GET", "/metrics", d.Agent, nil)
	m := goroutineLine.FindStringSubmatch(text(out, "raw"))
	if m == nil {
		t.Fatalf("no count of goroutines: %v", out)
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// cancelWithin is what a person notices; the race detector makes everything many times slower.
func cancelWithin() time.Duration {
	if raceEnabled {
		return time.Second
	}
	return 50 * time.Millisecond
}

// TestCancelledCalls: a read whose caller goes away ends within 50 ms, and nothing of it
// goes on, over the socket and over MCP.
func TestCancelledCalls(t *testing.T) {
	t.Parallel()
	addr := ports.Addr(t)
	d := start(t, "--listen", addr)
	in := func(p string) string { return filepath.Join(d.Root, p) }
	line := []byte("abcdefghij klmnop qrstuv wxyz 0123456789\n")
	for i := range 6 {
		write(t, in(fmt.Sprintf("d%d/f", i)), string(bytes.Repeat(line, 150_000)))
	}
	for i := range 40 {
		write(t, in(fmt.Sprintf("huge%d", i)), "")
		if err := os.Truncate(in(fmt.Sprintf("huge%d", i)), 64<<30); err != nil { // of holes, and to be hashed all the same
			t.Fatal(err)
		}
	}
	var huge []string
	for i := range 40 {
		huge = append(huge, fmt.Sprintf("huge%d", i))
	}
	reads := map[string]M{
		"search_files": {"pattern": `([a-z0-9 ]{1,200}[A-Z]){3}`, "regex": true, "timeout_ms": 60_000},
		"view_file":    {"path": "huge0", "start_line": 5},
		"file_info":    {"path": "huge0"},
		"diff_file":    {"path": "huge0", "compare_path": "huge1"},
	}
	ways := map[string]func(ctx context.Context, op string, args M) error{
		"socket": func(ctx context.Context, op string, args M) error {
			return d.post(ctx, "/v1/call", M{"op": op, "args": args})
		},
	}
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		pipe, web := d.stdio(version, nil), d.overHTTP(addr, d.Agent, version, nil)
		for name, c := range map[string]*mcpTools{"MCP stdio " + version: pipe, "MCP HTTP " + version: web} {
			ways[name] = func(ctx context.Context, op string, args M) error {
				_, err := c.params(ctx, callParams(op, args))
				return err
			}
		}
	}
	for way, call := range ways {
		for op, args := range reads {
			t.Run(way+" "+op, func(t *testing.T) {
				d.endsWhenCancelled(t, func(ctx context.Context) error { return call(ctx, op, args) })
			})
		}
	}
	t.Run("socket preflight of many paths", func(t *testing.T) {
		d.endsWhenCancelled(t, func(ctx context.Context) error { return d.post(ctx, "/v1/preflight", M{"paths": huge}) })
	})
}

// post sends a request that ctx may end.
func (d *daemon) post(ctx context.Context, path string, body M) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, "POST", "http://holdpoint"+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+d.Agent)
	resp, err := d.client().Do(r)
	if err != nil {
		return err
	}
	resp.Body.Close()
	return fmt.Errorf("answered with %d", resp.StatusCode)
}

// endsWhenCancelled cancels a call under way, and waits until the daemon has no more to do
// than before. On a busy machine a single try may wait for a core; three in a row do not.
func (d *daemon) endsWhenCancelled(t *testing.T, call func(context.Context) error) {
	t.Helper()
	least := time.Hour
	for try := 0; try < 3 && least > cancelWithin(); try++ {
		before := d.goroutines(t)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- call(ctx) }()
		for end := time.Now().Add(time.Minute); d.goroutines(t) <= before+1; {
			if time.Now().After(end) {
				t.Fatal("the call did not begin")
			}
		}
		time.Sleep(30 * time.Millisecond)
		select {
		case err := <-done:
			t.Fatalf("it ended by itself: %v", err)
		default:
		}
		begin := time.Now()
		cancel()
		took := time.Duration(0)
		for left := d.goroutines(t); left > before; left = d.goroutines(t) {
			if took = time.Since(begin); took > 20*time.Second {
				t.Fatalf("%d goroutines before, %d long after", before, left)
			}
		}
		<-done
		least = min(least, took)
	}
	t.Logf("nothing of it was left %v after the cancel", least.Round(time.Millisecond/10))
	if least > cancelWithin() {
		t.Errorf("something of it went on for %v", least)
	}
}

func callParams(name string, args M) *sdk.CallToolParams {
	return &sdk.CallToolParams{Name: name, Arguments: args}
}
