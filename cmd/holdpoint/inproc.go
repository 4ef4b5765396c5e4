package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
)

// localOptions says which engine to open in this process.
type localOptions struct {
	Root   string // directory
	State  string // state directory
	Config string // configuration file; may be empty
	Env    func(string) string
}

// localEngine opens the engine on its state, locked, and gives the same handler that the
// daemon serves, and a close that waits for what runs.
type localEngine func(ctx context.Context, o localOptions) (http.Handler, func() error, error)

func (a *app) inProcess(ctx context.Context, root string) (*client, error) {
	h, end, err := a.local(ctx, localOptions{Root: root, State: StatePath(a.state, a.Env), Config: a.Env("HOLDPOINT_CONFIG"), Env: a.Env})
	if err != nil {
		return nil, err
	}
	a.inRoot = root
	return &client{http: &http.Client{Transport: direct{h}, CheckRedirect: noRedirect}, where: "the engine in this process", close: end}, nil
}

// direct hands a request to a handler without a connection. Answers are whole, never
// streamed: it serves calls, not events.
type direct struct{ handler http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	in.RequestURI = r.URL.RequestURI()
	in.RemoteAddr = "@" // what net/http gives for a unix socket
	if in.Body == nil {
		in.Body = http.NoBody
	}
	out := &recorder{header: http.Header{}}
	d.handler.ServeHTTP(out, in)
	in.Body.Close()
	if err := r.Context().Err(); err != nil && out.status == 0 {
		return nil, err
	}
	out.WriteHeader(http.StatusOK)
	return &http.Response{StatusCode: out.status, Status: http.StatusText(out.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: out.sent, Body: io.NopCloser(&out.body), ContentLength: int64(out.body.Len()), Request: r}, nil
}

// recorder is a ResponseWriter that keeps what it is given.
type recorder struct {
	header, sent http.Header
	status       int
	body         bytes.Buffer
}

func (w *recorder) Header() http.Header { return w.header }

// WriteHeader counts once, as on a connection; what is set after it is not sent.
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status, w.sent = status, w.header.Clone()
	}
}

func (w *recorder) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// Flush sends headers, as on a connection.
func (w *recorder) Flush() { w.WriteHeader(http.StatusOK) }
