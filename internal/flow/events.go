package flow

import (
	"math"
	"sync"
	"time"
)

// Event is one thing that happened, for those who listen. It holds ids, never content.
type Event struct {
	Seq   int64          `json:"seq"`
	Type  string         `json:"type"` // approval.requested, operation.done, ...
	Time  time.Time      `json:"time"`
	Root  string         `json:"root"`
	Agent string         `json:"agent,omitempty"`
	Token string         `json:"-"` // whose call it was: what an agent may see
	Data  map[string]any `json:"data,omitempty"`
}

// keepEvents is how many past events a listener may resume over.
const keepEvents = 1024

// events fans out; a listener that does not keep up loses its place and is told by a
// closed channel, so that no listener ever holds up a call.
type events struct {
	mu   sync.Mutex
	seq  int64
	past []Event
	subs map[chan Event]bool
	end  chan struct{} // closed when the next held call ends; nil until somebody waits
}

// nextEnd gives a channel that closes when the next held call ends. That one was approved
// is told by an event before it has run, so whoever waits for its result needs this too.
func (e *events) nextEnd() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.end == nil {
		e.end = make(chan struct{})
	}
	return e.end
}

func (e *events) rowEnded() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.end != nil {
		close(e.end)
		e.end = nil
	}
}

func (e *events) publish(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seq++
	ev.Seq = e.seq
	e.past = append(e.past, ev)
	if len(e.past) > keepEvents {
		e.past = e.past[len(e.past)-keepEvents:]
	}
	e.send(ev)
}

// send hands an event to who listens; the caller holds mu.
func (e *events) send(ev Event) {
	for ch := range e.subs {
		select {
		case ch <- ev:
		default:
			delete(e.subs, ch)
			close(ch)
		}
	}
}

// pass publishes an event that nobody resumes over: it is about a moment, and whoever was
// away has to look anyway.
func (e *events) pass(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ev.Seq = e.seq
	e.send(ev)
}

// subscribe gives the events after seq, then those to come. cancel ends it.
func (e *events) subscribe(after int64) (past []Event, ch chan Event, cancel func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if after > e.seq && after != math.MaxInt64 {
		after = 0 // the number of an earlier daemon: whoever resumes has seen nothing of this one
	}
	for _, ev := range e.past {
		if ev.Seq > after {
			past = append(past, ev)
		}
	}
	ch = make(chan Event, 256)
	if e.subs == nil {
		e.subs = map[chan Event]bool{}
	}
	e.subs[ch] = true
	return past, ch, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.subs[ch] {
			delete(e.subs, ch)
			close(ch)
		}
	}
}

// last is the number of the newest event.
func (e *events) last() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seq
}
