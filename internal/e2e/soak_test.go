//go:build linux

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holdpoint/internal/ports"
)

// TestSoak keeps a daemon busy with everything it can be asked for and looks at what it
// holds each time all is quiet: memory, descriptors, threads. HOLDPOINT_SOAK is how long.
func TestSoak(t *testing.T) {
	t.Parallel()
	length := time.Second
	if s := os.Getenv("HOLDPOINT_SOAK"); s != "" {
		var err error
		if length, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	root, state := dirs(t)
	addr := ports.Addr(t)
	d := &daemon{t: t, Root: root, State: state, Socket: filepath.Join(state, "holdpoint.sock"), args: []string{"--review-auth=token", "--listen", addr}}
	profiles := os.Getenv("HOLDPOINT_SOAK_PROFILES")
	var err error
	if profiles != "" {
		d.bin, err = profiled(profiles)
		d.env = []string{"HOLDPOINT_PROFILES=" + filepath.Join(filepath.Dir(state), "profiles")}
	} else {
		d.bin, err = plain() // the race detector's shadow memory is not the daemon's
	}
	if err != nil {
		t.Fatal(err)
	}
	d.run()
	t.Cleanup(func() { d.stop(15) })
	d.operator()
	s := &soak{daemon: d, addr: addr, profiles: profiles}
	t.Run("memory and descriptors stay flat while everything is asked for again and again", func(t *testing.T) {
		s.over(t, length)
	})
}

// soak is the load, and what was seen of the daemon under it.
type soak struct {
	*daemon
	addr  string
	calls atomic.Int64
	busy  atomic.Int64 // calls that had to be made again
	seen  []quiet

	profiles string // where to keep what its memory holds; may be empty
}

// quiet is what the daemon held at a moment when nothing was asked of it.
type quiet struct {
	at                   time.Duration
	calls                int64
	memory               int64
	descriptors, threads int
	journal, store       int64
}

// over alternates load and silence; in silence it looks.
func (s *soak) over(t *testing.T, length time.Duration) {
	rounds := 20
	if length < time.Minute {
		rounds = 5
	}
	workers := []func(*soakWorker) error{soakEdits, soakHeld, soakReads, soakBridges}
	crew := make([]*soakWorker, len(workers))
	for i := range crew {
		crew[i] = &soakWorker{soak: s, dir: fmt.Sprintf("w%d", i), token: s.token(M{"name": fmt.Sprintf("soak%d", i), "role": "agent"})}
		write(t, filepath.Join(s.Root, crew[i].dir, "f"), "line 0\nline 1\nline 2\n")
		for n := range 20 {
			write(t, filepath.Join(s.Root, crew[i].dir, "tree", fmt.Sprint(n)), strings.Repeat("some text\n", 100))
		}
	}
	began := time.Now()
	for range rounds + 1 {
		end := time.Now().Add(length / time.Duration(rounds))
		var all sync.WaitGroup
		for i, work := range workers {
			all.Add(1)
			go func() {
				defer all.Done()
				for w := crew[i]; w.failed == nil && (time.Now().Before(end) || w.rounds == 0); w.rounds++ {
					w.failed = work(w)
				}
			}()
		}
		all.Wait()
		for i, w := range crew {
			if w.failed != nil {
				t.Fatalf("worker %d in round %d: %v", i, w.rounds, w.failed)
			}
		}
		s.seen = append(s.seen, s.look(time.Since(began)))
		if err := s.keepProfiles(); err != nil {
			t.Error(err)
		}
		if length >= time.Minute {
			q := s.seen[len(s.seen)-1]
			t.Logf("after %v: %d calls, %.1f MiB, %d descriptors, %d threads", q.at.Round(time.Second), q.calls, float64(q.memory)/(1<<20), q.descriptors, q.threads)
		}
	}
	t.Logf("soak:\n%s%d calls were busy and made again", s.table(), s.busy.Load())
	s.flat(t)
	if code, out, errs := s.cli("verify"); code != 0 {
		t.Errorf("verify: %d %s%s", code, out, errs)
	}
}

// flat compares the last quarter with the second one.
func (s *soak) flat(t *testing.T) {
	n := len(s.seen)
	early, late := s.seen[n/4:n/2], s.seen[n-n/4:]
	middle := func(of []quiet, what func(quiet) int64) int64 {
		var all []int64
		for _, q := range of {
			all = append(all, what(q))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	memory := func(q quiet) int64 { return q.memory }
	more := func(a int64) int64 { return a/5 + 8<<20 }
	if s.seen[n-1].at > 10*time.Minute { // by then what is made once has been made
		more = func(a int64) int64 { return a/10 + 4<<20 }
	}
	if a, b := middle(early, memory), middle(late, memory); b > a+more(a) {
		t.Errorf("memory grew from %d to %d MiB", a>>20, b>>20)
	}
	open := func(q quiet) int64 { return int64(q.descriptors) }
	if a, b := middle(early, open), middle(late, open); b > a+2 {
		t.Errorf("descriptors grew from %d to %d", a, b)
	}
	threads := func(q quiet) int64 { return int64(q.threads) }
	if a, b := middle(early, threads), middle(late, threads); b > a+8 {
		t.Errorf("threads grew from %d to %d", a, b)
	}
}

// look waits until the connections of the load are gone, for a while, and counts.
func (s *soak) look(at time.Duration) quiet {
	proc := fmt.Sprintf("/proc/%d/", s.cmd.Process.Pid)
	q := quiet{at: at, calls: s.calls.Load(), descriptors: 1 << 30}
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		list, _ := os.ReadDir(proc + "fd")
		q.descriptors = min(q.descriptors, len(list))
		if s.seen != nil && q.descriptors <= s.seen[0].descriptors {
			break
		}
	}
	list, _ := os.ReadDir(proc + "task")
	q.threads, q.memory = len(list), s.rss()
	filepath.Walk(s.State, func(p string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			if strings.HasPrefix(info.Name(), "journal.db") {
				q.journal += info.Size()
			} else {
				q.store += info.Size()
			}
		}
		return nil
	})
	return q
}

// profiled builds the daemon that tells what its memory holds.
func profiled(dir string) (string, error) {
	bin := filepath.Join(dir, "holdpoint")
	if out, err := exec.Command("go", "build", "-tags", "profiled", "-o", bin, "../../cmd/holdpoint").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %v\n%s", err, out)
	}
	return bin, nil
}

