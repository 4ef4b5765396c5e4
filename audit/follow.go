package audit

import (
	"bytes"
	"strconv"

	"holdpoint/op"
)

// Line is one line of a log as it stands there, without its end.
type Line struct {
	Seq  int64
	Text []byte
}

// Follower reads a log forward for whoever copies it elsewhere. It is for one goroutine.
type Follower struct {
	log    *Log
	seq    int64 // of the line that ends at offset
	offset int64
}

// Follow makes one that has read nothing.
func (l *Log) Follow() *Follower { return &Follower{log: l} }

// followed is how much is read at once.
const followed = 256 << 10

// After gives at most n lines that follow the one of a number, oldest first. They are
// flushed before they are given, so that no copy ever holds a line that a power cut took.
func (f *Follower) After(seq int64, n int) ([]Line, error) {
	file, size, err := f.log.flushedAfter(seq)
	if err != nil || size == 0 {
		return nil, err
	}
	if seq != f.seq {
		f.seq, f.offset = 0, 0
	}
	var lines []Line
	for b := make([]byte, followed); f.offset < size && len(lines) < n; {
		got, err := file.ReadAt(b[:min(int64(len(b)), size-f.offset)], f.offset)
		whole := bytes.LastIndexByte(b[:got], '\n') + 1
		if whole == 0 {
			if err == nil && got == len(b) && len(b) < 16<<20 {
				b = make([]byte, 2*len(b)) // a line longer than the piece
				continue
			}
			return nil, systemError(err, "the audit log cannot be read")
		}
		for rest := b[:whole]; len(rest) > 0 && len(lines) < n; {
			end := bytes.IndexByte(rest, '\n')
			at, ok := numberOf(rest[:end])
			if !ok {
				return nil, op.Fail(op.StateCorrupt, "a line of the audit log has no number").Do("holdpoint audit verify names it")
			}
			if at > seq {
				lines = append(lines, Line{at, bytes.Clone(rest[:end])})
			}
			f.seq, f.offset = at, f.offset+int64(end)+1
			rest = rest[end+1:]
		}
	}
	return lines, nil
}

// flushedAfter flushes the log where it has lines after a number, and gives the file with
// the length that is on the disk; 0 where there is nothing new.
func (l *Log) flushedAfter(seq int64) (f interface {
	ReadAt([]byte, int64) (int, error)
}, size int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil || l.at.seq <= seq {
		return nil, 0, nil
	}
	if err := l.sync(); err != nil {
		return nil, 0, err
	}
	return l.f, l.size, nil
}

// numberOf reads the number with which each line begins.
func numberOf(line []byte) (int64, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"seq":`))
	end := bytes.IndexByte(rest, ',')
	if !ok || end < 1 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(rest[:end]), 10, 64)
	return n, err == nil
}
