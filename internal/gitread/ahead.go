package gitread

import (
	"context"
	"runtime"
	"strings"
	"sync"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// ahead looks at the directories that the index knows before the walk comes to them, with
// all cores: most of a status is one look at each file. What the walk comes to first it
// looks at itself.
type ahead struct {
	ctx   context.Context
	below *rooted.Below
	by    map[string]*listing // the walk's own
	room  chan struct{}       // a token for each directory that was looked at and not used yet
	stop  context.CancelFunc
	group sync.WaitGroup
}

// listing is one directory with a look at each file in it.
type listing struct {
	path  string
	mu    sync.Mutex // held by who looks
	begun bool       // guarded by mu
	paid  bool       // guarded by mu: it holds a token
	dir   *rooted.Dir
	open  error // why dir is nil
	names []rooted.Found
	infos []rooted.Info // of the names; of kind unknown where nothing was looked at
	err   error
}

// mostAhead is how many directories are held open before they are asked for.
const mostAhead = 32

// lookAhead begins with the directories that hold files of the index and are asked for.
func lookAhead(ctx context.Context, b *rooted.Below, list []entry, enters func(dir string) bool) *ahead {
	a := &ahead{below: b, by: map[string]*listing{}, room: make(chan struct{}, mostAhead)}
	a.ctx, a.stop = context.WithCancel(ctx)
	var all []*listing
	last := "\x00"
	for i := range list {
		dir := list[i].path[:max(0, strings.LastIndexByte(list[i].path, '/'))]
		if dir == last {
			continue
		}
		if last = dir; a.by[dir] == nil && enters(dir) {
			a.by[dir] = &listing{path: dir}
			all = append(all, a.by[dir])
		}
	}
	next := make(chan *listing)
	a.group.Go(func() {
		defer close(next)
		for _, l := range all {
			select {
			case a.room <- struct{}{}:
			case <-a.ctx.Done():
				return
			}
			next <- l
		}
	})
	for range runtime.GOMAXPROCS(0) {
		a.group.Go(func() {
			for l := range next {
				l.mu.Lock()
				if l.begun { // the walk was here first
					<-a.room
				} else {
					l.paid = true
					l.look(a.ctx, b)
				}
				l.mu.Unlock()
			}
		})
	}
	return a
}

// take gives a directory to the walk, which closes it.
func (a *ahead) take(ctx context.Context, dir string) *listing {
	l := a.by[dir]
	if l == nil {
		l = &listing{path: dir}
	}
	delete(a.by, dir)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.paid {
		<-a.room
	}
	if !l.begun {
		l.look(ctx, a.below)
	}
	return l
}

// end waits until nobody looks any more, and closes what nobody took.
func (a *ahead) end() {
	a.stop()
	a.group.Wait()
	for _, l := range a.by {
		l.close()
	}
}

func (l *listing) close() {
	if l.dir != nil {
		l.dir.Close()
	}
}

// look fills the listing in; the caller holds mu.
func (l *listing) look(ctx context.Context, b *rooted.Below) {
	l.begun = true
	if l.dir, l.open = b.Dir(l.path); l.open != nil {
		l.dir = nil
		return
	}
	if l.names, l.err = l.dir.Names(ctx); l.err != nil {
		return
	}
	l.infos = make([]rooted.Info, len(l.names))
	for i, f := range l.names {
		if f.Kind != op.File || i%256 == 0 && ctx.Err() != nil {
			continue
		}
		if info, err := l.dir.Info(f.Name); err == nil {
			l.infos[i] = info
		}
	}
}
