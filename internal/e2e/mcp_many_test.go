package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpUser is a user without any daemon: a home, and daemons that start by themselves.
type mcpUser struct {
	t    *testing.T
	home string
}

func mcpAlone(t *testing.T) *mcpUser {
	// Short: the sockets lie below it.
	home, err := os.MkdirTemp("", "hp")
	if err != nil {
		t.Fatal(err)
	}
	a := &mcpUser{t, home}
	t.Cleanup(func() {
		for _, pid := range a.daemons() {
			syscall.Kill(pid, syscall.SIGTERM)
		}
		for end := time.Now().Add(time.Minute); len(a.daemons()) > 0 && time.Now().Before(end); {
			time.Sleep(20 * time.Millisecond)
		}
		os.RemoveAll(home)
	})
	return a
}

func (a *mcpUser) environ(more ...string) []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "HOLDPOINT_") && !strings.HasPrefix(v, "XDG_") && !strings.HasPrefix(v, "HOME=") {
			env = append(env, v)
		}
	}
	return append(append(env, "HOME="+a.home, "XDG_RUNTIME_DIR="+a.home+"/run", "GORACE=halt_on_error=1"), more...)
}

// daemons finds the daemons of this user by what their command line names.
func (a *mcpUser) daemons() (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		line, _ := os.ReadFile(dir + "/cmdline")
		if bytes.Contains(line, []byte("\x00serve\x00")) && bytes.Contains(line, []byte(a.home+"/")) {
			var pid int
			fmt.Sscan(filepath.Base(dir), &pid)
			pids = append(pids, pid)
		}
	}
	return pids
}

func (a *mcpUser) repo(name string) string {
	dir := filepath.Join(a.home, name)
	write(a.t, filepath.Join(dir, "a.txt"), name+"\n")
	return dir
}

func (a *mcpUser) client(dir string, env ...string) (*mcpTools, error) {
	cmd := exec.Command(binary, "mcp", "--root", dir)
	cmd.Env, cmd.Dir = a.environ(env...), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	c, err := connectTo(&sdk.CommandTransport{Command: cmd, TerminateDuration: 2 * time.Second}, "2025-11-25", nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, errs.String())
	}
	a.t.Cleanup(func() { c.Close() })
	return &mcpTools{c, a.t, cmd}, nil
}

// terminal runs a command as the person would, in a directory.
func (a *mcpUser) terminal(dir string, args ...string) (int, string) {
	cmd := exec.Command(binary, args...)
	cmd.Env, cmd.Dir = a.environ("HOLDPOINT_REVIEW_PASSPHRASE="+passphrase), dir
	out, _ := cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), string(out)
}

