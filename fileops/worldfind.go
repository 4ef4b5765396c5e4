package fileops

import (
	"context"
	"maps"
	"slices"
	"strings"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// maxWorldLinks is how many links one path may lead through.
const maxWorldLinks = 40

// Found is what a path of a batch leads to, once the parts before it are done.
type Found struct {
	Path op.Path // canonical, in the tree as it will be
	AsIs bool    // it stands there now, and nothing that the batch does bears on it
	Was  op.Path // where it stands now; empty when the batch makes it or nothing is there

	// Of what is not as it is:
	Node   *rooted.Node // a stand-in, closed with the World
	Target op.Target    // facts of what will be there; without marks, and without a hash where the bytes are those of now
	Bytes  []byte       // the whole content where the batch makes it
	Made   bool         // the content is the batch's
}

// Find follows a cleaned path, with follow also a link at its end, in the world as it
// will be. It opens nothing but names on the way, and refuses as a look at the workspace
// would: what leads out is outside_workspace whatever is there.
func (w *World) Find(ctx context.Context, p op.Path, follow bool) (Found, error) {
	f := finder{w: w, asked: p, cur: w.top, asIs: true, todo: names(p)}
	for len(f.todo) > 0 {
		done, err := f.step(ctx, follow)
		if err != nil {
			return Found{}, err
		}
		if done {
			break
		}
	}
	return f.found(ctx)
}

// finder walks by names; it never asks the file system for "..".
type finder struct {
	w       *World
	asked   op.Path
	cur     *thing // where the walk is: a directory until it ends
	missing []op.Path
	end     op.Path // where nothing will stand; empty while something is found
	asIs    bool
	todo    []string
	linked  int // how many of todo come out of links
	links   []op.Link
}

func (f *finder) step(ctx context.Context, follow bool) (done bool, err error) {
	name := f.todo[0]
	f.todo = f.todo[1:]
	linked := f.linked > 0
	f.linked = max(f.linked-1, 0)
	switch name {
	case ".":
		return false, nil
	case "..":
		if f.cur.in == nil {
			return false, leadsOut(f.asked)
		}
		f.cur = f.cur.in
		return false, nil
	}
	if f.cur.kind != op.Directory {
		return false, op.Fail(op.NotADirectory, "a name on the way is a "+string(f.cur.kind)+", not a directory").At(f.asked)
	}
	if f.cur.moved[name] || !f.cur.asNow() {
		f.asIs = false
	}
	c, err := f.w.child(ctx, f.cur, name)
	if err != nil {
		return false, err
	}
	last := len(f.todo) == 0
	switch {
	case c == nil && linked:
		return false, f.dangling()
	case c == nil:
		f.end = f.cur.path().Join(name)
		for _, n := range f.todo {
			f.missing = append(f.missing, f.end)
			f.end = f.end.Join(n)
		}
		return true, nil
	case c.blind:
		return false, unforeseen(c.path())
	case c.kind == op.Symlink && (!last || follow):
		return false, f.through(c)
	}
	if c.fresh != nil {
		f.asIs = false
	}
	f.cur = c
	return false, nil
}

// through puts a link's text before what is left to walk.
func (f *finder) through(link *thing) error {
	text := link.now.Target
	f.links = append(f.links, op.Link{Path: link.path(), Target: text})
	switch {
	case len(f.links) > maxWorldLinks:
		return op.Fail(op.SymlinkRefused, "the links on the way go round in a circle").At(f.asked)
	case strings.HasPrefix(text, "/"):
		// One that leads inside is refused as well, and so looked at only as it stands now.
		if f.asIs && link.asNow() {
			return f.asItIs()
		}
		return op.Fail(op.SymlinkRefused, "the link "+op.Escape(string(link.path()))+" is absolute; only relative links are followed").At(f.asked)
	}
	var names []string
	for _, n := range strings.Split(text, "/") {
		if n != "" && n != "." {
			names = append(names, n)
		}
	}
	if rooted.MeansDirectory(text) {
		names = append(names, ".")
	}
	f.todo, f.linked = append(names, f.todo...), f.linked+len(names)
	return nil
}

// asItIs lets the workspace say what it has to say of a path that no part bears on.
func (f *finder) asItIs() error {
	n, err := f.w.look.Look(context.Background(), f.asked, true)
	if err == nil {
		n.Close()
		err = op.Fail(op.Stale, "a link changed while the batch was planned").At(f.asked).Do("try again")
	}
	return err
}

func (f *finder) dangling() error {
	depth := len(names(f.cur.path())) + 1
	for _, n := range f.todo[:min(f.linked, len(f.todo))] {
		if n == ".." {
			depth--
		} else if n != "." {
			depth++
		}
		if depth < 0 {
			return leadsOut(f.asked)
		}
	}
	return op.Fail(op.NotFound, "a link on the way leads to nothing").At(f.asked).Do("name the file itself, or remove the link")
}

func leadsOut(p op.Path) *op.Error {
	return op.Fail(op.OutsideWorkspace, "the path leads out of the workspace").At(p).Do("give a path that stays below the root")
}

// found describes where the walk ended.
func (f *finder) found(ctx context.Context) (Found, error) {
	out := Found{Path: f.cur.path(), AsIs: f.asIs && f.cur.asNow(), Was: f.cur.was}
	if f.end != "" {
		out.Path, out.Was = f.end, ""
	}
	if out.AsIs && (f.end != "" || f.cur.kind != op.Directory || !f.cur.touched()) {
		return out, nil
	}
	out.AsIs = false
	out.Target = op.Target{Path: out.Path, Links: f.links, Kind: op.Absent}
	var err error
	if f.end != "" {
		out.Node, err = f.nowhere(ctx, out.Path)
	} else {
		err = f.w.standIn(ctx, f.cur, &out)
	}
	if err != nil {
		return Found{}, err
	}
	out.Node.Links = f.links
	f.w.open = append(f.w.open, out.Node)
	return out, nil
}

// nowhere stands in for nothing, in the directory that will be there.
func (f *finder) nowhere(ctx context.Context, p op.Path) (*rooted.Node, error) {
	there := f.cur
	for there != nil && there.was == "" { // made by the batch: it will be as the one above it
		there = there.in
	}
	if there == nil {
		return rooted.Absence(p, nil, true, f.missing)
	}
	dir, err := f.w.look.Look(ctx, there.was, false)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return rooted.Absence(p, dir, len(f.missing) > 0 || there != f.cur, f.missing)
}

// standIn fills in a thing that will stand at a path.
func (w *World) standIn(ctx context.Context, t *thing, out *Found) (err error) {
	g := &out.Target
	g.Exists, g.Kind, g.Mode, g.LinkCount = true, t.kind, t.now.ModeString(), t.now.Links
	mode := t.now.Mode
	if t.was == "" {
		mode, g.LinkCount = 0o644, 1
	}
	switch {
	case t.fresh != nil:
		if t.was == "" && t.fresh.perm != 0 {
			mode = t.fresh.perm
		}
		if t.fresh.mode != nil {
			mode = *t.fresh.mode
		}
		if out.Bytes, err = t.fresh.read(); err != nil {
			return unforeseen(out.Path)
		}
		out.Made = true
		g.Size, g.Hash, g.Mode = int64(len(out.Bytes)), rooted.HashBytes(out.Bytes), rooted.Info{Mode: mode}.ModeString()
		out.Node, err = rooted.Imagine(out.Path, out.Bytes, mode)
		if err == nil && t.was != "" {
			out.Node.Info.Links = t.now.Links
		}
	case t.was == "":
		out.Node = rooted.NewDir(out.Path)
		g.Mode = out.Node.Info.ModeString()
	default:
		var n *rooted.Node
		if n, err = w.look.Look(ctx, t.was, false); err != nil {
			return err
		}
		defer n.Close()
		g.Size = n.Info.Size
		out.Node, err = n.As(out.Path)
	}
	return err
}

// names gives the names of a path; the root has none.
func names(p op.Path) []string {
	if p == "." || p == "" {
		return nil
	}
	return strings.Split(string(p), "/")
}

func sortedNames(m map[string]*thing) []string { return slices.Sorted(maps.Keys(m)) }
