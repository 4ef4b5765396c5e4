// Package client asks a Holdpoint daemon from a Go program: calls, preflights, approvals,
// undo and events, over its socket or over HTTP.
//
// It holds no rule and decides nothing: a daemon judges every call, and a client that was
// changed gets no further than one that was not. It starts no daemon, retries nothing by
// itself and keeps nothing; a call whose answer was lost is sent again with the same
// request id, which gets the same answer.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"holdpoint/op"
)

// maxAnswer bounds what is read of one answer.
const maxAnswer = 256 << 20

// Client speaks with one daemon. It is safe for concurrent use.
type Client struct {
	http  *http.Client
	base  string
	token string
}

// Error is a refusal or a failure that the daemon reported. errors.Is(err, op.NotFound)
// and errors.As(err, **op.Error) work on it.
type Error struct {
	HTTPStatus int
	Says       *op.Error
}

func (e *Error) Error() string { return e.Says.Error() }

// Unwrap gives the daemon's own words.
func (e *Error) Unwrap() error { return e.Says }

// Lost is the error of a connection that ended before the answer came: whether the call
// ran is not known.
type Lost struct{ Err error }

func (l *Lost) Error() string {
	return "no answer came (send the same call with the same request id to learn of it): " + l.Err.Error()
}

// Unwrap gives the cause.
func (l *Lost) Unwrap() error { return l.Err }

// New makes a client for "unix:/path/to/holdpoint.sock", or for the address of a daemon
// such as http://localhost:7117. Close ends it.
func New(address, token string) (*Client, error) {
	t := &http.Transport{MaxIdleConnsPerHost: 16}
	c := &Client{token: token, http: &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
		c.base = "http://localhost" // a fixed word: over a socket there is no host
		return c, nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, op.Fail(op.BadRequest, "the address is unix:PATH, http://HOST:PORT or https://HOST")
	}
	c.base = strings.TrimSuffix(address, "/")
	return c, nil
}

// Close lets idle connections go.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Call sends one operation. A reply whose status is review is no error: see Wait. What was
// refused or failed comes with both, the reply and an *Error.
func (c *Client) Call(ctx context.Context, r op.Request) (op.Reply, error) {
	if r.Args == nil {
		r.Args = op.Object{}
	}
	return c.reply(ctx, "/v1/call", r)
}

// Preflight tells what a call would meet and what would be decided; nothing is done.
func (c *Client) Preflight(ctx context.Context, r op.Request) (Preflight, error) {
	if r.Args == nil {
		r.Args = op.Object{}
	}
	var p Preflight
	err := c.Do(ctx, http.MethodPost, "/v1/preflight", r, &p)
	return p, err
}

// Preflight is the answer to one.
type Preflight struct {
	Decision *op.Decision `json:"decision"`
	Reasons  []string     `json:"reasons"`
	Facts    *op.Facts    `json:"facts"`
	Warnings []op.Warning `json:"warnings"`
	Pins     string       `json:"pins"` // of a later call: only if all of this still holds
}

// Approval is a held call's row.
type Approval struct {
	ID    op.ID     `json:"id"`
	State string    `json:"state"`
	Note  string    `json:"note"` // what the reviewer wrote
	Reply *op.Reply `json:"reply"`
}

// Waiting reports whether nobody has answered, or the call has not come to its end.
func (a Approval) Waiting() bool {
	return a.State == "pending" || a.State == "approved" || a.State == "executing"
}

// Wait waits until a held call has come to its end, or ctx ends. The call's own failure,
// a rejection too, is in the row's reply.
func (c *Client) Wait(ctx context.Context, id op.ID) (Approval, error) {
	for {
		var a Approval
		if err := c.Do(ctx, http.MethodGet, "/v1/approvals/"+url.PathEscape(string(id))+"?wait=30s", nil, &a); err != nil {
			return a, err
		}
		if !a.Waiting() {
			return a, nil
		}
		if err := ctx.Err(); err != nil {
			return a, err
		}
	}
}

// Undo takes an operation back by its credential.
func (c *Client) Undo(ctx context.Context, credential *op.Credential) (op.Reply, error) {
	return c.reply(ctx, "/v1/undo", map[string]any{"credential": credential})
}

// UndoID takes an operation back by its id.
func (c *Client) UndoID(ctx context.Context, operation op.ID) (op.Reply, error) {
	return c.reply(ctx, "/v1/undo", map[string]any{"operation_id": operation})
}

// reply sends a call. Whatever has the form of a Reply is one, whatever its status line.
func (c *Client) reply(ctx context.Context, path string, body any) (op.Reply, error) {
	status, data, err := c.send(ctx, http.MethodPost, path, body)
	if err != nil {
		return op.Reply{}, err
	}
	var r op.Reply
	if err := json.Unmarshal(data, &r); err != nil {
		return r, op.Fail(op.Internal, "the daemon's answer is not understood").Because(err)
	}
	if r.Error != nil {
		return r, &Error{status, r.Error}
	}
	if status >= 400 {
		return r, failure(status, data)
	}
	return r, nil
}

// Do sends one request of any route and reads the answer into the value that into points
// to; both may be nil.
func (c *Client) Do(ctx context.Context, method, path string, body, into any) error {
	status, data, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	if status >= 400 {
		return failure(status, data)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return op.Fail(op.Internal, "the daemon's answer is not understood").Because(err)
	}
	return nil
}

func (c *Client) request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	var in io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, op.Fail(op.BadRequest, "the call has no JSON form").Because(err)
		}
		in = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, in)
	if err != nil {
		return nil, op.Fail(op.BadRequest, "this is no path of a route").Because(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	return r, nil
}

func (c *Client) send(ctx context.Context, method, path string, body any) (int, []byte, error) {
	r, err := c.request(ctx, method, path, body)
	if err != nil {
		return 0, nil, err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return 0, nil, lost(ctx, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return 0, nil, lost(ctx, err)
	}
	if len(data) > maxAnswer {
		return 0, nil, op.Fail(op.TooLarge, fmt.Sprintf("the answer is over %d bytes", maxAnswer))
	}
	return resp.StatusCode, data, nil
}

func lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &Lost{err}
}

// failure reads an answer that is only an error, or words one that a proxy gave.
func failure(status int, data []byte) error {
	var f struct {
		Error *op.Error `json:"error"`
	}
	if json.Unmarshal(data, &f) == nil && f.Error != nil {
		return &Error{status, f.Error}
	}
	code := op.Internal
	for c, when := range map[op.Code]int{op.Unauthenticated: 401, op.Forbidden: 403, op.NotFound: 404, op.TooLarge: 413, op.QueueFull: 429, op.NotReady: 503} {
		if status == when {
			code = c
		}
	}
	return &Error{status, op.Fail(code, fmt.Sprintf("the answer was %d without a reason", status))}
}

// IsLost reports whether the answer to a call was lost on its way.
func IsLost(err error) bool {
	var l *Lost
	return errors.As(err, &l)
}

// pause is how long Events waits before it connects again.
const pause = 200 * time.Millisecond
