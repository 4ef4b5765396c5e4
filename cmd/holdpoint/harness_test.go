package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary is the command itself when asked to be, so that a case can look at a
// real process with a real terminal.
const beMain = "HOLDPOINT_TEST_BE_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(beMain) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// asked is one request as the fake daemon got it.
type asked struct {
	method, path, token, body string
}

// fake is a daemon that speaks the contract with fixed answers, on a socket.
type fake struct {
	t      *testing.T
	dir    string
	socket string
	mux    *http.ServeMux

	mu  sync.Mutex // guards got
	got []asked
}

func newFake(t *testing.T) *fake {
	t.Helper()
	dir, err := os.MkdirTemp("", "hp") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{t: t, dir: dir, socket: filepath.Join(dir, "holdpoint.sock"), mux: http.NewServeMux()}
	l, err := net.Listen("unix", f.socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(f.serve)}
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(l) }()
	t.Cleanup(func() {
		server.Close()
		<-done
		os.RemoveAll(dir)
	})
	f.secret("agent", "agent-secret")
	return f
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	f.mu.Lock()
	f.got = append(f.got, asked{r.Method, r.URL.RequestURI(), strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), string(body)})
	f.mu.Unlock()
	f.mux.ServeHTTP(w, r)
}

// secret writes a token file as the daemon would.
func (f *fake) secret(name, token string) {
	f.t.Helper()
	dir := filepath.Join(f.dir, "tokens")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(token+"\n"), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// answer sets a fixed answer; v is JSON text or a value.
func (f *fake) answer(pattern string, status int, v any) {
	f.mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { send(w, status, v) })
}

func send(w http.ResponseWriter, status int, v any) {
	text, ok := v.(string)
	if !ok {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		text = string(b)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	io.WriteString(w, text)
}

// requests gives what was asked so far.
func (f *fake) requests() []asked {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]asked(nil), f.got...)
}

// last gives the newest request for a path.
func (f *fake) last(path string) asked {
	f.t.Helper()
	list := f.requests()
	for i := len(list) - 1; i >= 0; i-- {
		if strings.HasPrefix(list[i].path, path) {
			return list[i]
		}
	}
	f.t.Fatalf("nothing asked for %s; got %v", path, list)
	return asked{}
}

// ran is how a command line ended.
type ran struct {
	code     int
	out, err string
}

// with is a command line to be run against a fake or none.
type with struct {
	in    string
	env   map[string]string
	tty   bool // both ends are a terminal
	local localEngine
}

func (f *fake) run(args ...string) ran { f.t.Helper(); return f.runWith(with{}, args...) }

func (f *fake) runWith(w with, args ...string) ran {
	f.t.Helper()
	env := map[string]string{"HOLDPOINT_STATE": f.dir}
	for k, v := range w.env {
		env[k] = v
	}
	return runLine(f.t, with{w.in, env, w.tty, w.local}, args...)
}

func runLine(t *testing.T, w with, args ...string) ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var out, errs bytes.Buffer
	a := &app{Streams: Streams{In: strings.NewReader(w.in), Out: &out, Err: &errs, Env: func(k string) string { return w.env[k] }, TTY: w.tty, InTTY: w.tty},
		now: time.Now, local: w.local}
	code := a.execute(ctx, args)
	return ran{code, out.String(), errs.String()}
}

func (r ran) wants(t *testing.T, code int, texts ...string) ran {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d\nout: %s\nerr: %s", r.code, code, r.out, r.err)
	}
	for _, text := range texts {
		if !strings.Contains(r.out+r.err, text) {
			t.Errorf("no %q in\nout: %s\nerr: %s", text, r.out, r.err)
		}
	}
	return r
}

func sameJSON(t *testing.T, got, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatalf("%v in %q", err, got)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	x, _ := json.Marshal(g)
	y, _ := json.Marshal(w)
	if string(x) != string(y) {
		t.Errorf("got %s, want %s", x, y)
	}
}

const heldCall = `{"status":"review","op":"delete_file","decision":{"verdict":"review","reason":"destructive_operation","also":[],"tier":"T4"},
	"effects":[],"effects_executed":false,"approval":{"id":"ap_1","identity":"delete_file:a#blake3:0","title":"Delete 1 file","expires_at":"2099-01-01T00:00:00Z"}}`

const doneDelete = `{"status":"done","op":"delete_file","operation_id":"op_1","effects":[{"path":"a","change":"deleted","before":{"state":"file"},"after":{"state":"absent"}}],
	"effects_executed":true,"undo_credential":{"id":"uc_1","operation_id":"op_1"}}`

const theCard = `{"id":"ap_1","state":"pending","title":"Delete 1 file","op":"delete_file","tier":"T4","lines":["delete a (file, 3 bytes)"],
	"reasons":["destructive_operation"],"diff":"--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-hi\n","undo":"It can be taken back for 30 days.","intent":"clean up",
	"call":{"op":"delete_file","args":{"path":"a"}},"expires_at":"2099-01-01T00:00:00Z","shown_digest":"blake3:abc"}`
