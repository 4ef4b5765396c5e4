package bridge

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"holdpoint/op"
)

// getRuns lists the programs that run, and the latest that ended.
func (s *Server) getRuns(w http.ResponseWriter, r *http.Request, by op.Caller) {
	v, err := s.Engine.Runs(r.Context(), by)
	result(w, map[string]any{"runs": v}, err)
}

func (s *Server) getRun(w http.ResponseWriter, r *http.Request, by op.Caller) {
	v, err := s.Engine.Run(r.Context(), by, op.ID(r.PathValue("id")))
	result(w, v, err)
}

// postRunStop ends a program with all that it started; the answer comes when nothing of it
// is left.
func (s *Server) postRunStop(w http.ResponseWriter, r *http.Request, by op.Caller) {
	if err := noFields(r); err != nil {
		fail(w, err)
		return
	}
	v, err := s.Engine.StopRun(r.Context(), by, op.ID(r.PathValue("id")))
	result(w, v, err)
}

// getRunEvents streams what a program prints as server-sent events: output, and end with
// the run. The id of each is the place in both streams, OUT-ERR, from which Last-Event-ID
// or from=OUT-ERR goes on; attach=true counts a reviewer in as present. {id} may also be
// that of the approval, before it is answered, or the request id of the caller's own call.
func (s *Server) getRunEvents(w http.ResponseWriter, r *http.Request, by op.Caller) {
	id := op.ID(r.PathValue("id"))
	flusher, ok := w.(http.Flusher)
	if !ok {
		fail(w, op.Fail(op.NotAvailable, "events need a streaming connection"))
		return
	}
	from := r.Header.Get("Last-Event-ID")
	if from == "" {
		from = r.URL.Query().Get("from")
	}
	at, err := place(from)
	if err != nil {
		fail(w, err)
		return
	}
	if r.URL.Query().Get("attach") == "true" {
		leave, err := s.Engine.Attach(r.Context(), by, id)
		if err != nil {
			fail(w, err)
			return
		}
		defer leave()
	}
	begun := false
	head := func() {
		if !begun {
			begun = true
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(http.StatusOK)
			flusher.Flush()
		}
	}
	run, err := s.Engine.Follow(r.Context(), by, id, at, head, func(piece []byte, now map[string]int64) error {
		head()
		_, err := fmt.Fprintf(w, "id: %d-%d\nevent: output\ndata: %s\n\n", now["stdout"], now["stderr"], piece)
		flusher.Flush()
		return err
	})
	if err != nil {
		if !begun && r.Context().Err() == nil {
			fail(w, err)
		}
		return
	}
	head()
	fmt.Fprintf(w, "event: end\ndata: %s\n\n", run)
	flusher.Flush()
}

// place reads OUT-ERR; empty is the beginning.
func place(s string) (map[string]int64, error) {
	if s == "" {
		return nil, nil
	}
	a, b, _ := strings.Cut(s, "-")
	out, err1 := strconv.ParseInt(a, 10, 64)
	errs, err2 := strconv.ParseInt(b, 10, 64)
	if err1 != nil || err2 != nil || out < 0 || errs < 0 {
		return nil, op.Fail(op.BadRequest, "the place is OUT-ERR, two whole numbers").In("from")
	}
	return map[string]int64{"stdout": out, "stderr": errs}, nil
}

// postRunInput types into a session: {"text":"..."} or {"text_base64":"..."}.
func (s *Server) postRunInput(w http.ResponseWriter, r *http.Request, by op.Caller) {
	o, err := body(r)
	if err == nil {
		err = only(o, "text", "text_base64")
	}
	var given, coded string
	if err == nil {
		given, err = text(o, "text")
	}
	if err == nil {
		coded, err = text(o, "text_base64")
	}
	typed := []byte(given)
	if err == nil && coded != "" {
		if typed, err = base64.StdEncoding.DecodeString(coded); err != nil {
			err = op.Fail(op.BadRequest, "text_base64 is no base64").In("text_base64")
		}
	}
	if err == nil {
		err = s.Engine.TypeInto(r.Context(), by, op.ID(r.PathValue("id")), typed)
	}
	result(w, map[string]any{"typed_bytes": len(typed)}, err)
}

// postRunResize tells a session the size of the terminal that shows it.
func (s *Server) postRunResize(w http.ResponseWriter, r *http.Request, by op.Caller) {
	o, err := body(r)
	if err == nil {
		err = only(o, "rows", "cols")
	}
	var rows, cols int64
	for name, dst := range map[string]*int64{"rows": &rows, "cols": &cols} {
		if err == nil {
			*dst, err = number(o, name)
		}
	}
	if err == nil {
		err = s.Engine.Resize(r.Context(), by, op.ID(r.PathValue("id")), rows, cols)
	}
	result(w, map[string]any{"rows": rows, "cols": cols}, err)
}
