package journal

import (
	"context"
	"database/sql"
	"errors"
	"os"
)

// statements are the prepared reads of the readers' pool.
type statements struct {
	byName   [len(tables)]*sql.Stmt
	diff     *sql.Stmt
	basis    *sql.Stmt
	slot     *sql.Stmt
	seqLive  *sql.Stmt
	content  *sql.Stmt
	bySecret *sql.Stmt
	below    *sql.Stmt
}

func prepareReads(ctx context.Context, db *sql.DB) (*statements, error) {
	s := &statements{}
	p := preparer{ctx: ctx, on: db}
	for i, t := range tables {
		p.add(&s.byName[i], t.selectSQL("WHERE "+t.terms[0].name+" = ?"))
	}
	p.add(&s.diff, "SELECT diff, digest FROM diffs WHERE seq = ?")
	p.add(&s.basis, "SELECT basis, digest FROM bases WHERE name = ?")
	p.add(&s.slot, slotSeqSQL)
	p.add(&s.seqLive, seqLiveSQL)
	p.add(&s.content, contentSQL)
	p.add(&s.bySecret, tokens.selectSQL("WHERE secret = ?"))
	p.add(&s.below, "SELECT EXISTS (SELECT 1 FROM op_paths WHERE path >= ? AND path < ?)")
	return s, p.err
}

func (s *statements) close() {
	if s == nil {
		return
	}
	for _, st := range append(s.byName[:], s.diff, s.basis, s.slot, s.seqLive, s.content, s.bySecret, s.below) {
		if st != nil {
			st.Close()
		}
	}
}

// preparer prepares statements until one fails.
type preparer struct {
	ctx context.Context
	on  interface {
		PrepareContext(context.Context, string) (*sql.Stmt, error)
	}
	err error
}

func (p *preparer) add(to **sql.Stmt, query string) {
	if p.err == nil {
		*to, p.err = p.on.PrepareContext(p.ctx, query)
	}
}

// open makes the writer's connection; prepare makes its statements, once the tables are.
func (w *writer) open(ctx context.Context, j *Journal, source string) error {
	w.j, w.patience = j, postedWait
	w.barrier = 1 // what an earlier process left may not have been flushed
	var err error
	if w.db, err = sql.Open("sqlite", source); err != nil {
		return err
	}
	w.db.SetMaxOpenConns(1)
	w.conn, err = w.db.Conn(ctx)
	return err
}

func (w *writer) prepare(ctx context.Context) error {
	p := preparer{ctx: ctx, on: w.conn}
	p.add(&w.begin, "BEGIN IMMEDIATE")
	p.add(&w.commit, "COMMIT")
	p.add(&w.rollback, "ROLLBACK")
	p.add(&w.save, "SAVEPOINT part")
	p.add(&w.release, "RELEASE part")
	p.add(&w.back, "ROLLBACK TO part")
	for i, t := range tables {
		p.add(&w.insert[i], t.insertSQL())
		p.add(&w.state[i], t.stateSQL())
		p.add(&w.byName[i], t.selectSQL("WHERE "+t.terms[0].name+" = ?"))
		p.add(&w.turnTo[i], t.turnSQL())
		if p.err == nil && !t.byName {
			p.err = w.conn.QueryRowContext(ctx, "SELECT coalesce(max(seq), 0) + 1 FROM "+t.name).Scan(&w.next[i])
		}
	}
	p.add(&w.addPath, "INSERT INTO op_paths (path, seq) VALUES (?, ?) ON CONFLICT DO NOTHING") // one operation may touch a path twice
	p.add(&w.addSlot, "INSERT INTO op_slots (slot, seq) VALUES (?, ?) ON CONFLICT DO NOTHING")
	p.add(&w.addSnapshot, "INSERT INTO op_snapshots (path, seq) VALUES (?, ?) ON CONFLICT DO NOTHING")
	p.add(&w.addDiff, "INSERT INTO diffs (seq, diff, digest) VALUES (?, ?, ?)")
	p.add(&w.addBasis, "INSERT INTO bases (name, basis, digest) VALUES (?, ?, ?)")
	p.add(&w.addContent, addContentSQL)
	p.add(&w.content, contentSQL)
	p.add(&w.addLine, "INSERT INTO outbox (name, seq, line) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET line = excluded.line")
	p.add(&w.dropLine, "DELETE FROM outbox WHERE name = ?")
	p.add(&w.setMeta, setMetaSQL)
	if p.err == nil {
		p.err = w.conn.QueryRowContext(ctx, "SELECT coalesce(max(seq), 0) FROM outbox").Scan(&w.lines)
	}
	p.add(&w.dropReceipt, "DELETE FROM ledger WHERE name = ?")
	return p.err
}

// openLog holds the write-ahead log open for flush. SQLite keeps this one file until its
// last connection goes.
func (w *writer) openLog() error {
	log, err := w.j.files.root.OpenFile(dataName+"-wal", os.O_RDWR, 0)
	if err != nil {
		return ioError("open the database's log", err)
	}
	w.log = log
	return nil
}

// close folds the log into the database, for the connection is the last one.
func (w *writer) close() error {
	if w.conn == nil {
		if w.db == nil {
			return nil
		}
		return w.db.Close()
	}
	for _, s := range []*sql.Stmt{w.begin, w.commit, w.rollback, w.save, w.release, w.back, w.addPath, w.addSlot, w.addSnapshot, w.addDiff, w.addBasis, w.addContent, w.content, w.addLine, w.dropLine, w.setMeta, w.dropReceipt} {
		if s != nil {
			s.Close()
		}
	}
	for i := range tables {
		for _, s := range []*sql.Stmt{w.insert[i], w.state[i], w.byName[i], w.turnTo[i]} {
			if s != nil {
				s.Close()
			}
		}
	}
	w.flushing.Lock()
	defer w.flushing.Unlock()
	errs := []error{w.conn.Close(), w.db.Close()}
	if w.log != nil {
		errs = append(errs, w.log.Close())
	}
	return errors.Join(errs...)
}

// foldAt is the size of the log, in bytes, at which it is folded into the database.
const foldAt = 4 << 20

// noticeLog looks now and then how long the log is and has it folded in the background,
// so that no caller's commit waits for the copying. The turn is held.
func (w *writer) noticeLog() {
	if w.version%32 != 0 || w.folding.Load() {
		return
	}
	info, err := w.j.files.root.Stat(dataName + "-wal")
	if err != nil || info.Size() < foldAt {
		return
	}
	w.folding.Store(true)
	w.folds.Go(func() {
		defer w.folding.Store(false)
		w.fold()
	})
}

// fold copies the log into the database: most of it beside the writers, the rest in a turn
// of its own, after which the log begins anew. Its flushes count like a commit's.
func (w *writer) fold() {
	const passive = "PRAGMA wal_checkpoint(PASSIVE)"
	_, err := w.j.readers.ExecContext(context.Background(), passive)
	w.turn.Lock()
	defer w.turn.Unlock()
	if w.closed || w.broken.Load() != nil {
		return
	}
	if err == nil {
		_, err = w.conn.ExecContext(context.Background(), passive)
	}
	if err != nil {
		w.poison(err)
	}
}
