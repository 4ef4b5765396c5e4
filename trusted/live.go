package trusted

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"holdpoint/op"
)

// States of a live policy file.
const (
	StateNone   = "none" // no file is named
	StateOK     = "ok"
	StateBad    = string(op.PolicyInvalid)
	StateUnsafe = string(op.PolicyUnsafePermissions)
)

// Status says what the daemon trusts and why not more.
type Status struct {
	File   string    `json:"file"`
	State  string    `json:"state"`
	Error  string    `json:"error,omitempty"` // with line and field
	Loaded time.Time `json:"loaded,omitzero"` // when the state last changed
}

// Live keeps the policies of one file in step with the file.
type Live struct {
	file   string
	notify func(Status)
	stop   context.CancelFunc
	done   chan struct{}

	turn sync.Mutex // one look at the file at a time, its notice included

	mu     sync.Mutex // guards all below
	env    LoadEnv
	set    *Set
	status Status
	seen   mark
}

// poll is how often the file is looked at when no event comes, which is all there is when
// the system has run out of watches.
const poll = 2 * time.Second

// Watch loads file and follows it until ctx ends or Close. A file that is bad at the start
// is an error. One that turns bad later drops all trust until it is good again; notify,
// which may be nil and must not call Current or SetWorkspaces, is told of every change in
// its order. With no file named, nothing is trusted and nothing is watched.
func Watch(ctx context.Context, file string, env LoadEnv, notify func(Status)) (*Live, error) {
	if notify == nil {
		notify = func(Status) {}
	}
	l := &Live{file: file, env: env, notify: notify, stop: func() {}, set: &Set{}, status: Status{State: StateNone}}
	if file == "" {
		return l, nil
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, op.Fail(op.PolicyInvalid, "the policy file cannot be found: "+err.Error()).Because(err)
	}
	l.file = file
	// Watched first, so that no change falls between reading and watching.
	events := watchDirectory(filepath.Dir(file))
	l.set, l.seen, err = load(file, env)
	if err != nil {
		if events != nil {
			events.Close()
		}
		return nil, err
	}
	l.status = Status{File: file, State: StateOK, Loaded: time.Now()}

	ctx, l.stop = context.WithCancel(ctx)
	l.done = make(chan struct{})
	go l.follow(ctx, events)
	return l, nil
}

// Current gives the policies as the file stands at this moment. It looks at the file each
// time, since events come late or get lost; it reads it only when it may have changed.
func (l *Live) Current() *Set {
	l.refresh(false)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.set
}

// Status gives the state after the last look.
func (l *Live) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// SetWorkspaces replaces the registered roots. A root that would hold the policy file is
// refused and changes nothing.
func (l *Live) SetWorkspaces(dirs []string) error {
	if l.file != "" {
		if err := Outside(l.file, dirs); err != nil {
			return err
		}
	}
	l.mu.Lock()
	l.env.Workspaces = slices.Clone(dirs)
	l.mu.Unlock()
	l.refresh(true)
	return nil
}

// Close stops following and waits until that has ended.
func (l *Live) Close() {
	l.stop()
	if l.done != nil {
		<-l.done
	}
}

// refresh reloads when the file is not the one that was read, or always.
func (l *Live) refresh(always bool) {
	if l.file == "" {
		return
	}
	l.turn.Lock()
	defer l.turn.Unlock()
	l.mu.Lock()
	env, before, seen := l.env, l.status, l.seen
	l.mu.Unlock()
	if !always && !seen.changed(l.file) {
		return
	}
	set, read, err := load(l.file, env)
	now := Status{File: l.file, State: StateOK, Loaded: time.Now()}
	if err != nil {
		set, read = &Set{}, mark{}
		now.State, now.Error = StateBad, op.AsError(err).Message
		if op.AsError(err).Code == op.PolicyUnsafePermissions {
			now.State = StateUnsafe
		}
	}
	news := now.State != before.State || now.Error != before.Error || read.identity != seen.identity
	if !news {
		now = before
	}
	l.mu.Lock()
	l.set, l.seen, l.status = set, read, now
	l.mu.Unlock()
	if news {
		l.notify(now)
	}
}

// watchDirectory watches the directory, because editors and config tools exchange files
// instead of writing them. It gives nil when the system has no watch to spare.
func watchDirectory(dir string) *fsnotify.Watcher {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil
	}
	if w.Add(dir) != nil {
		w.Close()
		return nil
	}
	return w
}

// follow turns events and the clock into looks at the file; w may be nil.
func (l *Live) follow(ctx context.Context, w *fsnotify.Watcher) {
	defer close(l.done)
	tick := time.NewTicker(poll)
	defer tick.Stop()
	var events chan fsnotify.Event
	var faults chan error
	if w != nil {
		defer w.Close()
		events, faults = w.Events, w.Errors
	}
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-events:
			// Whatever changed beside it: a second name for the file is such an event.
			if !ok {
				events = nil
			}
		case _, ok := <-faults:
			// Events were lost, an overflow most likely: look, as after any event.
			if !ok {
				faults = nil
			}
		case <-tick.C:
		}
		l.refresh(false)
	}
}

// mark tells one state of a file from the next.
type mark struct {
	identity
	read time.Time
}

// settle is longer than the clock that stamps files ticks: a file stamped so shortly
// before it was read may have been written again under the same stamp.
const settle = 50 * time.Millisecond

func (m mark) changed(file string) bool {
	info, err := os.Lstat(file)
	return err != nil || identify(info) != m.identity || m.read.Sub(m.stamp()) < settle
}
