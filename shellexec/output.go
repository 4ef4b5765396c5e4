package shellexec

import (
	"io"
	"os"
	"sync"
)

// Stream is one output of a process: its head and tail in memory, whatever its length,
// and all of it in a file when it is longer than the two together.
type Stream struct {
	Head, Tail []byte
	Total      int64
	Cut        bool   // bytes between head and tail are only in the file
	File       string // name of the spill file in its directory; empty when all is in memory
	Lost       int64  // bytes that are not even there, for want of room
}

const (
	keepHead = 32 << 10
	keepTail = 32 << 10
	maxSpill = 8 << 30 // of one stream
)

// collector fills a Stream. Its memory does not grow with what comes in, and what it holds
// can be read while it grows: those who read go at their own pace and hold up nobody.
type collector struct {
	block  []byte // of the one goroutine that drains
	live   func([]byte)
	grown  func()
	always bool // all of it goes to the file, however short

	mu   sync.Mutex // guards what follows
	s    Stream
	ring []byte
	at   int // where the next byte of the ring goes
	dir  string
	name string
	file *os.File
}

func newCollector(dir, name string, live func([]byte)) *collector {
	return &collector{dir: dir, name: name, live: live, block: make([]byte, 64<<10)}
}

// drain reads to the end, or until the reader is closed under it.
func (c *collector) drain(r io.Reader) {
	for {
		n, err := r.Read(c.block)
		if n > 0 {
			c.take(c.block[:n])
		}
		if err != nil {
			return
		}
	}
}

func (c *collector) take(b []byte) {
	if c.live != nil {
		c.live(b)
	}
	c.mu.Lock()
	c.add(b)
	c.mu.Unlock()
	if c.grown != nil {
		c.grown()
	}
}

func (c *collector) add(b []byte) {
	if c.file == nil && c.dir != "" && (c.always || c.s.Total+int64(len(b)) > keepHead+keepTail) {
		c.spill()
	}
	c.write(b)
	c.s.Total += int64(len(b))
	if room := keepHead - len(c.s.Head); room > 0 {
		k := min(room, len(b))
		c.s.Head = append(c.s.Head, b[:k]...)
		b = b[k:]
	}
	if c.ring == nil && len(b) > 0 {
		c.ring = make([]byte, 0, keepTail)
	}
	if len(b) > keepTail {
		b = b[len(b)-keepTail:]
	}
	for len(b) > 0 {
		if len(c.ring) < keepTail {
			k := min(keepTail-len(c.ring), len(b))
			c.ring, b = append(c.ring, b[:k]...), b[k:]
			continue
		}
		k := copy(c.ring[c.at:], b)
		c.at, b = (c.at+k)%keepTail, b[k:]
	}
}

// spill opens the file and puts in what came so far.
func (c *collector) spill() {
	f, err := os.OpenFile(c.dir+"/"+c.name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		c.dir = "" // what does not fit is counted as lost
		return
	}
	c.file, c.s.File = f, c.name
	c.write(c.s.Head)
	c.write(c.tail())
}

func (c *collector) write(b []byte) {
	if c.file == nil {
		return
	}
	if c.s.Total > maxSpill {
		c.s.Lost += int64(len(b))
		return
	}
	if n, err := c.file.Write(b); err != nil {
		c.s.Lost += int64(len(b) - n)
	}
}

func (c *collector) tail() []byte {
	return append(append([]byte(nil), c.ring[min(c.at, len(c.ring)):]...), c.ring[:min(c.at, len(c.ring))]...)
}

// read copies what stands at offset, and behind what was lost what comes next: at is where
// the copied bytes begin. Nothing is copied where there is nothing yet.
func (c *collector) read(offset int64, b []byte) (at int64, n int, total int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	total = c.s.Total
	if offset >= total {
		return offset, 0, total
	}
	if c.s.File != "" {
		if n = c.readFile(offset, b); n > 0 {
			return offset, n, total
		}
	}
	if offset < int64(len(c.s.Head)) {
		return offset, copy(b, c.s.Head[offset:]), total
	}
	tail := c.tail()
	if tail == nil {
		tail = c.s.Tail // it has ended
	}
	from := total - int64(len(tail))
	offset = max(offset, from)
	return offset, copy(b, tail[offset-from:]), total
}

func (c *collector) readFile(offset int64, b []byte) int {
	f := c.file
	if f == nil {
		var err error
		if f, err = os.Open(c.dir + "/" + c.name); err != nil {
			return 0
		}
		defer f.Close()
	}
	n, err := f.ReadAt(b, offset)
	if err != nil && err != io.EOF {
		return 0
	}
	return n
}

// end gives what was collected.
func (c *collector) end() Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.Tail = c.tail()
	c.s.Cut = c.s.Total > int64(len(c.s.Head)+len(c.s.Tail))
	if c.s.Cut && c.file == nil {
		c.s.Lost = c.s.Total - int64(len(c.s.Head)+len(c.s.Tail))
	}
	if c.file != nil {
		if err := c.file.Close(); err != nil && c.s.Lost == 0 {
			c.s.Lost = 1
		}
		c.file = nil
	}
	c.block = nil
	return c.s
}

// Live is the output of one run, while it runs and after it.
type Live struct {
	streams map[string]*collector

	mu   sync.Mutex // guards what follows
	wake chan struct{}
	over bool
}

// Streams are the names of a run's outputs, in the order in which they are shown. What a
// terminal shows is stdout alone.
func Streams() []string { return []string{"stdout", "stderr"} }

// Read copies a part of one stream, from offset on or from the next byte behind it that is
// still there, and tells how long the stream is by now. It never waits.
func (l *Live) Read(stream string, offset int64, b []byte) (at int64, n int, total int64) {
	c := l.streams[stream]
	if c == nil || offset < 0 {
		return offset, 0, 0
	}
	return c.read(offset, b)
}

// Changed gives a channel that closes when more has come, or at the end; over tells that
// nothing comes any more. Ask for it before Read, so that nothing is missed.
func (l *Live) Changed() (more <-chan struct{}, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wake == nil {
		l.wake = make(chan struct{})
		if l.over {
			close(l.wake)
		}
	}
	return l.wake, l.over
}

func (l *Live) grown() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wake != nil && !l.over {
		close(l.wake)
		l.wake = nil
	}
}

func (l *Live) end() {
	l.grown()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over = true; l.wake != nil {
		close(l.wake)
		l.wake = nil
	}
}
