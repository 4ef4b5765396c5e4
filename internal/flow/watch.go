package flow

import (
	"context"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"holdpoint/fileops"
	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// Changes tells what may have changed in a root since a cursor. It is a hint where to look:
// what is named may have been changed back, and nothing is ever called unchanged. Where
// LookAgain is set, more may have changed than is named: there was no cursor, or it is of
// an earlier watch, or the kernel lost events, or not all directories are watched.
type Changes struct {
	Root        string   `json:"root"`
	Cursor      string   `json:"cursor"`
	LookAgain   bool     `json:"look_again"`
	Why         string   `json:"why,omitempty"` // of look_again
	Code        op.Code  `json:"code,omitempty"`
	Paths       []string `json:"paths"`
	Count       int      `json:"count"`
	Directories int      `json:"directories"` // that are watched
}

const (
	// maxWatchedDirs bounds the watch of one root. A watch takes about 300 bytes here and
	// a kilobyte of the kernel's.
	maxWatchedDirs = 1 << 16
	// maxChanged bounds the paths that are remembered; beyond it whoever asks looks again.
	maxChanged = 10_000
	// tellTime lets a burst of changes become one event.
	tellTime = 150 * time.Millisecond
	// lingerTime is how long a watch outlives the last who asked.
	lingerTime = 10 * time.Minute
	// toldPaths is how many paths an event names.
	toldPaths = 20
)

// watching is the watch of one workspace. There is none until somebody asks, and none
// again when nobody has asked for a while.
type watching struct {
	mu      sync.Mutex // guards all below
	live    *liveWatch
	holders int
	timer   *time.Timer
	closed  bool
}

// hold gives the watch, made if there is none; release lets it go.
func (g *watching) hold(e *Engine, w *Workspace) (l *liveWatch, release func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, nil, op.Fail(op.NotReady, "the workspace is being closed")
	}
	if g.live == nil {
		if g.live, err = newLiveWatch(e, w); err != nil {
			return nil, nil, err
		}
	}
	if g.timer != nil {
		g.timer.Stop()
	}
	g.holders++
	return g.live, sync.OnceFunc(g.release), nil
}

func (g *watching) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.holders--; g.holders > 0 || g.closed {
		return
	}
	g.timer = time.AfterFunc(lingerTime, func() {
		g.mu.Lock()
		l := g.live
		if g.holders > 0 || g.closed {
			l = nil
		} else {
			g.live = nil
		}
		g.mu.Unlock()
		l.close()
	})
}

// close ends the watch for good and waits for it.
func (g *watching) close() {
	g.mu.Lock()
	l := g.live
	g.live, g.closed = nil, true
	if g.timer != nil {
		g.timer.Stop()
	}
	g.mu.Unlock()
	l.close()
}

// RootWatch is how the watch of a root stands.
type RootWatch struct {
	Directories int     `json:"directories"`
	Code        op.Code `json:"code,omitempty"` // why not all are watched
	Message     string  `json:"message,omitempty"`
}

// view tells how it stands; nil where nobody asked for a watch, or one just begins.
func (g *watching) view() *RootWatch {
	if !g.mu.TryLock() {
		return nil
	}
	l := g.live
	g.mu.Unlock()
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	v := &RootWatch{Directories: l.watch.Len()}
	if l.lack != nil {
		v.Code, v.Message = l.lack.Code, l.lack.Message+"; "+l.lack.Hint
	}
	return v
}

// liveWatch is a watch that runs.
type liveWatch struct {
	engine *Engine
	ws     *Workspace
	id     string // begins each cursor
	node   *rooted.Node
	below  *rooted.Below
	watch  *rooted.Watch
	ctx    context.Context
	stop   context.CancelFunc
	done   chan struct{}

	pump sync.Mutex // one at a time takes from the kernel, and enters new directories
	buf  []byte
	list []rooted.Hint

	mu    sync.Mutex // guards all below
	seq   int64      // of the last change
	paths map[string]int64
	lost  int64     // a cursor before this one knows nothing
	lack  *op.Error // why not all directories are watched
	told  int64     // seq that was published last
	next  chan struct{}
}

func newLiveWatch(e *Engine, w *Workspace) (made *liveWatch, err error) {
	l := &liveWatch{engine: e, ws: w, id: string(e.jrn.NewID("w")), done: make(chan struct{}), buf: make([]byte, 64<<10), paths: map[string]int64{}, next: make(chan struct{})}
	l.ctx, l.stop = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			l.shut()
		}
	}()
	if l.node, err = w.Root.Look(l.ctx, ".", false); err != nil {
		return nil, err
	}
	if l.below, err = l.node.Below(); err != nil {
		return nil, err
	}
	if l.watch, err = l.below.Watch(maxWatchedDirs); err != nil {
		return nil, watchFailed(err)
	}
	l.enter(".")
	go l.run()
	return l, nil
}

