package flow

import (
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"holdpoint/audit"
	"holdpoint/internal/journal"
	"holdpoint/op"
)

// goneJournal is an engine whose journal closes at the first look at the clock after the
// tree changed: from there on it neither writes nor reads.
type goneJournal struct {
	t           *testing.T
	e           *Engine
	j           *journal.Journal
	l           *audit.Log
	root, state string
	when        atomic.Pointer[func() bool]
}

func (g *goneJournal) open() {
	g.t.Helper()
	var err error
	if g.j, err = journal.Open(g.state, journal.Options{CreatedOK: true}); err != nil {
		g.t.Fatal(err)
	}
	g.l, err = audit.Open(filepath.Join(g.state, "audit"), g.j.Key(), audit.Options{})
	if err != nil {
		g.t.Fatal(err)
	}
	g.e = New(Config{Version: "test", ReviewAuth: "token", Now: g.now}, g.j, g.l, nil)
	if _, err := g.e.AddRoot(g.t.Context(), RootSpec{Dir: g.root}); err != nil {
		g.t.Fatal(err)
	}
	if err := g.e.Recover(g.t.Context()); err != nil {
		g.t.Fatal(err)
	}
}

func (g *goneJournal) close() {
	g.when.Store(nil)
	g.e.Close() // what still runs ends with it
	g.l.Close()
	g.j.Close()
}

func (g *goneJournal) now() time.Time {
	if when := g.when.Load(); when != nil && (*when)() && g.when.CompareAndSwap(when, nil) {
		if err := g.j.Close(); err != nil {
			g.t.Error(err)
		}
	}
	return time.Now()
}

// changed arms it: the journal goes when the file is there, or is not any more.
func (g *goneJournal) changed(name string, there bool) {
	when := func() bool {
		_, err := os.Lstat(filepath.Join(g.root, name))
		return (err == nil) == there
	}
	g.when.Store(&when)
}

// TestJournalGoneAfterEffects: once something changed, no failure of the journal is all that
// the answer says. It says what happened, and the next start has the record of it.
func TestJournalGoneAfterEffects(t *testing.T) {
	agent, person := op.Caller{Token: "tk_a", Name: "a", Role: op.Agent}, op.Caller{Token: "tk_p", Name: "p", Role: op.Reviewer}
	batch := op.Object{"operations": []any{op.Object{"op": "delete_file", "args": op.Object{"path": "f"}}, op.Object{"op": "write_file", "args": op.Object{"path": "made", "content": "x"}}}}
	for _, c := range []struct {
		name string
		op   op.Name
		args op.Object
		held bool
		undo bool // the undo of it, not the call itself
	}{
		{"a new file", op.WriteFile, op.Object{"path": "made", "content": "x"}, false, false},
		{"the undo of a new file", op.WriteFile, op.Object{"path": "made", "content": "x"}, false, true},
		{"a released batch", op.BatchFileOps, batch, true, false},
		{"a released program", op.WorkspaceShell, op.Object{"script": "echo x > made"}, true, false},
		{"a released program in the background", op.WorkspaceShell, op.Object{"script": "echo x > made; sleep 0.3", "background": true}, true, false},
	} {
		t.Run("S100 (part) "+c.name+" is told as what happened when the journal goes right after it", func(t *testing.T) {
			base := t.TempDir()
			g := &goneJournal{t: t, root: filepath.Join(base, "ws"), state: filepath.Join(base, "state")}
			if err := os.MkdirAll(g.root, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(g.root, "f"), []byte("one\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			g.open()
			defer func() { g.close() }()
			if _, _, err := g.e.CreateToken(t.Context(), TokenSpec{Name: "p", Role: op.Reviewer}); err != nil {
				t.Fatal(err)
			}
			req := op.Request{Op: c.op, Args: c.args}
			if c.undo {
				made := g.e.Call(t.Context(), agent, req, nil)
				if made.Status != op.Done {
					t.Fatalf("got %v", made.Error)
				}
				req = op.Request{Op: op.Undo, Args: op.Object{"operation_id": string(made.OperationID)}}
			}
			var r op.Reply
			id := op.ID("")
			if c.held {
				held := g.e.Call(t.Context(), agent, req, nil)
				if held.Status != op.Held {
					t.Fatalf("got %v %v", held.Status, held.Error)
				}
				id = held.Approval.ID
				row, err := g.e.queue.Row(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				g.changed("made", true)
				v, err := g.e.Answered(t.Context(), person, id, journal.Answer{Answer: "approve", ShownDigest: row.ShownDigest})
				if err != nil {
					t.Fatalf("the answer is the journal's failure alone: %v", err)
				}
				r = *v.Reply
			} else {
				g.changed("made", !c.undo)
				r = g.e.Call(t.Context(), agent, req, nil)
			}
			g.told(c.op, r)
			g.close()
			g.open()
			g.kept(id, r)
		})
	}
}

// told looks at the answer of whoever asked or answered.
func (g *goneJournal) told(name op.Name, r op.Reply) {
	g.t.Helper()
	if g.when.Load() != nil && !isProcess(name) {
		g.t.Fatalf("the journal never went: %+v", r)
	}
	if r.Status != op.Done && (r.Error == nil || r.Error.Code != op.UnknownOutcome) || !r.EffectsExecuted {
		g.t.Errorf("got %s %v, effects %v", r.Status, r.Error, r.EffectsExecuted)
	}
}

// kept looks at what the next start makes of it.
func (g *goneJournal) kept(id op.ID, r op.Reply) {
	g.t.Helper()
	if id != "" {
		row, err := g.j.Approval(g.t.Context(), id)
		if err != nil || !slices.Contains([]string{journal.Executed, "unknown"}, row.State) {
			g.t.Errorf("the row is %q, %v", row.State, err)
		}
	}
	if r.OperationID == "" || r.UndoCredential == nil {
		return
	}
	if o, err := g.j.Operation(g.t.Context(), r.OperationID); err != nil || o.State != journal.Committed {
		g.t.Errorf("the operation is %q, %v", o.State, err)
	}
}
