package gitread

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// worktree compares the index with the files, and finds what the index does not know.
type worktree struct {
	r     *repo
	x     *index
	specs pathspecs
	attrs *attributes
	bits  bool // whether the file system's x bit means anything
	ahead *ahead

	untracked string // "normal", "all" or "no"
	changes   []change
	unmerged  map[string]string // path: git's two letters
	others    []string          // untracked; a directory ends in a slash
	undecided []string
}

// scan looks at all that the index knows and the specs ask for.
func (r *repo) scan(ctx context.Context, x *index, specs pathspecs, untracked string) (*worktree, error) {
	w := &worktree{r: r, x: x, specs: specs, attrs: r.attributes(ctx), bits: r.conf.flag("core.filemode", true), untracked: untracked, unmerged: map[string]string{}}
	n, err := r.top.root.Look(ctx, r.top.path, false)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	b, err := n.Below()
	if err != nil {
		return nil, err
	}
	defer b.Close()
	rules, err := w.rules(ctx)
	if err != nil {
		return nil, err
	}
	w.ahead = lookAhead(ctx, b, x.entries, w.enters)
	defer w.ahead.end()
	return w, w.dir(ctx, b, "", x.entries, rules, false)
}

// rules are what holds in the whole work tree: the user's lines or the file that the
// configuration names, then the repository's own.
func (w *worktree) rules(ctx context.Context) (Rules, error) {
	none, top := w.r.o.Rules, w.r.prefix()
	rules := none.Within(top, w.r.o.Globals)
	if named, set := w.r.conf["core.excludesfile"]; set && named != "" {
		at, err := w.r.o.resolve(w.r.top, named)
		if err != nil {
			return nil, unsupported("core.excludesFile of the repository names a file outside the workspace")
		}
		text, err := at.small(ctx, maxAttributes)
		if err != nil {
			return nil, err
		}
		rules = none.Within(top, strings.Split(string(text), "\n"))
	}
	text, err := w.r.common.join("info/exclude").small(ctx, maxAttributes)
	if err != nil {
		return nil, err
	}
	return rules.Within(top, strings.Split(string(text), "\n")), nil
}

// prefix is the top's path as rules want it, "" for the root.
func (r *repo) prefix() string {
	if r.top.path == "." {
		return ""
	}
	return string(r.top.path)
}

// dir compares one directory. Once ignored, only what the index knows is looked for.
func (w *worktree) dir(ctx context.Context, b *rooted.Below, dir string, list []entry, rules Rules, ignored bool) error {
	l := w.ahead.take(ctx, dir)
	defer l.close()
	d, err := l.dir, l.open
	if errors.Is(err, op.NotFound) || errors.Is(err, op.NotADirectory) || errors.Is(err, op.SymlinkRefused) {
		w.gone(list)
		return nil
	}
	if err != nil && len(list) == 0 {
		w.undecided = append(w.undecided, dir+"/") // another mount, or nobody may look
		return nil
	}
	if err != nil {
		return err
	}
	if l.err != nil {
		return l.err
	}
	if w.untracked != "no" && !ignored {
		rules = rules.Within(w.r.inRoot(dir), l.ignoreLines())
	}
	known := map[string]group{}
	for _, g := range groups(dir, list) {
		known[g.name+slash(g.dir)] = g
	}
	for i, f := range l.names {
		if f.Name == ".git" {
			continue
		}
		if g, ok := known[f.Name]; ok && f.Kind == op.File { // as most are
			delete(known, f.Name)
			if err := w.file(ctx, d, f, l.infos[i], g.list[0].path, g.list); err != nil {
				return err
			}
			continue
		}
		at := below(dir, f.Name)
		if g, ok := known[f.Name+slash(f.Kind == op.Directory)]; ok && g.dir && f.Kind == op.Directory {
			delete(known, f.Name+"/")
			if !w.enters(at) {
				continue
			}
			now := ignored || w.untracked != "no" && rules.Ignores(w.r.inRoot(at), true)
			if err := w.dir(ctx, b, at, g.list, rules, now); err != nil {
				return err
			}
			continue
		}
		if g, ok := known[f.Name]; ok && (f.Kind != op.Directory || g.list[0].mode == filemode.Submodule) {
			delete(known, f.Name)
			if err := w.file(ctx, d, f, l.infos[i], at, g.list); err != nil {
				return err
			}
			continue
		}
		_, file := known[f.Name]
		// Where a directory has come in the place of a file, git tells of the file alone.
		if !ignored && w.untracked != "no" && !(file && w.untracked == "normal") {
			if err := w.other(ctx, b, f, at, rules); err != nil {
				return err
			}
		}
	}
	for _, g := range known {
		w.gone(g.list)
	}
	return nil
}

