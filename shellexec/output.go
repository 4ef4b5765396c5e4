package shellexec

import (
	"io"
	"os"
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

// collector fills a Stream. Its memory does not grow with what comes in.
type collector struct {
	s     Stream
	ring  []byte
	at    int // where the next byte of the ring goes
	dir   string
	name  string
	file  *os.File
	live  func([]byte) // may be nil
	block []byte
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
	if c.file == nil && c.dir != "" && c.s.Total+int64(len(b)) > keepHead+keepTail {
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
	f, err := os.OpenFile(c.dir+"/"+c.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
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

// end gives what was collected.
func (c *collector) end() Stream {
	c.s.Tail = c.tail()
	c.s.Cut = c.s.Total > int64(len(c.s.Head)+len(c.s.Tail))
	if c.s.Cut && c.file == nil {
		c.s.Lost = c.s.Total - int64(len(c.s.Head)+len(c.s.Tail))
	}
	if c.file != nil {
		if err := c.file.Close(); err != nil && c.s.Lost == 0 {
			c.s.Lost = 1
		}
	}
	return c.s
}
