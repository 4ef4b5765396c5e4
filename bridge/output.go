package bridge

import (
	"net/http"
	"strconv"

	"holdpoint/op"
)

// getOutput gives a piece of what a program printed or prints, from an offset on or its
// end: ?stream=stdout&offset=0&limit=65536, ?tail=4096.
func (s *Server) getOutput(w http.ResponseWriter, r *http.Request, by op.Caller) {
	q := r.URL.Query()
	stream := q.Get("stream")
	if stream == "" {
		stream = "stdout"
	}
	var offset, tail int64
	var limit int
	var err error
	if v := q.Get("offset"); v != "" {
		if offset, err = strconv.ParseInt(v, 10, 64); err != nil || offset < 0 {
			fail(w, op.Fail(op.BadRequest, "offset must be a whole number").In("offset"))
			return
		}
	}
	if v := q.Get("tail"); v != "" {
		if tail, err = strconv.ParseInt(v, 10, 64); err != nil || tail < 1 {
			fail(w, op.Fail(op.BadRequest, "tail must be a whole number of at least 1").In("tail"))
			return
		}
	}
	if v := q.Get("limit"); v != "" {
		if limit, err = strconv.Atoi(v); err != nil || limit < 1 {
			fail(w, op.Fail(op.BadRequest, "limit must be a whole number of at least 1").In("limit"))
			return
		}
	}
	v, err := s.Engine.Output(r.Context(), by, op.ID(r.PathValue("id")), stream, offset, tail, limit)
	result(w, v, err)
}
