package main

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"os"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"holdpoint/audit"
	"holdpoint/bridge"
	natsbridge "holdpoint/bridge/nats"
	"holdpoint/internal/flow"
	"holdpoint/internal/journal"
	"holdpoint/op"
	"holdpoint/review"
)

// natsFlags say which servers a command talks to.
type natsFlags struct {
	url, creds, ca, hubKey string
	insecure               bool
}

func (f *natsFlags) flags(c *cobra.Command, what string) {
	s := c.Flags()
	s.StringVar(&f.url, "nats", "", what)
	s.StringVar(&f.creds, "nats-creds", "", "`FILE` of the user's credentials for NATS")
	s.StringVar(&f.ca, "nats-ca", "", "`FILE` of the authority that signed the servers' certificates (else the system's)")
	s.BoolVar(&f.insecure, "nats-insecure", false, "allow nats:// beyond loopback, without TLS")
}

func (f natsFlags) options(name string, say func(string, ...any)) natsbridge.Options {
	return natsbridge.Options{URL: f.url, Creds: f.creds, CA: f.ca, Insecure: f.insecure, Name: name, Say: func(s string) { say("holdpoint: %s", op.Visible(s, false)) }}
}

// openLink connects the daemon out, where it was told to. Nothing waits for it.
func (o *opened) openLink(s *bridge.Server, f natsFlags, say func(string, ...any)) (*natsbridge.Link, error) {
	hub, err := natsbridge.ParseHubKey(f.hubKey)
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	return natsbridge.Open(f.options("holdpoint "+host, say), o.linkConfig(s, hub, host))
}

func (o *opened) linkConfig(s *bridge.Server, hub natsbridge.HubKey, host string) natsbridge.Config {
	routes, signed := s.Handler(), s.Signed()
	on := func(h http.Handler) func(natsbridge.Root) http.Handler {
		return func(root natsbridge.Root) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h.ServeHTTP(w, r.WithContext(bridge.WithRoot(r.Context(), root.Key, root.Name)))
			})
		}
	}
	return natsbridge.Config{Daemon: o.engine.DaemonID(), Host: host, Version: Version(), Hub: hub, Roots: o.rootNames, Calls: on(routes), Answers: on(signed),
		Cards: cardSource{o}, Lines: &logLines{o: o, log: o.log.Follow()}}
}

func (o *opened) rootNames() []natsbridge.Root {
	var out []natsbridge.Root
	for _, r := range o.engine.Roots() {
		out = append(out, natsbridge.Root{Key: r.Key, Name: r.Name})
	}
	return out
}

// cardSource shows the journal's rows to the mirror.
type cardSource struct{ o *opened }

func (c cardSource) Waiting(ctx context.Context) ([]natsbridge.Card, error) {
	rows, err := c.o.engine.Waiting(ctx)
	out := make([]natsbridge.Card, 0, len(rows))
	for _, r := range rows {
		out = append(out, cardOf(r))
	}
	return out, err
}

func (c cardSource) Card(ctx context.Context, id op.ID) (natsbridge.Card, error) {
	r, err := c.o.engine.RowOf(ctx, id)
	return cardOf(r), err
}

// Changes follows the events; whoever falls behind looks at everything.
func (c cardSource) Changes(ctx context.Context) <-chan op.ID {
	out := make(chan op.ID)
	go func() {
		defer close(out)
		for ctx.Err() == nil {
			_, more, cancel := c.o.engine.Subscribe(math.MaxInt64)
			c.follow(ctx, more, out)
			cancel()
		}
	}()
	return out
}

// follow tells of each event's row, and again when the call that was approved has ended.
func (c cardSource) follow(ctx context.Context, more <-chan flow.Event, out chan<- op.ID) {
	tell := func(id op.ID) bool {
		select {
		case out <- id:
			return true
		case <-ctx.Done():
			return false
		}
	}
	runs := map[op.ID]bool{}
	for ok := tell(""); ok; {
		end := c.o.engine.NextEnd()
		maps.DeleteFunc(runs, func(id op.ID, _ bool) bool {
			row, err := c.o.engine.RowOf(ctx, id)
			over := err != nil || row.State != journal.Approved && row.State != journal.Executing
			return over && tell(id)
		})
		select {
		case ev, open := <-more:
			if !open {
				return
			}
			if id, is := ev.Data["approval_id"].(op.ID); is {
				if ev.Data["state"] == journal.Approved {
					runs[id] = true
				}
				ok = tell(id)
			}
		case <-end:
		case <-ctx.Done():
			return
		}
	}
}

func cardOf(r flow.Row) natsbridge.Card {
	c := natsbridge.Card{Root: r.Root, ID: r.ID, State: r.State, Digest: r.ShownDigest, Created: r.Created, Expires: r.Deadline}
	if r.Answer != nil {
		c.Answered = r.Answer.By
		for _, b := range r.Answer.Before {
			c.Approved = append(c.Approved, b.By)
		}
	}
	if r.State == journal.Pending {
		c.Frozen, c.Drifted = review.Frozen(r.Approval), r.Drifted
	}
	c.Code = failure(r.Reply)
	return c
}

