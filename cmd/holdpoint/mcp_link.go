package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"holdpoint/bridge/mcp"
	"holdpoint/op"
)

// link keeps one client connected while daemons come and go. It passes messages as they
// are and remembers which calls have no answer yet: when the daemon ends, those that only
// look are sent to the next one, and those that change something are answered, because
// nobody here knows how far they came.
type link struct {
	out    func([]byte) error // to the client, one whole message or more at a time
	reopen func(context.Context) (net.Conn, *wholeLines, error)
	need   chan struct{} // somebody waits for a daemon

	mu      sync.Mutex // guards what follows
	conn    net.Conn   // nil while there is no daemon
	left    bool       // the client went away
	opening []byte     // the client's initialize, which the next daemon is told again
	opened  []byte     // and its word that it is initialized
	flying  map[string]*flight
	asked   map[string]bool // what this daemon asked the client, by id
	follows map[string]bool // the resources that the client is subscribed to, which the next daemon is told again

	wmu sync.Mutex // one message at a time goes to the daemon
}

// flight is a request without an answer.
type flight struct {
	line []byte // to send it again; nil for a change that a daemon has seen
	sent bool
	tool bool
	safe bool // may be asked twice
}

func newLink(out func([]byte) error, conn net.Conn, reopen func(context.Context) (net.Conn, *wholeLines, error)) *link {
	return &link{out: out, reopen: reopen, conn: conn, need: make(chan struct{}, 1), flying: map[string]*flight{}, asked: map[string]bool{}, follows: map[string]bool{}}
}

// fromClient passes on one message of the client's.
func (l *link) fromClient(line []byte) {
	g := glanceAt(line)
	l.mu.Lock()
	conn := l.conn
	switch {
	case g.method == "initialize":
		l.opening, l.opened = bytes.Clone(line), nil
	case g.method == "notifications/initialized":
		l.opened = bytes.Clone(line)
	case g.method == "notifications/cancelled":
		delete(l.flying, g.about)
	case g.method == "resources/subscribe":
		l.follows[g.uri] = true
	case g.method == "resources/unsubscribe":
		delete(l.follows, g.uri)
	}
	switch {
	case g.id != "" && g.method != "":
		f := &flight{sent: conn != nil, tool: g.method == "tools/call", safe: g.method != "tools/call" || mcp.OnlyLooks(g.name)}
		if f.safe || !f.sent {
			f.line = bytes.Clone(line)
		}
		l.flying[g.id] = f
	case g.id != "" && !l.asked[g.id]:
		conn = nil // an answer to a daemon that is gone
	case g.id != "":
		delete(l.asked, g.id)
	}
	l.mu.Unlock()
	if conn != nil {
		l.send(conn, line)
		return
	}
	if g.id != "" && g.method != "" {
		l.wanted()
	}
}

// wanted wakes whoever looks for a daemon.
func (l *link) wanted() {
	select {
	case l.need <- struct{}{}:
	default:
	}
}

// send gives the daemon a message. That it did not take it is learned where its answers
// are read.
func (l *link) send(conn net.Conn, line []byte) {
	l.wmu.Lock()
	defer l.wmu.Unlock()
	conn.Write(line)
}

// leave is told when the client ended its side: the daemon may finish what runs.
func (l *link) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = true
	if c, ok := l.conn.(*net.UnixConn); ok {
		c.CloseWrite()
	}
	l.wanted()
}

// run passes on what daemons say, one after the other, until the client is gone.
func (l *link) run(ctx context.Context, in *wholeLines) error {
	for {
		for {
			lines, err := in.next()
			if err != nil {
				break
			}
			l.answered(lines)
			if err := l.out(lines); err != nil {
				return nil // the client is gone
			}
		}
		l.lost()
		for in = nil; in == nil; {
			select {
			case <-l.need:
			case <-ctx.Done():
				return nil
			}
			l.mu.Lock()
			left := l.left
			l.mu.Unlock()
			if left || ctx.Err() != nil {
				return nil
			}
			in = l.again(ctx)
		}
	}
}

