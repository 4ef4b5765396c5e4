package fileops

import (
	"fmt"

	"holdpoint/op"
)

// NewRevert is the plan of an undo: steps that are known already, with nothing to stage.
func NewRevert(steps []op.Step) *Plan {
	p := &Plan{Result: map[string]any{}}
	for _, s := range steps {
		p.add(s, nil)
		p.Lines = append(p.Lines, fmt.Sprintf("%s %s", reverting[s.Do], op.Escape(string(s.Path))))
	}
	return p
}

var reverting = map[op.Act]string{
	op.Swap: "bring back what stood at", op.Place: "bring back", op.Take: "take away", op.Move: "move back", op.MakeDir: "make the directory", op.RemoveDir: "remove the empty directory",
}
