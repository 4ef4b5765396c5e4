package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"holdpoint/bench/drive"
)

// rows is the table. The first two sides are compared; the others are shown.
func (c *course) rows() []row {
	loose := filepath.Join(c.work, "loose")
	both := func(size int, p drive.Peer) []side {
		out := []side{c.editBy(p, c.root, size), c.editBy(c.fs, c.work, size), c.editBy(drive.Raw{}, c.work, size)}
		if c.dc != nil {
			dc := c.editBy(c.dc, c.work, size)
			dc.apart = true
			out = append(out, dc)
		}
		return out
	}
	rg := func(name string, must, aim float64, args map[string]any, line string) row {
		return row{work: name, must: must, aim: aim, n: 7, sides: []side{c.search(args), c.shell("rg -j2", "tree", "rg --no-config -j2 -c "+line+" || true")}}
	}
	small := c.names("small")
	out := []row{
		{work: "view 4 KiB, MCP", must: .8, aim: .4, tail: .5, n: 150, sides: c.views(4<<10, c.mcp)},
		{work: "view 4 KiB, socket", must: .25, aim: .15, n: 150, sides: c.views(4<<10, c.d)},
		{work: "an empty request over the socket, beside that view", n: 150, sides: []side{
			{name: "holdpoint", do: func(int) error { return c.d.Nothing() }}, c.views(4<<10, c.fs)[0]}},
		{work: "view 200 KiB, MCP", must: 1, aim: .4, n: 100, sides: c.views(200<<10, c.mcp)},
		{work: "view 200 KiB, socket", must: .4, aim: .15, n: 100, sides: c.views(200<<10, c.d)},
		{work: "edit 4 KiB, durable, socket", must: 1.2, aim: .8, tail: .6, n: 150, sides: both(4<<10, c.d), after: c.holds},
		{work: "edit 4 KiB, durable, MCP", must: 1.2, aim: .8, tail: .6, n: 150, sides: both(4<<10, c.mcp), after: c.holds},
		{work: "edit 40 KiB, durable, socket", must: .9, aim: .6, n: 150, sides: both(40<<10, c.d), after: c.holds},
		{work: "edit 40 KiB, durable, MCP", must: .9, aim: .6, n: 150, sides: both(40<<10, c.mcp), after: c.holds},
		{work: "edit 4 KiB, relaxed, socket", must: .5, n: 150, sides: []side{c.editBy(named{c.relaxed, "relaxed"}, loose, 4<<10), c.editBy(c.fs, c.work, 4<<10)}},
		{work: "edit 40 KiB, relaxed, socket", n: 150, sides: []side{c.editBy(named{c.relaxed, "relaxed"}, loose, 40<<10), c.editBy(c.fs, c.work, 40<<10)}},
		{work: "preflight of 1 file, with hash", must: 1, aim: .5, n: 150, sides: []side{
			{name: "holdpoint", do: func(int) error { return c.d.Look(filepath.Join(c.root, small[0])) }},
			{name: "fs stat", do: func(int) error { return c.fs.Look(filepath.Join(c.root, small[0])) }}}},
		{work: "preflight of 10,000 files, digest and first page, first", must: .8, aim: .45, n: 5, sides: []side{
			{name: "holdpoint", before: c.touchSmall, do: func(int) error { return c.preflight(small, firstPage) }}, c.b3sum("small", "1")}},
		{work: "preflight of 10,000 files, digest and first page, repeated", must: .25, aim: .1, n: 7, sides: []side{
			{name: "holdpoint", do: func(int) error { return c.preflight(small, firstPage) }}, c.b3sum("small", "1")}},
		{work: "preflight of 10,000 files, all facts and pins (5 MB), first", n: 5, sides: []side{
			{name: "holdpoint", before: c.touchSmall, do: func(int) error { return c.preflight(small, 0) }}, c.b3sum("small", "1")}},
		{work: "preflight of 10,000 files, all facts and pins (5 MB), repeated", n: 7, sides: []side{
			{name: "holdpoint", do: func(int) error { return c.preflight(small, 0) }}, c.b3sum("small", "1")}},
		{work: "preflight of one large file", must: 1.4, aim: 1.15, n: 5, sides: []side{
			{name: "holdpoint", before: func(i int) error { return touch(filepath.Join(c.root, "big"), i) }, do: func(int) error { return c.preflight([]string{"big"}, 0) }},
			c.shell("b3sum -2", ".", "b3sum --num-threads 2 big")}},
		{work: "tree of the large tree, all pages", must: 1, n: 7, sides: []side{{name: "holdpoint", do: func(int) error { return c.tree(true) }}, c.shell("find", "tree", "find . -printf '%p %s\\n'"), c.shell("git ls-files", "tree", "git ls-files")}},
		{work: "tree, first page of 1,000", must: 10, unit: "ms", n: 15, sides: []side{{name: "holdpoint", do: func(int) error { return c.tree(false) }}}},
		rg("search, rare", 1.3, 1.05, map[string]any{"pattern": "rare_needle_4c1d"}, "rare_needle_4c1d"),
		rg("search, none", 1.3, 1.05, map[string]any{"pattern": "nowhere_to_be_found"}, "nowhere_to_be_found"),
		rg("search, any case", 1.3, 1.05, map[string]any{"pattern": "RARE_Needle_4c1d", "ignore_case": true}, "-i RARE_Needle_4c1d"),
		rg("search, regexp", 1.3, 1.05, map[string]any{"pattern": `rare_needle_[0-9a-f]{4}\b`, "regex": true}, `'rare_needle_[0-9a-f]{4}\b'`),
		{work: "search common, first 200 hits", must: 20, aim: 10, unit: "ms", n: 15, sides: []side{c.search(map[string]any{"pattern": "return", "mode": "content", "max_results": 200})}},
		{work: "what changed, hint of the watcher", must: .05, aim: .02, n: 7, sides: []side{{name: "holdpoint", before: c.touchTree, do: c.changed()}, c.shell("git status", "tree", "git status --porcelain")}},
		{work: "what changed, proven by a walk (git_status)", must: 1, aim: .8, n: 5, sides: []side{
			{name: "holdpoint", before: c.touchTree, do: func(int) error { _, err := c.call("git_status", map[string]any{"path": "tree"}); return err }},
			c.shell("git status", "tree", "git status --porcelain")}},
		{work: "delete a folder of 10,000 files, durable, with the manifest checks", must: .4, n: 2, sides: []side{
			{name: "holdpoint", before: func(i int) error { return c.hold("small", "trash", i) }, do: c.release}, c.rm()}},
		{work: "delete, rename and journal alone (a folder of one file)", must: .05, n: 2, sides: []side{
			{name: "holdpoint", before: func(i int) error { return c.hold("single", "one", i) }, do: c.release}, c.rm()}},
		{work: "restore it, with the manifest checks", must: .4, n: 2, sides: []side{{name: "holdpoint", before: c.deleted("small", "back"), do: c.undoLast}, c.rm()}},
		{work: "restore, rename and journal alone (a folder of one file)", must: .2, n: 2, sides: []side{
			{name: "holdpoint", before: c.deleted("single", "oneback"), do: c.undoLast},
			{name: "trash-restore", before: func(int) error {
				return c.sh(".", "export XDG_DATA_HOME="+c.work+"/share; rm -rf binned; cp -a small binned && trash-put binned")
			}, do: func(int) error {
				return c.sh(".", "export XDG_DATA_HOME="+c.work+"/share; echo 0 | trash-restore "+c.root+"/binned >/dev/null")
			}}}, after: func() error { return c.sh(".", "rm -rf binned") }},
		{work: "start true, plain, beside sh -c", must: 1.5, aim: 1.2, unit: "times", value: c.startOf("plain")},
		{work: "start true, confined, beside sh -c", must: 3, aim: 2, unit: "times", value: c.startOf("confined")},
		{work: "rehearse true over 100,000 files, beside the confined start", must: 3, aim: 2, unit: "times", value: c.rehearsed},
		{work: "stream as many bytes as the large file has, as output of a program, beside a raw pipe of the same", must: 1 / .7, aim: 1 / .9, n: 3, sides: []side{
			{name: "holdpoint", before: c.waits, do: c.streamed}, {name: "raw pipe", do: c.piped}, {name: "into a file", do: c.kept}}, after: c.retrieved},
		{work: "memory that this stream added", must: 16, unit: "MiB", value: func() (float64, error) { return c.grown, nil }},
		{work: "64 callers, 4 reads to 1 edit: time of 640 calls, 64 connections", must: 1 / 1.3, aim: .5, n: 5, sides: []side{{name: "holdpoint", before: c.crowdFiles, do: func(int) error { return c.crowd(64, 640) }}, {name: "fs", before: c.crowdFiles, do: c.crowdFS}}, after: c.holds},
		{work: "p99 of its edits", must: .8, unit: "of fs", value: c.tailOf("holdpoint")},
		{work: "64 callers, the same over one pipe of MCP, as the peer", must: 1 / 1.3, aim: .5, n: 5, sides: []side{{name: "holdpoint-mcp", before: c.crowdFiles, do: func(int) error { return c.flood(c.mcp, c.root) }}, {name: "fs", before: c.crowdFiles, do: c.crowdFS}}, after: c.holds},
		{work: "p99 of its edits, MCP", must: .8, unit: "of fs", value: c.tailOf("holdpoint-mcp")},
		{work: "what undo and record add to an edit (ours less a bare durable replace), beside a git checkpoint, 10,000 files", must: .04, n: 15, less: true, sides: c.added("small"), after: c.holds},
		{work: "the same, large tree", must: .006, n: 10, less: true, sides: c.added("tree"), after: c.holds},
		{work: "restore 10 files in one call, 10,000 files", must: .15, n: 7, sides: c.restore("small", true)},
		{work: "restore 10 files in one call, large tree", must: .02, n: 5, sides: c.restore("tree", true)},
		{work: "restore 10 files in ten calls, 10,000 files", n: 5, sides: c.restore("small", false)},
		{work: "decision and preflight of one edit, in process", must: 100, aim: 50, unit: "us", value: c.inProcess},
		{work: "ready after start", must: 20, aim: 10, unit: "ms", value: func() (float64, error) { return c.started, nil }},
		{work: "memory, idle", must: 25, aim: 15, unit: "MiB", value: func() (float64, error) { return c.idle[0], nil }},
		{work: "of it the daemon's own", unit: "MiB", value: func() (float64, error) { return c.idle[1], nil }},
		{work: "of it pages of the program's file", unit: "MiB", value: func() (float64, error) { return c.idle[2], nil }},
		{work: "memory, after all this, at once", unit: "MiB", value: func() (float64, error) { return c.d.RSS(), nil }},
		{work: "memory, after all this, at rest", must: 60, aim: 40, unit: "MiB", value: func() (float64, error) { time.Sleep(resting); return c.d.RSS(), nil }},
		{work: "of it the daemon's own", unit: "MiB", value: func() (float64, error) { return c.d.Own(), nil }},
		{work: "binary", must: 40, aim: 25, unit: "MB", value: func() (float64, error) {
			i, err := os.Stat(c.binary)
			if err != nil {
				return 0, err
			}
			return float64(i.Size()) / 1e6, nil
		}},
	}
	return out
}

