package flow

import (
	"context"
	"encoding/base64"
	"time"
	"unicode/utf8"

	"holdpoint/op"
	"holdpoint/shellexec"
)

// Chunk is a part of what a run prints, as it comes.
type Chunk struct {
	Stream        string `json:"stream"`
	Offset        int64  `json:"offset"`
	Content       string `json:"content,omitempty"`
	ContentBase64 string `json:"content_base64,omitempty"` // where it is not UTF-8
	bytes         int64
}

// Bytes gives what was printed, as it was.
func (c Chunk) Bytes() []byte {
	if c.ContentBase64 == "" {
		return []byte(c.Content)
	}
	b, err := base64.StdEncoding.DecodeString(c.ContentBase64)
	if err != nil {
		return nil
	}
	return b
}

const (
	maxChunk = 32 << 10
	// gather lets what is printed in small pieces come together.
	gather = 10 * time.Millisecond
)

// Follow sends what a run prints, from the given offset of each stream on, and returns when
// nothing more comes: with the run as it ended. A row that a person has still to release is
// waited for; found is called when it runs. Who follows slowly holds up neither the program nor anybody else: what has
// not been sent is read back from where it is kept.
func (e *Engine) Follow(ctx context.Context, by op.Caller, id op.ID, at map[string]int64, found func(), send func(Chunk, map[string]int64) error) (RunView, error) {
	r, err := e.awaited(ctx, by, id)
	if err != nil {
		return RunView{}, err
	}
	found()
	from := map[string]int64{}
	for k, v := range at {
		from[k] = v
	}
	b := make([]byte, maxChunk)
	for {
		more, over := r.proc.Output.Changed()
		for _, stream := range shellexec.Streams() {
			for {
				pos, n, total := r.proc.Output.Read(stream, from[stream], b)
				whole := n
				if !over || pos+int64(n) < total {
					whole = complete(b[:n])
				}
				if whole == 0 {
					break
				}
				from[stream] = pos + int64(whole)
				if err := send(chunk(stream, pos, b[:whole]), from); err != nil {
					return r.view(), err
				}
				if ctx.Err() != nil {
					return r.view(), ctx.Err()
				}
			}
		}
		if over {
			<-r.proc.Done()
			e.settled(ctx, r)
			return r.view(), nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return r.view(), ctx.Err()
		}
		select {
		case <-time.After(gather):
		case <-ctx.Done():
			return r.view(), ctx.Err()
		}
	}
}

// complete is how much of b can be sent without cutting a character in two.
func complete(b []byte) int {
	for i := 1; i <= min(3, len(b)); i++ {
		if last := b[len(b)-i]; utf8.RuneStart(last) {
			if last >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-i:]) {
				return len(b) - i
			}
			break
		}
	}
	return len(b)
}

func chunk(stream string, at int64, b []byte) Chunk {
	c := Chunk{Stream: stream, Offset: at, bytes: int64(len(b))}
	if utf8.Valid(b) {
		c.Content = string(b)
	} else {
		c.ContentBase64 = base64.StdEncoding.EncodeToString(b)
	}
	return c
}

// awaited gives a run, or waits for the one that a row has still to become or that a call
// under way is about to start.
func (e *Engine) awaited(ctx context.Context, by op.Caller, id op.ID) (*run, error) {
	sees := e.sees(by)
	// A label of the caller's is known only from the call's start on.
	label := time.After(10 * time.Second)
	for {
		past := e.events.last()
		_, news, cancel := e.events.subscribe(past)
		end := e.events.nextEnd()
		if r := e.procs.runs.find(id, by.Token, sees); r != nil {
			cancel()
			return r, nil
		}
		row, err := e.queue.Mine(ctx, by, id)
		known := err == nil
		if known {
			if w := e.byKey(row.Root); w == nil || !mayUse(by, w) {
				known = false
			}
		}
		if known && row.State != "pending" && row.State != "approved" && row.State != "executing" || !known && len(id) > 2 && (id[:3] == "ap_" || len(id) > 3 && id[:4] == "run_") {
			cancel()
			return nil, noRun
		}
		select {
		case <-news:
		case <-end:
		case <-e.procs.running().Done(): // the daemon stops
			cancel()
			return nil, noRun
		case <-label:
			if !known {
				cancel()
				return nil, noRun
			}
		case <-ctx.Done():
			cancel()
			return nil, op.Fail(op.NotFound, "it has not started").Because(ctx.Err())
		}
		cancel()
	}
}
