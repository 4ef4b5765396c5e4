package journal

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"holdpoint/op"
)

// Filter picks operations. Zero fields pick all. One of Path, Snapshot and Slot at a time.
type Filter struct {
	Path     string // a step's path or destination is this or lies below it
	Snapshot string // a snapshot of this path may be kept: the steps tell
	Slot     string // a step names this slot of the store

	Root     string
	Token    op.ID
	Agent    string
	Session  string
	Approval op.ID // the held call that it executed
	Since    time.Time
	State    OpState
	Limit    int   // 0 is no limit
	Before   int64 // only numbers below: the last Seq of the page before
	After    int64 // only numbers above
}

// aPage is how many rows a walk over a history reads at a time.
const aPage = 128

// WalkOperations hands what a filter picks to each, newest first, without diffs, until that
// answers false. It never holds more than a page, however long the history is, and no
// transaction stays open in between. Damaged rows end it as they do Operations.
func (j *Journal) WalkOperations(ctx context.Context, f Filter, each func(Operation) bool) error {
	for f.Limit = aPage; ; {
		page, err := j.Operations(ctx, f)
		if err != nil {
			return err
		}
		for _, o := range page {
			if !each(o) {
				return nil
			}
			f.Before = o.Seq
		}
		if len(page) < aPage || f.Before <= 1 {
			return nil
		}
	}
}

// Operation returns one operation, checked against its digests; op.NotFound when there is
// none, op.StateCorrupt naming it when it is not as it was written.
func (j *Journal) Operation(ctx context.Context, id op.ID) (Operation, error) {
	r, err := j.one(ctx, operations, string(id))
	if err != nil {
		return Operation{}, err
	}
	o, diff, err := operationOf(r)
	if err != nil || diff == 0 || o.Forgotten() {
		return o, err
	}
	var digest []byte
	err = j.readError(operations, j.read.diff.QueryRowContext(ctx, r.seq).Scan(&o.Diff, &digest))
	if errors.Is(err, op.NotFound) || err == nil && (int64(len(o.Diff)) != diff || !bytes.Equal(digest, j.digest("diff", r.seq, []any{o.Diff}))) {
		err = corrupt(operations, r.seq, string(id))
	}
	return o, err
}

// Operations returns what a filter picks, newest first, without diffs. When rows are
// damaged it returns the others together with op.StateCorrupt naming the first.
func (j *Journal) Operations(ctx context.Context, f Filter) ([]Operation, error) {
	rest, args, err := j.picks(ctx, f)
	if err != nil {
		return nil, err
	}
	return j.operations(ctx, rest, args...)
}

// picks words a filter as what follows the columns and the table.
func (j *Journal) picks(ctx context.Context, f Filter) (string, []any, error) {
	var where []string
	var args []any
	add := func(condition string, values ...any) {
		where = append(where, condition)
		args = append(args, values...)
	}
	index, name, err := j.indexFor(ctx, f)
	if err != nil {
		return "", nil, err
	}
	along, seq := "", "seq"
	switch {
	case index != "":
		along, seq = "JOIN (SELECT seq AS at FROM "+index+" = ?) ON seq = at ", "at"
		args = append(args, name)
	case f.Path != "" && f.Path != ".":
		// '0' is the byte after '/', so the range holds what lies below and nothing else.
		add("seq IN (SELECT seq FROM op_paths WHERE path = ? OR (path >= ? AND path < ?))", f.Path, f.Path+"/", f.Path+"0")
	}
	for _, c := range []struct{ column, value string }{{"root", f.Root}, {"token", string(f.Token)}, {"agent", f.Agent}, {"session", f.Session}, {"approval", string(f.Approval)}, {"state", string(f.State)}} {
		if c.value != "" {
			add(c.column+" = ?", c.value)
		}
	}
	if !f.Since.IsZero() {
		add("created >= ?", nanos(f.Since))
	}
	if f.Before > 0 {
		add(seq+" < ?", f.Before)
	}
	if f.After > 0 {
		add(seq+" > ?", f.After)
	}
	rest := along
	if len(where) > 0 {
		rest += "WHERE " + strings.Join(where, " AND ")
	}
	rest += " ORDER BY " + seq + " DESC"
	if f.Limit > 0 {
		rest += " LIMIT ?"
		args = append(args, f.Limit)
	}
	return rest, args, nil
}

// indexFor gives the table, with the column to compare, in which the operations of a single
// thing stand in their order, and the name of that thing. Going along it from the newest a page
// costs the same however much happened to the thing. A path below which something stood is not
// one thing; none is empty.
func (j *Journal) indexFor(ctx context.Context, f Filter) (index, name string, err error) {
	switch {
	case f.Slot != "":
		return "op_slots WHERE slot", f.Slot, nil
	case f.Snapshot != "":
		return "op_snapshots WHERE path", f.Snapshot, nil
	case f.Path == "" || f.Path == ".":
		return "", "", nil
	}
	var below bool
	err = j.read.below.QueryRowContext(ctx, f.Path+"/", f.Path+"0").Scan(&below)
	if err != nil || below {
		return "", "", j.readError(operations, err)
	}
	return "op_paths WHERE path", f.Path, nil
}

// ChangedSince gives the paths that what stands of a root changed after one record, save what
// is named; directories that were only made on the way do not count, nor what undos put back.
// It is for counting: rows are read in part, so that one that is damaged is not found out.
func (j *Journal) ChangedSince(ctx context.Context, root string, seq int64, save map[op.ID]bool) (map[op.Path]bool, error) {
	j.catchUp()
	paths := map[op.Path]bool{}
	rows, err := j.readers.QueryContext(ctx, "SELECT id, steps FROM operations WHERE seq > ? AND root = ? AND state = 'committed' AND op <> 'undo'", seq, root)
	if err == nil {
		err = each(rows, func() error {
			var id string
			var steps sql.RawBytes
			if err := rows.Scan(&id, &steps); err != nil || save[op.ID(id)] {
				return err
			}
			var forms []struct {
				Do   op.Act  `json:"do"`
				Path op.Path `json:"path"`
			}
			if json.Unmarshal(steps, &forms) != nil {
				return nil
			}
			for _, f := range forms {
				if f.Do != op.MakeDir {
					paths[f.Path] = true
				}
			}
			return nil
		})
	}
	return paths, j.readError(operations, err)
}

// Unsettled returns the intents whose end is not recorded, in the order of recording.
func (j *Journal) Unsettled(ctx context.Context) ([]Operation, error) {
	return j.operations(ctx, "WHERE state = 'intent' ORDER BY seq")
}

// Expired returns what was done or undone, whose time to be undone has passed, and which
// still keeps something for undo; oldest first.
func (j *Journal) Expired(ctx context.Context, now time.Time) ([]Operation, error) {
	return j.operations(ctx, "WHERE dropped = 0 AND expires > 0 AND expires <= ? AND state IN ('committed', 'undone') ORDER BY seq", nanos(now))
}

func (j *Journal) operations(ctx context.Context, rest string, args ...any) ([]Operation, error) {
	rows, err := j.many(ctx, operations, rest, args...)
	out := make([]Operation, 0, len(rows))
	for _, r := range rows {
		o, _, bad := operationOf(r)
		if bad != nil {
			err = errors.Join(err, bad)
			continue
		}
		out = append(out, o)
	}
	return out, err
}
