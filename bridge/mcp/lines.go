package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holdpoint/op"
)

// Lines of JSON-RPC on one connection. Two lanes read them: calls and lists of tools in
// the plain form of the versions up to 2025-11-25 are read and answered here, without the
// SDK's codec, which costs more than the call itself; everything else is the SDK's.

// maxFlying is how many calls of one client run at once.
const maxFlying = 64

// ServeConn serves one client until it goes away, and closes conn. hello is what had
// been read of it already. The caller's token was checked; its secret is looked up anew
// at each call.
func (s *Server) ServeConn(conn net.Conn, hello *bufio.Reader, secret, root, label string, o Options) {
	s.done.Add(1)
	defer s.done.Done()
	s.clients.Add(1)
	defer s.clients.Add(-1)
	defer conn.Close()
	defer context.AfterFunc(s.ctx, func() { conn.Close() })()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l := &lines{server: s, offer: s.offer(o), conn: conn, in: hello, ses: &session{ctx: ctx, secret: secret, root: root, label: label},
		flying: map[string]context.CancelFunc{}, room: make(chan struct{}, maxFlying), gone: cancel}
	session, err := l.offer.sdk.Connect(ctx, l, nil)
	if err != nil {
		return
	}
	session.Wait()
	cancel()
	l.calls.Wait()
}

// lines is a connection for the SDK, which answers some of its messages by itself.
type lines struct {
	server *Server
	offer  *offer
	ses    *session
	conn   net.Conn
	in     *bufio.Reader
	gone   context.CancelFunc
	calls  sync.WaitGroup
	room   chan struct{}

	ready   atomic.Bool // the initialize request was answered: the client may call
	elicits bool        // the client opens addresses; Read's own

	out sync.Mutex // guards the writing: one message at a time is written

	mu      sync.Mutex // guards the rest
	opening jsonrpc.ID // of the initialize request; a client may send a second one while the first is answered
	flying  map[string]context.CancelFunc
}

// Connect makes lines a transport of its own.
func (l *lines) Connect(context.Context) (sdk.Connection, error) { return l, nil }

// SessionID is empty: the connection is the session.
func (l *lines) SessionID() string { return "" }

// Close ends the connection; Read then ends too.
func (l *lines) Close() error {
	l.gone()
	return l.conn.Close()
}

// Read gives the next message that is the SDK's to answer.
func (l *lines) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		line, err := readLine(l.in)
		if err != nil {
			l.gone()
			return nil, err
		}
		if len(line) == 0 || l.quick(line) {
			continue
		}
		if err := unfit(line); err != nil {
			l.write(refusal(err))
			continue
		}
		msg, err := jsonrpc.DecodeMessage(line)
		if err != nil {
			l.write(refusal(op.Fail(op.BadRequest, "this is no JSON-RPC message")))
			continue
		}
		if r, ok := msg.(*jsonrpc.Request); ok {
			if r.Method == "initialize" {
				l.mu.Lock()
				l.opening, l.elicits = r.ID, opens(r.Params)
				l.mu.Unlock()
			}
			r.Extra = &sdk.RequestExtra{TokenInfo: &auth.TokenInfo{Extra: map[string]any{sessionKey: l.ses}}}
		}
		return msg, nil
	}
}

// opens reads from an initialize request whether the client opens addresses.
func opens(params []byte) bool {
	o, err := op.ParseJSON(params)
	if err != nil {
		return true // not read: then the SDK, which reads more, has its calls
	}
	caps, _ := o["capabilities"].(op.Object)
	elicitation, _ := caps["elicitation"].(op.Object)
	return elicitation["url"] != nil
}

