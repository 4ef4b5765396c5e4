// Command first walks the first minutes of somebody new: clone, make run, init, connect a
// client, edit, a held delete, approve, undo. It prints how long each step took and the
// time to the first undone edit, and fails where a step does.
//
// The home directory, the state and the build cache are new and empty. The module cache is
// the one that is there, so the download of modules is not in the figures; nor is thinking.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	from := flag.String("from", ".", "the repository to clone")
	limit := flag.Duration("limit", 3*time.Minute, "fail when the first undone edit takes longer")
	warm := flag.Bool("warm", false, "use the build cache that is there, to try the walk itself")
	keep := flag.Bool("keep", false, "leave the temporary directory")
	flag.Parse()
	dir, err := os.MkdirTemp("", "hp-first-")
	if err != nil {
		fail(err)
	}
	w := &walk{dir: dir, home: filepath.Join(dir, "home"), began: time.Now(), warm: *warm}
	err = w.all(*from)
	w.end()
	if !*keep {
		// The module cache is not below it; the build cache is, and may be removed.
		os.RemoveAll(dir)
	}
	if err != nil {
		fail(err)
	}
	total := w.undone.Sub(w.began)
	fmt.Printf("\nfrom nothing to the first undone edit: %.1f s (build included, %s, limit %v)\n", total.Seconds(), w.caches(), *limit)
	if total > *limit {
		fail(errors.New("that is too long"))
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "first:", err)
	os.Exit(1)
}

// walk is one newcomer.
type walk struct {
	dir, home     string
	began, undone time.Time
	warm          bool
	serve         *exec.Cmd
	passphrase    string // as it was shown, once
}

