package bridge

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"

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

// reply writes v as JSON, without the HTML escapes of encoding/json: they would triple
// the size of text that is full of angle brackets.
func reply(w http.ResponseWriter, status int, v any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		status = http.StatusInternalServerError
		b.Reset()
		b.WriteString(`{"error":{"code":"internal_error","message":"the answer could not be written as JSON"}}` + "\n")
	}
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(b.Bytes())
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
