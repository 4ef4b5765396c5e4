package flow

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"holdpoint/audit"
	"holdpoint/fileops"
	"holdpoint/internal/journal"
	"holdpoint/internal/rooted"
	"holdpoint/op"
	"holdpoint/review"
)

// textFacts describes a file's bytes; nil when they were not kept for this call.
func textFacts(b []byte, size int64) *op.TextFacts {
	if b == nil && size > 0 {
		return nil
	}
	f := fileops.Describe(b)
	return &f
}

// LogEntry is one operation as the log shows it.
type LogEntry struct {
	ID         op.ID     `json:"id"`
	Op         op.Name   `json:"op"`
	Time       time.Time `json:"time"`
	Root       string    `json:"root"`
	Agent      string    `json:"agent"`
	Session    string    `json:"session,omitempty"`
	State      string    `json:"state"`
	Paths      []string  `json:"paths"`
	Undo       string    `json:"undo"`           // available, consumed, expired, none
	Tree       string    `json:"tree,omitempty"` // of an available undo: clean, drifted, unknown
	ApprovalID op.ID     `json:"approval_id,omitempty"`
	AnsweredBy string    `json:"answered_by,omitempty"` // told to people alone
	Undoes     op.ID     `json:"undoes,omitempty"`
	UndoneBy   op.ID     `json:"undone_by,omitempty"`
	Reason     op.Reason `json:"reason"`
	Late       []string  `json:"late,omitempty"` // writes of other programs that landed in the kept version
	Expires    time.Time `json:"expires_at"`
	Seq        int64     `json:"seq"`
}

func (e *Engine) entry(o journal.Operation) LogEntry {
	l := LogEntry{ID: o.ID, Op: o.Op, Time: o.Created, Root: o.Root, Agent: o.Agent, Session: o.Session, State: string(o.State), Undo: "none", ApprovalID: o.ApprovalID,
		Undoes: o.Undoes, UndoneBy: o.UndoneBy, Reason: o.Decision.Reason, Late: o.Late, Expires: o.Expires, Seq: o.Seq, Paths: []string{}}
	for _, s := range o.Steps {
		l.Paths = append(l.Paths, op.Escape(string(s.Path)))
	}
	switch {
	case o.State == journal.Undone:
		l.Undo = "consumed"
	case o.State == journal.Committed && (o.Dropped || !e.cfg.Now().Before(o.Expires)):
		l.Undo = "expired"
	case o.State == journal.Committed:
		l.Undo = "available"
	}
	return l
}

// Operations lists what was done, newest first. An agent sees its own. next is the page
// to ask for when there may be more: rows that this caller may not see count for a page.
func (e *Engine) Operations(ctx context.Context, by op.Caller, f journal.Filter) (list []LogEntry, next int64, err error) {
	if f.Root != "" {
		w, err := e.workspace(by, f.Root)
		if err != nil {
			return nil, 0, err
		}
		f.Root = w.Key
	}
	if by.Role == op.Agent {
		f.Token = by.Token
	}
	if f.Limit <= 0 || f.Limit > 1000 {
		f.Limit = 100
	}
	ops, err := e.jrn.Operations(ctx, f)
	if err != nil {
		return nil, 0, err
	}
	if len(ops) == f.Limit {
		next = ops[len(ops)-1].Seq
	}
	out, left := make([]LogEntry, 0, len(ops)), newLookedOver()
	for _, o := range ops {
		if w := e.byKey(o.Root); w == nil || !mayUse(by, w) {
			continue
		}
		if o.State == journal.Committed {
			late, err := e.late(ctx, o)
			if err != nil {
				return nil, 0, err
			}
			o.Late = late
		}
		l := e.entry(o)
		if l.Undo == "available" {
			l.Tree = e.byKey(o.Root).treeOf(ctx, o, left)
		}
		out = append(out, e.answered(ctx, by, l))
	}
	return out, next, nil
}

// answered names who let an operation through, to those who see the queue.
func (e *Engine) answered(ctx context.Context, by op.Caller, l LogEntry) LogEntry {
	if l.ApprovalID == "" || !by.Role.Includes(op.Observer) {
		return l
	}
	if row, err := e.jrn.Approval(ctx, l.ApprovalID); err == nil && row.Answer != nil {
		var names []string
		for _, a := range append(row.Answer.Before[:len(row.Answer.Before):len(row.Answer.Before)], *row.Answer) {
			names = append(names, a.By)
		}
		l.AnsweredBy = strings.Join(names, ", ")
	}
	return l
}

// late looks whether another program wrote into a kept version after the change, and
// puts what it finds on record.
func (e *Engine) late(ctx context.Context, o journal.Operation) ([]string, error) {
	w := e.byKey(o.Root)
	if w == nil {
		return o.Late, nil
	}
	known := map[string]bool{}
	for _, l := range o.Late {
		known[l] = true
	}
	var found []string
	for _, s := range o.Steps {
		late, err := w.Store.Verify(ctx, s)
		if err != nil || late == nil {
			continue
		}
		if line := lateLine(*late); !known[line] {
			found = append(found, line)
		}
	}
	if len(found) == 0 {
		return o.Late, nil
	}
	return append(o.Late, found...), e.jrn.NoteLate(ctx, o.ID, found)
}

