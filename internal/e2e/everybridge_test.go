package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	natsgo "github.com/nats-io/nats.go"

	natsbridge "holdpoint/bridge/nats"
	"holdpoint/internal/ports"
)

// bridges are all the ways by which an agent reaches a daemon.
var bridges = []string{"socket", "HTTP", "MCP over stdio", "MCP over HTTP", "NATS"}

// reached is a daemon that is served on every bridge.
type reached struct {
	*daemon
	addr string
	key  string // of the root
	bus  *natsgo.Conn
}

func newReached(t testing.TB, conf string) *reached {
	t.Helper()
	at := startNATS(t)
	bus, err := natsgo.Connect(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Close)
	if err := natsbridge.MakeStores(context.Background(), bus, 1, 0); err != nil {
		t.Fatal(err)
	}
	x := &reached{addr: ports.Addr(t), bus: bus}
	x.daemon = quick(t, conf, "--listen", x.addr, "--nats", at)
	_, status := x.http("GET", "/v1/status", x.Agent, nil)
	x.key = text(objects(status["roots"])[0], "key")
	asks := x.over("NATS", x.Agent, nil)
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		got, err := asks("list_directory", M{})
		if err == nil && got.status == "done" {
			return x
		}
		if time.Now().After(end) {
			t.Fatalf("NATS does not serve the root: %v %v\n%s", got, err, x.Log)
		}
	}
}

// answered is what an agent learns of a call, on whichever bridge.
type answered struct{ status, code, reason, id, text string }

// class words it: an error's code, or done, or the leading reason of a held call.
func (a answered) class() string {
	switch {
	case a.code != "":
		return a.code
	case a.status == "review":
		return "review " + a.reason
	}
	return a.status
}

type asking func(name string, args M) (answered, error)

// over gives the client of a token on a bridge. What comes to it is written to said, which
// may be nil.
func (x *reached) over(bridge, token string, said io.Writer) asking {
	x.t.Helper()
	if said == nil {
		said = io.Discard
	}
	if strings.HasPrefix(bridge, "MCP") {
		return x.overMCP(bridge, token, said)
	}
	client := x.web(bridge, said)
	return func(name string, args M) (answered, error) {
		m, err := askWeb(client, "POST", "/v1/call", token, M{"op": name, "args": args})
		return answered{text(m, "status"), code(m), text(m, "decision", "reason"), text(m, "approval", "id"), text(m, "result", "content")}, err
	}
}

// web is a client of the HTTP API on a bridge that carries it.
func (x *reached) web(bridge string, said io.Writer) *http.Client {
	var by http.RoundTripper
	switch bridge {
	case "socket":
		by = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", x.Socket)
		}}
	case "HTTP":
		by = to{x.addr, &http.Transport{}}
	default:
		by = natsbridge.Transport{Conn: x.bus, Root: x.key}
	}
	return &http.Client{Timeout: patience, Transport: heard{by, said}}
}

// to sends requests to an address, whatever host they name.
type to struct {
	addr string
	next http.RoundTripper
}

func (t to) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Host, r.Host = t.addr, t.addr
	return t.next.RoundTrip(r)
}

// heard writes down what comes back.
type heard struct {
	next http.RoundTripper
	said io.Writer
}

func (h heard) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := h.next.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(resp.Body, h.said), resp.Body}
	}
	return resp, err
}

// askWeb is one request over HTTP, of a caller that keeps its connections.
func askWeb(client *http.Client, method, path, token string, body any) (M, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequest(method, "http://holdpoint"+path, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out := M{}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, resp.Body) // else the connection is not kept
	return out, err
}

// overMCP is a client of the tools.
func (x *reached) overMCP(bridge, token string, said io.Writer) asking {
	x.t.Helper()
	var by sdk.Transport = &sdk.StreamableClientTransport{Endpoint: "http://" + x.addr + "/mcp", MaxRetries: -1, HTTPClient: &http.Client{Transport: mcpBearer{token, &http.Transport{}}}}
	if bridge == "MCP over stdio" {
		cmd := exec.Command(binary, "mcp")
		cmd.Env, cmd.Dir = append(x.environ(), "HOLDPOINT_TOKEN="+token), x.Root
		by = &sdk.CommandTransport{Command: cmd, TerminateDuration: 2 * time.Second}
	}
	session, err := connectTo(&sdk.LoggingTransport{Transport: by, Writer: said}, mcpVersions[len(token)%len(mcpVersions)], nil)
	if err != nil {
		x.t.Fatalf("%s: %v\n%s", bridge, err, x.Log)
	}
	x.t.Cleanup(func() { session.Close() })
	c := &mcpTools{session, x.t, nil}
	return func(name string, args M) (answered, error) {
		r, err := c.try(name, args)
		return answered{text(r.Facts, "status"), text(r.Facts, "error", "code"), text(r.Facts, "reason"), text(r.Facts, "approval_id"), r.Text}, err
	}
}

