package journal

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"holdpoint/op"

	sqlite3 "modernc.org/sqlite/lib"
)

const (
	schemaVersion = 5
	applicationID = 0x486f6c64 // "Hold", for programs that tell files apart
)

var (
	operations = &table{index: 0, name: "operations", what: "operation", kept: true,
		terms: []column{{"id", text}, {"root", text}, {"op", text}, {"token", text}, {"agent", text}, {"workflow", text}, {"session", text},
			{"stage", text}, {"execution", text}, {"request_id", text}, {"call_digest", text}, {"approval", text}, {"undoes", text},
			{"decision", text}, {"steps", text}, {"intent", text}, {"diff_size", number}, {"created", number}, {"expires", number}},
		state: []column{{"state", text}, {"undone_by", text}, {"why", text}, {"late", text}, {"dropped", number}, {"reply", bytes_}},
		extras: `CREATE INDEX operations_open ON operations (seq) WHERE state = 'intent';
			CREATE INDEX operations_expires ON operations (expires) WHERE dropped = 0 AND expires > 0;`}

	approvals = &table{index: 1, name: "approvals", what: "approval", kept: true,
		terms: []column{{"id", text}, {"created", number}, {"deadline", number}, {"on_timeout", text}, {"token", text}, {"agent", text},
			{"workflow", text}, {"session", text}, {"stage", text}, {"execution", text}, {"request_id", text}, {"root", text}, {"op", text},
			{"request", bytes_}, {"call_digest", text}, {"identity", text}, {"pins", text}, {"card", bytes_}, {"shown_digest", text},
			{"decision", text}, {"intent", text}},
		state: []column{{"state", text}, {"answer", text}, {"operation", text}, {"cancelled_by", text}, {"changed", number}, {"reply", bytes_}},
		extras: `CREATE INDEX approvals_state ON approvals (state, seq);
			CREATE INDEX approvals_call ON approvals (token, call_digest) WHERE state = 'pending';
			CREATE INDEX approvals_due ON approvals (deadline) WHERE state = 'pending' AND deadline > 0;`}

	tokens = &table{index: 2, name: "tokens", what: "token", kept: true,
		terms: []column{{"id", text}, {"name", text}, {"role", text}, {"roots", text}, {"workflow", text}, {"profile", text},
			{"clearance", number}, {"created", number}, {"expires", number}, {"socket_only", number}, {"secret", bytes_}},
		state:  []column{{"revoked", number}},
		extras: `CREATE UNIQUE INDEX tokens_secret ON tokens (secret);`}

	ledger = &table{index: 3, name: "ledger", what: "receipt", byName: true,
		terms: []column{{"name", text}, {"token", text}, {"request_id", text}, {"call_digest", text}, {"approval", text}, {"created", number}, {"reply", bytes_}},
		state: []column{{"operation", text}}}

	rules = &table{index: 4, name: "rules", what: "rule", kept: true,
		terms: []column{{"id", text}, {"kind", text}, {"root", text}, {"token", text}, {"identity", text}, {"body", text}, {"made_by", text},
			{"created", number}, {"expires", number}},
		state:  []column{{"revoked", number}, {"revoked_by", text}, {"used", number}, {"used_bytes", number}},
		extras: `CREATE INDEX rules_token ON rules (token) WHERE revoked = 0;`}

	tables = [...]*table{operations, approvals, tokens, ledger, rules}
	headed = [2]*table{operations, approvals} // whose newest numbers the head file holds
)

// plainSchema is what has no terms and state of its own.
const plainSchema = `
CREATE TABLE op_paths (path TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (path, seq)) STRICT, WITHOUT ROWID;
CREATE TABLE diffs (seq INTEGER PRIMARY KEY, diff BLOB NOT NULL, digest BLOB NOT NULL) STRICT;
CREATE TABLE outbox (name TEXT PRIMARY KEY, seq INTEGER NOT NULL, line BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL, digest BLOB NOT NULL) STRICT, WITHOUT ROWID;
`

// steps are what each version adds to the one before it: steps[0] makes schema 2 of
// schema 1. A database of an older version gets the steps that it lacks when it is opened.
// A step never changes once a program with it has run; what comes next is a further one.
var steps = [schemaVersion - 1]string{basisSchema, slotSchema, contentSchema, snapshotSchema}

// fills put into what a step made what the rows that are there already imply. A new
// database has none.
var fills = [schemaVersion - 1]string{"", slotFill, "", snapshotFill}

// schemaSQL makes everything: the first schema and all steps.
func schemaSQL() string { return firstSchema() + strings.Join(steps[:], "") }

