package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"holdpoint/bridge/mcp"
	"holdpoint/op"
)

// toolFlags are the flags of mcp.
type toolFlags struct {
	root, tools string
	compat      bool
}

func mcpCommand(a *app) *cobra.Command {
	var f toolFlags
	c := &cobra.Command{Use: "mcp [--root DIR] [--tools read,edit,shell,git] [--compat]", Short: "Speak MCP on standard input and output, through the daemon",
		Args: noArgs, RunE: func(c *cobra.Command, _ []string) error { return a.mcp(c.Context(), f) }}
	c.Flags().StringVar(&f.root, "root", "", "the workspace (else the working directory)")
	c.Flags().StringVar(&f.tools, "tools", "", "only these groups of tools: read, edit, shell, git")
	c.Flags().BoolVar(&f.compat, "compat", false, "also the tool names of the reference file server")
	return c
}

// mcp connects standard input and output with a daemon and passes messages on until the
// client ends. What a client may do is the daemon's to say.
func (a *app) mcp(ctx context.Context, f toolFlags) error {
	if _, err := mcp.ParseOptions(f.tools, f.compat); err != nil {
		return usagef("--tools: %s", op.AsError(err).Message)
	}
	s, err := a.workplace(ctx, f.root)
	if err != nil {
		return err
	}
	// The label stays when the daemon changes, so that all of this client can be undone
	// together.
	q := url.Values{"session": {sessionLabel()}}
	for k, v := range map[string]string{"root": s.key, "tools": f.tools} {
		if v != "" {
			q.Set(k, v)
		}
	}
	if f.compat {
		q.Set("compat", "1")
	}
	target := "/v1/mcp?" + q.Encode()
	conn, in, err := a.upgraded(ctx, target)
	if err != nil {
		return err
	}
	var out sync.Mutex
	write := func(b []byte) error {
		out.Lock()
		defer out.Unlock()
		_, err := a.Out.Write(b)
		return err
	}
	return a.splice(ctx, newLink(write, conn, a.reconnector(s, target)), in)
}

// site is where a client works and which daemon serves it.
type site struct {
	key    string // of the root; empty is the daemon's only one
	dir    string
	here   place
	starts bool          // a daemon that is gone is started again
	grace  time.Duration // after so long
}

// grace is how long a daemon that was named has to come back by itself.
const grace = 5 * time.Second

// workplace turns to the daemon that serves a directory, starting one if need be.
func (a *app) workplace(ctx context.Context, given string) (s site, err error) {
	if s.dir, err = canonicalDir(first(given, ".")); err != nil {
		return s, err
	}
	path, _ := SocketPath(a.socket, a.state, a.Env)
	s.here = place{StatePath(a.state, a.Env), path}
	named := a.named()
	s.starts, s.grace = named, grace
	if reach(ctx, path, a.socket != "") == nil {
		key, only, err := a.covering(ctx, s.dir)
		switch {
		case err != nil:
			return s, err
		case key != "":
			s.key = key
			return s, nil
		case given == "" && only && (named || broad(s.dir, a.Env)):
			s.starts = false // the daemon has one root, which is meant, and is not this directory
			return s, nil
		case named:
			return s, op.Fail(op.UnknownRoot, "the daemon at "+path+" does not serve "+s.dir).In("root").
				Do("add it with holdpoint root add " + shellWord(s.dir) + ", or leave --socket and --state out")
		}
	}
	if broad(s.dir, a.Env) {
		return s, op.Fail(op.BadRequest, s.dir+" is very broad for a workspace").In("root").Do("name a project directory with --root DIR")
	}
	if !named {
		if s.here, err = projectPlace(s.dir, a.Env); err != nil {
			return s, err
		}
		a.turnTo(s.here)
		s.starts, s.grace = true, 0
	}
	if err := CheckSocketLength(s.here.socket); err != nil {
		return s, err
	}
	if err := a.startDaemon(ctx, s.dir, s.here); err != nil {
		return s, err
	}
	s.key, _, err = a.covering(ctx, s.dir)
	return s, err
}

// broad reports a directory that no client means as a workspace: where programs start
// that were started by no shell.
func broad(dir string, env func(string) string) bool {
	home, err := canonicalDir(env("HOME"))
	return dir == "/" || err == nil && env("HOME") != "" && dir == home
}

// covering gives the key of the root that a directory lies in, empty when none does, and
// whether the daemon has just one.
func (a *app) covering(ctx context.Context, dir string) (key string, only bool, err error) {
	path, _ := SocketPath(a.socket, a.state, a.Env)
	c := socketClient(path)
	defer c.close()
	if c.token, err = a.own(); err != nil {
		return "", false, err
	}
	var s statusInfo
	if _, err := c.get(ctx, "/v1/status", &s); err != nil {
		return "", false, err
	}
	for _, r := range s.Roots {
		full, err := canonicalDir(r.Dir)
		if err == nil && (dir == full || strings.HasPrefix(dir, strings.TrimSuffix(full, "/")+"/")) {
			return first(r.Key, r.Name), len(s.Roots) == 1, nil
		}
	}
	return "", len(s.Roots) == 1, nil
}

// upgraded opens a connection of lines.
func (a *app) upgraded(ctx context.Context, target string) (net.Conn, *wholeLines, error) {
	path, _ := SocketPath(a.socket, a.state, a.Env)
	token, err := a.own()
	if err != nil {
		return nil, nil, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, nil, a.unreachable(path, err)
	}
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: %s\r\nAuthorization: Bearer %s\r\n\r\n", target, upgradeWord, token)
	in := bufio.NewReaderSize(conn, 4<<10)
	var resp *http.Response
	if err == nil {
		resp, err = http.ReadResponse(in, nil)
	}
	if err != nil {
		conn.Close()
		return nil, nil, op.Fail(op.NotReady, "the daemon at "+path+" went away").Because(err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		defer conn.Close()
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		return nil, nil, answer{resp.StatusCode, body}.failure()
	}
	early, _ := in.Peek(in.Buffered())
	return conn, &wholeLines{r: conn, buf: append(make([]byte, 0, 64<<10), early...)[:len(early)], to: len(early), limit: maxMessage}, nil
}

// logName is where a daemon that was started here writes.
func logName(p place) string { return filepath.Join(p.state, "serve.log") }