// TestEveryBridge has agents at work on all bridges at once, each of which must get its own
// answers and learn nothing of the others.
func TestEveryBridge(t *testing.T) {
	t.Parallel()
	x := newReached(t, "")
	t.Run("S74 fifty clients with twenty requests each over every bridge get their own answers, and no foreign item in lists or events", func(t *testing.T) {
		const clients = 50
		all := make([]*marked, clients)
		for i := range all {
			all[i] = x.newMarked(i)
		}
		var wg sync.WaitGroup
		for _, c := range all {
			wg.Go(func() {
				if err := c.works(); err != nil {
					t.Errorf("client %d on %s: %v", c.n, c.bridge, err)
				}
			})
		}
		wg.Wait()
		for _, c := range all {
			c.knows(t, all)
		}
	})
}

// marked is an agent with a token of its own, whose files, intents and ids are told from
// those of all others.
type marked struct {
	x            *reached
	n            int
	bridge, mark string
	token        string
	asks         asking
	said         *logBuffer // all that came to it
	events       *logBuffer // of its stream
	hangUp       context.CancelFunc
	held, change string // ids of its held call and of its change
}

func (x *reached) newMarked(n int) *marked {
	x.t.Helper()
	c := &marked{x: x, n: n, bridge: bridges[n%len(bridges)], mark: fmt.Sprintf("marker-%03d-", n), said: &logBuffer{}, events: &logBuffer{}}
	write(x.t, filepath.Join(x.Root, "m", c.mark), c.mark+"\n")
	write(x.t, filepath.Join(x.Root, "m", c.mark+".edit"), c.mark+" old\n")
	c.token = x.token(M{"name": fmt.Sprint("client", n), "role": "agent"})
	c.asks = x.over(c.bridge, c.token, c.said)
	var ctx context.Context
	ctx, c.hangUp = context.WithCancel(context.Background())
	x.t.Cleanup(c.hangUp)
	req, err := http.NewRequestWithContext(ctx, "GET", "http://holdpoint/v1/events", nil)
	if err != nil {
		x.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	client := x.web(bridges[n%2], c.events) // the stream is served on two of them
	client.Timeout = 0
	resp, err := client.Do(req)
	if err != nil || resp.StatusCode != 200 {
		x.t.Fatalf("events: %v %v", resp, err)
	}
	go func() {
		defer resp.Body.Close()
		io.Copy(io.Discard, resp.Body)
	}()
	return c
}

// works makes the twenty requests.
func (c *marked) works() error {
	file := "m/" + c.mark
	for n := range 20 {
		name, args := "view_file", M{"path": file}
		switch n {
		case 5:
			name, args = "edit_file", M{"path": file + ".edit", "old_string": "old", "new_string": "new"}
		case 10:
			name, args = "delete_file", M{"path": file + ".edit"}
		case 15:
			if !strings.HasPrefix(c.bridge, "MCP") {
				if err := c.lists(c.x.web(c.bridge, c.said)); err != nil {
					return err
				}
				continue
			}
			name, args = "approval_status", M{"approval_id": c.held}
		}
		got, err := c.asks(name, args)
		switch {
		case err != nil:
			return err
		case name == "view_file" && (got.status != "done" || got.text != c.mark+"\n"):
			return fmt.Errorf("request %d: %+v", n, got)
		case name == "edit_file" && got.status != "done", name == "delete_file" && got.status != "review", name == "approval_status" && got.code != "":
			return fmt.Errorf("%s: %+v", name, got)
		case name == "delete_file":
			c.held = got.id
		}
	}
	return c.lists(c.x.web("socket", c.said)) // with the same token, where the bridge has no lists too
}

// lists looks at the lists that the agent may see.
func (c *marked) lists(client *http.Client) error {
	waiting, err := askWeb(client, "GET", "/v1/approvals?state=pending&mine=true", c.token, nil)
	if err != nil {
		return err
	}
	done, err := askWeb(client, "GET", "/v1/operations", c.token, nil)
	if err != nil {
		return err
	}
	if w, o := objects(waiting["approvals"]), objects(done["operations"]); len(w) != 1 || w[0]["id"] != c.held || len(o) != 1 {
		return fmt.Errorf("it sees %v and %v", waiting, done)
	} else {
		c.change = text(o[0], "id")
	}
	return nil
}

// knows looks at all that came to an agent when every agent is through.
func (c *marked) knows(t *testing.T, all []*marked) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !strings.Contains(c.events.String(), c.held) || !strings.Contains(c.events.String(), c.change); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("client %d: its stream never told of %s and %s: %s", c.n, c.held, c.change, c.events)
		}
	}
	c.hangUp()
	if !strings.Contains(c.said.String(), c.mark) {
		t.Errorf("client %d on %s: nothing that came to it was written down", c.n, c.bridge)
	}
	for _, o := range all {
		for _, foreign := range []string{o.mark, o.held, o.change} {
			if o != c && (strings.Contains(c.said.String(), foreign) || strings.Contains(c.events.String(), foreign)) {
				t.Errorf("client %d on %s learned of %s, which is of client %d on %s", c.n, c.bridge, foreign, o.n, o.bridge)
			}
		}
	}
}