// watchFailed words why directories are not watched.
func watchFailed(err error) *op.Error {
	what, hint := "a directory cannot be watched", "look at the files themselves; nothing rests on a watch"
	if errors.Is(err, rooted.ErrWatched) {
		what = strconv.Itoa(maxWatchedDirs) + " directories are watched, and no more are"
	} else if setting := rooted.WatchLimit(err); setting != "" {
		what, hint = "the kernel gives this user no more watches", "raise "+setting+"; "+hint
	}
	return op.Fail(op.WatchLimit, what).Do(hint).Because(err)
}

// shut gives back what it holds.
func (l *liveWatch) shut() {
	l.stop()
	if l.watch != nil {
		l.watch.Close()
	}
	if l.below != nil {
		l.below.Close()
	}
	if l.node != nil {
		l.node.Close()
	}
}

// close ends the watch and waits for it; of nil it does nothing.
func (l *liveWatch) close() {
	if l == nil {
		return
	}
	l.stop()
	l.watch.Close()
	<-l.done
	l.pump.Lock()
	defer l.pump.Unlock()
	l.shut()
}

// enter watches a directory and all below it that git does not ignore, and the directory
// of git's own at the top, where the index and HEAD change. The caller holds pump, or is
// the first.
func (l *liveWatch) enter(at op.Path) {
	add := func(rel string, d *rooted.Dir) {
		err := l.watch.Add(rel, d)
		if err == nil || l.ctx.Err() != nil {
			return
		}
		l.mu.Lock()
		l.lack = watchFailed(err)
		l.mu.Unlock()
	}
	err := fileops.Directories(l.ctx, l.ws.Root, at, l.ws.excludes, IgnoreRules(), add, nil)
	if at == "." {
		if d, err := l.below.Dir(".git"); err == nil {
			add(".git", d)
			d.Close()
		}
	}
	// What went away before it could be entered is told by its parent.
	if code := op.AsError(err); err != nil && l.ctx.Err() == nil && code.Code != op.NotFound && code.Code != op.NotADirectory {
		l.mu.Lock()
		l.lack = code
		l.mu.Unlock()
	}
}

// run takes from the kernel until the end, and tells of it.
func (l *liveWatch) run() {
	defer close(l.done)
	for l.watch.Wait() == nil {
		select {
		case <-time.After(tellTime):
		case <-l.ctx.Done():
			return
		}
		if l.take() != nil {
			return
		}
		l.tell()
	}
}

// take notes all that the kernel has to say so far.
func (l *liveWatch) take() error {
	l.pump.Lock()
	defer l.pump.Unlock()
	var err error
	if l.list, err = l.watch.Take(l.buf, l.list[:0]); err != nil {
		return err
	}
	again := false
	for _, h := range l.list {
		again = l.note(h) || again
	}
	if again {
		l.anew()
	}
	return nil
}

