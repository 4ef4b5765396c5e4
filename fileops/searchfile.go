package fileops

import (
	"bytes"
	"context"
	"unicode/utf8"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// Why a file was not searched.
const (
	skipBinary     = "binary"
	skipEncoding   = "encoding"
	skipTooLarge   = "too_large"
	skipUnreadable = "unreadable"
)

const (
	maxMemory  = 8 << 20 // bytes of a file that is searched in memory; a larger one in pieces of this size
	binaryHead = 8000    // bytes looked at for a NUL, as git does
	lineTail   = 16 << 10
)

// found is what one file gave.
type found struct {
	path  op.Path
	shown []Match
	count int64
	size  int   // bytes of text shown
	read  int64 // bytes of the file
	cut   bool
	skip  string
	done  bool // it was looked at to its end, or as far as it matters
}

// eye is what one worker needs to look into files, used again for each.
type eye struct {
	s    *searcher
	hunt *hunt
	buf  []byte
}

func (s *searcher) eye() *eye {
	e := &eye{s: s}
	if s.p.needles != nil {
		e.hunt = newHunt(s.p.needles)
	}
	return e
}

// file searches one file of a directory.
func (e *eye) file(ctx context.Context, d *rooted.Dir, path op.Path, name string, room int) (f found) {
	f = found{path: path, done: true}
	r, err := d.Open(name)
	if err != nil {
		switch op.AsError(err).Code {
		case op.NotFound, op.SymlinkRefused, op.SpecialFile:
			return f // it went away, or is another thing now
		}
		f.skip = skipUnreadable
		return f
	}
	defer r.Close()
	sc := scan{p: e.s.p, hunt: e.hunt, context: e.s.context, want: room, line: 1}
	if path == e.s.resume {
		sc.after = e.s.resumeLine
	}
	switch e.s.mode {
	case modeFiles:
		sc.stop, sc.want = 1, 0
	case modeCount:
		sc.want = 0
	default:
		sc.stop = int64(room)
	}
	switch {
	case r.Size <= maxMemory:
		f.skip, err = e.small(ctx, r, &sc)
	case e.s.p.many:
		f.skip = skipTooLarge
	default:
		f.skip, err = e.large(ctx, r, &sc)
	}
	if err != nil && f.skip == "" {
		f.skip = skipUnreadable
	}
	f.read = r.Size
	f.shown, f.count, f.size, f.cut, f.done = sc.shown, sc.count, sc.size, sc.cut, ctx.Err() == nil
	for i := range f.shown {
		f.shown[i].Path = path
	}
	return f
}

// small searches a file that is held in memory as a whole.
func (e *eye) small(ctx context.Context, r rooted.Reading, sc *scan) (skip string, err error) {
	need := int(r.Size) + 1
	if cap(e.buf) < need {
		e.buf = make([]byte, max(64<<10, need+need/4))
	}
	n, err := r.ReadAt(e.buf[:need], 0)
	if err != nil {
		return "", err
	}
	text, skip := readable(e.buf[:n])
	if skip != "" {
		return skip, nil
	}
	sc.piece(ctx, text, 0, len(text))
	return "", nil
}

// readable gives a file's text without its mark, in UTF-8 where it is UTF-16.
func readable(b []byte) (text []byte, skip string) {
	if len(b) >= 2 && (b[0] == 0xff && b[1] == 0xfe || b[0] == 0xfe && b[1] == 0xff) {
		t := split(b)
		if t.order == nil {
			return nil, skipBinary
		}
		s, ok := decode(t.body, t.order)
		if !ok {
			return nil, skipEncoding
		}
		return []byte(s), ""
	}
	if bytes.IndexByte(b[:min(len(b), binaryHead)], 0) >= 0 {
		return nil, skipBinary
	}
	return bytes.TrimPrefix(b, markUTF8), ""
}

// large searches a file in pieces that end after a line. Of a line that is longer than a
// piece it looks at overlapping parts.
func (e *eye) large(ctx context.Context, r rooted.Reading, sc *scan) (skip string, err error) {
	if cap(e.buf) < maxMemory+maxMemory/4 {
		e.buf = make([]byte, maxMemory+maxMemory/4)
	}
	sc.goesOn = true
	var off int64
	kept, from := 0, 0 // e.buf[:kept] is from the piece before; lines from from on are new
	for ctx.Err() == nil && !sc.over() {
		n, err := r.ReadAt(e.buf[kept:kept+maxMemory/2], off)
		if err != nil {
			return "", err
		}
		if off == 0 {
			if bytes.HasPrefix(e.buf[:n], markLE) || bytes.HasPrefix(e.buf[:n], markBE) {
				return skipTooLarge, nil // decoding would hold it as a whole
			}
			if bytes.IndexByte(e.buf[:min(n, binaryHead)], 0) >= 0 {
				return skipBinary, nil
			}
			if bytes.HasPrefix(e.buf[:n], markUTF8) {
				from = len(markUTF8)
			}
		}
		fresh, text := kept, e.buf[:kept+n]
		off += int64(n)
		last := n < maxMemory/2
		if sc.long > 0 { // within a long line: up to its end
			end := bytes.IndexByte(text[fresh:], '\n')
			if end < 0 && !last {
				sc.part(ctx, text, n)
				kept = copy(e.buf, text[tailOf(text):])
				continue
			}
			if end < 0 {
				end = n
			}
			sc.part(ctx, text[:fresh+end], end)
			sc.long, sc.hit, from = 0, false, min(fresh+end+1, len(text))
			sc.line++
		}
		to := len(text)
		if !last {
			// What is kept leaves room for as much again: lines of context that are too long
			// for that are not shown, and a line that is becomes one that is looked at in parts.
			if to = edge(text, from, sc.context); to <= from || len(text)-to > maxMemory/2 {
				to = max(from, bytes.LastIndexByte(text, '\n')+1)
			}
			if len(text)-to > maxMemory/2 {
				sc.piece(ctx, text, from, to)
				sc.part(ctx, text[to:], len(text)-to)
				kept, from = copy(e.buf, text[tailOf(text):]), 0
				continue
			}
		}
		sc.piece(ctx, text, from, to)
		if last {
			return "", nil
		}
		begin := back(text, to, sc.context)
		kept = copy(e.buf, text[begin:])
		from = to - begin
		if kept > maxMemory/2 {
			kept, from = kept-from, 0
			copy(e.buf, e.buf[to-begin:to-begin+kept])
		}
	}
	return "", nil
}

// tailOf gives where the part of a long line begins that is looked at once more.
func tailOf(text []byte) int {
	i := max(0, len(text)-lineTail)
	for i < len(text) && i > 0 && !utf8.RuneStart(text[i]) {
		i++
	}
	return i
}

// edge gives the end of the lines after which context more whole lines stand in text.
func edge(text []byte, from, context int) int {
	to := bytes.LastIndexByte(text, '\n') + 1
	for range context {
		if to <= from {
			break
		}
		to = bytes.LastIndexByte(text[:to-1], '\n') + 1
	}
	return to
}

// back gives the beginning of the context lines before to.
func back(text []byte, to, context int) int {
	for range context {
		if to == 0 {
			break
		}
		to = bytes.LastIndexByte(text[:to-1], '\n') + 1
	}
	return to
}
