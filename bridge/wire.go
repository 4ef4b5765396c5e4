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
	b, err := io.ReadAll(r.Body)
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, errTooLarge
	}
	if err != nil {
		return nil, op.Fail(op.BadRequest, "the body could not be read").Because(err)
	}
	return op.ParseJSON(b)
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
	reply(w, status, map[string]any{"error": e})
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
