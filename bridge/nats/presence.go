package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// Sign is a root's sign of life: which daemon serves it, and since when. It is also the
// claim to its subjects: a second daemon with the same root key, such as the copy of a
// machine, finds it and does not serve, so that no request runs on both.
type Sign struct {
	Version  string    `json:"v"` // of these messages
	Root     string    `json:"root"`
	Name     string    `json:"name"`
	Daemon   string    `json:"daemon"`
	Instance string    `json:"instance"` // new at each start
	Host     string    `json:"host"`
	Program  string    `json:"program"` // version of the daemon
	Since    time.Time `json:"since"`
	At       time.Time `json:"at"`
	Audit    int64     `json:"audit"` // last line of the log that the stream has
}

// A sign counts for so many beats without another; then the bucket drops it.
const beatsOfLife = 3

// Fault says what a gatherer of this version cannot do with a machine; empty is nothing.
func (s Sign) Fault() string {
	if err := spoken(s.Version); err != nil {
		return err.Message
	}
	return ""
}

// claim is one root that is served.
type claim struct {
	root     Root
	revision uint64 // of our sign in the bucket; 0 is none yet
	subs     []*nats.Subscription
	lost     bool // somebody else's sign is there
}

type claims struct {
	mu       sync.Mutex // guards held
	held     map[string]*claim
	instance string
	since    time.Time
}

func (c *claims) keys() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := []string{}
	for key, one := range c.held {
		if len(one.subs) > 0 {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// keepClaims serves the roots that the daemon has, renews their signs, and follows roots
// that come and go.
func (l *Link) keepClaims() {
	l.claims.instance, l.claims.since = nuid.Next(), time.Now().UTC()
	for {
		if l.conn.IsConnected() {
			l.claimAll()
		}
		t := time.NewTimer(l.cfg.Beat)
		select {
		case <-t.C:
		case <-l.again:
		case <-l.ctx.Done():
			t.Stop()
			return
		}
		t.Stop()
	}
}

func (l *Link) claimAll() {
	ctx, cancel := context.WithTimeout(l.ctx, jsWait)
	defer cancel()
	kv, err := l.bucket(ctx, Presence)
	if err != nil {
		l.notes.trouble("presence", "the bucket "+Presence+" cannot be reached: "+err.Error())
	}
	present := map[string]bool{}
	for _, r := range l.cfg.Roots() {
		present[r.Key] = true
		l.claims.mu.Lock()
		one := l.claims.held[r.Key]
		if one == nil {
			one = &claim{root: r}
			l.claims.held[r.Key] = one
		}
		l.claims.mu.Unlock()
		if kv != nil {
			l.renew(ctx, kv, one)
		}
		// Without the bucket requests are served as before: who holds a claim keeps it.
		if !one.lost && (kv != nil && one.revision > 0 || len(one.subs) > 0) {
			l.listen(one)
		}
	}
	l.claims.mu.Lock()
	defer l.claims.mu.Unlock()
	for key, one := range l.claims.held {
		if !present[key] {
			one.quiet()
			delete(l.claims.held, key)
		}
	}
}

// renew writes the sign by compare-and-set, and steps back from one of somebody else.
func (l *Link) renew(ctx context.Context, kv jetstream.KeyValue, one *claim) {
	body, err := json.Marshal(Sign{Version: version(), Root: one.root.Key, Name: one.root.Name, Daemon: l.cfg.Daemon, Instance: l.claims.instance, Host: l.cfg.Host,
		Program: l.cfg.Version, Since: l.claims.since, At: time.Now().UTC(), Audit: l.audit.copied.Load()})
	if err != nil {
		return
	}
	part := "presence " + one.root.Key
	for range 3 {
		var revision uint64
		if one.revision == 0 {
			revision, err = kv.Create(ctx, one.root.Key, body)
		} else {
			revision, err = kv.Update(ctx, one.root.Key, body, one.revision)
		}
		if err == nil {
			one.revision, one.lost = revision, false
			l.notes.over(part)
			l.notes.over("presence")
			return
		}
		if !moved(err) {
			l.notes.trouble("presence", "the sign of life cannot be written: "+err.Error())
			return
		}
		there, err := kv.Get(ctx, one.root.Key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			one.revision = 0 // it ran out while we were away
			continue
		}
		if err != nil {
			return
		}
		var s Sign
		ours := json.Unmarshal(there.Value(), &s) == nil && s.Daemon == l.cfg.Daemon && (s.Instance == l.claims.instance || s.Since.Before(l.claims.since) && s.Host == l.cfg.Host)
		if !ours && time.Since(there.Created()) < beatsOfLife*l.cfg.Beat {
			l.claims.mu.Lock()
			one.quiet()
			one.lost, one.revision = true, 0
			l.claims.mu.Unlock()
			l.notes.trouble(part, fmt.Sprintf("root %s is served by another daemon, %s on %s: this one does not serve it over NATS", one.root.Key, s.Daemon, s.Host))
			return
		}
		one.revision = there.Revision()
	}
}

// moved reports that the entry is not the one that was expected.
func moved(err error) bool {
	return errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, jetstream.ErrKeyRevisionMismatch) || lastSequence(err)
}

func lastSequence(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == wrongLastConstant)
}

// wrongLastConstant is a second code of the servers for the same refusal.
const wrongLastConstant jetstream.ErrorCode = 10164

// listen subscribes to a root's subjects, once.
func (l *Link) listen(one *claim) {
	l.claims.mu.Lock()
	defer l.claims.mu.Unlock()
	if len(one.subs) > 0 {
		return
	}
	for _, channel := range []string{Call, Answer} {
		s, err := l.conn.Subscribe(Subject(one.root.Key, channel), func(m *nats.Msg) { l.take(one.root, channel, m) })
		if err == nil {
			err = s.SetPendingLimits(nats.DefaultSubPendingMsgsLimit, l.queue())
		}
		if err != nil {
			one.quiet()
			l.notes.trouble("presence", "the subjects of root "+one.root.Key+" cannot be listened to: "+err.Error())
			return
		}
		one.subs = append(one.subs, s)
	}
	l.conn.Flush()
}

func (c *claim) quiet() {
	for _, s := range c.subs {
		s.Unsubscribe()
	}
	c.subs = nil
}

// leave stops listening and takes the signs away, as far as a server can be reached.
func (l *Link) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var kv jetstream.KeyValue
	if l.conn.IsConnected() {
		kv, _ = l.bucket(ctx, Presence)
	}
	l.claims.mu.Lock()
	defer l.claims.mu.Unlock()
	for _, one := range l.claims.held {
		one.quiet()
		if kv != nil && one.revision > 0 {
			kv.Delete(ctx, one.root.Key, jetstream.LastRevision(one.revision))
		}
	}
}
