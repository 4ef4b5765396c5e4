package main

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
	"net/url"
	"syscall"

	"holdpoint/op"
)

// client asks one daemon, over its socket or in this process. Its owner calls close.
type client struct {
	http   *http.Client
	token  string // sent with each request; empty before one is known
	base   string // of addresses; empty over a socket, where there is no host
	where  string // for messages
	close  func() error
	daemon bool // false: in this process
}

// answer is what came back, whatever its status.
type answer struct {
	status int
	body   []byte
}

// maxAnswer bounds what is read of one answer.
const maxAnswer = 256 << 20

// connect finds the daemon. With a root directory and no daemon it opens the engine in
// this process. It never starts a daemon.
func (a *app) connect(ctx context.Context, root string) (*client, error) {
	if a.Env(natsEnv) != "" {
		return a.overNATS()
	}
	a.atProject(ctx, first(root, "."))
	path, named := SocketPath(a.socket, a.state, a.Env)
	err := reach(ctx, path, named)
	if err == nil {
		return socketClient(path), nil
	}
	if root != "" && a.local != nil && isDir(root) && noDaemon(err) {
		return a.inProcess(ctx, root)
	}
	return nil, a.unreachable(path, err)
}

// reach dials once, so that "no daemon" is told apart from a failed call.
func reach(ctx context.Context, path string, named bool) error {
	if err := CheckSocketLength(path); err != nil {
		return err
	}
	if !named {
		if err := checkSocketDir(path); err != nil {
			return err
		}
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return err
	}
	return conn.Close()
}

// noDaemon reports that nobody listens, as opposed to someone who may not be asked.
func noDaemon(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

func (a *app) unreachable(path string, err error) error {
	var known *op.Error
	if errors.As(err, &known) || errors.Is(err, context.Canceled) {
		return err
	}
	if errors.Is(err, fs.ErrPermission) {
		return op.Fail(op.PermissionDenied, "the socket "+path+" belongs to another user").
			Do("run this as the user of the daemon").Because(err)
	}
	if !noDaemon(err) {
		return op.Fail(op.NotReady, fmt.Sprintf("the daemon at %s does not answer: %v", path, err)).Because(err)
	}
	hint := "start one: holdpoint serve --root DIR"
	if s := first(a.state, a.Env("HOLDPOINT_STATE")); s != "" {
		hint += " --state " + shellWord(s)
	}
	hint += "; or name its socket with --socket or HOLDPOINT_SOCKET"
	if a.local != nil {
		hint += "; or give --root DIR to run without a daemon"
	}
	return op.Fail(op.NotReady, "no daemon answers at "+path).Do(hint).Because(err)
}

func socketClient(path string) *client {
	t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	return &client{http: &http.Client{Transport: t, CheckRedirect: noRedirect}, where: path, daemon: true,
		close: func() error { t.CloseIdleConnections(); return nil }}
}

// noRedirect keeps the token from following a redirection.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// send does one request. body may be nil, json.RawMessage, or anything that encodes.
func (c *client) send(ctx context.Context, method, path string, body any) (answer, error) {
	var reader io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return answer{}, op.Fail(op.BadRequest, "the call has no JSON form: "+err.Error()).Because(err)
		}
		reader = bytes.NewReader(data)
	}
	// The host is a fixed word: over a socket there is none.
	r, err := http.NewRequestWithContext(ctx, method, first(c.base, "http://localhost")+path, reader)
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return answer{}, c.broken(ctx, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return answer{}, c.broken(ctx, err)
	}
	if len(data) > maxAnswer {
		return answer{}, op.Fail(op.TooLarge, fmt.Sprintf("the answer is over %d bytes", maxAnswer))
	}
	return answer{resp.StatusCode, data}, nil
}

// broken words a connection that ended before the answer: what the daemon did is unknown.
func (c *client) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var known *op.Error
	if errors.As(err, &known) {
		return known // it says what is known of the request
	}
	return op.Fail(op.NotReady, "the connection to "+c.where+" ended before an answer came").
		Do("look at holdpoint log before you send it again, or send it with the same --request-id").Because(err)
}

// do is send for every endpoint but the calls: a status of 400 or more is an error.
func (c *client) do(ctx context.Context, method, path string, body, into any) (json.RawMessage, error) {
	got, err := c.send(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	if got.status >= 400 {
		return nil, got.failure()
	}
	if into != nil {
		if err := json.Unmarshal(got.body, into); err != nil {
			return nil, op.Fail(op.Internal, "the daemon's answer to "+path+" is not understood: "+err.Error()).
				Do("daemon and command line may be of different versions: holdpoint version, holdpoint status").Because(err)
		}
	}
	return got.body, nil
}

func (c *client) get(ctx context.Context, path string, into any) (json.RawMessage, error) {
	return c.do(ctx, http.MethodGet, path, nil, into)
}

// failure reads the error of an answer.
func (got answer) failure() *op.Error {
	var body struct {
		Error *op.Error `json:"error"`
	}
	if json.Unmarshal(got.body, &body) == nil && body.Error != nil && body.Error.Code != "" {
		return body.Error
	}
	return codeFor(got.status)
}

// codeFor words an answer without an error in it, as a proxy in between might give.
func codeFor(status int) *op.Error {
	says := fmt.Sprintf("the daemon answered %d without saying why", status)
	for code, when := range map[op.Code]int{op.Unauthenticated: 401, op.Forbidden: 403, op.NotFound: 404, op.TooLarge: 413, op.QueueFull: 429, op.NotReady: 503} {
		if status == when {
			return op.Fail(code, says)
		}
	}
	return op.Fail(op.Internal, says)
}

// query writes a path with the parameters that are not empty.
func query(path string, pairs ...string) string {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	if len(v) == 0 {
		return path
	}
	return path + "?" + v.Encode()
}

// rootInfo is one root as status tells it.
type rootInfo struct {
	Name  string `json:"name"`
	Key   string `json:"key"`
	Dir   string `json:"dir"`
	Store string `json:"store"`
	Ready bool   `json:"ready"`

	Warnings []op.Warning `json:"warnings,omitempty"`
}

// rootNamed gives the key of a root given by name, key or directory: the one word that
// means the same to every route and token.
func (c *client) rootNamed(ctx context.Context, given string) (string, error) {
	if given == "" {
		return "", nil
	}
	var s struct {
		Roots []rootInfo `json:"roots"`
	}
	if _, err := c.get(ctx, "/v1/status", &s); err != nil {
		return "", err
	}
	var known []string
	for _, r := range s.Roots {
		if given == r.Name || given == r.Key {
			return first(r.Key, r.Name), nil
		}
		known = append(known, r.Name)
	}
	for _, r := range s.Roots {
		if sameDir(given, r.Dir) {
			return first(r.Key, r.Name), nil
		}
	}
	e := op.Fail(op.UnknownRoot, fmt.Sprintf("the daemon serves no root %q", given))
	return "", e.Do(orNearest(given, known, "its roots are listed by holdpoint root list, and holdpoint root add NAME=DIR adds one"))
}