func slash(dir bool) string {
	if dir {
		return "/"
	}
	return ""
}

// ignoreLines are those of the directory's own ignore file.
func (l *listing) ignoreLines() []string {
	for _, f := range l.names {
		if f.Name == ".gitignore" {
			return ignoreLines(l.dir)
		}
	}
	return nil
}

func ignoreLines(d *rooted.Dir) []string {
	b := d.Small(".gitignore", maxAttributes)
	if b == nil {
		return nil
	}
	return strings.Split(string(b), "\n")
}

// inRoot is a path from the root as rules want it.
func (r *repo) inRoot(p string) string {
	if f := r.full(p); f != "." {
		return f
	}
	return ""
}

func (w *worktree) wants(p string) bool {
	return len(w.specs) == 0 || w.specs.match(w.r.full(p))
}
func (w *worktree) enters(d string) bool { return w.specs.within(w.r.full(d)) }

// gone notes what the index knows and the work tree does not hold.
func (w *worktree) gone(list []entry) {
	for i := range list {
		e := &list[i]
		switch {
		case !w.wants(e.path) || e.skip || e.trusted:
		case e.stage != 0:
			w.conflict(list, e.path)
		default:
			w.changes = append(w.changes, change{path: e.path, old: side{hash: e.hash, mode: e.mode}})
		}
	}
}

var conflicts = [8]string{1: "DD", 2: "AU", 3: "UD", 4: "UA", 5: "DU", 6: "AA", 7: "UU"}

func (w *worktree) conflict(list []entry, p string) {
	bits := 0
	for _, e := range list {
		if e.path == p && e.stage > 0 {
			bits |= 1 << (e.stage - 1)
		}
	}
	w.unmerged[p] = conflicts[bits]
}

// file compares one tracked file. is tells what was seen of it, if anything was.
func (w *worktree) file(ctx context.Context, d *rooted.Dir, f rooted.Found, is rooted.Info, at string, list []entry) (err error) {
	if !w.wants(at) {
		return nil
	}
	e := list[0]
	if e.stage != 0 {
		w.conflict(list, at)
		return nil
	}
	if e.trusted {
		return nil
	}
	if e.mode == filemode.Submodule {
		return w.submodule(ctx, f, e)
	}
	if is.Kind == "" {
		is, err = d.Info(f.Name)
	}
	if errors.Is(err, op.NotFound) {
		w.gone(list)
		return nil
	}
	if err != nil {
		return err
	}
	mode := w.mode(is, e.mode)
	if e.intent {
		w.changes = append(w.changes, change{path: at, new: side{mode: mode, live: true}})
		return nil
	}
	same, decided := true, true
	switch {
	case mode == 0: // a pipe, a socket or a device: git takes it as gone
		w.gone(list)
		return nil
	case typeOf(mode) != typeOf(e.mode):
		same = false
	case !w.asRecorded(e, is):
		if same, decided, err = w.sameBytes(ctx, d, f, at, e, is); err != nil {
			return err
		}
	}
	switch {
	case !decided:
		w.undecided = append(w.undecided, at)
	case !same:
		w.changes = append(w.changes, change{path: at, old: side{hash: e.hash, mode: e.mode}, new: side{mode: mode, live: true}})
	case mode != e.mode:
		w.changes = append(w.changes, change{path: at, old: side{hash: e.hash, mode: e.mode}, new: side{hash: e.hash, mode: mode}})
	}
	return nil
}

// mode is what git would record; 0 for what it does not track.
func (w *worktree) mode(is rooted.Info, recorded filemode.FileMode) filemode.FileMode {
	switch is.Kind {
	case op.Symlink:
		return filemode.Symlink
	case op.File:
		if !w.bits && typeOf(recorded) == typeOf(filemode.Regular) {
			return recorded
		}
		if is.Mode&0o100 != 0 {
			return filemode.Executable
		}
		return filemode.Regular
	}
	return 0
}