// firstSchema makes schema 1. The triggers compare values and not only the columns that a
// statement names, so that no other spelling of a column gets by; REPLACE deletes the old
// row, which fires the delete trigger because the writer sets recursive_triggers.
func firstSchema() string {
	var b strings.Builder
	for _, t := range tables {
		seq, name, end := "PRIMARY KEY", "NOT NULL UNIQUE", ""
		if t.byName {
			seq, name, end = "NOT NULL", "PRIMARY KEY", ", WITHOUT ROWID"
		}
		fmt.Fprintf(&b, "CREATE TABLE %s (seq INTEGER %s, %s TEXT %s, digest BLOB NOT NULL", t.name, seq, t.terms[0].name, name)
		for _, c := range append(append([]column{}, t.terms[1:]...), t.state...) {
			fmt.Fprintf(&b, ", %s %s NOT NULL", c.name, c.kind)
		}
		fmt.Fprintf(&b, ", mark BLOB NOT NULL) STRICT%s;\n", end)
		b.WriteString(t.termsTrigger())
		if t.kept {
			fmt.Fprintf(&b, "CREATE TRIGGER %s_kept BEFORE DELETE ON %[1]s BEGIN SELECT RAISE(ABORT, 'no %s is ever deleted'); END;\n", t.name, t.what)
		}
		b.WriteString(t.extras + "\n")
	}
	b.WriteString(plainSchema)
	return b.String()
}

func (t *table) termsTrigger() string {
	var changed []string
	for _, c := range append([]column{{"seq", number}, {"digest", bytes_}}, t.terms...) {
		changed = append(changed, "OLD."+c.name+" IS NOT NEW."+c.name)
	}
	return fmt.Sprintf("CREATE TRIGGER %s_terms BEFORE UPDATE ON %[1]s WHEN %s BEGIN SELECT RAISE(ABORT, 'the terms of %s never change'); END;\n",
		t.name, strings.Join(changed, " OR "), t.what)
}

// dataSource spells the database for the driver. The path is a URI part: a '?' or '%' in
// it must not become a parameter.
func dataSource(dir string, pragmas ...string) string {
	q := url.Values{"_defensive": {"1"}, "_dqs": {"0"}, "_pragma": append([]string{"busy_timeout(10000)", "temp_store(MEMORY)", "trusted_schema(OFF)", "cell_size_check(ON)"}, pragmas...)}
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(dir, dataName)), RawQuery: q.Encode()}
	return u.String()
}

// openDatabase opens the writer's connection and the readers, makes the tables where
// there are none, and checks that the database is the one of this state.
func (j *Journal) openDatabase(identity string) error {
	ctx := context.Background()
	if err := j.w.open(ctx, j, dataSource(j.dir, "journal_mode(WAL)", "synchronous(NORMAL)", "recursive_triggers(ON)", "wal_autocheckpoint(0)", "journal_size_limit(16777216)")); err != nil {
		return databaseError(err)
	}
	if err := j.prepareSchema(ctx, identity); err != nil {
		return databaseError(err)
	}
	// Beside the writer, since both only read the schema and a start waits for them.
	j.readers, _ = sql.Open("sqlite", dataSource(j.dir, "query_only(ON)")) // fails only for an unknown driver
	j.readers.SetMaxOpenConns(4)
	j.readers.SetMaxIdleConns(2)
	prepared := make(chan error, 1)
	go func() {
		var err error
		j.read, err = prepareReads(ctx, j.readers)
		prepared <- err
	}()
	err := j.openWriter(ctx)
	if failed := <-prepared; err == nil && failed != nil {
		err = databaseError(failed)
	}
	return err
}

func (j *Journal) openWriter(ctx context.Context) error {
	if err := j.w.prepare(ctx); err != nil {
		return databaseError(err)
	}
	if err := j.w.openLog(); err != nil {
		return err
	}
	return j.openAhead()
}

