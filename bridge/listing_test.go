package bridge

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"holdpoint/op"
)

// TestListing: a list that is written as it is read is the same JSON as one that is held, and
// one that cannot be ended is nobody's whole list.
func TestListing(t *testing.T) {
	broken := op.Fail(op.IOError, "the disk went")
	for _, c := range []struct {
		name   string
		items  []any
		err    error
		status int
		want   string // of a whole body; empty where it must not be JSON
	}{
		{"nothing", nil, nil, http.StatusOK, `{"list":[]}`},
		{"one", []any{"a"}, nil, http.StatusOK, `{"list":["a"]}`},
		{"several", []any{map[string]any{"a": int64(1)}, "<b>", nil}, nil, http.StatusOK, `{"list":[{"a":1},"<b>",null]}`},
		{"an error before the first", nil, broken, http.StatusInternalServerError, `{"error":{"code":"io_error","message":"the disk went","retry":"same"}}`},
		{"an error behind the first", []any{"a"}, broken, http.StatusOK, ""},
		{"what is no JSON", []any{"a", func() {}}, nil, http.StatusOK, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			l := &listing{w: w, name: "list"}
			err := c.err
			for _, v := range c.items {
				if bad := l.add(v); bad != nil {
					err = bad
				}
			}
			l.end(err)
			got := w.Body.String()
			if c.want == "" && json.Valid(w.Body.Bytes()) || c.want != "" && strings.TrimSpace(got) != c.want || w.Code != c.status {
				t.Errorf("%d %s", w.Code, got)
			}
			if h := w.Header(); h.Get("Content-Type") != "application/json; charset=utf-8" || h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%v", h)
			}
		})
	}
}