// asRecorded tells from the stat data alone that a file holds what the index says. It says
// no where any of it differs, and where the file was written in the very moment that the
// index was or later, since a second write in that moment would leave the same data.
func (w *worktree) asRecorded(e entry, is rooted.Info) bool {
	m, c := is.Mtime, is.Ctime
	if uint32(is.Size) != e.size || uint32(m.Unix()) != e.mtime[0] || uint32(m.Nanosecond()) != e.mtime[1] ||
		uint32(c.Unix()) != e.ctime[0] || uint32(c.Nanosecond()) != e.ctime[1] || uint32(is.Ino) != e.ino || is.UID != e.uid || is.GID != e.gid {
		return false
	}
	return m.Before(w.x.mtime)
}

// sameBytes compares a file with the blob that the index names.
func (w *worktree) sameBytes(ctx context.Context, d *rooted.Dir, f rooted.Found, at string, e entry, is rooted.Info) (same, decided bool, err error) {
	if is.Kind == op.Symlink {
		to, err := w.r.link(ctx, at)
		return blobHash([]byte(to)) == e.hash, true, err
	}
	how := w.attrs.convert(at)
	if how == unknown {
		return false, false, nil
	}
	if how == asIs && is.Size > maxObject {
		h, err := hashLarge(ctx, d, f.Name)
		return h == e.hash, true, err
	}
	if is.Size > maxObject {
		return false, false, nil
	}
	b, err := wholeFile(d, f.Name)
	if err != nil {
		return false, false, err
	}
	b = how.clean(b, func() []byte { s, _ := w.r.store.blob(e.hash); return s })
	return blobHash(b) == e.hash, true, nil
}

func wholeFile(d *rooted.Dir, name string) ([]byte, error) {
	rd, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer rd.Close()
	b := make([]byte, rd.Size)
	n, err := rd.ReadAt(b, 0)
	return b[:n], err
}

func hashLarge(ctx context.Context, d *rooted.Dir, name string) (h plumbing.Hash, err error) {
	rd, err := d.Open(name)
	if err != nil {
		return h, err
	}
	defer rd.Close()
	sum := sha1.New()
	fmt.Fprintf(sum, "blob %d\x00", rd.Size)
	b := make([]byte, 256<<10)
	for off := int64(0); off < rd.Size; {
		if err := ctx.Err(); err != nil {
			return h, op.Fail(op.Cancelled, "cancelled while hashing").Because(err)
		}
		n, err := rd.ReadAt(b[:min(int64(len(b)), rd.Size-off)], off)
		if err != nil || n == 0 {
			return h, err
		}
		sum.Write(b[:n])
		off += int64(n)
	}
	copy(h[:], sum.Sum(nil))
	return h, nil
}

// link reads the text of a symlink of the work tree.
func (r *repo) link(ctx context.Context, at string) (string, error) {
	n, err := r.top.root.Look(ctx, r.top.join(at).path, false)
	if err != nil {
		return "", err
	}
	defer n.Close()
	return n.Info.Target, nil
}

// submodule compares the commit that is checked out in one, and whether its own work tree
// is clean. One that is not checked out is as recorded.
func (w *worktree) submodule(ctx context.Context, f rooted.Found, e entry) error {
	old := side{hash: e.hash, mode: e.mode}
	if f.Kind != op.Directory {
		w.changes = append(w.changes, change{path: e.path, old: old, new: side{mode: filemode.Regular, live: true}})
		return nil
	}
	top := w.r.top.join(e.path)
	if k := top.join(".git").kind(ctx); k == op.Absent || w.r.depth > 8 {
		return nil
	}
	sub, err := open(ctx, w.r.o, top, w.r.depth+1)
	if err != nil {
		if c := op.AsError(err).Code; c == op.OutsideWorkspace || c == op.GitUnsupported {
			w.undecided = append(w.undecided, e.path)
			return nil
		}
		return err
	}
	defer sub.close()
	_, at, err := sub.head()
	if err != nil {
		return err
	}
	d, err := sub.dirty(ctx)
	if err != nil {
		return err
	}
	switch {
	case at != e.hash || d.tracked || d.untracked:
		w.changes = append(w.changes, change{path: e.path, old: old, new: side{hash: at, mode: filemode.Submodule, live: d.tracked}})
	case d.undecided:
		w.undecided = append(w.undecided, e.path)
	}
	return nil
}

// dirt is how a work tree differs from its commit.
type dirt struct{ tracked, untracked, undecided bool }