func (j *Journal) prepareSchema(ctx context.Context, identity string) error {
	c := j.w.conn
	var version, count int
	if err := c.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version < 0 || version > schemaVersion {
		return otherSchema(version)
	}
	if version == 0 {
		if err := j.makeSchema(ctx, identity); err != nil {
			return err
		}
	} else if version < schemaVersion {
		if err := j.takeSteps(ctx, version, identity); err != nil {
			return err
		}
	}
	if have, err := schemaOf(ctx, c); err != nil {
		return err
	} else if want := declared(schemaSQL()); have != want {
		return op.Fail(op.StateCorrupt, "the database's tables or triggers are not the ones this schema has").Do("put the database back that was there")
	}
	if err := c.QueryRowContext(ctx, "PRAGMA page_count").Scan(&count); err != nil {
		return err
	}
	if count <= wholePages {
		if bad, err := integrity(ctx, c); err != nil {
			return err
		} else if len(bad) > 0 {
			return op.Fail(op.StateCorrupt, "the database of the state is damaged: "+bad[0]).Do("nothing was rewritten; restore the state, or move it away to begin anew")
		}
	}
	got, err := j.getMeta(ctx, c, identityMeta)
	if err == nil && got != identity {
		err = op.Fail(op.StateCorrupt, "the database belongs to another state").Do("put the database back that was there")
	}
	return err
}

// makeSchema makes all of a new database in one transaction and folds it out of the log, so
// that nothing that happens to the log can take it away.
func (j *Journal) makeSchema(ctx context.Context, identity string) error {
	c := j.w.conn
	script := fmt.Sprintf("BEGIN IMMEDIATE; %s PRAGMA application_id = %d; PRAGMA user_version = %d;", schemaSQL(), applicationID, schemaVersion)
	if _, err := c.ExecContext(ctx, script); err != nil {
		return err
	}
	if err := j.putMeta(ctx, c, identityMeta, identity); err != nil {
		return err
	}
	if _, err := c.ExecContext(ctx, "COMMIT; PRAGMA wal_checkpoint(TRUNCATE);"); err != nil {
		return err
	}
	return j.files.sync(".")
}

// takeSteps brings a database of an older version to this one, in one transaction. Before
// anything is written the tables must be the ones that the older version had.
func (j *Journal) takeSteps(ctx context.Context, from int, identity string) error {
	c := j.w.conn
	if have, err := schemaOf(ctx, c); err != nil {
		return err
	} else if have != declared(firstSchema()+strings.Join(steps[:from-1], "")) {
		return op.Fail(op.StateCorrupt, fmt.Sprintf("the database's tables or triggers are not the ones that schema %d has", from)).Do("put the database back that was there")
	}
	if _, err := c.ExecContext(ctx, "BEGIN IMMEDIATE; "+strings.Join(steps[from-1:], "")+strings.Join(fills[from-1:], "")); err != nil {
		return err
	}
	if from < 4 {
		if err := j.parted(ctx, c); err != nil {
			return err // closing the connection takes all of it back
		}
	}
	if _, err := c.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d; COMMIT; PRAGMA wal_checkpoint(TRUNCATE);", schemaVersion)); err != nil {
		return err
	}
	return j.files.writeMark(identity)
}

// wholePages is the largest database (4 MiB) that Open checks as a whole; Check has no limit.
const wholePages = 1024

// identityMeta is the row of meta that ties the database to the key.
const identityMeta = "state identity"

func integrity(ctx context.Context, c querier) ([]string, error) {
	found, err := c.QueryContext(ctx, "PRAGMA integrity_check(20)")
	if err != nil {
		return nil, err
	}
	defer found.Close()
	var bad []string
	for found.Next() {
		var line string
		if err := found.Scan(&line); err != nil {
			return nil, err
		}
		if line != "ok" {
			bad = append(bad, line)
		}
	}
	return bad, found.Err()
}

type querier interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
	QueryRowContext(context.Context, string, ...any) *sql.Row
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}

// schemaOf reads back the statements that made the database, in the order of their text:
// VACUUM and the steps make them in another order.
func schemaOf(ctx context.Context, c querier) (string, error) {
	found, err := c.QueryContext(ctx, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid")
	if err != nil {
		return "", err
	}
	defer found.Close()
	var all []string
	for found.Next() {
		var s string
		if err := found.Scan(&s); err != nil {
			return "", err
		}
		all = append(all, s)
	}
	slices.Sort(all)
	return strings.Join(all, "\n"), found.Err()
}

// declared is what schemaOf gives for a database made from script: each statement without
// the semicolon that ends it.
func declared(script string) string {
	var all []string
	for _, line := range strings.Split(script, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, strings.TrimSuffix(line, ";"))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func isDamage(err error) bool {
	switch code := sqliteCode(err); code {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return true
	}
	return false
}

// databaseError gives a failed opening its code.
func databaseError(err error) error {
	if isDamage(err) {
		return op.Fail(op.StateCorrupt, "the database of the state is damaged").Because(err).Do("nothing was rewritten; restore the state, or move it away to begin anew")
	}
	return ioError("open its database", err)
}
