package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"holdpoint/bench/drive"
)

// place is a root with a daemon of its own, so that two sizes can be asked in turn.
type place struct {
	d    *drive.Daemon
	root string
}

// pair are two places that differ in one thing only.
type pair struct{ large, small place }

// grownRows hold a large place to a small one: what is asked of it may cost a fifth more at
// the most. The first row of each pair makes the places.
func (c *course) grownRows() (out []row) {
	const most = 1.2
	for _, p := range []struct {
		name string
		make func() (*pair, error)
	}{
		{fmt.Sprintf("%d files beside 1,000", c.files), sync.OnceValues(func() (*pair, error) { return c.pairOf(c.amongFiles, c.files, 1000) })},
		{fmt.Sprintf("%d operations of history beside 10", c.files), sync.OnceValues(func() (*pair, error) {
			return c.pairOf(func(n int) (place, error) { return c.afterHistory("after", n) }, c.files, 10)
		})},
	} {
		both := func(do func(place) side) func() ([]side, error) {
			return func() ([]side, error) {
				two, err := p.make()
				if err != nil {
					return nil, err
				}
				l, s := do(two.large), do(two.small)
				l.name, s.name = "large", "small"
				return []side{l, s}, nil
			}
		}
		out = append(out,
			row{work: "grown: an edit of 4 KiB, " + p.name, must: most, n: 300, later: both(c.grownEdit)},
			row{work: "grown: its undo, " + p.name, must: most, n: 300, later: both(c.grownUndo)},
			row{work: "grown: its facts and decision (a dry run), " + p.name, must: most, n: 300, later: both(c.grownDecision)},
			row{work: "grown: memory after all that, " + p.name, must: most, unit: "times", value: func() (float64, error) {
				two, err := p.make()
				if err != nil {
					return 0, err
				}
				time.Sleep(resting)
				return two.large.d.RSS() / two.small.d.RSS(), nil
			}},
			row{work: "grown: ready after start, " + p.name, must: most, n: 20, later: func() ([]side, error) {
				two, err := p.make()
				if err != nil {
					return nil, err
				}
				return []side{c.restarted("large", &two.large), c.restarted("small", &two.small)}, nil
			}})
	}
	return out
}

func (c *course) pairOf(of func(n int) (place, error), large, small int) (*pair, error) {
	a, err := of(large)
	if err != nil {
		return nil, err
	}
	b, err := of(small)
	return &pair{a, b}, err
}

// amongFiles is a workspace of n files.
func (c *course) amongFiles(n int) (place, error) {
	return c.servedFiles(fmt.Sprint("among", n), n)
}

// afterHistory is a workspace of 1,000 files whose journal holds n operations. They are made
// without flushes, which their number would wait for, by ten callers with a file each; the
// daemon that is measured flushes as usual.
func (c *course) afterHistory(name string, n int) (place, error) {
	name = fmt.Sprint(name, n)
	p, err := c.servedFiles(name, 1000, "HOLDPOINT_CONFIG="+filepath.Join(c.work, "relaxed.toml"))
	if err != nil {
		return place{}, err
	}
	const callers = 10
	failed := make(chan error, callers)
	for k := range callers {
		go func() {
			path := filepath.Join(p.root, fmt.Sprintf("history-%d.txt", k))
			err := os.WriteFile(path, []byte(rev(0)+"\n"), 0o644)
			for i := 0; err == nil && i < n/callers; i++ {
				err = p.d.Edit(path, rev(i), rev(i+1))
			}
			failed <- err
		}()
	}
	for range callers {
		if e := <-failed; e != nil {
			err = e
		}
	}
	if err != nil {
		return place{}, err
	}
	p.d.Stop()
	if p.d, err = c.daemon(p.root, p.d.State); err != nil {
		return place{}, err
	}
	return p, c.holdsHistory(p, n)
}

// holdsHistory makes sure that the history is there: rows of a shorter one would say nothing.
func (c *course) holdsHistory(p place, n int) error {
	b, err := p.d.Get("/v1/operations?limit=1")
	if err != nil {
		return err
	}
	var out struct {
		Operations []struct {
			Seq int64 `json:"seq"`
		} `json:"operations"`
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return err
	}
	if len(out.Operations) != 1 || out.Operations[0].Seq < int64(n) {
		return fmt.Errorf("the history is not there: %.300s", b)
	}
	return nil
}

