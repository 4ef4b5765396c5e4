package journal

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"holdpoint/op"
)

// OpState is how far an operation came.
type OpState string

const (
	Intent    OpState = "intent"    // recorded; the effects may or may not be there
	Committed OpState = "committed" // the effects are there
	Aborted   OpState = "aborted"   // nothing changed
	Undone    OpState = "undone"    // taken back by the operation UndoneBy
	Failed    OpState = "failed"    // ended, and what it left is not all known
)

// MaxDiff is how much of a diff is kept for show; a longer one ends with a line that says so.
const MaxDiff = 256 << 10

// Operation is one change with all that is needed to finish it or to take it back.
type Operation struct {
	// Terms: written by Begin, never changed.
	ID         op.ID
	Seq        int64 // set by Begin in the order of recording
	Root       string
	Op         op.Name
	Token      op.ID
	Agent      string
	Workflow   string
	Session    string
	Stage      string
	Execution  string
	RequestID  string // may be empty: then the call has no receipt
	CallDigest string
	ApprovalID op.ID // the approval that released it, if one did
	Undoes     op.ID // what this one takes back; several are joined by spaces, see TakesBack
	Decision   op.Decision
	Steps      []op.Step
	Intent     string
	Created    time.Time
	Expires    time.Time
	Diff       []byte // may be nil; Operations leaves it out

	// State.
	State    OpState
	UndoneBy op.ID    // an undo that has begun or is done
	Why      string   // of an abort or a failure
	Late     []string // writes by others found after the fact
	Reply    []byte   // as JSON
	Dropped  bool     // what it kept for undo is gone

	// For the outbox, in the same transaction; not part of the row.
	AuditKey  string // the id when empty
	AuditLine []byte // may be nil

	// What the decision was made from, kept beside the row in the same transaction; nil
	// when an approval has it. See Basis.
	Basis []byte
}

// TakesBack lists the operations that this one takes back.
func (o Operation) TakesBack() []op.ID { return idsOf(o.Undoes) }

func idsOf(joined op.ID) []op.ID {
	var out []op.ID
	for _, id := range strings.Fields(string(joined)) {
		out = append(out, op.ID(id))
	}
	return out
}

// Joined is the one word for several operations that are taken back as one.
func Joined(ids []op.ID) op.ID {
	var b strings.Builder
	for i, id := range ids {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(string(id))
	}
	return op.ID(b.String())
}

func (o Operation) terms() []any {
	return []any{string(o.ID), o.Root, string(o.Op), string(o.Token), o.Agent, o.Workflow, o.Session, o.Stage, o.Execution,
		o.RequestID, o.CallDigest, string(o.ApprovalID), string(o.Undoes), asJSON(o.Decision), asJSON(formOf(o.Steps)), o.Intent,
		int64(len(o.Diff)), nanos(o.Created), nanos(o.Expires)}
}

func (o Operation) state() []any {
	late := ""
	if len(o.Late) > 0 {
		late = asJSON(o.Late)
	}
	return []any{string(o.State), string(o.UndoneBy), o.Why, late, bit(o.Dropped), full(o.Reply)}
}

func (o *Operation) readState(values []any) error {
	c := cells{v: values}
	o.State, o.UndoneBy, o.Why = OpState(c.str()), c.id(), c.str()
	c.json(&o.Late)
	o.Dropped, o.Reply = c.flag(), c.blob()
	return c.err
}

func operationOf(r row) (Operation, int64, error) {
	o := Operation{Seq: r.seq}
	c := cells{v: r.terms}
	o.ID, o.Root, o.Op, o.Token = c.id(), c.str(), op.Name(c.str()), c.id()
	o.Agent, o.Workflow, o.Session, o.Stage, o.Execution = c.str(), c.str(), c.str(), c.str(), c.str()
	o.RequestID, o.CallDigest, o.ApprovalID, o.Undoes = c.str(), c.str(), c.id(), c.id()
	c.json(&o.Decision)
	var forms []stepForm
	c.json(&forms)
	o.Steps, o.Intent = stepsOf(forms), c.str()
	diff := c.num()
	o.Created, o.Expires = c.when(), c.when()
	if err := o.readState(r.state); c.err != nil || err != nil {
		return o, diff, corrupt(operations, r.seq, string(o.ID))
	}
	return o, diff, nil
}

