package nats

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/zeebo/blake3"

	"holdpoint/op"
)

// Card is one row of a queue as it is mirrored.
type Card struct {
	Root     string    `json:"root"`
	ID       op.ID     `json:"id"`
	State    string    `json:"state"`
	Digest   string    `json:"shown_digest"`
	Created  time.Time `json:"created_at"`
	Expires  time.Time `json:"expires_at,omitzero"`
	Answered string    `json:"answered_by,omitempty"`
	Code     op.Code   `json:"code,omitempty"` // why a call that was approved failed
	Shown    `json:"-"`
}

// Shown is what people see of a card while it waits. It travels sealed.
type Shown struct {
	Frozen   json.RawMessage `json:"card"` // the very bytes that the digest is of
	Drifted  string          `json:"drifted,omitempty"`
	Approved []string        `json:"approved_by,omitempty"`
}

// Verified reports whether the frozen bytes are those of the digest: nobody changed what
// is shown between the machine and here.
func (c Card) Verified() bool {
	sum := blake3.Sum256(c.Frozen)
	return len(c.Frozen) > 0 && c.Digest == "blake3:"+hexOf(sum[:])
}

// entry is a card as it lies in the bucket. Whoever reads one passes over fields that it
// does not know.
type entry struct {
	Version string `json:"v"`
	Card
	Sealed string `json:"sealed,omitempty"` // Shown, for the hub; only while the card waits
}

// Source gives cards as the journal has them, which alone is true.
type Source interface {
	// Waiting lists the rows that wait for a person.
	Waiting(ctx context.Context) ([]Card, error)
	// Card gives one row of a root, whatever became of it.
	Card(ctx context.Context, id op.ID) (Card, error)
	// Changes tells ids of rows that moved, until ctx ends; an empty id is any row.
	Changes(ctx context.Context) <-chan op.ID
}

// mirrored is what the bucket holds of a card, as far as is known here.
type mirrored struct {
	key      string
	revision uint64
	sum      [32]byte
	over     bool // the card has ended, and the bucket knows
}

type mirror struct {
	foreign atomic.Int64

	mu    sync.Mutex // guards the rest; known is the keeper's own
	dirty map[op.ID]bool
	all   bool
	known map[op.ID]mirrored
	ready chan struct{}
	busy  int // changes that are being written
}

// ring tells the keeper that something is to be done.
func (m *mirror) ring() chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ready == nil {
		m.ready = make(chan struct{}, 1)
	}
	return m.ready
}

func (m *mirror) wakeAll() { m.touch("") }

func (m *mirror) touch(id op.ID) {
	ready := m.ring()
	m.mu.Lock()
	if m.dirty == nil {
		m.dirty = map[op.ID]bool{}
	}
	if id == "" {
		m.all = true
	} else {
		m.dirty[id] = true
	}
	m.mu.Unlock()
	select {
	case ready <- struct{}{}:
	default:
	}
}

func (m *mirror) behind() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.dirty) + m.busy
}

func (m *mirror) takeDirty() (ids map[op.ID]bool, all bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids, all = m.dirty, m.all
	m.dirty, m.all, m.busy = nil, false, len(ids)
	return ids, all
}

func (m *mirror) rest() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.busy = 0
}

// keepMirror brings the bucket to what the journal says, whenever that changes and after
// each connection. What fails is tried again, for ever.
func (l *Link) keepMirror() {
	ready, changes, failures := l.mirror.ring(), l.cfg.Cards.Changes(l.ctx), 0
	look := time.NewTicker(beatsOfLife * l.cfg.Beat)
	defer look.Stop()
	l.mirror.wakeAll()
	for {
		select {
		case id, ok := <-changes:
			if !ok {
				return
			}
			l.mirror.touch(id)
			continue
		case <-look.C:
			l.lookAt()
			continue
		case <-ready:
		case <-l.ctx.Done():
			return
		}
		for drained := false; !drained; { // what came at once is one round
			select {
			case id, ok := <-changes:
				if ok {
					l.mirror.touch(id)
				} else {
					drained = true
				}
			default:
				drained = true
			}
		}
		ids, all := l.mirror.takeDirty()
		err := l.mirrorSome(ids, all)
		if err == nil {
			failures = 0
			l.notes.over("cards")
			l.mirror.rest()
			continue
		}
		if l.ctx.Err() != nil {
			return
		}
		l.notes.trouble("cards", "cards cannot be mirrored: "+err.Error())
		for id := range ids {
			l.mirror.touch(id)
		}
		if all {
			l.mirror.wakeAll()
		}
		l.mirror.rest()
		if failures++; !l.pause(failures, nil) {
			return
		}
	}
}