// answered takes note of whole messages of the daemon's.
func (l *link) answered(lines []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(lines) > 0 {
		line := lines
		if n := bytes.IndexByte(lines, '\n'); n >= 0 {
			line = lines[:n]
		}
		lines = lines[min(len(line)+1, len(lines)):]
		switch g := glanceAt(line); {
		case g.id == "":
		case g.method != "":
			l.asked[g.id] = true
		default:
			delete(l.flying, g.id)
		}
	}
}

// lost answers the changes that the daemon was in the middle of, and asks for another
// daemon where somebody waits.
func (l *link) lost() {
	l.mu.Lock()
	l.conn.Close()
	l.conn, l.asked = nil, map[string]bool{}
	var dead [][]byte
	for id, f := range l.flying {
		switch {
		case f.safe:
			f.sent = false
		case f.sent:
			delete(l.flying, id)
			dead = append(dead, f.refusal(id, op.Fail(op.UnknownOutcome, "the daemon ended in the middle of this call, which may have been done or not").
				Do("look at what is there with view_file or file_info before you send it again")))
		}
	}
	waits := len(l.flying) > 0 || len(l.follows) > 0 || l.left
	l.mu.Unlock()
	for _, d := range dead {
		l.out(d)
	}
	if waits {
		l.wanted()
	}
}

// again finds the next daemon, tells it what the client said at first, and sends what has
// no answer yet. Where none is to be had, those who wait are told.
func (l *link) again(ctx context.Context) *wholeLines {
	conn, in, err := l.reopen(ctx)
	if err == nil {
		if err = l.introduce(conn, in); err != nil {
			conn.Close()
		}
	}
	l.mu.Lock()
	var lines, dead, news [][]byte
	for id, f := range l.flying {
		switch {
		case err != nil:
			delete(l.flying, id)
			e := *op.AsError(err)
			e.Retry = "same"
			dead = append(dead, f.refusal(id, &e))
		case !f.sent && f.line != nil:
			f.sent = true
			lines = append(lines, f.line)
			news = append(news, listened(f.line)...)
			if !f.safe {
				f.line = nil
			}
		}
	}
	if err == nil {
		l.conn = conn
		if c, ok := conn.(*net.UnixConn); ok && l.left {
			c.CloseWrite()
		}
	}
	l.mu.Unlock()
	for _, d := range dead {
		l.out(d)
	}
	for _, line := range lines {
		l.send(conn, line)
	}
	for _, n := range news {
		l.out(n)
	}
	if err != nil {
		return nil
	}
	return in
}

// introduce repeats the opening of the session, unless that itself has no answer yet.
func (l *link) introduce(conn net.Conn, in *wholeLines) error {
	l.mu.Lock()
	opening, opened := l.opening, l.opened
	id := glanceAt(opening).id
	_, open := l.flying[id]
	l.mu.Unlock()
	if opening == nil || open {
		return nil
	}
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	defer conn.SetDeadline(time.Time{})
	if _, err := conn.Write(opening); err != nil {
		return op.Fail(op.NotReady, "the daemon went away again").Because(err)
	}
	lines, err := in.next()
	if err != nil {
		return op.Fail(op.NotReady, "the daemon went away again").Because(err)
	}
	if g := glanceAt(lines); g.id != id || bytes.Contains(lines[:min(len(lines), 200)], []byte(`"error"`)) {
		return op.Fail(op.NotReady, "the next daemon does not take this session up").Do("start the client's server again")
	}
	if opened != nil {
		if _, err := conn.Write(opened); err != nil {
			return op.Fail(op.NotReady, "the daemon went away again").Because(err)
		}
	}
	return l.resubscribe(conn, in)
}

