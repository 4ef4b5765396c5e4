//go:build linux

package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"

	natsbridge "holdpoint/bridge/nats"
)

// TestNoise sends good requests with some of their bytes changed, cut, doubled or taken from
// others, over every bridge, whole messages with head and body. HOLDPOINT_NOISE=N sends so
// many on each.
func TestNoise(t *testing.T) {
	t.Parallel()
	x := newReached(t, "")
	write(t, filepath.Join(x.Root, "f"), "one\n")
	n := &noise{reached: x, before: digest(t, x.Root), each: 120, codes: map[string]int{}}
	if s := os.Getenv("HOLDPOINT_NOISE"); s != "" {
		var err error
		if n.each, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	for i, bridge := range slices.Sorted(maps.Keys(noises)) {
		t.Run("S73 (part), S78 (part) noise on "+bridge+": no effect, no crash, and without a token nothing but a refusal", func(t *testing.T) {
			seed := seedOf(t)
			n.t, n.rng = t, rand.New(rand.NewPCG(seed, uint64(i)))
			clear(n.codes)
			noises[bridge](n)
			t.Logf("%s: %d messages, answers %v", bridge, n.each, n.codes)
			n.unharmed()
			if n.codes["200"]+n.codes["400"]+n.codes["result"]+n.codes["error"] == 0 {
				t.Error("no message was understood as far as an answer, so this shows nothing")
			}
		})
	}
}

type noise struct {
	*reached
	t      *testing.T
	rng    *rand.Rand
	before string
	each   int
	codes  map[string]int
}

// noises has what makes the noise of each bridge.
var noises = map[string]func(n *noise){
	"the socket": func(n *noise) {
		n.requests(func() (net.Conn, error) { return net.Dial("unix", n.Socket) }, "/v1/call", "/v1/preflight", "/v1/undo", "/v1/approvals/x/answer", "/v1/tokens")
	},
	"HTTP": func(n *noise) {
		n.requests(func() (net.Conn, error) { return net.Dial("tcp", n.addr) }, "/v1/call", "/v1/preflight", "/v1/clean", "/v1/login", "/v1/pair/claim")
	},
	"MCP over HTTP":      func(n *noise) { n.requests(func() (net.Conn, error) { return net.Dial("tcp", n.addr) }, "/mcp") },
	"MCP, line by line":  (*noise).lines,
	"MCP over stdio":     (*noise).stdin,
	"NATS, head and all": (*noise).messages,
}

// unharmed asserts that others are served, nothing was changed and nothing is kept.
func (n *noise) unharmed() {
	n.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		status, _, err := n.tryHTTP("GET", "/v1/status", n.Agent, nil)
		if err == nil && status == 200 {
			break
		}
		if time.Now().After(end) {
			n.t.Fatalf("status: %d %v", status, err)
		}
	}
	if digest(n.t, n.Root) != n.before {
		n.t.Error("something was changed")
	}
	if log := n.Log.String(); strings.Contains(log, "panic") || strings.Contains(log, "goroutine ") {
		n.t.Errorf("the daemon says: %s", log)
	}
}

// calls are good, but for that they aim at a file that is not there: what a changed byte
// leaves good must have no effect either.
var noiseCalls = []string{
	`{"op":"edit_file","args":{"path":"g","old_string":"one","new_string":"two"},"request_id":"r1"}`,
	`{"op":"batch_file_ops","args":{"operations":[{"op":"delete_file","args":{"path":"g"}},{"op":"move_file","args":{"source":"g","destination":"h"}}]}}`,
	`{"op":"undo","args":{"credential":{"id":"uc_x","operation_id":"op_x","seal":"AAAA"}}}`,
	`{"op":"view_file","args":{"path":"g","start_line":1,"end_line":2}}`,
}

