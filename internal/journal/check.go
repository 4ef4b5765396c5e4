package journal

import (
	"context"
	"errors"
	"fmt"

	"holdpoint/op"
)

// Check reads everything and returns what is wrong, one line each: what Open noted, the
// database's own check, every row against its digests, numbers that are missing among
// rows that are never deleted, diffs, and every blob against its name. Nothing is
// rewritten. An error means that the check itself could not go on.
func (j *Journal) Check(ctx context.Context) ([]string, error) {
	j.catchUp()
	bad := j.Notes()
	lines, err := integrity(ctx, j.readers)
	if err != nil && !isDamage(err) {
		return bad, j.readError(operations, err)
	}
	if err != nil {
		lines = append(lines, err.Error())
	}
	for _, l := range lines {
		bad = append(bad, "database: "+l)
	}
	for _, t := range tables {
		lines, err := j.checkTable(ctx, t)
		if bad = append(bad, lines...); err != nil {
			return bad, err
		}
	}
	for _, check := range []func(context.Context) ([]string, error){j.checkDiffs, j.checkBases, j.checkContents, j.checkMeta, j.checkBlobs} {
		lines, err := check(ctx)
		if bad = append(bad, lines...); err != nil {
			return bad, err
		}
	}
	return bad, nil
}

func (j *Journal) checkTable(ctx context.Context, t *table) ([]string, error) {
	found, err := j.readers.QueryContext(ctx, t.selectSQL("ORDER BY seq"))
	if err != nil {
		return j.unreadable(t.name, err)
	}
	defer found.Close()
	var bad []string
	last := int64(0)
	for found.Next() {
		r, err := j.scan(t, found)
		if errors.Is(err, op.StateCorrupt) {
			bad = append(bad, op.AsError(err).Message)
		} else if err != nil {
			more, err := j.unreadable(t.name, err)
			return append(bad, more...), err
		}
		if t.kept && r.seq > last+1 {
			bad = append(bad, gap(t.name, last+1, r.seq-1)+" missing")
		}
		last = r.seq
	}
	more, err := j.unreadable(t.name, found.Err())
	return append(bad, more...), err
}

// unreadable turns damage that stops a scan into a line; any other error stays one.
func (j *Journal) unreadable(what string, err error) ([]string, error) {
	if isDamage(err) {
		return []string{what + ": " + err.Error()}, nil
	}
	return nil, j.readError(operations, err)
}

func gap(what string, from, to int64) string {
	if from == to {
		return fmt.Sprintf("%s: record %d", what, from)
	}
	return fmt.Sprintf("%s: records %d to %d", what, from, to)
}

func (j *Journal) checkDiffs(ctx context.Context) ([]string, error) {
	found, err := j.readers.QueryContext(ctx, `SELECT o.seq, o.diff_size, coalesce(d.diff, x''), coalesce(d.digest, x'')
		FROM operations o LEFT JOIN diffs d USING (seq) WHERE o.diff_size > 0 AND NOT (o.dropped <> 0 AND o.why = 'forgotten') ORDER BY o.seq`)
	if err != nil {
		return j.unreadable("diffs", err)
	}
	defer found.Close()
	var bad []string
	for found.Next() {
		var seq, size int64
		var diff, digest []byte
		if err := found.Scan(&seq, &size, &diff, &digest); err != nil {
			return bad, j.readError(operations, err)
		}
		if int64(len(diff)) != size || string(digest) != string(j.digest("diff", seq, []any{diff})) {
			bad = append(bad, fmt.Sprintf("the diff of operation record %d is not as it was written", seq))
		}
	}
	more, err := j.unreadable("diffs", found.Err())
	return append(bad, more...), err
}

func (j *Journal) checkMeta(ctx context.Context) ([]string, error) {
	found, err := j.readers.QueryContext(ctx, "SELECT name, value, digest FROM meta ORDER BY name")
	if err != nil {
		return j.unreadable("meta", err)
	}
	defer found.Close()
	var bad []string
	for found.Next() {
		var name, value string
		var digest []byte
		if err := found.Scan(&name, &value, &digest); err != nil {
			return bad, j.readError(operations, err)
		}
		if string(digest) != string(j.metaDigest(name, value)) {
			bad = append(bad, "the setting "+op.Visible(name, false)+" is not as it was written")
		}
	}
	more, err := j.unreadable("meta", found.Err())
	return append(bad, more...), err
}

func (j *Journal) checkBlobs(ctx context.Context) ([]string, error) {
	entries, err := j.files.blobs()
	if err != nil {
		return nil, err
	}
	var bad []string
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return bad, op.Fail(op.Cancelled, "the caller went away during the check").Because(err)
		}
		d := op.Digest("blake3:" + e.Name())
		if _, ok := digestHex(d); !ok {
			continue // one that is being written now
		}
		if _, err := j.Blob(ctx, d); errors.Is(err, op.StateCorrupt) {
			bad = append(bad, op.AsError(err).Message)
		} else if err != nil && !errors.Is(err, op.NotFound) {
			return bad, err
		}
	}
	return bad, nil
}
