package rooted

import "sync"

// together lets changes that come at the same time share the flushes of the directories in
// which they happened: sixty-four edits in one directory need no sixty-four flushes of it.
type together struct {
	mu  sync.Mutex
	now map[inode]*round // guarded by mu: the flush under way of each directory
}

// inode tells directories apart.
type inode struct{ dev, ino uint64 }

// round is one flush and those who wait for it.
type round struct {
	done chan struct{}
	err  error  // good when done is closed
	next *round // guarded by together.mu: those who came too late for this one
}

// flush returns when a flush of the directory that began after the call has ended, its own
// or another caller's. One that is under way may have passed what the caller did.
func (t *together) flush(dir inode, do func() error) error {
	t.mu.Lock()
	running := t.now[dir]
	switch {
	case running == nil:
		mine := &round{done: make(chan struct{})}
		if t.now == nil {
			t.now = map[inode]*round{}
		}
		t.now[dir] = mine
		t.mu.Unlock()
		return t.run(dir, mine, do)
	case running.next == nil:
		mine := &round{done: make(chan struct{})}
		running.next = mine
		t.mu.Unlock()
		<-running.done
		return t.run(dir, mine, do)
	}
	theirs := running.next
	t.mu.Unlock()
	<-theirs.done
	return theirs.err
}

// run does a round and makes room for the next one.
func (t *together) run(dir inode, r *round, do func() error) error {
	r.err = do()
	t.mu.Lock()
	if t.now[dir] = r.next; r.next == nil {
		delete(t.now, dir)
	}
	t.mu.Unlock()
	close(r.done)
	return r.err
}
