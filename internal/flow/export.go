package flow

import (
	"context"
	"encoding/base64"

	"holdpoint/internal/journal"
	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// Export is what one operation keeps, to be written as plain files.
type Export struct {
	Operation LogEntry     `json:"operation"`
	Diff      string       `json:"diff"`
	Files     []ExportFile `json:"files"`
	Left      []string     `json:"left"` // what could not be given, and why
}

// ExportFile is one thing as it was before the operation.
type ExportFile struct {
	Path          op.Path   `json:"path"`
	Kind          op.Kind   `json:"type"`
	Mode          string    `json:"mode,omitempty"`
	Hash          op.Digest `json:"hash,omitempty"`
	Target        string    `json:"target,omitempty"` // of a link
	ContentBase64 string    `json:"content_base64,omitempty"`
}

// maxExport bounds the content of one answer, in bytes.
const maxExport = 96 << 20

// Export gives the pre-images of one operation to whoever may see it in full.
func (e *Engine) Export(ctx context.Context, by op.Caller, id op.ID) (Export, error) {
	d, err := e.Operation(ctx, by, id)
	if err != nil {
		return Export{}, err
	}
	o, err := e.jrn.Operation(ctx, id)
	if err != nil {
		return Export{}, err
	}
	w := e.byKey(o.Root)
	if o.Dropped || w == nil {
		return Export{}, op.Fail(op.UndoExpired, "what this operation kept is gone")
	}
	out := Export{Operation: d.Operation, Diff: d.Diff, Files: []ExportFile{}, Left: []string{}}
	if o.State == journal.Undone {
		out.Left = append(out.Left, "the operation was undone; what it replaced stands in the workspace, or is kept by "+string(o.UndoneBy))
		return out, nil
	}
	room := int64(maxExport)
	for _, s := range o.Steps {
		if s.Do != op.Swap && s.Do != op.Take && s.Do != op.Keep {
			continue
		}
		if err := e.exportStep(ctx, w, s, &out, &room); err != nil {
			out.Left = append(out.Left, op.Escape(string(s.Path))+": "+op.AsError(err).Message)
		}
	}
	return out, nil
}

func (e *Engine) exportStep(ctx context.Context, w *Workspace, s op.Step, out *Export, room *int64) error {
	n, err := e.intact(ctx, w, s)
	if err != nil {
		return err
	}
	defer n.Close()
	if err := exportNode(s.Path, n, out, room); err != nil || n.Info.Kind != op.Directory {
		return err
	}
	return n.Tree(ctx, func(at op.Path, info rooted.Info, open func() (*rooted.Node, error)) error {
		below, err := open()
		if err != nil {
			return err
		}
		defer below.Close()
		return exportNode(s.Path+at[len(n.Path):], below, out, room)
	})
}

func exportNode(p op.Path, n *rooted.Node, out *Export, room *int64) error {
	f := ExportFile{Path: p, Kind: n.Info.Kind, Mode: n.Info.ModeString(), Target: op.Escape(n.Info.Target)}
	if n.Info.Kind == op.File {
		b, err := n.Read(*room)
		if err != nil {
			return err
		}
		*room -= int64(len(b))
		f.Hash, f.ContentBase64 = rooted.HashBytes(b), base64.StdEncoding.EncodeToString(b)
	}
	out.Files = append(out.Files, f)
	return nil
}
