package flow

import (
	"context"
	"fmt"
	"sync"

	"holdpoint/audit"
	"holdpoint/internal/journal"
	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// defaultStoreMax is what all stores together may hold unless configured, in bytes.
const defaultStoreMax = 10 << 30

// room is how much the stores hold. It is counted when it is first asked for and after
// each collection; between them what changes put away is added.
type room struct {
	mu      sync.Mutex // guards the rest
	counted bool
	used    int64
}

func (r *room) add(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used += n
}

// need is how many bytes more the store will hold when steps are done: what they put
// away, without what they bring out of it.
func need(steps []op.Step) (n int64) {
	for _, s := range steps {
		switch s.Do {
		case op.Swap, op.Take, op.Keep:
			n += s.Before.Size
		}
		if s.Slot != "" && (s.Do == op.Swap || s.Do == op.Place) {
			n -= s.After.Size
		}
	}
	return n
}

// makeRoom refuses a change that the stores have no room for, before anything is touched.
// What has expired goes first; nothing that a live credential names ever does.
func (e *Engine) makeRoom(ctx context.Context, need int64) error {
	limit := e.cfg.StoreMax
	if limit <= 0 {
		limit = defaultStoreMax
	}
	used, err := e.storeUsed(ctx, false)
	if err != nil || need <= 0 || used+need <= limit {
		return err
	}
	e.prune(ctx)
	if used, err = e.storeUsed(ctx, true); err != nil || used+need <= limit {
		return err
	}
	return op.Fail(op.StoreFull, fmt.Sprintf("the store of what can be undone is full: it holds %d of %d bytes, and this needs %d more", used, limit, need)).
		Do("a person can end what is no longer needed with holdpoint gc --now, or raise store_max; nothing was changed")
}

// storeUsed counts the bytes in all stores.
func (e *Engine) storeUsed(ctx context.Context, again bool) (int64, error) {
	e.room.mu.Lock()
	defer e.room.mu.Unlock()
	if e.room.counted && !again {
		return e.room.used, nil
	}
	var sum int64
	for _, w := range e.workspaces() {
		sizes, err := w.Store.Sizes(ctx)
		if err != nil {
			return 0, err
		}
		for _, n := range sizes {
			sum += n
		}
	}
	e.room.used, e.room.counted = sum, true
	return sum, nil
}

func (e *Engine) workspaces() []*Workspace {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return append([]*Workspace(nil), e.roots...)
}

// prune drops what expired operations kept for their undo.
func (e *Engine) prune(ctx context.Context) { e.collect(ctx, false, nil) }

// Collected is what a collection dropped, or would.
type Collected struct {
	Operations []op.ID `json:"operations"`
	Bytes      int64   `json:"bytes"`
	Used       int64   `json:"used"` // bytes in the stores afterwards
	Limit      int64   `json:"limit"`
	DryRun     bool    `json:"dry_run"`
}

// Collect drops what has expired, and with now what one operation still keeps, whose
// credential ends with it. Only an operator may end a credential.
func (e *Engine) Collect(ctx context.Context, by op.Caller, dryRun bool, now op.ID) (Collected, error) {
	out := Collected{Operations: []op.ID{}, DryRun: dryRun, Limit: e.cfg.StoreMax}
	if out.Limit <= 0 {
		out.Limit = defaultStoreMax
	}
	var one *journal.Operation
	if now != "" {
		if !by.Role.Includes(op.Operator) {
			return out, op.Fail(op.Forbidden, "only an operator can end a credential before its time").Do("wait until it expires, or ask the operator")
		}
		o, err := e.jrn.Operation(ctx, now)
		if err != nil {
			return out, err
		}
		one = &o
	}
	var err error
	if out.Operations, out.Bytes, err = e.collect(ctx, dryRun, one); err != nil {
		return out, err
	}
	if one != nil && !dryRun {
		e.log.Append(audit.Record{Kind: audit.Collect, Agent: by.Name, OperationID: now, Outcome: "ended"})
	}
	out.Used, err = e.storeUsed(ctx, true)
	return out, err
}

// collect ends the slots of expired operations, and of one that is named, but for those
// that a live operation names too.
func (e *Engine) collect(ctx context.Context, dryRun bool, now *journal.Operation) ([]op.ID, int64, error) {
	gone, err := e.jrn.Expired(ctx, e.cfg.Now())
	if err != nil {
		return nil, 0, err
	}
	if now != nil && !now.Dropped {
		gone = append(gone, *now)
	}
	ids, sum := []op.ID{}, int64(0)
	if len(gone) == 0 {
		return ids, 0, nil
	}
	ending := map[op.ID]bool{}
	for _, o := range gone {
		ending[o.ID] = true
	}
	live := map[string]map[string]bool{} // by root
	for _, o := range gone {
		w := e.byKey(o.Root)
		if w == nil {
			continue
		}
		if live[o.Root] == nil {
			if live[o.Root], err = e.named(ctx, w, ending); err != nil {
				return ids, sum, err
			}
		}
		n, err := e.drop(ctx, w, o, live[o.Root], dryRun)
		if err != nil {
			return ids, sum, err
		}
		ids, sum = append(ids, o.ID), sum+n
		if !dryRun {
			if err := e.jrn.Dropped(ctx, o.ID); err != nil {
				return ids, sum, err
			}
		}
	}
	if !dryRun {
		e.room.add(-sum)
	}
	return ids, sum, nil
}

// named lists the slots that operations of a root name which still keep something, but
// for those that are ending.
func (e *Engine) named(ctx context.Context, w *Workspace, ending map[op.ID]bool) (map[string]bool, error) {
	out := map[string]bool{}
	return out, e.jrn.WalkOperations(ctx, journal.Filter{Root: w.Key}, func(o journal.Operation) bool {
		if o.State != journal.Aborted && !o.Dropped && !ending[o.ID] {
			for _, s := range o.Steps {
				out[s.Slot], out[s.Copy] = true, true
			}
		}
		return true
	})
}

// drop ends the slots of one operation that no other names, and what others wrote that
// was kept beside them. It gives the bytes that they held.
func (e *Engine) drop(ctx context.Context, w *Workspace, o journal.Operation, live map[string]bool, dryRun bool) (int64, error) {
	var sum int64
	for _, s := range o.Steps {
		for _, slot := range []string{s.Slot, s.Copy} {
			if slot == "" || live[slot] {
				continue
			}
			n, _ := w.Store.Size(ctx, slot) // what cannot be read can be dropped all the same
			sum += n
			if dryRun {
				continue
			}
			if err := w.Store.Drop(slot); err != nil && op.AsError(err).Code != op.NotFound {
				return sum, err
			}
		}
	}
	return sum, nil
}

// Forgotten is what was ended for good.
type Forgotten struct {
	Operations []op.ID `json:"operations"`
	Approvals  []op.ID `json:"approvals"` // held calls whose card and stored call are gone
	Bytes      int64   `json:"bytes"`
}

// Forget takes the content of one operation, of all that touched a path or what lies
// below it, or of one held call, out of the store and the journal, as for a secret that
// leaked into them: pre-images, snapshots, diffs, stored calls and cards, long output, and
// the replies of reads that were kept for their request ids. Their credentials end, calls
// that wait are withdrawn; that they happened stays on record. Files of the workspace stay
// as they are.
func (e *Engine) Forget(ctx context.Context, by op.Caller, root, what string) (Forgotten, error) {
	out := Forgotten{Operations: []op.ID{}, Approvals: []op.ID{}}
	if !by.Role.Includes(op.Operator) {
		return out, op.Fail(op.Forbidden, "only an operator can make the daemon forget").Do("ask the operator")
	}
	list, cards, err := e.toForget(ctx, by, root, what)
	if err != nil {
		return out, err
	}
	for _, a := range cards {
		if a.State == journal.Executing {
			return out, op.Fail(op.BusyWriter, "an approved call that showed this is being executed").Do("try again when it has ended; nothing was forgotten yet")
		}
	}
	for _, o := range list {
		w := e.byKey(o.Root)
		if w == nil {
			return out, op.Fail(op.UnknownRoot, "the workspace of this operation is not registered").Do("serve it again, then forget")
		}
		n, err := e.drop(ctx, w, o, nil, false)
		if err != nil {
			return out, err
		}
		out.Bytes += n
		if err := e.dropKept(w, o); err != nil {
			return out, err
		}
		if err := e.jrn.ForgetContent(ctx, o.ID, bareReply); err != nil {
			return out, err
		}
		out.Operations = append(out.Operations, o.ID)
		e.forgetRun(o.Reply)
		e.log.Append(audit.Record{Kind: audit.Forget, Agent: by.Name, OperationID: o.ID, Outcome: "forgotten"})
	}
	if err := e.forgetCards(ctx, by, cards, &out); err != nil {
		return out, err
	}
	if _, err := e.jrn.Forget(ctx, e.cfg.Now()); err != nil {
		return out, err
	}
	e.room.add(-out.Bytes)
	return out, e.jrn.Scrub(ctx)
}

// dropKept ends what others wrote into the files of one operation.
func (e *Engine) dropKept(w *Workspace, o journal.Operation) error {
	slots, err := w.Store.Slots()
	if err != nil {
		return err
	}
	mine := map[string]bool{}
	for _, s := range o.Steps {
		mine[s.Slot] = s.Slot != ""
	}
	for _, slot := range slots {
		if of := rooted.KeptFor(slot); of != "" && mine[of] {
			if err := w.Store.Drop(slot); err != nil {
				return err
			}
		}
	}
	return nil
}

// toForget finds the operations that are meant, and those that share what they keep: an
// undo holds what it undid. With them go the held calls that showed it.
func (e *Engine) toForget(ctx context.Context, by op.Caller, root, what string) ([]journal.Operation, []journal.Approval, error) {
	var start []journal.Operation
	var at op.Path
	row, bad := e.jrn.Approval(ctx, op.ID(what))
	o, err := e.jrn.Operation(ctx, op.ID(what))
	switch {
	case err == nil:
		start = append(start, o)
		root = o.Root
	case op.AsError(err).Code != op.NotFound:
		return nil, nil, err
	case bad == nil:
		if root = row.Root; row.Operation != "" {
			if o, err := e.jrn.Operation(ctx, row.Operation); err == nil {
				start = append(start, o)
			}
		}
	default:
		w, err := e.workspace(by, root)
		if err != nil {
			return nil, nil, err
		}
		if at, err = w.Root.Clean(what); err != nil {
			return nil, nil, err
		}
		if start, err = e.jrn.Operations(ctx, journal.Filter{Root: w.Key, Path: string(at)}); err != nil {
			return nil, nil, err
		}
		root = w.Key
	}
	all, err := e.jrn.Operations(ctx, journal.Filter{Root: root})
	if err != nil {
		return nil, nil, err
	}
	slots, ids, out := map[string]bool{}, map[op.ID]bool{}, []journal.Operation(nil)
	take := func(o journal.Operation) {
		if ids[o.ID] || o.State == journal.Intent || o.State == journal.Aborted {
			return
		}
		ids[o.ID], out = true, append(out, o)
		for _, s := range o.Steps {
			slots[s.Slot] = s.Slot != ""
		}
	}
	for _, o := range start {
		take(o)
	}
	for grew := true; grew; {
		before := len(out)
		for _, o := range all {
			for _, s := range o.Steps {
				if slots[s.Slot] {
					take(o)
				}
			}
			for _, id := range o.TakesBack() {
				if ids[id] {
					take(o)
				}
			}
		}
		grew = len(out) > before
	}
	named := map[op.ID]journal.Operation{}
	for _, o := range out {
		named[o.ID] = o
	}
	cards, err := e.cardsToForget(ctx, root, what, at, named)
	if err == nil && len(out)+len(cards) == 0 {
		err = op.Fail(op.NotFound, "no operation has this id, and none touched this path, nor does a card show it").Do("holdpoint log lists operations, holdpoint review list --state all cards")
	}
	return out, cards, err
}
