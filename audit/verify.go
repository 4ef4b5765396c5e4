package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"holdpoint/op"
)

// Result is what Verify found.
type Result struct {
	Records int64     `json:"records"`      // whole ones, in order, up to the first fault
	Torn    int64     `json:"torn"`         // bytes of an unfinished last record: a crash's work, no fault
	At      int64     `json:"at,omitempty"` // number of the record at fault
	Err     *op.Error `json:"error,omitempty"`
}

// Verify reads the whole log in dir and changes nothing; a daemon may be writing to it. A
// fault of the log is in the Result; the error is for a log that cannot be read at all.
//
// head may be nil: then a tail that was cut off, and a file written anew as a whole, do
// not show, nor does a change of the very last record. key may be nil: then the head is
// taken at its word, for whoever checks a copy without the daemon's key.
func Verify(dir string, head *Head, key []byte) (Result, error) {
	if head != nil && key != nil {
		if err := checkSeal(key, *head); err != nil {
			return Result{Err: op.AsError(err)}, nil
		}
	}
	f, err := os.OpenFile(filepath.Join(dir, FileName), os.O_RDONLY|openFlags, 0)
	if err != nil {
		return Result{}, systemError(err, "the audit log cannot be opened")
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return Result{}, op.Fail(op.StateUnsafe, "the audit log is not a plain file")
	}
	return walk(f, head)
}

func walk(f io.Reader, head *Head) (Result, error) {
	in := bufio.NewReaderSize(f, maxLine)
	at := link{0, Genesis}
	var res Result
	for {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			rest, err := zeros(line, in)
			if err != nil {
				return res, systemError(err, "the audit log cannot be read")
			}
			if rest == 0 {
				return res.fault(at.seq+1, broken(at.seq+1, "is longer than any record")), nil
			}
			res.Torn = rest
			return res.end(at, head), nil
		case err == io.EOF:
			res.Torn = int64(len(line))
			return res.end(at, head), nil
		case err != nil:
			return res, systemError(err, "the audit log cannot be read")
		}
		next, _, fail, n := at.next(line[:len(line)-1])
		if fail != nil {
			rest, err := zeros(line, in)
			if err != nil {
				return res, systemError(err, "the audit log cannot be read")
			}
			if rest == 0 {
				return res.fault(n, fail), nil
			}
			res.Torn = rest
			return res.end(at, head), nil
		}
		at = next
		res.Records = at.seq
		if head != nil && at.seq == head.Seq && at.hash != head.Hash {
			return res.fault(at.seq, replaced(*head)), nil
		}
	}
}

// zeros reports how many bytes are left where the log ends in a line with zeros in it, a
// block that was never written, line included; 0 where another whole line follows.
func zeros(line []byte, in io.Reader) (int64, error) {
	if bytes.IndexByte(line, 0) < 0 {
		return 0, nil
	}
	total, buf := int64(len(line)), make([]byte, 32<<10)
	for {
		n, err := in.Read(buf)
		total += int64(n)
		if bytes.IndexByte(buf[:n], '\n') >= 0 {
			return 0, nil
		}
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// end compares the last place with the head.
func (r Result) end(at link, head *Head) Result {
	if head != nil && head.Seq > at.seq {
		return r.fault(at.seq+1, cutBefore(*head, at.seq))
	}
	return r
}

func (r Result) fault(n int64, e *op.Error) Result {
	r.At, r.Err, r.Records = n, e, min(r.Records, n-1)
	return r
}

func cutBefore(h Head, last int64) *op.Error {
	return broken(last+1, fmt.Sprintf("is missing: the log ends at record %d, the head kept elsewhere names record %d", last, h.Seq))
}

func replaced(h Head) *op.Error {
	return broken(h.Seq, "is not the one that the head kept elsewhere names")
}
