package fileops

import (
	"context"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// Entry is one name of a listing. Mode and time are there when they were asked for.
type Entry struct {
	Path op.Path    `json:"path"`
	Type op.Kind    `json:"type"`
	Size Bytes      `json:"size,omitzero"`
	Mode string     `json:"mode,omitempty"`
	Time *time.Time `json:"time,omitempty"`
}

// Bytes is a size; one below zero was not looked for, and is left out.
type Bytes int64

// IsZero tells that there is nothing to write.
func (b Bytes) IsZero() bool { return b < 0 }

// Totals sums up all that a listing covers, not only the page.
type Totals struct {
	Files       int64 `json:"files"`
	Directories int64 `json:"directories"`
	Others      int64 `json:"others"`
	Bytes       int64 `json:"bytes"`
}

// listing is what list_directory and file_tree have in common.
type listing struct {
	treeOptions
	glob    string
	include []string
	exclude []string
	page    string
	size    int
	count   bool // all of them, though only a page is shown
	stats   bool
	only    bool  // names, without a look at each
	names   int64 // to look at, at most
	limit   time.Duration
}

func list(ctx context.Context, s Scene, a *op.ListArgs) (map[string]any, error) {
	l := listing{glob: a.Pattern, page: a.Page, size: int(op.Or(a.PageSize, defaultPage)), count: true, names: maxListed, limit: defaultTime * time.Millisecond}
	l.treeOptions = treeOptions{Hidden: a.ShowHidden, Ignored: true, Depth: op.Or(a.Depth, 1)}
	return l.answer(ctx, s)
}

func tree(ctx context.Context, s Scene, a *op.TreeArgs) (map[string]any, error) {
	l := listing{glob: a.Pattern, include: a.Include, exclude: a.Exclude, page: a.Page, size: int(op.Or(a.PageSize, 1000)), count: a.Stats, stats: a.Stats, only: a.NamesOnly && !a.Stats,
		names: op.Or(a.MaxFiles, defaultFiles), limit: time.Duration(op.Or(a.TimeoutMS, defaultTime)) * time.Millisecond}
	l.treeOptions = treeOptions{Hidden: a.ShowHidden, Ignored: a.IncludeIgnored, Depth: op.Or(a.Depth, 0)}
	return l.answer(ctx, s)
}

const (
	defaultPage = 200     // entries of a page of list_directory when the caller does not say
	maxListed   = 200_000 // names that one listing of a directory looks at before it says so
)

// answer lists a page. The order is that of paths: names by their bytes, a directory
// before what it holds. The cursor is the wire form of the last path shown: names that
// come or go between two pages neither repeat nor hide others.
func (l *listing) answer(ctx context.Context, s Scene) (map[string]any, error) {
	t, n := s.Targets[0], s.Nodes[0]
	switch {
	case !t.Exists:
		return nil, op.Fail(op.NotFound, "there is nothing at this path").At(t.Path).Do("list . to see what is there")
	case t.Kind != op.Directory:
		return nil, op.Fail(op.NotADirectory, "this is a "+string(t.Kind)).At(t.Path).Do("use view_file")
	}
	l.Rules = s.Rules
	pick, err := l.picker()
	if err != nil {
		return nil, err
	}
	var cursor string
	if cursor, err = l.cursor(t.Path); err != nil {
		return nil, err
	}
	if l.Globals = s.Globals; !l.Ignored {
		if l.Scope, err = scopeAt(ctx, s, t.Path); err != nil {
			return nil, err
		}
	}
	if l.Base = string(t.Path); !l.count {
		l.After, l.Few = cursor, l.size // what comes before need not even be read
	}
	var closed []string
	l.Closed = func(p op.Path) {
		if len(closed) < maxSkipped {
			closed = append(closed, op.Escape(string(p)))
		}
	}
	below, err := n.Below()
	if err != nil {
		return nil, err
	}
	defer below.Close()
	timed, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	p := pageOf{listing: l, below: below, cursor: cursor, pick: pick, entries: make([]Entry, 0, l.size), dirs: make([]string, 0, l.size)}
	err = traverse(timed, below, l.treeOptions, p.take)
	switch {
	case ctx.Err() != nil:
		return nil, op.Fail(op.Cancelled, "the listing was cancelled").At(t.Path).Because(ctx.Err())
	case timed.Err() != nil:
		p.truncated = "time"
	case err != nil && err != errEnough:
		return nil, err
	}
	if err := p.look(ctx); err != nil {
		return nil, err
	}
	return p.words(t.Path, closed), nil
}

// cursor gives the path to go on behind, relative to the directory.
func (l *listing) cursor(dir op.Path) (string, error) {
	if l.page == "" {
		return "", nil
	}
	after, err := op.Unescape(l.page)
	if err != nil || op.Escape(after) != l.page || !op.Path(after).Within(dir) {
		return "", op.Fail(op.BadRequest, "page is not a cursor of this listing").In("args.page").Do("give next of the page before, unchanged")
	}
	if dir == "." {
		return after, nil
	}
	return strings.TrimPrefix(after, string(dir)+"/"), nil
}

// picker tells which names are shown.
func (l *listing) picker() (func(rel string, f rooted.Found) bool, error) {
	if _, err := MatchGlob(l.glob, "x"); err != nil {
		return nil, err
	}
	var err error
	if l.Exclude, err = patterns(l.Rules, l.exclude, "args.exclude"); err != nil {
		return nil, err
	}
	only, err := patterns(l.Rules, l.include, "args.include")
	if err != nil {
		return nil, err
	}
	if l.glob == "" && only == nil {
		return func(string, rooted.Found) bool { return true }, nil
	}
	return func(rel string, f rooted.Found) bool {
		ok, _ := MatchGlob(l.glob, f.Name)
		return ok && covers(only, rel, f.Kind == op.Directory)
	}, nil
}

// pageOf collects the page under way.
type pageOf struct {
	*listing
	below  *rooted.Below
	cursor string
	pick   func(rel string, f rooted.Found) bool

	seen      int64
	total     int64
	entries   []Entry
	dirs      []string // of each entry: the directory it lies in, relative
	totals    Totals
	more      bool
	truncated string
	dir       *rooted.Dir // the last one looked at, for totals
	dirName   string
}

func (p *pageOf) take(dir string, f rooted.Found) error {
	if p.seen++; p.seen > p.names {
		p.truncated = "files"
		return errEnough
	}
	rel := f.Name
	if dir != "" {
		rel = dir + "/" + rel
	}
	if !p.pick(rel, f) {
		return nil
	}
	p.total++
	if p.stats {
		p.sum(dir, f)
	}
	switch {
	case p.count && p.cursor != "" && comparePaths(rel, p.cursor) <= 0:
	case len(p.entries) < p.size:
		p.entries, p.dirs = append(p.entries, Entry{Path: p.below.Path.Join(rel), Type: f.Kind, Size: -1}), append(p.dirs, dir)
	default:
		if p.more = true; !p.count {
			return errEnough
		}
	}
	return nil
}

// sum adds to the totals, which need a look at each file.
func (p *pageOf) sum(dir string, f rooted.Found) {
	switch f.Kind {
	case op.Directory:
		p.totals.Directories++
		return
	case op.File:
		p.totals.Files++
	default:
		p.totals.Others++
		return
	}
	if p.dir == nil || p.dirName != dir {
		p.shut()
		d, err := p.below.Dir(dir)
		if err != nil {
			return
		}
		p.dir, p.dirName = d, dir
	}
	if info, err := p.dir.Info(f.Name); err == nil {
		p.totals.Bytes += info.Size
	}
}

func (p *pageOf) shut() {
	if p.dir != nil {
		p.dir.Close()
		p.dir = nil
	}
}

// look adds what only a look at the things themselves tells, for the page alone, with all
// cores. What went away since is left out.
func (p *pageOf) look(ctx context.Context) error {
	if p.shut(); p.only {
		return nil
	}
	var wg sync.WaitGroup
	part := max(256, (len(p.entries)+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0))
	for begin := 0; begin < len(p.entries); begin += part {
		wg.Go(func() { p.lookAt(ctx, begin, min(begin+part, len(p.entries))) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		return op.Fail(op.Cancelled, "the listing was cancelled").Because(ctx.Err())
	}
	p.entries = slices.DeleteFunc(p.entries, func(e Entry) bool { return e.Type == op.Absent })
	return nil
}

func (p *pageOf) lookAt(ctx context.Context, begin, end int) {
	var dir *rooted.Dir
	defer func() {
		if dir != nil {
			dir.Close()
		}
	}()
	for i := begin; i < end && ctx.Err() == nil; i++ {
		e := &p.entries[i]
		if i == begin || p.dirs[i] != p.dirs[i-1] {
			if dir != nil {
				dir.Close()
			}
			dir, _ = p.below.Dir(p.dirs[i])
		}
		e.Type = op.Absent
		if dir == nil {
			continue
		}
		info, err := dir.Info(e.Path.Base())
		if err != nil {
			continue
		}
		e.Type, e.Size = info.Kind, Bytes(info.Size)
		if p.stats {
			when := info.Mtime.UTC()
			e.Mode, e.Time = info.ModeString(), &when
		}
	}
}

func (p *pageOf) words(at op.Path, closed []string) map[string]any {
	entries := p.entries
	if entries == nil {
		entries = []Entry{}
	}
	out := map[string]any{"path": op.Escape(string(at)), "entries": entries}
	if p.more || p.truncated != "" {
		if out["truncated"] = "page"; p.truncated != "" {
			out["truncated"] = p.truncated
		}
		if len(entries) > 0 {
			out["next"] = op.Escape(string(entries[len(entries)-1].Path))
		}
		out["more"] = true
	}
	if p.count || p.page == "" && !p.more && p.truncated == "" {
		out["total"] = p.total
	}
	if p.stats {
		out["totals"] = p.totals
	}
	if closed != nil {
		out["unreadable"] = closed
	}
	return out
}

// comparePaths orders paths as a walk meets them: name by name, a directory before what
// it holds.
func comparePaths(a, b string) int {
	for {
		x, restA, moreA := strings.Cut(a, "/")
		y, restB, moreB := strings.Cut(b, "/")
		switch c := strings.Compare(x, y); {
		case c != 0:
			return c
		case !moreA && !moreB:
			return 0
		case !moreA:
			return -1
		case !moreB:
			return 1
		}
		a, b = restA, restB
	}
}

// maxNamePattern bounds a pattern that is compared with names, in bytes.
const maxNamePattern = 4096

// MatchGlob reports whether a name (not a path) matches a pattern of *, ?, [a-z] and
// backslash. The empty pattern matches every name. A slash in it, or an open bracket, is
// bad_request.
func MatchGlob(pattern, name string) (bool, error) {
	if pattern == "" {
		return true, nil
	}
	if strings.Contains(pattern, "/") {
		return false, op.Fail(op.BadRequest, "the pattern has a slash").In("args.pattern").Do("it is compared with names, not with paths: give the directory as path, and depth to go down")
	}
	if len(pattern) > maxNamePattern {
		return false, op.Fail(op.TooLarge, "the pattern is over 4,096 bytes").In("args.pattern")
	}
	ok, err := path.Match(pattern, name)
	if err != nil {
		return false, op.Fail(op.BadRequest, "the pattern is malformed").In("args.pattern").Do("close each bracket; a backslash takes the next character as it is").Because(err)
	}
	return ok, nil
}
