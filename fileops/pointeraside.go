package fileops

import (
	"context"
	"encoding/json"

	"holdpoint/op"
)

// cheapPointers is how many bytes, read once and once more for each operation, are worked
// on in this process. A document may be made so that reading it takes the square of its
// length, or a stack as deep as it is long: longer work is done aside.
const cheapPointers = 64 << 10

var formatNames = map[docFormat]string{jsonFormat{}: "json", yamlFormat{}: "yaml", tomlFormat{}: "toml"}

// pointerJob is what the other process is given, and pointerStep an operation of it.
type pointerJob struct {
	Format string        `json:"format"`
	Text   []byte        `json:"text"`
	Steps  []pointerStep `json:"steps"`
}

type pointerStep struct{ Op, Path, Value string }

// refusal is an error on its way back.
type refusal struct {
	Code                 op.Code
	Message, Field, Hint string
}

// pointers applies operations to a document.
func (s Scene) pointers(ctx context.Context, f docFormat, old []byte, ops []op.PointerOp) ([]byte, error) {
	if len(ops) > maxEdits || s.Aside == nil || len(old)*(len(ops)+1) <= cheapPointers {
		return applyPointers(f, old, ops)
	}
	job := pointerJob{Format: formatNames[f], Text: old}
	for _, o := range ops {
		job.Steps = append(job.Steps, pointerStep{o.Op, o.Path, string(o.Value)})
	}
	body, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	out, ok := s.parse(ctx, "pointers", body)
	switch {
	case ctx.Err() != nil:
		return nil, op.Fail(op.Cancelled, "cancelled while changing the document").Because(ctx.Err())
	case !ok:
		return nil, op.Fail(op.InvalidDocument, "the document cannot be read: it takes too long, or too much memory").Do("change it with edit_file")
	case out.Refused != nil:
		return nil, op.Fail(out.Refused.Code, out.Refused.Message).In(out.Refused.Field).Do(out.Refused.Hint)
	}
	return out.Text, nil
}

// pointed is the other side.
func pointed(body []byte) (out parsed) {
	var job pointerJob
	if err := json.Unmarshal(body, &job); err != nil {
		panic(err) // what this program wrote itself
	}
	var ops []op.PointerOp
	for _, s := range job.Steps {
		ops = append(ops, op.PointerOp{Op: s.Op, Path: s.Path, Value: op.Raw(s.Value)})
	}
	for f, name := range formatNames {
		if name != job.Format {
			continue
		}
		text, err := applyPointers(f, job.Text, ops)
		if err != nil {
			e := op.AsError(err)
			return parsed{Refused: &refusal{e.Code, e.Message, e.Field, e.Hint}}
		}
		return parsed{Text: text}
	}
	panic("no such format")
}
