package flow

import (
	"context"
	"maps"
	"slices"
	"time"

	"holdpoint/fileops"
	"holdpoint/internal/journal"
	"holdpoint/internal/rooted"
	"holdpoint/op"
	"holdpoint/preflight"
)

// kept is one version of a file that the store holds and a rollback can bring back.
type kept struct {
	id   string
	kind string // snapshot, pre_image, deleted
	step op.Step
	of   journal.Operation
}

const backupMark = "bk_"

// backups lists what the store holds for a path and below it, newest first: snapshots,
// and what changes put away, as long as the operation stands and can be undone. A change
// that asked for no backup keeps what its undo needs all the same, but it is not listed.
func (e *Engine) backups(ctx context.Context, w *Workspace, at op.Path) ([]kept, error) {
	ops, err := e.jrn.Operations(ctx, journal.Filter{Root: w.Key, State: journal.Committed, Path: string(at)})
	if err != nil {
		return nil, err
	}
	var out []kept
	for _, o := range ops {
		if o.Dropped || !e.cfg.Now().Before(o.Expires) {
			continue
		}
		for i := len(o.Steps) - 1; i >= 0; i-- {
			s := o.Steps[i]
			kind := keptAs(o, s)
			if kind != "" && s.Path.Within(at) {
				out = append(out, kept{backupMark + s.Slot, kind, s, o})
			}
		}
	}
	return out, nil
}

// keptAs names what a step left in the store; nothing of use is empty.
func keptAs(o journal.Operation, s op.Step) string {
	off := o.Decision.Reason == op.ReasonBackupDisabled || slices.Contains(o.Decision.Also, op.ReasonBackupDisabled)
	switch {
	case s.Before.Kind != op.File:
		return ""
	case s.Do == op.Keep:
		return "snapshot"
	case s.Do == op.Swap && !off:
		return "pre_image"
	case s.Do == op.Take:
		return "deleted"
	}
	return ""
}

// listBackups answers list_backups.
func (e *Engine) listBackups(ctx context.Context, c *call) (map[string]any, error) {
	a := c.args.(*op.BackupsArgs)
	list, err := e.backups(ctx, c.ws, c.facts.Targets[0].Path)
	if err != nil {
		return nil, err
	}
	total, from := len(list), 0
	if a.Page != "" {
		if from = slices.IndexFunc(list, func(k kept) bool { return k.id == a.Page }) + 1; from == 0 {
			return nil, op.Fail(op.BadRequest, "page is not a cursor of this listing, or that backup is gone").In("args.page").Do("give next of the page before, or begin anew")
		}
	}
	list = list[from:]
	size := int(op.Or(a.PageSize, 200))
	out := map[string]any{"total": total, "backup_root": op.DefaultBackups}
	if len(list) > size {
		list = list[:size]
		out["next"], out["truncated"] = list[size-1].id, "page_size"
	}
	rows := make([]map[string]any, 0, len(list))
	for _, k := range list {
		rows = append(rows, map[string]any{"backup_id": k.id, "kind": k.kind, "path": op.Escape(string(k.step.Path)), "label": k.step.Label,
			"size": k.step.Before.Size, "hash": k.step.Before.Hash, "mode": k.step.Before.Mode, "time": k.of.Created.UTC().Format(time.RFC3339Nano),
			"operation_id": k.of.ID, "kept_until": k.of.Expires.UTC().Format(time.RFC3339)})
	}
	out["backups"] = rows
	return out, nil
}

// lastBackup gives a rollback to the last snapshot the id of that snapshot, so that what a
// person releases is what was shown. Where there is none the call stays as it is, and fails.
func (e *Engine) lastBackup(ctx context.Context, by op.Caller, req op.Request) op.Request {
	spec, _ := op.Lookup(op.RollbackFile)
	args, named, _, err := op.ParseArgs(spec, req.Args)
	if err != nil {
		return req // open says what is wrong
	}
	a := args.(*op.RollbackArgs)
	w, err := e.workspace(by, req.Root)
	if err != nil || !a.Last || a.BackupID != "" {
		return req
	}
	at, err := w.Root.Clean(a.Path)
	if err != nil {
		return req
	}
	n, err := w.Root.Look(ctx, at, true)
	if err != nil {
		return req
	}
	defer n.Close()
	list, err := e.backups(ctx, w, n.Path)
	if err != nil {
		return req
	}
	for _, k := range list {
		if k.kind == "snapshot" && k.step.Path == n.Path {
			req.Args = maps.Clone(named)
			delete(req.Args, "last")
			req.Args["backup_id"] = k.id
			return req
		}
	}
	return req
}

// backupOf opens the version that a rollback names; nil when there is none of this file.
// The call closes its node.
func (e *Engine) backupOf(ctx context.Context, c *call, at op.Path) (*fileops.Backup, error) {
	a := c.args.(*op.RollbackArgs)
	if (a.BackupID == "") == !a.Last {
		return nil, op.Fail(op.BadRequest, "a rollback names a backup_id, or last: true").In("args.backup_id").Do("list_backups shows what there is")
	}
	if a.BackupID != "" && a.Last {
		return nil, op.Fail(op.BadRequest, "give backup_id or last, not both").In("args.last")
	}
	list, err := e.backups(ctx, c.ws, at)
	if err != nil {
		return nil, err
	}
	for _, k := range list {
		if k.id != a.BackupID || k.step.Path != at {
			continue
		}
		n, err := e.intact(ctx, c.ws, k.step)
		if err != nil {
			return nil, err
		}
		c.also = append(c.also, n.Close)
		return &fileops.Backup{ID: k.id, State: k.step.Before, Node: n}, nil
	}
	return nil, nil
}

// intact opens what a step keeps, or its independent copy where another program wrote
// into it since.
func (e *Engine) intact(ctx context.Context, w *Workspace, s op.Step) (*rooted.Node, error) {
	var failed error
	for _, slot := range []string{s.Slot, s.Copy} {
		if slot == "" {
			continue
		}
		n, err := w.Store.Node(slot)
		if err == nil {
			var st op.State
			if st, err = n.State(ctx); err == nil && st.Hash == s.Before.Hash {
				return n, nil
			}
			n.Close()
		}
		if err != nil && op.AsError(err).Code == op.IOError {
			failed = err // says nothing about the kept version
		}
	}
	if failed != nil {
		return nil, failed
	}
	return nil, op.Fail(op.UndoConflict, "the kept version is gone or was written to by another program").At(s.Path).Do("holdpoint verify tells more; nothing was changed")
}

// backupID names what the steps of one change keep, for its result.
func backupID(c *call, steps []op.Step) string {
	if !c.terms.Backup || c.spec.Class == op.Batch || c.spec.Class == op.Reverting {
		return ""
	}
	for _, s := range steps {
		if s.Do == op.Keep || s.Do == op.Swap {
			return backupMark + s.Slot
		}
	}
	return ""
}

// places judges the paths that a plan makes and no argument names.
func (e *Engine) places(ctx context.Context, c *call, p *fileops.Plan) {
	for _, pl := range p.Places {
		t := preflight.Place(ctx, c.ws, pl.Path, pl.Dir, pl.Head)
		if pl.Aside {
			t.Role = op.RoleParent
		}
		c.facts.Targets = append(c.facts.Targets, t)
	}
}

// deep reports a call that needs all below its directories looked at.
func (c *call) deep() bool {
	a, ok := c.args.(*op.CopyArgs)
	return c.spec.Class == op.Destructive || ok && a.Recursive
}
