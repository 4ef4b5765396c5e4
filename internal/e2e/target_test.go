//go:build linux

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
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
	served := func(t *testing.T) {
		t.Helper()
		began := time.Now()
		status, _, err := d.tryHTTP("GET", "/v1/status", d.Agent, nil)
		for err != nil && time.Since(began) < 5*time.Second { // the kernel's own queue of a socket may be full for a moment
			time.Sleep(10 * time.Millisecond)
			status, _, err = d.tryHTTP("GET", "/v1/status", d.Agent, nil)
		}
		if status != 200 || time.Since(began) > 5*time.Second {
			t.Errorf("status: %d after %v: %v", status, time.Since(began), err)
		}
	}
	limit := int64(16 << 20)
	if raceEnabled {
		limit = 1 << 30 // the detector keeps shadows of all; the run without it counts
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

// TestConfinement has a folder exchanged with a link to the outside all the time, beside
// every operation. HOLDPOINT_CONFINE_N sets the rounds of each.
func TestConfinement(t *testing.T) {
	t.Parallel()
	rounds := 20
	fmt.Sscan(os.Getenv("HOLDPOINT_CONFINE_N"), &rounds)
	root, state := dirs(t)
	policy := policyFile(t, filepath.Dir(state), M{"id": "p", "workflow_ids": []string{"w"}, "operations": []string{"delete_file", "move_file"}, "roots": []string{root}})
	d := quickOn(t, root, state, "[profiles.bot]\nrequire_approval = false\n", []string{"HOLDPOINT_TRUSTED_AUTOMATION_POLICY_FILE=" + policy})
	bot := d.token(M{"name": "bot", "role": "agent", "workflow": "w", "profile": "bot"})
	in := func(p string) string { return filepath.Join(root, p) }
	out := filepath.Join(filepath.Dir(root), "OUT")
	write(t, in("d/f"), "inside 0\n")
	write(t, in("src"), "inside\n")
	write(t, in("d/s/t/x"), "inside\n")
	write(t, filepath.Join(out, "f"), "outside 0\n")
	write(t, filepath.Join(out, "s/t/x"), "outside\n")
	os.Symlink("../OUT", in("d.other"))
	outside := digest(t, out)
	stop, stopped := make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				exchange(in("d"), in("d.other"))
			}
		}
	}()
	t.Run("S11, S12, S13 (part) no operation reads or writes outside while a folder is swapped for a link", func(t *testing.T) {
		total, done, escapes := 0, 0, 0
		for _, c := range []struct {
			op   string
			args func(i int) M
		}{
			{"view_file", func(int) M { return M{"path": "d/f"} }},
			{"list_directory", func(int) M { return M{"path": "d", "depth": 3} }},
			{"file_tree", func(int) M { return M{"path": "d", "stats": true} }},
			{"search_files", func(int) M { return M{"path": ".", "pattern": "side"} }},
			{"file_info", func(int) M { return M{"path": "d/f"} }},
			{"diff_file", func(int) M { return M{"path": "d/f", "content": "x\n"} }},
			{"edit_file", func(i int) M {
				return M{"path": "d/f", "old_string": "side ", "new_string": fmt.Sprintf("side %d", i%10)}
			}},
			{"write_file", func(i int) M { return M{"path": fmt.Sprintf("d/w%d", i), "content": "x"} }},
			{"create_directory", func(i int) M { return M{"path": fmt.Sprintf("d/c%d/e", i)} }},
			{"copy_file", func(i int) M { return M{"source": "d/f", "destination": fmt.Sprintf("copy%d", i)} }},
			{"copy_file", func(i int) M { return M{"source": "src", "destination": fmt.Sprintf("d/copy%d", i)} }},
			{"move_file", func(i int) M { return M{"source": fmt.Sprintf("copy%d", i), "destination": fmt.Sprintf("d/m%d", i)} }},
			{"delete_file", func(i int) M { return M{"path": fmt.Sprintf("d/c%d", i), "recursive": true} }},
			{"delete_file", func(i int) M { return M{"path": "d/s", "recursive": true} }},
		} {
			for i := range rounds {
				_, r := d.send(bot, M{"op": c.op, "args": c.args(i)})
				total++
				if r["status"] == "done" {
					done++
				}
				if res := fmt.Sprint(r["result"]); strings.Contains(res, "outside") {
					escapes++
					t.Errorf("%s read from outside: %.200s", c.op, res)
				}
				if c.op == "delete_file" && r["status"] == "done" {
					d.http("POST", "/v1/undo", bot, M{"credential": r["undo_credential"]})
				}
				if i%100 == 0 && digest(t, out) != outside {
					t.Fatalf("%s: the outside changed", c.op)
				}
			}
			if digest(t, out) != outside {
				t.Fatalf("%s: the outside changed", c.op)
			}
		}
		t.Logf("%d attempts, %d done, %d escapes", total, done, escapes)
		if done*10 < total {
			t.Errorf("only %d of %d came through", done, total)
		}
	})
	close(stop)
	<-stopped
	t.Run("S11 (part) nothing half-made is left on either side", func(t *testing.T) {
		filepath.Walk(filepath.Dir(root), func(p string, _ os.FileInfo, err error) error {
			if p == state {
				return filepath.SkipDir
			}
			if base := filepath.Base(p); err == nil && (strings.HasPrefix(base, ".") || strings.Contains(base, "tmp") || strings.HasPrefix(base, "op_")) {
				t.Errorf("left over: %s", p)
			}
			return err
		})
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