// lateLine words a late write for the log.
func lateLine(l rooted.Late) string {
	return fmt.Sprintf("late_write %s: kept %s, is %s", op.Escape(string(l.Path)), l.Was, l.Is)
}

// Detail is one operation in full.
type Detail struct {
	Operation      LogEntry       `json:"operation"`
	Decision       op.Decision    `json:"decision"`
	Effects        []op.Effect    `json:"effects"`
	Diff           string         `json:"diff"`
	UndoCredential *op.Credential `json:"undo_credential,omitempty"`
	Versions       []Version      `json:"versions,omitempty"` // where a late write was found: both versions
}

// Version is one kept content of a path.
type Version struct {
	Path          op.Path   `json:"path"`
	Which         string    `json:"which"` // kept: what lies in the store now
	Hash          op.Digest `json:"hash"`
	ContentBase64 string    `json:"content_base64"`
}

// maxVersion bounds a version shown in full, in bytes.
const maxVersion = 1 << 20

// Operation shows one operation; one of somebody else looks like none.
func (e *Engine) Operation(ctx context.Context, by op.Caller, id op.ID) (Detail, error) {
	o, err := e.jrn.Operation(ctx, id)
	w := e.byKey(o.Root)
	if err != nil || by.Role == op.Agent && o.Token != by.Token || w == nil || !mayUse(by, w) {
		if err != nil && op.AsError(err).Code != op.NotFound {
			return Detail{}, err
		}
		return Detail{}, op.Fail(op.NotFound, "no such operation")
	}
	if o.State == journal.Committed {
		if o.Late, err = e.late(ctx, o); err != nil {
			return Detail{}, err
		}
	}
	d := Detail{Operation: e.answered(ctx, by, e.entry(o)), Decision: o.Decision, Effects: op.Effects(o.Steps), Diff: string(o.Diff)}
	if d.Operation.Undo == "available" {
		d.Operation.Tree = w.treeOf(ctx, o, newLookedOver())
		d.UndoCredential = e.keeper.Credential(o)
	}
	if len(o.Late) > 0 {
		d.Versions = versions(ctx, w, o.Steps)
	}
	return d, nil
}

// versions gives what lies in the store beside what stands in the tree: what a step put
// there, and what was found in its files when they were taken back.
func versions(ctx context.Context, w *Workspace, steps []op.Step) []Version {
	var out []Version
	slots, _ := w.Store.Slots()
	for _, s := range steps {
		if s.Slot == "" {
			continue
		}
		for _, slot := range slots {
			if slot != s.Slot && rooted.KeptFor(slot) != s.Slot {
				continue
			}
			if f, err := w.Store.Open(slot); err == nil {
				b := make([]byte, maxVersion)
				n, _ := f.ReadAt(b, 0)
				f.Close()
				if st, err := w.Store.State(ctx, slot); err == nil {
					out = append(out, Version{s.Path, "kept", st.Hash, base64.StdEncoding.EncodeToString(b[:n])})
				}
			}
		}
		if n, err := w.Root.Look(ctx, s.Path, false); err == nil {
			if b, err := n.Read(maxVersion); err == nil {
				st, _ := n.State(ctx)
				out = append(out, Version{s.Path, "current", st.Hash, base64.StdEncoding.EncodeToString(b)})
			}
			n.Close()
		}
	}
	return out
}

// cardsAtOnce is how many rows a walk over all cards reads at a time.
const cardsAtOnce = 32

// EachApproval tells each of the cards of a state, oldest first: an agent's own, all for
// others. It holds few at a time, since with every card ever shown come its diff and call.
func (e *Engine) EachApproval(ctx context.Context, by op.Caller, state string, each func(review.Card) error) error {
	if err := e.Expire(ctx); err != nil {
		return err
	}
	f := journal.ApprovalFilter{State: state, Limit: cardsAtOnce}
	if by.Role == op.Agent {
		f.Token = by.Token
	}
	for {
		rows, left, err := e.listed(ctx, f)
		if err != nil {
			return err
		}
		before := f.After
		f.After = max(f.After, left.Last)
		for _, r := range rows {
			f.After = max(f.After, r.Seq)
			if w := e.byKey(r.Root); w != nil && mayUse(by, w) {
				c := review.CardOf(r)
				c.Drifted = e.drift.of(r.ID)
				if err := each(c); err != nil {
					return err
				}
			}
		}
		if len(rows)+len(left.Rows) < f.Limit || f.After == before {
			return nil
		}
	}
}

