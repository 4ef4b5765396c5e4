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

// moved is the answer to a change whose root's name no longer leads to the directory that
// is held open. The name is part of what was looked at and what a card showed, so nothing
// is written there, whoever released it.
func moved() error {
	return op.Fail(op.Stale, "the root's directory was moved or replaced since").Do("register the root again and ask again; nothing was changed")
}
