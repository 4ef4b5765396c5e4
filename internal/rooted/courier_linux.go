package rooted

import (
	"context"
	"runtime"
	"sync"
)

// courier hands the jobs of one walk to all cores, the next one in path order first, and no
// further ahead of whoever takes the results than there is room for them.
type courier struct {
	ctx context.Context

	mu    sync.Mutex
	wake  sync.Cond        // a job is done, there is more to do or more room, or the walk ends
	stack []*job           // guarded by mu; the next one last
	held  int              // guarded by mu; names that were looked at and not visited
	idle  int              // guarded by mu; who waits for wake
	ended bool             // guarded by mu
	open  map[*folder]bool // guarded by mu: their handles are to be closed
	group sync.WaitGroup
}

// job is a part of a walk that any core can do.
type job struct {
	do    func()
	state jobState // guarded by courier.mu
}

type jobState uint8

const (
	jobWaits jobState = iota
	jobRuns
	jobDone
)

// mostHeld is how many names may be looked at ahead of the manifest.
const mostHeld = 8 << 10

// begin starts the workers; end waits for them.
func (c *courier) begin() {
	for range runtime.GOMAXPROCS(0) {
		c.group.Go(c.work)
	}
}

func (c *courier) work() {
	for {
		c.mu.Lock()
		for !c.ended && (len(c.stack) == 0 || c.held > mostHeld) {
			c.rest()
		}
		if c.ended {
			c.mu.Unlock()
			return
		}
		j := c.stack[len(c.stack)-1]
		c.stack = c.stack[:len(c.stack)-1]
		mine := j.state == jobWaits
		if mine {
			j.state = jobRuns
		}
		c.mu.Unlock()
		if mine {
			c.finish(j)
		}
	}
}

func (c *courier) finish(j *job) {
	j.do()
	c.mu.Lock()
	j.state, j.do = jobDone, nil
	c.call()
	c.mu.Unlock()
}

// rest waits for news; mu is held.
func (c *courier) rest() {
	c.idle++
	c.wake.Wait()
	c.idle--
}

// call wakes whoever waits; mu is held.
func (c *courier) call() {
	if c.idle > 0 {
		c.wake.Broadcast()
	}
}

// need returns when a job is done; it does it where no core came to it yet.
func (c *courier) need(j *job) {
	c.mu.Lock()
	if j.state == jobWaits {
		j.state = jobRuns
		c.mu.Unlock()
		c.finish(j)
		return
	}
	for j.state != jobDone {
		c.rest()
	}
	c.mu.Unlock()
}

// handOut puts jobs on the stack, each of which goes by the handle of f.
func (c *courier) handOut(f *folder, jobs []*job) {
	if len(jobs) == 0 {
		return
	}
	c.mu.Lock()
	f.users += len(jobs)
	for i := len(jobs) - 1; i >= 0; i-- {
		c.stack = append(c.stack, jobs[i])
	}
	c.call()
	c.mu.Unlock()
}

// foundNames counts what waits to be visited.
func (c *courier) foundNames(names int) {
	c.mu.Lock()
	c.held += names
	c.mu.Unlock()
}

// visited makes room.
func (c *courier) visited(names int) {
	c.mu.Lock()
	full := c.held > mostHeld
	if c.held -= names; full {
		c.call()
	}
	c.mu.Unlock()
}

// holdOpen keeps a directory's handle for the one who lists it.
func (c *courier) holdOpen(f *folder, fd int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[*folder]bool{}
	}
	f.fd, f.users = fd, 1
	c.open[f] = true
}

// letGo closes a directory's handle when its last user is done with it.
func (c *courier) letGo(f *folder) {
	c.mu.Lock()
	f.users--
	last := f.users == 0
	if last {
		delete(c.open, f)
	}
	c.mu.Unlock()
	if last {
		closeFD(f.fd)
	}
}

// end waits until nothing of the walk runs, and closes what it did not come to.
func (c *courier) end() {
	c.mu.Lock()
	c.ended = true
	c.call()
	c.mu.Unlock()
	c.group.Wait()
	for f := range c.open {
		closeFD(f.fd)
	}
	c.open = nil
}
