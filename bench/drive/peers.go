// Package drive starts Holdpoint and other file servers as their users do and makes the same
// calls of each, so that they can be timed side by side. It judges nothing.
package drive

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Peer is one way to view, edit and look at a file.
type Peer interface {
	Name() string
	View(path string) (bytes int, err error)
	Edit(path, old, new string) error
	Look(path string) error
}

// ErrUnsupported is the answer to a call that a peer does not have.
var ErrUnsupported = errors.New("no such call here")

// Raw is the physical limit: the bare system calls; an edit is a durable replace
// (staged file, fsync, rename, fsync of the directory) without record or undo.
type Raw struct{}

func (Raw) Name() string { return "raw" }

func (Raw) View(path string) (int, error) {
	b, err := os.ReadFile(path)
	return len(b), err
}

func (Raw) Look(path string) error {
	_, err := os.Lstat(path)
	return err
}

func (Raw) Edit(path, old, new string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	f, err := os.Create(path + ".tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(bytes.Replace(b, []byte(old), []byte(new), 1))
	err = errors.Join(err, f.Sync(), f.Close(), os.Rename(path+".tmp", path))
	d, openErr := os.Open(filepath.Dir(path))
	if openErr != nil {
		return openErr
	}
	return errors.Join(err, d.Sync(), d.Close())
}

// Daemon is holdpoint over its socket, as a program would use it.
type Daemon struct {
	cmd          *exec.Cmd
	State, Token string
	http         *http.Client
}

// maxCallers is how many ask one daemon at once, at the most.
const maxCallers = 64

// StartDaemon serves root and returns when it is ready. Further environment wins.
func StartDaemon(binary, root, state string, env ...string) (*Daemon, error) {
	d := &Daemon{State: state}
	d.cmd = exec.Command(binary, "serve", "--root", root, "--state", state)
	d.cmd.Env = append(os.Environ(), "HOLDPOINT_REVIEW_PASSPHRASE=only for benches", "XDG_CONFIG_HOME="+filepath.Join(state, "none"), "HOLDPOINT_STATE=", "HOLDPOINT_SOCKET=")
	d.cmd.Env = append(d.cmd.Env, env...)
	// Each caller keeps its connection, as each of several clients does; the default would close
	// all but two of them after every call.
	d.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: maxCallers, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(state, "holdpoint.sock"))
	}}}
	if r, err := d.http.Get("http://holdpoint/readyz"); err == nil {
		r.Body.Close()
		return nil, errors.New("a daemon serves this state already, and would answer instead: " + state)
	}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if r, err := d.http.Get("http://holdpoint/readyz"); err == nil {
			r.Body.Close()
			b, err := os.ReadFile(filepath.Join(state, "tokens", "agent"))
			d.Token = strings.TrimSpace(string(b))
			return d, err
		}
	}
	d.Stop()
	return nil, errors.New("the daemon did not get ready")
}

func (d *Daemon) Stop() {
	d.cmd.Process.Signal(syscall.SIGTERM)
	d.cmd.Wait()
}

// RSS is the daemon's resident memory in MiB.
func (d *Daemon) RSS() float64 { return d.memory("VmRSS") }

// Own and Program are the two parts of it: what only this process has, and pages of files,
// nearly all of the program itself, which other processes may share.
func (d *Daemon) Own() float64     { return d.memory("RssAnon") }
func (d *Daemon) Program() float64 { return d.memory("RssFile") }

func (d *Daemon) memory(what string) float64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	for _, l := range strings.Split(string(b), "\n") {
		var kb float64
		if n, _ := fmt.Sscanf(l, what+": %f kB", &kb); n == 1 {
			return kb / 1024
		}
	}
	return 0
}

func (d *Daemon) Name() string { return "holdpoint" }

// As is the same daemon, asked with another token.
func (d *Daemon) As(token string) *Daemon {
	other := *d
	other.Token = token
	return &other
}

// Get asks for a route.
func (d *Daemon) Get(route string) ([]byte, error) { return d.request("GET", route, nil) }

// Post sends a body as JSON.
func (d *Daemon) Post(route string, body any) ([]byte, error) {
	enc, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return d.request("POST", route, enc)
}

func (d *Daemon) request(method, route string, body []byte) ([]byte, error) {
	req, err := http.NewRequest(method, "http://holdpoint"+route, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+d.Token)
	req.Header.Set("Content-Type", "application/json")
	r, err := d.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	var b []byte
	if n := r.ContentLength; n >= 0 { // known, so that nothing has to grow
		b = make([]byte, n)
		_, err = io.ReadFull(r.Body, b)
	} else {
		b, err = io.ReadAll(r.Body)
	}
	if err == nil && r.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %d %.300s", route, r.StatusCode, b)
	}
	return b, err
}

func (d *Daemon) Call(op string, args map[string]any) ([]byte, error) {
	return d.Post("/v1/call", map[string]any{"op": op, "args": args})
}

func (d *Daemon) View(path string) (int, error) {
	b, err := d.Call("view_file", map[string]any{"path": path})
	return len(b), err
}

