package flow

import (
	"os"
	"path/filepath"
	"testing"

	"holdpoint/audit"
	"holdpoint/internal/journal"
)

// Opened is an engine on a new state, with one empty workspace.
type Opened struct {
	*Engine
	Journal *journal.Journal
	Root    string // directory of the workspace
}

// OpenState opens the journal and the audit log of a state; they are closed with the test.
func OpenState(t testing.TB, state string) (*journal.Journal, *audit.Log) {
	t.Helper()
	j, err := journal.Open(state, journal.Options{CreatedOK: true})
	if err != nil {
		t.Fatal(err)
	}
	l, err := audit.Open(filepath.Join(state, "audit"), j.Key(), audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); j.Close() })
	return j, l
}

// OpenNew opens one; it is closed with the test.
func OpenNew(t testing.TB, cfg Config) Opened {
	t.Helper()
	base := t.TempDir()
	root, state := filepath.Join(base, "ws"), filepath.Join(base, "state")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	j, l := OpenState(t, state)
	cfg.Version = "test"
	e := New(cfg, j, l, nil)
	t.Cleanup(e.Close)
	if _, err := e.AddRoot(t.Context(), RootSpec{Dir: root}); err != nil {
		t.Fatal(err)
	}
	return Opened{e, j, root}
}
