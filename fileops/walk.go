package fileops

import (
	"context"
	"runtime"
	"strings"
	"sync"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// treeOptions says what a walk passes over.
type treeOptions struct {
	Hidden  bool                            // also names that begin with a dot
	Ignored bool                            // also what git would ignore, and .git itself
	Globals []string                        // ignore lines that hold in every repository
	Rules   Rules                           // without a line; nil: nothing is ignored
	Scope   Rules                           // what counts before the first directory's own files
	Exclude Rules                           // of the call: names that are left out with all below them
	Depth   int64                           // levels; 0 is all of them
	After   string                          // a path relative to the directory: it and what comes before are left out
	Few     int                             // names that are likely asked for; 0 is many
	From    bool                            // After itself is not left out
	Closed  func(op.Path)                   // told of directories that could not be read; may be nil
	Opened  func(rel string, d *rooted.Dir) // told of each directory before its names are read, by several goroutines; may be nil
	Base    string                          // path of the directory from the root, "" for the root
}

// ahead bounds how many names are read before they are asked for. Of a page those beyond
// its end were read in vain, and a thousand are enough to keep the cores busy.
func (o *treeOptions) ahead() int {
	if o.Few > 0 {
		return min(o.Few, 1<<10)
	}
	return 32 << 10
}

// deepest ends a walk that goes deeper than any path can be spelled.
const deepest = 512

// traverse calls fn for all that lies below a directory, in path order: names by their
// bytes, a directory before what it holds. Directories are read by all cores, ahead of
// fn; fn runs in the caller's goroutine and ends the walk by an error. Nothing of it is
// left running when it returns.
func traverse(ctx context.Context, b *rooted.Below, o treeOptions, fn func(dir string, f rooted.Found) error) error {
	ctx, cancel := context.WithCancel(ctx)
	w := &traversal{ctx: ctx, below: b, o: o}
	w.wake.L = &w.mu
	top := &branch{scope: o.Scope, depth: 1}
	if o.After != "" {
		top.after = strings.Split(o.After, "/")
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer w.stop()
	defer cancel()
	w.read(top)
	if top.err != nil {
		return top.err
	}
	for range runtime.GOMAXPROCS(0) {
		wg.Go(w.work)
	}
	return w.visit(top, fn)
}

// branch is one directory of a walk.
type branch struct {
	dir   string // relative to where the walk began, "" for that
	scope Rules
	depth int64
	after []string // of the cursor: names from here on

	state state // guarded by traversal.mu, as are the next two until state is ready
	names []name
	err   error
}

type name struct {
	rooted.Found
	shown bool
	child *branch // of a directory that is entered
}

type state uint8

const (
	waiting state = iota
	running
	ready
)

type traversal struct {
	ctx   context.Context
	below *rooted.Below
	o     treeOptions

	mu    sync.Mutex
	wake  sync.Cond // a branch became ready, or there is room, or more to do, or an end
	stack []*branch // to read, the next one in path order last; guarded by mu
	held  int       // names that were read and not visited; guarded by mu
	ended bool      // guarded by mu
}

// work reads directories until the walk ends.
func (w *traversal) work() {
	for {
		w.mu.Lock()
		for !w.ended && (len(w.stack) == 0 || w.held > w.o.ahead()) {
			w.wake.Wait()
		}
		if w.ended {
			w.mu.Unlock()
			return
		}
		b := w.stack[len(w.stack)-1]
		w.stack = w.stack[:len(w.stack)-1]
		if b.state != waiting {
			w.mu.Unlock()
			continue
		}
		b.state = running
		w.mu.Unlock()
		w.read(b)
	}
}

func (w *traversal) stop() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.wake.Broadcast()
}

// need makes a branch ready: by hand when no worker came to it.
func (w *traversal) need(b *branch) {
	w.mu.Lock()
	if b.state == waiting {
		b.state = running
		w.mu.Unlock()
		w.read(b)
		return
	}
	for b.state != ready {
		w.wake.Wait()
	}
	w.mu.Unlock()
}

// read fills a branch in and puts the directories in it on the stack.
func (w *traversal) read(b *branch) {
	names, err := w.list(b)
	w.mu.Lock()
	b.names, b.err, b.state = names, err, ready
	w.held += len(names)
	for i := len(names) - 1; i >= 0; i-- {
		if c := names[i].child; c != nil {
			w.stack = append(w.stack, c)
		}
	}
	w.mu.Unlock()
	w.wake.Broadcast()
}

func (w *traversal) visit(b *branch, fn func(dir string, f rooted.Found) error) error {
	left := len(b.names)
	for i := range b.names {
		n := &b.names[i]
		if i%256 == 255 {
			if w.ctx.Err() != nil {
				return op.Fail(op.Cancelled, "cancelled while walking").Because(w.ctx.Err())
			}
			w.visited(256)
			left -= 256
		}
		if n.shown {
			if err := fn(b.dir, n.Found); err != nil {
				return err
			}
		}
		if n.child == nil {
			continue
		}
		c := n.child
		n.child = nil // what was visited need not be kept
		w.need(c)
		if c.err != nil {
			if err := w.shut(c); err != nil {
				return err
			}
			continue
		}
		if err := w.visit(c, fn); err != nil {
			return err
		}
	}
	w.visited(left)
	return nil
}

// visited makes room for more names to be read.
func (w *traversal) visited(names int) {
	w.mu.Lock()
	w.held -= names
	w.mu.Unlock()
	w.wake.Broadcast()
}

// shut passes over a directory that went away or was swapped, and tells of one that
// cannot be read. Only an end of the call ends the walk.
func (w *traversal) shut(b *branch) error {
	switch op.AsError(b.err).Code {
	case op.Cancelled:
		return b.err
	case op.NotFound, op.NotADirectory, op.SymlinkRefused, op.OutsideWorkspace:
		return nil
	}
	if w.o.Closed != nil {
		w.o.Closed(w.below.Path.Join(b.dir))
	}
	return nil
}

// list reads one directory and leaves out what the walk passes over.
func (w *traversal) list(b *branch) ([]name, error) {
	d, err := w.below.Dir(b.dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if w.o.Opened != nil {
		w.o.Opened(b.dir, d)
	}
	found, err := d.Names(w.ctx)
	if err != nil {
		return nil, err
	}
	if !w.o.Ignored && w.o.Rules != nil {
		w.rules(b, d, found)
	}
	prefix := b.dir // as the caller's patterns see it
	if prefix != "" {
		prefix += "/"
	}
	whole := prefix // as the ignore files see it
	if w.o.Base != "" && w.o.Base != "." {
		whole = w.o.Base + "/" + prefix
	}
	out := make([]name, 0, len(found))
	for _, f := range found {
		n := name{Found: f, shown: true}
		dir := f.Kind == op.Directory
		var after []string
		if len(b.after) > 0 {
			switch c := strings.Compare(f.Name, b.after[0]); {
			case c < 0:
				continue
			case c == 0:
				after = b.after[1:]
				n.shown = w.o.From && len(after) == 0
			}
		}
		switch {
		case !w.o.Hidden && f.Name[0] == '.':
			continue
		case !w.o.Ignored && f.Name == ".git":
			continue
		case b.scope != nil && !w.o.Ignored && b.scope.Ignores(whole+f.Name, dir):
			continue
		case w.o.Exclude != nil && w.o.Exclude.Ignores(prefix+f.Name, dir):
			continue
		}
		if dir && (w.o.Depth == 0 || b.depth < w.o.Depth) && b.depth < deepest {
			n.child = &branch{dir: prefix + f.Name, scope: b.scope, depth: b.depth + 1, after: after}
		}
		if n.shown || n.child != nil {
			out = append(out, n)
		}
	}
	return out, nil
}

// rules adds the ignore files that stand in a directory. One that is a repository of its
// own has its own rules, as git has it.
func (w *traversal) rules(b *branch, d *rooted.Dir, found []rooted.Found) {
	at := w.o.Base
	if at == "." {
		at = ""
	}
	if b.dir != "" {
		at = strings.TrimPrefix(at+"/"+b.dir, "/")
	}
	for _, f := range found {
		switch {
		case f.Name == ".git" && at != "":
			b.scope = w.o.Rules.Within(at, w.o.Globals).Within(at, w.exclude(b.dir, f.Kind))
		case f.Name == ".git":
			b.scope = b.scope.Within(at, w.exclude(b.dir, f.Kind))
		case f.Name == ".gitignore" && f.Kind == op.File:
			b.scope = b.scope.Within(at, lines(d.Small(".gitignore", maxIgnoreFile)))
		}
	}
}

// maxIgnoreFile bounds a file of ignore lines, in bytes; a larger one does not count.
const maxIgnoreFile = 1 << 20

func (w *traversal) exclude(dir string, kind op.Kind) []string {
	if kind != op.Directory {
		return nil // a worktree or a submodule: its common directory lies elsewhere
	}
	return excludeFile(w.below, dir)
}

func lines(b []byte) []string {
	if len(b) == 0 {
		return nil
	}
	return strings.Split(string(b), "\n")
}