// Nothing is a request that asks for nothing: what the way there and back costs.
func (d *Daemon) Nothing() error {
	r, err := d.http.Get("http://holdpoint/healthz")
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r.Body)
	return errors.Join(err, r.Body.Close())
}

func (d *Daemon) Look(path string) error {
	_, err := d.Post("/v1/preflight", map[string]any{"paths": []string{path}})
	return err
}

func (d *Daemon) Edit(path, old, new string) error {
	_, err := d.Call("edit_file", map[string]any{"path": path, "old_string": old, "new_string": new})
	return err
}

// Stdio is an MCP server over standard input and output, one request at a time.
type Stdio struct {
	label string
	tools Tools
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	id    int
}

// Tools maps our three calls to a server's tools.
type Tools struct {
	view, edit, look string
	editArgs         func(path, old, new string) map[string]any
}

// FSTools are the reference file server's.
var FSTools = Tools{"read_text_file", "edit_file", "get_file_info", func(path, old, new string) map[string]any {
	return map[string]any{"path": path, "edits": []map[string]string{{"oldText": old, "newText": new}}}
}}

// DCTools are desktop-commander's.
var DCTools = Tools{"read_file", "edit_block", "get_file_info", func(path, old, new string) map[string]any {
	return map[string]any{"file_path": path, "old_string": old, "new_string": new}
}}

// CompatTools are the same names served by holdpoint mcp --compat, which shows a file whole.
var CompatTools = FSTools

// StartStdio starts a server and shakes hands with it.
func StartStdio(label string, tools Tools, argv ...string) (*Stdio, error) {
	m := &Stdio{label: label, tools: tools, cmd: exec.Command(argv[0], argv[1:]...)}
	m.cmd.Env = append(os.Environ(), "HOLDPOINT_STATE=", "HOLDPOINT_SOCKET=")
	in, err := m.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	m.in, m.out = in, bufio.NewReaderSize(out, 1<<20)
	if err := m.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := m.Request("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]string{"name": "bench", "version": "1"}}); err != nil {
		m.Stop()
		return nil, err
	}
	fmt.Fprintln(m.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	_, err = m.Request("tools/list", map[string]any{})
	return m, err
}

func (m *Stdio) Stop() {
	m.in.Close()
	m.cmd.Process.Kill()
	m.cmd.Wait()
}

func (m *Stdio) Request(method string, params any) ([]byte, error) {
	m.id++
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": m.id, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	if _, err := m.in.Write(append(b, '\n')); err != nil {
		return nil, err
	}
	for {
		line, err := m.out.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("%s: the server ended: %w", method, err)
		}
		head, tail := line[:min(len(line), 120)], line[max(0, len(line)-120):]
		if bytes.Contains(head, []byte(`"method":`)) {
			continue // a notification
		}
		if bytes.Contains(head, []byte(`"error":{`)) || bytes.Contains(tail, []byte(`"isError":true`)) {
			return nil, fmt.Errorf("%s: %.300s", method, line)
		}
		return line, nil
	}
}

// Flood sends edits and views at once and waits for all answers. took tells how long the
// answer of each edit was away.
func (m *Stdio) Flood(views, edits [][3]string) (took []time.Duration, err error) {
	var all []byte
	add := func(tool string, args map[string]any) {
		m.id++
		b, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": m.id, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": args}})
		all = append(append(all, b...), '\n')
	}
	for _, v := range views {
		add(m.tools.view, map[string]any{"path": v[0]})
	}
	firstEdit := m.id + 1
	for _, e := range edits {
		add(m.tools.edit, m.tools.editArgs(e[0], e[1], e[2]))
	}
	sent, began := make(chan error, 1), time.Now()
	go func() { _, err := m.in.Write(all); sent <- err }()
	for range len(views) + len(edits) {
		line, err := m.out.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		if bytes.Contains(line[max(0, len(line)-120):], []byte(`"isError":true`)) {
			return nil, fmt.Errorf("%.300s", line)
		}
		if idOf(line) >= firstEdit {
			took = append(took, time.Since(began))
		}
	}
	return took, <-sent
}

// idOf reads the id of an answer, which stands first or last in it.
func idOf(line []byte) (id int) {
	for _, part := range [][]byte{line[:min(len(line), 60)], line[max(0, len(line)-60):]} {
		if _, rest, ok := bytes.Cut(part, []byte(`"id":`)); ok {
			if n, _ := fmt.Sscanf(string(rest), "%d", &id); n == 1 {
				return id
			}
		}
	}
	return 0
}

func (m *Stdio) Tool(name string, args map[string]any) ([]byte, error) {
	return m.Request("tools/call", map[string]any{"name": name, "arguments": args})
}

func (m *Stdio) Name() string { return m.label }

func (m *Stdio) View(path string) (int, error) {
	b, err := m.Tool(m.tools.view, map[string]any{"path": path})
	return len(b), err
}

func (m *Stdio) Look(path string) error {
	_, err := m.Tool(m.tools.look, map[string]any{"path": path})
	return err
}

func (m *Stdio) Edit(path, old, new string) error {
	_, err := m.Tool(m.tools.edit, m.tools.editArgs(path, old, new))
	return err
}
