package fileops

import (
	"unicode/utf8"

	"holdpoint/op"
)

// Source is what a view reads from; a large file is never loaded as a whole. ReadAt
// gives n bytes, fewer only at the end of the file.
type Source interface {
	Size() int64
	ReadAt(off int64, n int) ([]byte, error)
}

// Why a view shows less than was asked for, or less than the file: View.Truncated.
const (
	cutPreview = "preview"       // no range was asked for and the file is large
	cutLines   = "lines"         // maxViewLines
	cutBytes   = "bytes"         // the byte limit
	cutLine    = "line_too_long" // a line is longer than maxLine
)

const (
	maxWhole     = 256 << 10 // bytes of a file shown without a range, and of a byte window without limit
	maxWindow    = 1 << 20   // bytes of a window of lines
	maxViewLines = 10_000    // lines of one view
	maxLine      = 64 << 10  // bytes of a line
	maxCounted   = 64 << 20  // bytes of a file whose lines are counted for a byte window
)

// View is a part of a file. Content is its bytes as they stand, a mark included.
type View struct {
	Content    []byte
	StartLine  int64 // of the first byte shown, from 1; 0: unknown
	EndLine    int64 // of the last byte shown; less than StartLine when nothing is
	TotalLines int64 // -1: not counted, of a huge file in bytes
	Offset     int64 // of the first byte shown
	Next       int64 // where to go on, as the argument that NextArg names
	NextArg    string
	EOF        bool   // the last byte of the file is shown, or the range lies behind it
	Truncated  string // preview, lines, bytes, line_too_long, or empty
	Encoding   string // of the file, judged by its beginning

	order byteOrder
	mark  int
}

// Text gives the content as it may stand in a JSON string, without the mark. It is not
// ok, and the bytes must travel as base64, when it would not stand for exactly them.
func (v View) Text() (string, bool) {
	b := v.Content
	if v.Offset < int64(v.mark) {
		b = b[min(len(b), v.mark-int(v.Offset)):]
	}
	return decode(b, v.order)
}

// Whole reports whether the view shows every byte of the file.
func (v View) Whole() bool { return v.EOF && v.Offset == 0 && v.Truncated == "" }

// Window shows a part of a file. There are four ways to ask, which exclude each other:
// start_line and end_line, offset and limit in bytes, tail_lines, or nothing, which
// shows all of a file up to 256 KiB and 10,000 lines and the beginning of a larger one.
//
// A window of bytes begins and ends between characters: an offset inside one moves back
// to its first byte, a limit inside one excludes it, unless nothing would be left, when
// it is shown whole. A window of lines ends after a line, but for one longer than 64 KiB,
// which is cut and gone on with by offset. A range behind the end is empty and at the end.
func Window(src Source, a op.ViewArgs) (View, error) {
	byLine := a.StartLine != nil || a.EndLine != nil
	byByte := a.Offset != nil || a.Limit != nil
	tail := a.TailLines != nil
	start, end := op.Or(a.StartLine, 1), op.Or(a.EndLine, 0)
	switch {
	case byLine && byByte, byLine && tail, byByte && tail:
		return View{}, op.Fail(op.BadRequest, "a view is by lines, by bytes or from the end, not several of them").In("args").
			Do("give start_line and end_line, or offset and limit, or tail_lines")
	case start < 1 || a.EndLine != nil && end < start:
		return View{}, op.Fail(op.BadRequest, "end_line lies before start_line").In("args.end_line")
	case op.Or(a.Offset, 0) < 0 || op.Or(a.Limit, 1) < 1 || op.Or(a.TailLines, 1) < 1:
		return View{}, op.Fail(op.BadRequest, "offset must not be negative, limit and tail_lines must be at least 1").In("args")
	}
	s, err := survey(src, byByte && src.Size() > maxCounted)
	if err != nil {
		return View{}, err
	}
	switch {
	case byByte:
		return s.bytes(op.Or(a.Offset, 0), op.Or(a.Limit, maxWhole))
	case tail:
		return s.lines(max(1, s.total-*a.TailLines+1), 0, maxWindow)
	case byLine:
		return s.lines(start, end, maxWindow)
	}
	v, err := s.lines(1, 0, maxWhole)
	if v.Truncated == cutLines || v.Truncated == cutBytes {
		v.Truncated = cutPreview
	}
	return v, err
}

// lines shows lines start to end, end 0 meaning the last, as far as limit allows. The
// limit is larger than maxLine, so that each window holds at least one line.
func (s *surveyed) lines(start, end int64, limit int) (View, error) {
	v := s.view()
	v.StartLine, v.EndLine = start, start-1
	off, err := s.lineStart(start)
	if err != nil {
		return View{}, err
	}
	v.Offset = off
	if off >= s.size {
		v.EOF = true
		return v, nil
	}
	buf, err := s.read(off, limit+utf8.UTFMax)
	if err != nil {
		return View{}, err
	}
	pos, atEnd := 0, off+int64(len(buf)) == s.size
	for line := start; ; line++ {
		switch {
		case atEnd && pos == len(buf):
			v.EOF = true
		case end > 0 && line > end:
			v.Next, v.NextArg = line, "start_line"
		case line-start == maxViewLines:
			v.Next, v.NextArg, v.Truncated = line, "start_line", cutLines
		default:
			n := s.lineLength(buf[pos:])
			if n > maxLine+2 { // its ending does not count
				n = s.cut(buf[pos:], maxLine)
				v.Next, v.NextArg, v.Truncated = off+int64(pos+n), "offset", cutLine
			} else if pos+n > limit || pos+n == len(buf) && !atEnd {
				v.Next, v.NextArg, v.Truncated = line, "start_line", cutBytes
				break
			}
			pos, v.EndLine = pos+n, min(line, s.total) // a mark alone is no line
			if v.Next == 0 {
				continue
			}
		}
		v.Content = buf[:pos:pos]
		return v, nil
	}
}

// bytes shows limit bytes from off, fewer or more by what characters need.
func (s *surveyed) bytes(off, limit int64) (View, error) {
	v := s.view()
	v.Offset = min(off, s.size)
	if off >= s.size {
		v.EOF = true
		if s.total >= 0 {
			v.StartLine, v.EndLine = s.total+1, s.total
		}
		return v, nil
	}
	before := min(off, utf8.UTFMax-1)
	if s.order != nil {
		before = min(off, 2+off%2)
	}
	buf, err := s.read(off-before, int(before+limit)+utf8.UTFMax)
	if err != nil {
		return View{}, err
	}
	from := s.cut(buf, int(before))
	v.Offset = off - before + int64(from)
	buf = buf[from:]
	n := min(int(limit), len(buf))
	if c := s.cut(buf, n); c > 0 {
		n = c
	} else {
		n = s.charLength(buf)
	}
	v.Content = buf[:n:n]
	if v.Next = v.Offset + int64(n); v.Next == s.size {
		v.Next, v.EOF = 0, true
	} else {
		v.NextArg, v.Truncated = "offset", cutBytes
	}
	if s.total >= 0 {
		err = s.number(&v)
	}
	return v, err
}