// Begin records an intent. DURABLE, unless Options relax it: when it returns nil the record is on disk, and only
// then may the effect begin. A known request id is op.RequestIDReused, whatever its call
// was; the receipt has the answer. With Undoes set it also claims that operation:
// op.UndoConsumed when another has, op.UndoUnknown when there is nothing to take back,
// op.BusyWriter while it still runs.
func (j *Journal) Begin(ctx context.Context, o Operation) error {
	if o.ID == "" || o.Op == "" {
		return op.Fail(op.Internal, "an operation without an id or a name cannot be recorded")
	}
	if err := ctx.Err(); err != nil {
		return gone(err)
	}
	if o.Created.IsZero() {
		o.Created = j.now()
	}
	o.Diff = cutDiff(o.Diff)
	o.State, o.UndoneBy, o.Why, o.Late, o.Reply, o.Dropped = Intent, "", "", nil, nil, false
	terms, state := o.terms(), o.state() // outside of the turn
	do := func(t *tx) error { return t.begin(o, terms, state) }
	mark := j.w.intentAhead(o, terms, do)
	switch {
	case mark > 0 && j.relaxed:
		return nil // a start finds the record, should the process end before the transaction
	case mark > 0:
		return j.w.syncAhead(mark)
	}
	keep := !j.relaxed || j.w.aheadFull()
	err := j.write(ctx, keep, do)
	if err == nil && keep && onlySwaps(o) {
		j.w.ahead.began(o.ID)
	}
	return err
}

// begin adds all that belongs to an intent.
func (t *tx) begin(o Operation, terms, state []any) error {
	if err := t.enter(o); err != nil {
		return err
	}
	for _, id := range o.TakesBack() {
		if err := t.claimUndo(id, o.ID); err != nil {
			return err
		}
	}
	seq, err := t.insert(operations, terms, state)
	if err != nil {
		return err
	}
	if err := t.addPaths(seq, o.Steps); err != nil {
		return err
	}
	if len(o.Diff) > 0 {
		if _, err := t.exec(t.w.addDiff, seq, o.Diff, t.j.digest("diff", seq, []any{o.Diff})); err != nil {
			return err
		}
	}
	if err := t.keepBasis(o.ID, o.Basis); err != nil {
		return err
	}
	return t.audit(o.AuditKey, o.ID, o.AuditLine)
}

// claimUndo binds the operation what to the undo by.
func (t *tx) claimUndo(what, by op.ID) error {
	o, r, err := t.operationState(what)
	switch {
	case err != nil:
		return err
	case o.UndoneBy == by:
		return nil
	case o.UndoneBy != "" || o.State == Undone:
		return op.Fail(op.UndoConsumed, "the operation was already taken back").Do("undo the undo to have it again")
	case o.State == Intent:
		return op.Fail(op.BusyWriter, "the operation is still running").Do("try again when it has ended")
	case o.State != Committed:
		return op.Fail(op.UndoUnknown, "the operation left nothing that can be taken back")
	case o.Dropped:
		return op.Fail(op.UndoExpired, "what the operation kept for undo is gone")
	}
	o.UndoneBy = by
	return t.turn(operations, r, o.state())
}

func (t *tx) operationState(id op.ID) (Operation, row, error) {
	r, err := t.stateOf(operations, string(id))
	if err != nil {
		return Operation{}, r, err
	}
	o := Operation{ID: id, Seq: r.seq}
	if o.readState(r.state) != nil {
		err = corrupt(operations, r.seq, string(id))
	}
	return o, r, err
}