// failure gives the code of a recorded reply that is one.
func failure(reply []byte) op.Code {
	var r struct {
		Error *op.Error `json:"error"`
	}
	if json.Unmarshal(reply, &r) != nil || r.Error == nil {
		return ""
	}
	return r.Error.Code
}

// logLines shows the audit log to the stream.
type logLines struct {
	o   *opened
	log *audit.Follower
}

const metaCopied = "nats_audit_copied"

func (l *logLines) After(_ context.Context, seq int64, n int) ([]natsbridge.Line, error) {
	lines, err := l.log.After(seq, n)
	out := make([]natsbridge.Line, len(lines))
	for i, one := range lines {
		out[i] = natsbridge.Line(one)
	}
	return out, err
}

func (l *logLines) Copied(ctx context.Context) (int64, error) {
	text, err := l.o.journal.Meta(ctx, metaCopied)
	if err != nil || text == "" {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

func (l *logLines) SetCopied(ctx context.Context, seq int64) error {
	return l.o.journal.SetMeta(ctx, metaCopied, strconv.FormatInt(seq, 10))
}

// AnswerCarried tells no more of a card than its state: what it holds is for who may see it.
func (a adapter) AnswerCarried(ctx context.Context, root string, id op.ID, ans journal.Answer, proof []byte) (any, error) {
	var p review.Proof
	if err := json.Unmarshal(proof, &p); err != nil {
		return nil, review.NoProof()
	}
	row, err := a.engine.AnswerCarried(ctx, root, id, ans, p)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"id": row.ID, "state": row.State}
	if code := failure(row.Reply); code != "" {
		out["code"] = code
	}
	return out, nil
}

// statusView is what GET /v1/status answers.
type statusView struct {
	flow.Status
	Daemon string            `json:"daemon"`         // tells it apart from others, such as on the audit stream
	NATS   *natsbridge.State `json:"nats,omitempty"` // how the connection does; not for agents
}

func (o *opened) natsState(by op.Caller) *natsbridge.State {
	link := o.link.Load()
	if link == nil || !by.Role.Includes(op.Observer) || len(by.Roots) > 0 {
		return nil
	}
	s := link.State()
	return &s
}

// natsMeasured is how the connection does, where there is one.
type natsMeasured struct{ o *opened }

// natsMetrics are the metrics of the connection, and how each is read from its state.
var natsMetrics = []struct {
	*prometheus.Desc
	kind prometheus.ValueType
	of   func(s natsbridge.State, head int64) float64
}{
	{metric("nats_connected", "1 while a server is connected."), prometheus.GaugeValue, func(s natsbridge.State, _ int64) float64 {
		if s.Connected {
			return 1
		}
		return 0
	}},
	{metric("nats_roots", "Roots that are served over NATS now."), prometheus.GaugeValue, func(s natsbridge.State, _ int64) float64 { return float64(len(s.Serves)) }},
	{metric("nats_cards_behind", "Changes of cards that the bucket does not have yet."), prometheus.GaugeValue, func(s natsbridge.State, _ int64) float64 { return float64(s.Unmirrored) }},
	{metric("nats_audit_copied", "Number of the last audit line that the stream has."), prometheus.GaugeValue, func(s natsbridge.State, _ int64) float64 { return float64(s.Audit) }},
	{metric("nats_audit_behind", "Audit lines that the stream does not have yet."), prometheus.GaugeValue, func(s natsbridge.State, head int64) float64 { return float64(max(head-int64(s.Audit), 0)) }},
	{metric("nats_requests_total", "Requests that were answered over NATS."), prometheus.CounterValue, func(s natsbridge.State, _ int64) float64 { return float64(s.Requests) }},
	{metric("nats_foreign_writes_total", "Entries of this daemon's subjects that somebody else wrote."), prometheus.CounterValue, func(s natsbridge.State, _ int64) float64 { return float64(s.Foreign) }},
	{metric("nats_reconnects_total", "Connections that were made again."), prometheus.CounterValue, func(s natsbridge.State, _ int64) float64 { return float64(s.Reconnect) }},
}

// Describe names them.
func (m natsMeasured) Describe(out chan<- *prometheus.Desc) {
	for _, d := range natsMetrics {
		out <- d.Desc
	}
}

// Collect gives one reading; without an audit to compare with nothing is behind.
func (m natsMeasured) Collect(out chan<- prometheus.Metric) {
	link := m.o.link.Load()
	if link == nil {
		return
	}
	s := link.State()
	head := int64(0)
	if h, err := m.o.engine.AuditHead(); err == nil {
		head = int64(h.Seq)
	}
	for _, d := range natsMetrics {
		out <- prometheus.MustNewConstMetric(d.Desc, d.kind, d.of(s, head))
	}
}
