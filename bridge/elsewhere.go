package bridge

import (
	"net/http"
	"time"

	"holdpoint/op"
)

// postElsewhere tells what else changed in a root since a moment: {"root", "since",
// "operations"}, the operations being those that it shall not tell of.
func (s *Server) postElsewhere(w http.ResponseWriter, r *http.Request, by op.Caller) {
	o, err := body(r)
	if err == nil {
		err = only(o, "root", "since", "operations")
	}
	root, since, ids := "", "", []string(nil)
	if err == nil {
		root, err = text(o, "root")
	}
	if err == nil {
		since, err = text(o, "since")
	}
	if err == nil && o["operations"] != nil {
		ids, err = texts(o, "operations")
	}
	if err != nil {
		fail(w, err)
		return
	}
	from, err := time.Parse(time.RFC3339, since)
	if err != nil {
		fail(w, op.Fail(op.BadRequest, "since must be a time like 2006-01-02T15:04:05Z").In("since"))
		return
	}
	v, err := s.Engine.Elsewhere(r.Context(), by, root, from, ids)
	result(w, v, err)
}
