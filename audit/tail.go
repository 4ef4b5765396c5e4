package audit

import (
	"bytes"
	"io"
	"runtime"
	"sync"

	"holdpoint/op"
)

// tailWindow is how much of the end Open reads and checks.
const tailWindow = 1 << 20

// tail is the end of a log: whole lines from somewhere on, and what a crash left of one more.
type tail struct {
	first bool     // lines start with record 1
	lines [][]byte // without their ends
	whole int64    // length of the file up to the end of the last whole line
	torn  int64    // bytes after that
	at    link     // after check: the last record's place
	from  int64    // after check: number of lines[0]
}

// readTail reads at most window bytes before size.
func readTail(f io.ReaderAt, size, window int64) (*tail, error) {
	start := max(0, size-window)
	b := make([]byte, size-start)
	if n, err := f.ReadAt(b, start); n < len(b) {
		return nil, systemError(err, "the audit log cannot be read")
	}
	t := &tail{first: start == 0}
	if !t.first {
		cut := bytes.IndexByte(b, '\n') + 1 // the window begins inside a line
		b = b[cut:]
		start += int64(cut)
	}
	keep := wholeLines(b)
	t.whole, t.torn = start+int64(keep), int64(len(b)-keep)
	for rest := b[:keep]; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		t.lines = append(t.lines, rest[:end])
		rest = rest[end+1:]
	}
	if !t.first && len(t.lines) == 0 {
		return nil, op.Fail(op.StateCorrupt, "the end of the audit log holds no records").
			Do("keep the file as it is and compare it with a copy or a head kept elsewhere")
	}
	return t, nil
}

// wholeLines returns the length of b without an unfinished last line: bytes that no line end
// follows, or a last line in which a block was never written and reads as zeros. A line
// that is whole but wrong is no crash's work and stays, to be found broken.
func wholeLines(b []byte) int {
	keep := bytes.LastIndexByte(b, '\n') + 1
	if keep == 0 {
		return 0
	}
	last := bytes.LastIndexByte(b[:keep-1], '\n') + 1
	if bytes.IndexByte(b[last:keep], 0) >= 0 {
		return last
	}
	return keep
}

// check walks the chain. The first line of a window that begins later than record 1 is
// taken at its word; all others must follow.
func (t *tail) check() ([]Record, error) {
	t.at, t.from = link{0, Genesis}, 1
	records, errs := parseAll(t.lines)
	from := 0
	if !t.first {
		if errs[0] != nil {
			return nil, op.Fail(op.StateCorrupt, "an audit record near the end is not readable").
				Do("holdpoint audit verify names it")
		}
		t.at, t.from = link{records[0].Seq, hashLine(t.lines[0])}, records[0].Seq
		from = 1
	}
	for i := from; i < len(t.lines); i++ {
		next, _, fail, _ := t.at.follow(t.lines[i], records[i], errs[i])
		if fail != nil {
			return nil, fail
		}
		t.at = next
	}
	return records, nil
}

// parseAll parses lines on all cores: a start waits for it, and it is most of what an audit
// log in use costs it.
func parseAll(lines [][]byte) ([]Record, []error) {
	records, errs := make([]Record, len(lines)), make([]error, len(lines))
	var g sync.WaitGroup
	share := len(lines)/runtime.GOMAXPROCS(0) + 1
	for from := 0; from < len(lines); from += share {
		g.Go(func() {
			for i := from; i < min(from+share, len(lines)); i++ {
				records[i], errs[i] = Parse(lines[i])
			}
		})
	}
	g.Wait()
	return records, errs
}

// reaches reports whether the log still holds the record that h names. A head older than
// the window is compared by number alone.
func (t *tail) reaches(h Head) error {
	if h.Seq > t.at.seq {
		return cutBefore(h, t.at.seq)
	}
	if i := h.Seq - t.from; h.Seq > 0 && i >= 0 && hashLine(t.lines[i]) != h.Hash {
		return replaced(h)
	}
	return nil
}

// lastRecords reads back from the end until it has n records or the file is at its start.
func lastRecords(f io.ReaderAt, size int64, n int) ([]Record, error) {
	if n <= 0 {
		return nil, nil
	}
	for window := int64(64 << 10); ; window *= 4 {
		t, err := readTail(f, size, window)
		if err != nil {
			return nil, err
		}
		if len(t.lines) < n && !t.first {
			continue
		}
		records := make([]Record, 0, min(n, len(t.lines)))
		for _, line := range t.lines[max(0, len(t.lines)-n):] {
			r, err := Parse(line)
			if err != nil {
				return nil, err
			}
			records = append(records, r)
		}
		return records, nil
	}
}
