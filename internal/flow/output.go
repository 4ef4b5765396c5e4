package flow

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"holdpoint/op"
	"holdpoint/shellexec"
)

// MaxOutput is the longest piece of a program's output that one answer holds.
const MaxOutput = 1 << 20

// Piece is a part of a long output.
type Piece struct {
	Content       string `json:"content,omitempty"`
	ContentBase64 string `json:"content_base64,omitempty"` // where it is not UTF-8
	Offset        int64  `json:"offset"`
	Next          int64  `json:"next,omitempty"` // absent at the end
	Total         int64  `json:"total"`
}

// Shown is the piece as text; bytes that are none are replaced.
func (p Piece) Shown() string {
	if p.ContentBase64 == "" {
		return p.Content
	}
	b, err := base64.StdEncoding.DecodeString(p.ContentBase64)
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

// Output gives a piece of what a program prints, while it runs and afterwards; of one that
// ended long ago only what was too long for its answer. tail asks for the last bytes
// instead of an offset. An agent reads its own; people read all.
func (e *Engine) Output(_ context.Context, by op.Caller, id op.ID, stream string, offset, tail int64, limit int) (Piece, error) {
	if limit <= 0 || limit > MaxOutput {
		limit = MaxOutput
	}
	if r := e.procs.runs.find(id, by.Token, e.sees(by)); r != nil && stream != "typed" && stream != "changes" {
		return r.piece(stream, offset, tail, limit)
	}
	absent := op.Fail(op.NotFound, "no such output").Do("output that fits into its answer is not kept apart, and the rest not for ever")
	if !op.Label(string(id)) || stream != "stdout" && stream != "stderr" && stream != "typed" && stream != "changes" || offset < 0 {
		return Piece{}, absent
	}
	token := by.Token
	if by.Role.Includes(op.Observer) {
		token = ""
	}
	f, err := e.spill().Open(token, string(id)+"."+stream)
	if err != nil {
		return Piece{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Piece{}, op.Fail(op.IOError, "the output cannot be read").Because(err)
	}
	if tail > 0 {
		offset = max(0, info.Size()-tail)
	}
	b := make([]byte, limit)
	n, err := f.ReadAt(b, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return Piece{}, op.Fail(op.IOError, "the output cannot be read").Because(err)
	}
	return pieceOf(b[:n], offset, info.Size()), nil
}

func pieceOf(b []byte, offset, total int64) Piece {
	p := Piece{Offset: offset, Total: total}
	if end := offset + int64(len(b)); end < total {
		p.Next = end
	}
	if utf8.Valid(b) {
		p.Content = string(b)
	} else {
		p.ContentBase64 = base64.StdEncoding.EncodeToString(b)
	}
	return p
}

// piece reads from a run that is still known.
func (r *run) piece(stream string, offset, tail int64, limit int) (Piece, error) {
	if !slices.Contains(shellexec.Streams(), stream) {
		return Piece{}, op.Fail(op.BadRequest, "the streams are stdout and stderr").In("stream")
	}
	out := r.proc.Output
	if tail > 0 {
		_, _, total := out.Read(stream, 0, nil)
		offset = max(0, total-tail)
	}
	b := make([]byte, limit)
	n := 0
	var total int64
	for n < limit {
		at, k, now := out.Read(stream, offset+int64(n), b[n:])
		if total = now; n == 0 {
			offset = at
		} else if at != offset+int64(n) {
			break // some of it was lost in between
		}
		if n += k; k == 0 {
			break
		}
	}
	return pieceOf(b[:n], offset, total), nil
}

// whole gives an output for counting, at most as much as one answer could hold of its end.
func (e *Engine) whole(token op.ID, s shellexec.Stream) string {
	if s.File == "" {
		return string(s.Head) + string(s.Tail)
	}
	b, err := e.spill().Tail(token, s.File, s.Total, 16<<20)
	if err != nil {
		return string(s.Tail)
	}
	return string(b)
}

// dropOutput ends the files of long outputs that are kept no longer.
func (e *Engine) dropOutput() { e.spill().Prune(e.cfg.Now().Add(-keptOutput)) }

func (e *Engine) spill() shellexec.Spill {
	return shellexec.Spill{Dir: filepath.Join(e.jrn.Dir(), "output")}
}

const keptOutput = 7 * 24 * time.Hour
