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

// getEvents streams what happens as server-sent events (the HTML standard's event
// stream); Last-Event-ID resumes after the event of that number, and from=now leaves out what was.
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
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	send := func(e Event) {
		if e.Sees(by) {
			fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", e.Seq, e.Type, e.JSON)
		}
	}
	for _, e := range past {
		send(e)
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