// Page is a part of the queue, oldest first.
type Page struct {
	Cards []review.Card `json:"approvals"`
	Total int           `json:"total,omitempty"` // rows of the state, on all pages
	Next  int64         `json:"next,omitempty"`  // ask for the page after; 0 is the end
}

// ApprovalPage lists summaries of cards after a number; an agent gets its own.
func (e *Engine) ApprovalPage(ctx context.Context, by op.Caller, f journal.ApprovalFilter) (Page, error) {
	p := Page{Cards: []review.Card{}}
	if by.Role == op.Agent {
		f.Token = by.Token
	}
	if err := e.Expire(ctx); err != nil {
		return p, err
	}
	rows, left, err := e.listed(ctx, f)
	if err != nil {
		return p, err
	}
	if len(by.Roots) == 0 { // else it would tell of rows that this caller may not see
		if p.Total, err = e.jrn.CountApprovals(ctx, f.State, f.Token); err != nil {
			return p, err
		}
	}
	if len(rows)+len(left.Rows) == f.Limit { // what is left out has its place on the page
		p.Next = left.Last
		if len(rows) > 0 {
			p.Next = max(p.Next, rows[len(rows)-1].Seq)
		}
	}
	for _, r := range rows {
		if w := e.byKey(r.Root); w != nil && mayUse(by, w) {
			c := review.CardOf(r)
			c.Drifted = e.drift.of(r.ID)
			p.Cards = append(p.Cards, c.Summary())
		}
	}
	return p, nil
}

// Expire announces rows whose time is over, each once. Deadlines hold without it.
func (e *Engine) Expire(ctx context.Context) error {
	rows, err := e.jrn.Expire(ctx, e.cfg.Now())
	for _, r := range rows {
		e.ended(r)
	}
	left, err := journal.Intact(err)
	e.hurt.add(left)
	return err
}

// ApprovalView is one row as one caller may see it.
type ApprovalView struct {
	ID    op.ID        `json:"id"`
	State string       `json:"state"`
	Note  string       `json:"note"`
	Reply *op.Reply    `json:"reply,omitempty"`
	Card  *review.Card `json:"card,omitempty"`
}

// Approval shows one row, waiting up to wait for an answer: state, reply and card.
func (e *Engine) Approval(ctx context.Context, by op.Caller, id op.ID, wait time.Duration) (ApprovalView, error) {
	_, ch, cancel := e.events.subscribe(e.events.last())
	defer cancel()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		end := e.events.nextEnd()
		row, err := e.queue.Mine(ctx, by, id)
		if err != nil {
			return ApprovalView{}, err
		}
		if w := e.byKey(row.Root); w == nil || !mayUse(by, w) {
			return ApprovalView{}, op.Fail(op.NotFound, "no such approval")
		}
		row = e.asItEnded(row)
		over := row.State != "pending" && row.State != "approved" && row.State != "executing" || e.under(row) != nil
		if over || wait <= 0 {
			return e.view(ctx, by, row), nil
		}
		if !row.Deadline.IsZero() {
			if left := row.Deadline.Sub(e.cfg.Now()); left < wait {
				timer.Reset(max(left, 0) + time.Millisecond)
			}
		}
		select {
		case _, ok := <-ch:
			if !ok {
				return e.view(ctx, by, row), nil
			}
		case <-end:
		case <-timer.C:
			wait = 0
		case <-ctx.Done():
			return e.view(ctx, by, row), nil
		}
	}
}

func (e *Engine) view(ctx context.Context, by op.Caller, row journal.Approval) ApprovalView {
	v := ApprovalView{ID: row.ID, State: row.State}
	if row.Answer != nil {
		v.Note = row.Answer.Note
	}
	r := e.withDiff(ctx, e.replyOf(row))
	v.Reply = &r
	c := review.CardOf(row)
	if row.State == journal.Pending && by.Role.Includes(op.Observer) {
		// Whoever opens a card sees whether it still holds now, watched or not.
		c.Drifted = e.recheck(ctx, row)
	}
	v.Card = &c
	return v
}

// Subscribe gives events after seq and those to come; cancel ends it.
func (e *Engine) Subscribe(after int64) ([]Event, <-chan Event, func()) {
	past, ch, cancel := e.events.subscribe(after)
	return past, ch, cancel
}

// Sees reports whether a caller may learn of an event.
func (e *Engine) Sees(by op.Caller, ev Event) bool {
	if ev.Root == "" { // of no root: the configuration, a profile
		return by.Role.Includes(op.Observer) && len(by.Roots) == 0
	}
	w := e.byKey(ev.Root)
	if w == nil || !mayUse(by, w) {
		return false
	}
	return by.Role != op.Agent || ev.Token == string(by.Token)
}

// AuditTail gives the last n audit records.
func (e *Engine) AuditTail(n int) ([]audit.Record, error) { return e.log.Tail(n) }

// AuditHead gives the sealed head of the audit log.
func (e *Engine) AuditHead() (audit.Head, error) { return e.log.Head() }