// addPaths enters an operation into the indexes of paths, slots and snapshots.
func (t *tx) addPaths(seq int64, steps []op.Step) error {
	for _, s := range steps {
		kept := ""
		if s.Do == op.Keep {
			kept = string(s.Path)
		}
		for _, e := range []struct {
			into *sql.Stmt
			what string
		}{{t.w.addPath, string(s.Path)}, {t.w.addPath, string(s.To)}, {t.w.addSlot, s.Slot}, {t.w.addSlot, s.Copy}, {t.w.addSnapshot, kept}} {
			if e.what == "" {
				continue
			}
			if _, err := t.exec(e.into, e.what, seq); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle moves an intent to its end, after more.
func (j *Journal) settle(ctx context.Context, keep bool, id op.ID, change func(*Operation), more func(*tx) error) error {
	return j.write(ctx, keep, func(t *tx) error {
		o, r, err := t.operationState(id)
		if err != nil {
			return err
		}
		if o.State != Intent {
			return op.Fail(op.Internal, fmt.Sprintf("the operation is %s already and cannot end once more", o.State))
		}
		if err := more(t); err != nil {
			return err
		}
		j.w.ahead.ended(id)
		change(&o)
		return t.turn(operations, r, o.state())
	})
}

// Commit says that the effects are there. LAZY: recovery can find it out again from what
// stands in the workspace. With undoes it marks that operation undone by this one, or
// fails with op.UndoConsumed and changes nothing.
func (j *Journal) Commit(ctx context.Context, id op.ID, reply []byte, undoes op.ID) error {
	return j.settle(ctx, lazy, id, func(o *Operation) { o.State, o.Reply = Committed, reply }, func(t *tx) error {
		for _, what := range idsOf(undoes) {
			if err := t.claimUndo(what, id); err != nil {
				return err
			}
			o, r, err := t.operationState(what)
			if err != nil {
				return err
			}
			o.State = Undone
			if err := t.turn(operations, r, o.state()); err != nil {
				return err
			}
		}
		return nil
	})
}

// CommitLater is Commit for an operation that takes nothing back, without waiting for it.
// LAZY as that is; who reads or writes the journal afterwards finds it done. Where it fails
// the intent stays, and the next start finds out.
func (j *Journal) CommitLater(id op.ID, reply []byte) {
	j.w.post(&job{apart: j.w.ahead.ended(id), do: func(t *tx) error {
		o, r, err := t.operationState(id)
		if err != nil || o.State != Intent {
			return err
		}
		o.State, o.Reply = Committed, reply
		return t.turn(operations, r, o.state())
	}})
}

// Abort says that nothing changed. DURABLE: a recovery that did not see it could do again
// what the caller was told had not been done. The request id and the claim of Undoes are
// free again; the row stays. The line in the outbox stays too, PutAudit replaces it.
func (j *Journal) Abort(ctx context.Context, id op.ID, why string) error {
	return j.settle(ctx, durable, id, func(o *Operation) { o.State, o.Why = Aborted, why }, func(t *tx) error {
		o, err := t.letGo(id)
		if err != nil {
			return err
		}
		return t.leave(o)
	})
}

// Fail says that the operation ended and what it left is not all known. DURABLE. The
// claim of Undoes is free again; the request id stays used.
func (j *Journal) Fail(ctx context.Context, id op.ID, why string, reply []byte) error {
	return j.settle(ctx, durable, id, func(o *Operation) { o.State, o.Why, o.Reply = Failed, why, reply }, func(t *tx) error {
		_, err := t.letGo(id)
		return err
	})
}

// letGo gives up the claim that the operation has on the one it undoes.
func (t *tx) letGo(id op.ID) (Operation, error) {
	whole, err := t.row(operations, string(id))
	if err != nil {
		return Operation{}, err
	}
	o, _, err := operationOf(whole)
	if err != nil || o.Undoes == "" {
		return o, err
	}
	for _, what := range o.TakesBack() {
		target, r, err := t.operationState(what)
		if err != nil {
			return o, err
		}
		if target.UndoneBy != id || target.State != Committed {
			continue
		}
		target.UndoneBy = ""
		if err := t.turn(operations, r, target.state()); err != nil {
			return o, err
		}
	}
	return o, nil
}

// NoteLate adds lines about writes by others that were found after the fact. DURABLE.
func (j *Journal) NoteLate(ctx context.Context, id op.ID, lines []string) error {
	return j.change(ctx, durable, id, func(o *Operation) { o.Late = append(o.Late, lines...) })
}

// Dropped says that what the operation kept for undo is gone. LAZY: dropping twice does
// no harm.
func (j *Journal) Dropped(ctx context.Context, id op.ID) error {
	return j.change(ctx, lazy, id, func(o *Operation) { o.Dropped = true })
}

func (j *Journal) change(ctx context.Context, keep bool, id op.ID, change func(*Operation)) error {
	return j.write(ctx, keep, func(t *tx) error {
		o, r, err := t.operationState(id)
		if err != nil {
			return err
		}
		change(&o)
		return t.turn(operations, r, o.state())
	})
}

// cutDiff keeps a diff within bounds, at the end of a line, and says what it left out.
func cutDiff(diff []byte) []byte {
	if len(diff) <= MaxDiff {
		return diff
	}
	keep := MaxDiff
	if end := bytes.LastIndexByte(diff[:keep], '\n'); end > 0 {
		keep = end + 1
	}
	return fmt.Appendf(bytes.Clone(diff[:keep]), "\\ diff cut here: %d of %d bytes are shown\n", keep, len(diff))
}
