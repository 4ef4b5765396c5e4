package nats

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"holdpoint/op"
)

// Seen is a card as it was gathered. Open is false where what it shows cannot be read
// here; Why says the reason.
type Seen struct {
	Card
	Open bool
	Why  string
	Seq  int64 // grows with each card that is new here
}

// Gathering keeps what a fleet mirrors, as far as it can be opened and checked here. Nothing
// in it is trusted further: whoever answers signs a digest, and the machine decides.
type Gathering struct {
	conn    *nats.Conn
	secret  HubSecret
	say     func(string)
	changed func(before *Seen, now Seen) // may be nil

	mu      sync.Mutex // guards the rest
	cards   map[op.ID]Seen
	signs   map[string]Sign
	seq     int64
	ready   bool
	arrived chan struct{} // closed at the next change
}

// Gather follows the buckets until ctx ends, through all that happens to the servers.
func Gather(ctx context.Context, c *nats.Conn, secret HubSecret, say func(string), changed func(before *Seen, now Seen)) (*Gathering, <-chan struct{}) {
	g := &Gathering{conn: c, secret: secret, say: say, changed: changed, cards: map[op.ID]Seen{}, signs: map[string]Sign{}, arrived: make(chan struct{})}
	done := make(chan struct{})
	var both sync.WaitGroup
	for bucket, take := range map[string]func(jetstream.KeyValueEntry){Cards: g.card, Presence: g.sign} {
		both.Add(1)
		go func() { defer both.Done(); g.follow(ctx, bucket, take) }()
	}
	go func() { defer close(done); both.Wait() }()
	return g, done
}

// alive is how often a watch is held against what the stream has: one that a failing server
// took along does not tell.
const alive = 2 * time.Second

func (g *Gathering) follow(ctx context.Context, bucket string, take func(jetstream.KeyValueEntry)) {
	for failures := 0; ctx.Err() == nil; {
		err := g.watch(ctx, bucket, take)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			failures = 0
			continue
		}
		if failures++; failures%3 == 0 && g.say != nil {
			g.say("nats: the bucket " + bucket + " cannot be followed: " + err.Error())
		}
		select {
		case <-time.After(min(quickest<<min(failures, 6), 10*time.Second)):
		case <-ctx.Done():
		}
	}
}

func (g *Gathering) watch(ctx context.Context, bucket string, take func(jetstream.KeyValueEntry)) error {
	js, err := jetstream.New(g.conn, jetstream.WithDefaultTimeout(jsWait))
	if err != nil {
		return err
	}
	kv, err := js.KeyValue(ctx, bucket)
	if err != nil {
		return err
	}
	w, err := kv.WatchAll(ctx)
	if err != nil {
		return err
	}
	defer w.Stop()
	tick := time.NewTicker(alive)
	defer tick.Stop()
	var seen, before uint64
	for {
		select {
		case e, ok := <-w.Updates():
			if !ok {
				return nats.ErrConnectionClosed
			}
			if e == nil { // all that was there has come
				g.tell(func() { g.ready = true })
				continue
			}
			seen = e.Revision()
			take(e)
		case <-tick.C:
			if seen == before && lastOf(ctx, js, bucket) > seen {
				return nil // nothing came, and there is more
			}
			before = seen
		case <-ctx.Done():
			return nil
		}
	}
}

// lastOf gives the number of a bucket's last entry; 0 where it cannot be asked now.
func lastOf(ctx context.Context, js jetstream.JetStream, bucket string) uint64 {
	ctx, cancel := context.WithTimeout(ctx, alive)
	defer cancel()
	s, err := js.Stream(ctx, "KV_"+bucket)
	if err != nil {
		return 0
	}
	return s.CachedInfo().State.LastSeq
}

func (g *Gathering) tell(how func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	how()
	close(g.arrived)
	g.arrived = make(chan struct{})
}

func (g *Gathering) sign(e jetstream.KeyValueEntry) {
	if e.Operation() != jetstream.KeyValuePut {
		g.tell(func() { delete(g.signs, e.Key()) })
		return
	}
	var s Sign
	if json.Unmarshal(e.Value(), &s) != nil || s.Root != e.Key() {
		return
	}
	s.At = e.Created() // by the servers' clock, whatever the machine's says
	g.tell(func() { g.signs[s.Root] = s })
}

// card takes one entry in. What it shows counts only where it opens, is what the digest is
// of, and is about this very row.
func (g *Gathering) card(e jetstream.KeyValueEntry) {
	if e.Operation() != jetstream.KeyValuePut {
		return
	}
	var in entry
	if json.Unmarshal(e.Value(), &in) != nil || e.Key() != in.Root+"."+string(in.ID) || !rootKey(in.Root) {
		return
	}
	now := Seen{Card: in.Card}
	switch sealed, err := base64.StdEncoding.DecodeString(in.Sealed); {
	case spoken(in.Version) != nil:
		now.Why = spoken(in.Version).Message
	case in.State != waiting:
	case in.Sealed == "":
		now.Why = "the machine does not share what its cards show with this hub, or this one is too large for NATS"
	case err != nil:
		now.Why = "what the card shows cannot be read"
	default:
		now.Open, now.Why = g.open(&now.Card, sealed)
	}
	g.mu.Lock()
	was, known := g.cards[in.ID]
	if known && was.Root != in.Root {
		g.mu.Unlock()
		return // an id belongs to the root that had it first
	}
	if now.Seq = was.Seq; !known {
		g.seq++
		now.Seq = g.seq
	}
	g.cards[in.ID] = now
	g.mu.Unlock()
	if g.changed != nil {
		if known {
			g.changed(&was, now)
		} else {
			g.changed(nil, now)
		}
	}
	g.tell(func() {})
}

func (g *Gathering) open(c *Card, sealed []byte) (bool, string) {
	b, ok := g.secret.open(sealed)
	if !ok {
		return false, "what the card shows was sealed for another hub"
	}
	if json.Unmarshal(b, &c.Shown) != nil || !c.Verified() {
		c.Shown = Shown{}
		return false, "what the card shows is not what its digest is of: answer on the machine"
	}
	var about struct {
		Root string `json:"root"`
		ID   op.ID  `json:"id"`
	}
	if json.Unmarshal(c.Frozen, &about) != nil || about.Root != c.Root || about.ID != c.ID {
		c.Shown = Shown{}
		return false, "what the card shows is about another one: answer on the machine"
	}
	return true, ""
}

// All gives every card that is known, in no order.
func (g *Gathering) All() []Seen {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]Seen, 0, len(g.cards))
	for _, c := range g.cards {
		out = append(out, c)
	}
	return out
}

// One gives a card, and a channel that closes when anything changes.
func (g *Gathering) One(id op.ID) (c Seen, known bool, next <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, known = g.cards[id]
	return c, known, g.arrived
}

// Signs gives the machines that live, or lived until lately.
func (g *Gathering) Signs() []Sign {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]Sign, 0, len(g.signs))
	for _, s := range g.signs {
		out = append(out, s)
	}
	return out
}

// Ready reports whether all that was there has been read once.
func (g *Gathering) Ready() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ready
}
