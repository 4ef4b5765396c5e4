package flow

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

// basis is all that one decision was made from. It goes into the journal beside the record
// that the decision belongs to, so that Replay can make the decision again.
type basis struct {
	Request     op.Terms       `json:"request"`
	Profile     op.Profile     `json:"profile"`
	Facts       op.Facts       `json:"facts"`
	Environment op.Environment `json:"environment"`
	BaseMode    op.Mode        `json:"base_mode"` // the profile's own, before what people set
	Rules       []op.ID        `json:"rules"`     // of the calling token, that counted at that moment
}

// onRecord is the basis as it is kept: what is zero is left out, and of each target what
// only people read. No hash, no content and no argument is in it; its paths are those of
// the record's own steps or pins.
func (b *basis) onRecord() []byte {
	if b == nil {
		return nil
	}
	return appendSparse(nil, reflect.ValueOf(*b))
}

// unjudged are the fields of a target that no judgement reads.
var unjudged = map[string]bool{"Asked": true, "Links": true, "Size": true, "Mode": true, "LinkCount": true, "Hash": true, "Text": true,
	"ProtectedBy": true, "ProtectedFrom": true}

var targetType = reflect.TypeFor[op.Target]()

// appendSparse writes a value as JSON without the fields that are zero. Reading it back
// gives the same value, but for empty lists, which become none.
func appendSparse(out []byte, v reflect.Value) []byte {
	switch {
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]():
		out = append(out, '{')
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if v.Field(i).IsZero() || v.Type() == targetType && unjudged[f.Name] {
				continue
			}
			if out[len(out)-1] != '{' {
				out = append(out, ',')
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			out = append(append(append(out, '"'), name...), '"', ':')
			out = appendSparse(out, v.Field(i))
		}
		return append(out, '}')
	case v.Kind() == reflect.Slice:
		out = append(out, '[')
		for i := range v.Len() {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendSparse(out, v.Index(i))
		}
		return append(out, ']')
	}
	leaf, err := json.Marshal(v.Interface())
	if err != nil {
		panic("flow: internal error: " + err.Error()) // only for a type that has no JSON form
	}
	return append(out, leaf...)
}

// liveRules names the rules that count for a call at a moment.
func liveRules(rules []journal.Rule, root string, now time.Time) []op.ID {
	var out []op.ID
	for _, r := range rules {
		if r.Live(now) && (r.Root == "" || r.Root == root) {
			out = append(out, r.ID)
		}
	}
	return out
}
