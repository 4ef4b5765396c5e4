// Package flow ties the stages together: look, judge, hold or run, record. It is the only
// place that knows their order, and Engine.Call is that order, told once.
//
// It decides nothing itself and touches no file itself.
package flow

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"holdpoint/audit"
	"holdpoint/fileops"
	"holdpoint/internal/journal"
	"holdpoint/op"
	"holdpoint/preflight"
	"holdpoint/review"
	"holdpoint/trusted"
	"holdpoint/undo"
)

// Config is what the operator set. New fills in what is zero.
type Config struct {
	Version    string
	Host       string // shown on cards
	MachineID  string // part of root keys
	User       string
	Settings                 // may change while the daemon runs: Reload
	Excludes   []string      // lines of the user's global git excludes
	Keep       time.Duration // life of undo credentials
	StoreMax   int64         // bytes that all stores together may hold; 10 GiB where zero
	MaxWaiting int
	ReviewURL  func(op.ID) string
	ReviewAuth string              // passphrase, passkey or token
	AsRoot     bool                // said in status
	Socket     string              // where the daemon is asked; no root may hold it
	Store      string              // "" or "in-root"
	Relaxed    bool                // changes are not flushed; the journal was opened so
	Getenv     func(string) string // the daemon's environment; empty when nil
	AllowYolo  bool                // the operator's leave, given at start-up
	Process    ProcessConfig
	Aside      fileops.Aside // where parsers of documents run; nil: in this process
	Now        func() time.Time
}

// Engine is one daemon's mind: every call of every bridge comes through it.
type Engine struct {
	cfg     Config
	jrn     *journal.Journal
	log     *audit.Log
	trust   *trusted.Live // may be nil: no trusted automation
	queue   *review.Queue
	keeper  *undo.Keeper
	sealer  *preflight.Sealer
	once    keyed // one call at a time for each request id
	holding keyed // one card at a time for each token and call, so that the same call twice is one card
	procs   processes
	known   known
	live    atomic.Pointer[Settings]
	fault   atomic.Pointer[string] // of the configuration on disk, for status
	made    made                   // profiles that operators made through the API
	events  events
	served  served // what was shown, for diffs
	drift   drift  // marks pending cards whose facts moved
	// audited names the journal's audit lines that the log has but a power cut may still take.
	audited keys
	room    room // of the stores
	counts  counts
	denied  denied
	hurt    hurt // rows of the queue that are not as they were written
	roster  roster
	// passkeys are the touches that people are asked for at this moment.
	passkeys review.Passkeys
	// unrecorded holds rows that ended and whose end the journal could not take, by id:
	// whoever asks learns what happened, until the next start completes the record.
	unrecorded sync.Map

	mu    sync.RWMutex // guards roots
	roots []*Workspace
}

// New makes an engine over an open journal and audit log, which stay the caller's to close.
func New(cfg Config, j *journal.Journal, l *audit.Log, t *trusted.Live) *Engine {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Getenv == nil {
		cfg.Getenv = func(string) string { return "" }
	}
	if cfg.Keep == 0 {
		cfg.Keep = undo.DefaultKeep
	}
	if cfg.MaxWaiting == 0 {
		cfg.MaxWaiting = defaultWaiting
	}
	e := &Engine{cfg: cfg, jrn: j, log: l, trust: t, keeper: undo.New(j.Key(), cfg.Now, cfg.Keep), sealer: preflight.NewSealer(j.Key())}
	e.live.Store(cfg.Settings.complete())
	e.passkeys.Now = cfg.Now
	e.queue = &review.Queue{Journal: j, Now: cfg.Now, MaxWaiting: cfg.MaxWaiting, ReviewURL: cfg.ReviewURL, Deadline: e.deadline, OnTimeout: e.onTimeout, Lapsed: e.ended}
	return e
}

// defaultDeadline is how long a card waits for a person, for every tier.
const defaultDeadline = 60 * time.Minute

// defaultWaiting is how many cards wait at once, of all callers together.
const defaultWaiting = 20_000

func (e *Engine) deadline(t op.Tier) time.Duration {
	if d, ok := e.settings().Deadlines[t]; ok {
		return d
	}
	return defaultDeadline
}

