package mcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holdpoint/op"
)

// Server serves any number of clients over an engine. Close ends them.
type Server struct {
	engine  Engine
	version string
	clients atomic.Int64
	ctx     context.Context // ends with Close: what was opened here ends then
	stop    context.CancelFunc
	done    sync.WaitGroup
	named   http.Handler // streamable HTTP with sessions, up to 2025-11-25
	single  http.Handler // one request at a time, from 2026-07-28 on

	mu     sync.Mutex // guards offers, and their feeds
	offers map[Options]*offer
}

// offer is what all clients with the same options share.
type offer struct {
	tools *toolset
	sdk   *sdk.Server
	list  []byte           // the result of tools/list
	feeds map[string]*feed // by directory; guarded by Server.mu
}

// firstSingle is the first protocol version without sessions.
const firstSingle = "2026-07-28"

// New makes a server.
func New(e Engine, version string) *Server {
	s := &Server{engine: e, version: version, offers: map[Options]*offer{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	get := func(r *http.Request) *sdk.Server {
		if o, err := s.chosen(r); err == nil {
			return s.offer(o).sdk
		}
		return nil
	}
	check := auth.RequireBearerToken(s.verify, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})
	s.named = check(sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{SessionTimeout: 2 * time.Hour, MaxRequestBodyBytes: maxLine}))
	s.single = check(sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{Stateless: true, MaxRequestBodyBytes: maxLine, PropagateRequestCancellation: true}))
	return s
}

// Clients tells how many connections of lines are open.
func (s *Server) Clients() int64 { return s.clients.Load() }

// Close ends every client and waits for what still runs.
func (s *Server) Close() {
	s.stop()
	s.done.Wait()
}

func (s *Server) chosen(r *http.Request) (Options, error) {
	q := r.URL.Query()
	return ParseOptions(q.Get("tools"), q.Get("compat") == "1" || q.Get("compat") == "true")
}

func (s *Server) offer(o Options) *offer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.offers[o]; f != nil {
		return f
	}
	f := &offer{tools: newToolset(o), feeds: map[string]*feed{}}
	can := &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}}
	with := &sdk.ServerOptions{Instructions: instructions, Capabilities: can}
	if o.Read {
		can.Resources = &sdk.ResourceCapabilities{Subscribe: true}
		with.SubscribeHandler, with.UnsubscribeHandler = s.subscribe(f), s.unsubscribe(f)
	}
	f.sdk = sdk.NewServer(&sdk.Implementation{Name: "holdpoint", Title: "Holdpoint", Version: s.version}, with)
	if o.Read {
		f.sdk.AddReceivingMiddleware(s.resourceCalls)
	}
	list := &sdk.ListToolsResult{Cacheable: sdk.Cacheable{CacheScope: "private"}}
	for _, t := range f.tools.list {
		shown := &sdk.Tool{Name: t.name, Title: t.title, Description: t.about, InputSchema: json.RawMessage(t.input), OutputSchema: json.RawMessage(t.output),
			Annotations: &sdk.ToolAnnotations{ReadOnlyHint: t.readOnly, DestructiveHint: &t.destructive, IdempotentHint: t.idempotent, OpenWorldHint: &t.openWorld}}
		f.sdk.AddTool(shown, s.handler(t))
		list.Tools = append(list.Tools, shown)
	}
	f.list = encode(list)
	f.sdk.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == "tools/list" {
				shown := *list
				return &shown, nil
			}
			return next(ctx, method, req)
		}
	})
	s.offers[o] = f
	return f
}

const instructions = "Files of one workspace. Small reversible changes run at once and return an undo id; riskier ones are held for a person: " +
	"then call approval_wait with the approval id, and do not send the call again. Paths are relative to the workspace. " +
	"intent, where a tool has it, is why you do this, in the user's words; the reviewer sees it."

// session is what stays the same for one client: its token's secret, which is looked up
// anew at each call, and where it works.
type session struct {
	ctx                 context.Context // ends when the client goes away
	secret, root, label string
}

const sessionKey = "session"

// verify gives the SDK the owner of a session, so that another token cannot go on with it.
func (s *Server) verify(ctx context.Context, secret string, r *http.Request) (*auth.TokenInfo, error) {
	by, err := s.engine.Caller(ctx, secret)
	if err != nil || by.Role != op.Agent {
		return nil, auth.ErrInvalidToken
	}
	ses := &session{ctx: r.Context(), secret: secret, root: r.URL.Query().Get("root")}
	return &auth.TokenInfo{UserID: string(by.Token), Extra: map[string]any{sessionKey: ses}}, nil
}

// ServeHTTP is the streamable HTTP endpoint. Who may reach it at all, the guard against
// foreign hosts and origins and the content type are settled before.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request, _ op.Caller) {
	if _, err := s.chosen(r); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if !strictBody(w, r) {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	h := s.named
	if r.Header.Get("MCP-Protocol-Version") >= firstSingle {
		h = s.single
	}
	h.ServeHTTP(w, r.WithContext(ctx))
}

