package fileops

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

const (
	modeContent = "content"
	modeFiles   = "files"
	modeCount   = "count"
)

const (
	defaultTime  = 10_000    // milliseconds of a search or a tree
	defaultFiles = 1_000_000 // names looked at
	maxReply     = 1 << 20   // bytes of text in one reply
	maxSkipped   = 20        // files named under skipped
)

// errEnough ends a walk whose budget is spent; it never leaves the package.
var errEnough = errors.New("enough")

// searcher is one search under way.
type searcher struct {
	p          *pattern
	mode       string
	context    int
	results    int
	resume     op.Path // of the cursor: the file to go on in, after resumeLine
	resumeLine int64
	below      *rooted.Below
}

// job is a run of files of one directory.
type job struct {
	dir   string
	names []string
	found []found
	ready chan struct{}
}

// answer is what a search found so far.
type answer struct {
	matches   []Match
	files     int64
	count     int64
	size      int
	read      int64
	cut       bool
	skipped   map[string]int64
	named     []map[string]any
	closed    int64
	last      string // cursor behind what was taken
	truncated string
}

// search answers search_files.
func search(ctx context.Context, s Scene, a *op.SearchArgs) (map[string]any, error) {
	t, n := s.Targets[0], s.Nodes[0]
	p, err := newPattern(a)
	if err != nil {
		return nil, err
	}
	if t.Kind != op.Directory {
		if err := regular(t); err != nil {
			return nil, err
		}
	}
	r := &searcher{p: p, mode: a.Mode, context: int(op.Or(a.Context, 0)), results: int(op.Or(a.MaxResults, 200))}
	if r.mode == "" {
		r.mode = modeContent
	}
	pick, err := picker(s.Rules, a)
	if err != nil {
		return nil, err
	}
	after, err := r.cursor(a.Page, t)
	if err != nil {
		return nil, err
	}
	o := treeOptions{Rules: s.Rules, Hidden: a.ShowHidden, Ignored: a.IncludeIgnored, Globals: s.Globals, After: after, From: r.resumeLine > 0, Base: string(t.Path)}
	if o.Exclude, err = patterns(s.Rules, a.Exclude, "args.exclude"); err != nil {
		return nil, err
	}
	ans := &answer{skipped: map[string]int64{}, last: a.Page, matches: []Match{}}
	o.Closed = func(op.Path) { ans.closed++ }
	from := func(ctx context.Context, give func(dir string, f rooted.Found) error) error {
		return traverse(ctx, r.below, o, give)
	}
	if t.Kind == op.Directory {
		if o.Scope, err = scopeAt(ctx, s, t.Path); err != nil {
			return nil, err
		}
		r.below, err = n.Below()
	} else {
		r.below, err = parentOf(n)
		from = func(_ context.Context, give func(dir string, f rooted.Found) error) error {
			return give("", rooted.Found{Name: t.Path.Base(), Kind: op.File})
		}
		pick = func(string, string) bool { return true }
	}
	if err != nil {
		return nil, err
	}
	defer r.below.Close()
	limit := time.Duration(op.Or(a.TimeoutMS, defaultTime)) * time.Millisecond
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = r.run(timed, from, pick, op.Or(a.MaxFiles, defaultFiles), op.Or(a.MaxBytes, 0), ans)
	switch {
	case ctx.Err() != nil:
		return nil, op.Fail(op.Cancelled, "the search was cancelled").At(t.Path).Because(ctx.Err())
	case ans.truncated == "" && timed.Err() != nil:
		ans.truncated = "time"
	case err != nil && timed.Err() == nil:
		return nil, err
	}
	return ans.words(), nil
}

func parentOf(n *rooted.Node) (*rooted.Below, error) {
	dir, err := n.Parent()
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Below()
}

// cursor reads "LINE:PATH": the lines of PATH up to LINE were shown; "*" for the line
// means all of it. It gives the path relative to where the search begins.
func (r *searcher) cursor(page string, t op.Target) (after string, err error) {
	if page == "" {
		return "", nil
	}
	bad := op.Fail(op.BadRequest, "page is not a cursor of this search").In("args.page").Do("give next of the page before, unchanged, with the same arguments")
	line, wire, ok := strings.Cut(page, ":")
	path, err := op.Unescape(wire)
	if !ok || err != nil || path == "" || op.Escape(path) != wire || !op.Path(path).Within(t.Path) {
		return "", bad
	}
	if line != "*" {
		r.resume = op.Path(path)
		if r.resumeLine, err = strconv.ParseInt(line, 10, 64); err != nil || r.resumeLine < 1 {
			return "", bad
		}
	}
	if t.Kind != op.Directory || t.Path == "." {
		return path, nil
	}
	return strings.TrimPrefix(path, string(t.Path)+"/"), nil
}