func (e *Engine) onTimeout(t op.Tier) string {
	if w := e.settings().OnTimeout[t]; w != "" {
		return w
	}
	return journal.Lapse
}

// keys collects names until somebody takes them all.
type keys struct {
	mu   sync.Mutex // guards list
	list []string
}

func (k *keys) add(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list = append(k.list, key)
}

func (k *keys) take() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := k.list
	k.list = nil
	return list
}

// Tidy flushes the audit log and lets the journal forget the lines it has, announces
// cards whose time is over, and drops what is kept no longer. Nothing that must hold
// depends on when it runs.
func (e *Engine) Tidy(ctx context.Context) {
	if done := e.audited.take(); len(done) > 0 {
		if head, err := e.log.Head(); err == nil { // flushes
			e.jrn.ClearAudit(ctx, done...)
			e.keepHead(ctx, head)
		}
	}
	e.Expire(ctx)
	e.prune(ctx)
	e.dropOutput()
}

// MetaAuditHead is where the journal keeps the audit log's head, so that a tail that was
// cut off shows at the next start.
const MetaAuditHead = "audit_head"

func (e *Engine) keepHead(ctx context.Context, h audit.Head) {
	if b, err := json.Marshal(h); err == nil {
		e.jrn.SetMeta(ctx, MetaAuditHead, string(b))
	}
}

// RootDirs lists the canonical directories of the roots.
func (e *Engine) RootDirs() []string {
	e.mu.RLock()
	defer e.mu.RUnlock()
	var dirs []string
	for _, w := range e.roots {
		dirs = append(dirs, w.Root.Dir())
	}
	return dirs
}

// Close releases the roots.
func (e *Engine) Close() {
	e.StopProcesses()
	e.procs.runs.done.Wait()
	e.drift.close()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.roots {
		_ = e.leave(context.Background(), w) // the next start looks for itself then
		w.close()
	}
	e.roots = nil
}

// workspace finds the root that a call means: the one it names by name or key, else the
// only one its token may use.
func (e *Engine) workspace(by op.Caller, named string) (*Workspace, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	var mine []*Workspace
	for _, w := range e.roots {
		if mayUse(by, w) {
			mine = append(mine, w)
		}
	}
	if named == "" {
		switch len(mine) {
		case 1:
			return mine[0], nil
		case 0:
			return nil, op.Fail(op.UnknownRoot, "no workspace is registered that this token may use").In("root")
		}
		return nil, op.Fail(op.UnknownRoot, "several workspaces are registered; the call must name one").In("root").Do("status lists their names and keys")
	}
	for _, w := range mine {
		if named == w.Name || named == w.Key {
			return w, nil
		}
	}
	return nil, op.Fail(op.UnknownRoot, "no workspace has this name or key").In("root").Do("status lists names and keys")
}

func mayUse(by op.Caller, w *Workspace) bool {
	if len(by.Roots) == 0 {
		return true
	}
	for _, k := range by.Roots {
		if k == w.Key || k == w.Name {
			return true
		}
	}
	return false
}

// byKey finds a root by its key alone; nil when it is not registered.
func (e *Engine) byKey(key string) *Workspace {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, w := range e.roots {
		if w.Key == key {
			return w
		}
	}
	return nil
}

// keyed lets one holder at a time have each key.
type keyed struct {
	mu   sync.Mutex
	held map[string]chan struct{}
}

// lock waits for the key and returns its unlock; the empty key is never shared.
func (k *keyed) lock(ctx context.Context, key string) (func(), error) {
	if strings.HasSuffix(key, "\x00") {
		return func() {}, nil
	}
	for {
		k.mu.Lock()
		if k.held == nil {
			k.held = map[string]chan struct{}{}
		}
		busy := k.held[key]
		if busy == nil {
			mine := make(chan struct{})
			k.held[key] = mine
			k.mu.Unlock()
			return func() {
				k.mu.Lock()
				delete(k.held, key)
				k.mu.Unlock()
				close(mine)
			}, nil
		}
		k.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, op.Fail(op.Cancelled, "the caller went away").Because(ctx.Err())
		}
	}
}
