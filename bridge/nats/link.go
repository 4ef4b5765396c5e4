package nats

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"holdpoint/op"
)

// Root is a workspace as others name it.
type Root struct {
	Key  string `json:"key"`
	Name string `json:"name"`
}

// Config is what a daemon shares. All must be set but what says otherwise.
type Config struct {
	Daemon  string // its id: a label that no other daemon has
	Host    string
	Version string
	Hub     HubKey // zero: cards are mirrored without what they show
	Roots   func() []Root
	Calls   func(Root) http.Handler // requests of agents, as over HTTP
	Answers func(Root) http.Handler // signed answers of reviewers
	Cards   Source
	Lines   Lines
	Beat    time.Duration // between signs of life; 10 s where zero
}

// Link is a daemon's connection. It ends with Close, and with nothing else.
type Link struct {
	cfg  Config
	conn *nats.Conn
	js   jetstream.JetStream
	ctx  context.Context // of what keeps the servers informed
	stop context.CancelFunc

	calls   context.Context // of requests
	end     context.CancelFunc
	rooms   map[string]*room // by channel: for requests that run
	running sync.WaitGroup
	keepers sync.WaitGroup
	again   chan struct{} // a connection was made
	notes   notes

	buckets  sync.Map // by name: jetstream.KeyValue, once it was found
	requests atomic.Int64
	bodies   atomic.Int64 // bytes of large ones since their memory was last had back
	mirror   mirror
	claims   claims
	audit    export
}

// How long a link waits: between signs of life, for a stream to take something, and before it
// tries again what failed.
const (
	beat     = 10 * time.Second
	jsWait   = 3 * time.Second
	quickest = 200 * time.Millisecond
	slowest  = 5 * time.Second
)

// Open connects and serves. It returns at once, connected or not.
func Open(o Options, cfg Config) (*Link, error) {
	if cfg.Beat == 0 {
		cfg.Beat = beat
	}
	o.Inbox = cfg.Daemon
	l := &Link{cfg: cfg, rooms: map[string]*room{Call: newRoom(most, mostOfOne), Answer: newRoom(mostSaid, mostSaid)}, again: make(chan struct{}, 1)}
	l.notes.say = o.Say
	c, err := Connect(o)
	if err != nil {
		return nil, err
	}
	if l.js, err = jetstream.New(c, jetstream.WithDefaultTimeout(jsWait)); err != nil {
		c.Close()
		return nil, op.Fail(op.Internal, "NATS cannot be used").Because(err)
	}
	l.conn = c
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.calls, l.end = context.WithCancel(context.Background())
	l.claims.held = map[string]*claim{}
	l.mirror.known = map[op.ID]mirrored{}
	status := c.StatusChanged(nats.CONNECTED)
	for _, part := range []func(){func() { l.watch(status) }, l.keepClaims, l.keepMirror, l.keepAudit} {
		l.keepers.Add(1)
		go func() { defer l.keepers.Done(); part() }()
	}
	return l, nil
}

// watch wakes what has to catch up when a connection was made.
func (l *Link) watch(status chan nats.Status) {
	for {
		select {
		case _, ok := <-status:
			if !ok {
				return
			}
			l.mirror.wakeAll()
			l.audit.wake()
			select {
			case l.again <- struct{}{}:
			default:
			}
		case <-l.ctx.Done():
			return
		}
	}
}

// parting is how long requests that run may still take.
const parting = 5 * time.Second

// Close stops serving, gives the claims back and lets requests that run finish within a
// bound. What was not mirrored is caught up with at the next start.
func (l *Link) Close() {
	l.stop()
	l.keepers.Wait()
	l.leave()
	late := time.AfterFunc(parting, l.end)
	l.running.Wait()
	late.Stop()
	l.end()
	if l.conn.IsConnected() {
		l.conn.FlushTimeout(parting)
	}
	l.conn.Close()
}

// State is what status and the metrics tell.
type State struct {
	Connected  bool     `json:"connected"`
	Server     string   `json:"server,omitempty"`
	Serves     []string `json:"serves"`           // keys of the roots that are served over NATS now
	Unmirrored int      `json:"cards_behind"`     // changes of cards that the bucket does not have yet
	Audit      int64    `json:"audit_copied"`     // number of the last audit line that the stream has
	Foreign    int64    `json:"foreign_writes"`   // entries of this daemon's subjects that it did not write
	Requests   int64    `json:"requests"`         // served over NATS since the start
	Fault      string   `json:"fault,omitempty"`  // the last one, while it lasts
	Reconnect  uint64   `json:"reconnects_total"` // since the start
}

// State tells how the link does.
func (l *Link) State() State {
	s := State{Connected: l.conn.IsConnected(), Serves: l.claims.keys(), Unmirrored: l.mirror.behind(), Audit: l.audit.copied.Load(),
		Foreign: l.mirror.foreign.Load() + l.audit.foreign.Load(), Requests: l.requests.Load(), Fault: l.notes.last(), Reconnect: l.conn.Stats().Reconnects}
	if s.Connected {
		s.Server = l.conn.ConnectedUrlRedacted()
	}
	return s
}

// bucket gives a bucket. It is asked for once: a fleet that asked at each sign of life would
// keep the servers busy with that alone.
func (l *Link) bucket(ctx context.Context, name string) (jetstream.KeyValue, error) {
	if kv, ok := l.buckets.Load(name); ok {
		return kv.(jetstream.KeyValue), nil
	}
	kv, err := l.js.KeyValue(ctx, name)
	if err == nil {
		l.buckets.Store(name, kv)
	}
	return kv, err
}

// notes tells each trouble once, and keeps the one that lasts.
type notes struct {
	say func(string)

	mu   sync.Mutex // guards the rest
	held map[string]string
}

func (l *Link) note(s string) { l.notes.trouble("", s) }

func (n *notes) trouble(part, s string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.held == nil {
		n.held = map[string]string{}
	}
	if n.held[part] != s && n.say != nil {
		n.say("nats: " + s)
	}
	n.held[part] = s
}

func (n *notes) over(part string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.held, part)
}

func (n *notes) last() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.held {
		return s
	}
	return ""
}

// pause waits between attempts, longer with each, and reports whether to go on.
func (l *Link) pause(failures int, wake <-chan struct{}) bool {
	d := slowest
	if failures < 8 {
		d = min(quickest<<max(failures, 0), slowest)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-wake:
	case <-l.ctx.Done():
		return false
	}
	return true
}