var noiseLines = []string{
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"edit_file","arguments":{"path":"g","old_string":"one","new_string":"two"}}}`,
	`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}`,
	`{"jsonrpc":"2.0","id":3,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
	`{"jsonrpc":"2.0","id":4,"method":"resources/read","params":{"uri":"file:///g"}}`,
	`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
	`[{"jsonrpc":"2.0","id":5,"method":"ping"},{"jsonrpc":"2.0","id":5,"method":"ping"}]`,
}

// change makes noise of a message.
func (n *noise) change(good string) []byte {
	b := []byte(good)
	for range 1 + n.rng.IntN(4) {
		if len(b) < 2 {
			break
		}
		at := n.rng.IntN(len(b))
		switch n.rng.IntN(6) {
		case 0:
			b = b[:at]
		case 1: // a stretch of it once more
			b = slices.Insert(b, at, b[at/2:at]...)
		case 2:
			b = slices.Insert(b, at, bytes.Repeat([]byte("["), 1+n.rng.IntN(2000))...)
		case 3:
			b = slices.Insert(b, at, []byte([]string{"\r\n", "\x00", "\u017f", `"OP":1,`, "1e999", `\ud800`, "\xff\xfe", "-"}[n.rng.IntN(8)])...)
		default:
			b[at] = byte(n.rng.IntN(256))
		}
	}
	return b
}

// requests are of HTTP, with the head changed as well every other time.
func (n *noise) requests(dial func() (net.Conn, error), paths ...string) {
	n.t.Helper()
	for i := range n.each {
		path, good := paths[i%len(paths)], noiseCalls[i%len(noiseCalls)]
		if path == "/mcp" {
			good = noiseLines[i%len(noiseLines)]
		}
		token := n.Agent
		if i%3 == 0 {
			token = "" // then the noise may even be a good call
		}
		head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nConnection: close\r\n", path, n.addr)
		if token != "" {
			head += "Authorization: Bearer " + token + "\r\n"
		}
		body := n.change(good)
		if i%2 == 0 {
			head = string(n.change(head))
		}
		code := n.exchange(dial, append([]byte(fmt.Sprintf("%sContent-Length: %d\r\n\r\n", head, len(body))), body...))
		n.codes[code]++
		open := strings.HasPrefix(path, "/v1/login") || strings.HasPrefix(path, "/v1/pair")
		if code >= "500" && code <= "599" || token == "" && !open && i%2 == 1 && code != "401" {
			n.t.Errorf("%q %q: %s", head, body, code)
		}
	}
}

// exchange sends bytes and gives the status of what comes back, or "closed".
func (n *noise) exchange(dial func() (net.Conn, error), all []byte) string {
	n.t.Helper()
	c, err := soon(dial)
	if err != nil {
		n.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	go func() {
		c.Write(all)
		if half, ok := c.(interface{ CloseWrite() error }); ok {
			half.CloseWrite() // a length that was changed is waited for no longer
		}
	}()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return "closed"
	}
	io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	return strconv.Itoa(resp.StatusCode)
}

// lines goes to the MCP of the socket, past the client's own checks; a connection that is
// given up is made anew.
func (n *noise) lines() {
	n.t.Helper()
	for i := 0; i < n.each; {
		conn, err := net.Dial("unix", n.Socket)
		if err != nil {
			n.t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprintf(conn, "GET /v1/mcp HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: holdpoint-mcp\r\nAuthorization: Bearer %s\r\n\r\n", n.Agent)
		in := bufio.NewReader(conn)
		if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != 101 {
			n.t.Fatalf("upgrade: %v %v", resp, err)
		}
		i += n.say(conn, in, n.each-i)
		conn.Close()
	}
}

// stdin goes through `holdpoint mcp`, as a client's own mistakes would.
func (n *noise) stdin() {
	n.t.Helper()
	for i := 0; i < n.each; {
		cmd := exec.Command(binary, "mcp")
		cmd.Env, cmd.Dir = n.environ(), n.Root
		var errs logBuffer
		cmd.Stderr = &errs
		in, err := cmd.StdinPipe()
		if err != nil {
			n.t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			n.t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			n.t.Fatal(err)
		}
		watch := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
		i += n.say(in, bufio.NewReader(out), n.each-i)
		in.Close()
		io.Copy(io.Discard, out)
		if cmd.Wait(); !watch.Stop() {
			n.t.Errorf("it did not end with its input: %s", &errs)
		}
		if s := errs.String(); strings.Contains(s, "panic") || strings.Contains(s, "goroutine ") {
			n.t.Errorf("it says: %s", s)
		}
	}
}

// say sends at most so many lines on one connection and a ping after them, reads until that
// is answered or the connection ends, and gives how many were sent.
func (n *noise) say(out io.Writer, in *bufio.Reader, most int) (sent int) {
	n.t.Helper()
	var all bytes.Buffer
	fmt.Fprintln(&all, noiseLines[2])
	for ; sent < min(most, 20); sent++ {
		all.Write(bytes.ReplaceAll(n.change(noiseLines[sent%len(noiseLines)]), []byte("\n"), []byte(" ")))
		all.WriteByte('\n')
	}
	all.WriteString(`{"jsonrpc":"2.0","id":"last","method":"ping"}` + "\n")
	go out.Write(all.Bytes())
	for {
		line, err := in.ReadString('\n')
		switch {
		case err != nil:
			n.codes["closed"]++
			return sent
		case strings.Contains(line, `"id":"last"`):
			return sent
		case strings.Contains(line, `"error"`):
			n.codes["error"]++
		default:
			n.codes["result"]++
		}
	}
}

// messages go to the root's subject.
func (n *noise) messages() {
	n.t.Helper()
	for i := range n.each {
		m := &natsgo.Msg{Subject: natsbridge.Subject(n.key, natsbridge.Call), Data: n.change(noiseCalls[i%len(noiseCalls)]),
			Header: natsgo.Header{"Holdpoint-Version": {"1.0"}, "Holdpoint-Method": {"POST"}, "Holdpoint-Path": {"/v1/call"}, "Authorization": {"Bearer " + n.Agent}}}
		if i%3 == 0 {
			delete(m.Header, "Authorization")
		}
		if i%2 == 0 {
			for name, v := range m.Header {
				if n.rng.IntN(3) == 0 {
					m.Header[name] = []string{strings.NewReplacer("\r", "", "\n", "").Replace(string(n.change(v[0])))}
				}
			}
		}
		got, err := n.bus.RequestMsg(m, time.Minute)
		if err != nil {
			n.t.Errorf("%v %q: %v", m.Header, m.Data, err)
			continue
		}
		code := got.Header.Get("Holdpoint-Status")
		n.codes[code]++
		if code >= "500" || i%3 == 0 && code[0] != '4' {
			n.t.Errorf("%v %q: %s", m.Header, m.Data, code)
		}
	}
}
