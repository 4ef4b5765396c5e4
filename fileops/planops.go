package fileops

import (
	"context"
	"fmt"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// permFile and permDir are what a plain create asks for before the umask.
const (
	permFile = 0o666
	permDir  = 0o777
)

func planWrite(s Scene, a *op.WriteArgs) (*Plan, error) {
	t, n := s.Targets[0], s.Nodes[0]
	content, err := a.Bytes()
	if err != nil {
		return nil, err
	}
	meta := rooted.Meta{Perm: permFile}
	if a.Mode != "" {
		if meta.Perm, err = modeBits(a.Mode); err != nil {
			return nil, err
		}
		if !rooted.Legible(meta.Perm) {
			return nil, op.Fail(op.PermissionDenied, "with mode "+a.Mode+" the daemon could not read what it wrote, so that nobody could take it back").At(t.Path).In("args.mode").
				Do("give a mode that lets the owner read")
		}
		meta.Exact = true
	}
	if t.Exists {
		return overwrite(s, a, content, meta)
	}
	if a.ExpectedHash != "" {
		return nil, op.Fail(op.Stale, "the file that expected_hash speaks of is not there").At(t.Path).Do("leave expected_hash out to create it")
	}
	p := &Plan{Title: "Create 1 file", Lines: []string{line("create", t.Path, int64(len(content)))}, Creates: true, ChangeBytes: int64(len(content))}
	if err := p.parents(n, op.Or(a.CreateDirs, true)); err != nil {
		return nil, err
	}
	p.replace(s, 0, content, meta)
	p.Diff = Unified(t.Path, nil, content, false, true)
	p.Result = map[string]any{"created": true, "hash": rooted.HashBytes(content), "size": len(content), "diff": p.Diff.Text}
	return p, nil
}

func overwrite(s Scene, a *op.WriteArgs, content []byte, meta rooted.Meta) (*Plan, error) {
	t, n := s.Targets[0], s.Nodes[0]
	if a.Overwrite != nil && !*a.Overwrite && !a.Append {
		return nil, op.Fail(op.Exists, "there is something at this path already").At(t.Path).Do("use edit_file to change a part, or leave overwrite out")
	}
	if err := regular(t); err != nil {
		return nil, err
	}
	partial, err := expect(t, a.ExpectedHash)
	if err != nil {
		return nil, err
	}
	old, err := bytesOf(s, 0)
	if err != nil {
		return nil, err
	}
	if partial && !a.Append && (a.Overwrite == nil || !*a.Overwrite) {
		gone := max(Lines(old)-Lines(content), 0)
		return nil, op.Fail(op.PartialBase, fmt.Sprintf("only a part of this file was shown; this write would remove %d lines", gone)).At(t.Path).
			Do("use edit_file, view the rest, or send overwrite: true")
	}
	if err := hardLinks(t, n, a.Safety); err != nil {
		return nil, err
	}
	p := &Plan{Overwrites: true, BreakLinks: a.HardLinks == "break", ChangeBytes: int64(len(content))}
	if a.Append {
		content, p.Warnings = Append(old, content)
		p.Title = "Append to 1 file"
	} else {
		p.Warnings = WriteWarnings(old, content)
		p.Title = "Overwrite 1 file"
	}
	p.Lines = []string{line("overwrite", t.Path, int64(len(content)))}
	p.replace(s, 0, content, meta)
	p.Diff = Unified(t.Path, old, content, true, true)
	p.Result = map[string]any{"created": false, "hash": rooted.HashBytes(content), "size": len(content), "diff": p.Diff.Text}
	return p, p.backupTo(s, a.BackupRoot)
}

func planEdit(s Scene, a *op.EditArgs) (*Plan, error) {
	t, n := s.Targets[0], s.Nodes[0]
	if err := regular(t); err != nil {
		return nil, err
	}
	if _, err := expect(t, a.ExpectedHash); err != nil {
		return nil, err
	}
	old, err := bytesOf(s, 0)
	if err != nil {
		return nil, err
	}
	edited, err := ApplyEdits(old, *a)
	if err != nil {
		return nil, placed(err, t.Path)
	}
	if err := hardLinks(t, n, a.Safety); err != nil {
		return nil, err
	}
	p := &Plan{Title: "Edit 1 file", BreakLinks: a.HardLinks == "break", Warnings: edited.Warnings,
		Lines: []string{fmt.Sprintf("edit %s, %s", op.Escape(string(t.Path)), count(edited.Replacements, "replacement"))}}
	p.replace(s, 0, edited.Bytes, rooted.Meta{})
	p.Diff = Unified(t.Path, old, edited.Bytes, true, true)
	p.ChangeBytes = p.Diff.Bytes
	p.Result = map[string]any{"replacements": edited.Replacements, "hash": rooted.HashBytes(edited.Bytes), "size": len(edited.Bytes), "diff": p.Diff.Text}
	return p, p.backupTo(s, a.BackupRoot)
}

func planMakeDir(s Scene, a *op.MakeDirArgs) (*Plan, error) {
	t, n := s.Targets[0], s.Nodes[0]
	p := &Plan{Title: "Create 1 directory", Lines: []string{"create " + op.Escape(string(t.Path)) + "/"}, Creates: true}
	switch {
	case t.Kind == op.Directory:
		p.Creates, p.Result = false, map[string]any{"created": false}
		return p, nil
	case t.Exists:
		return nil, op.Fail(op.Exists, "a "+string(t.Kind)+" stands at this path").At(t.Path)
	}
	if err := p.parents(n, op.Or(a.Parents, true)); err != nil {
		return nil, err
	}
	p.add(op.Step{Do: op.MakeDir, Path: n.Path, Before: op.State{Kind: op.Absent}, After: op.State{Kind: op.Directory}}, nil)
	p.Result = map[string]any{"created": true, "directories": paths(p.Steps)}
	return p, nil
}

func planCopy(ctx context.Context, s Scene, a *op.CopyArgs) (*Plan, error) {
	src, dst := s.Targets[0], s.Targets[1]
	if src.Kind == op.Directory {
		if dst.Path.Within(src.Path) {
			return nil, op.Fail(op.IntoItself, "the destination lies inside the source").At(dst.Path)
		}
		if !a.Recursive {
			return nil, op.Fail(op.NotAFile, "the source is a directory").At(src.Path).Do("send recursive: true")
		}
		return planCopyTree(ctx, s, a)
	}
	if err := regular(src); err != nil {
		return nil, err
	}
	p := &Plan{Title: "Copy 1 file", Lines: []string{fmt.Sprintf("copy %s to %s, %d bytes", op.Escape(string(src.Path)), op.Escape(string(dst.Path)), src.Size)}, ChangeBytes: src.Size}
	meta := rooted.Meta{Perm: s.Nodes[0].Info.Mode & 0o777}
	step := op.Step{Do: op.Place, Path: s.Nodes[1].Path, Before: stateOf(dst, s.Nodes[1])}
	switch {
	case dst.Exists && !a.Overwrite:
		return nil, op.Fail(op.Exists, "there is something at the destination already").At(dst.Path).Do("choose another name, or send overwrite: true (needs a person)")
	case dst.Path == src.Path:
		return nil, op.Fail(op.IntoItself, "source and destination are the same file").At(dst.Path)
	case dst.Exists:
		if dst.Kind == op.Symlink {
			return nil, op.Fail(op.SymlinkRefused, "the destination is a link").At(dst.Path).Do("name the file that it leads to")
		}
		if err := regular(dst); err != nil {
			return nil, err
		}
		if err := hardLinks(dst, s.Nodes[1], a.Safety); err != nil {
			return nil, err
		}
		p.Title, p.Overwrites, p.BreakLinks = "Copy over 1 file", true, a.HardLinks == "break"
		step.Do, meta.Like = op.Swap, s.Nodes[1]
	default:
		p.Creates = true
		if err := p.parents(s.Nodes[1], op.Or(a.CreateDirs, true)); err != nil {
			return nil, err
		}
	}
	p.put(step, inDir(s.Nodes[1], dst, meta, func(ctx context.Context, st *rooted.Store, slot string, m rooted.Meta) (rooted.Staged, error) {
		return st.StageCopy(ctx, slot, s.Nodes[0], m)
	}), fresh{from: s.Nodes[0], perm: meta.Perm, over: bytesIn(s.Nodes[1], dst, meta)})
	p.Diff = copyDiff(s, src, dst)
	p.Result = map[string]any{"created": !dst.Exists, "hash": src.Hash, "size": src.Size, "diff": p.Diff.Text}
	return p, nil
}

// copyDiff shows what an overwrite replaces; a copy to a new name needs no diff.
func copyDiff(s Scene, src, dst op.Target) Diff {
	if !dst.Exists || s.Contents[0] == nil || s.Contents[1] == nil {
		return Diff{}
	}
	return Unified(dst.Path, s.Contents[1], s.Contents[0], true, true)
}

func planDelete(s Scene, a *op.DeleteArgs) (*Plan, error) {
	t, n := s.Targets[0], s.Nodes[0]
	what := "file"
	switch {
	case t.Path == ".":
		return nil, op.Fail(op.InvalidPath, "the root itself cannot be deleted").At(t.Path)
	case !t.Exists:
		return nil, op.Fail(op.NotFound, "there is nothing at this path").At(t.Path).Do("list the directory to see what is there")
	case t.Kind == op.Directory && !a.Recursive:
		return nil, op.Fail(op.NotAFile, "this is a directory").At(t.Path).Do("send recursive: true to delete it with all below it")
	case t.Kind == op.Directory:
		what = "directory"
	case t.Kind == op.Symlink:
		what = "link"
	}
	if _, err := expect(t, a.ExpectedHash); err != nil {
		return nil, err
	}
	p := &Plan{Title: "Delete 1 " + what + with(t.Below), Lines: append([]string{line("delete "+what, t.Path, t.Size, t.Below)}, reach("takes", t.Below)...)}
	if t.Kind == op.File && s.Contents[0] != nil {
		p.Diff = Unified(t.Path, s.Contents[0], nil, true, false)
	}
	p.add(op.Step{Do: op.Take, Path: n.Path, Before: stateOf(t, n), After: op.State{Kind: op.Absent}}, nil)
	p.Result = map[string]any{"deleted": what, "quarantined": true}
	return p, nil
}

func planMove(s Scene, a *op.MoveArgs) (*Plan, error) {
	src, dst := s.Targets[0], s.Targets[1]
	switch {
	case src.Path == ".":
		return nil, op.Fail(op.InvalidPath, "the root itself cannot be moved").At(src.Path)
	case !src.Exists:
		return nil, op.Fail(op.NotFound, "there is nothing at the source").At(src.Path).Do("list the directory to see what is there")
	case dst.Exists:
		return nil, op.Fail(op.Exists, "there is something at the destination already").At(dst.Path).Do("move never replaces: choose another name")
	case dst.Path.Within(src.Path):
		return nil, op.Fail(op.IntoItself, "the destination lies inside the source").At(dst.Path)
	}
	from, to := op.Escape(string(src.Path)), op.Escape(string(dst.Path))
	p := &Plan{Title: "Move 1 " + string(src.Kind) + with(src.Below), Lines: append([]string{fmt.Sprintf("move %s to %s", from, to) + with(src.Below)}, reach("carries", src.Below)...)}
	if err := p.parents(s.Nodes[1], op.Or(a.CreateDirs, true)); err != nil {
		return nil, err
	}
	state := stateOf(src, s.Nodes[0])
	p.add(op.Step{Do: op.Move, Path: s.Nodes[0].Path, To: s.Nodes[1].Path, Before: state, After: state}, nil)
	p.Result = map[string]any{"moved": true, "path": op.Escape(string(dst.Path))}
	return p, nil
}

func line(act string, p op.Path, size int64, below ...*op.Below) string {
	holds := ""
	for _, b := range below {
		holds += with(b)
	}
	return fmt.Sprintf("%s %s%s, %d bytes", act, op.Escape(string(p)), holds, size)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func paths(steps []op.Step) []string {
	out := make([]string, 0, len(steps))
	for _, s := range steps {
		out = append(out, op.Escape(string(s.Path)))
	}
	return out
}

// placed adds the path to an error of the text engine.
func placed(err error, p op.Path) error {
	e := *op.AsError(err)
	e.Path = p
	return &e
}
