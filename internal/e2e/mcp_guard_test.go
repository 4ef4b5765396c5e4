package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"holdpoint/internal/ports"
)

// mcpAsk sends one request to a loopback address with headers of its own, "Host" included.
func mcpAsk(t *testing.T, method, url, body string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		} else {
			r.Header.Set(header[i], header[i+1])
		}
	}
	resp, err := (&http.Client{Timeout: 20 * time.Second}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

func TestMCPGuards(t *testing.T) {
	t.Parallel()
	addr := ports.Addr(t)
	d := start(t, "--listen", addr)
	write(t, filepath.Join(d.Root, "a.txt"), "a\n")
	url := "http://" + addr + "/mcp"
	const first = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	const del = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete_file","arguments":{"path":"a.txt"}}}`
	token := "Bearer " + d.Agent
	plain := []string{"Accept", "application/json, text/event-stream", "Content-Type", "application/json", "Authorization", token}
	with := func(header ...string) []string { return append(append([]string{}, plain...), header...) }
	queued := func() int {
		_, out := d.http("GET", "/v1/approvals?state=pending", d.reviewer(), nil)
		return len(out["approvals"].([]any))
	}
	if code, body := mcpAsk(t, "POST", url, first, plain...); code != 200 {
		t.Fatalf("a plain initialize: %d %s", code, body) // else the refusals below prove nothing
	}
	t.Run("S69 (part) MCP without a token, with an empty or wrong one, or another role's, is turned away", func(t *testing.T) {
		for _, c := range []struct {
			auth string
			want int
		}{{"", 401}, {"Bearer ", 401}, {"Bearer hp_wrong", 401}, {"Bearer " + d.reviewer(), 403}} {
			for _, path := range []string{"/mcp", "/v1/mcp"} {
				method := map[string]string{"/mcp": "POST", "/v1/mcp": "GET"}[path]
				if code, body := mcpAsk(t, method, "http://"+addr+path, first, with("Authorization", c.auth)...); code != c.want || strings.Contains(body, "serverInfo") {
					t.Errorf("%s %q: got %d %s, want %d", path, c.auth, code, body, c.want)
				}
			}
		}
	})
	t.Run("S70 (part) a foreign Host gets 403 bad_origin from MCP", func(t *testing.T) {
		for _, host := range []string{"evil.test:" + addr[len("127.0.0.1:"):], "evil.test", "127.0.0.1", "169.254.1.1:80"} {
			if code, body := mcpAsk(t, "POST", url, del, with("Host", host)...); code != 403 || !strings.Contains(body, "bad_origin") {
				t.Errorf("%s: got %d %s", host, code, body)
			}
		}
	})
	t.Run("S71 (part) text/plain gets 415 and a foreign Origin 403 from MCP, and nothing is queued", func(t *testing.T) {
		for _, c := range []struct {
			header []string
			want   int
		}{
			{with("Content-Type", "text/plain"), 415},
			{with("Content-Type", "application/x-www-form-urlencoded"), 415},
			{with("Origin", "https://evil.test"), 403},
			{with("Origin", "null"), 403},
			{with("Sec-Fetch-Site", "cross-site"), 403},
		} {
			if code, body := mcpAsk(t, "POST", url, del, c.header...); code != c.want {
				t.Errorf("%v: got %d %s, want %d", c.header[6:], code, body, c.want)
			}
		}
		if n := queued(); n != 0 {
			t.Errorf("%d calls were queued", n)
		}
	})
	t.Run("S72 no upgrade with a foreign Origin, without a token, or with one in the address, and none to a websocket", func(t *testing.T) {
		up := []string{"Connection", "Upgrade", "Upgrade", "holdpoint-mcp"}
		for _, c := range []struct {
			path   string
			header []string
			want   int
		}{
			{"/v1/mcp", append(up, "Authorization", token, "Origin", "https://evil.test"), 403},
			{"/v1/mcp", up, 401},
			{"/v1/mcp?token=" + d.Agent, up, 401},
			{"/v1/mcp?access_token=" + d.Agent, up, 401},
			{"/v1/mcp", []string{"Connection", "Upgrade", "Upgrade", "websocket", "Authorization", token}, 400},
			{"/v1/mcp", append(up, "Authorization", "Bearer "), 401},
			{"/v1/mcp", append(up, "Authorization", token, "Origin", "null"), 403},
			{"/v1/mcp", append(up, "Authorization", token), 101},
		} {
			if code := mcpUpgrade(t, addr, c.path, c.header...); code != c.want {
				t.Errorf("%s %v: got %d, want %d", c.path, c.header, code, c.want)
			}
		}
		// No other route speaks anything but HTTP, whoever asks.
		for _, path := range []string{"/", "/mcp", "/v1/events", "/v1/call", "/v1/approvals", "/healthz"} {
			for _, who := range []string{d.Agent, d.reviewer()} {
				socket := []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==",
					"Authorization", "Bearer " + who}
				if code := mcpUpgrade(t, addr, path, socket...); code == 101 {
					t.Errorf("%s became a websocket", path)
				}
			}
		}
	})
	t.Run("S73 (part) an argument that is not byte-equal to a known name is refused by name", func(t *testing.T) {
		c := d.stdio("2025-11-25", nil)
		for _, args := range []M{{"PATH": "a.txt"}, {"path\u017f": "a.txt"}, {"Path": "a.txt"}, {"path": "a.txt", "RECURSIVE": true}} {
			if r := c.call("delete_file", args); text(r.Facts, "error", "code") != "bad_request" {
				t.Errorf("%v: got %v", args, r.Facts)
			}
		}
		for _, line := range []string{
			`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"view_file","NAME":"delete_file","arguments":{"path":"a.txt"}}}`,
			`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"view_file","name":"delete_file","arguments":{"path":"a.txt"}}}`,
			`{"jsonrpc":"2.0","id":9,"method":"tools/list","method":"tools/call","params":{"name":"delete_file","arguments":{"path":"a.txt"}}}`,
			`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"delete_file","arguments":{"path":"b.txt","path":"a.txt"}}}`,
			`{"jsonrpc":"2.0","id":9,"method":"tools\/call","params":{"name":"delete_file","arguments":{"path":"b.txt","p\u0061th":"a.txt"},"_meta":{"x":1.5}}}`,
		} {
			if got := d.rawLine(t, line); strings.Contains(got, "approval_id") {
				t.Errorf("a line: %s: got %s", line, got)
			}
			if code, got := mcpAsk(t, "POST", url, line, with("MCP-Protocol-Version", "2026-07-28")...); strings.Contains(got, "approval_id") {
				t.Errorf("a request: %s: got %d %s", line, code, got)
			}
		}
		if n := queued(); n != 0 {
			t.Errorf("%d calls were queued", n)
		}
	})
	t.Run("S75 (part) another agent's approvals and sessions look absent over MCP", func(t *testing.T) {
		_, made := d.http("POST", "/v1/tokens", d.reviewer(), M{"name": "other", "role": "agent"})
		other := text(made, "token")
		mine := d.overHTTP(addr, d.Agent, "2025-11-25", nil)
		id, _ := mine.held("delete_file", M{"path": "a.txt"})
		theirs := d.overHTTP(addr, other, "2025-11-25", nil)
		for _, tool := range []string{"approval_status", "approval_wait", "approval_cancel"} {
			foreign, unknown := theirs.call(tool, M{"approval_id": id}), theirs.call(tool, M{"approval_id": id[:len(id)-1] + "a"})
			if text(foreign.Facts, "error", "code") != "not_found" || foreign.Text != unknown.Text {
				t.Errorf("%s: got %q for another's and %q for none", tool, foreign.Text, unknown.Text)
			}
		}
		if code, _ := mcpAsk(t, "POST", url, del, with("Authorization", "Bearer "+other, "Mcp-Session-Id", mine.ID())...); code != 403 {
			t.Errorf("another token went on with a session: %d", code)
		}
		if r := mine.call("approval_status", M{"approval_id": id}); r.Facts["state"] != "pending" {
			t.Errorf("the owner's row: %v", r.Facts)
		}
		mine.call("approval_cancel", M{"approval_id": id})
		t.Run("a revoked token ends at the next call of an open connection", func(t *testing.T) {
			c := d.as(other).stdio("2025-11-25", nil)
			c.done("view_file", M{"path": "a.txt"})
			d.http("DELETE", "/v1/tokens/"+text(made, "id"), d.reviewer(), nil)
			if r := c.call("view_file", M{"path": "a.txt"}); text(r.Facts, "error", "code") != "unauthenticated" || strings.Contains(r.Text, "a\n") {
				t.Errorf("got %v", r.Facts)
			}
		})
	})
	t.Run("S74 (part) fifty clients with twenty requests each get their own answers", func(t *testing.T) {
		for i := range 50 {
			write(t, filepath.Join(d.Root, "m", fmt.Sprint(i)), fmt.Sprintf("marker %d\n", i))
		}
		var wg sync.WaitGroup
		for i := range 50 {
			var c *mcpTools
			if i%5 != 0 {
				c = d.overHTTP(addr, d.Agent, mcpVersions[i%3], nil)
			} else {
				c = d.stdio(mcpVersions[i%3], nil)
			}
			wg.Go(func() {
				for range 20 {
					r, err := c.try("view_file", M{"path": fmt.Sprintf("m/%d", i)})
					if want := fmt.Sprintf("marker %d\n", i); err != nil || r.Text != want {
						t.Errorf("client %d: got %q %v, want %q", i, r.Text, err, want)
						return
					}
				}
			})
		}
		wg.Wait()
	})
	t.Run("no tool approves, and none names a way to", func(t *testing.T) {
		c := d.stdio("2025-11-25", nil, "--compat")
		list, err := c.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range list.Tools {
			for _, word := range []string{"approve", "answer", "grant", "remember", "token", "passphrase", "mode"} {
				if strings.Contains(tool.Name, word) {
					t.Errorf("there is a tool %s", tool.Name)
				}
			}
		}
		id, _ := c.held("delete_file", M{"path": "a.txt"})
		for _, name := range []string{"approval_answer", "approval_approve", "review", "login"} {
			if _, err := c.try(name, M{"approval_id": id, "answer": "approve", "passphrase": passphrase}); err == nil {
				t.Errorf("the tool %s exists", name)
			}
		}
		if mcpGone(filepath.Join(d.Root, "a.txt")) {
			t.Fatal("the file is gone")
		}
	})
}

// as is the same daemon for the holder of another token.
func (d *daemon) as(token string) *daemon {
	other := *d
	other.Agent, other.env = token, append(append([]string{}, d.env...), "HOLDPOINT_TOKEN="+token)
	return &other
}

// mcpUpgrade asks for an upgrade and gives the status line's code.
func mcpUpgrade(t *testing.T, addr, path string, header ...string) int {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n", path, addr)
	for i := 0; i < len(header); i += 2 {
		fmt.Fprintf(conn, "%s: %s\r\n", header[i], header[i+1])
	}
	fmt.Fprint(conn, "\r\n")
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return resp.StatusCode
}

// rawLine sends one line after the handshake and gives the line that comes back.
func (d *daemon) rawLine(t *testing.T, line string) string {
	t.Helper()
	conn, err := net.Dial("unix", d.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(conn, "GET /v1/mcp HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: holdpoint-mcp\r\nAuthorization: Bearer %s\r\n\r\n", d.Agent)
	in := bufio.NewReader(conn)
	if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != 101 {
		t.Fatalf("upgrade: %v %v", resp, err)
	}
	fmt.Fprintln(conn, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	if _, err := in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "%s\n%s\n", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, line)
	got, err := in.ReadString('\n')
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return got
}
