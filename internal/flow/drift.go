package flow

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"holdpoint/internal/journal"
	"holdpoint/internal/rooted"
	"holdpoint/op"
	"holdpoint/preflight"
)

// drift marks pending cards whose facts no longer hold, so that a person does not read
// what is out of date. It is a courtesy: the kernel may lose events, a change deep below a
// directory is not watched, and whoever opens a card has it looked at anew. What is
// approved is held to its pins in any case.
type drift struct {
	mu      sync.Mutex // guards all below
	watcher *fsnotify.Watcher
	closed  bool
	rows    map[op.ID][]string        // the absolute paths of each pending card
	dirs    map[string]map[op.ID]bool // who needs a watched directory
	marks   map[op.ID]string          // what drifted, in words
	due     map[op.ID]bool            // to be looked at anew
	missed  map[op.ID]bool            // cards that are watched in part or not at all
	lack    *op.Error                 // why the last of them is not; nil while missed is empty
	wake    chan struct{}
	done    chan struct{}
	stop    context.CancelFunc
}

const (
	// maxWatched bounds the directories that are watched; cards beyond it are not marked
	// until they are opened.
	maxWatched = 4096
	// settleTime lets a burst of writes end before a card is looked at anew.
	settleTime = 150 * time.Millisecond
)

// watch follows the paths of a pending row. The watcher is made for the first.
func (d *drift) watch(e *Engine, row journal.Approval) {
	w := e.byKey(row.Root)
	if w == nil || row.State != journal.Pending {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.rows[row.ID] != nil || !d.open(e, row.ID) {
		return
	}
	delete(d.missed, row.ID)
	for _, p := range row.Pins {
		at := filepath.Join(w.Root.Dir(), filepath.FromSlash(string(p.Path)))
		d.rows[row.ID] = append(d.rows[row.ID], at)
		d.follow(filepath.Dir(at), row.ID)
		if p.Kind == op.Directory && p.Hash != "" {
			d.follow(at, row.ID)
		}
	}
}

// lacks says why some cards are not watched; nil when all are.
func (d *drift) lacks() *op.Error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.missed) == 0 {
		return nil
	}
	return d.lack
}

// miss notes that a card is not watched; the caller holds mu.
func (d *drift) miss(id op.ID, why error) {
	if d.missed == nil {
		d.missed = map[op.ID]bool{}
	}
	d.missed[id] = true
	d.lack = watchLimit(why)
}

// watchLimit words the failure of a watch.
func watchLimit(err error) *op.Error {
	what, hint := "the directory cannot be watched", "cards are looked at when they are opened, and what is approved is held to its pins all the same"
	if err == nil {
		what = fmt.Sprintf("%d directories are watched, and no more are", maxWatched)
	} else if setting := rooted.WatchLimit(err); setting != "" {
		what, hint = "the kernel gives this user no more watches", "raise "+setting+"; "+hint
	}
	return op.Fail(op.WatchLimit, what).Do(hint).Because(err)
}

// follow watches one directory for one row; the caller holds mu.
func (d *drift) follow(dir string, id op.ID) {
	if d.dirs[dir] == nil {
		if len(d.dirs) >= maxWatched {
			d.miss(id, nil)
			return
		}
		if err := d.watcher.Add(dir); err != nil {
			if !errors.Is(err, fs.ErrNotExist) { // what is to be made has no directory yet
				d.miss(id, err)
			}
			return
		}
		d.dirs[dir] = map[op.ID]bool{}
	}
	d.dirs[dir][id] = true
}

// open makes the watcher and its goroutine for the first card; the caller holds mu.
func (d *drift) open(e *Engine, id op.ID) bool {
	if d.watcher != nil {
		return true
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		d.miss(id, err)
		return false
	}
	d.watcher, d.wake, d.done = w, make(chan struct{}, 1), make(chan struct{})
	d.rows, d.dirs, d.marks, d.due = map[op.ID][]string{}, map[string]map[op.ID]bool{}, map[op.ID]string{}, map[op.ID]bool{}
	ctx, stop := context.WithCancel(context.Background())
	d.stop = stop
	go d.run(ctx, e, w)
	return true
}

