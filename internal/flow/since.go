package flow

import (
	"container/list"
	"context"
	"errors"
	"io"
	"strings"
	"sync"

	"holdpoint/fileops"
	"holdpoint/internal/journal"
	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// What an agent asks when its hash no longer holds: what changed, and does my change still
// apply? The first needs the bytes that it pinned. They are held when they were shown to
// this token not long ago, when an operation displaced them into the store, or when one
// made them from bytes in the store; else the answer says that they are not.

const (
	// maxSince bounds the diff in an answer, in bytes.
	maxSince = 4 << 10
	// maxCompared bounds what is read for one.
	maxCompared = 1 << 20
	// maxOlder is how many operations on the path are looked through for the bytes.
	maxOlder = 50
)

// since adds to an answer that something changed what did. A call was held to the pins, if
// there are any, else to its own arguments.
func (e *Engine) since(ctx context.Context, c *call, pins []op.Pin, r op.Reply) op.Reply {
	why := r.Error
	if why == nil || c.ws == nil || ctx.Err() != nil || !errors.Is(why, op.Stale) && !errors.Is(why, op.UndoConflict) || why.Path == "" {
		return r
	}
	if pins == nil && c.req.Pins != "" {
		pins, _ = e.sealer.Open(c.ws.Key, c.req.Pins)
	}
	expected, _ := c.req.Args["expected_hash"].(string)
	want, known := c.pinnedAt(why.Path, op.Digest(strings.TrimSuffix(expected, "+partial")), pins)
	if !known {
		return r
	}
	told := *why
	r.Error = &told
	told.Diff, told.NoDiff = e.sinceThen(ctx, c, why.Path, want)
	if expected != "" && !c.released {
		again := c.req
		again.Args, again.Pins, again.RequestID = op.Object{}, "", ""
		for k, v := range c.req.Args {
			if k != "expected_hash" {
				again.Args[k] = v
			}
		}
		applies := e.Preflight(ctx, c.by, again, nil).Error == nil
		told.StillApplies = &applies
	}
	return r
}

// pinnedAt gives the hash that a call stood on at a path; of an undo it is what the
// operation left.
func (c *call) pinnedAt(p op.Path, expected op.Digest, pins []op.Pin) (op.Digest, bool) {
	if c.undoes != nil {
		for i := len(c.undoes.Steps) - 1; i >= 0; i-- {
			if s := c.undoes.Steps[i]; s.Path == p && s.After.Kind == op.File {
				return s.After.Hash, true
			}
		}
		return "", false
	}
	for _, pin := range pins {
		if pin.Path == p && pin.Kind == op.File && pin.Hash != "" {
			return pin.Hash, true
		}
	}
	return expected, expected != ""
}

// sinceThen gives the smallest diff from the pinned bytes of a path to what is there now,
// or why there is none.
func (e *Engine) sinceThen(ctx context.Context, c *call, p op.Path, want op.Digest) (diff, why string) {
	if view, _ := op.Lookup(op.ViewFile); !view.Allowed(c.profile) && !c.released {
		return "", "reading is switched off for this token"
	}
	n, err := c.ws.Root.Look(ctx, p, false)
	if err != nil {
		return "", "what is there now cannot be read"
	}
	defer n.Close()
	var now []byte
	switch {
	case n.Info.Kind == op.Absent:
	case n.Info.Kind != op.File:
		return "", "no file stands there now"
	case n.Info.Size > maxCompared:
		return "", "the file is too large to be compared"
	default:
		if now, err = n.Read(maxCompared); err != nil {
			return "", "what is there now cannot be read"
		}
	}
	if guarded, _ := c.ws.Protected(p, false); guarded != "" || c.ws.Sensitive(p, now) {
		return "", "the path is protected or looks like a secret"
	}
	then, held := e.served.get(servedKey{c.by.Token, c.ws.Key, p, want})
	if !held {
		then, held = e.older(ctx, c.ws, p, want)
	}
	if !held {
		return "", "the pinned bytes are no longer held here"
	}
	if c.ws.Sensitive(p, then) {
		return "", "the path is protected or looks like a secret"
	}
	d := fileops.Compare(fileops.Side{Path: p, Bytes: then, Exists: true}, fileops.Side{Path: p, Bytes: now, Exists: n.Info.Kind == op.File}, 1)
	if len(d.Text) <= maxSince {
		return d.Text, ""
	}
	cut := strings.LastIndexByte(d.Text[:maxSince], '\n') + 1
	return d.Text[:cut], "the rest of the diff is not shown"
}

// older finds bytes of a path by their hash among what operations displaced, or makes them
// again from what one displaced and its diff.
func (e *Engine) older(ctx context.Context, w *Workspace, p op.Path, want op.Digest) ([]byte, bool) {
	ops, err := e.jrn.Operations(ctx, journal.Filter{Root: w.Key, Path: string(p), State: journal.Committed, Limit: maxOlder})
	if err != nil {
		return nil, false
	}
	for _, o := range ops {
		for _, s := range o.Steps {
			if s.Path != p {
				continue
			}
			if s.Before.Kind == op.File && s.Before.Hash == want && s.Slot != "" {
				if b, ok := keptBytes(w.Store, s.Slot, want); ok {
					return b, true
				}
			}
			if s.After.Kind != op.File || s.After.Hash != want {
				continue
			}
			var before []byte
			if s.Before.Kind == op.File {
				var ok bool
				if before, ok = keptBytes(w.Store, s.Slot, s.Before.Hash); !ok {
					continue
				}
			}
			whole, err := e.jrn.Operation(ctx, o.ID) // with its diff
			if err != nil {
				continue
			}
			if b, ok := fileops.After(p, before, whole.Diff, want); ok {
				return b, true
			}
		}
	}
	return nil, false
}

// keptBytes reads a slot of the store, if it still holds what it should.
func keptBytes(s *rooted.Store, slot string, want op.Digest) ([]byte, bool) {
	f, err := s.Open(slot)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxCompared+1))
	return b, err == nil && len(b) <= maxCompared && rooted.HashBytes(b) == want
}