// note remembers one hint and follows what came and went; true asks for a new beginning.
func (l *liveWatch) note(h rooted.Hint) (again bool) {
	if h.Lost || h.Gone && h.Dir == "" && h.Name == "" {
		return true
	}
	p := path.Join(h.Dir, h.Name)
	if h.Dir == ".git" || p == "" {
		p = first(h.Dir, ".")
	}
	if h.Tree && h.Name != "" && h.Dir != ".git" {
		if h.Gone {
			l.watch.Drop(p)
		}
		if h.Came {
			l.enter(op.Path(p))
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	l.paths[p] = l.seq
	if len(l.paths) > maxChanged {
		clear(l.paths)
		l.lost = l.seq
	}
	// Other rules let a walk into other directories.
	return h.Name == ".gitignore" || h.Name == ".git" && h.Came
}

func first(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}

// anew watches everything from the beginning; whoever asks looks again. What changed while
// nothing was watched lies before the mark that is set at the end.
func (l *liveWatch) anew() {
	l.mu.Lock()
	l.lack = nil
	l.mu.Unlock()
	l.watch.Drop("")
	l.enter(".")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	l.lost = l.seq
	clear(l.paths)
}

// tell publishes what is new and wakes who waits.
func (l *liveWatch) tell() {
	l.mu.Lock()
	if l.seq == l.told {
		l.mu.Unlock()
		return
	}
	c := l.since(l.told)
	l.told = l.seq
	close(l.next)
	l.next = make(chan struct{})
	l.mu.Unlock()
	l.engine.events.pass(c.event(l.engine.cfg.Now().UTC()))
}

func (c Changes) event(now time.Time) Event {
	data := map[string]any{"cursor": c.Cursor, "look_again": c.LookAgain, "paths": c.Paths[:min(len(c.Paths), toldPaths)], "count": c.Count}
	if c.Code != "" {
		data["code"] = c.Code
	}
	return Event{Type: WorkspaceChanged, Time: now, Root: c.Root, Data: data}
}

// WorkspaceChanged is the event that tells of changes to who asked for a watch.
const WorkspaceChanged = "workspace.changed"

// since gives what came after a number; the caller holds mu.
func (l *liveWatch) since(seq int64) Changes {
	c := Changes{Root: l.ws.Key, Cursor: l.id + "." + strconv.FormatInt(l.seq, 10), Paths: []string{}, Directories: l.watch.Len()}
	switch {
	case seq < l.lost:
		c.LookAgain, c.Why = true, "more changed than could be followed"
	case l.lack != nil:
		c.LookAgain, c.Why, c.Code = true, l.lack.Message+"; "+l.lack.Hint, l.lack.Code
	}
	for p, n := range l.paths {
		if n > seq {
			c.Paths = append(c.Paths, op.Escape(p))
		}
	}
	slices.Sort(c.Paths)
	c.Count = len(c.Paths)
	return c
}

// after answers a cursor, and waits up to wait while there is nothing to tell.
func (l *liveWatch) after(ctx context.Context, cursor string, wait time.Duration) (Changes, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		if err := l.take(); err != nil {
			return Changes{}, op.Fail(op.NotReady, "the watch ended").Do("ask again").Because(err)
		}
		l.tell() // what was taken here is no longer there for run
		l.mu.Lock()
		c := l.from(cursor)
		next := l.next
		l.mu.Unlock()
		// That not all is watched does not change by asking again at once.
		if c.Count > 0 || c.LookAgain && c.Code == "" || wait <= 0 {
			return c, nil
		}
		select {
		case <-next:
		case <-timer.C:
			wait = 0
		case <-ctx.Done():
			return Changes{}, op.Fail(op.Cancelled, "nobody waits any longer").Because(ctx.Err())
		case <-l.ctx.Done():
			return Changes{}, op.Fail(op.NotReady, "the watch ended").Do("ask again")
		}
	}
}

// from reads a cursor; the caller holds mu.
func (l *liveWatch) from(cursor string) Changes {
	id, number, _ := strings.Cut(cursor, ".")
	seq, err := strconv.ParseInt(number, 10, 64)
	if err == nil && id == l.id && seq >= 0 && seq <= l.seq {
		return l.since(seq)
	}
	c := l.since(l.seq)
	c.LookAgain, c.Why = true, first(c.Why, "this is the first look: the cursor counts from here")
	if cursor != "" {
		c.Why = "the cursor is of a watch that ended"
	}
	return c
}

// Changes answers a cursor of an earlier answer; an empty one begins. It waits up to wait
// while there is nothing to tell. A watch is a read: an agent has one where it may read.
func (e *Engine) Changes(ctx context.Context, by op.Caller, root, cursor string, wait time.Duration) (Changes, error) {
	l, release, err := e.watchFor(ctx, by, root)
	if err != nil {
		return Changes{}, err
	}
	defer release()
	return l.after(ctx, cursor, wait)
}

// WatchRoot keeps a root watched until release, so that its changes come as events. It
// gives the key of the root and what an event would say now.
func (e *Engine) WatchRoot(ctx context.Context, by op.Caller, root string) (key string, now Event, release func(), err error) {
	l, release, err := e.watchFor(ctx, by, root)
	if err != nil {
		return "", Event{}, nil, err
	}
	c, err := l.after(ctx, "", 0)
	if err != nil {
		release()
		return "", Event{}, nil, err
	}
	now = c.event(e.cfg.Now().UTC())
	now.Seq = e.events.last()
	return l.ws.Key, now, release, nil
}

func (e *Engine) watchFor(ctx context.Context, by op.Caller, root string) (*liveWatch, func(), error) {
	w, err := e.workspace(by, root)
	if err != nil {
		return nil, nil, err
	}
	if by.Role == op.Agent {
		look := e.Preflight(ctx, by, op.Request{Op: op.ListDirectory, Root: w.Key, Args: op.Object{}}, nil)
		switch {
		case look.Error != nil:
			return nil, nil, look.Error
		case look.Decision == nil || look.Decision.Verdict == op.Refuse:
			return nil, nil, op.Fail(op.OperationDisabled, "reading is switched off for this caller, and a watch is a reading").Do("ask the operator")
		case look.Decision.Verdict == op.Review:
			return nil, nil, op.Fail(op.Forbidden, "readings wait for a person in this mode, and a watch cannot").Do("read the files that matter, each by a call")
		}
	}
	return w.watching.hold(e, w)
}
