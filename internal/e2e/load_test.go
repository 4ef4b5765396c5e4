package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"holdpoint/internal/ports"
)

const loadClients = 64

// loadTimes collects how long calls of each kind took.
type loadTimes struct {
	mu   sync.Mutex
	took map[string][]time.Duration
}

func (l *loadTimes) time(kind string, do func() error) error {
	began := time.Now()
	err := do()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took[kind] = append(l.took[kind], time.Since(began))
	return err
}

// print gives one line a kind: how many, the median and the tail.
func (l *loadTimes) print(t *testing.T, over time.Duration) {
	all := 0
	for _, kind := range slices.Sorted(func(yield func(string) bool) {
		for k := range l.took {
			if !yield(k) {
				return
			}
		}
	}) {
		d := l.took[kind]
		slices.Sort(d)
		at := func(p float64) time.Duration {
			return d[min(len(d)-1, int(p*float64(len(d))))].Round(10 * time.Microsecond)
		}
		t.Logf("load: %-22s %7d calls  p50 %9v  p99 %9v  p99.9 %9v  max %9v", kind, len(d), at(.5), at(.99), at(.999), d[len(d)-1].Round(10*time.Microsecond))
		all += len(d)
	}
	t.Logf("load: %d clients, %d calls in %v, %.0f a second", loadClients, all, over.Round(time.Millisecond), float64(all)/over.Seconds())
}

// loadClient is one agent at work, over either way in.
type loadClient struct {
	way  string
	call func(op string, args M) (M, error) // an answer with status, approval_id and undo where it has them
}

// TestLoad has 64 agents at work at once, half over HTTP and half over MCP, with a person who
// answers what is held. HOLDPOINT_LOAD=60s is what make load runs.
func TestLoad(t *testing.T) {
	t.Parallel()
	addr := ports.Addr(t)
	d := quick(t, "", "--listen", addr)
	length := 3 * time.Second
	if v := os.Getenv("HOLDPOINT_LOAD"); v != "" {
		var err error
		if length, err = time.ParseDuration(v); err != nil {
			t.Fatal(err)
		}
	}
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: loadClients}}
	send := func(token, path string, body M) (M, error) {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+addr+path, bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		r, err := web.Do(req)
		if err != nil {
			return nil, err
		}
		defer r.Body.Close()
		out := M{}
		raw, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(raw, &out)
		}
		return out, err
	}
	clients := make([]loadClient, loadClients)
	for i := range clients {
		if i%2 == 0 {
			clients[i] = loadClient{"http", func(op string, args M) (M, error) {
				out, err := send(d.Agent, "/v1/call", M{"op": op, "args": args})
				return M{"status": out["status"], "approval_id": text(out, "approval", "id"), "undo": out["operation_id"], "all": out}, err
			}}
			continue
		}
		c := d.overHTTP(addr, d.Agent, mcpVersions[i%len(mcpVersions)], nil)
		clients[i] = loadClient{"mcp", func(op string, args M) (M, error) {
			r, err := c.try(op, args)
			if err != nil {
				return nil, err
			}
			return M{"status": r.Facts["status"], "approval_id": r.Facts["approval_id"], "undo": r.Facts["undo"], "all": r.Text}, nil
		}}
	}
	person := d.newToken(d.reviewer(), "reviewer", "person") // the operator's own is good on the socket alone
	answer := func(id any) error {
		at := fmt.Sprint("/v1/approvals/", id)
		req, _ := http.NewRequestWithContext(t.Context(), "GET", "http://"+addr+at, nil)
		req.Header.Set("Authorization", "Bearer "+person)
		r, err := web.Do(req)
		if err != nil {
			return err
		}
		defer r.Body.Close()
		row := M{}
		if err := json.NewDecoder(r.Body).Decode(&row); err != nil {
			return err
		}
		out, err := send(person, at+"/answer", M{"answer": "approve", "shown_digest": text(row, "card", "shown_digest")})
		if err == nil && text(out, "state") != "executed" {
			err = fmt.Errorf("answered, and got %v", out)
		}
		return err
	}
	times := &loadTimes{took: map[string][]time.Duration{}}
	// turn is what one agent does again and again: make, read, change, look, search, and every
	// fourth time delete, which a person releases.
	turn := func(c loadClient, i, n int) error {
		file := fmt.Sprintf("agent%d/%d.txt", i, n)
		do := func(op string, args M, want string) (out M, err error) {
			err = times.time(c.way+" "+op, func() (err error) { out, err = c.call(op, args); return err })
			if err == nil && out["status"] != want {
				err = fmt.Errorf("%s: got %v, want %s", op, out, want)
			}
			return out, err
		}
		for _, s := range []struct {
			op   string
			args M
		}{
			{"write_file", M{"path": file, "content": fmt.Sprintf("one %d\ntwo\n", n)}}, {"view_file", M{"path": file}},
			{"edit_file", M{"path": file, "old_string": "two", "new_string": "three"}}, {"list_directory", M{"path": fmt.Sprintf("agent%d", i)}},
			{"search_files", M{"path": fmt.Sprintf("agent%d", i), "pattern": fmt.Sprintf("one %d$", n)}},
		} {
			if _, err := do(s.op, s.args, "done"); err != nil {
				return err
			}
		}
		if n%4 != 0 {
			return nil
		}
		held, err := do("delete_file", M{"path": file}, "review")
		if err == nil {
			err = times.time("an answer that runs it", func() error { return answer(held["approval_id"]) })
		}
		return err
	}
	failed := make([]error, loadClients)
	began := time.Now()
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for n := 0; failed[i] == nil && (n == 0 || time.Since(began) < length); n++ {
				failed[i] = turn(c, i, n)
			}
		}()
	}
	wg.Wait()
	times.print(t, time.Since(began))
	t.Run("64 clients mixed over HTTP and MCP, with a person who answers: no error", func(t *testing.T) {
		for i, err := range failed {
			if err != nil {
				t.Errorf("client %d (%s): %v", i, clients[i].way, err)
			}
		}
		if d.has("agent0/0.txt") {
			t.Error("a released delete did not happen")
		}
	})
}