// named gives a peer another name.
type named struct {
	drive.Peer
	name string
}

func (n named) Name() string { return n.name }

func (c *course) views(size int, ours drive.Peer) (out []side) {
	peers := []drive.Peer{ours, c.fs, drive.Raw{}}
	if c.dc != nil {
		peers = append(peers, c.dc)
	}
	for _, p := range peers {
		path, err := c.file(c.root, fmt.Sprintf("view-%d.txt", size), size)
		out = append(out, side{name: p.Name(), apart: c.dc != nil && p == drive.Peer(c.dc), do: func(int) error {
			if err != nil {
				return err
			}
			_, err := p.View(path)
			return err
		}})
	}
	return out
}

func (c *course) names(dir string) (out []string) {
	list, _ := filepath.Glob(filepath.Join(c.root, dir, "d*", "*"))
	for _, p := range list {
		rel, _ := filepath.Rel(c.root, p)
		out = append(out, rel)
	}
	return out
}

func touch(path string, i int) error {
	at := time.Now().Add(-time.Duration(i+1) * time.Hour)
	return os.Chtimes(path, at, at)
}

func (c *course) touchSmall(i int) error {
	for _, p := range c.names("small") {
		if err := touch(filepath.Join(c.root, p), i); err != nil {
			return err
		}
	}
	return nil
}

