package flow

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"holdpoint/op"
)

// A kept reply is read back from JSON; what comes back must be what was given.
func TestKeptReply(t *testing.T) {
	long := strings.Repeat("x", keptDiff)
	for name, c := range map[string]struct {
		text string // of all diffs, as the operation keeps it
		give map[string]any
		want map[string]any // nil: the same
	}{
		"one":       {text: "d1", give: map[string]any{"diff": "d1", "size": 1.0}},
		"none":      {text: "", give: map[string]any{"diff": "", "size": 1.0}},
		"no field":  {text: "d1", give: map[string]any{"size": 1.0}},
		"forgotten": {text: "", give: map[string]any{"diff": "d1", "size": 1.0}, want: map[string]any{"size": 1.0}},
		"cut off":   {text: string(bounded(long + "tail")), give: map[string]any{"diff": long + "tail"}, want: map[string]any{"diff": string(bounded(long + "tail"))}},
		"a batch": {text: "d1d2d1", give: map[string]any{"items": []map[string]any{
			{"result": map[string]any{"diff": "d1"}}, {"result": map[string]any{"deleted": "file"}}, {"result": map[string]any{"diff": "d1"}}}}},
		"a batch with the diff of all": {text: "d1d2", give: map[string]any{"diff": "d1d2", "items": []map[string]any{{"result": map[string]any{"diff": "d1"}}, {"result": map[string]any{"diff": "d2"}}}}},
		"a batch that was cut off": {text: "d1", give: map[string]any{"items": []map[string]any{{"result": map[string]any{"diff": "d1"}}, {"result": map[string]any{"diff": "d3"}}}},
			want: map[string]any{"items": []map[string]any{{"result": map[string]any{"diff": "d1"}}, {"result": map[string]any{}}}}},
		"operations of their own": {text: "", give: map[string]any{"items": []map[string]any{{"operation_id": "op_2", "result": map[string]any{"diff": "own"}}}}},
	} {
		t.Run("U32 (part) "+name, func(t *testing.T) {
			if c.want == nil {
				c.want = c.give
			}
			kept, err := json.Marshal(withoutDiffs(op.Reply{Result: c.give}, c.text))
			if err != nil {
				t.Fatal(err)
			}
			if name != "none" && len(c.text) > 0 && strings.Contains(string(kept), `"d`+"1") {
				t.Errorf("the diff is kept twice: %s", kept)
			}
			var back op.Reply
			if err := json.Unmarshal(kept, &back); err != nil {
				t.Fatal(err)
			}
			result := back.Result.(map[string]any)
			putDiffs(result, "op_1", func(id op.ID) string { return map[op.ID]string{"op_1": c.text, "op_2": "own"}[id] })
			got, _ := json.Marshal(result)
			want, _ := json.Marshal(c.want)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %.200s\nwant %.200s", got, want)
			}
		})
	}
}
