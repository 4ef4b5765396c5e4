package flow

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"holdpoint/fileops"
	"holdpoint/internal/rooted"
	"holdpoint/op"
	"holdpoint/preflight"
	"holdpoint/protected"
)

// seenPath is what was seen of one path, or why nothing was.
type seenPath struct {
	target    op.Target
	available bool
	err       error
}

// seeAll looks at each path, with one worker a core; the answers stand in the order of
// the paths. What the paths have in common is read once.
func (w *Workspace) seeAll(ctx context.Context, paths []string) []seenPath {
	out := make([]seenPath, len(paths))
	m := &sharedMarks{Workspace: w, dirs: map[op.Path]dirMarks{}, heads: map[op.Path]bool{}}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(paths)) {
		wg.Go(func() {
			sweep := w.Root.Sweep()
			defer sweep.Close()
			for i := int(next.Add(1)) - 1; i < len(paths); i = int(next.Add(1)) - 1 {
				out[i] = w.seeOne(ctx, sweep, m, paths[i])
			}
		})
	}
	wg.Wait()
	return out
}

func (w *Workspace) seeOne(ctx context.Context, sweep *rooted.Sweep, m preflight.Glancer, path string) (seen seenPath) {
	seen.target, seen.available, seen.err = preflight.Glance(ctx, w.Root, sweep, m, op.Subject{Arg: "paths", Asked: path, Role: op.RoleTarget, Follow: true})
	return seen
}

// sharedMarks answers for many paths of one call as Workspace does for one, and reads the
// ignore files of each directory once. It is made for one call and forgotten with it.
type sharedMarks struct {
	*Workspace
	mu    sync.Mutex // guards what follows
	dirs  map[op.Path]dirMarks
	heads map[op.Path]bool // directories that hold a HEAD
}

type dirMarks struct {
	scope   *protected.Scope
	ignored bool
}

// Ignored tells whether git would ignore the path.
func (m *sharedMarks) Ignored(ctx context.Context, p op.Path, dir bool) bool {
	if p == "." {
		return false
	}
	in := m.dir(ctx, p.Parent())
	return in.ignored || in.scope.Ignores(string(p), dir)
}

func (m *sharedMarks) dir(ctx context.Context, p op.Path) dirMarks {
	m.mu.Lock()
	known, ok := m.dirs[p]
	m.mu.Unlock()
	if ok {
		return known
	}
	var d dirMarks
	if p == "." {
		d.scope = d.scope.Within("", m.excludes).Within("", m.lines(ctx, ".git/info/exclude")).Within("", m.lines(ctx, ".gitignore"))
	} else if d = m.dir(ctx, p.Parent()); !d.ignored {
		d.ignored = d.scope.Ignores(string(p), true)
		d.scope = d.scope.Within(string(p), m.lines(ctx, p.Join(".gitignore")))
	}
	m.mu.Lock()
	m.dirs[p] = d
	m.mu.Unlock()
	return d
}

func (m *sharedMarks) lines(ctx context.Context, file op.Path) []string {
	b := m.small(ctx, file)
	if b == nil {
		return nil
	}
	return strings.Split(string(b), "\n")
}

// ShapesRepository asks in full only where a HEAD stands on the way, or would.
func (m *sharedMarks) ShapesRepository(ctx context.Context, p op.Path) bool {
	for dir, child := p.Parent(), p.Base(); ; dir, child = dir.Parent(), dir.Base() {
		if child == "HEAD" || m.head(ctx, dir) {
			return m.Workspace.ShapesRepository(ctx, p)
		}
		if dir == "." {
			return false
		}
	}
}

func (m *sharedMarks) head(ctx context.Context, dir op.Path) bool {
	m.mu.Lock()
	known, ok := m.heads[dir]
	m.mu.Unlock()
	if ok {
		return known
	}
	is := m.there(ctx, dir.Join("HEAD"))
	m.mu.Lock()
	m.heads[dir] = is
	m.mu.Unlock()
	return is
}

// Describe words what all bytes of a file are.
func (m *sharedMarks) Describe(b []byte) op.TextFacts { return fileops.Describe(b) }

var _ preflight.Glancer = (*sharedMarks)(nil)