// run walks, searches on all cores and takes what was found in path order. Nothing of it
// is left running when it returns.
func (r *searcher) run(ctx context.Context, from func(context.Context, func(string, rooted.Found) error) error, pick func(dir, name string) bool, maxFiles, maxBytes int64, ans *answer) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	workers := runtime.GOMAXPROCS(0)
	todo, order := make(chan *job, 4*workers), make(chan *job, 16*workers)
	for range workers {
		wg.Go(func() {
			e := r.eye()
			for j := range todo {
				r.do(ctx, e, j)
				close(j.ready)
			}
		})
	}
	var walked error
	var spent bool
	wg.Go(func() {
		defer close(order)
		defer close(todo)
		walked, spent = r.deal(ctx, from, pick, maxFiles, todo, order)
	})
	for j := range order {
		select {
		case <-j.ready:
		case <-ctx.Done():
			return nil
		}
		for _, f := range j.found {
			if !f.done {
				return nil // the time is over, or a worker knew that no more is wanted
			}
			if r.take(f, ans) {
				return nil
			}
			if maxBytes > 0 && ans.read >= maxBytes {
				ans.truncated = "bytes"
				return nil
			}
		}
	}
	if spent {
		ans.truncated = "files"
	}
	return walked
}

// deal hands the files of the walk out in jobs, small ones first, since a search often
// ends early.
func (r *searcher) deal(ctx context.Context, from func(context.Context, func(string, rooted.Found) error) error, pick func(dir, name string) bool, maxFiles int64, todo, order chan<- *job) (err error, spent bool) {
	var cur *job
	files, size := int64(0), 4
	send := func() error {
		if cur == nil {
			return nil
		}
		for _, ch := range []chan<- *job{order, todo} {
			select {
			case ch <- cur:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		cur, size = nil, min(64, size+2)
		return nil
	}
	err = from(ctx, func(dir string, f rooted.Found) error {
		if f.Kind != op.File || !pick(dir, f.Name) {
			return nil
		}
		if files++; files > maxFiles {
			spent = true
			return errEnough
		}
		if cur != nil && (cur.dir != dir || len(cur.names) >= size) {
			if err := send(); err != nil {
				return err
			}
		}
		if cur == nil {
			cur = &job{dir: dir, ready: make(chan struct{})}
		}
		cur.names = append(cur.names, f.Name)
		return nil
	})
	if err == nil || err == errEnough {
		return send(), spent
	}
	return err, spent
}

// do searches the files of a job. It ends early when the job alone fills a reply.
func (r *searcher) do(ctx context.Context, e *eye, j *job) {
	d, err := r.below.Dir(j.dir)
	if err != nil {
		return // it went away, and its files with it
	}
	defer d.Close()
	j.found = make([]found, 0, len(j.names))
	room, size := r.results+1, 0
	at := r.below.Path
	if j.dir != "" {
		at = at.Join(j.dir)
	}
	for _, name := range j.names {
		f := found{path: at.Join(name)}
		if ctx.Err() == nil && room > 0 && size <= maxReply {
			f = e.file(ctx, d, f.path, name, room)
		}
		if r.mode == modeContent {
			room -= len(f.shown)
		} else if f.count > 0 {
			room--
		}
		size += f.size
		j.found = append(j.found, f)
	}
}

// take adds one file to the answer; true when the reply is full.
func (r *searcher) take(f found, ans *answer) (full bool) {
	if f.skip != "" {
		ans.skipped[f.skip]++
		if len(ans.named) < maxSkipped {
			ans.named = append(ans.named, map[string]any{"path": op.Escape(string(f.path)), "why": f.skip})
		}
	}
	ans.read += f.read
	if r.mode == modeContent {
		for _, m := range f.shown {
			if full = len(ans.matches) == r.results; full {
				ans.truncated = "results"
			} else if full = len(ans.matches) > 0 && ans.size+m.size() > maxReply; full {
				ans.truncated = "output"
			}
			if full {
				return true
			}
			if n := len(ans.matches); n == 0 || ans.matches[n-1].Path != m.Path {
				ans.files++
			}
			ans.matches, ans.count, ans.size = append(ans.matches, m), ans.count+1, ans.size+m.size()
			ans.cut = ans.cut || m.Cut
			ans.last = strconv.FormatInt(m.Line, 10) + ":" + op.Escape(string(f.path))
		}
	} else if f.count > 0 {
		if len(ans.matches) == r.results {
			ans.truncated = "results"
			return true
		}
		m := Match{Path: f.path}
		if r.mode == modeCount {
			m.Count = f.count
		}
		ans.matches, ans.files, ans.count = append(ans.matches, m), ans.files+1, ans.count+f.count
	}
	ans.last = "*:" + op.Escape(string(f.path))
	return false
}

// words gives the answer as it travels.
func (ans *answer) words() map[string]any {
	out := map[string]any{"matches": ans.matches, "files": ans.files, "count": ans.count}
	if ans.closed > 0 {
		ans.skipped["directories"] = ans.closed
	}
	if len(ans.skipped) > 0 {
		skipped := map[string]any{}
		for k, v := range ans.skipped {
			skipped[k] = v
		}
		if ans.named != nil {
			skipped["paths"] = ans.named
		}
		out["skipped"] = skipped
	}
	if ans.truncated != "" {
		out["truncated"] = ans.truncated
		if ans.last != "" {
			out["next"] = ans.last
		}
	} else if ans.cut {
		out["truncated"] = "long_lines"
	}
	return out
}
