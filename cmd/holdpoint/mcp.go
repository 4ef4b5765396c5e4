package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"

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

// mcp connects standard input and output with a daemon and passes bytes on until one of
// them ends. It reads none of them: what a client may do is the daemon's to say.
func (a *app) mcp(ctx context.Context, f toolFlags) error {
	if _, err := mcp.ParseOptions(f.tools, f.compat); err != nil {
		return usagef("--tools: %s", op.AsError(err).Message)
	}
	key, err := a.workplace(ctx, f.root)
	if err != nil {
		return err
	}
	q := url.Values{}
	for k, v := range map[string]string{"root": key, "tools": f.tools} {
		if v != "" {
			q.Set(k, v)
		}
	}
	if f.compat {
		q.Set("compat", "1")
	}
	conn, in, err := a.upgraded(ctx, "/v1/mcp?"+q.Encode())
	if err != nil {
		return err
	}
	return a.splice(ctx, conn, in)
}

// workplace turns to the daemon that serves a directory, starting one if need be, and
// gives the key of its root.
func (a *app) workplace(ctx context.Context, given string) (key string, err error) {
	dir, err := canonicalDir(first(given, "."))
	if err != nil {
		return "", err
	}
	path, _ := SocketPath(a.socket, a.state, a.Env)
	here := place{StatePath(a.state, a.Env), path}
	named := a.named()
	if reach(ctx, path, a.socket != "") == nil {
		key, only, err := a.covering(ctx, dir)
		switch {
		case err != nil:
			return "", err
		case key != "":
			return key, nil
		case given == "" && only && (named || broad(dir, a.Env)):
			return "", nil // the daemon has one root, which is meant
		case named:
			return "", op.Fail(op.UnknownRoot, "the daemon at "+path+" does not serve "+dir).In("root").
				Do("add it with holdpoint root add " + shellWord(dir) + ", or leave --socket and --state out")
		}
	}
	if broad(dir, a.Env) {
		return "", op.Fail(op.BadRequest, dir+" is very broad for a workspace").In("root").Do("name a project directory with --root DIR")
	}
	if !named {
		if here, err = projectPlace(dir, a.Env); err != nil {
			return "", err
		}
		a.turnTo(here)
	}
	if err := CheckSocketLength(here.socket); err != nil {
		return "", err
	}
	if err := a.startDaemon(ctx, dir, here); err != nil {
		return "", err
	}
	key, _, err = a.covering(ctx, dir)
	return key, err
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
func (a *app) upgraded(ctx context.Context, target string) (net.Conn, *bufio.Reader, error) {
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
	in := bufio.NewReaderSize(conn, 64<<10)
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
	return conn, in, nil
}

// splice passes bytes both ways. When the client ends its side the daemon hears of it and
// may finish what runs; when the daemon ends there is nothing left to say.
func (a *app) splice(ctx context.Context, conn net.Conn, in *bufio.Reader) error {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	over := make(chan error, 1)
	go func() {
		_, err := io.Copy(onlyWriter{conn}, onlyReader{a.In})
		if c, ok := conn.(*net.UnixConn); ok && err == nil {
			c.CloseWrite()
		}
		over <- err
	}()
	_, err := io.Copy(onlyWriter{a.Out}, onlyReader{in})
	select {
	case <-over:
		return nil // the client went first
	default:
	}
	if ctx.Err() != nil {
		return nil
	}
	if err == nil {
		err = errors.New("connection closed")
	}
	return op.Fail(op.NotReady, "the daemon went away").Do("start this again; held calls and undo ids are kept, and approval_status tells how a held call ended").Because(err)
}

// onlyReader and onlyWriter keep io.Copy from shortcuts that pay off for files alone.
type onlyReader struct{ io.Reader }
type onlyWriter struct{ io.Writer }

// logName is where a daemon that was started here writes.
func logName(p place) string { return filepath.Join(p.state, "serve.log") }
