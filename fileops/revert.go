package fileops

import (
	"bytes"
	"context"
	"fmt"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// NewRevert is the plan of an undo: steps that are known already, with nothing to stage.
func NewRevert(steps []op.Step) *Plan {
	p := &Plan{Result: map[string]any{}}
	for _, s := range steps {
		p.Back(s)
	}
	return p
}

// Back adds a step of an undo for which nothing is staged.
func (p *Plan) Back(s op.Step) { p.back(s, nil) }

// BackWith adds one that brings new content: a merge. like, which may be nil, is the file
// whose metadata it takes, mode its permission bits.
func (p *Plan) BackWith(s op.Step, content []byte, like *rooted.Node, mode string) error {
	m := rooted.Meta{Like: like}
	if mode != "" {
		if _, err := fmt.Sscanf(mode, "%o", &m.Perm); err != nil {
			return op.Fail(op.StateCorrupt, "a recorded mode cannot be read").At(s.Path).Because(err)
		}
		m.Exact = true
	}
	p.back(s, func(ctx context.Context, st *rooted.Store, slot string) (rooted.Staged, error) {
		return st.Stage(ctx, slot, bytes.NewReader(content), m)
	})
	return nil
}

func (p *Plan) back(s op.Step, stage stager) {
	p.add(s, stage)
	line := fmt.Sprintf("%s %s", reverting[s.Do], op.Escape(string(s.Path)))
	if stage != nil {
		line += ", merged with what others changed since"
	}
	p.Lines = append(p.Lines, line)
}

var reverting = map[op.Act]string{
	op.Swap: "bring back what stood at", op.Place: "bring back", op.Take: "take away", op.Move: "move back", op.MakeDir: "make the directory", op.RemoveDir: "remove the empty directory",
	op.Keep: "keep the snapshot of", op.LetGo: "drop the snapshot of",
}
