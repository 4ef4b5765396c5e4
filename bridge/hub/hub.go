// Package hub serves one review page for many machines, from the cards that their daemons
// mirror over NATS.
//
// It holds no right: it knows no key that answers, keeps no token of a machine, and what it
// carries to one counts only with a reviewer's signature that the machine itself checks. It
// cannot keep a browser from showing what a forged page shows; whoever must not trust the
// hub answers with the command line, which checks each card by its digest.
package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"holdpoint/bridge"
	"holdpoint/bridge/nats"
	"holdpoint/internal/journal"
	"holdpoint/op"
	"holdpoint/review"
)

// Hub answers the routes of the page. Open makes one.
type Hub struct {
	bridge.Engine // nil: what no route here reaches
	conn          *natsgo.Conn
	cards         *nats.Gathering
	check         func(passphrase string) error
	version       string
	answers       time.Duration // how long a machine may take
	stream        stream
}

// Config says how a hub is reached and what it opens cards with.
type Config struct {
	Conn    *natsgo.Conn
	Secret  nats.HubSecret
	Check   func(passphrase string) error // of whoever looks at the page
	Version string
	Say     func(string)
}

// Open follows the fleet until ctx ends; then the channel closes.
func Open(ctx context.Context, c Config) (*Hub, <-chan struct{}) {
	h := &Hub{conn: c.Conn, check: c.Check, version: c.Version, answers: 30 * time.Second}
	var done <-chan struct{}
	h.cards, done = nats.Gather(ctx, c.Conn, c.Secret, c.Say, h.changed)
	return h, done
}

