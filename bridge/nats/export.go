package nats

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Line is one line of an audit log.
type Line struct {
	Seq  int64
	Text []byte // without its end
}

// Lines reads the audit log.
type Lines interface {
	// After gives at most n lines that follow the one of a number. They are on the disk: a
	// power cut must not take what the stream has already.
	After(ctx context.Context, seq int64, n int) ([]Line, error)
	// Copied and SetCopied keep how far the stream is, over restarts.
	Copied(ctx context.Context) (int64, error)
	SetCopied(ctx context.Context, seq int64) error
}

// export copies the log to the stream, in order, each line once: the servers drop a second
// message of the same number, and refuse one that does not follow the last that was seen.
type export struct {
	copied  atomic.Int64
	foreign atomic.Int64

	once sync.Once
	bell chan struct{}
}

func (e *export) ring() chan struct{} {
	e.once.Do(func() { e.bell = make(chan struct{}, 1) })
	return e.bell
}

func (e *export) wake() {
	select {
	case e.ring() <- struct{}{}:
	default:
	}
}

// Lines are copied in batches of this many, and looked for this often.
const (
	batch   = 256
	looking = time.Second
)

func (l *Link) keepAudit() {
	bell, failures, last := l.audit.ring(), 0, uint64(0)
	placed := false
	for {
		var err error
		if !l.conn.IsConnected() {
			err = errors.New("no server is connected")
		} else if !placed {
			if last, err = l.place(); err == nil {
				placed = true
			}
		}
		if err == nil {
			last, err = l.copyLines(last)
		}
		wait := failures
		if err != nil {
			if l.ctx.Err() != nil {
				return
			}
			l.notes.trouble("audit", "the audit log is not copied: "+err.Error())
			placed = false // the next attempt looks where the stream is
			failures++
		} else {
			l.notes.over("audit")
			failures, wait = 0, -1
		}
		if wait < 0 {
			t := time.NewTimer(looking)
			select {
			case <-t.C:
			case <-bell:
			case <-l.ctx.Done():
				t.Stop()
				return
			}
			t.Stop()
		} else if !l.pause(failures, bell) {
			return
		}
	}
}

// place finds out which line the stream has last of this daemon, and at which number of
// the stream.
func (l *Link) place() (uint64, error) {
	ctx, cancel := context.WithTimeout(l.ctx, 2*jsWait)
	defer cancel()
	copied, err := l.cfg.Lines.Copied(ctx)
	if err != nil {
		return 0, err
	}
	s, err := l.js.Stream(ctx, Audit)
	if err != nil {
		return 0, err
	}
	m, err := s.GetLastMsgForSubject(ctx, AuditSubject(l.cfg.Daemon))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		l.audit.copied.Store(0) // a stream that was made anew gets everything anew
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	seq, err := strconv.ParseInt(m.Header.Get(headSeq), 10, 64)
	ours := false
	if err == nil && seq > 0 {
		lines, err := l.cfg.Lines.After(ctx, seq-1, 1)
		if err != nil {
			return 0, err
		}
		ours = len(lines) == 1 && lines[0].Seq == seq && bytes.Equal(lines[0].Text, m.Data)
	}
	if ours {
		copied = seq
	} else {
		l.audit.foreign.Add(1)
		l.notes.trouble("foreign", "the audit stream holds a line of this daemon that it did not write; copying goes on behind it")
	}
	l.audit.copied.Store(copied)
	return m.Sequence, nil
}

// copyLines sends what the stream lacks.
func (l *Link) copyLines(last uint64) (uint64, error) {
	for {
		lines, err := l.cfg.Lines.After(l.ctx, l.audit.copied.Load(), batch)
		for _, line := range lines {
			if err != nil {
				break
			}
			last, err = l.copyLine(line, last)
		}
		if err == nil && len(lines) > 0 {
			err = l.cfg.Lines.SetCopied(l.ctx, l.audit.copied.Load())
		}
		if err != nil || len(lines) < batch {
			return last, err
		}
	}
}

func (l *Link) copyLine(line Line, last uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(l.ctx, jsWait)
	defer cancel()
	seq := strconv.FormatInt(line.Seq, 10)
	m := &nats.Msg{Subject: AuditSubject(l.cfg.Daemon), Header: header(headSeq, seq), Data: line.Text}
	ack, err := l.js.PublishMsg(ctx, m, jetstream.WithMsgID(l.cfg.Daemon+":"+seq), jetstream.WithExpectLastSequencePerSubject(last))
	if err != nil {
		return last, err // also when another message came in between: the next attempt looks
	}
	l.audit.copied.Store(line.Seq)
	return ack.Sequence, nil
}

func hexOf(b []byte) string { return hex.EncodeToString(b) }