// keepProfiles writes down what the heap held at this quiet moment, by who allocated it, what
// the runtime and the kernel say of the whole, and what every goroutine waits for.
func (s *soak) keepProfiles() error {
	if s.profiles == "" {
		return nil
	}
	c := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(s.env[0], "HOLDPOINT_PROFILES="))
	}}}
	keep := func(name string, r io.Reader) error {
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(s.profiles, fmt.Sprintf("%02d.%s", len(s.seen), name)), b, 0o644)
	}
	for name, path := range map[string]string{"heap": "heap", "memory": "heap?debug=1", "goroutines": "goroutine?debug=1"} {
		r, err := c.Get("http://profiles/debug/pprof/" + path)
		if err != nil {
			return err
		}
		err = keep(name, r.Body)
		r.Body.Close()
		if err != nil {
			return err
		}
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps", s.cmd.Process.Pid))
	if err != nil {
		return err
	}
	defer f.Close()
	return keep("smaps", f)
}

func (s *soak) table() string {
	var out strings.Builder
	tab := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "after\tcalls\tmemory MiB\tdescriptors\tthreads\tjournal MiB\tother state MiB")
	for i, q := range s.seen {
		if i%2 == 1 || len(s.seen) < 10 {
			fmt.Fprintf(tab, "%v\t%d\t%.1f\t%d\t%d\t%.1f\t%.1f\n", q.at.Round(time.Second), q.calls, float64(q.memory)/(1<<20), q.descriptors, q.threads, float64(q.journal)/(1<<20), float64(q.store)/(1<<20))
		}
	}
	tab.Flush()
	return out.String()
}

// soakWorker asks for one kind of thing, below a directory of its own.
type soakWorker struct {
	*soak
	dir, token string
	rounds     int
	failed     error
}

// ask sends one request; want is the status of its reply, or the code of its error. What is
// busy is asked for again: a program that the daemon starts holds copies of its descriptors
// for the moment until it runs, and a file that was just written looks open then.
func (w *soakWorker) ask(want, method, path, token string, body any) (M, error) {
	w.calls.Add(1)
	status, r, err := w.tryHTTP(method, path, token, body)
	for n := 0; n < 5 && err == nil && code(r) == "busy_writer"; n++ {
		w.busy.Add(1)
		time.Sleep(50 * time.Millisecond)
		status, r, err = w.tryHTTP(method, path, token, body)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %v: %w", path, body, err)
	}
	got := text(r, "status")
	if c := code(r); c != "" {
		got = c
	}
	if want == "" && status == 200 {
		return r, nil
	}
	if got != want {
		return nil, fmt.Errorf("%s %v: %d %q %v, want %q", path, body, status, got, r["error"], want)
	}
	return r, nil
}

func (w *soakWorker) op(want, name string, args M) (M, error) {
	return w.ask(want, "POST", "/v1/call", w.token, M{"op": name, "args": args})
}

func (w *soakWorker) back(r M) (M, error) {
	return w.ask("done", "POST", "/v1/undo", w.token, M{"credential": r["undo_credential"]})
}

// say answers a held call and gives the reply of what it released.
func (w *soakWorker) say(held M, word string) (M, error) {
	at := "/v1/approvals/" + text(held, "approval", "id")
	row, err := w.ask("", "GET", at, w.reviewerToken, nil)
	if err != nil {
		return nil, err
	}
	out, err := w.ask("", "POST", at+"/answer", w.reviewerToken, M{"answer": word, "note": "", "shown_digest": text(row, "card", "shown_digest")})
	if err != nil || word == "reject" {
		return nil, err
	}
	reply := object(out["reply"])
	if text(reply, "status") != "done" {
		return nil, fmt.Errorf("released: %v", out)
	}
	return reply, nil
}

