package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdpoint/op"
)

func TestBasis(t *testing.T) {
	ctx := context.Background()
	j := fresh(t)
	o, a := sample(j, "r1"), held(j, "r2")
	o.Basis, a.Basis = []byte(`{"of":"operation"}`), []byte(`{"of":"approval"}`)
	without := sample(j, "r3")
	if err := errors.Join(j.Begin(ctx, o), j.AddApproval(ctx, a), j.Begin(ctx, without)); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[op.ID]string{o.ID: string(o.Basis), a.ID: string(a.Basis), without.ID: ""} {
		if got, err := j.Basis(ctx, id); err != nil || string(got) != want {
			t.Errorf("%s: got %s %v, want %s", id, got, err, want)
		}
	}
	t.Run("no statement changes or deletes one", func(t *testing.T) {
		for _, q := range []string{"UPDATE bases SET basis = x'00'", "DELETE FROM bases", "REPLACE INTO bases SELECT * FROM bases"} {
			if _, err := j.w.conn.ExecContext(ctx, q); err == nil || !strings.Contains(err.Error(), "basis") {
				t.Errorf("%s: %v", q, err)
			}
		}
	})
	t.Run("an altered one is named, and every row is still given", func(t *testing.T) {
		raw(t, j, "DROP TRIGGER bases_terms")
		raw(t, j, fmt.Sprintf("UPDATE bases SET basis = x'7b7d' WHERE name = '%s'", o.ID))
		raw(t, j, "DROP TRIGGER operations_terms")
		raw(t, j, fmt.Sprintf("UPDATE operations SET decision = replace(decision, 'auto', 'review') WHERE id = '%s'", without.ID))
		if _, err := j.Basis(ctx, o.ID); !errors.Is(err, op.StateCorrupt) || !strings.Contains(err.Error(), string(o.ID)) {
			t.Errorf("got %v", err)
		}
		bad, err := j.Check(ctx)
		if text := strings.Join(bad, "\n"); err != nil || len(bad) != 2 || !strings.Contains(text, "the basis of "+string(o.ID)) {
			t.Errorf("got %q %v", bad, err)
		}
		var seen []string
		err = j.EachOperation(ctx, func(o Operation, intact bool) error {
			seen = append(seen, fmt.Sprintf("%s %v", o.ID, intact))
			return nil
		})
		if want := fmt.Sprintf("%s true,%s false", o.ID, without.ID); err != nil || strings.Join(seen, ",") != want {
			t.Errorf("got %v %v, want %s", seen, err, want)
		}
	})
}

// A state of an older program gets what it lacks, and keeps what it has.
func TestSchemaSteps(t *testing.T) {
	ctx := context.Background()
	old := func(t *testing.T) (string, Operation) {
		dir := filepath.Join(t.TempDir(), "state")
		j := open(t, dir)
		o := sample(j, "r1")
		if err := j.Begin(ctx, o); err != nil {
			t.Fatal(err)
		}
		raw(t, j, "DROP TABLE bases")
		for _, later := range laterTables {
			raw(t, j, "DROP TABLE "+later)
		}
		raw(t, j, "PRAGMA user_version = 1")
		identity := stateIdentity(j.key)
		if err := errors.Join(j.Close(), os.WriteFile(filepath.Join(dir, markName), fmt.Appendf(nil, markText, 1, identity), 0o600)); err != nil {
			t.Fatal(err)
		}
		return dir, o
	}
	t.Run("schema 1 is brought up, once", func(t *testing.T) {
		dir, o := old(t)
		for range 2 {
			j := open(t, dir)
			got, err := j.Operation(ctx, o.ID)
			if err != nil || got.Op != o.Op {
				t.Fatalf("got %v %v", got, err)
			}
			next := sample(j, fmt.Sprint(time.Now().UnixNano()))
			next.Basis = []byte("{}")
			if err := errors.Join(j.Begin(ctx, next), j.Close()); err != nil {
				t.Fatal(err)
			}
		}
		mark, err := os.ReadFile(filepath.Join(dir, markName))
		if err != nil || !strings.Contains(string(mark), fmt.Sprintf("schema %d,", schemaVersion)) {
			t.Errorf("got %q %v", mark, err)
		}
	})
	t.Run("an older schema with other tables is refused and left alone", func(t *testing.T) {
		dir, _ := old(t)
		db := filepath.Join(dir, dataName)
		j := open(t, dir)
		raw(t, j, "DROP TABLE bases")
		for _, later := range laterTables {
			raw(t, j, "DROP TABLE "+later)
		}
		raw(t, j, "DROP TRIGGER approvals_terms")
		raw(t, j, "PRAGMA user_version = 1")
		j.Close()
		before, err := os.ReadFile(db)
		if err != nil {
			t.Fatal(err)
		}
		refused(t, dir, op.StateCorrupt, "schema 1")
		if after, err := os.ReadFile(db); err != nil || string(after) != string(before) {
			t.Errorf("the database was written to: %v", err)
		}
	})
}

// laterTables are the tables of the steps after the second schema.
var laterTables = []string{"op_slots", "approval_content", "op_snapshots"}
