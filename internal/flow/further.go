package flow

import (
	"fmt"
	"slices"

	"holdpoint/op"
)

// shownElsewhere are the arguments that a card's lines, diff or reasons tell already.
var shownElsewhere = []string{"path", "source", "destination", "content", "content_base64", "script", "old_string", "new_string", "edits", "credential", "operation_id"}

// further gives a line for every other argument of a call, so that nothing that can
// change its effect is missing from the card.
func further(args op.Object) []string {
	var out []string
	for name, v := range args {
		if !slices.Contains(shownElsewhere, name) {
			out = append(out, fmt.Sprintf("with %s: %s", name, op.Canonical(v)))
		}
	}
	slices.Sort(out)
	return out
}

// unbound reports a call that was held because its root was not verified.
func unbound(d op.Decision) bool {
	return d.Reason == op.ReasonUnbound || slices.Contains(d.Also, op.ReasonUnbound)
}
