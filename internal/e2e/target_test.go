//go:build linux

package e2e

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// TestTarget has the daemon itself for a target: crowds, slow and huge requests. Noise is TestNoise.
func TestTarget(t *testing.T) {
	t.Parallel()
	d, addr := listening(t)
	start := d.rss()
	dials := map[string]func() (net.Conn, error){
		"socket": func() (net.Conn, error) { return net.Dial("unix", d.Socket) },
		"http":   func() (net.Conn, error) { return net.Dial("tcp", addr) },
	}
	limit, soonest := int64(16<<20), 9*time.Second // silent connections end by themselves after 10 s, and would let all through
	if raceEnabled {
		limit, soonest = 1<<30, time.Minute // the detector keeps shadows of all and takes its time; the run without it counts
	}
	served := func(t *testing.T) {
		t.Helper()
		began := time.Now()
		status, _, err := d.tryHTTP("GET", "/v1/status", d.Agent, nil)
		for err != nil && time.Since(began) < soonest { // the kernel's own queue of a socket may be full for a moment
			time.Sleep(10 * time.Millisecond)
			status, _, err = d.tryHTTP("GET", "/v1/status", d.Agent, nil)
		}
		if status != 200 || time.Since(began) > soonest {
			t.Errorf("status: %d after %v: %v", status, time.Since(began), err)
		}
	}
	var open []net.Conn // together 10,000
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	for bridge, dial := range dials {
		t.Run("S78 5,000 silent connections on the "+bridge+", then a slow header and a long line, hold nobody up and cost no memory", func(t *testing.T) {
			refused := 0
			for range 5000 {
				c, err := dial()
				if err != nil {
					refused++
					continue
				}
				open = append(open, c)
			}
			served(t)
			now := d.rss()
			// What was left of the way here may wait for the collector; the connections stay for longer than this.
			for end := time.Now().Add(5 * time.Second); now > start+limit && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
				now = min(now, d.rss())
			}
			if now > start+limit {
				t.Errorf("memory grew by %d MiB", (now-start)>>20)
			}
			t.Logf("%d open, %d refused, memory %+d MiB", len(open), refused, (now-start)>>20)
			slow, err := soon(dial)
			if err != nil {
				t.Fatal(err)
			}
			defer slow.Close()
			go func() {
				for _, b := range []byte("POST /v1/call HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 1000)) {
					if _, err := slow.Write([]byte{b}); err != nil {
						return
					}
					time.Sleep(time.Second)
				}
			}()
			long, err := soon(dial)
			if err != nil {
				t.Fatal(err)
			}
			defer long.Close()
			go io.Copy(long, io.LimitReader(zeros{}, 64<<20))
			long.SetReadDeadline(time.Now().Add(15 * time.Second))
			if line, err := bufio.NewReader(long).ReadString('\n'); err == nil && !strings.Contains(line, " 4") {
				t.Errorf("the long line: %q", line)
			}
			served(t)
		})
	}
}

// soon dials until it is let in, for a few seconds.
func soon(dial func() (net.Conn, error)) (c net.Conn, err error) {
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if c, err = dial(); err == nil {
			return c, nil
		}
	}
	return nil, err
}