func TestMCPMany(t *testing.T) {
	a := mcpAlone(t)
	if code, out := a.terminal(a.home, "init", "claude"); code != 0 { // sets the reviewer once
		t.Fatalf("init: %d %s", code, out)
	}
	var repos []string
	for i := range 5 {
		repos = append(repos, a.repo(fmt.Sprintf("repo%d", i)))
	}
	clients := make([]*mcpTools, 20)
	t.Run("twenty processes over five repositories start at once and work", func(t *testing.T) {
		began := time.Now()
		var wg sync.WaitGroup
		for i := range clients {
			wg.Go(func() {
				c, err := a.client(repos[i%5])
				if err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
				clients[i] = c
				name := fmt.Sprintf("by%d.txt", i)
				if r, err := c.try("write_file", M{"path": name, "content": name}); err != nil || r.Facts["status"] != "done" {
					t.Errorf("client %d: %v %v", i, r.Facts, err)
				}
				if r, err := c.try("view_file", M{"path": "a.txt"}); err != nil || r.Text != filepath.Base(repos[i%5])+"\n" {
					t.Errorf("client %d sees %q %v", i, r.Text, err)
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			t.FailNow()
		}
		if n := len(a.daemons()); n != 5 {
			t.Fatalf("%d daemons for five repositories", n)
		}
		t.Logf("twenty clients were at work after %v", time.Since(began).Round(time.Millisecond))
	})
	t.Run("killing the first ends none of the others", func(t *testing.T) {
		syscall.Kill(-pidOf(clients[0]), syscall.SIGKILL) // with its whole process group
		time.Sleep(200 * time.Millisecond)
		for i, c := range clients[1:] {
			if r, err := c.try("view_file", M{"path": "a.txt"}); err != nil || r.IsError {
				t.Errorf("client %d: %v", i+1, err)
			}
		}
	})
	t.Run("each card is answered from another terminal", func(t *testing.T) {
		for i, c := range clients[1:3] {
			dir := repos[(i+1)%5]
			id, _ := c.held("delete_file", M{"path": "a.txt"})
			if code, out := a.terminal(dir, "review", "list"); code != 0 || !strings.Contains(out, id) {
				t.Fatalf("list in %s: %d %s", dir, code, out)
			}
			if code, out := a.terminal(dir, "review", "approve", id, "--json"); code != 0 {
				t.Fatalf("approve in %s: %d %s", dir, code, out)
			}
			if r := c.done("approval_wait", M{"approval_id": id}); r.Facts["state"] != "executed" || !mcpGone(filepath.Join(dir, "a.txt")) {
				t.Fatalf("got %v", r.Facts)
			}
		}
	})
	t.Run("no secret that could answer lies on disk", func(t *testing.T) {
		filepath.Walk(filepath.Join(a.home, ".local"), func(p string, info os.FileInfo, err error) error {
			if err == nil && info.Mode().IsRegular() {
				b, _ := os.ReadFile(p)
				if bytes.Contains(b, []byte(passphrase)) {
					t.Errorf("the passphrase stands in %s", p)
				}
				if strings.Contains(p, "/tokens/") && filepath.Base(p) != "agent" {
					t.Errorf("there is a token %s", p)
				}
				if info.Mode().Perm()&0o077 != 0 && !strings.Contains(p, "/store/") { // what was deleted keeps its mode, behind a 0700 directory
					t.Errorf("%s has mode %v", p, info.Mode())
				}
			}
			return nil
		})
	})
}

func TestMCPIdle(t *testing.T) {
	a := mcpAlone(t)
	dir := a.repo("repo")
	t.Run("without a reviewer a risky call is refused with what to do, and init mends it while the daemon runs", func(t *testing.T) {
		c, err := a.client(dir, "HOLDPOINT_IDLE_EXIT=1s")
		if err != nil {
			t.Fatal(err)
		}
		if r := c.call("delete_file", M{"path": "a.txt"}); text(r.Facts, "error", "code") != "no_reviewer" {
			t.Fatalf("got %v %q", r.Facts, r.Text)
		}
		a.terminal(a.home, "init", "codex")
		for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			if r := c.call("delete_file", M{"path": "a.txt"}); r.Facts["status"] == "review" {
				break
			} else if time.Now().After(end) {
				t.Fatalf("got %v %q", r.Facts, r.Text)
			}
		}
		c.Close()
	})
	t.Run("the daemon outlives its last client while a card is pending, and ends when none is", func(t *testing.T) {
		time.Sleep(1500 * time.Millisecond)
		if len(a.daemons()) != 1 {
			t.Fatal("the daemon ended although a card waits")
		}
		_, out := a.terminal(dir, "review", "list", "--json")
		_, id, _ := strings.Cut(out, `"id":"`)
		id, _, _ = strings.Cut(id, `"`)
		if code, out := a.terminal(dir, "review", "reject", id); code != 0 && code != 7 {
			t.Fatalf("reject %s: %d %s", id, code, out)
		}
		for end := time.Now().Add(time.Minute); len(a.daemons()) > 0; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the daemon still runs although nobody is there and no card waits")
			}
		}
	})
	t.Run("a client that comes later starts another, which knows what was done", func(t *testing.T) {
		c, err := a.client(dir)
		if err != nil {
			t.Fatal(err)
		}
		r := c.done("write_file", M{"path": "b.txt", "content": "b"})
		c.Close()
		if code, out := a.terminal(dir, "log"); code != 0 || !strings.Contains(out, r.Facts["operation_id"].(string)) {
			t.Fatalf("log: %d %s", code, out)
		}
	})
}
