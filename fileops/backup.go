package fileops

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// Backup is a kept version of a file, as a rollback needs it.
type Backup struct {
	ID    string
	State op.State
	Node  *rooted.Node // of the store
}

// planBackup keeps a snapshot: in the store, where no operation reaches it, or, when the
// call names a directory, as a file of the workspace.
func planBackup(s Scene, a *op.BackupArgs) (*Plan, error) {
	t, n := s.Targets[0], s.Nodes[0]
	if err := regular(t); err != nil {
		return nil, err
	}
	if a.Label != "" && !op.Label(a.Label) {
		return nil, op.Fail(op.BadRequest, "label must be at most 64 of A-Z a-z 0-9 . _ : -").In("args.label")
	}
	p := &Plan{Title: "Back up 1 file", Lines: []string{line("keep a snapshot of", t.Path, t.Size)},
		Result: map[string]any{"hash": t.Hash, "size": t.Size, "label": a.Label}}
	if custom(a.BackupRoot) {
		p.Creates = true
		return p, p.backupTo(s, a.BackupRoot)
	}
	state := stateOf(t, n)
	p.add(op.Step{Do: op.Keep, Path: n.Path, Before: state, After: state, Label: a.Label}, keeping(t, n))
	return p, nil
}

func custom(root string) bool { return root != "" && root != op.DefaultBackups }

// keeping stages a copy that is what was looked at, with its metadata.
func keeping(t op.Target, n *rooted.Node) stager {
	return func(ctx context.Context, st *rooted.Store, slot string) (rooted.Staged, error) {
		staged, err := st.StageCopy(ctx, slot, n, rooted.Meta{Like: n})
		if err == nil && staged.State.Hash != t.Hash {
			st.Drop(slot)
			e := op.Fail(op.Stale, "the file changed while it was copied").At(t.Path).Do("look again, then decide again: nothing was changed")
			e.CurrentHash = staged.State.Hash
			return rooted.Staged{}, e
		}
		return staged, err
	}
}

// backupTo adds a copy of what stands at the first target, in a directory of the
// workspace that the call names. Its name tells the content, so that the same bytes are
// backed up once, and does not grow with the name of the file.
func (p *Plan) backupTo(s Scene, root string) error {
	if !custom(root) || !s.Targets[0].Exists {
		return nil
	}
	t, n, dir := s.Targets[0], s.Nodes[0], s.Nodes[1]
	at := dir.Path.Join(backupName(t))
	switch dir.Info.Kind {
	case op.Directory:
		old, err := dir.Child(string(at.Base()))
		if err == nil {
			old.Close()
			p.Result["backup_path"] = op.Escape(string(at))
			return nil
		}
		if op.AsError(err).Code != op.NotFound {
			return err
		}
	case op.Absent:
		if err := p.parents(dir, true); err != nil {
			return err
		}
		p.add(op.Step{Do: op.MakeDir, Path: dir.Path, Before: op.State{Kind: op.Absent}, After: op.State{Kind: op.Directory}}, nil)
	default:
		return op.Fail(op.NotADirectory, "backup_root is no directory").At(dir.Path).In("args.backup_root")
	}
	p.Places = append(p.Places, Place{Path: at, Aside: true})
	p.Lines = append(p.Lines, "keep what was there as "+op.Escape(string(at)))
	p.add(op.Step{Do: op.Place, Path: at, Before: op.State{Kind: op.Absent}}, func(ctx context.Context, st *rooted.Store, slot string) (rooted.Staged, error) {
		return st.StageCopy(ctx, slot, n, rooted.Meta{Perm: n.Info.Mode & 0o777})
	})
	p.Result["backup_path"] = op.Escape(string(at))
	return nil
}

// backupName is the file's own name, cut where it would grow too long, the beginning of
// its content's digest, and an ending.
func backupName(t op.Target) string {
	const most = 200
	name := t.Path.Base()
	if len(name) > most {
		name = name[:most]
		for !utf8.ValidString(name) && len(name) > most-utf8.UTFMax {
			name = name[:len(name)-1]
		}
	}
	sum := strings.TrimPrefix(string(t.Hash), "blake3:")
	return fmt.Sprintf("%s.%s.bak", name, sum[:min(16, len(sum))])
}

// planRollback brings a kept version back, with the mode and attributes it had.
func planRollback(s Scene, a *op.RollbackArgs) (*Plan, error) {
	t, n := s.Targets[0], s.Nodes[0]
	if s.Backup == nil {
		return nil, op.Fail(op.NotFound, "there is no such backup of this file").At(t.Path).In("args.backup_id").Do("list_backups shows what there is")
	}
	p := &Plan{Title: "Roll back 1 file", Overwrites: t.Exists, Creates: !t.Exists, ChangeBytes: s.Backup.State.Size,
		Lines:  []string{line("roll back", t.Path, s.Backup.State.Size) + " of backup " + s.Backup.ID},
		Result: map[string]any{"backup_id": s.Backup.ID, "hash": s.Backup.State.Hash, "size": s.Backup.State.Size, "created": !t.Exists}}
	step := op.Step{Do: op.Place, Path: n.Path, Before: stateOf(t, n)}
	var old []byte
	if t.Exists {
		if err := regular(t); err != nil {
			return nil, err
		}
		if err := hardLinks(t, n, a.Safety); err != nil {
			return nil, err
		}
		step.Do, p.BreakLinks = op.Swap, a.HardLinks == "break"
		old = s.Contents[0]
	} else if err := p.parents(n, true); err != nil {
		return nil, err
	}
	b := *s.Backup
	put := func(ctx context.Context, st *rooted.Store, slot string) (rooted.Staged, error) {
		staged, err := st.StageCopy(ctx, slot, b.Node, rooted.Meta{Like: b.Node})
		if err == nil && staged.State.Hash != b.State.Hash {
			st.Drop(slot)
			return rooted.Staged{}, damagedBackup(t.Path)
		}
		return staged, err
	}
	var f fresh
	if b.State.Size <= 1<<20 {
		kept, err := b.Node.Read(1 << 20)
		if err != nil {
			return nil, err
		}
		if rooted.HashBytes(kept) != b.State.Hash {
			return nil, damagedBackup(t.Path)
		}
		mode := b.Node.Info.Mode
		f = fresh{bytes: kept, known: true, mode: &mode, over: bytesLike(b.Node)}
		if old != nil || t.Size == 0 {
			p.Diff = Unified(t.Path, old, kept, t.Exists, true)
			p.NewContent = kept
			p.Result["diff"] = p.Diff.Text
		}
	}
	p.put(step, put, f)
	return p, nil
}

// bytesLike stages other bytes with the metadata of a kept version.
func bytesLike(n *rooted.Node) func([]byte, *uint32) stager {
	return func(content []byte, mode *uint32) stager {
		m := rooted.Meta{Like: n}
		if mode != nil && *mode != n.Info.Mode {
			m.Perm, m.Exact = *mode, true
		}
		return func(ctx context.Context, st *rooted.Store, slot string) (rooted.Staged, error) {
			return st.Stage(ctx, slot, bytes.NewReader(content), m)
		}
	}
}

func damagedBackup(at op.Path) error {
	return op.Fail(op.UndoConflict, "the backup is not what was kept").At(at).Do("holdpoint verify tells more; nothing was changed")
}