// served keeps what files held when they were shown, for as long as there is room.
type served struct {
	mu    sync.Mutex // guards what follows
	bytes int
	order list.List // of *servedFile, the last shown in front
	at    map[servedKey]*list.Element
}

type servedKey struct {
	token op.ID
	root  string
	path  op.Path
	hash  op.Digest
}

type servedFile struct {
	key  servedKey
	body []byte
}

const (
	maxServed     = 16 << 20  // of all files, in bytes
	maxServedFile = 256 << 10 // of one
)

// put keeps the bytes of a file, which nobody changes any more.
func (s *served) put(k servedKey, body []byte) {
	if len(body) > maxServedFile {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if el := s.at[k]; el != nil {
		s.order.MoveToFront(el)
		return
	}
	if s.at == nil {
		s.at = map[servedKey]*list.Element{}
	}
	s.at[k] = s.order.PushFront(&servedFile{k, body})
	s.bytes += cap(body)
	drop := s.order.Remove // of the list, and no file
	for s.bytes > maxServed {
		last := drop(s.order.Back()).(*servedFile)
		delete(s.at, last.key)
		s.bytes -= cap(last.body)
	}
}

func (s *served) get(k servedKey) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if el := s.at[k]; el != nil {
		return el.Value.(*servedFile).body, true
	}
	return nil, false
}

// showed takes note of what a view showed to whom.
func (e *Engine) showed(c *call) {
	if c.req.Op != op.ViewFile || len(c.sight.Contents) == 0 || c.sight.Contents[0] == nil {
		return
	}
	t := c.facts.Targets[0]
	e.served.put(servedKey{c.by.Token, c.ws.Key, t.Path, t.Hash}, c.sight.Contents[0])
}
