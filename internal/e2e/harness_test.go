package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zeebo/blake3"

	"holdpoint/internal/apart"
)

// passphrase is the reviewer's in every test.
const passphrase = "only for tests 1"

// binary is built once, with the race detector when the tests have it.
var binary string

func TestMain(m *testing.M) {
	if beTracer() || beReaching() || beWithout() {
		return
	}
	if binary = os.Getenv(apartBinary); binary != "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "holdpoint-e2e")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "holdpoint")
	args := []string{"build", "-ldflags=-s -w", "-o", binary} // the linker is half the wait, and nobody debugs this one
	if raceEnabled {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, "../../cmd/holdpoint")...)
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// apartBinary names, in the environment, the program for a test that runs apart.
const apartBinary = "HOLDPOINT_E2E_APART"

// top is the module's directory, seen from here.
const top = "../../"

// onItsOwn runs the test again in a mount namespace of its own and reports whether it did,
// unless whoever runs the tests has seen to the program and to where they run. An ordinary
// user has one with a user namespace alone; the daemons get his uid back.
func onItsOwn(t *testing.T) bool {
	t.Helper()
	if uid := os.Geteuid(); uid != 0 {
		return apart.Run(t, apartBinary+"="+binary, daemonUser+"="+fmt.Sprintf("--map-user=%d --map-group=%d", uid, os.Getegid()))
	}
	return os.Getenv(apartBinary) == "" && apart.Run(t, apartBinary+"="+binary)
}

// daemonUser says, in the environment of tests that are root in a user namespace alone, whose
// uid daemons get.
const daemonUser = "HOLDPOINT_E2E_USER"

// daemon is one running `holdpoint serve` with its own state and workspace.
type daemon struct {
	t             testing.TB
	Root, State   string
	Socket        string
	Agent         string // token
	env           []string
	args          []string
	bin           string // another build than binary; may be empty
	cmd           *exec.Cmd
	Log           *logBuffer
	reviewerToken string
}

// dirs makes a workspace and a state directory side by side.
func dirs(t testing.TB) (root, state string) {
	base := shortDir(t)
	root, state = filepath.Join(base, "ws"), filepath.Join(base, "state")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	return root, state
}

// shortDir is a directory of a short name, whatever the test is called: a socket's path
// holds 107 bytes.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// start runs a daemon and waits until it is ready. Further arguments go to serve.
func start(t testing.TB, args ...string) *daemon {
	root, state := dirs(t)
	return startOn(t, root, state, nil, args...)
}

// patience is how long an answer may take.
var patience = 90 * time.Second

// startOn runs a daemon on given directories with further environment.
func startOn(t testing.TB, root, state string, env []string, args ...string) *daemon {
	t.Helper()
	d := &daemon{t: t, Root: root, State: state, Socket: filepath.Join(state, "holdpoint.sock"), env: env, args: args}
	d.run()
	t.Cleanup(func() { d.stop(syscall.SIGTERM) })
	return d
}

func (d *daemon) environ() []string {
	return append(append(os.Environ(), "HOLDPOINT_STATE="+d.State, "HOLDPOINT_REVIEW_PASSPHRASE="+passphrase, "HOLDPOINT_SOCKET="+d.Socket,
		"XDG_CONFIG_HOME="+filepath.Join(d.State, "none"), "GORACE=halt_on_error=1"), d.env...)
}

// run starts the process, under wrap when given (such as strace with its arguments).
func (d *daemon) run(wrap ...string) {
	d.t.Helper()
	d.Log = &logBuffer{}
	bin := binary
	if d.bin != "" {
		bin = d.bin
	}
	if back := os.Getenv(daemonUser); back != "" {
		wrap = append(append(wrap, "unshare", "--user"), strings.Fields(back)...)
	}
	argv := append(append(wrap, bin, "serve", "--root", d.Root), d.args...)
	d.cmd = exec.Command(argv[0], argv[1:]...)
	d.cmd.Env, d.cmd.Stdout, d.cmd.Stderr = d.environ(), d.Log, d.Log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.waitReady()
	b, err := os.ReadFile(filepath.Join(d.State, "tokens", "agent"))
	if err != nil {
		d.t.Fatal(err)
	}
	d.Agent, d.reviewerToken = strings.TrimSpace(string(b)), ""
}

// logBuffer may be read while the daemon still writes to it.
type logBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (d *daemon) waitReady() {
	d.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		r, err := d.client().Get("http://holdpoint/readyz")
		if err == nil {
			r.Body.Close()
			if r.StatusCode == 200 {
				return
			}
		}
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.cmd.Process.Pid)); err != nil || bytes.Contains(stat, []byte(") Z ")) {
			break // it ended
		}
	}
	d.stop(syscall.SIGKILL)
	d.t.Fatalf("the daemon did not get ready:\n%s", d.Log)
}

// stop ends the daemon, if it runs, and waits for it.
func (d *daemon) stop(sig syscall.Signal) {
	if d.cmd == nil || d.cmd.ProcessState != nil {
		return
	}
	syscall.Kill(-d.cmd.Process.Pid, sig)
	d.cmd.Wait()
	if strings.Contains(d.Log.String(), "DATA RACE") {
		d.t.Errorf("data race in the daemon:\n%s", d.Log)
	}
}

// restart kills the daemon without warning and starts it again on the same state.
func (d *daemon) restart() {
	d.t.Helper()
	d.stop(syscall.SIGKILL)
	d.run()
}