// caller finds out anew who calls.
func (s *Server) caller(ctx context.Context, ses *session) (*caller, error) {
	by, err := s.engine.Caller(ctx, ses.secret)
	if err != nil {
		return nil, err
	}
	if by.Role != op.Agent {
		return nil, op.Fail(op.Forbidden, "these tools are an agent's")
	}
	return &caller{engine: s.engine, by: by, root: ses.root, label: ses.label}, nil
}

// use runs one tool for a session. raw may be nil for a tool without arguments.
func (s *Server) use(ctx context.Context, ses *session, t *tool, raw []byte, progress func(context.Context, string)) answer {
	c, err := s.caller(ctx, ses)
	if err != nil {
		return failed(err)
	}
	args := op.Object{}
	if len(raw) > 0 && string(raw) != "null" {
		if args, err = op.ParseJSON(raw); err != nil {
			return worded(s.engine.Malformed(c.by, op.Name(t.name), err), "")
		}
	}
	c.progress = progress
	return t.run(ctx, c, args)
}

// handler is a tool for the SDK.
func (s *Server) handler(t *tool) sdk.ToolHandler {
	return func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		ses := sessionOf(req)
		if ses == nil {
			return nil, op.Fail(op.Unauthenticated, "nobody knows whose session this is")
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(ses.ctx, cancel)()
		defer context.AfterFunc(s.ctx, cancel)()
		if len(req.Params.InputResponses) > 0 {
			if a, ok := s.resumed(ctx, ses, t, req); ok {
				return shown(a), nil
			}
		}
		a := s.use(ctx, ses, t, req.Params.Arguments, progressOf(req))
		if a.held != nil && a.held.ReviewURL != "" && t.changes && len(req.Params.InputResponses) == 0 && opensURLs(req.ClientCapabilities()) {
			return sentTo(a.held), nil
		}
		return shown(a), nil
	}
}

func sessionOf(req sdk.Request) *session {
	extra := req.GetExtra()
	if extra == nil || extra.TokenInfo == nil {
		return nil
	}
	ses, _ := extra.TokenInfo.Extra[sessionKey].(*session)
	return ses
}

func progressOf(req *sdk.CallToolRequest) func(context.Context, string) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return nil
	}
	var mu sync.Mutex // one message at a time, each further on than the last
	n := 0.0
	return func(ctx context.Context, text string) {
		mu.Lock()
		defer mu.Unlock()
		n++
		req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: n, Message: text})
	}
}

func shown(a answer) *sdk.CallToolResult {
	content := []sdk.Content{&sdk.TextContent{Text: a.text}}
	if b, err := base64.StdEncoding.DecodeString(a.image); err == nil && a.image != "" {
		content = append(content, &sdk.ImageContent{Data: b, MIMEType: a.mime})
	}
	return &sdk.CallToolResult{Content: content, StructuredContent: json.RawMessage(a.structured()), IsError: a.isError}
}

func opensURLs(c *sdk.ClientCapabilities) bool {
	return c != nil && c.Elicitation != nil && c.Elicitation.URL != nil
}

// sentTo sends a client that can open an address to where a person answers. The state
// that it carries back is the approval's id, which is no right to anything: the retry may
// come hours later, or to another daemon on the same state.
func sentTo(p *op.Approval) *sdk.CallToolResult {
	return &sdk.CallToolResult{RequestState: string(p.ID), InputRequests: sdk.InputRequestMap{"review": &sdk.ElicitParams{
		Mode: "url", URL: p.ReviewURL, ElicitationID: string(p.ID),
		Message: "A person must answer this: " + op.Visible(p.Title, false)}}}
}

// afterReview is how long a retry waits for an answer that may just be coming in.
const afterReview = 25 * time.Second

// resumed goes on with a call whose client was sent away. What the client says of the
// person's answer counts for nothing; the row does. It is not ok when the state names no
// row of this caller for this tool: then the call is made as any other.
func (s *Server) resumed(ctx context.Context, ses *session, t *tool, req *sdk.CallToolRequest) (answer, bool) {
	c, err := s.caller(ctx, ses)
	if err != nil {
		return failed(err), true
	}
	id := req.Params.RequestState
	if !strings.HasPrefix(id, "ap_") {
		return answer{}, false
	}
	wait := time.Duration(0)
	for _, v := range req.Params.InputResponses {
		if r, ok := v.(*sdk.ElicitResult); ok && r.Action == "accept" {
			wait = afterReview
		}
	}
	v, err := s.engine.Approval(ctx, c.by, op.ID(id), wait)
	if err != nil || string(v.Reply.Op) != t.name {
		return answer{}, false
	}
	return v.worded(), true
}
