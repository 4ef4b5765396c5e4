package flow

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"path/filepath"
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

// Output gives a piece of what a program printed, when that was too long for its answer.
// An agent reads its own; people read all.
func (e *Engine) Output(_ context.Context, by op.Caller, id op.ID, stream string, offset int64, limit int) (Piece, error) {
	absent := op.Fail(op.NotFound, "no such output").Do("output that fits into its answer is not kept apart, and the rest not for ever")
	if !op.Label(string(id)) || stream != "stdout" && stream != "stderr" || offset < 0 {
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
	if limit <= 0 || limit > MaxOutput {
		limit = MaxOutput
	}
	b := make([]byte, limit)
	n, err := f.ReadAt(b, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return Piece{}, op.Fail(op.IOError, "the output cannot be read").Because(err)
	}
	p := Piece{Offset: offset, Total: info.Size()}
	if end := offset + int64(n); end < p.Total {
		p.Next = end
	}
	if utf8.Valid(b[:n]) {
		p.Content = string(b[:n])
	} else {
		p.ContentBase64 = base64.StdEncoding.EncodeToString(b[:n])
	}
	return p, nil
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