// resubscribe takes up what the client follows, and tells it to look: nobody saw what
// changed meanwhile. What the next daemon does not take up is forgotten.
func (l *link) resubscribe(conn net.Conn, in *wholeLines) error {
	l.mu.Lock()
	uris := slices.Sorted(maps.Keys(l.follows))
	l.mu.Unlock()
	for _, uri := range uris {
		const id = `"holdpoint-again"`
		if _, err := fmt.Fprintf(conn, `{"jsonrpc":"2.0","id":%s,"method":"resources/subscribe","params":{"uri":%s}}`+"\n", id, uri); err != nil {
			return op.Fail(op.NotReady, "the daemon went away again").Because(err)
		}
		taken := false
		for answered := false; !answered; {
			lines, err := in.next()
			if err != nil {
				return op.Fail(op.NotReady, "the daemon went away again").Because(err)
			}
			for line := range bytes.Lines(lines) {
				if glanceAt(line).id == id {
					answered, taken = true, !bytes.Contains(line[:min(len(line), 200)], []byte(`"error"`))
				} else {
					l.out(line) // the first news of what was taken up already
				}
			}
		}
		if taken {
			l.out(updated(uri))
			continue
		}
		l.mu.Lock()
		delete(l.follows, uri)
		l.mu.Unlock()
	}
	return nil
}

// updated tells of a resource, whose address is given as it is written in JSON.
func updated(uri string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%s}}`+"\n", uri)
}

// listened tells of every resource that a request to listen names, when it is sent once more.
func listened(line []byte) (news [][]byte) {
	if glanceAt(line).method != "subscriptions/listen" {
		return nil
	}
	var asked struct {
		Params struct {
			Notifications struct {
				Resources []json.RawMessage `json:"resourceSubscriptions"`
			} `json:"notifications"`
		} `json:"params"`
	}
	if json.Unmarshal(line, &asked) == nil {
		for _, uri := range asked.Params.Notifications.Resources {
			news = append(news, updated(string(uri)))
		}
	}
	return news
}

// refusal answers a request that no daemon answers: as a result of a tool, which an agent
// reads, else as an error of the protocol.
func (f *flight) refusal(id string, e *op.Error) []byte {
	if f.tool {
		return mcp.Failure(id, e)
	}
	b := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	b = op.AppendString(append(b, `,"error":{"code":-32000,"message":`...), string(e.Code)+": "+e.Message)
	return append(b, "}}\n"...)
}

// splice passes messages both ways until the client goes.
func (a *app) splice(ctx context.Context, l *link, in *wholeLines) error {
	defer context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.left = true; l.conn != nil {
			l.conn.Close()
		}
	})()
	go func() {
		client := wholeLines{r: a.In, limit: maxMessage}
		for {
			lines, err := client.next()
			if err != nil {
				l.leave()
				return
			}
			for len(lines) > 0 {
				n := bytes.IndexByte(lines, '\n') + 1
				l.fromClient(lines[:n])
				lines = lines[n:]
			}
		}
	}()
	return l.run(ctx, in)
}

// maxMessage bounds one message in either direction, in bytes, above what a daemon takes.
const maxMessage = 64 << 20

// patience is how long a call waits for a daemon to come back.
const patience = 20 * time.Second

// reconnector finds the daemon of a site again. One that is the directory's own is
// started where it does not run; one that was named is given time to come back first; the
// default one is its owner's to start.
func (a *app) reconnector(s site, target string) func(context.Context) (net.Conn, *wholeLines, error) {
	return func(ctx context.Context) (net.Conn, *wholeLines, error) {
		began, grace := time.Now(), s.grace
		for {
			conn, in, err := a.upgraded(ctx, target)
			if err == nil {
				return conn, in, nil
			}
			if !errors.Is(err, op.NotReady) || ctx.Err() != nil {
				return nil, nil, err
			}
			waited := time.Since(began)
			if s.starts && waited >= grace {
				if err := a.startDaemon(ctx, s.dir, s.here); err != nil {
					return nil, nil, err
				}
				grace = waited + time.Second
				continue
			}
			if waited > patience {
				return nil, nil, op.Fail(op.NotReady, "no daemon answers at "+s.here.socket).Do("ask the person to start holdpoint serve again, then send the call again; held calls and undo ids are kept").Because(err)
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
}
