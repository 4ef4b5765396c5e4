package bridge

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"holdpoint/op"
)

// keepAlive is how often an idle event stream says that it lives.
const keepAlive = 20 * time.Second

// getChanges tells what may have changed since a cursor, and waits for something if asked.
func (s *Server) getChanges(w http.ResponseWriter, r *http.Request, by op.Caller) {
	q := r.URL.Query()
	var wait time.Duration
	if v := q.Get("wait"); v != "" {
		var err error
		if wait, err = time.ParseDuration(v); err != nil || wait < 0 {
			fail(w, op.Fail(op.BadRequest, "wait must be a time like 30s").In("wait"))
			return
		}
	}
	v, err := s.Engine.Changes(r.Context(), by, q.Get("root"), q.Get("after"), min(wait, maxWait))
	result(w, v, err)
}

// getEvents streams what happens as server-sent events (the HTML standard's event
// stream); Last-Event-ID resumes after the event of that number, and from=now leaves out what was.
// With watch a root is watched as long as the stream lasts. Its first event of that says to
// look again: what changed while nobody listened is not known.
func (s *Server) getEvents(w http.ResponseWriter, r *http.Request, by op.Caller) {
	flusher, ok := w.(http.Flusher)
	if !ok {
		fail(w, op.Fail(op.NotAvailable, "events need a streaming connection"))
		return
	}
	after, _ := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64)
	if r.URL.Query().Get("from") == "now" {
		after = math.MaxInt64 // nothing of what was before
	}
	past, more, cancel := s.Engine.Subscribe(after)
	defer cancel()
	watched, now := "", Event{}
	if q := r.URL.Query(); q.Has("watch") {
		key, first, release, err := s.Engine.WatchRoot(r.Context(), by, q.Get("watch"))
		if err != nil {
			fail(w, err)
			return
		}
		defer release()
		watched, now = key, first
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	send := func(e Event) {
		if e.Sees(by) || watched != "" && e.Root == watched && e.Type == now.Type {
			fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", e.Seq, e.Type, e.JSON)
		}
	}
	for _, e := range past {
		send(e)
	}
	if watched != "" {
		send(now)
	}
	flusher.Flush()
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for {
		select {
		case e, ok := <-more:
			if !ok {
				return // fell behind: the client resumes where it was
			}
			send(e)
		case <-tick.C:
			fmt.Fprint(w, ": still here\n\n")
		case <-r.Context().Done():
			return
		}
		flusher.Flush()
	}
}
