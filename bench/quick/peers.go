package main

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

// rawPeer is the physical limit: the bare system calls; an edit is a durable replace
// (staged file, fsync, rename, fsync of the directory) without record or undo.
type rawPeer struct{}

func (rawPeer) name() string { return "raw" }

func (rawPeer) view(path string) (int, error) {
	b, err := os.ReadFile(path)
	return len(b), err
}

func (rawPeer) look(path string) error {
	_, err := os.Lstat(path)
	return err
}

func (rawPeer) edit(path, old, new string) error {
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

// daemon is holdpoint over its socket, as a program would use it.
type daemon struct {
	cmd          *exec.Cmd
	state, token string
	root         string
	http         *http.Client
}

func startDaemon(binary, root, state string) (*daemon, error) {
	d := &daemon{state: state, root: root}
	d.cmd = exec.Command(binary, "serve", "--root", root, "--state", state)
	d.cmd.Env = append(os.Environ(), "HOLDPOINT_REVIEW_PASSPHRASE=only for benches", "XDG_CONFIG_HOME="+filepath.Join(state, "none"), "HOLDPOINT_STATE=", "HOLDPOINT_SOCKET=")
	d.http = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(state, "holdpoint.sock"))
	}}}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if r, err := d.http.Get("http://holdpoint/readyz"); err == nil {
			r.Body.Close()
			b, err := os.ReadFile(filepath.Join(state, "tokens", "agent"))
			d.token = strings.TrimSpace(string(b))
			return d, err
		}
	}
	d.stop()
	return nil, errors.New("the daemon did not get ready")
}

func (d *daemon) stop() {
	d.cmd.Process.Signal(syscall.SIGTERM)
	d.cmd.Wait()
}

// rss is the daemon's resident memory in MiB.
func (d *daemon) rss() float64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	for _, l := range strings.Split(string(b), "\n") {
		var kb float64
		if n, _ := fmt.Sscanf(l, "VmRSS: %f kB", &kb); n == 1 {
			return kb / 1024
		}
	}
	return 0
}

func (d *daemon) name() string { return "holdpoint" }

func (d *daemon) post(route string, body any) ([]byte, error) {
	enc, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequest("POST", "http://holdpoint"+route, bytes.NewReader(enc))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+d.token)
	req.Header.Set("Content-Type", "application/json")
	r, err := d.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != 200 {
		err = fmt.Errorf("%s: %d %.300s", route, r.StatusCode, b)
	}
	return b, err
}

func (d *daemon) call(op string, args map[string]any) ([]byte, error) {
	return d.post("/v1/call", map[string]any{"op": op, "args": args})
}

func (d *daemon) view(path string) (int, error) {
	b, err := d.call("view_file", map[string]any{"path": path})
	return len(b), err
}

// nothing is a request that asks for nothing: what the way there and back costs.
func (d *daemon) nothing() error {
	r, err := d.http.Get("http://holdpoint/healthz")
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r.Body)
	return errors.Join(err, r.Body.Close())
}

func (d *daemon) look(path string) error {
	_, err := d.post("/v1/preflight", map[string]any{"paths": []string{path}})
	return err
}

func (d *daemon) edit(path, old, new string) error {
	_, err := d.call("edit_file", map[string]any{"path": path, "old_string": old, "new_string": new})
	return err
}

// stdio is an MCP server over standard input and output, one request at a time.
type stdio struct {
	label string
	tools toolNames
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	id    int
}

// toolNames maps our three calls to a server's tools.
type toolNames struct {
	view, edit, look string
	editArgs         func(path, old, new string) map[string]any
}

var fsTools = toolNames{"read_text_file", "edit_file", "get_file_info", func(path, old, new string) map[string]any {
	return map[string]any{"path": path, "edits": []map[string]string{{"oldText": old, "newText": new}}}
}}

// compatTools are the same names served by holdpoint mcp --compat, which shows a file whole.
var compatTools = fsTools

func startStdio(label string, tools toolNames, argv ...string) (*stdio, error) {
	m := &stdio{label: label, tools: tools, cmd: exec.Command(argv[0], argv[1:]...)}
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
	if _, err := m.request("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]string{"name": "bench", "version": "1"}}); err != nil {
		m.stop()
		return nil, err
	}
	fmt.Fprintln(m.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	_, err = m.request("tools/list", map[string]any{})
	return m, err
}

func (m *stdio) stop() {
	m.in.Close()
	m.cmd.Process.Kill()
	m.cmd.Wait()
}

func (m *stdio) request(method string, params any) ([]byte, error) {
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

func (m *stdio) tool(name string, args map[string]any) ([]byte, error) {
	return m.request("tools/call", map[string]any{"name": name, "arguments": args})
}

func (m *stdio) name() string { return m.label }

func (m *stdio) view(path string) (int, error) {
	b, err := m.tool(m.tools.view, map[string]any{"path": path})
	return len(b), err
}

func (m *stdio) look(path string) error {
	_, err := m.tool(m.tools.look, map[string]any{"path": path})
	return err
}

func (m *stdio) edit(path, old, new string) error {
	_, err := m.tool(m.tools.edit, m.tools.editArgs(path, old, new))
	return err
}