// mirrorSome writes the cards that changed; with all, everything that waits, and what the
// bucket still believes to wait.
func (l *Link) mirrorSome(ids map[op.ID]bool, all bool) error {
	if !l.conn.IsConnected() {
		return errors.New("no server is connected")
	}
	ctx := l.ctx
	kv, err := l.bucket(ctx, Cards)
	if err != nil {
		return err
	}
	if all {
		cards, err := l.cfg.Cards.Waiting(ctx)
		if err != nil {
			return err
		}
		waits := map[op.ID]bool{}
		for _, c := range cards {
			waits[c.ID] = true
			if err := l.put(ctx, kv, c); err != nil {
				return err
			}
		}
		if err := l.staleKeys(ctx, waits); err != nil {
			return err
		}
	}
	for id := range ids {
		c, err := l.cfg.Cards.Card(ctx, id)
		if op.AsError(err) != nil && op.AsError(err).Code == op.NotFound {
			delete(ids, id)
			continue
		}
		if err == nil {
			err = l.put(ctx, kv, c)
		}
		if err != nil {
			return err
		}
		delete(ids, id)
	}
	return nil
}

// lookedAt is how many entries are looked at in one round.
const lookedAt = 100

// lookAt finds entries of waiting cards that somebody else wrote, and has them written anew.
func (l *Link) lookAt() {
	ctx, cancel := context.WithTimeout(l.ctx, jsWait)
	defer cancel()
	if !l.conn.IsConnected() {
		return
	}
	kv, err := l.bucket(ctx, Cards)
	if err != nil {
		return
	}
	n := 0
	for id, k := range l.mirror.known {
		if k.over {
			continue
		}
		if n++; n > lookedAt {
			return
		}
		there, err := kv.Get(ctx, k.key)
		if err == nil && there.Revision() != k.revision || errors.Is(err, jetstream.ErrKeyNotFound) {
			k.sum = [32]byte{}
			l.mirror.known[id] = k
			l.mirror.touch(id)
		}
	}
}

// staleKeys writes the end of cards that ended while no server could be told.
func (l *Link) staleKeys(ctx context.Context, waits map[op.ID]bool) error {
	s, err := l.js.Stream(ctx, "KV_"+Cards)
	if err != nil {
		return err
	}
	for _, r := range l.cfg.Roots() {
		prefix := "$KV." + Cards + "." + r.Key + "."
		info, err := s.Info(ctx, jetstream.WithSubjectFilter(prefix+">"))
		if err != nil {
			return err
		}
		for subject := range info.State.Subjects {
			id := op.ID(strings.TrimPrefix(subject, prefix))
			if !waits[id] && !l.mirror.known[id].over {
				l.mirror.touch(id)
			}
		}
	}
	return nil
}

// put writes one card at the revision that is there. The journal is what is true: an entry
// that somebody else wrote is replaced, and counted.
func (l *Link) put(ctx context.Context, kv jetstream.KeyValue, c Card) error {
	value, sum, err := l.entryOf(c)
	if err != nil {
		return err
	}
	was := l.mirror.known[c.ID]
	if was.revision > 0 && was.sum == sum {
		return nil
	}
	key, revision := c.Root+"."+string(c.ID), was.revision
	ctx, cancel := context.WithTimeout(ctx, jsWait)
	defer cancel()
	for range 4 {
		var now uint64
		if revision == 0 {
			now, err = kv.Create(ctx, key, value)
		} else {
			now, err = kv.Update(ctx, key, value, revision)
		}
		if err == nil {
			l.remember(c, mirrored{key, now, sum, c.State != waiting && c.State != "approved" && c.State != "executing"})
			return nil
		}
		if !moved(err) {
			return err
		}
		there, bad := kv.Get(ctx, key)
		if errors.Is(bad, jetstream.ErrKeyNotFound) {
			revision = 0
			continue
		}
		if bad != nil {
			return bad
		}
		if was.revision > 0 && string(there.Value()) != string(value) {
			l.mirror.foreign.Add(1)
			l.notes.trouble("foreign", "somebody else wrote the card "+string(c.ID)+" in the bucket; it was written anew")
		}
		revision = there.Revision()
	}
	return err
}

const waiting = "pending"

// maxKnown bounds what is remembered of cards that are over.
const maxKnown = 4096

func (l *Link) remember(c Card, m mirrored) {
	if len(l.mirror.known) > maxKnown {
		for id, k := range l.mirror.known {
			if k.over {
				delete(l.mirror.known, id)
			}
		}
	}
	l.mirror.known[c.ID] = m
}

// entryOf gives the bytes of an entry, and a digest of what they say: two seals of the same
// bytes differ.
func (l *Link) entryOf(c Card) (value []byte, sum [32]byte, err error) {
	e := entry{Version: version(), Card: c}
	open, err := json.Marshal(e)
	if err != nil {
		return nil, sum, err
	}
	shown, err := json.Marshal(c.Shown)
	if err != nil {
		return nil, sum, err
	}
	sum = blake3.Sum256(append(append(open, 0), shown...))
	if c.State == waiting && l.cfg.Hub != (HubKey{}) {
		sealed, err := l.cfg.Hub.seal(shown)
		if err != nil {
			return nil, sum, err
		}
		e.Sealed = base64.StdEncoding.EncodeToString(sealed)
	}
	value, err = json.Marshal(e)
	if err == nil && len(value) > int(l.conn.MaxPayload())-kept {
		e.Sealed = "" // the hub says that it must be read on the machine
		value, err = json.Marshal(e)
	}
	return value, sum, err
}
