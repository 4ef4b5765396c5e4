//go:build linux

package e2e

import (
	"bufio"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTarget has the daemon itself for a target: crowds, slow and huge requests, noise.
func TestTarget(t *testing.T) {
	t.Parallel()
	d, addr := listening(t)
	write(t, filepath.Join(d.Root, "f"), "one\n")
	before, start := digest(t, d.Root), d.rss()
	dials := map[string]func() (net.Conn, error){
		"socket": func() (net.Conn, error) { return net.Dial("unix", d.Socket) },
		"http":   func() (net.Conn, error) { return net.Dial("tcp", addr) },
	}
	limit, soonest := int64(16<<20), 5*time.Second
	if raceEnabled {
		limit, soonest = 1<<30, time.Minute // the detector keeps shadows of all and takes its time; the run without it counts
	}
	served := func(t *testing.T) {
		t.Helper()
		began := time.Now()
		status, _, err := d.tryHTTP("GET", "/v1/status", d.Agent, nil)
		for err != nil && time.Since(began) < soonest { // the kernel's own queue of a socket may be full for a moment
			time.Sleep(10 * time.Millisecond)
			status, _, err = d.tryHTTP("GET", "/v1/status", d.Agent, nil)
		}
		if status != 200 || time.Since(began) > soonest {
			t.Errorf("status: %d after %v: %v", status, time.Since(began), err)
		}
	}
	var open []net.Conn // together 10,000
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	for bridge, dial := range dials {
		t.Run("S78 5,000 silent connections on the "+bridge+", then a slow header and a long line, hold nobody up and cost no memory", func(t *testing.T) {
			refused := 0
			for range 5000 {
				c, err := dial()
				if err != nil {
					refused++
					continue
				}
				open = append(open, c)
			}
			served(t)
			if now := d.rss(); now > start+limit {
				t.Errorf("memory grew by %d MiB", (now-start)>>20)
			}
			t.Logf("%d open, %d refused, memory %+d MiB", len(open), refused, (d.rss()-start)>>20)
			slow, err := soon(dial)
			if err != nil {
				t.Fatal(err)
			}
			defer slow.Close()
			go func() {
				for _, b := range []byte("POST /v1/call HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 1000)) {
					if _, err := slow.Write([]byte{b}); err != nil {
						return
					}
					time.Sleep(time.Second)
				}
			}()
			long, err := soon(dial)
			if err != nil {
				t.Fatal(err)
			}
			defer long.Close()
			go io.Copy(long, io.LimitReader(zeros{}, 64<<20))
			long.SetReadDeadline(time.Now().Add(15 * time.Second))
			if line, err := bufio.NewReader(long).ReadString('\n'); err == nil && !strings.Contains(line, " 4") {
				t.Errorf("the long line: %q", line)
			}
			served(t)
		})
	}
	t.Run("S73 (part), S78 (part) noise on every bridge: no effect, no crash, and without a token nothing but 401", func(t *testing.T) {
		seed := uint64(time.Now().UnixNano())
		r := rand.New(rand.NewPCG(seed, 1))
		good := []string{`{"op":"edit_file","args":{"path":"f","old_string":"one","new_string":"two"}}`,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"edit_file","arguments":{"path":"f","old_string":"one","new_string":"two"}}}`}
		codes := map[int]int{}
		client := &http.Client{Timeout: 20 * time.Second}
		for i := range 300 {
			path := []string{"/v1/call", "/mcp", "/v1/preflight", "/v1/undo", "/v1/approvals/x/answer", "/v1/tokens"}[i%6]
			body := []byte(good[(i%6)&1])
			for range 1 + r.IntN(4) {
				body[r.IntN(len(body))] = byte(r.IntN(256))
			}
			if i%7 == 0 {
				body = body[:r.IntN(len(body))]
			}
			// Without a token the noise may even be a good call.
			token := d.Agent
			if i%3 == 0 {
				token = ""
			}
			if token != "" { // a changed byte may leave a good edit: aim it at nothing
				body = []byte(strings.Replace(string(body), `"f"`, `"g"`, 1))
			}
			req, _ := http.NewRequest("POST", "http://"+addr+path, strings.NewReader(string(body)))
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			if token != "" {
				req.Header.Set("Authorization", "Bearer "+token)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, d.Log)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			codes[resp.StatusCode]++
			if resp.StatusCode >= 500 || token == "" && resp.StatusCode != 401 {
				t.Errorf("seed %d: %s %q: %d", seed, path, body, resp.StatusCode)
			}
		}
		t.Logf("seed %d: answers %v", seed, codes)
		served(t)
		if digest(t, d.Root) != before {
			t.Errorf("seed %d: something was changed", seed)
		}
		if strings.Contains(d.Log.String(), "panic") {
			t.Errorf("seed %d: %s", seed, d.Log)
		}
	})
}

// soon dials until it is let in, for a few seconds.
func soon(dial func() (net.Conn, error)) (c net.Conn, err error) {
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if c, err = dial(); err == nil {
			return c, nil
		}
	}
	return nil, err
}