// servedFiles makes n small files in a root of that name and serves them.
func (c *course) servedFiles(name string, n int, env ...string) (place, error) {
	root := filepath.Join(c.work, name)
	for i := range n {
		dir := filepath.Join(root, fmt.Sprintf("d%03d", i/100))
		if i%100 == 0 {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return place{}, err
			}
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%06d", i)), []byte("x\n"), 0o644); err != nil {
			return place{}, err
		}
	}
	settle()
	d, err := c.daemon(root, filepath.Join(c.work, "state-"+name), env...)
	return place{d, root}, err
}

// daemon starts one more, and stops it with all others.
func (c *course) daemon(root, state string, env ...string) (*drive.Daemon, error) {
	d, err := drive.StartDaemon(c.binary, root, state, env...)
	if err == nil {
		c.others = append(c.others, d)
	}
	return d, err
}

// edited are the calls of one place: an edit of one of ten files, and what takes it back.
type edited struct {
	c          *course
	at         place
	path       string
	credential any
}

func (e *edited) choose(i int) (err error) {
	e.path, err = e.c.file(e.at.root, fmt.Sprintf("grown-%d.txt", i%10), 4<<10)
	return err
}

func (e *edited) edit(int) error {
	n := e.c.revised[e.path]
	b, err := e.at.d.Call("edit_file", map[string]any{"path": e.path, "old_string": rev(n), "new_string": rev(n + 1)})
	if err != nil {
		return err
	}
	var r struct {
		Status     string `json:"status"`
		Credential any    `json:"undo_credential"`
	}
	if err := json.Unmarshal(b, &r); err != nil || r.Status != "done" {
		return fmt.Errorf("%w %.300s", err, b)
	}
	e.c.revised[e.path]++
	e.credential = r.Credential
	return nil
}

func (e *edited) undo(int) error {
	b, err := e.at.d.Post("/v1/undo", map[string]any{"credential": e.credential})
	if err != nil || !strings.Contains(string(b), `"status":"done"`) {
		return fmt.Errorf("%w %.300s", err, b)
	}
	e.c.revised[e.path]--
	return nil
}

// decide asks for the facts and the judgement of the same edit and changes nothing.
func (e *edited) decide(int) error {
	n := e.c.revised[e.path]
	b, err := e.at.d.Post("/v1/call", map[string]any{"op": "edit_file", "dry_run": true, "args": map[string]any{"path": e.path, "old_string": rev(n), "new_string": rev(n + 1)}})
	if err != nil || !strings.Contains(string(b), `"verdict":"auto"`) {
		return fmt.Errorf("%w %.300s", err, b)
	}
	return nil
}

func (c *course) grownEdit(p place) side {
	e := &edited{c: c, at: p}
	return side{before: e.choose, do: e.edit}
}

func (c *course) grownUndo(p place) side {
	e := &edited{c: c, at: p}
	return side{before: func(i int) error {
		if err := e.choose(i); err != nil {
			return err
		}
		return e.edit(i)
	}, do: e.undo}
}

func (c *course) grownDecision(p place) side {
	e := &edited{c: c, at: p}
	return side{before: e.choose, do: e.decide}
}

// restarted stops the daemon of a place and waits until it is ready again.
func (c *course) restarted(name string, p *place) side {
	return side{name: name, before: func(int) error { p.d.Stop(); return nil }, do: func(int) (err error) {
		p.d, err = c.daemon(p.root, p.d.State)
		return err
	}}
}

// history is how an edit's cost grows with the operations before it.
func (c *course) history() (points []point, err error) {
	for n := 10; n <= c.files; n *= 10 {
		p, err := c.afterHistory("history", n)
		if err != nil {
			return nil, fmt.Errorf("%d operations: %w", n, err)
		}
		ms, err := c.editAt(p)
		p.d.Stop()
		if err != nil {
			return nil, err
		}
		points = append(points, point{float64(n), ms})
	}
	return points, nil
}

// editAt gives the median of an edit in a place, in milliseconds.
func (c *course) editAt(p place) (float64, error) {
	e := &edited{c: c, at: p}
	var took drive.Samples
	for i := range 60 {
		if err := e.choose(i); err != nil {
			return 0, err
		}
		began := time.Now()
		if err := e.edit(i); err != nil {
			return 0, err
		}
		took = append(took, float64(time.Since(began).Nanoseconds())/1e6)
	}
	return took.At(.5), nil
}
