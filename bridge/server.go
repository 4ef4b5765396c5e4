// Package bridge is how callers reach the engine: HTTP with JSON on a unix socket and, if
// asked, on loopback. It knows identity and roles, and the words on the wire.
//
// It decides nothing about a call and touches no file of a workspace.
package bridge

import (
	"context"
	"net/http"
	"sync"
	"time"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

// Engine is what a bridge needs of the flow. Values of type any are answers that travel
// as JSON unchanged.
type Engine interface {
	Caller(ctx context.Context, secret string) (op.Caller, journal.Token, error)
	CheckPassphrase(ctx context.Context, passphrase string) error
	Call(ctx context.Context, by op.Caller, req op.Request, warnings []op.Warning) op.Reply
	Malformed(by op.Caller, name op.Name, err error) op.Reply
	Preflight(ctx context.Context, by op.Caller, req op.Request, warnings []op.Warning) (any, *op.Error)
	Facts(ctx context.Context, by op.Caller, root string, paths []string, page op.Page) (any, *op.Error)
	EachApproval(ctx context.Context, by op.Caller, state string, each func(card any) error) error
	ApprovalPage(ctx context.Context, by op.Caller, f journal.ApprovalFilter) (any, error)
	Approval(ctx context.Context, by op.Caller, id op.ID, wait time.Duration) (any, error)
	WholeDiff(ctx context.Context, by op.Caller, id op.ID) (any, error)
	Answer(ctx context.Context, by op.Caller, id op.ID, a journal.Answer) (any, error)
	AnswerCarried(ctx context.Context, root string, id op.ID, a journal.Answer, proof []byte) (any, error)
	Cancel(ctx context.Context, by op.Caller, id op.ID) error
	Operations(ctx context.Context, by op.Caller, f journal.Filter) (any, error)
	Operation(ctx context.Context, by op.Caller, id op.ID) (any, error)
	Sessions(ctx context.Context, by op.Caller, root string, since time.Time) (any, error)
	Elsewhere(ctx context.Context, by op.Caller, root string, since time.Time, ours []string) (any, error)
	Output(ctx context.Context, by op.Caller, id op.ID, stream string, offset, tail int64, limit int) (any, error)
	Runs(ctx context.Context, by op.Caller) (any, error)
	Run(ctx context.Context, by op.Caller, id op.ID) (any, error)
	StopRun(ctx context.Context, by op.Caller, id op.ID) (any, error)
	Follow(ctx context.Context, by op.Caller, id op.ID, at map[string]int64, found func(), send func(piece []byte, now map[string]int64) error) (run []byte, err error)
	Attach(ctx context.Context, by op.Caller, id op.ID) (leave func(), err error)
	TypeInto(ctx context.Context, by op.Caller, id op.ID, b []byte) error
	Resize(ctx context.Context, by op.Caller, id op.ID, rows, cols int64) error
	Status(ctx context.Context, by op.Caller) (any, error)
	Tokens(ctx context.Context) ([]journal.Token, error)
	CreateToken(ctx context.Context, s TokenRequest) (journal.Token, string, error)
	RevokeToken(ctx context.Context, id op.ID) error
	Denied(where string, err error)
	AddRoot(ctx context.Context, name, dir string) (any, error)
	RemoveRoot(ctx context.Context, name string) error
	Protection(ctx context.Context, by op.Caller, root, path string) (any, error)
	Rules(ctx context.Context, by op.Caller, all bool) (any, error)
	Grant(ctx context.Context, by op.Caller, r RuleRequest) (any, error)
	SetMode(ctx context.Context, by op.Caller, r RuleRequest) (any, error)
	EndModes(ctx context.Context, by op.Caller, r RuleRequest) (any, error)
	RevokeRule(ctx context.Context, by op.Caller, id op.ID) (any, error)
	RuleReach(ctx context.Context, by op.Caller, id op.ID) (any, error)
	Clean(ctx context.Context, by op.Caller, c CleanRequest) op.Reply
	Profiles(ctx context.Context) (any, error)
	PutProfile(ctx context.Context, by op.Caller, name string, parameters op.Object) (any, error)
	DeleteProfile(ctx context.Context, by op.Caller, name string) error
	UseProfile(ctx context.Context, by op.Caller, name, agent string) (any, error)
	AuditTail(n int) (any, error)
	AuditHead() (any, error)
	AuditVerify(head []byte) (any, error)
	NetDiff(ctx context.Context, by op.Caller, root string, operations []string) (any, error)
	Collect(ctx context.Context, by op.Caller, dryRun bool, now op.ID) (any, error)
	Forget(ctx context.Context, by op.Caller, root, what string) (any, error)
	Export(ctx context.Context, by op.Caller, id op.ID) (any, error)
	Verify(ctx context.Context, by op.Caller, repair bool) (any, error)
	Replay(ctx context.Context) (any, error)
	Subscribe(after int64) (past []Event, more <-chan Event, cancel func())
	Changes(ctx context.Context, by op.Caller, root, cursor string, wait time.Duration) (any, error)
	// WatchRoot has changes of a root come as events until release, and gives the first.
	WatchRoot(ctx context.Context, by op.Caller, root string) (key string, first Event, release func(), err error)
	People
}

// TokenRequest asks for a token.
type TokenRequest struct {
	Name, Workflow, Profile string
	Role                    op.Role
	Roots                   []string
	Clearance               int
	Expires                 time.Duration
}

// Event is one line of the event stream. Sees tells whether a caller may learn of it.
type Event struct {
	Seq  int64
	Type string
	Root string // key; empty: of none
	JSON []byte
	Sees func(op.Caller) bool
}

// Limits of what the bridge reads, in bytes, and of how long it waits.
const (
	MaxBody   = 32 << 20
	MaxHeader = 32 << 10
	maxWait   = 60 * time.Second
)

// Server serves the API. Ready is asked by /readyz.
type Server struct {
	Engine Engine
	Ready  func() bool
	// MCP serves /mcp and, as an upgrade to lines, /v1/mcp; nil where it is not built in.
	MCP func(w http.ResponseWriter, r *http.Request, by op.Caller)
	// Answers takes answers in place of the engine; nil but on a hub, which carries them on.
	Answers func(w http.ResponseWriter, r *http.Request, by op.Caller)
	// Page serves the review page's files, which hold no data; nil where it is not built in.
	Page http.Handler
	// Shapes gives, by route, a value of the type of its answers, for the document of the API.
	Shapes map[string]any
	// Metrics writes the counters; nil where there are none.
	Metrics func(w http.ResponseWriter, r *http.Request)
	Version string
	// SignIn signs people in by an identity provider; nil where there is none.
	SignIn *SignIn
	// PublicURL is where people reach the page; empty where that is not known.
	PublicURL string
	// Sessions of people who logged in with the passphrase: in memory only.
	sessions sessions
	pairing  pairing
	doors    doors
	login    sync.Mutex // one passphrase at a time: Argon2 is meant to be slow

	describe    sync.Once
	description object
	patterns    []string // of the routes, in order
}

// New makes a server over an engine.
func New(e Engine) *Server { return &Server{Engine: e, Ready: func() bool { return true }} }

// Handler gives the routes. Calls from outside a unix socket pass through Guard first.
func (s *Server) Handler() http.Handler {
	m := &routes{ServeMux: http.NewServeMux()}
	m.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok\n")) })
	m.HandleFunc("GET /readyz", s.readyz)
	m.HandleFunc("POST /v1/login", s.postLogin)
	m.HandleFunc("GET /v1/login", s.getLogin)
	m.HandleFunc("GET /v1/login/provider", s.getSignIn)
	m.HandleFunc("GET /v1/login/provider/done", s.getSignedIn)
	m.HandleFunc("POST /v1/login/provider/claim", s.postSignedIn)
	m.HandleFunc("POST /v1/pair", s.role(op.Reviewer, s.steady(s.postPair)))
	m.HandleFunc("POST /v1/pair/claim", s.postClaim)
	m.HandleFunc("GET /v1/me", s.anyRole(s.getMe))
	m.HandleFunc("GET /v1/reviewers", s.role(op.Reviewer, unbound(s.getReviewers)))
	m.HandleFunc("POST /v1/reviewers", s.role(op.Operator, s.steady(s.postReviewer)))
	m.HandleFunc("DELETE /v1/reviewers/{id}", s.role(op.Operator, s.steady(s.deleteReviewer)))
	m.HandleFunc("POST /v1/passkeys/begin", s.role(op.Reviewer, s.postPasskeyBegin))
	m.HandleFunc("POST /v1/passkeys", s.role(op.Reviewer, s.postPasskey))
	m.HandleFunc("POST /v1/approvals/{id}/challenge", s.role(op.Reviewer, s.postChallenge))
	m.HandleFunc("POST /v1/call", s.role(op.Agent, s.postCall))
	m.HandleFunc("POST /v1/preflight", s.role(op.Agent, s.postPreflight))
	m.HandleFunc("POST /v1/undo", s.anyRole(s.postUndo))
	m.HandleFunc("GET /v1/approvals", s.anyRole(s.getApprovals))
	m.HandleFunc("GET /v1/approvals/{id}", s.anyRole(s.getApproval))
	m.HandleFunc("GET /v1/approvals/{id}/diff", s.anyRole(s.getWholeDiff))
	m.HandleFunc("POST /v1/approvals/{id}/answer", s.anyRole(s.postAnswer)) // the queue refuses and records who may not
	m.HandleFunc("POST /v1/approvals/{id}/cancel", s.anyRole(s.postCancel))
	m.HandleFunc("GET /v1/operations", s.anyRole(s.getOperations))
	m.HandleFunc("GET /v1/operations/{id}", s.anyRole(s.getOperation))
	m.HandleFunc("GET /v1/operations/{id}/kept", s.anyRole(s.getExport))
	m.HandleFunc("GET /v1/sessions", s.anyRole(s.getSessions))
	m.HandleFunc("GET /v1/runs", s.anyRole(s.getRuns))
	m.HandleFunc("GET /v1/runs/{id}", s.anyRole(s.getRun))
	m.HandleFunc("GET /v1/runs/{id}/output", s.anyRole(s.getOutput))
	m.HandleFunc("GET /v1/runs/{id}/events", s.anyRole(s.getRunEvents))
	m.HandleFunc("POST /v1/runs/{id}/stop", s.anyRole(s.postRunStop))
	m.HandleFunc("POST /v1/runs/{id}/input", s.anyRole(s.postRunInput))
	m.HandleFunc("POST /v1/runs/{id}/resize", s.anyRole(s.postRunResize))
	m.HandleFunc("POST /v1/diff", s.anyRole(s.postDiff))
	m.HandleFunc("POST /v1/elsewhere", s.anyRole(s.postElsewhere))
	m.HandleFunc("POST /v1/gc", s.anyRole(s.postCollect))
	m.HandleFunc("POST /v1/forget", s.role(op.Operator, s.postForget))
	m.HandleFunc("GET /v1/replay", s.role(op.Observer, unbound(s.getReplay)))
	m.HandleFunc("POST /v1/verify", s.role(op.Observer, unbound(s.postVerify)))
	m.HandleFunc("GET /v1/events", s.anyRole(s.getEvents))
	m.HandleFunc("GET /v1/changes", s.anyRole(s.getChanges))
	m.HandleFunc("GET /v1/status", s.anyRole(s.getStatus))
	m.HandleFunc("GET /v1/table", s.anyRole(s.getTable))
	m.HandleFunc("GET /v1/tokens", s.role(op.Operator, s.getTokens))
	m.HandleFunc("POST /v1/tokens", s.role(op.Operator, s.steady(s.postToken)))
	m.HandleFunc("PUT /v1/tokens", s.role(op.Operator, s.steady(s.postToken)))
	m.HandleFunc("DELETE /v1/tokens/{id}", s.role(op.Operator, s.deleteToken))
	m.HandleFunc("DELETE /v1/tokens", s.role(op.Operator, named("id", s.deleteToken)))
	m.HandleFunc("GET /v1/roots", s.anyRole(s.getStatus))
	m.HandleFunc("POST /v1/roots", s.role(op.Operator, s.postRoot))
	m.HandleFunc("DELETE /v1/roots/{name}", s.role(op.Operator, s.deleteRoot))
	m.HandleFunc("POST /v1/clean", s.role(op.Agent, s.postClean))
	m.HandleFunc("GET /v1/profiles", s.role(op.Operator, s.getProfiles))
	m.HandleFunc("PUT /v1/profiles", s.role(op.Operator, s.steady(s.putProfile)))
	m.HandleFunc("DELETE /v1/profiles/{name}", s.role(op.Operator, s.steady(s.deleteProfile)))
	m.HandleFunc("DELETE /v1/profiles", s.role(op.Operator, s.steady(named("name", s.deleteProfile))))
	m.HandleFunc("PUT /v1/profiles/{name}/agents", s.role(op.Operator, s.steady(s.putProfileUse)))
	m.HandleFunc("GET /v1/rules", s.role(op.Reviewer, s.getRules))
	m.HandleFunc("PUT /v1/rules", s.role(op.Reviewer, s.steady(s.putRule)))
	m.HandleFunc("DELETE /v1/rules/{id}", s.role(op.Reviewer, s.steady(s.deleteRule)))
	m.HandleFunc("DELETE /v1/rules", s.role(op.Reviewer, s.steady(named("id", s.deleteRule))))
	m.HandleFunc("GET /v1/mode", s.role(op.Reviewer, s.getRules))
	m.HandleFunc("PUT /v1/mode", s.role(op.Reviewer, s.steady(s.putMode)))
	m.HandleFunc("DELETE /v1/mode/{id}", s.role(op.Reviewer, s.steady(s.deleteRule)))
	m.HandleFunc("DELETE /v1/mode", s.role(op.Reviewer, s.steady(s.deleteMode)))
	m.HandleFunc("GET /v1/approvals/{id}/reach", s.role(op.Reviewer, s.getReach))
	m.HandleFunc("GET /v1/protect", s.anyRole(s.getProtect))
	m.HandleFunc("GET /v1/protect/test", s.anyRole(s.getProtect))
	m.HandleFunc("GET /v1/audit", s.role(op.Observer, unbound(s.getAudit)))
	m.HandleFunc("GET /v1/audit/head", s.role(op.Observer, unbound(s.getAuditHead)))
	m.HandleFunc("POST /v1/audit/verify", s.role(op.Observer, unbound(s.postAuditVerify)))
	m.HandleFunc("GET /{$}", s.toPage)
	m.HandleFunc("GET /page/", s.toPage)
	m.HandleFunc("/mcp", s.role(op.Agent, s.toMCP))
	m.HandleFunc("GET /v1/mcp", s.role(op.Agent, s.toMCP))
	m.HandleFunc("GET /openapi.json", s.getOpenAPI)
	m.HandleFunc("GET /metrics", s.anyRole(s.getMetrics))
	m.HandleFunc("/", s.anyRole(func(w http.ResponseWriter, r *http.Request, _ op.Caller) {
		fail(w, op.Fail(op.NotFound, "no such route").Do("GET /openapi.json lists the routes and their methods"))
	}))
	s.patterns = m.patterns
	return m
}

// getMetrics tells numbers of the whole daemon: no name, path or content is among them.
func (s *Server) getMetrics(w http.ResponseWriter, r *http.Request, _ op.Caller) {
	if s.Metrics == nil {
		fail(w, op.Fail(op.NotAvailable, "metrics are not in this build"))
		return
	}
	s.Metrics(w, r)
}

func (s *Server) toMCP(w http.ResponseWriter, r *http.Request, by op.Caller) {
	if s.MCP == nil {
		fail(w, op.Fail(op.NotAvailable, "MCP is not in this build"))
		return
	}
	s.MCP(w, r, by)
}

// toPage takes no token: what a person sees of the daemon comes later, with theirs.
func (s *Server) toPage(w http.ResponseWriter, r *http.Request) {
	if s.Page == nil {
		fail(w, op.Fail(op.NotAvailable, "the review page is not in this build"))
		return
	}
	s.Page.ServeHTTP(w, r)
}

func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	if !s.Ready() {
		fail(w, op.Fail(op.NotReady, "the daemon is starting or stopping"))
		return
	}
	w.Write([]byte("ok\n"))
}