// served are the routes of a hub. All others belong to a machine.
var served = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(GET /(healthz|readyz|page/.*|v1/approvals|v1/approvals/[^/]+|v1/events|v1/login|v1/me|v1/status)?|POST /v1/login|POST /v1/approvals/[^/]+/answer)$`)
})

// Handler serves the page and its routes, by the same code as a daemon's.
func (h *Hub) Handler(page http.Handler) http.Handler {
	s := bridge.New(h)
	s.Ready, s.Page, s.Version, s.Answers = h.cards.Ready, page, h.version, h.answer
	routes := s.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !served().MatchString(r.Method + " " + r.URL.Path) {
			bridge.Fail(w, op.Fail(op.NotAvailable, "a hub does not serve this: it shows and carries, and machines decide").Do("use it on the machine itself"))
			return
		}
		routes.ServeHTTP(w, r)
	})
}

// Caller knows no tokens: people log in.
func (h *Hub) Caller(context.Context, string) (op.Caller, journal.Token, error) {
	return op.Caller{}, journal.Token{}, op.Fail(op.Unauthenticated, "the token is not valid").Do("log in with the hub's passphrase")
}

// CheckPassphrase tells whether it is that of the hub.
func (h *Hub) CheckPassphrase(_ context.Context, passphrase string) error { return h.check(passphrase) }

// Me tells the page that it is one of a hub: it asks the person's own passkey, and no daemon.
func (h *Hub) Me(context.Context, op.Caller) (any, error) {
	return Me{Name: "hub", Role: op.Observer, Hub: true, Keys: []struct{}{}}, nil
}

// Me is what a hub's page learns of whoever looks at it: nothing, since a hub knows nobody.
type Me struct {
	Name string     `json:"name"`
	Role op.Role    `json:"role"`
	Hub  bool       `json:"hub"`
	Keys []struct{} `json:"keys"`
}

// Denied is told nowhere: a hub keeps no record. Machines do.
func (h *Hub) Denied(string, error) {}

// view is a row as the page and the command line read it.
type view struct {
	ID    op.ID           `json:"id"`
	State string          `json:"state"`
	Note  string          `json:"note"`
	Card  *review.Card    `json:"card,omitempty"`
	Shown json.RawMessage `json:"shown,omitempty"` // the very bytes that the digest is of
	Code  op.Code         `json:"code,omitempty"`
	Why   string          `json:"why,omitempty"` // a card that cannot be shown here
}

func viewOf(c nats.Seen) view {
	card := cardOf(c)
	return view{ID: c.ID, State: c.State, Card: &card, Shown: c.Frozen, Code: c.Code, Why: c.Why}
}

// EachApproval tells of the cards of a state, oldest first.
func (h *Hub) EachApproval(_ context.Context, _ op.Caller, state string, each func(card any) error) error {
	for _, c := range h.of(state) {
		if err := each(cardOf(c)); err != nil {
			return err
		}
	}
	return nil
}

func (h *Hub) of(state string) []nats.Seen {
	list := slices.DeleteFunc(h.cards.All(), func(c nats.Seen) bool { return state != "" && c.State != state })
	slices.SortFunc(list, func(a, b nats.Seen) int { return cmp.Compare(a.Seq, b.Seq) })
	return list
}

// ApprovalPage lists summaries after a number.
func (h *Hub) ApprovalPage(_ context.Context, _ op.Caller, f journal.ApprovalFilter) (any, error) {
	list := h.of(f.State)
	out := struct {
		Cards []review.Card `json:"approvals"`
		Total int           `json:"total,omitempty"`
		Next  int64         `json:"next,omitempty"`
	}{Cards: []review.Card{}, Total: len(list)}
	for _, c := range list {
		if c.Seq <= f.After {
			continue
		}
		if len(out.Cards) == f.Limit {
			break
		}
		out.Cards = append(out.Cards, cardOf(c).Summary())
		out.Next = c.Seq
	}
	if len(out.Cards) < f.Limit {
		out.Next = 0
	}
	return out, nil
}

// Approval shows one row, waiting up to wait for its end.
func (h *Hub) Approval(ctx context.Context, _ op.Caller, id op.ID, wait time.Duration) (any, error) {
	over := time.NewTimer(wait)
	defer over.Stop()
	for {
		c, known, next := h.cards.One(id)
		if !known {
			return nil, op.Fail(op.NotFound, "no such approval")
		}
		if wait <= 0 || c.State != journal.Pending && c.State != journal.Approved && c.State != journal.Executing {
			return viewOf(c), nil
		}
		select {
		case <-next:
		case <-over.C:
			wait = 0
		case <-ctx.Done():
			return viewOf(c), nil
		}
	}
}

// Machine is one root that is served somewhere.
type Machine struct {
	nats.Sign
	Fault string `json:"fault,omitempty"`
}

// Status tells which machines there are.
func (h *Hub) Status(context.Context, op.Caller) (any, error) {
	signs := h.cards.Signs()
	slices.SortFunc(signs, func(a, b nats.Sign) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Root, b.Root))
	})
	machines := make([]Machine, 0, len(signs))
	for _, s := range signs {
		machines = append(machines, Machine{Sign: s, Fault: s.Fault()})
	}
	return map[string]any{"version": h.version, "hub": true, "review_auth": "signed", "connected": h.conn.IsConnected(), "pending": len(h.of(journal.Pending)), "machines": machines}, nil
}

// Subscribe gives what happened to cards.
func (h *Hub) Subscribe(after int64) ([]bridge.Event, <-chan bridge.Event, func()) {
	return h.stream.subscribe(after)
}

// changed turns a card's step into the event that a daemon would have told.
func (h *Hub) changed(before *nats.Seen, now nats.Seen) {
	kind := ""
	switch {
	case now.State == journal.Pending && before == nil:
		kind = "approval.requested"
	case now.State == journal.Expired && (before == nil || before.State != now.State):
		kind = "approval.expired"
	case before != nil && before.State != now.State, before != nil && len(before.Approved) != len(now.Approved):
		kind = "approval.answered"
	case before != nil && before.Drifted != now.Drifted:
		kind = "pins.drifted"
	default:
		return
	}
	h.stream.publish(kind, map[string]any{"approval_id": now.ID, "state": now.State, "drifted": now.Drifted != "", "root": now.Root})
}

// stream is what happened, for pages that are open.
type stream struct {
	mu   sync.Mutex // guards the rest
	seq  int64
	past []bridge.Event
	subs map[chan bridge.Event]bool
}

const keepEvents = 1024

func everybody(op.Caller) bool { return true }

func (s *stream) publish(kind string, data map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	body, err := json.Marshal(map[string]any{"seq": s.seq, "type": kind, "time": time.Now().UTC(), "root": data["root"], "data": data})
	if err != nil {
		return
	}
	e := bridge.Event{Seq: s.seq, Type: kind, JSON: body, Sees: everybody}
	if s.past = append(s.past, e); len(s.past) > keepEvents {
		s.past = s.past[len(s.past)-keepEvents:]
	}
	for ch := range s.subs {
		select {
		case ch <- e:
		default:
			delete(s.subs, ch)
			close(ch)
		}
	}
}

func (s *stream) subscribe(after int64) (past []bridge.Event, more <-chan bridge.Event, cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.past {
		if e.Seq > after {
			past = append(past, e)
		}
	}
	ch := make(chan bridge.Event, 256)
	if s.subs == nil {
		s.subs = map[chan bridge.Event]bool{}
	}
	s.subs[ch] = true
	return past, ch, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.subs[ch] {
			delete(s.subs, ch)
			close(ch)
		}
	}
}
