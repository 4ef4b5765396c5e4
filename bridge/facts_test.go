package bridge

import (
	"errors"
	"testing"

	"holdpoint/op"
)

// TestPathList: what a preflight of paths may hold beside them.
func TestPathList(t *testing.T) {
	paths := []any{"a", "b"}
	for _, c := range []struct {
		body op.Object
		want op.Page
		bad  string // the field that is refused
	}{
		{body: op.Object{}},
		{body: op.Object{"page_size": int64(20)}, want: op.Page{Size: 20}},
		{body: op.Object{"page_size": int64(20), "page": "40"}, want: op.Page{Size: 20, After: "40"}},
		{body: op.Object{"page_size": int64(0)}, bad: "page_size"},
		{body: op.Object{"page_size": int64(10_001)}, bad: "page_size"},
		{body: op.Object{"page_size": "20"}, bad: "page_size"},
		{body: op.Object{"page_size": int64(20), "page": int64(40)}, bad: "page"},
		{body: op.Object{"page": "40"}, bad: "page_size"},
		{body: op.Object{"pages": int64(1)}, bad: "pages"},
	} {
		c.body["paths"] = paths
		list, _, page, err := pathList(c.body, paths)
		if c.bad != "" {
			if !errors.Is(err, op.BadRequest) || op.AsError(err).Field != c.bad {
				t.Errorf("%v: got %v, want %s refused", c.body, err, c.bad)
			}
			continue
		}
		if err != nil || page != c.want || len(list) != 2 {
			t.Errorf("%v: got %v %+v %v", c.body, list, page, err)
		}
	}
}