// allOf runs steps until one fails.
func allOf(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// soakEdits changes a file in several ways, takes all back, and is refused now and then.
func soakEdits(w *soakWorker) error {
	f := w.dir + "/f"
	var last M
	change := func(name string, args M) func() error {
		return func() (err error) { last, err = w.op("done", name, args); return err }
	}
	undo := func() error { _, err := w.back(last); return err }
	return allOf(
		change("edit_file", M{"path": f, "old_string": "line 1\n", "new_string": fmt.Sprintf("line 1 of %d\n", w.rounds)}), undo,
		change("write_file", M{"path": w.dir + "/new/a/b", "content": fmt.Sprint(w.rounds)}), undo,
		change("copy_file", M{"source": f, "destination": w.dir + "/g"}), undo,
		change("backup_file", M{"path": f}),
		func() error {
			_, err := w.op("no_match", "edit_file", M{"path": f, "old_string": "nowhere", "new_string": "x"})
			return err
		},
		func() error { _, err := w.back(M{"undo_credential": M{"id": "none"}}); return expectAny(err) },
		func() error { _, err := w.op("outside_workspace", "view_file", M{"path": "../x"}); return err },
	)
}

// expectAny takes an answer that is an error for one.
func expectAny(err error) error {
	if err == nil {
		return fmt.Errorf("an undo with no credential was done")
	}
	return nil
}

// soakHeld has calls held, answered both ways, withdrawn and taken back; and a program run.
func soakHeld(w *soakWorker) error {
	for _, c := range []struct {
		op   string
		args M
		word string
	}{
		{"delete_file", M{"path": w.dir + "/tree", "recursive": true}, "approve"},
		{"move_file", M{"source": w.dir + "/f", "destination": w.dir + "/moved"}, "approve"},
		{"batch_file_ops", M{"operations": []any{item("write_file", M{"path": w.dir + "/x", "content": "x"}), item("delete_file", M{"path": w.dir + "/f"})}}, "approve"},
		{"delete_file", M{"path": w.dir + "/f"}, "reject"},
		{"workspace_shell", M{"command": "true"}, "approve"},
		{"delete_file", M{"path": w.dir + "/f"}, "cancel"},
	} {
		held, err := w.op("review", c.op, c.args)
		if err != nil {
			return err
		}
		if c.word == "cancel" {
			if _, err := w.ask("", "POST", "/v1/approvals/"+text(held, "approval", "id")+"/cancel", w.token, M{}); err != nil {
				return err
			}
			continue
		}
		reply, err := w.say(held, c.word)
		if err != nil {
			return fmt.Errorf("%s: %w", c.op, err)
		}
		if reply != nil && reply["undo_credential"] != nil {
			if _, err := w.back(reply); err != nil {
				return err
			}
		}
	}
	return nil
}

// soakReads looks at things in every way.
func soakReads(w *soakWorker) error {
	for name, args := range map[string]M{
		"view_file": {"path": w.dir + "/f"}, "list_directory": {"path": ".", "depth": 3}, "file_tree": {"path": ".", "stats": true}, "search_files": {"path": ".", "pattern": "text"},
		"file_info": {"path": w.dir + "/f"}, "diff_file": {"path": w.dir + "/f", "content": "x\n"}, "detect_tests": {}, "list_backups": {},
	} {
		if _, err := w.op("done", name, args); err != nil {
			return err
		}
	}
	// By pages: a list of all cards that ever were is longer with each round of this test.
	for _, path := range []string{"/v1/operations?limit=20", "/v1/status", "/v1/approvals?state=pending", "/v1/approvals?limit=100"} {
		if _, err := w.ask("", "GET", path, w.reviewerToken, nil); err != nil {
			return err
		}
	}
	return nil
}

// soakBridges comes and goes: an MCP session, a stream of events that is cut, noise.
func soakBridges(w *soakWorker) error {
	w.calls.Add(4)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", "http://holdpoint/v1/events", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+w.token)
	if r, err := w.client().Do(req); err == nil {
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	over := &http.Transport{}
	defer over.CloseIdleConnections()
	for _, body := range []string{"{", `{"jsonrpc":"2.0","id":1,"method":"none"}`} {
		req, _ := http.NewRequest("POST", "http://"+w.addr+"/mcp", strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+w.token)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		r, err := (&http.Client{Transport: over, Timeout: 30 * time.Second}).Do(req)
		if err != nil {
			return err
		}
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	c, err := w.session(over)
	if err != nil {
		return err
	}
	defer c.Close()
	r, err := (&mcpTools{c, w.t, nil}).try("view_file", M{"path": w.dir + "/f"})
	if err != nil {
		return err
	}
	if r.IsError {
		return fmt.Errorf("view_file over MCP: %s", r.Text)
	}
	return nil
}

// session opens an MCP session of the worker's.
func (w *soakWorker) session(over *http.Transport) (*sdk.ClientSession, error) {
	return connectTo(&sdk.StreamableClientTransport{Endpoint: "http://" + w.addr + "/mcp", MaxRetries: -1, HTTPClient: &http.Client{Transport: mcpBearer{w.token, over}}}, mcpVersions[1], nil)
}