// forget ends the watch of a row that is no longer pending.
func (d *drift) forget(id op.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.missed, id)
	if d.rows[id] == nil {
		return
	}
	unwatch := d.watcher.Remove // it ends a watch, and no file
	for _, at := range d.rows[id] {
		for _, dir := range []string{filepath.Dir(at), at} {
			if who := d.dirs[dir]; who[id] {
				if delete(who, id); len(who) == 0 {
					delete(d.dirs, dir)
					unwatch(dir)
				}
			}
		}
	}
	delete(d.rows, id)
	delete(d.marks, id)
	delete(d.due, id)
}

// of gives the mark of a row, empty where it holds as far as is known.
func (d *drift) of(id op.ID) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.marks[id]
}

// mark keeps what was found and reports whether it is news.
func (d *drift) mark(id op.ID, what string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.rows[id] == nil || d.marks[id] == what {
		return false
	}
	if d.marks[id] = what; what == "" {
		delete(d.marks, id)
	}
	return true
}

func (d *drift) run(ctx context.Context, e *Engine, w *fsnotify.Watcher) {
	defer close(d.done)
	for {
		select {
		case ev, ok := <-w.Events:
			if !ok {
				return
			}
			d.touched(ev.Name)
		case _, ok := <-w.Errors:
			if !ok {
				return
			}
			d.touched("") // events were lost: any card may have drifted
		case <-d.wake:
			select {
			case <-time.After(settleTime):
			case <-ctx.Done():
				return
			}
			for _, id := range d.take() {
				if row, err := e.jrn.Approval(ctx, id); err == nil && row.State == journal.Pending {
					e.recheck(ctx, row)
				}
			}
		case <-ctx.Done():
			return
		}
	}
}

// touched notes whose paths a change may concern; empty is everybody's.
func (d *drift) touched(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.near(name) {
		for _, at := range d.rows[id] {
			if name == "" || at == name || strings.HasPrefix(name, at+string(filepath.Separator)) {
				d.due[id] = true
				break
			}
		}
	}
	if len(d.due) > 0 {
		select {
		case d.wake <- struct{}{}:
		default:
		}
	}
}

// near gives the rows that watch the place of a change; the caller holds mu.
func (d *drift) near(name string) map[op.ID]bool {
	whose := map[op.ID]bool{}
	for id := range d.dirs[filepath.Dir(name)] {
		whose[id] = true
	}
	for id := range d.dirs[name] { // the directory itself was renamed or removed
		whose[id] = true
	}
	if name == "" {
		for id := range d.rows {
			whose[id] = true
		}
	}
	return whose
}

func (d *drift) take() []op.ID {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]op.ID, 0, len(d.due))
	for id := range d.due {
		list = append(list, id)
	}
	clear(d.due)
	return list
}

// close ends the watch and waits for it.
func (d *drift) close() {
	d.mu.Lock()
	d.closed = true
	w, done, stop := d.watcher, d.done, d.stop
	d.mu.Unlock()
	if w == nil {
		return
	}
	stop()
	<-done
	w.Close()
}

// recheck looks at what a pending call stands on, marks its card and tells who listens
// when that is news. It gives the sentence; empty where everything holds.
func (e *Engine) recheck(ctx context.Context, row journal.Approval) string {
	what := e.drifted(ctx, row)
	if ctx.Err() == nil && e.drift.mark(row.ID, what) {
		e.events.publish(Event{Type: "pins.drifted", Time: e.cfg.Now().UTC(), Root: row.Root, Agent: row.Agent, Token: string(row.Token),
			Data: map[string]any{"approval_id": row.ID, "drifted": what != ""}})
	}
	return what
}

// drifted words what differs from the pins, as the execution would find it.
func (e *Engine) drifted(ctx context.Context, row journal.Approval) string {
	word := func(err *op.Error) string {
		s := err.Message
		if err.Path != "" {
			s = op.Escape(string(err.Path)) + ": " + s
		}
		return op.Visible(s, false)
	}
	c, err := e.reopen(ctx, row)
	if err != nil {
		return word(op.AsError(err))
	}
	if err := e.look(ctx, c); err != nil {
		return word(op.AsError(c.stale(err)))
	}
	defer c.close()
	if err := preflight.Drift(row.Pins, c.facts); err != nil {
		return word(err)
	}
	return ""
}
