// Command quick times Holdpoint beside the reference MCP file server and the raw limits
// of this disk, interleaved in one run, and prints ratios. Absolute times of a shared
// machine mean little; a ratio of one run does.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"holdpoint/bench/drive"
)

const (
	rounds = 7
	views  = 60 // a round
	edits  = 40
)

func main() {
	binary := flag.String("holdpoint", "bin/holdpoint", "the binary")
	fsServer := flag.String("fs", "", "index.js of the reference file server; empty leaves it out")
	out := flag.String("out", "", "append the rows as JSON lines to this file")
	flag.Parse()
	if err := run(*binary, *fsServer, *out); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(binary, fsServer, out string) error {
	work, err := os.MkdirTemp("", "holdpoint-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	root := filepath.Join(work, "ws")
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	b := &bench{root: root, work: work, times: map[string]map[string]drive.Samples{}}
	fmt.Printf("%s/%s, %d cpus, %s, load %s\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), drive.Load())

	// The first start makes the state and hashes the reviewer's passphrase, which is meant
	// to be slow; what users wait for is every later one.
	first, err := drive.StartDaemon(binary, root, filepath.Join(work, "state"))
	if err != nil {
		return err
	}
	first.Stop()
	start := time.Now()
	d, err := drive.StartDaemon(binary, root, filepath.Join(work, "state"))
	if err != nil {
		return err
	}
	defer d.Stop()
	b.note("start", "holdpoint", time.Since(start))
	idle := d.RSS()
	peers := []drive.Peer{drive.Raw{}, d}
	if m, err := drive.StartStdio("holdpoint-mcp", drive.CompatTools, binary, "mcp", "--state", d.State, "--root", root, "--compat"); err == nil {
		defer m.Stop()
		peers = append(peers, m)
	} else {
		fmt.Println("holdpoint mcp: not measured:", err)
	}
	if fsServer != "" {
		start = time.Now()
		m, err := drive.StartStdio("fs", drive.FSTools, "node", fsServer, root)
		if err != nil {
			return err
		}
		defer m.Stop()
		b.note("start", "fs", time.Since(start))
		peers = append(peers, m)
	}
	if err := b.all(peers); err != nil {
		return err
	}
	b.print(peers)
	fmt.Printf("\nmemory of the daemon: %.1f MiB idle, %.1f MiB after this load\n", idle, d.RSS())
	return b.save(out)
}

type bench struct {
	root, work string
	times      map[string]map[string]drive.Samples // row, peer
}

func (b *bench) note(row, peer string, d time.Duration) {
	if b.times[row] == nil {
		b.times[row] = map[string]drive.Samples{}
	}
	b.times[row][peer] = append(b.times[row][peer], float64(d.Nanoseconds())/1e3)
}

// all interleaves: each round does a little of every row with every peer, so that a busy
// moment of the machine falls on all alike.
func (b *bench) all(peers []drive.Peer) error {
	revs := map[string]int{}
	for r := range rounds {
		for _, p := range peers {
			if err := b.round(p, revs, r); err != nil {
				return fmt.Errorf("%s: %w", p.Name(), err)
			}
		}
		b.disk()
	}
	return nil
}

func (b *bench) round(p drive.Peer, revs map[string]int, r int) error {
	for _, size := range []int{4 << 10, 200 << 10} {
		path := b.file(fmt.Sprintf("view-%d.txt", size), size, 0)
		for range views {
			t := time.Now()
			n, err := p.View(path)
			if err != nil {
				return err
			}
			if n < size {
				return fmt.Errorf("short view: %d of %d bytes", n, size)
			}
			if r > 0 { // the first round warms up
				b.note(fmt.Sprintf("view %d KiB", size>>10), p.Name(), time.Since(t))
			}
		}
	}
	for range views {
		t := time.Now()
		err := p.Look(b.file("view-4096.txt", 4<<10, 0))
		if err == drive.ErrUnsupported {
			break
		}
		if err != nil {
			return err
		}
		if r > 0 {
			b.note("facts of 1 file", p.Name(), time.Since(t))
		}
	}
	if d, ok := p.(*drive.Daemon); ok {
		for range views {
			t := time.Now()
			if err := d.Nothing(); err != nil {
				return err
			}
			if r > 0 {
				b.note("empty request", p.Name(), time.Since(t))
			}
		}
	}
	for _, size := range []int{4 << 10, 40 << 10} {
		key := fmt.Sprintf("%s-edit-%d.txt", p.Name(), size)
		path := b.file(key, size, revs[key])
		for range edits {
			t := time.Now()
			if err := p.Edit(path, rev(revs[key]), rev(revs[key]+1)); err != nil {
				return err
			}
			revs[key]++
			if r > 0 {
				b.note(fmt.Sprintf("edit %d KiB", size>>10), p.Name(), time.Since(t))
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Contains(got, []byte(rev(revs[key]))) {
			return fmt.Errorf("the edits of %s are not on disk", key)
		}
	}
	return nil
}

func rev(n int) string { return fmt.Sprintf("rev = %06d", n) }

// file makes a text file once and gives its path.
func (b *bench) file(name string, size, n int) string {
	path := filepath.Join(b.root, name)
	if _, err := os.Stat(path); err != nil {
		line := "the quick brown fox jumps over the lazy dog, said \"line\" \\ of text\n"
		text := rev(n) + "\n" + strings.Repeat(line, size/len(line)+1)
		os.WriteFile(path, []byte(text[:size-1]+"\n"), 0o644)
	}
	return path
}

// disk times what one flush costs here.
func (b *bench) disk() {
	f, err := os.Create(filepath.Join(b.work, "flush"))
	if err != nil {
		return
	}
	defer f.Close()
	for range 20 {
		f.Write(make([]byte, 200))
		t := time.Now()
		f.Sync()
		b.note("fsync of 200 bytes", "disk", time.Since(t))
	}
}

func (b *bench) save(out string) error {
	if out == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(out, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	for row, peers := range b.times {
		for p, s := range peers {
			line, err := json.Marshal(map[string]any{"row": row, "peer": p, "n": len(s), "p50_us": s.At(0.5), "p99_us": s.At(0.99), "min_us": s.At(0), "time": time.Now().UTC(), "load": drive.Load()})
			if err != nil {
				return err
			}
			if _, err := f.Write(append(line, '\n')); err != nil {
				return err
			}
		}
	}
	return nil
}