func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err == nil {
		return bytes.TrimSpace(line), nil
	}
	if !errors.Is(err, bufio.ErrBufferFull) {
		return nil, err
	}
	whole := bytes.Clone(line)
	for {
		line, err = r.ReadSlice('\n')
		if len(whole)+len(line) > maxLine {
			return nil, io.ErrShortBuffer
		}
		whole = append(whole, line...)
		if err == nil {
			return bytes.TrimSpace(whole), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}

// Write sends a message of the SDK's.
func (l *lines) Write(_ context.Context, msg jsonrpc.Message) error {
	b, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	if r, ok := msg.(*jsonrpc.Response); ok && r.Error == nil {
		l.mu.Lock()
		l.ready.Store(l.ready.Load() || r.ID == l.opening && l.opening.IsValid())
		l.mu.Unlock()
	}
	return l.write(append(b, '\n'))
}

func (l *lines) write(b []byte) error {
	l.out.Lock()
	defer l.out.Unlock()
	_, err := l.conn.Write(b)
	return err
}

var (
	callMark   = []byte(`"tools/call"`)
	listMark   = []byte(`"tools/list"`)
	cancelMark = []byte(`"notifications/cancelled"`)
)

// quick answers a message by itself, or leaves it to the SDK. It is strict: what it does
// not know to the last field is not its own.
func (l *lines) quick(line []byte) bool {
	if !l.ready.Load() {
		return false
	}
	head := line[:min(len(line), 256)]
	tail := line[max(0, len(line)-256):]
	near := func(mark []byte) bool { return bytes.Contains(head, mark) || bytes.Contains(tail, mark) }
	if !near(callMark) && !near(listMark) && !near(cancelMark) {
		return false
	}
	o, err := op.ParseJSON(line)
	if err != nil || o["jsonrpc"] != "2.0" {
		return false
	}
	params, _ := o["params"].(op.Object)
	if o["method"] == "notifications/cancelled" && len(o) == 3 {
		return l.cancelled(params)
	}
	id, ok := idOf(o["id"])
	if !ok {
		return false
	}
	switch {
	case o["method"] == "tools/list" && (len(o) == 3 || len(o) == 4 && params != nil && len(params) == 0):
		l.write(response(id, l.offer.list))
		return true
	case o["method"] == "tools/call" && len(o) == 4:
		return l.call(id, params)
	}
	return false
}

// idOf gives a request's id as it is written.
func idOf(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return string(op.AppendString(nil, v)), true
	case int64:
		return strconv.FormatInt(v, 10), true
	}
	return "", false
}

func response(id string, result []byte) []byte {
	b := make([]byte, 0, len(id)+len(result)+40)
	b = append(append(append(b, `{"jsonrpc":"2.0","id":`...), id...), `,"result":`...)
	return append(append(b, result...), '}', '\n')
}

// call runs a tool beside the reading of further messages.
func (l *lines) call(id string, params op.Object) bool {
	name, _ := params["name"].(string)
	t := l.offer.tools.byName[name]
	args, given := params["arguments"].(op.Object)
	for k, v := range params {
		switch k {
		case "name":
		case "arguments":
			if v != nil && !given {
				return false
			}
		case "_meta":
			// A progress token alone changes nothing here: what waits is the SDK's.
			if m, ok := v.(op.Object); !ok || len(m) > 1 || len(m) == 1 && m["progressToken"] == nil {
				return false
			}
		default:
			return false
		}
	}
	if t == nil || t.waits || t.changes && l.elicits {
		return false
	}
	ctx, cancel := context.WithCancel(l.ses.ctx)
	l.mu.Lock()
	_, twice := l.flying[id]
	if !twice {
		l.flying[id] = cancel
	}
	l.mu.Unlock()
	if twice {
		cancel()
		return false
	}
	l.room <- struct{}{}
	l.calls.Add(1)
	go func() {
		defer l.calls.Done()
		a := l.run(ctx, t, args)
		l.mu.Lock()
		delete(l.flying, id)
		l.mu.Unlock()
		if ctx.Err() == nil { // nobody wants the answer of a cancelled call
			l.write(a.response(id))
		}
		cancel()
		<-l.room
	}()
	return true
}

func (l *lines) run(ctx context.Context, t *tool, args op.Object) answer {
	c, err := l.server.caller(ctx, l.ses)
	if err != nil {
		return failed(err)
	}
	if args == nil {
		args = op.Object{}
	}
	return t.run(ctx, c, args)
}

func (l *lines) cancelled(params op.Object) bool {
	id, ok := idOf(params["requestId"])
	if !ok {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	cancel := l.flying[id]
	if cancel == nil {
		return false
	}
	cancel()
	return true
}

// response writes a tool's result without going over the text twice.
func (a answer) response(id string) []byte {
	facts := a.structured()
	b := make([]byte, 0, len(a.text)+len(a.text)/8+len(a.image)+len(facts)+len(id)+160)
	b = append(append(append(b, `{"jsonrpc":"2.0","id":`...), id...), `,"result":{"content":[{"type":"text","text":`...)
	b = op.AppendString(b, strings.ToValidUTF8(a.text, "\uFFFD"))
	if a.image != "" {
		b = append(append(b, `},{"type":"image","data":"`...), a.image...)
		b = append(append(append(b, `","mimeType":"`...), a.mime...), '"')
	}
	b = append(append(b, `}],"structuredContent":`...), facts...)
	if a.isError {
		b = append(b, `,"isError":true`...)
	}
	return append(b, '}', '}', '\n')
}
