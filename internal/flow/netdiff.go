package flow

import (
	"context"
	"strconv"

	"holdpoint/fileops"
	"holdpoint/internal/rooted"
	"holdpoint/op"
	"holdpoint/undo"
)

// NetDiff is what several operations made of the files, as one patch.
type NetDiff struct {
	Diff  string   `json:"diff"`
	Files int      `json:"files"`
	Left  []string `json:"left"` // what is not in it, and why
	Root  string   `json:"root"`
}

// maxPatched is the largest file that goes into a patch, in bytes.
const maxPatched = 16 << 20

// NetDiff gives the patch from the tree without what the operations did to the tree as it
// is. What others changed in the same files is in neither side of it; parts that overlap
// with changes of others are left out and named.
func (e *Engine) NetDiff(ctx context.Context, by op.Caller, root string, ids []string) (NetDiff, error) {
	out := NetDiff{Left: []string{}}
	req := op.Request{Op: op.Undo, Root: root, Args: op.Object{"operations": anyList(ids)}, DryRun: true}
	c, err := e.open(ctx, by, e.inItsRoot(ctx, by, req), nil, false)
	if err != nil {
		return out, err
	}
	defer c.close()
	if c.ws == nil {
		return out, op.Fail(op.UndoUnknown, "no such operations")
	}
	out.Root = c.ws.Key
	ops, err := e.meantMany(ctx, c, ids)
	if err != nil {
		return out, err
	}
	units, err := e.ways(ctx, c, ops, false)
	if err != nil {
		return out, err
	}
	old, now := map[op.Path]fileSide{}, map[op.Path]fileSide{}
	for _, u := range units {
		if u.Why != nil {
			out.Left = append(out.Left, op.AsError(u.Why).Error())
			continue
		}
		for _, ch := range u.Changes { // directories before what lies in them
			for _, s := range []struct {
				into map[op.Path]fileSide
				v    undo.Version
			}{{old, ch.Old}, {now, ch.Now}} {
				if err := expand(ctx, s.into, ch.Path, s.v); err != nil {
					out.Left = append(out.Left, op.AsError(err).Error())
				}
			}
		}
	}
	var list []fileops.FileChange
	for p, was := range old {
		list = append(list, fileops.FileChange{Path: p, OldMode: was.mode, Old: was.bytes, NewMode: now[p].mode, New: now[p].bytes})
	}
	for p, is := range now {
		if _, both := old[p]; !both {
			list = append(list, fileops.FileChange{Path: p, NewMode: is.mode, New: is.bytes})
		}
	}
	out.Files, out.Diff = len(list), string(fileops.GitPatch(list))
	return out, nil
}

func anyList(ids []string) []any {
	out := make([]any, len(ids))
	for i, id := range ids {
		out[i] = id
	}
	return out
}

// fileSide is one file as a patch knows it.
type fileSide struct {
	mode  string
	bytes []byte
}

// expand puts a version and all below it into a map. What is absent takes away what a
// directory above it put there.
func expand(ctx context.Context, into map[op.Path]fileSide, p op.Path, v undo.Version) error {
	for q := range into {
		if q.Within(p) {
			delete(into, q)
		}
	}
	switch v.State.Kind {
	case op.File:
		b, err := v.Read()
		if err != nil {
			return op.AsError(err).At(p)
		}
		into[p] = fileSide{gitMode(v.State.Mode), b}
	case op.Symlink:
		into[p] = fileSide{"120000", []byte(v.State.Target)}
	case op.Directory:
		if v.Node == nil {
			return nil
		}
		return v.Node.Tree(ctx, func(at op.Path, info rooted.Info, open func() (*rooted.Node, error)) error {
			q := p + at[len(v.Node.Path):]
			switch info.Kind {
			case op.Symlink:
				into[q] = fileSide{"120000", []byte(info.Target)}
			case op.File:
				n, err := open()
				if err != nil {
					return err
				}
				defer n.Close()
				b, err := n.Read(maxPatched)
				if err != nil {
					return err
				}
				into[q] = fileSide{gitMode(info.ModeString()), b}
			}
			return nil
		})
	}
	return nil
}

// gitMode is one of the two modes that git keeps of a file.
func gitMode(mode string) string {
	if n, err := strconv.ParseUint(mode, 8, 32); err == nil && n&0o100 != 0 {
		return "100755"
	}
	return "100644"
}
