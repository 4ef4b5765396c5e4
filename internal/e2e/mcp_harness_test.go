package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpVersions are the protocol versions that are promised.
var mcpVersions = []string{"2025-06-18", "2025-11-25", "2026-07-28"}

// mcpTools is one MCP client of a daemon, by the official Go SDK.
type mcpTools struct {
	*sdk.ClientSession
	t   testing.TB
	cmd *exec.Cmd
}

// stdio starts `holdpoint mcp` for a client.
func (d *daemon) stdio(version string, opts *sdk.ClientOptions, args ...string) *mcpTools {
	d.t.Helper()
	cmd := exec.Command(binary, append([]string{"mcp"}, args...)...)
	cmd.Env, cmd.Dir = d.environ(), d.Root
	var errs bytes.Buffer
	cmd.Stderr = &errs
	c, err := connectTo(&sdk.CommandTransport{Command: cmd, TerminateDuration: 2 * time.Second}, version, opts)
	if err != nil {
		d.t.Fatalf("%v\n%s\n%s", err, errs.String(), d.Log)
	}
	d.t.Cleanup(func() { c.Close() })
	return &mcpTools{c, d.t, cmd}
}

// mcpBearer adds a token to each request.
type mcpBearer struct {
	token string
	next  http.RoundTripper
}

func (b mcpBearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// overHTTP connects a client to /mcp on the daemon's loopback port.
func (d *daemon) overHTTP(addr, token, version string, opts *sdk.ClientOptions) *mcpTools {
	d.t.Helper()
	c, err := connectTo(&sdk.StreamableClientTransport{Endpoint: "http://" + addr + "/mcp", MaxRetries: -1,
		HTTPClient: &http.Client{Transport: mcpBearer{token, &http.Transport{}}}}, version, opts)
	if err != nil {
		d.t.Fatalf("%v\n%s", err, d.Log)
	}
	d.t.Cleanup(func() { c.Close() })
	return &mcpTools{c, d.t, nil}
}

func connectTo(tr sdk.Transport, version string, opts *sdk.ClientOptions) (*sdk.ClientSession, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	return sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, opts).Connect(ctx, tr, &sdk.ClientSessionOptions{ProtocolVersion: version})
}

// mcpResult is what a tool answered.
type mcpResult struct {
	*sdk.CallToolResult
	Text  string
	Facts M
}

func (c *mcpTools) try(name string, args M) (mcpResult, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	return c.params(ctx, &sdk.CallToolParams{Name: name, Arguments: args})
}

func (c *mcpTools) params(ctx context.Context, p *sdk.CallToolParams) (mcpResult, error) {
	r, err := c.CallTool(ctx, p)
	if err != nil {
		return mcpResult{}, err
	}
	out := mcpResult{CallToolResult: r}
	for _, part := range r.Content {
		if text, ok := part.(*sdk.TextContent); ok {
			out.Text += text.Text
		}
	}
	out.Facts, _ = r.StructuredContent.(map[string]any)
	return out, nil
}

// call runs a tool that must answer, whatever.
func (c *mcpTools) call(name string, args M) mcpResult {
	c.t.Helper()
	r, err := c.try(name, args)
	if err != nil {
		c.t.Fatalf("%s: %v", name, err)
	}
	return r
}

// done runs a tool that must succeed.
func (c *mcpTools) done(name string, args M) mcpResult {
	c.t.Helper()
	r := c.call(name, args)
	if r.IsError || r.Facts["status"] != "done" {
		c.t.Fatalf("%s: got %v %q, want it done", name, r.Facts, r.Text)
	}
	return r
}

// held runs a tool that must wait for a person, and gives the approval's id.
func (c *mcpTools) held(name string, args M) (id string, r mcpResult) {
	c.t.Helper()
	r = c.call(name, args)
	id, _ = r.Facts["approval_id"].(string)
	if r.IsError || r.Facts["status"] != "review" || !strings.HasPrefix(id, "ap_") {
		c.t.Fatalf("%s: got %v %q, want it held", name, r.Facts, r.Text)
	}
	return id, r
}

// respond answers an approval as the reviewer.
func (d *daemon) respond(id, word, note string) M {
	d.t.Helper()
	return d.answer(M{"approval": M{"id": id}}, word, note)
}

func mcpEncoded(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// eachClient runs a test over both transports and every version. setup gives a client.
func eachClient(t *testing.T, d *daemon, addr string, run func(t *testing.T, c *mcpTools)) {
	for _, v := range mcpVersions {
		t.Run("stdio "+v, func(t *testing.T) {
			c := d.stdio(v, nil)
			c.t = t
			run(t, c)
		})
		t.Run("http "+v, func(t *testing.T) {
			c := d.overHTTP(addr, d.Agent, v, nil)
			c.t = t
			run(t, c)
		})
	}
}

func pidOf(c *mcpTools) int { return c.cmd.Process.Pid }