// touchTree changes ten files, as an agent's step would.
func (c *course) touchTree(i int) error {
	for k := range 10 {
		p := filepath.Join(c.root, "tree", "d000", fmt.Sprintf("f%06d.txt", k))
		if err := os.WriteFile(p, fmt.Appendf(nil, "changed %d\n", i), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// firstPage is how many facts an agent reads at once.
const firstPage = 1000

// preflight asks for facts: a page of them with the digest of all, or with page 0 all.
func (c *course) preflight(paths []string, page int) error {
	args := map[string]any{"paths": paths}
	if page > 0 {
		args["page_size"] = page
	}
	b, err := c.d.Post("/v1/preflight", args)
	if err == nil && page > 0 && !strings.Contains(string(b), `"digest":"blake3:`) {
		err = fmt.Errorf("no digest: %.200s", b)
	}
	if err == nil && !strings.Contains(string(b), "blake3:") {
		err = fmt.Errorf("%.200s", b)
	}
	return err
}

func (c *course) b3sum(dir, threads string) side {
	return c.shell("b3sum", ".", "find "+dir+" -name 'f*.txt' -print0 | xargs -0 -n 20000 b3sum --num-threads "+threads)
}

func (c *course) search(args map[string]any) side {
	args["path"], args["timeout_ms"] = "tree", 60_000
	if args["mode"] == nil {
		args["mode"] = "count"
	}
	return side{name: "holdpoint", do: func(int) error { _, err := c.call("search_files", args); return err }}
}

var nextPage = regexp.MustCompile(`"next":"([^"\\]+)"`)

func (c *course) tree(all bool) error {
	args := map[string]any{"path": "tree", "page_size": 1000, "show_hidden": true, "include_ignored": true, "timeout_ms": 60_000}
	if all {
		args["page_size"] = 10_000
	}
	for {
		b, err := c.d.Call("file_tree", args)
		if err != nil {
			return err
		}
		// Nobody reads what find prints either: taking 100,000 entries apart in this program
		// would count as ours.
		m := nextPage.FindSubmatch(b)
		if err == nil && !bytes.Contains(b, []byte(`"entries":[`)) {
			return fmt.Errorf("no entries: %.200s", b)
		}
		if !all || m == nil {
			return nil
		}
		args["page"] = string(m[1])
	}
}

// changed asks the watcher; the first question begins the watch.
func (c *course) changed() func(int) error {
	after := ""
	return func(int) error {
		b, err := c.d.Get("/v1/changes?after=" + after)
		var out map[string]any
		if err == nil {
			err = json.Unmarshal(b, &out)
		}
		after, _ = out["next"].(string)
		return err
	}
}

// rm removes a copy of the folder of 10,000 files.
func (c *course) rm() side {
	return side{name: "rm -rf", before: func(int) error { return c.sh(".", "cp -a small rmtrash") }, do: func(int) error { return c.sh(".", "rm -rf rmtrash") }}
}

// hold asks for the delete of a fresh copy of a folder and leaves it to release to approve.
func (c *course) hold(of, dir string, i int) error {
	if err := c.sh(".", "cp -a "+of+" "+dir+strconv.Itoa(i)); err != nil {
		return err
	}
	r, err := c.call("delete_file", map[string]any{"path": dir + strconv.Itoa(i), "recursive": true})
	if err != nil {
		return err
	}
	return c.card(c.d, r)
}

// reviewer is a daemon asked with the token that answers there.
func (c *course) reviewer(d *drive.Daemon) *drive.Daemon {
	word, _ := os.ReadFile(filepath.Join(d.State, "tokens", "operator"))
	return d.As(strings.TrimSpace(string(word)))
}

// card looks at what waits, as whoever answers must.
func (c *course) card(d *drive.Daemon, r map[string]any) error {
	held, _ := r["approval"].(map[string]any)
	c.held, _ = held["id"].(string)
	b, err := c.reviewer(d).Get("/v1/approvals/" + c.held)
	var row struct {
		Card struct {
			Shown string `json:"shown_digest"`
		} `json:"card"`
	}
	if err == nil {
		err = json.Unmarshal(b, &row)
	}
	c.shown = row.Card.Shown
	return err
}

func (c *course) release(int) error {
	b, err := c.reviewer(c.d).Post("/v1/approvals/"+c.held+"/answer", map[string]any{"answer": "approve", "shown_digest": c.shown})
	var out struct {
		Reply struct {
			Status     string `json:"status"`
			Credential any    `json:"undo_credential"`
		} `json:"reply"`
	}
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err == nil && out.Reply.Status != "done" {
		err = fmt.Errorf("%.300s", b)
	}
	c.credential = out.Reply.Credential
	return err
}

func (c *course) deleted(of, dir string) func(int) error {
	return func(i int) error {
		if err := c.hold(of, dir, i); err != nil {
			return err
		}
		return c.release(i)
	}
}

func (c *course) undoLast(int) error {
	b, err := c.d.Post("/v1/undo", map[string]any{"credential": c.credential})
	if err == nil && !strings.Contains(string(b), `"status":"done"`) {
		err = fmt.Errorf("%.300s", b)
	}
	return err
}

func (c *course) crowdFiles(int) error {
	for i := range 64 {
		for _, dir := range []string{c.root, c.work} {
			if _, err := c.file(dir, fmt.Sprintf("crowd-%02d.txt", i), 4<<10); err != nil {
				return err
			}
		}
	}
	return nil
}

// crowd is many callers at once, each with a file of its own: of five calls one is an edit.
func (c *course) crowd(callers, calls int) error {
	failed := make(chan error, callers)
	var mu sync.Mutex
	var g sync.WaitGroup
	for k := range callers {
		g.Go(func() {
			path := filepath.Join(c.root, fmt.Sprintf("crowd-%02d.txt", k))
			for i := range calls / callers {
				if i%5 < 4 {
					if _, err := c.d.View(path); err != nil {
						failed <- err
						return
					}
					continue
				}
				mu.Lock()
				n := c.revised[path]
				c.revised[path]++
				mu.Unlock()
				began := time.Now()
				r, err := c.call("edit_file", map[string]any{"path": path, "old_string": rev(n), "new_string": rev(n + 1)})
				if err != nil {
					failed <- err
					return
				}
				mu.Lock()
				c.tail("holdpoint", time.Since(began))
				c.credentials[path] = r["undo_credential"]
				c.edits[path]++
				mu.Unlock()
			}
		})
	}
	g.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// crowdFS sends the same to the reference server.
func (c *course) crowdFS(int) error { return c.flood(c.fs, c.work) }

// flood sends the same over one pipe, in waves of 64.
func (c *course) flood(to *drive.Stdio, dir string) error {
	for wave := range 10 {
		var views, edits [][3]string
		for k := range 64 {
			path := filepath.Join(dir, fmt.Sprintf("crowd-%02d.txt", k))
			if wave%5 < 4 {
				views = append(views, [3]string{path})
				continue
			}
			n := c.revised[path]
			c.revised[path]++
			edits = append(edits, [3]string{path, rev(n), rev(n + 1)})
		}
		took, err := to.Flood(views, edits)
		if err != nil {
			return err
		}
		c.tail(to.Name(), took...)
	}
	return nil
}

func (c *course) checkpoint(dir string) side {
	s := c.shell("git add -A; commit", dir, "git add -A && git -c user.name=a -c user.email=a@b.c commit -q --allow-empty --no-verify -m x")
	s.before = func(i int) error {
		return os.WriteFile(filepath.Join(c.root, dir, "d000", "f000001.txt"), fmt.Appendf(nil, "step %d\n", i), 0o644)
	}
	return s
}

// restore takes ten edits back, in one call or in one each, and has git take ten changes back.
func (c *course) restore(dir string, once bool) []side {
	var paths []string
	ours := side{name: "holdpoint", before: func(int) error {
		paths = paths[:0]
		for i := range 10 {
			s := c.editBy(c.d, c.root, 4<<10)
			if err := s.before(i); err != nil {
				return err
			}
			if err := s.do(i); err != nil {
				return err
			}
		}
		for p := range c.credentials {
			paths = append(paths, p)
		}
		return nil
	}, do: func(int) error {
		if once {
			return c.undoAll(paths)
		}
		for _, p := range paths {
			c.credential = c.credentials[p]
			if err := c.undoLast(0); err != nil {
				return err
			}
			c.revised[p]--
			delete(c.credentials, p)
		}
		return nil
	}}
	git := c.shell("git restore; clean", dir, "git restore . && git clean -fdq")
	git.before = func(i int) error {
		for k := range 10 {
			if err := os.WriteFile(filepath.Join(c.root, dir, "d001", fmt.Sprintf("f%06d.txt", 100+k)), fmt.Appendf(nil, "step %d\n", i), 0o644); err != nil {
				return err
			}
		}
		return nil
	}
	return []side{ours, git}
}

// inProcess runs the benchmark of the inner loop.
func (c *course) inProcess() (float64, error) {
	b, err := exec.Command("go", "test", "-run", "^$", "-bench", "PreflightEdit", "-benchtime", "1s", "./internal/flow").CombinedOutput()
	m := regexp.MustCompile(`BenchmarkPreflightEdit\S*\s+\d+\s+(\d+) ns/op`).FindSubmatch(b)
	if err != nil || m == nil {
		return 0, fmt.Errorf("go test -bench: %w %.300s", err, b)
	}
	ns, err := strconv.ParseFloat(string(m[1]), 64)
	return ns / 1e3, err
}
