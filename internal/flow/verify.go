package flow

import (
	"context"
	"fmt"
	"time"

	"holdpoint/audit"
	"holdpoint/internal/journal"
	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// Finding is one thing that is not as it was written.
type Finding struct {
	Code      string `json:"code"` // journal, audit, missing_pre_image, damaged_pre_image, leftover, unsettled
	Message   string `json:"message"`
	Operation op.ID  `json:"operation_id,omitempty"`
	Path      string `json:"path,omitempty"`
	Root      string `json:"root,omitempty"`
	Mended    bool   `json:"mended"`
	slot      string
	ws        *Workspace
}

// Verified is what a check of everything found.
type Verified struct {
	Findings   []Finding `json:"findings"`
	Operations int       `json:"operations"` // whose kept versions were read
	Slots      int       `json:"slots"`
	Records    int64     `json:"records"` // of the audit log
}

// Verify reads journal, audit log and stores, and compares them with what was recorded.
// verifyLog reads the log itself. With mend it also does what cannot lose anything: it
// settles intents that a failure left open, and drops what no record names. Nothing else
// is rewritten: a pre-image that is damaged cannot be made again.
func (e *Engine) Verify(ctx context.Context, by op.Caller, verifyLog func(*audit.Head) (audit.Result, error), mend bool) (Verified, error) {
	out := Verified{Findings: []Finding{}}
	if mend && !by.Role.Includes(op.Operator) {
		return out, op.Fail(op.Forbidden, "only an operator can repair").Do("verify shows what there is to mend")
	}
	lines, err := e.jrn.Check(ctx)
	if err != nil {
		return out, err
	}
	for _, l := range lines {
		out.Findings = append(out.Findings, Finding{Code: "journal", Message: l})
	}
	head, err := e.log.Head()
	if err != nil {
		return out, err
	}
	res, err := verifyLog(&head)
	if err != nil {
		return out, err
	}
	out.Records = res.Records
	if res.Err != nil {
		out.Findings = append(out.Findings, Finding{Code: "audit", Message: res.Err.Message})
	}
	for _, w := range e.workspaces() {
		if err := e.verifyStore(ctx, w, &out); err != nil {
			return out, err
		}
	}
	if mend {
		e.mend(ctx, &out)
	}
	return out, nil
}

// verifyStore compares one store with what the journal says that it holds.
func (e *Engine) verifyStore(ctx context.Context, w *Workspace, out *Verified) error {
	ops, err := e.jrn.Operations(ctx, journal.Filter{Root: w.Key})
	if err != nil && op.AsError(err).Code != op.StateCorrupt {
		return err
	}
	named := map[string]bool{}
	for _, o := range ops {
		if o.State == journal.Aborted {
			continue
		}
		for _, s := range o.Steps {
			named[s.Slot], named[s.Copy] = true, true
		}
		switch {
		case o.State == journal.Intent && e.cfg.Now().Sub(o.Created) > running:
			out.Findings = append(out.Findings, Finding{Code: "unsettled", Message: "its end is not on record", Operation: o.ID, Root: w.Key, ws: w})
		case o.State == journal.Committed && !o.Dropped:
			out.Operations++
			for _, s := range o.Steps {
				if f := e.verifyStep(ctx, w, o, s); f != nil {
					out.Findings = append(out.Findings, *f)
				}
			}
		}
	}
	slots, err := w.Store.Slots()
	if err != nil {
		return err
	}
	out.Slots += len(slots)
	for _, slot := range slots {
		if !named[slot] && rooted.KeptFor(slot) == "" && e.stale(w, slot) {
			out.Findings = append(out.Findings, Finding{Code: "leftover", Message: "the store holds " + slot + ", which no operation names", Root: w.Key, slot: slot, ws: w})
		}
	}
	return nil
}

// running is how long a call may stage and carry out what is not on record yet, or not as
// ended. What is older was left behind.
const running = 10 * time.Minute

func (e *Engine) stale(w *Workspace, slot string) bool {
	n, err := w.Store.Node(slot)
	if err != nil {
		return false
	}
	defer n.Close()
	return e.cfg.Now().Sub(n.Info.Ctime) > running
}

// verifyStep reads what one step put into the store.
func (e *Engine) verifyStep(ctx context.Context, w *Workspace, o journal.Operation, s op.Step) *Finding {
	if s.Do != op.Swap && s.Do != op.Take && s.Do != op.Keep {
		return nil
	}
	if n, err := e.intact(ctx, w, s); err == nil { // or its independent copy
		n.Close()
		return nil
	}
	f := &Finding{Operation: o.ID, Path: op.Escape(string(s.Path)), Root: w.Key, ws: w}
	is, err := w.Store.State(ctx, s.Slot)
	switch {
	case err != nil && op.AsError(err).Code == op.NotFound:
		f.Code, f.Message = "missing_pre_image", "what stood there before is not in the store: it cannot be taken back"
	case err != nil:
		f.Code, f.Message = "damaged_pre_image", "what stood there before cannot be read: "+op.AsError(err).Message
	default:
		f.Code, f.Message = "damaged_pre_image", fmt.Sprintf("what stood there before is %s in the store, and was %s", is.Hash, s.Before.Hash)
	}
	return f
}

// mend does what can be done without losing anything, and marks what it did.
func (e *Engine) mend(ctx context.Context, out *Verified) {
	for i := range out.Findings {
		f := &out.Findings[i]
		var err error
		switch f.Code {
		case "unsettled":
			err = e.settleOpen(ctx, f.ws)
		case "leftover":
			err = f.ws.Store.Drop(f.slot)
		default:
			continue
		}
		f.Mended = err == nil
	}
}