func (d *daemon) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", d.Socket)
	}}, Timeout: patience}
}

// M is a JSON object.
type M = map[string]any

// http sends one request with a token (may be empty) and gives status and decoded body.
func (d *daemon) http(method, path, token string, body any) (int, M) {
	d.t.Helper()
	code, out, err := d.tryHTTP(method, path, token, body)
	if err != nil {
		d.t.Fatalf("%s %s: %v\n%s", method, path, err, d.Log)
	}
	return code, out
}

func (d *daemon) tryHTTP(method, path, token string, body any) (int, M, error) {
	var in io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		in = strings.NewReader(b)
	default:
		enc, err := json.Marshal(b)
		if err != nil {
			return 0, nil, err
		}
		in = bytes.NewReader(enc)
	}
	req, err := http.NewRequest(method, "http://holdpoint"+path, in)
	if err != nil {
		return 0, nil, err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	r, err := d.client().Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, nil, err
	}
	out := M{}
	if err := json.Unmarshal(raw, &out); err != nil {
		out["raw"] = string(raw)
	}
	return r.StatusCode, out, nil
}

// call sends one operation as the agent.
func (d *daemon) call(op string, args M) M {
	d.t.Helper()
	_, out := d.http("POST", "/v1/call", d.Agent, M{"op": op, "args": args})
	return out
}

// reviewer gives the token of a session opened with the passphrase.
func (d *daemon) reviewer() string {
	d.t.Helper()
	if d.reviewerToken == "" {
		_, out := d.http("POST", "/v1/login", "", M{"passphrase": passphrase})
		d.reviewerToken, _ = out["token"].(string)
		if d.reviewerToken == "" {
			d.t.Fatalf("login: %v", out)
		}
	}
	return d.reviewerToken
}

// approve answers a held reply and gives the reply of the executed call.
func (d *daemon) approve(held M) M {
	d.t.Helper()
	return d.answer(held, "approve", "")
}

func (d *daemon) answer(held M, word, note string) M {
	d.t.Helper()
	id := text(held, "approval", "id")
	_, row := d.http("GET", "/v1/approvals/"+id, d.reviewer(), nil)
	_, out := d.http("POST", "/v1/approvals/"+id+"/answer", d.reviewer(), M{"answer": word, "note": note, "shown_digest": text(row, "card", "shown_digest")})
	reply, _ := out["reply"].(map[string]any)
	if reply == nil {
		return out
	}
	return reply
}

// undo takes a reply back by its credential.
func (d *daemon) undo(reply M) M {
	d.t.Helper()
	_, out := d.http("POST", "/v1/undo", d.Agent, M{"credential": reply["undo_credential"]})
	return out
}

// cli runs the command line against this daemon.
func (d *daemon) cli(args ...string) (code int, stdout, stderr string) {
	d.t.Helper()
	return d.cliIn("", args...)
}

func (d *daemon) cliIn(stdin string, args ...string) (code int, stdout, stderr string) {
	d.t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env, cmd.Stdin = d.environ(), strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		d.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// text digs a string out of nested objects; empty when it is not there.
func text(m M, keys ...string) string {
	var v any = m
	for _, k := range keys {
		o, ok := v.(map[string]any)
		if !ok {
			return ""
		}
		v = o[k]
	}
	s, _ := v.(string)
	return s
}

// code is the error code of a reply or of an error answer.
func code(m M) string { return text(m, "error", "code") }

// must fails unless the reply has the status.
func must(t testing.TB, m M, status string) M {
	t.Helper()
	if text(m, "status") != status {
		t.Fatalf("got status %q (%v), want %q", text(m, "status"), m["error"], status)
	}
	return m
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// digest sums up a tree: names, types, bytes, modes, owners, link texts and extended
// attributes; times and inodes are left out.
func digest(t testing.TB, root string, without ...string) string {
	t.Helper()
	sum, err := sumOf(root, without...)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// sumOf is digest where the test must not be ended.
func sumOf(root string, without ...string) (string, error) {
	h := blake3.New()
	err := filepath.Walk(root, func(p string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		if slices.Contains(without, rel) {
			return fs.SkipDir
		}
		st := info.Sys().(*syscall.Stat_t)
		fmt.Fprintf(h, "%q %v %d %d %d\n", rel, info.Mode(), st.Uid, st.Gid, st.Nlink*b2i(!info.IsDir()))
		for _, x := range xattrs(p) {
			fmt.Fprintf(h, "x %q\n", x)
		}
		switch {
		case info.Mode()&os.ModeSymlink != 0:
			l, err := os.Readlink(p)
			fmt.Fprintf(h, "l %q\n", l)
			return err
		case info.Mode().IsRegular():
			b, err := os.ReadFile(p)
			fmt.Fprintf(h, "f %d\n", len(b))
			h.Write(b)
			return err
		}
		return nil
	})
	return fmt.Sprintf("%x", h.Sum(nil)), err
}

func b2i(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// xattrs lists name=value of a path, sorted by the kernel's order.
func xattrs(p string) []string {
	names := make([]byte, 4096)
	n, err := syscall.Listxattr(p, names)
	if err != nil || n <= 0 {
		return nil
	}
	var out []string
	for _, name := range strings.Split(strings.TrimRight(string(names[:n]), "\x00"), "\x00") {
		v := make([]byte, 4096)
		if k, err := syscall.Getxattr(p, name, v); err == nil {
			out = append(out, name+"="+string(v[:k]))
		}
	}
	return out
}
