package flow

import (
	"context"
	"maps"
	"slices"
	"strings"
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

// backups tells each what the store holds for a path and below it, newest first, until that
// answers false: snapshots, and what changes put away, as long as the operation stands and
// can be undone. A change that asked for no backup keeps what its undo needs all the same,
// but it is not listed. The filter says in which operations to look.
func (e *Engine) backups(ctx context.Context, w *Workspace, f journal.Filter, at op.Path, each func(kept) bool) error {
	f.Root, f.State = w.Key, journal.Committed
	return e.jrn.WalkOperations(ctx, f, func(o journal.Operation) bool {
		if o.Dropped || !e.cfg.Now().Before(o.Expires) {
			return true
		}
		for i := len(o.Steps) - 1; i >= 0; i-- {
			s := o.Steps[i]
			kind := keptAs(o, s)
			if kind != "" && s.Path.Within(at) && !each(kept{backupMark + s.Slot, kind, s, o}) {
				return false
			}
		}
		return true
	})
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
	size := int(op.Or(a.PageSize, 200))
	total, after, begun, list := 0, 0, a.Page == "", []kept(nil)
	at := c.facts.Targets[0].Path
	err := e.backups(ctx, c.ws, journal.Filter{Path: string(at)}, at, func(k kept) bool {
		total++ // of all, on whatever page; only what is shown is held
		switch {
		case !begun:
			begun = k.id == a.Page
		case len(list) < size:
			list = append(list, k)
		default:
			after++
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	if !begun {
		return nil, op.Fail(op.BadRequest, "page is not a cursor of this listing, or that backup is gone").In("args.page").Do("give next of the page before, or begin anew")
	}
	out := map[string]any{"total": total, "backup_root": op.DefaultBackups}
	if after > 0 {
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
	last := ""
	err = e.backups(ctx, w, journal.Filter{Snapshot: string(n.Path)}, n.Path, func(k kept) bool {
		if k.kind == "snapshot" && k.step.Path == n.Path {
			last = k.id
		}
		return last == ""
	})
	if err == nil && last != "" {
		req.Args = maps.Clone(named)
		delete(req.Args, "last")
		req.Args["backup_id"] = last
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
	slot, ok := strings.CutPrefix(a.BackupID, backupMark)
	if !ok || slot == "" {
		return nil, nil
	}
	var found *kept
	err := e.backups(ctx, c.ws, journal.Filter{Slot: slot}, at, func(k kept) bool {
		if k.id == a.BackupID && k.step.Path == at {
			found = &k
		}
		return found == nil
	})
	if err != nil || found == nil {
		return nil, err
	}
	n, err := e.intact(ctx, c.ws, found.step)
	if err != nil {
		return nil, err
	}
	c.also = append(c.also, n.Close)
	return &fileops.Backup{ID: found.id, State: found.step.Before, Node: n}, nil
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
