package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"holdpoint/bench/drive"
)

// course is all that the rows run on: generated trees, our daemons and the others.
type course struct {
	binary, fsServer, dcServer, out, plots, only string
	files                                        int
	big                                          int64
	seed                                         uint64

	work, root     string
	d, relaxed     *drive.Daemon
	printer        *drive.Daemon   // of the stream's empty root; nil until it is needed
	others         []*drive.Daemon // of roots that some rows make for themselves
	mcp, fs, dc    *drive.Stdio
	started        float64
	idle           [3]float64 // memory: all, the daemon's own, the program's file
	grown          float64    // memory, of a stream
	ran            string     // the newest program
	tails          map[string]drive.Samples
	starts         map[string]float64 // of programs, beside sh
	held, shown    string             // of a delete that waits
	credential     any                // of what was released last
	credentials    map[string]any     // of the last edit of each file
	edits, revised map[string]int
	rng            *rand.Rand
}

// ready makes the trees and starts everybody.
func (c *course) ready(work string) (err error) {
	c.work, c.root, c.rng = work, filepath.Join(work, "ws"), rand.New(rand.NewPCG(c.seed, 1))
	c.credentials, c.edits, c.revised, c.tails = map[string]any{}, map[string]int{}, map[string]int{}, map[string]drive.Samples{}
	if err := c.trees(); err != nil {
		return err
	}
	settle()
	state := filepath.Join(work, "state")
	serve := func(at string, env ...string) (*drive.Daemon, error) {
		return drive.StartDaemon(c.binary, c.root, at, append(env, "HOLDPOINT_CONFIG="+filepath.Join(work, "plain.toml"))...)
	}
	for name, text := range map[string]string{"plain.toml": "[serve]\nreview_auth = \"token\"\n", "relaxed.toml": "durability = \"relaxed\"\n"} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	first, err := serve(state)
	if err != nil {
		return err
	}
	first.Stop()
	var starts drive.Samples
	for range 7 {
		if c.d != nil {
			c.d.Stop()
		}
		began := time.Now()
		if c.d, err = serve(state); err != nil {
			return err
		}
		starts = append(starts, float64(time.Since(began).Microseconds())/1e3)
	}
	c.started = starts.At(.5)
	if c.only == "" || strings.Contains(c.only, "memory") {
		time.Sleep(resting)
	}
	c.idle = [3]float64{c.d.RSS(), c.d.Own(), c.d.Program()}
	if c.relaxed, err = drive.StartDaemon(c.binary, filepath.Join(work, "loose"), filepath.Join(work, "state2"), "HOLDPOINT_CONFIG="+filepath.Join(work, "relaxed.toml")); err != nil {
		return err
	}
	if c.mcp, err = drive.StartStdio("holdpoint-mcp", drive.CompatTools, c.binary, "mcp", "--state", state, "--root", c.root, "--compat"); err != nil {
		return err
	}
	if c.fs, err = drive.StartStdio("fs", drive.FSTools, "node", c.fsServer, work); err != nil {
		return err
	}
	if c.dcServer != "" {
		c.dc, err = drive.StartStdio("dc", drive.DCTools, "env", "HOME="+work, "node", c.dcServer)
	}
	return err
}

func (c *course) stop() {
	for _, d := range append(c.others, c.d, c.relaxed, c.printer) {
		if d != nil {
			d.Stop()
		}
	}
	for _, m := range []*drive.Stdio{c.mcp, c.fs, c.dc} {
		if m != nil {
			m.Stop()
		}
	}
}

