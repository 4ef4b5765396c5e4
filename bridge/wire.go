package bridge

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"

	"holdpoint/op"
)

var errTooLarge = op.Fail(op.TooLarge, "the body is larger than this route takes").Do("send less at once")

// body reads one strict JSON object.
func body(r *http.Request) (op.Object, error) {
	b, err := whole(r)
	if err != nil {
		return nil, err
	}
	return op.ParseJSON(b)
}

func whole(r *http.Request) ([]byte, error) {
	b, err := io.ReadAll(r.Body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, errTooLarge
	case err != nil:
		return nil, op.Fail(op.BadRequest, "the body could not be read").Because(err)
	}
	return b, nil
}

// noFields reads the body of a route that takes no field: it may be left out, and what is
// there is held to be an object of nothing.
func noFields(r *http.Request) error {
	b, err := whole(r)
	if err != nil || len(b) == 0 {
		return err
	}
	o, err := op.ParseJSON(b)
	if err != nil {
		return err
	}
	return only(o)
}

// buffers are for replies; one that grew for a large text is not kept for small ones.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

const maxKeptBuffer = 1 << 20

// reply writes v as JSON, in one piece whose length goes ahead.
func reply(w http.ResponseWriter, status int, v any) {
	kept := buffers.Get().(*[]byte)
	b, err := encode((*kept)[:0], v)
	if err != nil {
		status = http.StatusInternalServerError
		b = append(b[:0], `{"error":{"code":"internal_error","message":"the answer could not be written as JSON"}}`...)
	}
	b = append(b, '\n')
	plainHeaders(w.Header())
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	w.Write(b)
	if cap(b) <= maxKeptBuffer {
		*kept = b
		buffers.Put(kept)
	}
}

// listing writes {"name":[...]} item by item, for lists that may be long: no more of it is
// held than one item. A list that cannot be ended breaks off as no JSON, so that nobody takes
// it for a whole one.
type listing struct {
	w    http.ResponseWriter
	name string
	some bool
}

func (l *listing) add(v any) error {
	kept := buffers.Get().(*[]byte)
	b := append((*kept)[:0], ',')
	if !l.some {
		b = l.begin(b[:0])
	}
	b, err := encode(b, v)
	if err == nil {
		l.some = true
		_, err = l.w.Write(b)
	}
	if cap(b) <= maxKeptBuffer {
		*kept = b
		buffers.Put(kept)
	}
	return err
}

// begin appends what comes before the first item.
func (l *listing) begin(b []byte) []byte {
	plainHeaders(l.w.Header())
	return append(appendText(append(b, '{'), l.name), ":["...)
}

// end closes the list, or answers with the error if nothing was written yet.
func (l *listing) end(err error) {
	switch {
	case err == nil && l.some:
		_, _ = io.WriteString(l.w, "]}\n") // who is gone does not hear it
	case err == nil:
		reply(l.w, http.StatusOK, map[string]any{l.name: []any{}})
	case !l.some:
		fail(l.w, err)
	}
}

// plainHeaders are those of every answer.
func plainHeaders(h http.Header) {
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

func fail(w http.ResponseWriter, err error) {
	e := op.AsError(err)
	failStatus(w, op.HTTPStatus(e.Code), e)
}

func failStatus(w http.ResponseWriter, status int, e *op.Error) {
	reply(w, status, map[string]any{"error": withRetry(e)})
}

// withRetry says whether the same request may be sent again, where its maker did not.
func withRetry(e *op.Error) *op.Error {
	if e.Retry != "" {
		return e
	}
	whole := *e // the maker's may be shared
	whole.Retry = op.Retry(e.Code)
	return &whole
}

// callRoutes are those whose answer is a Reply, with the operation that a route stands for.
var callRoutes = map[string]op.Name{"POST /v1/call": "", "POST /v1/undo": op.Undo, "POST /v1/clean": op.BatchFileOps}

// turnAway answers what never got as far as its handler, in the form of the route: a caller
// that reads a Reply finds one, which says that nothing was done.
func turnAway(w http.ResponseWriter, r *http.Request, status int, err error) {
	e := op.AsError(err)
	name, calls := callRoutes[r.Pattern]
	if !calls {
		failStatus(w, status, e)
		return
	}
	answer := op.Reply{Status: op.Failed, Op: name, Effects: []op.Effect{}, Error: withRetry(e)}
	if status == http.StatusForbidden {
		answer.Status = op.Refused
	}
	reply(w, status, answer)
}

// statusOf gives the status line of a Reply.
func statusOf(r op.Reply) int {
	switch {
	case r.Error != nil:
		return op.HTTPStatus(r.Error.Code)
	case r.Status == op.Held:
		return http.StatusAccepted
	}
	return http.StatusOK
}

// text takes a string field; absent is empty.
func text(o op.Object, name string) (string, error) {
	v, given := o[name]
	if !given {
		return "", nil
	}
	s, ok := v.(string)
	if !ok {
		return "", op.Fail(op.BadRequest, name+" must be a string").In(name)
	}
	return s, nil
}

// number takes a whole number; absent is zero.
func number(o op.Object, name string) (int64, error) {
	v, given := o[name]
	if !given {
		return 0, nil
	}
	n, ok := v.(int64)
	if !ok {
		return 0, op.Fail(op.BadRequest, name+" must be a whole number").In(name)
	}
	return n, nil
}

// flag takes a boolean field; absent is false.
func flag(o op.Object, name string) (bool, error) {
	v, given := o[name]
	if !given {
		return false, nil
	}
	b, ok := v.(bool)
	if !ok {
		return false, op.Fail(op.BadRequest, name+" must be true or false").In(name)
	}
	return b, nil
}

// only refuses fields that a route does not know.
func only(o op.Object, names ...string) error {
next:
	for k := range o {
		for _, n := range names {
			if k == n {
				continue next
			}
		}
		return op.Fail(op.BadRequest, "unknown field "+k).In(k)
	}
	return nil
}
