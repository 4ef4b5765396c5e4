package flow

import (
	"context"
	"path"
	"slices"
	"strings"

	"holdpoint/internal/rooted"
	"holdpoint/op"
	"holdpoint/protected"
)

// patternFile is the workspace's own list of protected patterns; it only adds.
const patternFile = ".holdpoint-protect"

// maxPatternFile bounds ignore and pattern files, in bytes; what lies beyond is not read.
const maxPatternFile = 1 << 20

// Protected judges one name by the built-in list, the operator's and the workspace's.
func (w *Workspace) Protected(p op.Path, dir bool) (by, from string) {
	w.mu.Lock()
	set := w.set
	w.mu.Unlock()
	m := set.Mark(p, dir)
	if !m.Protected {
		return "", ""
	}
	return m.By, m.From
}

// belowKey is what the names below a directory are known by: its path and its manifest, which
// says the path and the kind of each.
type belowKey struct {
	dir      op.Path
	manifest op.Digest
}

// belowMark is the first protected name below a directory; by is empty where none is.
type belowMark struct {
	at       op.Path
	by, from string
}

// maxBelow bounds the directories whose names were judged; past it all are forgotten.
const maxBelow = 256

// ProtectedBelow judges all names below a directory, once for each manifest: a call that was
// held is looked at again before it runs, and mostly nothing has changed.
func (w *Workspace) ProtectedBelow(dir op.Path, manifest op.Digest, list []op.Beneath) (at op.Path, by, from string) {
	w.mu.Lock()
	set := w.set
	m, known := w.below[belowKey{dir, manifest}]
	w.mu.Unlock()
	if !known {
		m = firstProtected(set, list)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.set == set { // else the lists changed meanwhile
			if w.below == nil || len(w.below) >= maxBelow {
				w.below = map[belowKey]belowMark{}
			}
			w.below[belowKey{dir, manifest}] = m
		}
	}
	return m.at, m.by, m.from
}

func firstProtected(set *protected.Set, list []op.Beneath) belowMark {
	for _, one := range list {
		if m := set.Mark(one.Path, one.Kind == op.Directory); m.Protected {
			return belowMark{one.Path, m.By, m.From}
		}
	}
	return belowMark{}
}

// heldNames are the protected names that can be held before they are there.
func (w *Workspace) heldNames() []string {
	w.mu.Lock()
	set := w.set
	w.mu.Unlock()
	return set.Literal()
}

// Sensitive judges name and content.
func (w *Workspace) Sensitive(p op.Path, head []byte) bool { return protected.Sensitive(p, head) }

// Ignored asks the ignore files on the way, as they are now.
func (w *Workspace) Ignored(ctx context.Context, p op.Path, dir bool) bool {
	if p == "." {
		return false
	}
	var files []ignoreText
	add := func(at op.Path, file op.Path) {
		if b := w.small(ctx, file); len(b) > 0 {
			files = append(files, ignoreText{at, string(b)})
		}
	}
	add(".", ".git/info/exclude")
	add(".", ".gitignore")
	for i, c := range string(p) {
		if c == '/' {
			add(p[:i], p[:i]+"/.gitignore")
		}
	}
	if len(files)+len(w.excludes) == 0 {
		return false
	}
	return w.ignorer(files).Ignored(p, dir)
}

// ignoreText is an ignore file as it was read.
type ignoreText struct {
	dir  op.Path
	text string
}

// ignorer compiles ignore files, or takes what was compiled last if they read the same.
func (w *Workspace) ignorer(files []ignoreText) *protected.Ignorer {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ignoring == nil || !slices.Equal(files, w.ignoringFrom) {
		list := []protected.IgnoreFile{{Dir: ".", Lines: w.excludes}}
		for _, f := range files {
			list = append(list, protected.IgnoreFile{Dir: f.dir, Lines: strings.Split(f.text, "\n")})
		}
		w.ignoring, w.ignoringFrom = protected.NewIgnorer(list), files
	}
	return w.ignoring
}

// small reads a file of ours to read, nil when there is none.
func (w *Workspace) small(ctx context.Context, p op.Path) []byte {
	if i, err := w.Root.Peek(ctx, p); err != nil || i.Kind != op.File {
		return nil
	}
	n, err := w.Root.Look(ctx, p, false)
	if err != nil {
		return nil
	}
	defer n.Close()
	if n.Info.Kind != op.File {
		return nil
	}
	b, err := n.Read(maxPatternFile)
	if err != nil {
		return nil
	}
	return b
}

// ShapesRepository reports whether p lies in, or would complete, a directory that git
// takes for a repository: HEAD with objects, refs or config beside it.
func (w *Workspace) ShapesRepository(ctx context.Context, p op.Path) bool {
	return w.shapes(p, func(p op.Path) bool { return w.there(ctx, p) })
}

// shapes is ShapesRepository in a tree of which there tells what stands in it.
func (w *Workspace) shapes(p op.Path, there func(op.Path) bool) bool {
	child := path.Base(string(p))
	for dir := p.Parent(); ; dir, child = dir.Parent(), dir.Base() {
		names := []string{child}
		for _, name := range []string{"HEAD", "config", "commondir", "objects", "refs"} {
			if protected.SameName(name, child) {
				continue
			}
			if there(dir.Join(name)) {
				names = append(names, name)
			} else if name == "HEAD" {
				// Without HEAD there is no repository, whatever else is there.
				names = nil
				break
			}
		}
		if names != nil && protected.LooksLikeGitDir(names) {
			return true
		}
		if dir == "." {
			return false
		}
	}
}

func (w *Workspace) there(ctx context.Context, p op.Path) bool {
	i, err := w.Root.Peek(ctx, p)
	return err == nil && i.Kind != op.Absent
}

// refresh reads the workspace's own patterns again when their file changed.
func (w *Workspace) refresh(ctx context.Context) error {
	i, err := w.Root.Peek(ctx, patternFile)
	if err != nil {
		return err
	}
	w.mu.Lock()
	same := i == w.setFrom
	w.mu.Unlock()
	if same {
		return nil
	}
	n, err := w.Root.Look(ctx, patternFile, false)
	if err != nil {
		return err
	}
	defer n.Close()
	var lines []string
	if n.Info.Kind == op.File {
		b, err := n.Read(maxPatternFile)
		if err != nil {
			return err
		}
		lines = strings.Split(string(b), "\n")
	}
	return w.reload(ctx, n.Info, lines)
}

// reload compiles the lists. The operator's bad line is an error; the workspace's is
// skipped and said in status.
func (w *Workspace) reload(_ context.Context, from rooted.Info, lines []string) error {
	set, warnings, err := protected.New(protected.Source{Operator: w.operator, Workspace: lines})
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set, w.setFrom, w.Warnings, w.below = set, from, warnings, nil
	return nil
}