// trees makes 10,000 small files, a large tree of source-like text, one large file, and a
// git repository of the small ones.
func (c *course) trees() error {
	word := func() string { return []string{"return", "value", "index", "error", "buffer", "node"}[c.rng.IntN(6)] }
	text := func(size int) []byte {
		var b strings.Builder
		for b.Len() < size {
			fmt.Fprintf(&b, "\t%s.%s = %s(%d)\n", word(), word(), word(), c.rng.IntN(1000))
		}
		return []byte(b.String()[:size])
	}
	many := func(dir string, n, most int) error {
		for i := range n {
			at := filepath.Join(c.root, dir, fmt.Sprintf("d%03d", i/100%1000))
			if i%100 == 0 {
				if err := os.MkdirAll(at, 0o755); err != nil {
					return err
				}
			}
			body := text(200 + c.rng.IntN(most))
			if i == n/2 {
				body = append(body, "rare_needle_4c1d\n"...)
			}
			if err := os.WriteFile(filepath.Join(at, fmt.Sprintf("f%06d.txt", i)), body, 0o644); err != nil {
				return err
			}
		}
		return nil
	}
	if err := errors.Join(many("small", 10_000, 12_000), many("single", 1, 12_000), many("tree", c.files, 2000), os.Mkdir(filepath.Join(c.work, "loose"), 0o755)); err != nil {
		return err
	}
	big, err := os.Create(filepath.Join(c.root, "big"))
	if err != nil {
		return err
	}
	defer big.Close()
	for block, left := text(1<<20), c.big; left > 0; left -= int64(len(block)) {
		if _, err := big.Write(block); err != nil {
			return err
		}
	}
	for _, dir := range []string{"small", "tree"} {
		if err := c.sh(dir, "git init -q && git add -A && git -c user.name=a -c user.email=a@b.c commit -qm first"); err != nil {
			return err
		}
	}
	return nil
}

// settle has what was generated written out, so that no row waits for it.
func settle() { syscall.Sync() }

// sh runs a line of shell in a directory of the root.
func (c *course) sh(dir, line string) error {
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = filepath.Join(c.root, dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w %.200s", line, err, out)
	}
	return nil
}

// shell is a side that runs a line.
func (c *course) shell(name, dir, line string) side {
	return side{name: name, do: func(int) error { return c.sh(dir, line) }}
}

// call is one of ours over the socket, answered in full.
func (c *course) call(op string, args map[string]any) (map[string]any, error) {
	b, err := c.d.Call(op, args)
	out := map[string]any{}
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err == nil && out["status"] == "failed" {
		err = fmt.Errorf("%s: %.200s", op, b)
	}
	return out, err
}

// file makes a text file of a size once, below the peer's own folder.
func (c *course) file(dir, name string, size int) (string, error) {
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	line := "the quick brown fox jumps over the lazy dog, said \"line\" \\ of text\n"
	text := "rev = 000000\n" + strings.Repeat(line, size/len(line)+1)
	return path, os.WriteFile(path, []byte(text[:size-1]+"\n"), 0o644)
}

func rev(n int) string { return fmt.Sprintf("rev = %06d", n) }

// editBy is a side that edits one of ten files of a size in turn.
func (c *course) editBy(p drive.Peer, dir string, size int) side {
	var path string
	before := func(i int) (err error) {
		path, err = c.file(dir, fmt.Sprintf("%s-%d-%d.txt", p.Name(), size, i%10), size)
		return err
	}
	return side{name: p.Name(), before: before, do: func(i int) error {
		n := c.revised[path]
		c.revised[path]++
		if p == drive.Peer(c.d) {
			r, err := c.call("edit_file", map[string]any{"path": path, "old_string": rev(n), "new_string": rev(n + 1)})
			c.credentials[path] = r["undo_credential"]
			c.edits[path]++
			return err
		}
		return p.Edit(path, rev(n), rev(n+1))
	}}
}

// holds is the rule that voids a row: all records verify, and of the edits one in a hundred,
// picked at random, is undone.
func (c *course) holds() error {
	var paths []string
	for path, credential := range c.credentials {
		if credential != nil {
			paths = append(paths, path)
		}
	}
	made := 0
	for _, n := range c.edits {
		made += n
	}
	c.rng.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
	for _, path := range paths[:min(len(paths), 1+made/100)] {
		b, err := c.d.Post("/v1/undo", map[string]any{"credential": c.credentials[path]})
		if err != nil || !strings.Contains(string(b), `"status":"done"`) {
			return fmt.Errorf("an edit of %s cannot be undone: %w %.200s", filepath.Base(path), err, b)
		}
		c.revised[path]--
	}
	clear(c.credentials)
	clear(c.edits)
	if out, err := exec.Command(c.binary, "--state", c.d.State, "verify").CombinedOutput(); err != nil {
		return fmt.Errorf("verify: %w %.300s", err, out)
	}
	return nil
}

// fsync is what one flush of 200 bytes costs here and now.
func (c *course) fsync() float64 {
	f, err := os.OpenFile(filepath.Join(c.work, "flush"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0
	}
	defer f.Close()
	var s drive.Samples
	for range 15 {
		f.Write(make([]byte, 200))
		began := time.Now()
		f.Sync()
		s = append(s, float64(time.Since(began).Microseconds()))
	}
	return s.At(.5)
}
