package journal

import (
	"bytes"
	"context"
	"database/sql"
	"errors"

	"holdpoint/op"
)

const setMetaSQL = "INSERT INTO meta (name, value, digest) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value, digest = excluded.digest"

func (j *Journal) metaDigest(name, value string) []byte {
	return j.digest("meta", 0, []any{name, value})
}

func (j *Journal) putMeta(ctx context.Context, c querier, name, value string) error {
	_, err := c.ExecContext(ctx, setMetaSQL, name, value, j.metaDigest(name, value))
	return err
}

func (j *Journal) getMeta(ctx context.Context, c querier, name string) (string, error) {
	var value string
	var digest []byte
	err := c.QueryRowContext(ctx, "SELECT value, digest FROM meta WHERE name = ?", name).Scan(&value, &digest)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err == nil && !bytes.Equal(digest, j.metaDigest(name, value)) {
		return "", op.Fail(op.StateCorrupt, "the setting "+op.Visible(name, false)+" is not as it was written")
	}
	return value, err
}

// Meta returns a setting, "" when there is none.
func (j *Journal) Meta(ctx context.Context, key string) (string, error) {
	value, err := j.getMeta(ctx, j.readers, key)
	return value, j.readError(operations, err)
}

// SetMeta keeps a setting in place of an older one. DURABLE.
func (j *Journal) SetMeta(ctx context.Context, key, value string) error {
	if key == identityMeta {
		return op.Fail(op.Internal, "the identity of a state is not a setting")
	}
	return j.write(ctx, durable, func(t *tx) error {
		_, err := t.exec(t.w.setMeta, key, value, j.metaDigest(key, value))
		return err
	})
}

// AuditEntry is one line that waits to be appended to the audit log.
type AuditEntry struct {
	Key  string
	Line []byte
}

// PutAudit puts a line into the outbox; one that is there under the same key gives way.
// DURABLE.
func (j *Journal) PutAudit(ctx context.Context, key string, line []byte) error {
	if key == "" {
		return op.Fail(op.Internal, "an audit line needs a key")
	}
	return j.write(ctx, durable, func(t *tx) error { return t.audit(key, "", line) })
}

// audit adds a line to a transaction; none when there is none.
func (t *tx) audit(key string, id op.ID, line []byte) error {
	if len(line) == 0 {
		return nil
	}
	if key == "" {
		key = string(id)
	}
	t.w.lines++
	_, err := t.exec(t.w.addLine, key, t.w.lines, line)
	return err
}

// Outbox returns the lines that were not cleared, in the order of first putting.
func (j *Journal) Outbox(ctx context.Context) ([]AuditEntry, error) {
	j.catchUp()
	found, err := j.readers.QueryContext(ctx, "SELECT name, line FROM outbox ORDER BY seq")
	if err != nil {
		return nil, j.readError(operations, err)
	}
	defer found.Close()
	var out []AuditEntry
	for found.Next() {
		var e AuditEntry
		if err := found.Scan(&e.Key, &e.Line); err != nil {
			return nil, j.readError(operations, err)
		}
		out = append(out, e)
	}
	return out, j.readError(operations, found.Err())
}

// ClearAudit takes lines out that the audit log has. LAZY: after a crash they may come
// once more, under the same keys.
func (j *Journal) ClearAudit(ctx context.Context, keys ...string) error {
	if len(keys) == 0 {
		return nil
	}
	return j.w.through(&job{ctx: ctx, apart: true, do: func(t *tx) error {
		for _, k := range keys {
			if _, err := t.exec(t.w.dropLine, k); err != nil {
				return err
			}
		}
		return nil
	}})
}