func (r *repo) dirty(ctx context.Context) (d dirt, err error) {
	x, err := r.readIndex(ctx)
	if err != nil {
		return d, err
	}
	staged, err := r.staged(ctx, x, nil)
	if err != nil {
		return d, err
	}
	w, err := r.scan(ctx, x, nil, "normal")
	if err != nil {
		return d, err
	}
	return dirt{len(staged)+len(w.changes)+len(w.unmerged) > 0, len(w.others) > 0, len(w.undecided) > 0}, nil
}

// headTree is the tree of the commit at HEAD; the empty one before the first.
func (r *repo) headTree() (plumbing.Hash, error) {
	_, at, err := r.head()
	if err != nil || at.IsZero() {
		return emptyTree, err
	}
	c, err := r.store.commit(at)
	if err != nil {
		return at, err
	}
	return c.TreeHash, nil
}

// staged compares the commit at HEAD with the index.
func (r *repo) staged(ctx context.Context, x *index, specs pathspecs) ([]change, error) {
	tree, err := r.headTree()
	if err != nil {
		return nil, err
	}
	return r.against(x, tree, specs)
}

// against compares a tree with the index.
func (r *repo) against(x *index, tree plumbing.Hash, specs pathspecs) ([]change, error) {
	c := &compare{r: r, specs: specs}
	err := c.tree(x, tree, "", x.entries)
	return sorted(c.out), err
}

// other notes a name that the index does not know.
func (w *worktree) other(ctx context.Context, b *rooted.Below, f rooted.Found, at string, rules Rules) error {
	isDir := f.Kind == op.Directory
	if f.Kind != op.File && f.Kind != op.Symlink && !isDir || rules.Ignores(w.r.inRoot(at), isDir) {
		return nil
	}
	if !isDir {
		if w.wants(at) {
			w.others = append(w.others, at)
		}
		return nil
	}
	if !w.enters(at) {
		return nil
	}
	if w.nested(ctx, at) {
		if w.specs.match(w.r.full(at) + "/") {
			w.others = append(w.others, at+"/")
		}
		return nil
	}
	if w.untracked == "normal" && w.specs.match(w.r.full(at)+"/") {
		found, err := w.holds(ctx, b, at, rules)
		if found {
			w.others = append(w.others, at+"/")
		}
		return err
	}
	return w.dir(ctx, b, at, nil, rules, false)
}

// nested tells whether a directory is a repository of its own.
func (w *worktree) nested(ctx context.Context, at string) bool {
	git := w.r.top.join(path.Join(at, ".git"))
	k := git.kind(ctx)
	return k == op.File || k == op.Directory && git.join("HEAD").kind(ctx) == op.File
}

// holds tells whether a directory that the index does not know has a file that is not
// ignored.
func (w *worktree) holds(ctx context.Context, b *rooted.Below, dir string, rules Rules) (bool, error) {
	d, err := b.Dir(dir)
	if err != nil {
		if !errors.Is(err, op.NotFound) {
			w.undecided = append(w.undecided, dir+"/")
		}
		return false, nil
	}
	defer d.Close()
	names, err := d.Names(ctx)
	if err != nil {
		return false, err
	}
	rules = rules.Within(w.r.inRoot(dir), ignoreLines(d))
	for _, f := range names {
		at := below(dir, f.Name)
		isDir := f.Kind == op.Directory
		if f.Name == ".git" || f.Kind != op.File && f.Kind != op.Symlink && !isDir || rules.Ignores(w.r.inRoot(at), isDir) {
			continue
		}
		if !isDir || w.nested(ctx, at) {
			return true, nil
		}
		if found, err := w.holds(ctx, b, at, rules); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// liveBytes reads a file of the work tree as it would be stored.
func (r *repo) liveBytes(ctx context.Context, attrs *attributes, s side, at string) ([]byte, error) {
	n, err := r.top.root.Look(ctx, r.top.join(at).path, false)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	if n.Info.Kind == op.Symlink {
		return []byte(n.Info.Target), nil
	}
	if n.Info.Kind != op.File {
		return nil, nil
	}
	how := attrs.convert(at)
	if how == unknown {
		return nil, unsupported("a program would have to tell what is stored of this file").At(n.Path)
	}
	b, err := n.Read(maxObject)
	if err != nil {
		return nil, err
	}
	return how.clean(b, func() []byte { b, _ := r.store.blob(s.hash); return b }), nil
}
