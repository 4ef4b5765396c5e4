package mcp

import (
	"context"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holdpoint/op"
)

// Changes is what may have changed in a root since a cursor; see the engine's.
type Changes struct {
	Cursor    string
	LookAgain bool // more than is named
	Paths     []string
}

// feed follows one root for the sessions of one offer that subscribed to its files. There
// is one as long as somebody is subscribed.
type feed struct {
	dir  string
	root string
	who  map[*sdk.ServerSession]*follower
	stop context.CancelFunc
}

// follower is one session of a feed.
type follower struct {
	ses  *session
	uris map[string]string // to the path that each names
}

// feedWait is how long a feed waits for news before it looks whether its sessions may
// still have them.
const feedWait = 20 * time.Second

// subscribe follows a file, or all below a directory, for one session.
func (s *Server) subscribe(o *offer) func(context.Context, *sdk.SubscribeRequest) error {
	return func(ctx context.Context, req *sdk.SubscribeRequest) error {
		ses := sessionOf(req)
		if ses == nil {
			ses, _ = ctx.Value(askedBy{}).(*session)
		}
		c, dir, err := s.placeOf(ctx, ses)
		if err != nil {
			return err
		}
		at, err := pathOf(dir, req.Params.URI)
		if err != nil {
			return err
		}
		// Asked by each, so that each is told whether they may.
		now, err := s.engine.Changes(ctx, c.by, c.root, "", 0)
		if err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ctx.Err() != nil {
			return op.Fail(op.NotReady, "the daemon is stopping")
		}
		f := o.feeds[dir]
		if f == nil {
			f = &feed{dir: dir, root: c.root, who: map[*sdk.ServerSession]*follower{}}
			o.feeds[dir] = f
			var within context.Context
			within, f.stop = context.WithCancel(s.ctx)
			s.done.Go(func() { s.feed(within, o, f, now.Cursor) })
		}
		w := f.who[req.Session]
		if w == nil {
			w = &follower{ses: ses, uris: map[string]string{}}
			f.who[req.Session] = w
			go func() { // ends with the session, which ends with the connection or the daemon
				req.Session.Wait()
				s.leave(o, req.Session, "")
			}()
		}
		w.uris[req.Params.URI] = at
		return nil
	}
}

func (s *Server) unsubscribe(o *offer) func(context.Context, *sdk.UnsubscribeRequest) error {
	return func(_ context.Context, req *sdk.UnsubscribeRequest) error {
		s.leave(o, req.Session, req.Params.URI)
		return nil
	}
}

// leave ends one subscription of a session, with an empty address all of them.
func (s *Server) leave(o *offer, session *sdk.ServerSession, uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for dir, f := range o.feeds {
		w := f.who[session]
		if w == nil {
			continue
		}
		if delete(w.uris, uri); uri == "" || len(w.uris) == 0 {
			delete(f.who, session)
		}
		if len(f.who) == 0 {
			f.stop()
			delete(o.feeds, dir)
		}
	}
}

// feed tells of changes until nobody is subscribed.
func (s *Server) feed(ctx context.Context, o *offer, f *feed, cursor string) {
	defer f.stop()
	for ctx.Err() == nil {
		c := s.entitled(ctx, o, f)
		if c == nil {
			return
		}
		now, err := s.engine.Changes(ctx, c.by, f.root, cursor, feedWait)
		if err != nil {
			// What is not known is told as changed.
			now = Changes{LookAgain: true}
			select {
			case <-ctx.Done():
				return
			case <-time.After(feedWait):
			}
		}
		cursor = now.Cursor
		for _, uri := range s.touched(f, now) {
			o.sdk.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: uri})
		}
	}
}

// entitled ends the sessions of a feed that may no longer read, and gives one that may; nil
// when there is none.
func (s *Server) entitled(ctx context.Context, o *offer, f *feed) (one *caller) {
	s.mu.Lock()
	members := map[*sdk.ServerSession]*session{}
	for m, w := range f.who {
		members[m] = w.ses
	}
	s.mu.Unlock()
	for m, ses := range members {
		c, err := s.caller(ctx, ses)
		if err == nil {
			_, err = s.engine.Changes(ctx, c.by, f.root, "", 0)
		}
		if err != nil && ctx.Err() == nil {
			s.leave(o, m, "")
			m.Close()
			continue
		}
		one = c
	}
	return one
}

// touched lists the addresses that changes concern.
func (s *Server) touched(f *feed, now Changes) (uris []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[string]bool{}
	for _, w := range f.who {
		for uri, at := range w.uris {
			if !seen[uri] && (now.LookAgain || concerns(now.Paths, at)) {
				seen[uri] = true
				uris = append(uris, uri)
			}
		}
	}
	return uris
}

// concerns reports whether one of the paths is at, lies below it, or is a directory above:
// a directory that changed stands for all that it holds.
func concerns(paths []string, at string) bool {
	at, err := op.Unescape(at)
	if err != nil {
		return true
	}
	for _, wire := range paths {
		p, err := op.Unescape(wire)
		if err != nil || at == "." || p == "." || p == at || strings.HasPrefix(p, at+"/") || strings.HasPrefix(at, p+"/") {
			return true
		}
	}
	return false
}