func (w *walk) step(name string, do func() error) error {
	began := time.Now()
	err := do()
	fmt.Printf("%7.1f s  %-44s %6.1f s\n", time.Since(w.began).Seconds(), name, time.Since(began).Seconds())
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (w *walk) all(from string) error {
	clone, project := filepath.Join(w.home, "holdpoint"), filepath.Join(w.home, "project")
	self := filepath.Join(clone, "bin", "holdpoint")
	var client *mcp.ClientSession
	var deleted, edited string
	steps := []struct {
		name string
		do   func() error
	}{
		{"a project of three files", func() error { return w.project(project) }},
		{"git clone", func() error { _, err := w.run(w.home, "git", "clone", "--quiet", from, clone); return err }},
		{"make run, until it says what to try", func() error { return w.makeRun(clone, project) }},
		{"holdpoint init claude --write", func() error { _, err := w.run(project, self, "init", "claude", "--write"); return err }},
		{"holdpoint init claude --check", func() error { _, err := w.run(project, self, "init", "claude", "--check"); return err }},
		{"a client starts what .mcp.json names", func() (err error) { client, err = w.connect(project); return err }},
		{"it edits a file", func() (err error) {
			edited, err = w.tool(client, "edit_file", "undo", `{"path":"a.txt","old_string":"one","new_string":"two"}`)
			return err
		}},
		{"it deletes a file: held", func() (err error) {
			deleted, err = w.tool(client, "delete_file", "approval_id", `{"path":"b.txt"}`)
			return err
		}},
		{"review list, review show", func() error { return w.seen(project, self, deleted) }},
		{"review approve, the passphrase typed", func() error { return w.approve(project, self, deleted) }},
		{"the client's approval_wait has the result", func() error { return w.waited(client, project, deleted) }},
		{"holdpoint undo @: the file is back", func() error {
			if out, err := w.run(project, self, "undo", "@"); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return is(filepath.Join(project, "b.txt"), "two\n")
		}},
		{"holdpoint undo " + "un_...: the edit is undone", func() error {
			if out, err := w.run(project, self, "undo", edited); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			w.undone = time.Now()
			return is(filepath.Join(project, "a.txt"), "one\n")
		}},
		{"holdpoint log", func() error { _, err := w.run(project, self, "log"); return err }},
	}
	for _, s := range steps {
		if err := w.step(s.name, s.do); err != nil {
			return err
		}
	}
	return client.Close()
}

func (w *walk) project(dir string) error {
	for name, text := range map[string]string{"a.txt": "one\n", "b.txt": "two\n", "README": "a project\n"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// environ is what a newcomer has, with the module cache that is here.
func (w *walk) environ() []string {
	var env []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if name != "HOME" && name != "GOCACHE" && !strings.HasPrefix(name, "XDG_") && !strings.HasPrefix(name, "HOLDPOINT_") && name != "MAKEFLAGS" && name != "MAKELEVEL" && name != "MFLAGS" {
			env = append(env, v)
		}
	}
	if out, err := exec.Command("go", "env", "GOMODCACHE").Output(); err == nil {
		env = append(env, "GOMODCACHE="+strings.TrimSpace(string(out)))
	}
	cache := filepath.Join(w.dir, "cache")
	if out, err := exec.Command("go", "env", "GOCACHE").Output(); err == nil && w.warm {
		cache = strings.TrimSpace(string(out))
	}
	return append(env, "HOME="+w.home, "GOCACHE="+cache, "XDG_RUNTIME_DIR="+filepath.Join(w.dir, "run"))
}

func (w *walk) caches() string {
	if w.warm {
		return "modules and build cached"
	}
	return "modules cached, nothing built before"
}

func (w *walk) command(dir, name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir, c.Env = dir, w.environ()
	return c
}

func (w *walk) run(dir, name string, args ...string) (string, error) {
	out, err := w.command(dir, name, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	return string(out), err
}

// makeRun starts it as the README says, and reads what a person would: the passphrase.
func (w *walk) makeRun(clone, project string) error {
	c := w.command(clone, "make", "run", "ROOT="+project)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	c.Stdout, c.Stderr = in, in
	if err := c.Start(); err != nil {
		return err
	}
	w.serve = c
	in.Close()
	word := regexp.MustCompile(`(?m)^.*passphrase\S*\s+(\S+)`)
	said := ""
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		said += lines.Text() + "\n"
		if m := word.FindStringSubmatch(lines.Text()); m != nil && w.passphrase == "" {
			w.passphrase = m[1]
		}
		if strings.HasPrefix(lines.Text(), "try ") {
			go io.Copy(io.Discard, out)
			if w.passphrase == "" {
				return fmt.Errorf("no passphrase was shown:\n%s", said)
			}
			return nil
		}
	}
	return fmt.Errorf("it ended:\n%s", said)
}

// connect does what a client does with its settings.
func (w *walk) connect(project string) (*mcp.ClientSession, error) {
	b, err := os.ReadFile(filepath.Join(project, ".mcp.json"))
	if err != nil {
		return nil, err
	}
	var settings struct {
		Servers map[string]struct {
			Command string   `json:"command"`
			Args    []string `json:"args"`
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal(b, &settings); err != nil {
		return nil, err
	}
	s := settings.Servers["holdpoint"]
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return mcp.NewClient(&mcp.Implementation{Name: "first", Version: "1"}, nil).
		Connect(ctx, &mcp.CommandTransport{Command: w.command(project, s.Command, s.Args...)}, nil)
}

// tool calls a tool and gives one of its facts.
func (w *walk) tool(c *mcp.ClientSession, name, fact, args string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(args)})
	if err != nil {
		return "", err
	}
	facts, _ := r.StructuredContent.(map[string]any)
	v, ok := facts[fact].(string)
	if !ok || r.IsError {
		return "", fmt.Errorf("no %s in %v", fact, facts)
	}
	return v, nil
}

func (w *walk) seen(project, self, id string) error {
	for _, c := range []struct {
		want string
		args []string
	}{{id, []string{"review", "list"}}, {"b.txt", []string{"review", "show", id}}} {
		if out, err := w.typed(project, self, c.args...); err != nil || !strings.Contains(out, c.want) {
			return fmt.Errorf("%v shows %q, %v", c.args, out, err)
		}
	}
	return nil
}

func (w *walk) approve(project, self, id string) error {
	out, err := w.typed(project, self, "review", "approve", id)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// typed runs a command on a terminal and types the passphrase where it is asked for, and
// yes where it is asked whether it is meant.
func (w *walk) typed(project, self string, args ...string) (string, error) {
	c := w.command(project, self, args...)
	tty, err := pty.Start(c)
	if err != nil {
		return "", err
	}
	defer tty.Close()
	defer time.AfterFunc(time.Minute, func() { c.Process.Kill() }).Stop()
	said := ""
	typed := map[string]bool{}
	buf := make([]byte, 4096)
	for {
		n, err := tty.Read(buf)
		said += string(buf[:n])
		if strings.Contains(said, "assphrase") && !typed["pass"] {
			typed["pass"] = true
			fmt.Fprintln(tty, w.passphrase)
		}
		if strings.Contains(said, "Type yes") && !typed["yes"] {
			typed["yes"] = true
			fmt.Fprintln(tty, "yes")
		}
		if err != nil {
			return said, c.Wait()
		}
	}
}

func (w *walk) waited(c *mcp.ClientSession, project, id string) error {
	state, err := w.tool(c, "approval_wait", "state", `{"approval_id":"`+id+`"}`)
	if err == nil && state != "executed" {
		err = errors.New("it is " + state)
	}
	if _, there := os.Lstat(filepath.Join(project, "b.txt")); err == nil && there == nil {
		err = errors.New("the file is still there")
	}
	return err
}

func is(name, want string) error {
	b, err := os.ReadFile(name)
	if err == nil && string(b) != want {
		err = fmt.Errorf("%s holds %q", filepath.Base(name), b)
	}
	return err
}

// end stops what was started.
func (w *walk) end() {
	if w.serve == nil {
		return
	}
	syscall.Kill(-w.serve.Process.Pid, syscall.SIGTERM)
	w.serve.Wait()
}
